"""What a model is sent is the conversation: what people, plugins and tools said, and nothing of how the session is run."""

from typing import Any

import pytest
from msgspec.structs import replace

from agentrail import events as e
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.effects import RunTool, StartStream
from agentrail.core.protocol.request import EffectId, ModelFacts
from agentrail.core.values.toolbox import read_call
from agentrail.errors import ErrorInfo
from agentrail.messages import CallId, PromptRef, SteerRef, Text, UserMessage
from agentrail.testing.checked_run import come_to_rest
from agentrail.testing.promises.observed_step import Seen
from tests.core.worlds import READ, completed, new_session, prompt, run, small_world, walk
from tests.thinned import each


def said_to_the_model(start: StartStream) -> list[str]:
    users = [message for message in start.request.messages if isinstance(message, UserMessage)]
    return [block.text for message in users for block in message.content if isinstance(block, Text)]


BY: dict[str, Any] = {"at_ms": 2, "signal_id": s.SignalId("c")}
CONTROLS: list[s.Signal] = [
    s.UpdatePluginOpts(**BY, plugin="nobody", options={"secret": "UNHEARD"}),
    s.ChangePlugins(**BY, change="detach", name="UNHEARD"),
    s.ChangeModel(**BY, model=ModelFacts(model="scripted:UNHEARD")),
    s.ChangeTools(**BY, attach=(READ,), detach=("UNHEARD",), generation=1),
    s.Compact(**BY, reason="UNHEARD"),
    s.AbortCycle(**BY, reason="UNHEARD"),
]


@pytest.mark.at(9)
@each("control", CONTROLS)
def test_what_controls_a_session_is_no_message(control):
    """An abort, a steer as such, other options, tools, plugins and models: the model reads what people said, and only that."""
    steer = s.Steer(at_ms=2, signal_id=s.SignalId("s"), ref=SteerRef("s"), text="And quickly.")
    for controls in ([control], [steer, control]):
        state = run([prompt(text="Hello"), *controls], new_session(max_prompt_queue=5))
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
            if isinstance(event, e.AgentEnd):
                ends += 1
                assert _calls_that_run(seen) <= {call.effect_id for call in seen.before.data.survivors}
                behind = [later.ref for later in seen.events[place:] if isinstance(later, e.PromptQueued)]
                waiting = [PromptRef(steer.ref) for steer in seen.before.data.steers]
                heard = [ref for one in seen.events if isinstance(one, e.SteeringApplied) for ref in one.refs]
                assert set(waiting) <= {*behind, *map(PromptRef, heard)}
                assert not any(isinstance(later, e.ToolExecutionEnd) for later in seen.events[place:])
    assert ends > 10


def _calls_that_run(seen: Seen) -> set[EffectId | None]:
    came = getattr(seen.signal, "effect_id", None)
    running = {call.effect_id for call in seen.before.data.batch if call.stage in {"running", "stopping"}}
    return running - {came} - {run.effect_id for run in seen.of(RunTool)}


@pytest.mark.at(52)
def test_a_steer_is_said_once_and_at_the_gap_between_two_turns():
    """No provider is told of it while it streams: the text stands in the next request, one time, and in all later ones."""
    steer = s.Steer(at_ms=2, signal_id=s.SignalId("s"), ref=SteerRef("s"), text="In French.")
    state = run([prompt(text="Hello")], new_session())
    *_, heard = walk([steer], state)
    assert not heard.of(StartStream)
    assert state.data.stream is not None
    *_, seen = walk([completed(state.data.stream.effect_id, Text(text="Hi."))], heard.after)
    (start,) = seen.of(StartStream)
    assert said_to_the_model(start) == ["Hello", "In French."]
    answer = completed(start.request.attempt, Text(text="Bonjour."))
    *_, later = walk([answer, prompt("p2", "More")], seen.after)
    (start,) = later.of(StartStream)
    assert said_to_the_model(start).count("In French.") == 1


@pytest.mark.at(65)
@each("given", ["c1", "", "taken"])
def test_a_call_has_one_id_from_its_first_event_to_the_history(given):
    """Given when the response is complete, whatever the vendor made of it, and the same wherever the call is named after."""
    ended = s.ToolFinished(at_ms=2, effect_id="t2", text="ok", started_at_ms=1)
    first = [prompt("p0"), completed("r1", read_call("taken", "read", "{}")), ended]
    state = run([*first, completed("r3", Text(text="Done."))], new_session())
    seen = list(walk([prompt("p1", "Go"), completed("r4", read_call(given, "read", "{}"))], state))
    (call,) = seen[-1].after.data.batch
    call_id = call.call.call_id
    assert call_id == (given if given == "c1" else CallId("call_r4_1"))
    assert call.effect_id is not None
    rest = [
        s.ToolProgressed(at_ms=3, effect_id=call.effect_id, text="half"),
        s.ToolFinished(at_ms=4, effect_id=call.effect_id, text="ok", started_at_ms=3),
    ]
    seen += walk(rest, seen[-1].after)
    named = [one for step in seen for event in step.events for one in ids_in(event)]
    assert named.count(call_id) == len(named) == 5
    assert seen[-1].after.data.history.messages[-1].results[0].call_id == call_id


def ids_in(event: e.Event) -> list[CallId]:
    if isinstance(event, e.ResponseComplete):
        return [call.call_id for call in event.message.calls]
    of: Any = event.approval if isinstance(event, e.ApprovalRequired) else event
    return [of.call_id] if hasattr(of, "call_id") else []


@pytest.mark.parametrize(("semantics", "retries"), [(1, 0), (2, 1)])
def test_a_request_that_another_model_takes_over_has_an_end(semantics, retries):
    """`Retry`, also where it had no chunk yet. An older journal folds as it was lived."""
    start = new_session()
    start = replace(start, data=replace(start.data, semantics=semantics))
    failed = s.StreamFailed(
        at_ms=3, effect_id=EffectId("r1"), error=ErrorInfo(code="transport", message="it broke")
    )
    switched = s.ChangeModel(**BY, model=ModelFacts(model="scripted:other"))
    *_, last = walk([prompt(), switched, failed], start)
    assert [type(event) for event in last.events] == [e.Retry] * retries + [e.RequestStart]
