"""`agentrail audit`: the log of a day is whole, and the journals give it again."""

import json
from functools import partial

import pytest
import trio

import agentrail
from agentrail.events import AgentEnd, ApprovalRequired
from agentrail.plugins.human_approval import HumanApproval
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.clock import FakeClock, threads_hold
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools.task import TaskTool
from tests.cli.rig import run_agentrail
from tests.gateway.web import serving
from tests.host.hosting import profile

CANARY = "canary-of-the-audit"


def on_virtual_time(main):
    """Run it without waiting: a killed process waits for its store."""
    clock = FakeClock()
    with threads_hold(clock):
        trio.run(main, clock=clock)


async def live(folder, *, is_killed=False, again=False):
    """One process of the day: two sessions, each with a call that a user approves."""
    inner = SqliteStore(folder / "s.db", lease_ms=0)
    store = FaultyStore(inner)
    opened = agentrail.open_supervisor(
        store=store, audit=f"file:{folder / 'audit.jsonl'}", store_patience=0.1
    )
    async with opened as supervisor:
        for session_id in ("s-1", "s-2"):
            model = ScriptedModel([calls(("note", {"text": CANARY}), (CANARY, {})), says(CANARY)])
            options = {"model": model, "tools": [RecordingTool(name="note")], "sandbox": "memory"}
            if again:
                session = await supervisor.resume_session(session_id, **options)
            else:
                asks = (HumanApproval, {"require_approval_for": ["note"]})
                session = await supervisor.start_session(
                    session_id=session_id, plugins=[asks], user_data={"user_id": "ann"}, **options
                )
            async with session.subscribe() as events:
                await session.prompt(CANARY)
                async for event in events:
                    if isinstance(event, ApprovalRequired):
                        await session.approve(event.approval.id, user="bob")
                    elif isinstance(event, AgentEnd):
                        break
        if is_killed:  # its lines are in the log, and its cursors are not in the store
            await trio.sleep(0.3)
            store.go_away("killed")
    inner.close()


async def audit(folder, *words):
    return await run_agentrail(
        "audit", *words, "--store", f"sqlite:{folder / 's.db'}", "--data-dir", str(folder)
    )


@pytest.mark.operation("O-022")
def test_the_log_of_a_day_with_two_restarts_and_a_takeover_is_whole_and_the_journals_give_it_again(
    tmp_path,
):
    """Three processes: the second is killed before its cursors reach the store. A changed line is named, and a missing last line is found with a noted hash."""
    for options in ({}, {"again": True, "is_killed": True}, {"again": True}):
        on_virtual_time(partial(live, tmp_path, **options))
    trio.run(check_day, tmp_path)


async def check_day(tmp_path):
    log = tmp_path / "audit.jsonl"
    lines = [json.loads(line) for line in log.read_bytes().splitlines()]
    assert len({line["node"] for line in lines}) == 3
    assert [line["verdict"] for line in lines if line["session"] == "s-2"].count("approved") == 3
    assert len({(line["session"], line["event"]) for line in lines}) == len(lines)
    assert CANARY not in json.dumps([line for line in lines if line["verdict"] != "requested"])

    ran = await audit(tmp_path, "verify", f"file:{log}")
    noted = f"--expect {len(lines)}:{lines[-1]['hash']}"
    assert (ran.code, ran.err, ran.out.strip().endswith(noted)) == (0, "", True)
    again = await audit(tmp_path, "rebuild", f"file:{log}")
    assert (again.code, again.err) == (0, "")
    assert again.out == log.read_text()
    by_time = [json.loads(line) for line in (await audit(tmp_path, "rebuild")).out.splitlines()]
    assert [line["at_ms"] for line in by_time] == sorted(line["at_ms"] for line in lines)

    text = log.read_text()
    log.write_text(text.replace('"user":"bob"', '"user":"eve"', 1))
    place = next(line["n"] for line in lines if line.get("user") == "bob")
    ran = await audit(tmp_path, "verify", f"file:{log}")
    assert (ran.code, f"line {place} does not match its hash" in ran.err) == (1, True)
    assert (
        ran.out == f"{len(lines)} lines.\n"
    )  # nothing to note of a log that is not whole, nor of an empty one
    log.write_text("")
    ran = await audit(tmp_path, "verify", f"file:{log}")
    assert (ran.code, ran.out) == (0, "0 lines.\n")
    log.write_text(text.splitlines(keepends=True)[0])
    assert (await audit(tmp_path, "verify", f"file:{log}")).out.startswith("1 line. ")
    log.write_text("".join(text.splitlines(keepends=True)[:-1]))
    assert (await audit(tmp_path, "verify", f"file:{log}")).code == 0
    ran = await audit(tmp_path, "verify", f"file:{log}", *noted.split())
    assert (ran.code, f"line {len(lines)} is missing" in ran.err) == (1, True)


async def branch(folder):
    """A sub-agent, a rewind, a fork, a queued prompt and an abort."""
    turns = [calls(("task", {"description": "Do it"})), says("child"), *[says(f"{n}") for n in range(3)]]
    turns += [says("3", "it", pause_seconds=60), says("4")]
    opened = agentrail.open_supervisor(
        store=f"sqlite:{folder / 's.db'}", audit=f"file:{folder / 'audit.jsonl'}"
    )
    async with opened as supervisor:
        options = {"model": ScriptedModel(turns), "tools": [TaskTool()], "sandbox": "memory"}
        session = await supervisor.start_session(session_id="s-1", **options)
        await session.ask("A")
        await session.rewind(4)
        await session.ask("B")
        await (await session.fork(session_id="f-1")).ask("C")
        await session.prompt("D")
        await session.prompt("E")
        await session.abort()


def test_sub_agents_rewinds_and_forks_are_in_the_log_and_made_again(tmp_path):
    """Undone and queued prompts and an abort too: the lines rebuilt from the journals are the same, byte for byte."""
    on_virtual_time(partial(branch, tmp_path))
    log = tmp_path / "audit.jsonl"
    lines = [json.loads(line) for line in log.read_bytes().splitlines()]
    assert {line["session"] for line in lines} == {"s-1", "s-1.call_r1_0", "f-1"}
    assert {"requested", "ran", "queued", "aborted"} <= {line["verdict"] for line in lines}
    assert trio.run(audit, tmp_path, "rebuild", f"file:{log}").out == log.read_text()


async def test_what_cannot_be_checked_is_said(tmp_path):
    """A missing log, an unknown form and an incomplete `--expect` exit with 2. Without a name, the log next to the store is checked."""
    async with agentrail.open_supervisor(store=f"sqlite:{tmp_path / 's.db'}", audit="store") as supervisor:
        session = await supervisor.start_session(model=ScriptedModel([says("a")]), sandbox="memory")
        await session.ask("Hi")
        (progress,) = supervisor.statistics().consumers
        assert (progress.name, progress.dropped, progress.rejected) == ("audit", 0, 0)
    ran = await audit(tmp_path, "verify")
    assert (ran.code, ran.out.startswith("2 lines. ")) == (0, True)
    for words, told in (
        (("verify", "file:/nowhere/a"), "the audit log /nowhere/a cannot be read: No such file"),
        (("verify", "syslog"), "audit is 'syslog': expected 'file:PATH'"),
        (("verify", "--expect", "2"), "--expect is '2': expected N:HASH"),
    ):
        ran = await audit(tmp_path, *words)
        assert (ran.code, told in ran.err) == (2, True), ran.err


async def test_a_session_that_cannot_be_rebuilt_is_named_and_left_out(tmp_path):
    """An erased session goes to stderr. The lines of the others are printed, and the exit code is 0."""
    async with agentrail.open_supervisor(store=f"sqlite:{tmp_path / 's.db'}") as supervisor:
        for session_id in ("gone", "here"):
            session = await supervisor.start_session(
                model=ScriptedModel([says("a")]), session_id=session_id, sandbox="memory"
            )
            await session.ask("Hi")
    store = SqliteStore(tmp_path / "s.db", lease_ms=0)
    store.erase("", "gone", "user forgotten")
    store.close()
    ran = await audit(tmp_path, "rebuild")
    assert (ran.code, "session gone is left out: " in ran.err) == (0, True)
    assert {json.loads(line)["session"] for line in ran.out.splitlines()} == {"here"}


async def test_a_server_writes_who_asked_over_which_interface(tmp_path):
    """A message over HTTP has the user of its session, and `http` as its interface."""
    log = tmp_path / "audit.jsonl"
    desk = profile(ScriptedModel([says("Hello.")]))
    async with serving(profiles=[desk], store=f"sqlite:{tmp_path}/s.db", audit=f"file:{log}") as web:
        assert (await web.client.post("/chat", json={"message": "Hi"})).status_code == 200
    prompt = json.loads(log.read_bytes().splitlines()[0])
    assert (prompt["verdict"], prompt["via"], bool(prompt["user"])) == ("accepted", "http", True)
