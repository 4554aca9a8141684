"""What a model is sent is the conversation: what people, plugins and tools said, and nothing of how the session is run."""

import pytest

from agentrail.core.protocol.effects import RunTool, StartStream
from agentrail.core.protocol.request import EffectId, ModelFacts
from agentrail.core.protocol.signals import (
    AbortCycle,
    ChangeModel,
    ChangePlugins,
    ChangeTools,
    Compact,
    Prompt,
    Signal,
    SignalId,
    Steer,
    ToolFinished,
    ToolProgressed,
    UpdatePluginOpts,
)
from agentrail.core.values.toolbox import read_call
from agentrail.events import (
    AgentEnd,
    ApprovalRequired,
    Event,
    PromptQueued,
    ResponseComplete,
    SteeringApplied,
    ToolExecutionEnd,
    ToolExecutionMetrics,
    ToolExecutionStart,
    ToolProgress,
)
from agentrail.messages import CallId, PromptRef, SteerRef, Text, UserMessage
from agentrail.testing.checked_run import come_to_rest
from agentrail.testing.promises.observed_step import Seen
from tests.core.worlds import READ, completed, new_session, run, small_world, walk


def prompt(name: str, text: str) -> Prompt:
    """Somebody says something."""
    return Prompt(at_ms=1, signal_id=SignalId(name), ref=PromptRef(name), content=(Text(text=text),))


def said_to_the_model(start: StartStream) -> list[str]:
    """All words of the user that a request has."""
    users = [message for message in start.request.messages if isinstance(message, UserMessage)]
    return [block.text for message in users for block in message.content if isinstance(block, Text)]


CONTROLS: list[Signal] = [
    UpdatePluginOpts(at_ms=2, signal_id=SignalId("u"), plugin="nobody", options={"secret": "UNHEARD"}),
    ChangePlugins(at_ms=2, signal_id=SignalId("v"), change="detach", name="UNHEARD"),
    ChangeModel(at_ms=2, signal_id=SignalId("m"), model=ModelFacts(model="scripted:UNHEARD")),
    ChangeTools(at_ms=2, signal_id=SignalId("t"), attach=(READ,), detach=("UNHEARD",), generation=1),
    Compact(at_ms=2, signal_id=SignalId("c"), reason="UNHEARD"),
    AbortCycle(at_ms=2, signal_id=SignalId("a"), reason="UNHEARD"),
]


@pytest.mark.at(9)
@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: type(control).__name__)
def test_what_controls_a_session_is_no_message(control):
    """An abort, a steer as such, other options, tools, plugins and models: the model reads what people said, and only that."""
    steer = Steer(at_ms=2, signal_id=SignalId("s"), ref=SteerRef("s"), text="And quickly.")
    for controls in ([control], [steer, control]):
        state = run([prompt("p1", "Hello"), *controls], new_session(max_prompt_queue=5))
        for seen in come_to_rest(state):
            state = seen.after
        *_, seen = walk([prompt("p2", "Again")], state)
        (start,) = seen.of(StartStream)
        steered = ["And quickly."] if steer in controls else []
        assert said_to_the_model(start) == ["Hello", *steered, "Again"]
        assert "UNHEARD" not in str(start.request.messages[:])


@pytest.mark.check  # four seconds of random lives
@pytest.mark.at(44)
def test_the_end_of_a_cycle_comes_when_it_is_quiet():
    """In all of a small world: with `AgentEnd` no call of the cycle is open, and no steer waits that it should have heard."""
    ends = 0
    for seen in small_world():
        for place, event in enumerate(seen.events):
            if isinstance(event, AgentEnd):
                ends += 1
                assert _calls_that_run(seen) <= {call.effect_id for call in seen.before.data.survivors}
                behind = [later.ref for later in seen.events[place:] if isinstance(later, PromptQueued)]
                waiting = [PromptRef(steer.ref) for steer in seen.before.data.steers]
                heard = [ref for one in seen.events if isinstance(one, SteeringApplied) for ref in one.refs]
                assert set(waiting) <= {*behind, *map(PromptRef, heard)}
                assert not any(isinstance(later, ToolExecutionEnd) for later in seen.events[place:])
    assert ends > 10


def _calls_that_run(seen: Seen) -> set[EffectId | None]:
    came = getattr(seen.signal, "effect_id", None)
    running = {call.effect_id for call in seen.before.data.batch if call.stage in {"running", "stopping"}}
    return running - {came} - {run.effect_id for run in seen.of(RunTool)}


@pytest.mark.at(52)
def test_a_steer_is_said_once_and_at_the_gap_between_two_turns():
    """No provider is told of it while it streams: the text stands in the next request, one time, and in all later ones."""
    steer = Steer(at_ms=2, signal_id=SignalId("s"), ref=SteerRef("s"), text="In French.")
    state = run([prompt("p1", "Hello")], new_session())
    *_, heard = walk([steer], state)
    assert not heard.of(StartStream)
    assert state.data.stream is not None
    *_, seen = walk([completed(state.data.stream.effect_id, Text(text="Hi."))], heard.after)
    (start,) = seen.of(StartStream)
    assert said_to_the_model(start) == ["Hello", "In French."]
    *_, later = walk(
        [completed(start.request.attempt, Text(text="Bonjour.")), prompt("p2", "More")], seen.after
    )
    (start,) = later.of(StartStream)
    assert said_to_the_model(start).count("In French.") == 1


@pytest.mark.at(65)
@pytest.mark.parametrize("given", ["c1", "", "taken"])
def test_a_call_has_one_id_from_its_first_event_to_the_history(given):
    """Given when the response is complete, whatever the vendor made of it, and the same wherever the call is named after."""
    state = run(
        [
            prompt("p0", "First"),
            completed("r1", read_call("taken", "read", "{}")),
            ToolFinished(at_ms=2, effect_id="t2", text="ok", started_at_ms=1),
            completed("r3", Text(text="Done.")),
        ],
        new_session(),
    )
    seen = list(walk([prompt("p1", "Go"), completed("r4", read_call(given, "read", "{}"))], state))
    (call,) = seen[-1].after.data.batch
    call_id = call.call.call_id
    assert call_id == (given if given == "c1" else CallId("call_r4_1"))
    assert call.effect_id is not None
    rest = [
        ToolProgressed(at_ms=3, effect_id=call.effect_id, text="half"),
        ToolFinished(at_ms=4, effect_id=call.effect_id, text="ok", started_at_ms=3),
    ]
    seen += walk(rest, seen[-1].after)
    named = [one for step in seen for event in step.events for one in ids_in(event)]
    assert named.count(call_id) == len(named) == 5
    assert seen[-1].after.data.history.messages[-1].results[0].call_id == call_id


def ids_in(event: Event) -> list[CallId]:
    """The ids of calls that an event names."""
    match event:
        case ResponseComplete(message=message):
            return [call.call_id for call in message.calls]
        case ApprovalRequired(approval=approval):
            return [approval.call_id]
        case (
            ToolExecutionStart(call_id=call_id)
            | ToolExecutionEnd(call_id=call_id)
            | ToolExecutionMetrics(call_id=call_id)
            | ToolProgress(call_id=call_id)
        ):
            return [call_id]
        case _:
            return []
