"""`check_plugin`: the contract of a plugin, as a test for any plugin."""

from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Any, Final

from agentrail.core.protocol import hooks as h
from agentrail.core.stack.loaded_stack import PluginEntry, Stack, load_stack
from agentrail.core.stack.pipeline import deliver, end, resume_hook, run_hook
from agentrail.core.stack.plugin import Context, Plugin
from agentrail.core.stack.plugin_changes import decide_update
from agentrail.core.stack.plugin_state import loses
from agentrail.core.values.foreign_calls import attempt
from agentrail.core.values.seeded_random import SeededRandom
from agentrail.errors import ErrorInfo
from agentrail.events import ActionIgnored, Event, PluginFailed
from agentrail.frozen import frozen_json
from agentrail.messages import AssistantMessage, CallId, JsonObject, SessionId, Text, ToolResult, UserMessage
from agentrail.testing.plugins import call_to_end
from agentrail.testing.rule_failures import require_assertions
from agentrail.testing.watched_stack import StackWatch

ROUNDS: Final = 3
MAX_ANSWERS: Final = 200

_CALL: Final = CallId("call_1")
_RESULT: Final = ToolResult(call_id=_CALL, name="shell", text="README.md")
_SAID: Final = AssistantMessage(
    content=(Text(text="I shall look.\n- [ ] look\n- [ ] answer"),), model="demo:"
)
_ASKED: Final = UserMessage(content=(Text(text="What is in here? Please tell me in one sentence."),))
_ERROR: Final = ErrorInfo(code="crashed", message="it broke")
# Plugins must tolerate that each request fails, and a check has neither disk nor model.
_NO_ANSWER: Final = h.RequestFailed(error=ErrorInfo(code="not_there", message="the check context ends here"))

SAMPLES: Final[tuple[h.Lifecycle, ...]] = (
    h.SessionStarted(),
    h.BeforePrompt(text="What is in here? Please tell me in one sentence.", content=_ASKED.content),
    h.BeforeRequest(messages=(_ASKED,)),
    h.AfterResponse(message=_SAID),
    h.BeforeTool(name="shell", arguments=frozen_json({"command": "ls -l"}), call_id=_CALL),
    h.BeforeTool(name="read_file", arguments=frozen_json({"path": "README.md"}), call_id=_CALL),
    h.OnToolError(name="shell", call_id=_CALL, error=_ERROR, attempt=1),
    h.AfterTool(name="shell", call_id=_CALL, result=_RESULT),
    h.AfterToolBatch(results=(_RESULT,)),
    h.BeforeSteering(text="Only the names, please."),
    h.BeforeCompact(messages=(_ASKED, _SAID)),
    h.BeforePluginOptsUpdate(plugin="another", options=frozen_json({"level": 1})),
    h.BeforeFinish(),
    h.AfterTurn(outcome="finished", messages_diff=(_ASKED, _SAID), ended_at_ms=1_000, duration_ms=1_000),
    h.AfterTurn(outcome="aborted", abort_reason="enough"),
    h.SessionStarted(recovered=True),
    h.SessionEnding(),
)
"""At least one of each hook, in a possible order of a session."""


def check_plugin(
    plugin: type[Plugin] | Plugin,
    *,
    options: Sequence[JsonObject] = ({},),
    events: Sequence[h.Lifecycle] = SAMPLES,
) -> None:
    """Test a plugin against the contract.

    Args:
        plugin: The class, or an instance.
        options: Sets of options, each of which must work.
        events: Hook events for the plugin. By default at least one of each hook, with common contents.

    Raises:
        PluginError: A mistake of its author: it cannot be loaded with these options.
        AssertionError: A mistake of its author: a rule is broken, and the message is the rule.
    """
    require_assertions()
    for given in options:
        entry: PluginEntry = (plugin, given)
        watch = StackWatch([entry])
        stack, states = load_stack([entry], ask=watch)
        (member,) = stack.members
        state = states[member.name]
        described = attempt(call_to_end, type(member.plugin), "return from describe", member.plugin.describe)
        assert isinstance(described, str | dict | MappingProxyType), (
            f"{member.name}: describe() must return text or a mapping, got {described!r:.200}"
        )
        for moment in range(ROUNDS):
            for event in events:
                if type(event) in member.hooks:
                    state = _asked(stack, watch, event, state, moment)
        states = MappingProxyType({member.name: state})
        # The plugin may refuse them, but must be pure.
        decide_update(stack, member.name, given, states, _context(ROUNDS))
        ended = end(stack, states, _context(ROUNDS))
        _refuse_faults(watch, ended)
        assert ended == end(stack, states, _context(ROUNDS)), (
            f"{member.name}: on_session_end returns a different answer the second time"
        )


def _asked(stack: Stack, watch: StackWatch, event: h.Lifecycle, state: Any, moment: int) -> Any:
    """Call the plugin through the pipeline, and answer its requests. The watch repeats each call."""
    (member,) = stack.members
    what = f"{member.name}, on {type(event).__name__}"
    context = _context(moment)
    given = repr((event, state, context))
    outcome = run_hook(stack, event, MappingProxyType({member.name: state}), context)
    assert repr((event, state, context)) == given, f"{what}: it changed its input"
    for _ in range(MAX_ANSWERS):
        _refuse_faults(watch, outcome.events)
        ctx = _context(moment)
        if outcome.waiting is not None:
            outcome = resume_hook(stack, outcome, _NO_ANSWER, outcome.states, ctx)
        elif outcome.plugin_requests:
            done = h.RequestDone(tag=outcome.plugin_requests[0].tag, result=_NO_ANSWER)
            outcome = deliver(stack, member.name, done, outcome.states, ctx)
        else:
            break
    else:
        message = f"{what}: after {MAX_ANSWERS} failed requests it still makes another one: let it stop"
        raise AssertionError(message)
    after = outcome.states[member.name]
    lost = loses(after, member.state_type)
    assert lost is None, f"{what}: {lost}"
    return after


def _refuse_faults(watch: StackWatch, events: Iterable[Event]) -> None:
    _, faults = watch.take()
    assert not faults, "; ".join(faults)
    for one in events:
        assert not isinstance(one, PluginFailed), f"{one.plugin}, on {one.hook}: {one.error.message}"
        assert not isinstance(one, ActionIgnored), (
            f"{one.plugin}, on {one.hook}: it answered {one.action}, which does nothing there"
        )


def _context(moment: int) -> Context:
    return Context(
        session_id=SessionId("check"),
        working_dir="/srv/project",
        model="demo:",
        turn=1 + moment,
        messages=(_ASKED, _SAID),
        total_tokens=1_000 * moment,
        cost_usd=0.01 * moment,
        tools=("list_dir", "read_file", "shell"),
        user_data=frozen_json({"tenant": "acme"}),
        now_ms=1_700_000_000_000 + 60_000 * moment,
        # A new one for each call, as in a session: a repeated call gets the same numbers.
        random=SeededRandom(moment),
    )
