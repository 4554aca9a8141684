"""A token file that changes while a server runs: who is added is let in, who is taken out is refused and their sockets and streams end."""

import logging
import os
import threading

import pytest
import trio
from hypothesis import given, settings, strategies as st

from agentrail import outside
from agentrail.gateway import followed_files as followed_files_module, token_watcher as open_calls_module
from agentrail.gateway.followed_files import TokenFile
from agentrail.gateway.sandboxes.app import SandboxApp
from agentrail.gateway.tokens import make_token, read_token_file
from agentrail.host.quotas import Limits
from tests.gateway.callers import Rows
from tests.gateway.socket_client import socket_of
from tests.gateway.web import error_of, serving
from tests.host.hosting import answering

NOW = 1_700_000_000.0
ANN, BOB = (make_token("acme", user, now=NOW) for user in ("ann", "bob"))
OLD = make_token("acme", "ann", scopes=("use",), days=1, now=NOW)
# Tests call with a token until it is let in.
ANY_FAILURES = Limits(failed_authentications_per_minute=1_000_000)
NOBODY = "# all were taken out\n"


@pytest.fixture
def hurry(monkeypatch):
    """Look at the file as often as a test can wait for; what is only read is judged once a day, unless the file changes."""
    monkeypatch.setattr(followed_files_module, "FILE_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(open_calls_module, "EXPIRY_SECONDS", 0.01)
    monkeypatch.setattr(open_calls_module, "JUDGED_EVERY_SECONDS", 86_400.0)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "tokens.toml"
    put(path, f"{ANN.lines}\n{BOB.lines}")
    return path


def put(path, text):
    """Write it in place, as an editor does."""
    path.touch(0o600)
    path.write_text(text)


def by(made):
    return {"authorization": f"Bearer {made.token}"}


async def until(web, made, status):
    with trio.fail_after(60):
        while (await web.client.get("/sessions", headers=by(made))).status_code != status:
            await trio.lowlevel.checkpoint()


async def test_a_command_of_a_token_that_was_taken_out_is_refused_before_any_watcher_looked(
    monkeypatch, hurry, path
):
    """Each command is judged by what the file says now."""
    monkeypatch.setattr(open_calls_module, "EXPIRY_SECONDS", 86_400.0)
    async with (
        serving(answering(), auth=read_token_file(path), limits=ANY_FAILURES) as web,
        socket_of(web, by=ANN.token) as client,
    ):
        await client.done("create", session_id="main")
        put(path, BOB.lines)
        await until(web, ANN, 401)
        assert await client.refused("prompt", session_id="main", message="Hi") == (401, "unauthorized")
        assert await client.closed() == 4401


async def test_a_server_of_sandboxes_follows_its_file_too(hurry, path):
    """Tokens of its clients are judged with each call."""
    tokens = read_token_file(path)
    app = SandboxApp(tokens, None)
    to_app, from_test = trio.open_memory_channel(1), trio.open_memory_channel(9)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(app, {"type": "lifespan"}, to_app[1].receive, from_test[0].send)
        await to_app[0].send({"type": "lifespan.startup"})
        put(path, BOB.lines)
        with trio.fail_after(60):
            while tokens(by(ANN)) is not None:
                await trio.lowlevel.checkpoint()
        assert tokens(by(BOB)) is not None
        await to_app[0].send({"type": "lifespan.shutdown"})


# --- one look


STATES = {
    "both": f"{ANN.lines}\n{BOB.lines}",
    "ann": ANN.lines,
    "old": OLD.lines,
    "nobody": NOBODY,
    "broken": "[[token]\n",
    "gone": None,
}
USERS = {"both": 2, "ann": 1, "old": 1, "nobody": 0}


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(STATES)), st.booleans()), max_size=12))
def test_what_settled_last_and_can_be_used_holds(tmp_path_factory, steps):
    """Whatever is written, removed and broken in between."""
    path = tmp_path_factory.mktemp("tokens") / "tokens.toml"
    put(path, STATES["both"])
    tokens = read_token_file(path)
    file, expected, last = TokenFile(tokens, path), "both", None
    for name, again in steps:
        path.unlink(missing_ok=True) if STATES[name] is None else put(path, STATES[name])
        for _ in range(1 + again):
            file.look()
            if name == last and name in USERS:
                expected = name
            last = name
            assert len(tokens.entries) == USERS[expected]
            assert (tokens.find(ANN.token, NOW) is not None) is (expected in ("both", "ann"))


async def test_a_token_that_is_taken_out_of_the_file_ends_everywhere_and_an_added_one_is_let_in(hurry, path):
    """Requests get 401, the stream and an idle socket end, and the other user continues; an empty file lets no caller in."""
    put(path, BOB.lines)
    tokens = read_token_file(path)
    async with serving(answering("Hello"), auth=tokens, limits=ANY_FAILURES) as web:
        error_of(await web.client.get("/sessions", headers=by(ANN)), 401, "unauthorized")
        put(path, f"{ANN.lines}\n{BOB.lines}")
        await until(web, ANN, 200)
        async with socket_of(web, by=ANN.token) as owner:
            await owner.done("create", session_id="main")
        async with (
            socket_of(web, by=ANN.token) as watches,
            socket_of(web, by=BOB.token) as other,
            web.client.stream("GET", "/sessions/main/events", headers=by(ANN)) as response,
        ):
            await Rows(watches).begin()
            text, frames = "", response.aiter_text()
            while "event: snapshot" not in text:
                text += await anext(frames)
            put(path, BOB.lines)
            assert await watches.closed() == 4401
            text += "".join([piece async for piece in frames])
            assert text.count("event: done") == 1
            assert '"reason":"unauthorized"' in text
            await until(web, ANN, 401)
            await other.done("create", session_id="mine")
        put(path, NOBODY)
        await until(web, BOB, 401)
        error_of(await web.client.get("/sessions", headers=by(ANN)), 401, "unauthorized")
        error_of(await web.client.get("/sessions"), 401, "unauthorized")
        put(path, ANN.lines)
        await until(web, ANN, 200)


async def test_the_file_is_read_in_a_thread_and_by_no_call(hurry, path):
    """A disk that hangs delays no request."""
    read_in, hangs = set(), threading.Event()

    class Disk(outside.RealMachine):
        """A disk that answers when the test says so."""

        async def offload(self, function, /, *args, **options):
            if getattr(function, "__self__", None).__class__ is not TokenFile:
                return await super().offload(function, *args, **options)

            def slowly():
                read_in.add(threading.get_ident())
                hangs.wait()
                return function(*args)

            return await super().offload(slowly, **options)

    with outside.installed(Disk()):
        try:
            async with serving(answering(), auth=read_token_file(path), limits=ANY_FAILURES) as web:
                with trio.fail_after(60):
                    while not read_in:
                        await until(web, ANN, 200)
                await until(web, BOB, 200)
        finally:
            hangs.set()
    assert read_in
    assert threading.get_ident() not in read_in


def settle(file):
    """Look as often as it takes until what stands in the file holds, and say whether that changed who is let in."""
    return [file.look() for _ in range(3)].count(True)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: put(path, "[[token]\n"), "is not TOML"),
        (
            lambda path: put(path, "[[token]]\ntenant = 'acme'\n"),
            "`digest` is not `sha256:` with 64 lower-case hexadecimal digits;",
        ),
        (
            lambda path: put(path, f"{ANN.lines}\n{ANN.lines}"),
            "two entries have the same digest: a token belongs to one user, so create another",
        ),
        (lambda path: put(path, "x" * (1 << 20 | 1)), "has more than"),
        (lambda path: path.unlink(), "cannot be read: No such file"),
        (lambda path: path.chmod(0o644), "can be read or changed by others"),
        (lambda path: (path.unlink(), path.mkdir()), "is not a file"),
    ],
)
def test_a_file_that_cannot_be_used_keeps_the_tokens_and_is_logged_once(path, caplog, spoil, why):
    """It says why, and when it can be used again; no word of the file is repeated."""
    tokens = read_token_file(path)
    before, file = tokens.entries, TokenFile(tokens, path)
    with caplog.at_level(logging.INFO, "agentrail.gateway"):
        assert not settle(file)
        assert not caplog.records
        spoil(path)
        assert not settle(file) + settle(file)
        assert tokens.entries == before
        (told,) = [record.getMessage() for record in caplog.records]
        assert why in told
        assert "stay valid" in told
        assert ANN.lines.splitlines()[1] not in told
        path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        put(path, BOB.lines)
        assert settle(file) == 1
        assert "was reloaded; number of valid tokens: 1" in caplog.messages[-1]
    assert tokens(by(ANN)) is None


def test_a_file_is_compared_by_its_text_and_not_taken_while_it_is_written(path):
    """What one look found and the next did not was half of a change; one of the same size and time is seen."""
    tokens = read_token_file(path)
    before, file = tokens.entries, TokenFile(tokens, path)
    for half in ("", f"{ANN.lines}\n", f"{ANN.lines}\n{BOB.lines}"):
        put(path, half)
        assert not file.look()
        assert tokens.entries == before
    found = path.stat()
    settle(file)
    put(path, path.read_text().replace('user = "ann"', 'user = "eve"'))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert settle(file) == 1
    assert tokens(by(ANN)).user_id == "eve"
