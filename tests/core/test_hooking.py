"""What a plugin's answer means for the session, hook by hook: the pipeline's own rules are proved beside it."""

import json

import msgspec
import pytest

from agentrail import plugins as p
from agentrail.core.protocol.effects import Publish, RunPluginRequest, StartStream, Teardown
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import Approve, SignalId
from agentrail.core.session import machine
from agentrail.core.session.state import Phase
from agentrail.core.session.step_context import StepContext
from agentrail.core.session.teardown import abort_by_plugin
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.events import (
    TERMINAL,
    ActionIgnored,
    AgentAbort,
    AgentStart,
    Amount,
    BudgetWarning,
    ModelSwitched,
    PluginEvent,
    PluginFailed,
    SessionEnd,
    SteeringReceived,
)
from agentrail.testing.plugins import PUPPET_ACTIONS
from agentrail.testing.scenario import read_scenario
from tests.core.plugin_rig import Says

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
    "BeforeRequest",
    "AfterResponse",
    "BeforeTool",
    "OnToolError",
    "AfterTool",
    "AfterToolBatch",
    "BeforeFinish",
)


def play(rules, script=CYCLE, *plugins):
    """Play a script before a puppet and other plugins; the last state, and everything that was asked of the shell."""
    scenario = read_scenario(HEAD.format(rules=rules) + script)
    stack, states = load_stack([*scenario.plugins, *plugins])
    state = machine.new_session(scenario.config, scenario.tools, stack, states)
    asked = []
    for line in scenario.inputs:
        state, effects = machine.step(state, line.signal)
        asked += effects
    return state, asked


def events(asked, *kinds):
    """The events of some kinds, in order."""
    return [
        effect.event for effect in asked if isinstance(effect, Publish) and isinstance(effect.event, kinds)
    ]


class Once(p.Plugin[int]):
    """Lets a session begin, and not come back."""

    def init(self) -> int:
        """Begin."""
        return 0

    @p.on(p.SessionStarted)
    def look(self, event: p.SessionStarted, state: int, ctx: p.Context) -> p.Action[int]:
        """Look whether it came back."""
        return p.Abort("not again", state) if event.recovered else p.Continue(state)


class AsksAtBothEnds(p.Plugin[int]):
    """Asks a model when a session begins, comes back, or ends."""

    def init(self) -> int:
        """Begin."""
        return 0

    @p.on(p.SessionStarted, p.SessionEnding)
    def look(self, event: p.HookEvent, state: int, ctx: p.Context) -> p.Action[int]:
        """Ask."""
        return p.Request(p.CallModel(prompt="Where was I?"), "diary", state)


class Asks(p.Plugin[str]):
    """Asks a model on each prompt, and tells what came."""

    def init(self) -> str:
        """Begin."""
        return ""

    @p.on(p.BeforePrompt)
    def look(self, event: p.BeforePrompt, state: str, ctx: p.Context) -> p.Action[str]:
        """Ask."""
        return p.Request(p.CallModel(prompt="Is it fine?"), "judge", state)

    @p.on(p.RequestDone)
    def take(self, event: p.RequestDone, state: str, ctx: p.Context) -> p.Action[str]:
        """Tell."""
        return p.Emit("told", type(event.result).__name__, state)


class NoSecrets(p.Plugin[int]):
    """Asks a person about each call, and aborts over one that reads the secret."""

    def init(self) -> int:
        """Begin."""
        return 0

    @p.on(p.BeforeTool)
    def look(self, event: p.BeforeTool, state: int, ctx: p.Context) -> p.Action[int]:
        """Ask, or abort."""
        if event.arguments["path"] == "secret":
            return p.Abort("a secret", state)
        return p.RequireApproval("sure?", state)


@pytest.mark.parametrize("hook", CAN_ABORT_A_CYCLE)
def test_an_abort_ends_the_cycle_once_and_leaves_a_valid_history(hook):
    """One AgentStart, one terminal event, the plugin's reason; every call is answered, and the session is idle (3.7, 5.4)."""
    state, asked = play(f'{hook}=abort:"enough"')
    assert len(events(asked, AgentStart)) == 1
    assert [type(event) for event in events(asked, *TERMINAL)] == [AgentAbort]
    assert events(asked, AgentAbort)[0].reason == "enough"
    assert state.data.history.open == ()
    assert state.data.cycle is None
    assert state.phase is Phase.IDLE


STOPPED_AT = {
    "idle": 1,
    "a request": 2,
    "a response": 3,
    "calls at work": 4,
    "the last of them": 5,
    "the pause before a retry": 6,
    "the next request": 8,
    "idle again": 9,
}
"""How much of the cycle has happened when the abort comes."""


@pytest.mark.at(20)
@pytest.mark.parametrize("action", sorted(PUPPET_ACTIONS))
@pytest.mark.parametrize("lines", STOPPED_AT.values(), ids=STOPPED_AT)
def test_a_plugin_sees_every_abort_and_cannot_change_it(lines, action):
    """Whatever it answers, the effects of the step are those of a session that it only watches (3.7, 5.4)."""
    text = {"args": '{"path": "b"}', "model": "scripted:other"}.get(action, "no")
    before = "".join(CYCLE.splitlines(keepends=True)[:lines])

    def last_step(rule):
        _, earlier = play(rule, before)
        state, asked = play(rule, before + '@700   Abort a1 "enough"\n')
        return state, asked[len(earlier) :]

    watched, seen = last_step('AfterTurn=emit:"seen"')
    state, asked = last_step(f"AfterTurn={action}:{json.dumps(text)}")
    assert [event.name for event in events(seen, PluginEvent)] == ["seen"]
    assert without_words_of_plugins(asked) == without_words_of_plugins(seen)
    assert len(events(asked, AgentAbort)) == 1
    assert (state.phase, state.data.history.open) == (Phase.IDLE, ())
    assert state.data.history.messages == watched.data.history.messages


def without_words_of_plugins(asked):
    """What a step asked for, but for what plugins say and ask for themselves; without the numbers that those take too."""
    rest = []
    for effect in asked:
        match effect:
            case RunPluginRequest() | Publish(event=PluginEvent() | PluginFailed() | ActionIgnored()):
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
    warning = BudgetWarning(spent=Amount(value=8, unit="tokens"), limit=Amount(value=10, unit="tokens"))
    keeper = Says("keeper", lambda event, state, ctx: p.Emit(warning, state))
    _, asked = play('AfterTurn=emit:"seen"', CYCLE, keeper)
    published = events(asked, BudgetWarning)
    assert len(published) > 1
    assert all(event == warning for event in published)
    assert len({event.meta.seq for event in published}) == len(published)
    assert warning.meta is None


def test_an_abort_before_steering_refuses_the_text_and_nothing_else():
    """The cycle goes on without it (3.8)."""
    state, asked = play('BeforeSteering=abort:"no"', STEERED)
    assert [event.status for event in events(asked, SteeringReceived)] == ["rejected_by_plugin"]
    assert events(asked, AgentAbort) == []
    assert state.phase is Phase.EXECUTING_TOOLS


@pytest.mark.parametrize(
    "script",
    [
        '@0     Started\n@110   Restarted 2 "bang"\n',
        "@0     Started\n@110   Recovered cause=start\n",
        '@0     Started\n@110   Stop s1 "enough"\n',
    ],
)
def test_what_is_asked_for_in_the_step_that_ends_a_session_never_begins(script):
    """Nobody could be told of it, and it would cost: neither where coming back is refused, nor at the end itself."""
    state, asked = play("BeforeCompact=skip", script, AsksAtBothEnds, Once)
    assert state.ended
    begun = [effect.effect_id for effect in asked if isinstance(effect, RunPluginRequest)]
    assert begun == ["e1"]  # that of the first start


def test_a_switch_to_the_model_of_now_is_none():
    """A router may say the same before each request."""
    _, asked = play("BeforeRequest=model:scripted:model", '@10    Prompt p1 "Look."\n')
    assert events(asked, ModelSwitched) == []


def test_who_would_wait_again_where_nothing_can_wait_is_ignored():
    """Told that it cannot wait, it wants to wait for something else: the step ends all the same."""

    class WaitsAgain(p.Plugin[int]):
        def init(self) -> int:
            return 0

        @p.on(p.BeforeRequest, p.RequestDone)
        def look(self, event: p.HookEvent, state: int, ctx: p.Context) -> p.Action[int]:
            return p.Request(p.ReadFile("notes.txt"), "notes", state, wait=True)

    _, asked = play("BeforeCompact=skip", '@10    Prompt p1 "Look."\n', WaitsAgain)
    assert [(event.hook, event.action) for event in events(asked, ActionIgnored)] == [
        ("BeforeRequest", "Request")
    ]
    assert any(isinstance(effect, StartStream) for effect in asked)


def test_an_abort_about_an_edited_call_ends_the_cycle_with_the_call_answered():
    """A person's edit is judged again; when a plugin aborts over it, the caller hears ok and the history is closed."""
    script = '@10    Prompt p1 "Look."\n@100   ResponseCompleted r1 c1:read={"path": "a"}\n'
    state, _ = play("BeforeCompact=skip", script, NoSecrets(priority=50))
    (waiting,) = state.data.interactions
    edited = Approve(
        at_ms=200, signal_id=SignalId("a1"), approval_id=waiting.asked.id, arguments={"path": "secret"}
    )
    state, effects = machine.step(state, edited)
    assert [event.reason for event in events(effects, AgentAbort)] == ["a secret"]
    assert state.data.history.open == ()
    assert state.phase is Phase.IDLE


def test_an_abort_without_a_cycle_stops_nothing():
    """Whatever ended the cycle in the same step has said so already: there is no second end."""
    state, _ = play("BeforeCompact=skip", "@0     Started\n")
    step = StepContext(state.data, 10)
    assert abort_by_plugin(step, "too late") is Phase.IDLE
    assert step.effects == []


def test_the_last_look_may_be_told():
    """What `on_session_end` gives is published before the end (5.1)."""

    class Farewell(p.Plugin[int]):
        """Says goodbye."""

        def init(self) -> int:
            """Begin."""
            return 3

        def on_session_end(self, state: int, ctx: p.Context) -> tuple[str, int]:
            """Tell the count."""
            return ("farewell", state)

    _, asked = play("BeforeCompact=skip", "@0     Started\n@10    Stop x1\n", Farewell())
    told = events(asked, PluginEvent, SessionEnd)
    assert [type(event).__name__ for event in told] == ["PluginEvent", "SessionEnd"]
    assert (told[0].name, told[0].payload) == ("farewell", 3)
