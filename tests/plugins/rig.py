"""Asking one plugin, as a session would."""

from typing import Any

from agentrail import plugins as p
from agentrail.core.stack.hook_outcome import Outcome
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.pipeline import run_hook
from agentrail.core.stack.plugin_changes import decide_update
from agentrail.messages import AssistantMessage, CallId, SessionId, Text, ToolCall


class Alone:
    """A plugin in a stack of its own, with its state."""

    def __init__(self, plugin: Any, **options: Any) -> None:
        """Load it."""
        self.stack, self.states = load_stack([(plugin, options)])

    def hears(self, event: p.HookEvent, **context: Any) -> Outcome:
        """Ask it, and keep its state."""
        ctx = p.Context(session_id=SessionId("s"), working_dir="/srv/project", **context)
        outcome = run_hook(self.stack, event, self.states, ctx)
        assert outcome.decision is None or not outcome.decision.failed, outcome.decision
        self.states = outcome.states
        return outcome

    def update(self, **options: Any) -> str | None:
        """Change its options; the error, if it refused them."""
        ctx = p.Context(session_id=SessionId("s"))
        change = decide_update(self.stack, self.stack.names[0], options, self.states, ctx)
        self.stack, self.states = change.stack, change.states
        updated: Any = change.events[-1]
        error = updated.error
        return None if error is None else error.message

    @property
    def state(self) -> Any:
        """What it remembers."""
        (state,) = self.states.values()
        return state


def call(tool: str, **arguments: Any) -> p.BeforeTool:
    """A call that is about to run."""
    return p.BeforeTool(name=tool, arguments=arguments, call_id=CallId("c1"))


def says(text: str, *tools: str) -> p.AfterResponse:
    """A response, with calls or without."""
    calls = tuple(ToolCall(call_id=CallId(f"c{n}"), name=name, arguments={}) for n, name in enumerate(tools))
    return p.AfterResponse(message=AssistantMessage(content=(Text(text=text), *calls), model="demo:"))
