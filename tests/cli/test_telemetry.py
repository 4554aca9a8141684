"""`agentrail telemetry export`: the spans of stored sessions, the same as while they ran (docs: see what your agents do)."""

import errno
import json
import os
import signal

import apsw
import pytest
import trio

import agentrail
from agentrail import tool
from agentrail.cli import telemetry_command
from agentrail.errors import OptionError, Overloaded
from agentrail.telemetry import OpenTelemetry
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, fails, says
from agentrail.tools.task import TaskTool
from tests.cli.rig import open_process, run_line, wait_until
from tests.telemetry.collectors import collecting


@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def answer(request):
    """Work in a child, and say its answer."""
    if "sub-task" in str(request.messages[-1]):
        return says("from below")
    return (
        says("done")
        if "from below" in str(request.messages)
        else calls(("task", {"description": "a sub-task"}))
    )


async def work(supervisor):
    """Run a session with a retry and two calls, one with a child, and one whose cycle fails."""
    turns = [
        fails(Overloaded("busy")),
        calls(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})),
        says("3, 7"),
    ]
    for session_id, model, tools in (
        ("plain", ScriptedModel(turns), [add]),
        ("nested", FunctionModel(answer), [TaskTool()]),
        ("failed", ScriptedModel([]), []),
    ):
        session = await supervisor.start_session(
            model=model, tools=tools, session_id=session_id, user_data={"agent_id": "desk"}
        )
        try:
            await session.ask("Canary, go")
        except agentrail.CycleFailed:
            assert session_id == "failed"


def by_id(spans):
    """What the spans say, byte for byte, by their ids."""
    return {(span.trace_id, span.span_id): span.SerializeToString(deterministic=True) for span in spans}


@pytest.fixture
async def exported(tmp_path):
    """A store, its option, and what a collector got while its sessions ran."""
    store = f"sqlite:{tmp_path}/a.db"
    with collecting() as live:
        async with agentrail.open_supervisor(
            telemetry=OpenTelemetry(exporter=live.url), store=store
        ) as supervisor:
            await work(supervisor)
        return store, f"--store {store} --data-dir {tmp_path}", live.spans


@pytest.mark.operation(17)
async def test_an_export_equals_what_was_sent_live_also_after_one_that_was_killed(exported):
    """Span for span, and each id once, however often it is sent."""
    _store, option, live = exported
    assert len(by_id(live)) == len(live) > 12
    with collecting() as later:
        later.closes_after = 1
        async with open_process("telemetry", "export", "--to", later.url, *option.split()) as process:
            with trio.fail_after(30):
                await wait_until(lambda: later.requests)
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
        later.closes_after, before = None, len(by_id(later.spans))
        later.is_open.set()
        ran = await run_line(f"telemetry export --to {later.url} {option}")
        assert (ran.code, ran.out) == (0, f"{len(live)} spans\n"), ran.err
        assert len(later.spans) >= len(live)
    assert 0 < before < len(live)
    assert by_id(later.spans) == by_id(live)


async def test_chosen_sessions_go_to_a_file_with_content_on_request(exported, tmp_path):
    """A file needs no backend."""
    _store, option, live = exported
    for more, count in (("", len(live)), ("--where outcome=failed", 2), ("--where profile=other", 0)):
        file = tmp_path / f"{count}.jsonl"
        ran = await run_line(f"telemetry export --to {file} {more} {option}")
        assert (ran.code, ran.out) == (0, f"{count} spans\n"), ran.err
        batches = [json.loads(one) for one in file.read_text().splitlines()]
        found = [span for one in batches for span in one["resourceSpans"][0]["scopeSpans"][0]["spans"]]
        assert {span["spanId"] for span in found} <= {span.span_id.hex() for span in live}
        assert len(found) == count
        assert "Canary" not in file.read_text()
    ran = await run_line(f"telemetry export --to {tmp_path}/full.jsonl --content {option}")
    assert ran.code == 0, ran.err
    assert "Canary" in (tmp_path / "full.jsonl").read_text()


async def test_what_cannot_be_exported_is_said(exported, tmp_path):
    """Wrong usage; and a damaged session, without the others."""
    store, option, live = exported
    (tmp_path / "there").touch()
    for more, code, said in (
        ("", 2, "no backend is named: use --to, OTEL_EXPORTER_OTLP_ENDPOINT, or endpoint in [telemetry]"),
        (f"--to {tmp_path}/there", 2, "there already exists: name a new file"),
        (f"--to {tmp_path}/no/where", 2, "where cannot be written"),
        ("--to http://", 2, "--to is 'http://': expected http://HOST:PORT/v1/traces, or a new file"),
        ("--to grpc://localhost:4317", 2, "--to is 'grpc://localhost:4317'"),
        (f"--to {tmp_path}/x --where shape=round", 2, "--where is 'shape=round'"),
    ):
        ran = await run_line(f"telemetry export {more} {option}")
        assert (ran.code, ran.out) == (code, ""), ran.err
        assert said in ran.err
    with apsw.Connection(store.removeprefix("sqlite:")) as connection:
        connection.execute("UPDATE record SET body = CAST('{}' AS BLOB) WHERE session = 'plain' AND seq = 4")
    ran = await run_line(f"telemetry export --to {tmp_path}/rest.jsonl {option}")
    assert (ran.code, ran.out) == (1, f"{len(live) - 6} spans\n")
    assert "session plain is left out: " in ran.err


@pytest.mark.parametrize(
    ("error", "raised"),
    [(OSError(errno.ENOSPC, "No space left"), OptionError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_a_part_of_the_spans_is_no_file(tmp_path, error, raised):
    """It would look like all of them, and stand in the way of another attempt."""
    file = tmp_path / "new.jsonl"

    def spans():
        assert file.exists()
        yield []
        raise error

    with pytest.raises(raised):
        telemetry_command._write(file, spans())  # noqa: SLF001 - a disk that is full, from within
    assert not file.exists()


async def test_a_named_backend_gets_spans_where_those_of_running_sessions_are_switched_off(
    exported, monkeypatch
):
    """OTEL_SDK_DISABLED is for those: otherwise the command would say that no backend is named."""
    _store, option, live = exported
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with collecting() as later:
        ran = await run_line(f"telemetry export --to {later.url} {option}")
        assert (ran.code, ran.out) == (0, f"{len(live)} spans\n"), ran.err
