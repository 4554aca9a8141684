"""What one who joins is told of what was said in passing: the very words of one who was there all along."""

import msgspec
import pytest
import trio
from attrs import define

from agentrail.abc import Ok
from agentrail.core.session.views import LiveText
from agentrail.errors import ErrorInfo, ProviderError
from agentrail.events import (
    AgentEnd,
    Envelope,
    MessageDelta,
    RequestStart,
    ResponseComplete,
    StreamError,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolProgress,
)
from agentrail.messages import ToolResult
from agentrail.runtime.event_bus import EventBus
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, Turn, calls, fails, says
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import RecordingTool
from tests.runtime.rig import NoSandbox, on_virtual_time


@define(kw_only=True, eq=False)
class SlowTool(RecordingTool):
    """A tool that says how far it is, three times, a second apart."""

    name: str = "slow"

    async def execute(self, arguments, ctx):
        self._begin(arguments, ctx)
        for step in range(3):
            ctx.report_progress(f"step {step}")
            await trio.sleep(1)
        return Ok(text="done")


class Reader:
    """One who was there all along: what it would show by now."""

    def __init__(self):
        self.attempt, self.text, self.thinking, self.progress = 0, "", "", {}

    def hear(self, event):
        match event:
            case RequestStart(attempt=attempt):
                self.attempt, self.text, self.thinking = attempt, "", ""
            case MessageDelta(delta=delta):
                self.text += delta
            case ThinkingDelta(delta=delta):
                self.thinking += delta
            case ResponseComplete() | StreamError() | AgentEnd():
                self.attempt, self.text, self.thinking = 0, "", ""
            case ToolProgress(call_id=call_id, text=text):
                self.progress[call_id] = text
            case ToolExecutionEnd(call_id=call_id):
                self.progress.pop(call_id, None)

    @property
    def live(self):
        if not (self.attempt or self.progress):
            return None
        return LiveText(
            attempt=self.attempt,
            text=self.text,
            thinking=self.thinking,
            progress=tuple(self.progress.items()),
        )


@pytest.mark.c(3)
@pytest.mark.parametrize("has_store", [True, False])
@on_virtual_time
async def test_who_joins_at_any_moment_is_told_what_the_first_reader_shows(has_store):
    """In mid-thought, mid-stream, mid-retry and mid-tool; by a subscription and by a snapshot that was asked for."""
    error = ProviderError("overloaded", retryable=True, retry_after_seconds=1.0)  # else it may be none at all
    model = ScriptedModel(
        [
            fails(error, after="Half of a"),
            Turn(text=("One ", "two ", "three"), thinking="Let me see.", pause_seconds=0.5, calls=calls(("slow", {})).calls),
            says("All ", "done", pause_seconds=0.5),
        ]
    )  # fmt: skip
    store = MemoryStore() if has_store else None
    found, seqs = [], []
    async with open_nameless(lambda _name, _root: NoSandbox(), store=store) as supervisor:
        session = await supervisor.start_session(model=model, tools=[SlowTool()])
        async with session.subscribe() as first, trio.open_nursery() as nursery:
            reader = Reader()

            async def look():
                while True:
                    await trio.sleep(0.11)
                    async with session.subscribe() as own:
                        while True:
                            try:
                                reader.hear(first.next_nowait())
                            except trio.WouldBlock:
                                break
                        snapshot = own.snapshot
                    assert snapshot.live == reader.live
                    if snapshot.live is not None:
                        assert snapshot.live.text == snapshot.text
                    found.append(snapshot.live)
                    seqs.append(snapshot.last_seq)
                    asked = await session.snapshot()
                    assert asked.first_seq == 1

            nursery.start_soon(look)
            await session.ask("Hi")
            await trio.sleep(0.2)
            nursery.cancel_scope.cancel()
    shown = {
        (one.attempt, bool(one.text), bool(one.thinking), len(one.progress))
        for one in found
        if one is not None
    }
    assert {(2, True, True, 0), (0, False, False, 1), (1, True, False, 0)} <= shown
    assert found[-1] is None
    assert None in found[:-1]
    assert seqs == sorted(seqs)


def test_an_open_request_without_text_is_live_while_earlier_calls_report_and_end():
    """A snapshot has the attempt of a request from its start to its end, whatever calls that still run say meanwhile."""
    place = Envelope("s1", 0, 1, ("s1",))
    bus = EventBus(place, keep=8)

    def live_after(event):
        bus.publish(msgspec.structs.replace(event, meta=msgspec.structs.replace(place, ephemeral=True)))
        return bus.live

    end = ToolExecutionEnd(
        name="slow", call_id="c1", result=ToolResult(call_id="c1", name="slow", text="done")
    )
    assert live_after(RequestStart(model="m", messages=1, attempt=2)) == LiveText(attempt=2)
    assert live_after(end) == LiveText(attempt=2)
    reported = live_after(ToolProgress(name="slow", call_id="c1", text="half"))
    assert reported == LiveText(attempt=2, progress=(("c1", "half"),))
    assert live_after(end) == LiveText(attempt=2)
    assert live_after(StreamError(error=ErrorInfo(code="overloaded", message="later"))) is None
