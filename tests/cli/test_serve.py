"""`agentrail serve`: what the command line may ask for, and how a server is stopped."""

import os
import re
import signal
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import attrs
import httpx
import pytest
import trio

from agentrail.cli import serve_command as command
from agentrail.cli.serve_command import (
    admit_more,
    check_extra,
    check_options,
    console_link_of,
    find_application,
    forgets_webhooks,
    limits_for,
    say_stopping,
    serve_until_signal,
    wait_stop,
)
from agentrail.cli.serve_options import ServeFlags, ServeOptions, decide_serving
from agentrail.distribution import install_command
from agentrail.errors import OptionError
from agentrail.gateway.app import create_app
from agentrail.gateway.authorization import AccessRules, CallerCheck
from agentrail.gateway.serving import USUAL_LIMITS
from agentrail.gateway.tokens import TokenEntry, Tokens
from agentrail.host import AgentProfile, Webhooks
from agentrail.runtime.session_options import SessionOptions
from tests.cli.rig import open_process, read_all, run_line
from tests.pages import ROOT
from tests.runtime.rig import on_virtual_time

TOKENS = Tokens([TokenEntry(digest=b"d" * 32, tenant_id="acme")])
OTHERS = "10.0.0.5"
DESK = AgentProfile(id="desk", name="Desk", options=SessionOptions(model="demo:"))
APP = """
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})
"""


# --- an address that others reach


@pytest.mark.host("H-083")
async def test_a_server_that_others_reach_does_not_start_without_a_token():
    """The error names the option; an application may bring what asks for the token, and what is no application of ours cannot say."""
    for host in ("0.0.0.0", "::", "10.0.0.5", "agents.example"):  # noqa: S104 - nothing is bound
        ran = await run_line(f"serve --host {host}")
        assert (ran.code, ran.out) == (2, "")
        assert f"others reach --host {host}, so calls need a token: give --token-file FILE" in ran.err

    others = ServeOptions(host=OTHERS)
    admit_more(CallerCheck(TOKENS, AccessRules()), others, None)
    admit_more(CallerCheck(None, AccessRules()), others, TOKENS)
    for callers in (CallerCheck(None, AccessRules()), None):
        with pytest.raises(OptionError, match="give --token-file FILE"):
            admit_more(callers, others, None)
        admit_more(callers, ServeOptions(), None)


def test_what_cannot_be_is_refused_all_at_once(monkeypatch):
    """Before anything is opened; without the extra the command says what to install, and shows no traceback."""
    with pytest.raises(OptionError) as caught:
        check_options(ServeOptions(certfile="c.pem", host=""), None)
    assert len(caught.value.faults) == 3
    with pytest.raises(OptionError, match="--port 65536 is not a port"):
        check_options(ServeOptions(port=65_536), None)
    assert "--certfile and --keyfile belong together" in str(caught.value)
    check_options(ServeOptions(certfile="c.pem", keyfile="k.pem", data_dir="d"), None)
    with pytest.raises(OptionError, match="--data-dir is for serving without an application"):
        check_options(ServeOptions(data_dir="d"), "mine:app")

    flagged = decide_serving(ServeFlags(protocol=("mcp",)), {})
    with pytest.raises(OptionError, match="--protocol is for serving without an application"):
        check_options(flagged, "mine:app")
    with pytest.raises(OptionError, match="leave out --protocol"):
        check_options(attrs.evolve(flagged, demo=True), None)
    from_file = {"protocol": "agentrail.toml:2: host.protocols:"}
    check_options(ServeOptions(protocol=("mcp",), why=from_file), "mine:app")

    check_extra()
    monkeypatch.setattr(command, "_NEEDED", ("hypercorn", "no_such_package"))
    with pytest.raises(
        OptionError, match=f"no_such_package is not installed: {re.escape(install_command('gateway'))}"
    ):
        check_extra()


@pytest.mark.parametrize("missing", ["starlette", "hypercorn"])
def test_without_the_extra_create_app_and_mcp_serve_tell_how_to_install_it(missing, tmp_path):
    """A program and a command name the package and the extra; `mcp serve` needs two extras, and reported a bug of ours."""
    block = (
        "import importlib.util, sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] == {missing!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "found = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name, *more: None if name == {missing!r} else found(name, *more)\n"
    )
    ends = (
        "import agentrail.cli\nsys.argv = ['agentrail', 'mcp', 'serve']\nagentrail.cli.main()\n",
        "from agentrail.gateway import create_app\n",
    )
    for program in ends:
        done = subprocess.run(
            [sys.executable, "-c", block + program],
            env={"HOME": str(tmp_path), "AGENTRAIL_MODEL": "demo:", "PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        last = done.stderr.rstrip().splitlines()[-1]
        assert f"{missing}" in last
        assert f"not installed: {install_command('gateway')}" in last


# --- who may call


def test_what_an_application_does_not_take_is_refused():
    """Two who ask for tokens, and names for an application that looks at none."""
    none = "are for an application that create_app made"
    for callers, options, tokens, said in (
        (CallerCheck(TOKENS, AccessRules()), ServeOptions(), TOKENS, "the application has its own `auth`"),
        (
            CallerCheck(None, AccessRules()),
            ServeOptions(allowed_host=("*",)),
            None,
            "allowed_hosts has '\\*'",
        ),
        (None, ServeOptions(), TOKENS, none),
        (None, ServeOptions(allowed_host=("a.example",)), None, none),
        (None, ServeOptions(allowed_origin=("http://a.example",)), None, none),
    ):
        with pytest.raises(OptionError, match=said):
            admit_more(callers, options, tokens)


def test_the_link_to_the_console_has_a_token_only_where_a_person_reads_it(monkeypatch):
    """Behind the `#`, at a terminal, where calls need one and AGENTRAIL_TOKEN has it; what goes into a log has none. No console, no link."""
    open_to_all = create_app(profiles=[DESK])
    guarded = create_app(profiles=[DESK], auth=TOKENS, base_path="/agents")
    monkeypatch.setenv("AGENTRAIL_TOKEN", "agt_a&b")
    monkeypatch.setattr(command.os, "isatty", lambda _: True)
    assert console_link_of(open_to_all, "http://h:1") == "http://h:1/console/"
    assert console_link_of(guarded, "http://h:1") == "http://h:1/agents/console/#token=agt_a%26b"
    monkeypatch.setattr(command.os, "isatty", lambda _: False)
    assert console_link_of(guarded, "http://h:1") == "http://h:1/agents/console/"
    monkeypatch.delenv("AGENTRAIL_TOKEN")
    monkeypatch.setattr(command.os, "isatty", lambda _: True)
    assert console_link_of(guarded, "http://h:1") == "http://h:1/agents/console/"
    assert console_link_of(create_app(profiles=[DESK], console=False), "http://h:1") is None
    assert console_link_of(SimpleNamespace(), "http://h:1") is None


# --- the application


def test_what_is_no_application_is_said(monkeypatch):
    """Whose move it is: the operator's."""
    module = ModuleType("application_of_mine")
    module.number, module.Kind, module.app = 5, int, print
    module.make, module.thing = (lambda: print), SimpleNamespace()
    monkeypatch.setitem(sys.modules, "application_of_mine", module)
    for name, said in (
        *(
            (wrong, "is not package.module:NAME, such as desk:app for `app` in desk.py")
            for wrong in ("", "module", ":app")
        ),
        (
            "./desk.py:app",
            r"'./desk.py:app' is not package.module:NAME, such as desk:app for `app` in desk.py",
        ),
        ("folder/desk:app", "such as desk:app"),
        ("no.such.module:app", "there is no module 'no.such.module'"),
        (
            "no_such_module:app",
            "there is no module 'no_such_module', searched in /.* and among installed packages: No module",
        ),
        (
            "application_of_mine:none",
            "module 'application_of_mine' has no 'none': assign the result of create_app to 'none' there",
        ),
        ("application_of_mine:ap", "did you mean 'app'"),
        ("application_of_mine:number", "expected an ASGI application, .*application_of_mine:number is int"),
        ("application_of_mine:Kind", "expected an ASGI application, .*application_of_mine:Kind is type"),
        ("application_of_mine:make", "is a function with other arguments: if it returns an application"),
        ("application_of_mine:thing", "is SimpleNamespace"),
    ):
        with pytest.raises(OptionError, match=said):
            find_application(name)
    assert find_application("application_of_mine:app") is print


def test_a_module_that_fails_is_its_authors_and_no_bug_of_ours(tmp_path, monkeypatch):
    """With the line, and in one sentence."""
    monkeypatch.syspath_prepend(tmp_path)
    makes, failed = "from agentrail.gateway import create_app\napp = create_app", "cannot be imported: "
    for number, (text, said) in enumerate(
        (
            ("app = creat_app()", f"{failed}NameError: name 'creat_app' is not defined .*mine_0.py:1"),
            ("app = (", f"{failed}SyntaxError"),
            (
                "raise SystemExit(3)",
                f"{failed}ImportError: it exits the interpreter on import .SystemExit: 3",
            ),
            ("import no_such_package", f"{failed}ModuleNotFoundError: No module named 'no_such_package'"),
            (f"{makes}(profile=[])", "did you mean 'profiles'"),
            (f"{makes}(allowed_host=[])", "'allowed_hosts'"),
        )
    ):
        (tmp_path / f"mine_{number}.py").write_text(text)
        with pytest.raises(OptionError, match=said):
            find_application(f"mine_{number}:app")
        sys.modules.pop(f"mine_{number}", None)


# --- its end


def test_connections_have_a_part_of_the_time_that_all_of_it_may_take():
    """An application that says nothing of it has the usual one; a server that is told to stop says why and for how long, so that none thinks it hangs."""
    for shutdown_timeout, expected in ((30.0, (3.0, 1.0)), (3.0, (0.3, 0.1))):
        limits = limits_for(create_app(profiles=[DESK], shutdown_timeout=shutdown_timeout))
        assert (limits.grace_seconds, limits.cut_seconds) == pytest.approx(expected)
    assert limits_for(print) is USUAL_LIMITS

    app = create_app(profiles=[DESK], drain_timeout=10.0)
    assert say_stopping(signal.SIGINT, app) == (
        "SIGINT: stopping; new requests are refused, and running ones have 10 s to finish. A second signal exits at once"
    )
    app.state.host.drain_delay = 5.0
    assert "requests are served for another 5 s, so that balancers notice; then new" in say_stopping(
        signal.SIGTERM, app
    )
    assert say_stopping(signal.SIGTERM, print) == "SIGTERM: stopping"


@on_virtual_time
@pytest.mark.parametrize(("again_after", "ends_at"), [(None, 30), (5, 5), (60, 30)])
async def test_the_first_signal_lets_the_application_drain_and_a_second_one_does_not_wait(
    again_after, ends_at
):
    """What was told comes before all of it."""
    seen = []
    sender, signals = trio.open_memory_channel(2)

    async def drain():
        seen.append("draining")
        await trio.sleep(30)

    async def again():
        if again_after is not None:
            await trio.sleep(again_after)
            sender.send_nowait(signal.SIGTERM)

    async with trio.open_nursery() as nursery:
        sender.send_nowait(signal.SIGINT)
        nursery.start_soon(again)
        has_drained = await wait_stop(signals, drain, lambda: seen.append("told"), seen.append)
        assert trio.current_time() == ends_at
        assert has_drained is (again_after != 5)
    assert seen == ["told", signal.SIGINT, "draining"]


WEBHOOKS = Webhooks(secret="whsec_" + "a" * 44)


async def test_it_is_said_where_webhooks_end_with_the_process(monkeypatch, capfd):
    """With an application that tells of ends and keeps what it owes nowhere; not of one that is none of ours."""

    async def serve(_app, _options):
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(command, "run_server", serve)
    for options, forgets in (
        ({"webhooks": WEBHOOKS, "store": None}, True),
        ({"webhooks": WEBHOOKS}, True),
        ({"webhooks": WEBHOOKS, "store": "sqlite:"}, False),
        ({"store": None}, False),
    ):
        await serve_until_signal(create_app(profiles=[DESK], **options), ServeOptions(), None)
        assert ("pending webhooks end with this process" in capfd.readouterr().err) is forgets
    assert not forgets_webhooks(SimpleNamespace())


async def test_an_application_is_served_until_a_signal(tmp_path):
    """The address is the first line, when calls are answered; the exit code is that of an orderly end."""
    (tmp_path / "served_by_a_test.py").write_text(APP)
    with trio.fail_after(60):
        async with open_process("serve", "served_by_a_test:app", "--port", "0", cwd=tmp_path) as process:
            line = (await process.stdout.receive_some()).decode()
            assert line.startswith("http://127.0.0.1:")
            async with await trio.open_tcp_stream("127.0.0.1", int(line.rsplit(":", 1)[1])) as stream:
                await stream.send_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                assert b"hello" in b"".join([bytes(piece) async for piece in stream])
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0


async def test_an_address_that_cannot_be_printed_ends_the_server_with_the_reason(tmp_path):
    """A full disk was reported as a bug of agentrail, because a nursery groups what its block raises."""
    variables = {"AGENTRAIL_DATA_DIR": str(tmp_path), "AGENTRAIL_SANDBOX_TOKEN": "a" * 20}
    for words in (("serve",), ("sandbox", "serve")):
        full = os.open("/dev/full", os.O_WRONLY)
        async with open_process(*words, "--port", "0", stdout=full, cwd=tmp_path, **variables) as process:
            os.close(full)
            assert await process.wait() == 1
            told = await read_all(process.stderr)
        assert told.endswith("agentrail: the output cannot be written: No space left on device.\n")
        assert "bug" not in told


SLOW = """
import agentrail
import trio
from agentrail.gateway import create_app
from agentrail.host import AgentProfile


@agentrail.tool
async def wait_long(seconds: int) -> str:
    'Wait a long time.'
    await trio.sleep(seconds)
    return "waited"


desk = agentrail.SessionOptions(model="demo:fast", tools=[wait_long])
app = create_app(profiles=[AgentProfile(id="desk", name="Desk", options=desk)], drain_timeout=0.3)
"""


@pytest.mark.check
async def test_ctrl_c_in_the_middle_of_a_call_ends_the_server_in_its_time_and_says_why(tmp_path):
    """The stream has its last word, the operator reads what is waited for, and the exit is an orderly one."""
    (tmp_path / "slow.py").write_text(SLOW)
    seen = b""
    with trio.fail_after(60):
        async with open_process("serve", "slow:app", "--port", "0", cwd=tmp_path) as process:
            base = (await process.stdout.receive_some()).decode().strip()
            async with httpx.AsyncClient(base_url=base, verify=False, timeout=10) as client:  # noqa: S501 - no TLS
                said = {"message": "wait long 100 seconds", "session_id": "main"}
                async with client.stream("POST", "/stream", json=said) as response:
                    async for piece in response.aiter_bytes():
                        if b"tool_execution_start" in piece and b"tool_execution_start" not in seen:
                            process.send_signal(signal.SIGINT)
                        seen += piece
            assert await process.wait() == 0
            told = await read_all(process.stderr)
    assert b'event: done\ndata: {"reason":"shutdown"' in seen
    assert "SIGINT: stopping; new requests are refused, and running ones have 0.3 s to finish." in told
    assert told.endswith("agentrail: stopped.\n")


@pytest.mark.check
async def test_without_an_application_one_profile_is_served_and_its_sessions_are_kept(tmp_path):
    """With the model that `agentrail run` would use, over the named protocols; a second server goes on with what the first one kept."""
    answers = []
    words = ("serve", "--port", "0", "--data-dir", str(tmp_path), "--protocol", "ai-ui", "--protocol", "mcp")
    for _ in range(2):
        with trio.fail_after(60):
            async with open_process(*words, cwd=tmp_path) as process:
                base = (await process.stdout.receive_some()).decode().strip()
                async with httpx.AsyncClient(base_url=base, verify=False, timeout=10) as client:  # noqa: S501 - no TLS
                    assert (await client.get("/ready")).status_code == 200
                    assert (await client.get("/v1/models")).status_code == 404
                    assert (await client.get("/mcp")).status_code == 405
                    said = {"message": "Hi", "session_id": "main", "agent_id": "default"}
                    answers.append((await client.post("/chat", json=said)).json())
                process.send_signal(signal.SIGTERM)
                assert await process.wait() == 0
    assert answers[0]["seq"] < answers[1]["seq"]
    assert answers[0]["text"]
