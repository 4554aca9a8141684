"""What a client, a stranger, a network or a server may do wrong, and what comes of it. Each is a class of faults, tried through the door that it would take."""

import json
import logging
import ssl
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import pytest
import trio
from hypothesis import example, given, settings, strategies as st

from agentrail.abc import DirectoryEntry, ExecuteOptions, FileBytes, ProcessOptions
from agentrail.app import open_supervisor
from agentrail.errors import OptionError
from agentrail.gateway.error_responses import CallRefused
from agentrail.gateway.sandboxes.app import SandboxApp
from agentrail.gateway.sandboxes.lease_directories import open_local_workspace
from agentrail.gateway.sandboxes.lease_operations import decode_asked
from agentrail.gateway.sandboxes.leases import Lease, Leases
from agentrail.gateway.serving import addresses_of, open_listeners, serve_app, tls_context
from agentrail.host.hook_payloads import Principal
from agentrail.process_account import ProcessAccount, keep_account
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.sandboxes.remote import client as client_module, operations
from agentrail.sandboxes.remote.client import RemoteSandbox
from agentrail.sandboxes.remote.multipart import decode_parts, encode_parts
from agentrail.sandboxes.remote.operations import SANDBOX_TOKEN_VARIABLE
from agentrail.testing.models import ScriptedModel, calls
from agentrail.testing.orphans import no_orphans
from agentrail.tools import builtin
from tests.sandboxes.remote.rig import HURRY, OTHER_TOKEN, TOKEN, serving, tokens_of

unconfined = partial(open_local_workspace, shell_fallback="unconfined")


async def until(condition):
    """Wait for something that comes soon."""
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - the server's own state has no event
            await trio.sleep(0.005)


def path_of(sandbox, rest=""):
    """The path of a client's lease."""
    return f"/leases/{sandbox._lease}{rest}"  # noqa: SLF001 - what a thief of it would know


def asking(served, token=TOKEN):
    """A client of HTTP that says what it likes."""
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    return httpx.AsyncClient(base_url=served.url, headers=headers, verify=False, timeout=5)  # noqa: S501 - no TLS


# --- who may ask


async def test_a_lease_of_another_client_is_unknown_to_everybody_else():
    """Its id alone opens nothing: with another token it is not there, cannot be ended, and is not made a second time."""
    async with serving() as served:
        mine = served.make()
        assert (await mine.write("a", "mine")).error is None
        other = served.make(token=OTHER_TOKEN)
        other._lease = mine._lease  # noqa: SLF001 - stolen
        refused = (await other.read("a")).error
        assert refused.code == "io_error"
        assert "does not know this workspace" in refused.message
        async with asking(served, OTHER_TOKEN) as web:
            for method, rest in (("PUT", ""), ("POST", "/beat"), ("POST", "/operations/1/stop")):
                assert (await web.request(method, path_of(mine, rest))).status_code == 404
            assert (await web.delete(path_of(mine))).status_code == 200  # as for one that there never was
        assert (await mine.read("a")).text == "mine"
        await other.aclose()
        await mine.aclose()
        assert not served.leases


async def test_two_clients_that_begin_at_once_have_no_workspaces_that_are_not_confined():
    """The first one keeps its own, and the other one is refused, as it would be a moment later."""
    opening = trio.Event()

    class Unconfined(MemorySandbox):
        is_unconfined = True

    @asynccontextmanager
    async def open_slowly():
        await opening.wait()
        yield Unconfined()

    async with serving(open_slowly) as served, trio.open_nursery() as nursery:
        mine, other = served.make(), served.make(token=OTHER_TOKEN)
        for number, sandbox in enumerate((mine, other), 1):
            nursery.start_soon(sandbox.exists, "a")
            await until(lambda number=number: len(served.leases) == number)
        opening.set()
        assert (await mine.write("a", "mine")).error is None
        async with asking(served, OTHER_TOKEN) as web:
            answer = await web.post(path_of(other, "/operations/9/list_dir"), json={"path": "."})
        assert answer.status_code in {404, 409}
        refused = (await other.list_dir(".")).error
        assert refused.code == "io_error"
        await until(lambda: len(served.leases) == 1)


async def test_nothing_is_answered_without_the_token(caplog):
    """No path, no method and no body gets past it; a wrong one is told with the address, and stands in no log and no answer."""
    caplog.set_level(logging.DEBUG)
    async with serving() as served:
        for token in ("agt_wrong_wrong_wrong_wrong", TOKEN[:-1], TOKEN + "x"):
            sandbox = served.make(token=token)
            refused = (await sandbox.read("a")).error
            assert refused.code == "io_error"
            assert served.url in refused.message
            assert "it rejects the token:" in refused.message
            assert token not in refused.message
            await sandbox.aclose()
        async with httpx.AsyncClient(base_url=served.url, verify=False) as web:  # noqa: S501 - no TLS
            for path in ("/", f"/leases/{'0' * 32}", f"/leases/{'0' * 32}?token={TOKEN}"):
                for method in ("GET", "PUT", "POST", "DELETE"):
                    answer = await web.request(method, path, content=b"x")
                    assert answer.status_code == 401, (method, path)
                    assert TOKEN not in answer.text
        assert not served.leases
    said = "".join(
        record.getMessage() for record in caplog.records if record.name != "httpx"
    )  # that is this test's
    assert TOKEN not in said
    assert "agt_wrong" not in said


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://10.0.0.5:8710", "is another machine"),
        ("http://localhost.example", "is another machine"),
        ("http://user:secret@127.0.0.1:1", "remove it"),
        ("ftp://127.0.0.1", "expected http://host:port"),
        ("http://127.0.0.1/path", "no path"),
        ("http://127.0.0.1:99999", "expected http://host:port"),
        ("https://host..example", "expected http://host:port"),
        ("http://", "expected http://host:port"),
        ("http://127.0.0.1?can=fly", "expected some of execute, snapshot"),
        ("http://127.0.0.1?can=execute&can=snapshot", "each once"),
        ("http://127.0.0.1?token=x", "nothing else"),
        ("http://127.0.0.1?insecure=perhaps", "true or false"),
        ("http://127.0.0.1\n", "printable"),
        ("http://127.0.0.1?x", "expected http://host:port"),
    ],
)
def test_an_address_that_can_be_none_is_refused(address, said):
    """Before anything is sent; what may be a secret in it is not repeated."""
    with pytest.raises(OptionError, match=r"address of a sandbox cannot be used") as caught:
        RemoteSandbox(address, token=TOKEN)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_an_address_says_what_its_server_can():
    """And a token that can be none is refused without being repeated, since it would be a header."""
    plain = RemoteSandbox("http://[::1]:8710", token=TOKEN)
    assert (repr(plain), plain.capabilities) == ("RemoteSandbox('http://[::1]:8710')", {"execute"})
    assert RemoteSandbox("http://box:1?insecure=true&can=", token=TOKEN).capabilities == frozenset()
    assert RemoteSandbox("https://box?can=execute,snapshot", token=TOKEN).capabilities == wire_capabilities()
    assert TOKEN not in repr(vars(plain))
    for token in ("", "short", f"{TOKEN}\r\nx: y"):
        with pytest.raises(OptionError, match="needs the token of its server") as caught:
            RemoteSandbox("http://127.0.0.1", token=token)
        assert not token or token not in str(caught.value)


def wire_capabilities():
    """All that can be had over the wire."""
    return frozenset({"execute", "snapshot"})


# --- what is asked


async def test_what_is_said_of_a_server_has_to_be_so():
    """A difference refuses every call, and names both sides."""
    async with serving() as served:
        sandbox = served.make("?can=execute")
        refused = (await sandbox.write("a", "x")).error
        assert refused.code == "unsupported"
        assert "can=execute, but its server reports snapshot" in refused.message
        assert await sandbox.connect() == refused
        await sandbox.aclose()
        silent = served.make()
        assert silent.capabilities == {"execute"}
        assert await silent.connect() is None
        assert silent.capabilities == {"snapshot"}
        await silent.aclose()


steps = st.one_of(
    st.tuples(st.just("arrive"), st.integers(1, 6), st.sampled_from([b"a", b"b"])),
    st.tuples(st.just("stop"), st.integers(1, 6), st.none()),
    st.tuples(st.just("settle"), st.integers(0, 7), st.none()),
    st.tuples(st.just("end"), st.integers(1, 6), st.none()),
)


@given(st.lists(steps, max_size=30))
@example([("arrive", 1, b"a"), ("settle", 2, None), ("end", 1, None), ("settle", 0, None)])
def test_no_number_begins_twice_and_none_that_is_settled_or_stopped(script):
    """Whatever arrives, again, late, or after its stop; and nothing is kept of what is settled and over."""
    lease = Lease(Principal(tenant_id="a", user_id="b"))
    begun, stopped, settled = set(), set(), 0
    for what, number, digest in script:
        if what == "arrive":
            with suppress(CallRefused):
                _, is_new = lease.arrive(number, digest)
                if is_new:
                    assert number not in begun | stopped
                    assert number >= settled
                    begun.add(number)
        elif what == "stop":
            operation = lease.stop(number)
            assert operation.scope.cancel_called
            stopped.add(number)
        elif what == "settle":
            lease.settle(number)
            settled = max(settled, number)
        elif number in lease.operations:
            lease.operations[number].is_over.set()
        assert all(
            n >= settled or not one.is_over.is_set()
            for n, one in lease.operations.items()
            if what == "settle"
        )
    assert lease.settled == settled


async def test_what_is_asked_of_a_server_is_bounded(monkeypatch):
    """Bodies, files, operations and workspaces: beyond the bound it says so, and what there is goes on."""
    async with serving() as served:
        sandbox = served.make()
        await sandbox.write("a", "mine")
        async with asking(served) as web:
            path = path_of(sandbox, "/operations/9/write")
            with monkeypatch.context() as patch:
                patch.setattr("agentrail.gateway.sandboxes.app.MAX_SANDBOX_BODY_BYTES", 1_000)
                assert (await web.post(path, content=b"x" * 1_001)).status_code == 413
            for body in (b"", b"[" * 100_000, b'{"path":1}', b'{"path":"a","content":"x","more":1}', b"\xff"):
                assert (await web.post(path, content=body)).status_code == 400, body[:20]
            for bad in (
                "/operations/0/write",
                "/operations/9/fly",
                f"/operations/{2**60}/write",
                "/operations/9/write/x",
            ):
                assert (await web.post(path_of(sandbox, bad), content=b"{}")).status_code in {400, 405}, bad
            for number in range(100, 100 + 255):  # and the one above
                lease = served.leases[sandbox._lease]  # noqa: SLF001 - as below
                lease.stop(number)
            full = await web.post(path, content=b'{"path":"b","content":"x"}')
            assert full.status_code == 429
        assert (await sandbox.read("a")).text == "mine"
        await sandbox.aclose()
        every = Leases()
        owner = Principal(tenant_id="a", user_id="b")
        for number in range(64):
            every.begin(f"{number:032x}", owner, 0.0)
        with pytest.raises(CallRefused) as caught:
            every.begin(f"{64:032x}", owner, 0.0)
        assert caught.value.answer.status == 503


async def test_a_text_that_no_request_can_carry_is_refused_here(monkeypatch):
    """Too large, or no text at all; files of more than one request travel in several."""
    async with serving() as served:
        sandbox = served.make()
        monkeypatch.setattr(client_module, "MAX_SANDBOX_BODY_BYTES", (1 << 20) + 600)
        assert (await sandbox.write("a", "x" * (2 << 20))).error.code == "too_large"
        assert (await sandbox.edit("a", "\ud800", "x")).error.code == "old_not_found"
        assert (await sandbox.edit("a", "x", "\ud800")).error.code == "not_text"
        assert (await sandbox.grep("\ud800", ".", operations.GrepOptions())).error.code == "invalid_pattern"
        assert (await sandbox.execute("\ud800", ExecuteOptions())).error.code == "invalid_command"
        assert (await sandbox.restore("\ud800")).code == "not_text"
        files = [FileBytes(path=f"f{n}", content=b"x" * 200) for n in range(5)]
        moved = await sandbox.upload([*files, FileBytes(path="big", content=b"x" * 900)])
        assert [one.error and one.error.code for one in moved] == [None] * 5 + ["too_large"]
        assert [one.size_bytes for one in await sandbox.download([f"f{n}" for n in range(5)])] == [200] * 5
        assert await sandbox.upload([]) == ()
        assert await sandbox.download([]) == ()
        await sandbox.aclose()


# --- paths


async def test_a_path_is_judged_where_the_files_are(tmp_path):
    """A link that is made there leads nowhere else, whoever asks; and an answer has no path outside of the workspace."""
    (tmp_path / "secret").write_text("canary")
    async with serving(unconfined) as served:
        sandbox = served.make()
        await sandbox.write("a", "x")
        (held,) = served.leases.values()
        root = held.sandbox._path  # noqa: SLF001 - a command there would know it
        (root / "out").symlink_to(tmp_path)
        (root / "direct").symlink_to(tmp_path / "secret")
        for path in ("out/secret", "direct", str(tmp_path / "secret"), "../secret", "a/../../etc/passwd"):
            refused = (await sandbox.read(path)).error
            assert refused.code == "invalid_path", path
            assert "canary" not in refused.message
            (moved,) = await sandbox.download([path])
            assert moved.content is None
            (moved,) = await sandbox.upload([FileBytes(path=path, content=b"x")])
            assert moved.error is not None
        assert (tmp_path / "secret").read_text() == "canary"
        assert await sandbox.leads_to("direct") == str(tmp_path / "secret")
        await sandbox.aclose()
        assert not root.exists()
    assert (tmp_path / "secret").exists()


# --- the middle of things


async def test_a_cancelled_command_is_gone_before_the_cancellation_travels_on():
    """With its grandchildren: when the caller goes on, nothing of it is left there; and the account of the call names nothing."""
    async with no_orphans(), serving(unconfined) as served:
        sandbox = served.make()
        account = ProcessAccount()
        keep_account(account)
        await sandbox.write("a", "x")
        (lease,) = served.leases.values()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                sandbox.execute, "(sleep 1000; echo) & touch begun; sleep 1000", ExecuteOptions()
            )
            root = lease.sandbox._path  # noqa: SLF001 - to see when it has begun
            await until((root / "begun").exists)
            assert lease.is_busy
            nursery.cancel_scope.cancel()
        assert not lease.is_busy
        assert not account.left_at
        await sandbox.aclose()


async def test_the_receipt_of_an_abort_says_where_something_may_be_left(monkeypatch):
    """Of a command that does not hear that it is to end: under `stuck`, by the tool and the address; the session is free."""
    monkeypatch.setattr("agentrail.gateway.sandboxes.app._WAIT_GONE_SECONDS", 0.05)
    begun, let_go = trio.Event(), trio.Event()

    class Deaf(MemorySandbox):
        async def execute(self, command, options):
            begun.set()
            with trio.CancelScope(shield=True):
                await let_go.wait()

    @asynccontextmanager
    async def open_that_is_deaf():
        yield Deaf()

    model = ScriptedModel([calls(("shell", {"command": "sleep"}))])
    async with (
        open_supervisor(environ={SANDBOX_TOKEN_VARIABLE: TOKEN}) as supervisor,
        serving(open_that_is_deaf) as served,
    ):
        try:
            session = await supervisor.start_session(model=model, tools=builtin("shell"), sandbox=served.url)
            await session.prompt("Go")
            await begun.wait()
            receipt = await session.abort("enough")
            assert [one.name for one in receipt.stuck] == [f"shell at {served.url}"]
            assert (await session.status()).phase == "idle"
        finally:
            let_go.set()


class Interrupting:
    """Stands in front of the server, and fails requests of some path as it is told."""

    def __init__(self, app):
        self.app = app
        self.broken = 0
        self.paths = []
        self.is_dead = False

    async def __call__(self, scope, receive, send):
        """As of ASGI."""
        if scope["type"] == "http":
            self.paths.append(scope["path"])
            if self.is_dead:
                await trio.sleep_forever()
            if self.broken:
                self.broken -= 1

                async def lose(message):
                    if message["type"] == "http.response.start":
                        scope["state"]["agentrail.cut"]()
                    raise trio.BrokenResourceError

                with suppress(trio.BrokenResourceError):
                    await self.app(scope, receive, lose)
                return
        await self.app(scope, receive, send)


async def test_a_lost_answer_is_asked_for_again_and_nothing_is_written_twice(monkeypatch):
    """A connection that breaks behind the write does not make a second one; one that stays broken is a refusal with the address."""
    monkeypatch.setattr("agentrail.sandboxes.remote.connection.PAUSES_SECONDS", (0.01, 0.01))
    fronts = []
    async with serving(wrap=lambda app: fronts.append(Interrupting(app)) or fronts[0]) as served:
        (front,) = fronts
        sandbox = served.make()
        await sandbox.write("a", "<x>")
        front.broken = 2
        edited = await sandbox.edit("a", "<x>", "<x><x>")
        assert (edited.error, edited.replacements) == (None, 1)
        assert (await sandbox.read("a")).text == "<x><x>"
        front.broken = 3
        refused = (await sandbox.read("a")).error
        assert refused.code == "io_error"
        assert served.url in refused.message
        assert "The connection failed, not the request" in refused.message
        assert (await sandbox.read("a")).error is None
        await sandbox.aclose()


async def test_a_server_that_ends_in_the_middle_is_a_refusal_with_its_address(monkeypatch):
    """Nothing hangs: what is under way, what comes next, and closing."""
    monkeypatch.setattr("agentrail.sandboxes.remote.connection.PAUSES_SECONDS", (0.01, 0.01))
    with trio.fail_after(60):
        async with serving(unconfined) as served:
            sandbox = served.make()
            await sandbox.write("a", "x")
            results = []

            async def run():
                results.append(await sandbox.execute("sleep 1000", ExecuteOptions(timeout_seconds=100)))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(run)
                await until(lambda: any(one.is_busy for one in served.leases.values()))
                served.stop.set()
            assert results[0].error.code == "io_error"
            assert served.url in results[0].error.message
        assert (await sandbox.read("a")).error.code == "io_error"
        assert await sandbox.exists("a") is False
        assert await sandbox.leads_to("a") is None
        assert (await sandbox.upload([FileBytes(path="a", content=b"")]))[0].error.code == "io_error"
        assert (await sandbox.download(["a", "b"]))[1].error.code == "io_error"
        assert await sandbox.snapshot() == ""
        await sandbox.aclose()
        assert "closed here" in (await sandbox.list_dir(".")).error.message


async def test_a_lease_ends_when_its_client_is_silent_and_a_beat_keeps_it(monkeypatch, autojump_clock):
    """Thirty seconds behind the last word; a client keeps its files for minutes without a call, until nobody has it."""
    leases = Leases()
    owner = Principal(tenant_id="a", user_id="b")
    lease, _ = leases.begin("0" * 32, owner, trio.current_time())
    beats = []

    class Beating(RemoteSandbox):
        async def beat(self):
            beats.append(trio.current_time())
            leases.find("0" * 32, owner, trio.current_time())

    sandbox = Beating("http://127.0.0.1:1", token=TOKEN)
    reference = client_module.weakref.ref(sandbox)
    beat = client_module._beat  # noqa: SLF001 - its one task
    with lease.scope:
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()
            nursery.start_soon(beat, reference, scope)
            await trio.sleep(300)
            assert not lease.scope.cancel_called
            assert len(beats) in {29, 30}
            scope.cancel()
            silent_since = trio.current_time()
            await trio.sleep(1_000)
    assert trio.current_time() - silent_since <= operations.LEASE_SECONDS
    with pytest.raises(CallRefused):
        leases.find("0" * 32, owner, trio.current_time())
    del sandbox
    with trio.fail_after(60):
        await beat(reference, trio.CancelScope())


async def test_a_server_for_one_is_done_with_its_workspace_and_an_idle_one_with_its_time():
    """A container ends with its session, and when nothing was asked of it for long; a beat is no question, a command is."""
    async with serving(is_for_one=True) as served:
        sandbox = served.make()
        await sandbox.connect()
        await sandbox.aclose()
        with trio.fail_after(2):
            await served.app.wait_done()
    async with serving(idle_seconds=0.1) as served:
        with trio.fail_after(60):
            await served.app.wait_done()


@pytest.mark.check
async def test_a_server_elsewhere_is_spoken_to_over_tls():
    """With a certificate that is believed, operations and processes alike; with one that is not, nothing is sent."""
    tls = Path(__file__).parents[2] / "gateway" / "tls"
    listeners = await open_listeners("127.0.0.1", 0)
    ((_, port),) = addresses_of(listeners)
    app, stop = SandboxApp(tokens_of(TOKEN), unconfined), trio.Event()
    serve = partial(
        serve_app,
        app,
        listeners,
        stop.wait,
        limits=HURRY,
        tls=tls_context(tls / "certificate.pem", tls / "key.pem"),
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(serve)
        trusted = ssl.create_default_context(cafile=tls / "certificate.pem")
        sandbox = RemoteSandbox(f"https://localhost:{port}", token=TOKEN, tls=trusted)
        assert (await sandbox.write("a", "x")).error is None
        async with sandbox.open_process(["cat", "a"], ProcessOptions()) as process:
            assert await process.stdout.receive_some() == b"x"
        await sandbox.aclose()
        stranger = RemoteSandbox(f"https://localhost:{port}", token=TOKEN)
        assert "certificate" in (await stranger.read("a")).error.message
        await stranger.aclose()
        stop.set()


# --- bytes


@pytest.mark.check
@settings(max_examples=200)
@given(st.binary(max_size=50), st.lists(st.binary(max_size=50), max_size=4), st.data())
def test_parts_come_out_as_they_went_in_and_nothing_else_is_read(head, contents, data):
    """Contents may hold anything, boundaries too; a body that was changed in any place is refused, or its contents alone have changed."""
    boundary = "0123456789abcdef" * 2
    contents = [
        one + data.draw(st.sampled_from([b"", f"\r\n--{boundary}--\r\n".encode()])) for one in contents
    ]
    body = encode_parts(head, contents, boundary)
    assert decode_parts(body, boundary, max_parts=4) == (head, contents)
    at, byte = data.draw(st.integers(0, len(body) - 1)), data.draw(st.integers(0, 255))
    changed = body[:at] + bytes([byte]) + body[at + 1 :]
    with suppress(operations.UnreadableWire):
        again = decode_parts(changed, boundary, max_parts=4)
        assert [len(one) for one in (again[0], *again[1])] == [len(one) for one in (head, *contents)]
    with suppress(operations.UnreadableWire):
        decode_parts(body[:at], boundary, max_parts=4)
        pytest.fail("a body that was cut was read")


@pytest.mark.check
@settings(max_examples=300)
@given(
    st.sampled_from(sorted(operations.SANDBOX_OPERATIONS)),
    st.sampled_from(["application/json", "text/plain", "multipart/mixed; boundary=" + "0" * 32]),
    st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["path", "paths", "content", "options", "command", "old", "pattern"]),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=8,
        ).map(lambda value: json.dumps(value).encode()),
    ),
)
def test_whatever_comes_is_an_operation_or_unreadable(name, kind, body):
    """No other exception leaves what reads strangers' bytes, and what it gives is of the operation's own kind."""
    with suppress(operations.UnreadableWire):
        asked = decode_asked(name, kind, body)
        assert isinstance(asked.request, operations.SANDBOX_OPERATIONS[name].request)


def test_a_name_that_is_no_text_has_a_mark_in_its_place():
    """Undecodable bytes are U+FFFD, as the server decodes them."""
    listing = operations.ListResult(entries=(DirectoryEntry(name="caf\udce9", kind="file"),))
    answer = operations.encode_answer(operations.Facts(), listing)
    assert (
        operations.decode_as(operations.WireAnswer[operations.ListResult], answer).result.entries[0].name
        == "caf\ufffd"
    )
