"""`agentrail doctor` about a server: what it needs is there, its clock and nodes are known, and no check hangs."""

import json
from functools import partial
from types import SimpleNamespace

import msgspec
import trio

import agentrail
from agentrail.abc.store import Filters, OwedRow
from agentrail.cli import doctor_server
from agentrail.cli.doctor_server import (
    Finding,
    in_thread,
    look_at_activity,
    look_at_extras,
    look_at_mcp_servers,
    look_at_open_files,
    look_at_telemetry,
    within_limit,
)
from agentrail.cli.store_access import all_sessions
from agentrail.stores.memory import MemoryStore
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.models import ScriptedModel, says
from tests.cli.rig import run_line
from tests.runtime.rig import on_virtual_time

FIELDS = ["name", "verdict", "text", "remedy"]


def said(**values):
    """Settings with these tables; only the values are read."""
    tables = {
        name: {key: SimpleNamespace(value=one, plain=one) for key, one in table.items()}
        for name, table in values.items()
    }
    return SimpleNamespace(**{"host": {}, "mcp": {}, "embedder": {}, "telemetry": {}, **tables})


def shown(findings):
    return [(one.name, one.verdict) for one in findings]


# --- one document


async def test_the_report_is_one_document_with_stable_keys(tmp_path):
    """Scripts read one line of JSON. `healthy` follows the exit code, and the checks keep their order."""
    ran = await run_line(f"doctor --json --data-dir {tmp_path}")
    document = json.loads(ran.out)
    assert (ran.code, ran.out.count("\n")) == (0, 1)
    assert list(document) == ["agentrail_doctor", "healthy", "checks"]
    assert (document["agentrail_doctor"], document["healthy"]) == (1, True)
    assert [list(one) for one in document["checks"]] == [FIELDS] * len(document["checks"])
    names = [one["name"] for one in document["checks"]]
    known = [
        "python",
        "build",
        "extras",
        "configuration",
        "OPENAI_API_KEY",
        "bubblewrap",
        "store",
        "fsync",
        "model",
    ]
    assert [name for name in names if name in known] == known
    ran = await run_line(f"doctor --json --data-dir {tmp_path} --model anthropic:x")
    document = json.loads(ran.out)
    assert (ran.code, document["healthy"]) == (1, False)
    assert (
        "set ANTHROPIC_API_KEY" in next(one for one in document["checks"] if one["name"] == "model")["text"]
    )


async def test_a_server_s_files_are_checked_as_a_whole(tmp_path):
    """MCP servers and limits come from the trusted project file. Each fault is optional, so the exit code stays 0."""
    (tmp_path / "agentrail.toml").write_text(
        'version = 1\n[host]\nprotocols = ["mcp"]\nlimits = { max_streams = 100000000 }\n'
        '[mcp.gone]\ncommand = ["no-such-program"]\n[mcp.far]\nurl = "http://127.0.0.1:9/mcp"\n'
    )
    ran = await run_line(f"doctor --trust-project --data-dir {tmp_path}", cwd=tmp_path)
    assert ran.code == 0
    assert "– MCP server gone      'no-such-program' is not on PATH" in ran.out
    assert "– MCP server far       127.0.0.1:9 cannot be reached directly: " in ran.out
    assert "→ agentrail mcp check far connects to it" in ran.out
    assert "max_streams and max_sessions_per_principal may need 100001256" in ran.out


# --- time limits


@on_virtual_time
async def test_a_check_that_hangs_is_ended_and_said():
    """The other checks still run: a hanging one is a fault after 10 seconds."""
    found = await within_limit("store", trio.sleep_forever)
    assert shown(found) == [("store", "bad")]
    assert found[0].text == "no result within 10 s"
    other = Finding("a", "good", "b")
    assert await in_thread("a", lambda: (other,)) == (other,)


# --- checks


def test_an_extra_that_a_feature_needs_is_named_with_what_would_fail():
    """A missing extra is optional where only the server needs it, and a fault where a run would fail."""
    missing = {"mcp": ["mcp"], "gateway": [], "a2a": ["a2a-sdk"], "otel": ["opentelemetry-sdk"], "embeddings": ["numpy"]}  # fmt: skip

    def look(**tables):
        return list(look_at_extras(said(**tables) if tables else None, missing))

    assert shown(look()) == [("extras", "good")]
    assert look()[0].text == "installed: gateway"
    assert next(look_at_extras(None, {"mcp": ["mcp"]})).text == "installed: none"
    served = look(host={"protocols": ("a2a", "mcp")})
    assert shown(served) == [("extras", "good"), ("extras", "absent"), ("extras", "absent")]
    assert served[1].text == "[host] needs a2a, which lacks a2a-sdk"
    run = look(embedder={"model": "m"}, telemetry={"endpoint": "http://x"}, mcp={"files": None})
    assert shown(run) == [("extras", "good"), *[("extras", "bad")] * 3]
    assert "[otel]" in run[3].remedy
    there = next(look_at_extras(None)).text
    assert "gateway" in there
    assert "dev" not in there


def test_the_limit_of_open_files_is_held_against_the_sessions_of_a_server():
    """Without `[host]` there is no finding. Configured limits lower the need, and -1 means unlimited."""

    def look(settings, soft=None):
        return list(look_at_open_files(settings, soft))

    assert look(None) == look(said()) == []
    host = said(host={"port": 1})
    assert shown(look(host, 65_536)) == shown(look(host, -1)) == [("open files", "good")]
    (found,) = look(host, 1_024)
    assert (found.verdict, "LimitNOFILE" in found.remedy) == ("absent", True)
    small = said(host={"limits.max_streams": 10, "limits.max_sessions_per_principal": 10})
    assert shown(look(small, 1_024)) == [("open files", "good")]
    assert look(host)[0].name == "open files"


async def test_a_collector_that_sessions_would_refuse_is_a_fault(tmp_path):
    """Healthy means that a run would work. No header and no address is shown: they may hold keys."""
    named = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_HEADERS": "key=canary"}
    (found,) = look_at_telemetry(None, named)
    assert (found.verdict, found.text) == ("good", "spans of sessions are exported")
    assert list(look_at_telemetry(said(), {})) == []
    assert shown(look_at_telemetry(said(telemetry={"endpoint": "http://x", "sample": 2}), {})) == [
        ("telemetry", "bad")
    ]
    variables = {"OTEL_TRACES_SAMPLER": "x", **named}
    ran = await run_line(f"doctor --json --data-dir {tmp_path}", variables=variables)
    (fault,) = [one for one in json.loads(ran.out)["checks"] if one["verdict"] == "bad"]
    assert (ran.code, fault["text"].startswith("OTEL_TRACES_SAMPLER is 'x'"), "canary" in ran.out) == (
        1,
        True,
        False,
    )


async def test_mcp_servers_are_looked_at_without_a_message(monkeypatch):
    """A connection is enough, and a program that is found. A path is not checked, as it depends on the directory of its file."""
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, trio.aclose_forcefully, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        forms = {
            "here": {"command": None, "url": f"http://127.0.0.1:{port}/mcp"},
            "shell": {"command": ("sh", "-c", "exit"), "url": None},
            "own": {"command": ("./server",), "url": None},
        }
        found = await look_at_mcp_servers(
            said(mcp={name: SimpleNamespace(**form) for name, form in forms.items()})
        )
        nursery.cancel_scope.cancel()
    assert shown(found) == [
        ("MCP server here", "good"),
        ("MCP server shell", "good"),
        ("MCP server own", "good"),
    ]
    assert await look_at_mcp_servers(None) == ()


@on_virtual_time
async def test_an_mcp_server_that_never_accepts_is_given_three_seconds(monkeypatch):
    """It is not a fault: a proxy may reach the server."""

    async def hang(*_given):
        await trio.sleep_forever()

    monkeypatch.setattr(trio, "open_tcp_stream", hang)
    server = SimpleNamespace(command=None, url="https://far.example/mcp")
    (found,) = await look_at_mcp_servers(said(mcp={"far": server}))
    assert (found.verdict, found.text) == ("absent", "far.example:443 cannot be reached directly: no answer")


async def test_nodes_clock_and_readers_of_a_store(tmp_path):
    """A store that another process uses is read without its lease. A lag of 20,000 events and a record from the future are reported."""
    path = tmp_path / "s.db"
    async with agentrail.open_supervisor(store=f"sqlite:{path}", audit="store") as supervisor:
        session = await supervisor.start_session(model=ScriptedModel([says("a")]), sandbox="memory")
        await session.ask("Hi")
        ran = await run_line(f"doctor --data-dir {tmp_path / 'other'}")
        assert "✓ nodes" not in ran.out
        store = SqliteStore(path, read_only=True)
        assert [one.text.split()[1] for one in look_at_activity(store, ()) if one.name == "nodes"] == [
            "alive"
        ]
        store.close()
    store = SqliteStore(path)
    sessions = tuple(all_sessions(store, Filters()))
    found = list(look_at_activity(store, sessions))
    assert shown(found) == [("nodes", "good"), ("clock", "good"), ("reader audit", "good")]
    assert found[-1].text == "0 events behind"
    far = [msgspec.structs.replace(one, events=one.events + 20_000) for one in sessions]
    behind = list(look_at_activity(store, far))[-1]
    assert (behind.verdict, behind.text) == ("absent", "20000 events behind")
    early = [msgspec.structs.replace(one, written_at_ms=one.written_at_ms + 90_000) for one in sessions]
    clock = list(look_at_activity(store, early))[1]
    assert (clock.verdict, "its newest record by " in clock.text) == ("absent", True)
    store.close()


def test_a_reader_that_began_later_is_not_behind_older_sessions():
    """Only sessions opened since its first start count."""
    store = MemoryStore()
    store.change_owed([OwedRow(kind="telemetry_since", id="spans", body=b"500")])
    old = SimpleNamespace(scope="", session="a", opened_at_ms=100, events=7, written_at_ms=0)
    new = SimpleNamespace(scope="", session="b", opened_at_ms=600, events=5, written_at_ms=0)
    assert doctor_server.events_behind(store, [old, new]) == {"spans": 5}


def test_numbers_of_readers_that_cannot_be_read_are_left_out():
    """`agentrail doctor` reported a bug in place of all that it had found."""
    store = MemoryStore()
    session = SimpleNamespace(scope="", session="a", opened_at_ms=600, events=7, written_at_ms=0)
    store.change_owed([OwedRow(kind="telemetry_since", id=name, body=b"500") for name in ("audit", "spans")])
    store.change_owed([OwedRow(kind="telemetry_since", id="other", body=b"x")])
    store.change_owed([OwedRow(kind="telemetry_spans", id="y", body=b"9" * 5_000)])
    assert doctor_server.events_behind(store, [session]) == {"audit": 7, "spans": 7}
