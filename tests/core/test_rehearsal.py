"""The dry run that new code of a plugin goes through before it is let in (5.7)."""

import msgspec
import pytest

from agentrail import plugins as p
from agentrail.core.protocol.effects import Refuse, ReplyToCaller
from agentrail.core.protocol.signals import ChangePlugins, Prompt, SessionBegan, SignalId
from agentrail.core.session import machine
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.rehearsal import rehearsal_of
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import PluginError
from agentrail.messages import (
    AssistantMessage,
    CallId,
    PromptRef,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.testing.plugins import PluginShelf
from tests.core.plugin_rig import CTX
from tests.core.worlds import completed, config

PROMPT = UserMessage(content=(Text(text="Look"), Text(text="here.")), ref=PromptRef("p1"))
CALLING = AssistantMessage(
    content=(ToolCall(call_id=CallId("c1"), name="read", arguments={"path": "a"}),), model="m"
)
RESULT = ToolResult(call_id=CallId("c1"), name="read", text="a file")
RESULTS = ToolMessage(results=(RESULT,))
STEER = UserMessage(content=(Text(text="In French."),), origin="steer")
NOTE = UserMessage(content=(Text(text="Think again."),), origin="intervention")
ANSWER = AssistantMessage(content=(Text(text="Voilà."),), model="m")
CUT = AssistantMessage(content=(Text(text="Voi"),), model="m", cut=True)


def test_each_message_is_met_as_it_was():
    """In the order in which it happened, each event with the conversation in front of it."""
    conversation = (PROMPT, CALLING, RESULTS, STEER, NOTE, ANSWER, PROMPT, CUT)
    moments = [(event, len(ctx.messages)) for event, ctx in rehearsal_of(conversation, CTX)]
    assert moments == [
        (p.BeforePrompt(text="Look\nhere.", content=PROMPT.content), 0),
        (p.BeforeRequest(messages=(PROMPT,)), 1),
        (p.AfterResponse(message=CALLING), 2),
        (p.BeforeTool(name="read", arguments={"path": "a"}, call_id=CallId("c1")), 2),
        (p.AfterTool(name="read", call_id=CallId("c1"), result=RESULT), 2),
        (p.AfterToolBatch(results=(RESULT,)), 2),
        (p.BeforeSteering(text="In French."), 3),
        (p.BeforeRequest(messages=conversation[:5]), 5),
        (p.AfterResponse(message=ANSWER), 6),
        (p.BeforeFinish(), 6),
        (p.BeforePrompt(text="Look\nhere.", content=PROMPT.content), 6),
        (p.BeforeRequest(messages=conversation[:7]), 7),
    ]


def test_an_answer_that_a_turn_follows_was_no_end():
    """Two responses without anybody in between come of a vendor that paused: only the second one is an end."""
    events = [type(event) for event, _ in rehearsal_of((PROMPT, ANSWER, ANSWER), CTX)]
    assert events.count(p.BeforeFinish) == 1


class Counts(p.Plugin[int]):
    """Counts prompts."""

    def init(self) -> int:
        """Begin."""
        return 0

    def handle(self, event: p.HookEvent, state: int, ctx: p.Context) -> p.Action[int]:
        """Count."""
        return p.Continue(state + isinstance(event, p.BeforePrompt))


class CountsInFives(Counts):
    """Counts each prompt five times, from a state of another version."""

    name, version = "Counts", "2"

    def handle(self, event: p.HookEvent, state: int, ctx: p.Context) -> p.Action[int]:
        """Count, and say so where nobody may carry it out."""
        if isinstance(event, p.BeforePrompt):
            return p.Abort("no more", state + 5, emits=(("counted", state),))
        return p.Continue(state)

    def migrate(self, old_version: str, state: int) -> int:
        """Take it as it is, in fives."""
        return state * 5


class RaisesOnPrompts(Counts):
    """Has a bug that this session meets."""

    name = "Counts"

    def handle(self, event: p.HookEvent, state: int, ctx: p.Context) -> p.Action[int]:
        """Raise."""
        message = f"no such thing as {type(event).__name__}"
        raise LookupError(message)


class AnswersRubbish(Counts):
    """Returns what is no action."""

    name = "Counts"

    def handle(self, event, state, ctx):
        """Return the state alone."""
        return state + 1


class StatesOfAnotherType(Counts):
    """Answers with a state that is none of its own."""

    name = "Counts"

    def handle(self, event, state, ctx):
        """Return a text."""
        return p.Continue("seven")


class RefusesToMigrate(Counts):
    """Takes no state of another version."""

    name, version = "Counts", "3"


def reloaded(entry):
    """Reload a plugin in a session that has had one cycle: its state, and what it answered."""
    shelf = PluginShelf()
    stack, states = load_stack([Counts], ask=shelf)
    state = machine.new_session(config(), Toolbox(), stack, states)
    script = [
        SessionBegan(at_ms=0),
        Prompt(at_ms=1, signal_id=SignalId("s1"), ref=PromptRef("p1"), content=(Text(text="go"),)),
        completed("r1", Text(text="gone")),
    ]
    for signal in script:
        state, _ = machine.step(state, signal)
    reload = ChangePlugins(at_ms=9, signal_id=SignalId("x1"), change="reload", entry=shelf.put("x1", entry))
    before, (after, effects) = state, machine.step(state, reload)
    return before, after, effects


@pytest.mark.at(116)
def test_code_that_passes_its_rehearsal_takes_over():
    """With the migrated state, and nothing of what it said in the rehearsal: no count, no event, no abort."""
    before, after, effects = reloaded(CountsInFives)
    assert [type(effect) for effect in effects] == [ReplyToCaller]
    assert (before.data.plugin_states["Counts"], after.data.plugin_states["Counts"]) == (1, 5)
    assert after.data.stack.find("Counts").version == "2"
    same = msgspec.structs.replace(
        after.data, stack=before.data.stack, plugin_states=before.data.plugin_states
    )
    assert same == before.data


@pytest.mark.at(116)
@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (RaisesOnPrompts, "was not reloaded: on BeforePrompt it LookupError: no such thing as BeforePrompt"),
        (AnswersRubbish, "was not reloaded: on BeforePrompt it returned 2, expected an action"),
        (
            StatesOfAnotherType,
            "was not reloaded: on BeforePrompt it answered Continue with a state of type str",
        ),
        (RefusesToMigrate, "'Counts' 3 does not take the state of version 0"),
    ],
)
def test_code_that_fails_in_its_rehearsal_is_refused(entry, why):
    """With a typed error that says on which hook; the old stack and its states stay as they were."""
    before, after, (refusal,) = reloaded(entry)
    assert isinstance(refusal, Refuse)
    assert isinstance(refusal.error, PluginError)
    assert why in str(refusal.error)
    assert after.data == before.data
