"""What a plugin's answer means for the session, hook by hook: the pipeline's own rules are proved beside it."""

import json

import msgspec
import pytest

from agentrail import plugins as p
from agentrail.core.protocol.effects import Publish, RunPluginRequest, SetTimer, StartStream, Teardown
from agentrail.core.protocol.hooks import ModelAnswer
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import Approve, PluginRequestFinished, SignalId
from agentrail.core.session import machine
from agentrail.core.session.state import Phase
from agentrail.core.session.step_context import StepContext
from agentrail.core.session.teardown import abort_by_plugin
from agentrail.core.stack.loading import load_stack
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
    PromptRejected,
    SessionEnd,
    SteeringReceived,
    ToolRetry,
)
from agentrail.messages import TokenUsage
from agentrail.testing.plugins import PUPPET_ACTIONS
from agentrail.testing.promises.seen import plugin_requests_of
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


class Patient(p.Plugin[int]):
    """Asks people, and gives them all the time there is."""

    def init(self) -> int:
        """Begin."""
        return 0

    @p.on(p.BeforeTool)
    def look(self, event: p.BeforeTool, state: int, ctx: p.Context) -> p.Action[int]:
        """Ask."""
        return p.RequireApproval("sure?", state, expires_seconds=0)


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


class WaitsForAModel(p.Plugin[str]):
    """Wants to wait for a model, and tells what came."""

    def init(self) -> str:
        """Begin."""
        return ""

    @p.on(p.BeforeRequest)
    def look(self, event: p.BeforeRequest, state: str, ctx: p.Context) -> p.Action[str]:
        """Ask, and want to wait."""
        return p.Request(p.CallModel(prompt="Is it fine?"), "judge", state, wait=True)

    @p.on(p.RequestDone)
    def take(self, event: p.RequestDone, state: str, ctx: p.Context) -> p.Action[str]:
        """Tell."""
        assert isinstance(event.result, p.RequestFailed)
        return p.Emit("told", event.result.error.code, state)


class AbortsLate(p.Plugin[str]):
    """Asks a model on each prompt, and aborts over its answer."""

    def init(self) -> str:
        """Begin."""
        return ""

    @p.on(p.BeforePrompt)
    def look(self, event: p.BeforePrompt, state: str, ctx: p.Context) -> p.Action[str]:
        """Ask."""
        return p.Request(p.CallModel(prompt="Is it fine?"), "judge", state)

    @p.on(p.RequestDone)
    def take(self, event: p.RequestDone, state: str, ctx: p.Context) -> p.Action[str]:
        """Abort."""
        return p.Abort("it is not", state)


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


@pytest.mark.parametrize("hook", CAN_ABORT_A_CYCLE)
def test_an_abort_starts_nothing_more(hook):
    """Of the cycle that was aborted no further effect is asked for (3.7)."""
    script = CYCLE.splitlines(keepends=True)
    for length in range(1, len(script) + 1):
        state, asked = play(f'{hook}=abort:"enough"', "".join(script[:length]))
        if events(asked, AgentAbort):
            position = next(
                i for i, e in enumerate(asked) if isinstance(e, Publish) and isinstance(e.event, AgentAbort)
            )
            assert not any(isinstance(effect, StartStream | SetTimer) for effect in asked[position:])
            assert state.data.stream is None
            break
    else:
        pytest.fail("it was never aborted")


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


def test_an_abort_before_a_prompt_rejects_it():
    """The text never enters the history, no cycle starts, and AgentAbort says why (3.4)."""
    state, asked = play('BeforePrompt=abort:"no"', '@10    Prompt p1 "Look."\n')
    assert [event.reason for event in events(asked, PromptRejected, AgentAbort)] == ["no", "no"]
    assert events(asked, AgentStart) == []
    assert len(state.data.history) == 0


def test_an_abort_before_steering_refuses_the_text_and_nothing_else():
    """The cycle goes on without it (3.8)."""
    state, asked = play('BeforeSteering=abort:"no"', STEERED)
    assert [event.status for event in events(asked, SteeringReceived)] == ["rejected_by_plugin"]
    assert events(asked, AgentAbort) == []
    assert state.phase is Phase.EXECUTING_TOOLS


def test_what_is_said_before_steering_stands_in_front_of_the_text():
    """One message, and no intervention of its own (3.8)."""
    _, asked = play('BeforeSteering=intervene:"Politely:"', STEERED)
    assert events(asked, SteeringReceived)[0].text == "Politely:\n\nHurry."


def test_a_skip_ends_the_retries():
    """On OnToolError: the call gets its error at once (5.4)."""
    _, asked = play("OnToolError=skip")
    assert events(asked, ToolRetry) == []
    _, asked = play("OnToolError=emit:seen")
    assert len(events(asked, ToolRetry)) == 1


def test_a_session_that_is_refused_ends():
    """Nothing can be asked of it any more (5.4)."""
    state, asked = play('SessionStarted=abort:"not here"', "@0     Started\n")
    assert state.ended
    assert events(asked, SessionEnd)[0].reason == "refused by a plugin: not here"


def test_a_session_that_is_refused_when_it_comes_back_ends_with_all_that_waited():
    """SessionStarted(recovered) may refuse too; the cycle of before the crash fails, and its queue is dropped."""
    script = '@10    Prompt p1 "Look."\n@100   ResponseCompleted r1 c1:read\n@110   Restarted 2 "bang"\n'
    state, asked = play("BeforeTool=approve:ok", script, Once)
    assert state.ended
    assert state.data.history.open == ()
    assert state.data.interactions == ()
    assert [type(event).__name__ for event in events(asked, *TERMINAL)] == ["AgentError"]


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


def test_an_approval_may_wait_for_ever():
    """`expires_seconds=0` sets no timer (5.3)."""
    state, asked = play("BeforeCompact=skip", "".join(CYCLE.splitlines(keepends=True)[:4]), Patient)
    assert not any(isinstance(effect, SetTimer) for effect in asked)
    assert [one.asked.expires_at_ms for one in state.data.interactions] == [None, None]


def test_a_plugin_request_asks_the_model_of_the_session_and_counts():
    """`CallModel(model=None)` is the model of now, and what it used is in the sums of session and cycle (5.8)."""
    state, asked = play("BeforeCompact=skip", '@10    Prompt p1 "Look."\n', Asks)
    (plugin_request,) = [effect for effect in asked if isinstance(effect, RunPluginRequest)]
    assert plugin_request.wanted.model == "scripted:model"
    usage = TokenUsage(input=7, output=3)
    done = PluginRequestFinished(
        at_ms=20, effect_id=plugin_request.effect_id, result=ModelAnswer(text="yes", usage=usage)
    )
    state, effects = machine.step(state, done)
    assert state.data.usage == usage
    assert state.data.cycle.usage == usage
    assert [event.payload for event in events(effects, PluginEvent)] == ["ModelAnswer"]


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


def test_a_plugin_request_that_died_with_the_actor_is_answered():
    """After a restart the plugin hears RequestFailed, and waits for nothing (5.8)."""
    state, asked = play("BeforeCompact=skip", '@10    Prompt p1 "Look."\n@20    Restarted 2 "bang"\n', Asks)
    assert [event.payload for event in events(asked, PluginEvent)] == ["RequestFailed"]
    assert plugin_requests_of(state) == []


def test_deltas_ask_nobody():
    """Ten plugins that listen to every hook cost a delta nothing: none of them is called, and no context is made (issue 5)."""
    asked: list[str] = []

    class Ear(p.Plugin[int]):
        """Notes that it was asked."""

        def init(self) -> int:
            """Begin."""
            return 0

        def handle(self, event: p.HookEvent, state: int, ctx: p.Context) -> p.Action[int]:
            """Note it."""
            asked.append(type(event).__name__)
            return p.Continue(state)

    ears = [Ear(name=f"ear {number}") for number in range(10)]
    deltas = "".join(f'@{100 + n}   ChunksArrived r1 "word "\n' for n in range(50))
    play("BeforeCompact=skip", '@10    Prompt p1 "Look."\n@90    StreamStarted r1\n' + deltas, *ears)
    assert sorted(set(asked)) == ["BeforePrompt", "BeforeRequest"]
    assert len(asked) == 20


def test_who_cannot_wait_is_told_at_once():
    """On a hook that cannot wait the answer is `cannot_wait`, in the same step, and no request goes out (5.8)."""
    script = '@10    Prompt p1 "Look."\n'
    state, asked = play("BeforeCompact=skip", script, WaitsForAModel())
    assert [event.payload for event in events(asked, PluginEvent)] == ["cannot_wait"]
    assert not any(isinstance(effect, RunPluginRequest) for effect in asked)
    assert state.phase is Phase.RUNNING


def test_a_last_word_is_published_before_the_end():
    """What a plugin emits on SessionEnding comes in front of SessionEnd (5.1)."""
    script = CYCLE + "@700   Stop x1\n"
    _, asked = play('SessionEnding=emit:"farewell"', script)
    assert [type(event).__name__ for event in events(asked, PluginEvent, SessionEnd)] == [
        "PluginEvent",
        "SessionEnd",
    ]


def test_an_abort_that_comes_when_the_cycle_is_over_stops_nothing():
    """A plugin hears of its request late: there is nothing left to abort, and nothing is published about it."""
    script = '@10    Prompt p1 "Look."\n@100   ResponseCompleted r2 "Done."\n'
    state, asked = play("BeforeCompact=skip", script, AbortsLate())
    (plugin_request,) = [effect for effect in asked if isinstance(effect, RunPluginRequest)]
    answer = ModelAnswer(text="no", usage=TokenUsage())
    state, effects = machine.step(
        state, PluginRequestFinished(at_ms=200, effect_id=plugin_request.effect_id, result=answer)
    )
    assert events(effects, AgentAbort) == []
    assert (state.phase, state.data.cycle) == (Phase.IDLE, None)


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


def test_of_two_aborts_in_one_step_the_first_counts():
    """A call that raised is asked about twice, before its retry and as a result: the reason is the first one (5.4)."""
    script = CYCLE.partition("@110")[0] + '@120   ToolFinished t2 "boom" error crashed jitter=0.5\n'
    state, asked = play('OnToolError=abort:"first" AfterTool=abort:"second"', script)
    assert [event.reason for event in events(asked, AgentAbort)] == ["first"]
    assert state.phase is Phase.IDLE
    _, asked = play('AfterTool=abort:"second"', script.replace(" crashed", ""))
    assert [event.reason for event in events(asked, AgentAbort)] == ["second"]


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
