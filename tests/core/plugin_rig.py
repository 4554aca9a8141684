"""Plugins that say what a test wants, and one hook event of each kind."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from agentrail import plugins as p
from agentrail.core.protocol.hooks import HOOKS, Hook
from agentrail.core.stack.hook_outcome import Outcome
from agentrail.core.stack.loaded_stack import PluginEntry, load_stack
from agentrail.core.stack.pipeline import run_hook
from agentrail.errors import ErrorInfo
from agentrail.frozen import frozen_json
from agentrail.messages import AssistantMessage, CallId, SessionId, Text, ToolResult, UserMessage

CTX: Final = p.Context(session_id=SessionId("s"), user_data=frozen_json({"tenant": "acme"}))
RESULT: Final = ToolResult(call_id=CallId("c1"), name="shell", text="done")
OTHER: Final = UserMessage(content=(Text(text="other"),))
ERROR: Final = ErrorInfo(code="tool_crashed", message="it broke")

EVENTS: Final[Mapping[Hook, p.HookEvent]] = {
    p.SessionStarted: p.SessionStarted(),
    p.SessionEnding: p.SessionEnding(),
    p.AfterTurn: p.AfterTurn(outcome="finished"),
    p.BeforePrompt: p.BeforePrompt(text="hello", content=(Text(text="hello"),)),
    p.BeforeRequest: p.BeforeRequest(),
    p.AfterResponse: p.AfterResponse(message=AssistantMessage(content=(Text(text="hi"),), model="demo:")),
    p.BeforeTool: p.BeforeTool(name="shell", arguments={"command": "ls"}, call_id=CallId("c1")),
    p.OnToolError: p.OnToolError(name="shell", call_id=CallId("c1"), error=ERROR, attempt=1),
    p.AfterTool: p.AfterTool(name="shell", call_id=CallId("c1"), result=RESULT),
    p.AfterToolBatch: p.AfterToolBatch(results=(RESULT,)),
    p.BeforeFinish: p.BeforeFinish(),
    p.BeforeCompact: p.BeforeCompact(),
    p.BeforeSteering: p.BeforeSteering(text="left"),
    p.BeforePluginOptsUpdate: p.BeforePluginOptsUpdate(plugin="other", options={"a": 1}),
}

# One of each action, around a state.
SAYINGS: Final[Mapping[type, Callable[[Any], Any]]] = {
    p.Continue: p.Continue,
    p.Emit: lambda state: p.Emit("said", {"n": 1}, state),
    p.Intervene: lambda state: p.Intervene("look again", state),
    p.Abort: lambda state: p.Abort("enough", state),
    p.Skip: p.Skip,
    p.BlockTool: lambda state: p.BlockTool("not this", state),
    p.ReplaceToolArgs: lambda state: p.ReplaceToolArgs({"command": "pwd"}, state),
    p.SwitchModel: lambda state: p.SwitchModel("demo:small", state),
    p.RequireApproval: lambda state: p.RequireApproval("sure?", state),
    p.ReplaceToolResult: lambda state: p.ReplaceToolResult("shorter", state),
    p.ReplaceResponse: lambda state: p.ReplaceResponse("kinder", state),
    p.ReplaceMessages: lambda state: p.ReplaceMessages((OTHER,), state),
    p.ResolveApproval: lambda state: p.ResolveApproval("a1", "approve", state),
    p.Request: lambda state: p.Request(p.ReadFile("notes"), "t", state),
}


class Says(p.Plugin[int]):
    """Counts how often it was asked, and answers what it was told to answer; keeps what it was shown."""

    def __init__(self, name: str, answer: Any = p.Continue, **members: Any) -> None:
        """Take an action class, or a function of event, next state and context."""
        super().__init__(name=name)
        self.answer: Any = SAYINGS.get(answer, answer)
        self.shown: list[p.HookEvent] = []
        for member, value in members.items():
            setattr(self, member, value)

    def init(self, first: int = 0) -> int:
        return first

    def handle(self, event, state, ctx):
        """Answer, with a count that is one higher."""
        self.shown.append(event)
        if self.answer in SAYINGS.values():
            return self.answer(state + 1)
        return self.answer(event, state + 1, ctx)


def judges(name: str, hook: Hook, answer: Callable[[Any, Any], Any], **members: Any) -> Says:
    """Make a plugin that answers one hook by a function of the event and its own next state."""
    return Says(name, lambda event, state, ctx: answer(event, state), hooks=(hook,), **members)


def not_again(name: str = "Once") -> Says:
    """Make a plugin that lets a session begin, and not come back."""

    def look(event: Any, state: Any) -> Any:
        return p.Abort("not again", state) if event.recovered else p.Continue(state)

    return judges(name, p.SessionStarted, look)


def ask(entries: list[PluginEntry], hook: Hook, **how: Any) -> Outcome:
    stack, states = load_stack(entries)
    return run_hook(stack, EVENTS[hook], states, CTX, **how)


def raises(*_: Any) -> Any:
    message = "a bug"
    raise ZeroDivisionError(message)


assert set(EVENTS) == set(HOOKS)
