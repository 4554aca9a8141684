"""Texts that plugins return, whatever library made them: a session with them is stored, and continues."""

from typing import Any

import pytest

from agentrail import open_supervisor, plugins as p
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.runtime.rig import on_virtual_time

Markup = type("Markup", (str,), {})  # what template engines and parsers of HTML return

ANSWERS = {
    "BeforeRequest": lambda text: p.Continue(0, context={text: text}),
    "BeforeTool": lambda text: p.BlockTool(text, 0),
    "AfterResponse": lambda text: p.ReplaceResponse(text, 0),
    "AfterToolBatch": lambda text: p.Intervene(text, 0),
    "AfterTool": lambda text: p.ReplaceToolResult(text, 0),
}


def answering(hook: str, text: str) -> Any:
    @p.plugin(name="texts", init=int, hooks=(getattr(p, hook),))
    def texts(event: p.HookEvent, state: int, ctx: p.Context) -> Any:
        return ANSWERS[hook](text)

    return texts


@pytest.mark.parametrize("hook", ANSWERS)
@pytest.mark.parametrize(("text", "plain"), [(Markup("<b>"), "<b>"), ("half \ud83d", "half \ufffd")])
@on_virtual_time
async def test_a_session_continues_with_any_text_of_a_plugin(hook: str, text: str, plain: str):
    """The model and the history get the plain text: a lone surrogate, which no store can hold, is U+FFFD there."""
    model = FunctionModel(
        lambda request: says("Done.") if len(request.messages) > 1 else calls(("record", {}))
    )
    parts: dict[str, Any] = {"model": model, "tools": [RecordingTool()], "plugins": [answering(hook, text)]}
    store = MemoryStore()
    async with open_supervisor(store=store) as supervisor:
        session = await supervisor.start_session(session_id="s-1", **parts)
        await session.ask("Go.")
        before = await session.messages()
    assert plain in f"{model.requests[-1]!r} {before!r}"
    async with open_supervisor(store=store) as supervisor:
        session = await supervisor.resume_session("s-1", **parts)
        assert await session.messages() == before
