"""The actors of MCP servers: in the tree, lost, parked, and restarted from there."""

import itertools
import json
import os
import shutil
import sys
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

import agentrail
from agentrail.errors import OptionError, SessionDown, SessionRefused
from agentrail.events import ToolSourceChanged
from agentrail.runtime import tool_sources
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.orphans import no_orphans
from agentrail.tools.mcp import McpServer
from tests.gateway.callers import Rows, auth, by
from tests.gateway.socket_client import socket_of
from tests.gateway.web import serving
from tests.mcp.test_client import WITHIN_SECONDS, called, results_of, server
from tests.sandboxes.rig import need_bubblewrap, take_bubblewrap_away

FIRST_PAUSE_SECONDS = 0.04
SEEN_PYTHON = next(one for one in ("/usr/bin/python3", sys.executable) if Path(one).exists())
"""An interpreter that a confined server sees: homes are hidden from it."""


def named(name, **said):
    """Return a test for a row of the tree."""
    return lambda row: row["name"] == name and all(row[key] == value for key, value in said.items())


async def top(web, caller):
    """Return what `agentrail top` prints into a pipe."""
    command = [sys.executable, "-m", "agentrail", "top", str(web.client.base_url)]
    env = {**os.environ, "AGENTRAIL_TOKEN": caller}
    done = await trio.run_process(command, env=env, capture_stdout=True, capture_stderr=True, check=False)
    assert not done.stderr, done.stderr
    return done.stdout.decode()


@pytest.fixture
def doubling_pauses(monkeypatch):
    """Let pauses double from hundredths of a second."""
    flags = tool_sources.SOURCE_FLAGS
    assert (flags.intensity, flags.period_seconds) == (5, 60.0)
    assert (flags.backoff.initial_seconds, flags.backoff.maximum_seconds, flags.backoff.factor) == (
        0.5,
        30.0,
        2.0,
    )
    quick = attrs.evolve(flags.backoff, initial_seconds=FIRST_PAUSE_SECONDS)
    monkeypatch.setattr(tool_sources, "SOURCE_FLAGS", attrs.evolve(flags, backoff=quick))


@pytest.mark.protocol(61)
async def test_a_server_that_dies_at_each_message_is_parked_and_restarted_from_the_console(
    plain, doubling_pauses, tmp_path
):
    """P-061: each life is told once, the sixth death parks it, and it is back. Another server notices nothing."""
    servers = [
        server(plain, "dying", tmp_path / "lives", required=False),
        server(plain, name="q", required=False),
    ]
    model = ScriptedModel([one for _ in range(4) for one in (calls(("mcp__p__echo", {})), says("done"))])
    outcomes, told, parked = [], [], []
    with trio.fail_after(WITHIN_SECONDS):
        async with serving(model, auth=auth, mcp=servers) as web, socket_of(web, by="boss") as client:
            tree = await Rows(client).begin("tree")
            await web.post("/sessions", {"session_id": "main"}, headers=by("ann"))
            session = web.host.supervisor.session("main", scope="acme")
            async with session.subscribe(kinds=[ToolSourceChanged], after=0) as events:
                async for event in events:
                    if not isinstance(event, ToolSourceChanged):
                        continue
                    if event.source == "q":
                        assert event.state in {"connecting", "ready"}
                        continue
                    told.append(event)
                    if event.state == "ready":
                        if [one.state for one in told].count("restarting") == 5:
                            actor = await tree.find(lambda row: row["name"] == "p" and len(row["exits"]) == 5)
                        await web.host.supervisor.wait_for_tools("main", scope="acme")
                        while True:
                            (result,) = await results_of(session)
                            outcomes.append(result.is_error)
                            if result.is_error or parked:
                                break
                        if parked:
                            break
                    if event.state == "parked":
                        parked = [await tree.find(named("mcp p", status="parked"))]
                        words = (await top(web, "boss"), await top(web, "ann"))
                        asked = {"source": parked[0]["name"]}
                        for caller, status in (("ann", 403), ("boss", 403), ("dan", 204)):
                            answer = await web.post("/inspect/sources/restart", asked, headers=by(caller))
                            assert answer.status_code == status
            back = await tree.find(named("mcp p", status="running"))
            other = await tree.find(named("mcp q", status="running"))
    assert "2 MCP servers, p parked" in words[0]
    assert "MCP" not in words[1]  # without the scope `inspect`
    dies = ["restarting"] * 4 + ["ready", "restarting"] * 2
    assert [one.state for one in told] == ["connecting", *dies, "parked", "connecting", "ready"]
    assert outcomes == [True, False, True, False]
    lost = [one["at_ms"] for one in actor["exits"]]
    for place, (one, following) in enumerate(itertools.pairwise(lost)):
        assert following - one >= 1_000 * FIRST_PAUSE_SECONDS * 2**place
    assert (parked[0]["kind"], parked[0]["exits"][-1]["reason"]) == ("source", "it exited with code 9")
    assert (back["kind"], back["strategy"], other["exits"]) == ("source", "one_for_one", [])
    assert "parked" not in "".join(tree.rows)


@pytest.mark.parametrize("is_stopped", [True, False])
async def test_a_start_that_waits_for_a_server_ends_with_its_session(is_stopped):
    """Also if the session ends before its own server was begun, alone or with its supervisor."""
    silent = McpServer("p", command=[sys.executable, "-c", "import time; time.sleep(60)"], required=True)

    async def start(supervisor):
        with pytest.raises(SessionDown, match="stopped" if is_stopped else "closed"):
            await supervisor.start_session(model="demo:", session_id="s-1", mcp=[silent])

    with trio.fail_after(WITHIN_SECONDS):
        async with trio.open_nursery() as nursery, agentrail.open_supervisor() as supervisor:
            nursery.start_soon(start, supervisor)
            while not supervisor.sessions():
                await trio.lowlevel.checkpoint()
            nursery.start_soon(supervisor.wait_for_tools, "s-1")
            if is_stopped:
                await supervisor.stop_session("s-1")


async def test_a_start_that_a_server_prevents_leaves_nothing_in_the_store(tmp_path):
    """Its id is free for the next attempt, also if the caller gave up."""
    lost = McpServer("p", command=["no-such-program"], required=True)
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(store=f"sqlite:{tmp_path / 's.db'}") as supervisor:
            start = partial(supervisor.start_session, model="demo:", session_id="s-1")
            with pytest.raises(SessionRefused, match="the server 'p' is required"):
                await start(mcp=[lost])
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(start, mcp=[lost]))
                while not supervisor.sessions():
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
            assert await supervisor.find() == ()
            assert await (await start()).ask("Hi")


@pytest.mark.parametrize("own", [False, True])
async def test_a_server_that_runs_is_restarted_too(plain, own):
    """Its connection ends, and the next life begins: also that of a server which one session has alone."""
    servers = [McpServer("p", command=plain(), required=True)]
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=() if own else servers) as supervisor:
            session = await supervisor.start_session(
                model=called("echo"), **({"mcp": servers} if own else {})
            )
            (node,) = [one for one in _nodes(await supervisor.tree()) if one.id == "mcp p"]
            assert [(child.id, child.status) for child in node.children] == [("p", "running")]
            async with session.subscribe(kinds=[ToolSourceChanged]) as events:
                with pytest.raises(
                    OptionError,
                    match=r"no tool source is named 'mcp x': (expected one of mcp p|there are none)",
                ):
                    supervisor.sources.restart("mcp x")
                supervisor.sources.restart("mcp p", session_id=session.session_id if own else "")
                seen = [await anext(events), await anext(events)]
            assert [(one.state, one.reason) for one in seen] == [
                ("restarting", "a restart was asked for"),
                ("ready", None),
            ]
            assert not (await results_of(session))[0].is_error


@pytest.mark.parametrize(
    ("options", "reached"),
    [
        ({}, {"file": True, "port": True}),
        ({"sandbox": True}, {"file": False, "port": False}),
        ({"sandbox": True, "network": "host"}, {"file": False, "port": True}),
    ],
)
async def test_a_server_is_confined_as_commands_are(plain, options, reached, tmp_path_factory):
    """11.3: it writes nothing outside of its directory, has no network unless it is given one, and nothing of it is left."""
    need_bubblewrap()
    inside, beside = tmp_path_factory.mktemp("inside"), tmp_path_factory.mktemp("beside")
    command = [SEEN_PYTHON, shutil.copy(plain()[1], inside), "reaching"]
    confined = McpServer("p", command=command, cwd=inside, env={"KEY": "k"}, required=True, **options)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    arguments = {"path": str(beside / "file"), "port": port}
    model = ScriptedModel([calls(("mcp__p__reach", arguments)), calls(("mcp__p__environ", {})), says("done")])
    with trio.fail_after(WITHIN_SECONDS):
        async with listeners[0], no_orphans(), agentrail.open_supervisor(mcp=[confined]) as supervisor:
            session = await supervisor.start_session(model=model)
            did, environ = [json.loads(one.text) for one in await results_of(session, 2)]
    assert did == reached
    assert (beside / "file").exists() == reached["file"]
    assert environ["KEY"] == "k"


async def test_a_server_that_cannot_be_confined_is_not_started(plain, monkeypatch, tmp_path):
    """It never runs with more rights than it was given."""
    take_bubblewrap_away(monkeypatch)
    lives = tmp_path / "lives"
    confined = server(plain, "counting", lives, cwd=tmp_path, sandbox=True)
    with trio.fail_after(WITHIN_SECONDS):
        async with agentrail.open_supervisor(mcp=[confined]) as supervisor:
            with pytest.raises(SessionRefused, match="bubblewrap was taken away by a test"):
                await supervisor.start_session(model="demo:")
    assert not lives.exists()


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"url": "https://a.example", "sandbox": True}, "sandbox is for servers with a command"),
        ({"command": ["x"], "network": "host"}, "set sandbox = true"),
        ({"command": ["x"], "sandbox": True, "network": "all"}, "expected one of none, host"),
        ({"command": ["x"], "sandbox": 1}, "expected true or false"),
    ],
)
def test_a_sandbox_that_makes_no_sense_is_refused(options, fault):
    """A fault names its option."""
    with pytest.raises(OptionError, match=fault):
        McpServer("p", **options)


@pytest.mark.parametrize("effect", ["twice", ["once"], {}, None])
def test_an_effect_that_is_none_is_a_fault(effect):
    """Also one of another type, such as a list of a configuration file."""
    with pytest.raises(OptionError, match="effects: expected pure, idempotent or once"):
        McpServer("p", command=["x"], effects={"a": effect})


def _nodes(node):
    yield node
    for child in node.children:
        yield from _nodes(child)
