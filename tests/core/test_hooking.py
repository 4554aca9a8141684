"""What a plugin's answer means for the session, hook by hook: the pipeline's own rules are proved beside it."""

import itertools
import json

import msgspec
import pytest

from agentrail import events as e, plugins as p
from agentrail.core.protocol.effects import Publish, RunPluginRequest, StartStream, Teardown
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import Approve, SignalId
from agentrail.core.session import machine
from agentrail.core.session.state import Phase
from agentrail.core.session.step_context import StepContext
from agentrail.core.session.teardown import abort_by_plugin
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.testing.plugins import PUPPET_ACTIONS
from agentrail.testing.scenario import read_scenario
from tests.core.plugin_rig import Says, judges, not_again
from tests.thinned import each

HEAD = """\
# tests: a cycle that comes by every hook.
session show=all
tool read path=string? class=pure
plugin puppet {rules}
"""
CYCLE = """\
@0     Started
@10    Prompt p1 "Look."
@90    StreamStarted r1
@100   ResponseCompleted r1 c1:read c2:read
@110   ToolFinished t2 "a file"
@120   ToolFinished t3 "boom" error crashed jitter=0.5
@620   TimerFired w4
@630   ToolFinished t5 "a file"
@640   ResponseCompleted r6 "Done."
"""
STEERED = CYCLE.partition("@620")[0] + '@130   Steer s1 "Hurry."\n'

CAN_ABORT_A_CYCLE = (
    *(
        "BeforeRequest",
        "AfterResponse",
        "BeforeTool",
        "OnToolError",
        "AfterTool",
        "AfterToolBatch",
        "BeforeFinish",
    ),
)


def play(rules, script=CYCLE, *plugins):
    """Play a script before a puppet and other plugins; the last state, and everything that was asked of the shell."""
    return play_text(HEAD.format(rules=rules) + script, *plugins)


def play_text(text, *plugins):
    """Play a scenario, and other plugins with it."""
    scenario = read_scenario(text)
    stack, states = load_stack([*scenario.plugins, *plugins])
    state = machine.new_session(scenario.config, scenario.tools, stack, states)
    asked = []
    for line in scenario.inputs:
        state, effects = machine.step(state, line.signal)
        asked += effects
    return state, asked


def events(asked, *kinds):
    return [
        effect.event for effect in asked if isinstance(effect, Publish) and isinstance(effect.event, kinds)
    ]


@each("hook", CAN_ABORT_A_CYCLE)
def test_an_abort_ends_the_cycle_once_and_leaves_a_valid_history(hook):
    """One AgentStart, one terminal event, the plugin's reason; every call is answered, and the session is idle (3.7, 5.4)."""
    state, asked = play(f'{hook}=abort:"enough"')
    assert len(events(asked, e.AgentStart)) == 1
    assert [type(event) for event in events(asked, *e.TERMINAL)] == [e.AgentAbort]
    assert events(asked, e.AgentAbort)[0].reason == "enough"
    assert state.data.history.open == ()
    assert state.data.cycle is None
    assert state.phase is Phase.IDLE


# How much of the cycle has happened when the abort comes: idle, a request, a response, calls at work, the last of them, the pause
# before a retry, the next request, idle again.
STOPPED_AT = (1, 2, 3, 4, 5, 6, 8, 9)


@pytest.mark.at(20)
@each(("action", "lines"), itertools.product(sorted(PUPPET_ACTIONS), STOPPED_AT))
def test_a_plugin_sees_every_abort_and_cannot_change_it(action, lines):
    """Whatever it answers, the effects of the step are those of a session that it only watches (3.7, 5.4)."""
    text = {"args": '{"path": "b"}', "model": "scripted:other"}.get(action, "no")
    before = "".join(CYCLE.splitlines(keepends=True)[:lines])

    def last_step(rule):
        _, earlier = play(rule, before)
        state, asked = play(rule, before + '@700   Abort a1 "enough"\n')
        return state, asked[len(earlier) :]

    watched, seen = last_step('AfterTurn=emit:"seen"')
    state, asked = last_step(f"AfterTurn={action}:{json.dumps(text)}")
    assert [event.name for event in events(seen, e.PluginEvent)] == ["seen"]
    assert without_words_of_plugins(asked) == without_words_of_plugins(seen)
    assert len(events(asked, e.AgentAbort)) == 1
    assert (state.phase, state.data.history.open) == (Phase.IDLE, ())
    assert state.data.history.messages == watched.data.history.messages


def without_words_of_plugins(asked):
    """What a step asked for, but for what plugins say and ask for themselves; without the numbers that those take too."""
    rest = []
    for effect in asked:
        match effect:
            case RunPluginRequest() | Publish(event=e.PluginEvent() | e.PluginFailed() | e.ActionIgnored()):
                pass
            case Publish(event=event):
                rest.append(msgspec.structs.replace(event, meta=None))
            case Teardown():
                rest.append(msgspec.structs.replace(effect, effect_id=EffectId("d")))
            case _:
                rest.append(effect)
    return rest


def test_an_event_that_a_plugin_publishes_twice_stays_as_the_plugin_made_it():
    """Each time another number is given to what is published, and none to the plugin's own value."""
    warning = e.BudgetWarning(spent=e.Amount(value=8, unit="tokens"), limit=e.Amount(value=10, unit="tokens"))
    keeper = Says("keeper", lambda event, state, ctx: p.Emit(warning, state))
    _, asked = play('AfterTurn=emit:"seen"', CYCLE, keeper)
    published = events(asked, e.BudgetWarning)
    assert len(published) > 1
    assert all(event == warning for event in published)
    assert len({event.meta.seq for event in published}) == len(published)
    assert warning.meta is None


def test_an_abort_that_has_nothing_to_end_ends_nothing_else():
    """Before steering it refuses the text alone (3.8); without a cycle, whatever ended that in the same step has said so already."""
    state, asked = play('BeforeSteering=abort:"no"', STEERED)
    assert [event.status for event in events(asked, e.SteeringReceived)] == ["rejected_by_plugin"]
    assert events(asked, e.AgentAbort) == []
    assert state.phase is Phase.EXECUTING_TOOLS

    state, _ = play("BeforeCompact=skip", "@0     Started\n")
    step = StepContext(state.data, 10)
    assert abort_by_plugin(step, "too late") is Phase.IDLE
    assert step.effects == []


def test_what_is_asked_for_in_the_step_that_ends_a_session_never_begins():
    """Nobody could be told of it, and it would cost: neither where coming back is refused, nor at the end itself."""
    wants = lambda event, state, ctx: p.Request(p.CallModel(prompt="Where was I?"), "diary", state)  # noqa: E731
    asks = Says("asks", wants, hooks=(p.SessionStarted, p.SessionEnding))
    for end in ('Restarted 2 "bang"', "Recovered cause=start", 'Stop s1 "enough"'):
        state, asked = play("BeforeCompact=skip", f"@0     Started\n@110   {end}\n", asks, not_again())
        assert state.ended
        begun = [effect.effect_id for effect in asked if isinstance(effect, RunPluginRequest)]
        assert begun == ["e1"]  # that of the first start


def test_what_changes_nothing_is_no_event_or_is_ignored():
    """A switch to the model of now; and to wait again where nothing can wait: the step ends all the same."""
    _, asked = play("BeforeRequest=model:scripted:model", '@10    Prompt p1 "Look."\n')
    assert events(asked, e.ModelSwitched) == []

    again = lambda event, state, ctx: p.Request(p.ReadFile("notes.txt"), "notes", state, wait=True)  # noqa: E731
    waits = Says("waits", again, hooks=(p.BeforeRequest,))
    _, asked = play("BeforeCompact=skip", '@10    Prompt p1 "Look."\n', waits)
    ignored = [(event.hook, event.action) for event in events(asked, e.ActionIgnored)]
    assert ignored == [("BeforeRequest", "Request")]
    assert any(isinstance(effect, StartStream) for effect in asked)


def test_an_abort_about_an_edited_call_ends_the_cycle_with_the_call_answered():
    """A person's edit is judged again; when a plugin aborts over it, the caller hears ok and the history is closed."""
    script = '@10    Prompt p1 "Look."\n@100   ResponseCompleted r1 c1:read={"path": "a"}\n'

    def judge(event, state):
        is_secret = event.arguments["path"] == "secret"
        return p.Abort("a secret", state) if is_secret else p.RequireApproval("sure?", state)

    state, _ = play("BeforeCompact=skip", script, judges("NoSecrets", p.BeforeTool, judge, priority=50))
    (waiting,) = state.data.interactions
    by = {"at_ms": 200, "signal_id": SignalId("a1"), "approval_id": waiting.asked.id}
    state, effects = machine.step(state, Approve(**by, arguments={"path": "secret"}))
    assert [event.reason for event in events(effects, e.AgentAbort)] == ["a secret"]
    assert state.data.history.open == ()
    assert state.phase is Phase.IDLE


def test_the_last_look_may_be_told():
    """What `on_session_end` gives is published before the end (5.1)."""
    farewell = Says("farewell", on_session_end=lambda state, ctx: ("farewell", 3))
    _, asked = play("BeforeCompact=skip", "@0     Started\n@10    Stop x1\n", farewell)
    told = events(asked, e.PluginEvent, e.SessionEnd)
    assert [type(event).__name__ for event in told] == ["PluginEvent", "SessionEnd"]
    assert (told[0].name, told[0].payload) == ("farewell", 3)
