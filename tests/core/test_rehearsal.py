"""The dry run that new code of a plugin goes through before it is let in (5.7)."""

import msgspec
import pytest

from agentrail import messages as m, plugins as p
from agentrail.core.protocol.effects import Refuse, ReplyToCaller
from agentrail.core.protocol.signals import ChangePlugins, SessionBegan, SignalId
from agentrail.core.session import machine
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.rehearsal import rehearsal_of
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import PluginError
from agentrail.testing.plugins import PluginShelf
from tests.core.plugin_rig import CTX
from tests.core.worlds import completed, config, prompt

PROMPT = m.UserMessage(content=(m.Text(text="Look"), m.Text(text="here.")), ref=m.PromptRef("p1"))
CALLING = m.AssistantMessage(
    content=(m.ToolCall(call_id=m.CallId("c1"), name="read", arguments={"path": "a"}),), model="m"
)
RESULT = m.ToolResult(call_id=m.CallId("c1"), name="read", text="a file")
RESULTS = m.ToolMessage(results=(RESULT,))
STEER = m.UserMessage(content=(m.Text(text="In French."),), origin="steer")
NOTE = m.UserMessage(content=(m.Text(text="Think again."),), origin="intervention")
ANSWER = m.AssistantMessage(content=(m.Text(text="Voilà."),), model="m")
CUT = m.AssistantMessage(content=(m.Text(text="Voi"),), model="m", cut=True)


def test_each_message_is_met_as_it_was():
    """In the order in which it happened, with the conversation in front of it; of two responses in a row only the second is an end."""
    conversation = (PROMPT, CALLING, RESULTS, STEER, NOTE, ANSWER, PROMPT, CUT)
    moments = [(event, len(ctx.messages)) for event, ctx in rehearsal_of(conversation, CTX)]
    assert moments == [
        (p.BeforePrompt(text="Look\nhere.", content=PROMPT.content), 0),
        (p.BeforeRequest(messages=(PROMPT,)), 1),
        (p.AfterResponse(message=CALLING), 2),
        (p.BeforeTool(name="read", arguments={"path": "a"}, call_id=m.CallId("c1")), 2),
        (p.AfterTool(name="read", call_id=m.CallId("c1"), result=RESULT), 2),
        (p.AfterToolBatch(results=(RESULT,)), 2),
        (p.BeforeSteering(text="In French."), 3),
        (p.BeforeRequest(messages=conversation[:5]), 5),
        (p.AfterResponse(message=ANSWER), 6),
        (p.BeforeFinish(), 6),
        (p.BeforePrompt(text="Look\nhere.", content=PROMPT.content), 6),
        (p.BeforeRequest(messages=conversation[:7]), 7),
    ]

    events = [type(event) for event, _ in rehearsal_of((PROMPT, ANSWER, ANSWER), CTX)]
    assert events.count(p.BeforeFinish) == 1


class Counts(p.Plugin[int]):
    """Counts prompts, or answers as it is told to; takes states of other versions as it is told to."""

    def __init__(self, answer=None, version="0", migrate=None):
        super().__init__(name="Counts")
        self.answer, self.version = answer, version
        if migrate is not None:
            self.migrate = migrate

    def init(self) -> int:
        return 0

    def handle(self, event, state, ctx):
        if self.answer is not None:
            return self.answer(event, state)
        return p.Continue(state + isinstance(event, p.BeforePrompt))


def in_fives(event, state):
    """Count each prompt five times, and say so where nobody may carry it out."""
    if isinstance(event, p.BeforePrompt):
        return p.Abort("no more", state + 5, emits=(("counted", state),))
    return p.Continue(state)


def raises_on_prompts(event, state):
    message = f"no such thing as {type(event).__name__}"
    raise LookupError(message)


def reloaded(entry):
    """Reload a plugin in a session that has had one cycle: its state, and what it answered."""
    shelf = PluginShelf()
    stack, states = load_stack([Counts], ask=shelf)
    state = machine.new_session(config(), Toolbox(), stack, states)
    script = [
        SessionBegan(at_ms=0),
        prompt(),
        completed("r1", m.Text(text="gone")),
    ]
    for signal in script:
        state, _ = machine.step(state, signal)
    reload = ChangePlugins(at_ms=9, signal_id=SignalId("x1"), change="reload", entry=shelf.put("x1", entry))
    before, (after, effects) = state, machine.step(state, reload)
    return before, after, effects


@pytest.mark.at(116)
def test_code_that_passes_its_rehearsal_takes_over():
    """With the migrated state, and nothing of what it said in the rehearsal: no count, no event, no abort."""
    before, after, effects = reloaded(Counts(in_fives, "2", lambda old_version, state: state * 5))
    assert [type(effect) for effect in effects] == [ReplyToCaller]
    assert (before.data.plugin_states["Counts"], after.data.plugin_states["Counts"]) == (1, 5)
    assert after.data.stack.find("Counts").version == "2"
    of_before = {"stack": before.data.stack, "plugin_states": before.data.plugin_states}
    assert msgspec.structs.replace(after.data, **of_before) == before.data


@pytest.mark.at(116)
def test_code_that_fails_in_its_rehearsal_is_refused():
    """With a typed error that says on which hook; the old stack and its states stay as they were."""
    for entry, why in (
        (Counts(raises_on_prompts), "on BeforePrompt it LookupError: no such thing as BeforePrompt"),
        (Counts(lambda event, state: state + 1), "on BeforePrompt it returned 2, expected an action"),
        (
            Counts(lambda event, state: p.Continue("seven")),
            "was not reloaded: on BeforePrompt it answered Continue with a state of type str",
        ),
        (Counts(version="3"), "'Counts' 3 cannot migrate the state of version 0"),
    ):
        before, after, (refusal,) = reloaded(entry)
        assert isinstance(refusal, Refuse)
        assert isinstance(refusal.error, PluginError)
        assert why in str(refusal.error)
        assert after.data == before.data
