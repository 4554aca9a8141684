"""The outbox: what waits for which record, what does not wait, and what is taken out of it. No session and no store are needed."""

import msgspec
import pytest

from agentrail.core.protocol.effects import (
    AskHost,
    CancelPluginRequest,
    CancelStream,
    ClearTimer,
    CloseAgent,
    End,
    KillTools,
    PromptAgent,
    Publish,
    ReplyToCaller,
    RunTool,
    SetProviderOpts,
    SetTimer,
    SpawnChild,
    StartAgent,
    StartStream,
    stall_timer_of,
)
from agentrail.core.protocol.request import EffectId, ModelRequest
from agentrail.core.protocol.signals import SignalId, ToolWantsChild
from agentrail.core.values.toolbox import Toolbox
from agentrail.events import AgentEnd, Envelope, MessageDelta, StatusUpdate
from agentrail.messages import CallId, TokenUsage
from agentrail.runtime.store_writer import MAX_EPHEMERAL_BYTES, Outbox, may_wait

BEFORE, AFTER = "what it knew before", "what it knows"  # states are kept, and not looked into


def told(text, *, ephemeral=False):
    event = MessageDelta(delta=text) if ephemeral else StatusUpdate(text=text)
    return Publish(msgspec.structs.replace(event, meta=Envelope("s-1", 1, 0, ("s-1",), ephemeral)))


def put(outbox, number, *effects, is_recorded=True):
    return outbox.put(number, effects, BEFORE, AFTER, is_recorded=is_recorded)


def left(outbox, durable):
    return [effect for effect, _ in outbox.leaving(durable)]


def timer(name):
    return SetTimer(effect_id=EffectId(name), at_ms=5)


def test_where_nothing_waits_a_step_without_a_record_does_not_either():
    """All that it could tell is durable."""
    outbox = Outbox()
    delta = told("a", ephemeral=True)
    assert put(outbox, 3, delta, is_recorded=False).at_once == (delta,)
    assert outbox.is_empty


def test_too_many_deltas_are_thrown_away_the_oldest_first():
    """What is never replayed is bounded; what is stays, and its order too."""
    outbox = Outbox()
    put(outbox, 3, kept := told("a"))
    size = 10_000
    deltas = [told(f"{number:0{size}}", ephemeral=True) for number in range(200)]
    for delta in deltas:
        put(outbox, 3, delta, is_recorded=False)
    assert outbox.ephemeral_bytes <= MAX_EPHEMERAL_BYTES
    assert outbox.thrown_away == 200 - MAX_EPHEMERAL_BYTES // (size + 200)
    assert left(outbox, 3) == [kept, *deltas[outbox.thrown_away :]]
    assert outbox.ephemeral_bytes == 0


@pytest.mark.parametrize(
    ("begins", "stops"),
    [
        (timer("w1"), ClearTimer(effect_id=EffectId("w1"))),
        (timer(stall_timer_of(EffectId("r1"))), CancelStream(effect_id=EffectId("r1"))),
        (
            AskHost(effect_id=EffectId("h1"), call_id=CallId("c"), name="t", arguments={}, path=()),
            CancelPluginRequest(effect_id=EffectId("h1")),
        ),
        (
            SpawnChild(effect_id=EffectId("t1"), call_id=CallId("c"), name="t", agent="", arguments={}),
            KillTools(effect_ids=(EffectId("t0"), EffectId("t1"))),
        ),
        (
            SpawnChild(
                effect_id=EffectId("d1"),
                call_id=CallId("c"),
                name="t",
                agent="",
                arguments={},
                wish=ToolWantsChild(at_ms=0, signal_id=SignalId("x-1"), effect_id=EffectId("t1"), prompt="p"),
            ),
            KillTools(effect_ids=(EffectId("t1"),)),
        ),
        (
            StartAgent(effect_id=EffectId("a1"), call_id=CallId("c"), name="n", agent="", task="t"),
            KillTools(effect_ids=(EffectId("a1"),)),
        ),
        (
            PromptAgent(effect_id=EffectId("a1"), text="t"),
            CloseAgent(effect_id=EffectId("a1"), reason="closed"),
        ),
    ],
)
def test_what_stops_work_leaves_at_once_and_takes_along_what_has_not_left(begins, stops):
    """It never begins; what else waits is where it was."""
    outbox = Outbox()
    put(outbox, 3, first := told("a"), begins, other := timer("w9"))
    leaving = put(outbox, 4, stops, last := told("b"))
    assert leaving.at_once == (stops,)
    assert leaving.taken_out == (begins,)
    assert left(outbox, 4) == [first, other, last]
    assert outbox.is_empty


def test_behind_a_crash_only_what_is_told_is_left():
    """All else would begin work of an actor that is gone."""
    outbox = Outbox()
    told_of, answer = told("a"), ReplyToCaller("x-1", 1)
    put(outbox, 3, told_of, timer("w1"), answer, End("over"))
    outbox.keep_what_is_told()
    assert [effect.to for effect in outbox.callers()] == ["x-1"]
    assert len([*outbox.waiting()]) == 2
    assert left(outbox, 3) == [told_of, answer]


def test_to_take_out_of_many_costs_no_more_than_of_few():
    """Ten thousand that wait, each stopped: by id, and not by a look through all; one name in many steps costs no more than many names."""
    outbox = Outbox()
    for number in range(10_000):
        put(outbox, number + 1, timer(f"w{number}"))
    for number in reversed(range(10_000)):
        assert put(outbox, 10_001, ClearTimer(effect_id=EffectId(f"w{number}")), is_recorded=False).taken_out
    assert len([*outbox.waiting()]) == 0
    assert left(outbox, 20_000) == []

    # A timer that is set again and again while a store hangs: each step forgets its own.
    outbox = Outbox()
    for number in range(10_000):
        put(outbox, number + 1, timer("w1"))
    assert len(left(outbox, 5_000)) == 5_000
    assert len(put(outbox, 10_001, ClearTimer(effect_id=EffectId("w1"))).taken_out) == 5_000
    assert left(outbox, 10_001) == []
    assert outbox.is_empty


def test_what_a_step_begins_and_stops_itself_never_begins():
    """In the order of its effects: what is begun behind the stop stays."""
    outbox = Outbox()
    stop = ClearTimer(effect_id=EffectId("w1"))
    leaves = put(outbox, 3, told("a"), timer("w1"), stop, timer("w1"))
    assert (leaves.at_once, leaves.taken_out) == ((stop,), (timer("w1"),))
    assert left(outbox, 3) == [told("a"), timer("w1")]


def test_a_step_that_crashes_while_it_leaves_goes_on_behind_what_crashed():
    """Each effect is counted before it is carried out, so none is carried out twice; and what has left is not taken out."""
    outbox = Outbox()
    put(outbox, 3, timer("w1"), told("a"), timer("w2"), told("b"))
    assert next(outbox.leaving(3)) == (timer("w1"), AFTER)
    assert len([*outbox.waiting()]) == 3
    assert put(outbox, 4, ClearTimer(effect_id=EffectId("w1"))).taken_out == ()
    assert put(outbox, 4, ClearTimer(effect_id=EffectId("w2"))).taken_out == (timer("w2"),)
    assert left(outbox, 4) == [told("a"), told("b")]
    assert outbox.is_empty


def test_what_is_thrown_away_while_it_leaves_does_not_leave():
    """Another owner is heard of between two effects of one step."""
    outbox = Outbox()
    put(outbox, 3, told("a"), told("b"))
    on_its_way = outbox.leaving(3)
    assert next(on_its_way) == (told("a"), AFTER)
    outbox.clear()
    put(outbox, 4, told("c"))
    assert list(on_its_way) == []
    assert left(outbox, 4) == [told("c")]


def test_of_deltas_that_have_left_none_is_thrown_away():
    """A large one comes while another is on its way: neither is counted as lost, and the second is only too large."""
    outbox = Outbox()
    put(outbox, 3, told("x" * MAX_EPHEMERAL_BYTES, ephemeral=True))
    assert outbox.thrown_away == 1  # too large for any outbox
    put(outbox, 4, first := told("x" * (MAX_EPHEMERAL_BYTES - 300), ephemeral=True))
    assert next(outbox.leaving(4)) == (first, AFTER)
    put(outbox, 5, told("y" * 300, ephemeral=True))
    assert outbox.thrown_away == 1
    assert len(left(outbox, 5)) == 1
    assert outbox.ephemeral_bytes == 0


# --- what may wait for company, and a request that leaves first

ANSWER = ReplyToCaller(to=SignalId("a-1"), value=None)
OPTIONS = SetProviderOpts(model="m", provider_opts={})
REQUEST = StartStream(
    request=ModelRequest(
        attempt=EffectId("r1"), model="scripted:m", system=None, messages=(), tools=Toolbox()
    ),
    look_at_ms=1,
)
ALARM = timer("w1")
EVENT, END = told("a"), Publish(AgentEnd(messages=(), usage=TokenUsage(), stop_reason="end"))
TOOL = RunTool(
    effect_id=EffectId("t1"),
    call_id=CallId("c"),
    name="t",
    generation=0,
    arguments={},
    arguments_hash="",
    operation_id="o",
    turn=1,
    model="m",
    path=(),
)


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        ((), True),
        ((EVENT, ALARM, CancelStream(effect_id=EffectId("r0"))), True),
        ((EVENT, REQUEST), True),
        ((EVENT, ANSWER), False),
        ((EVENT, END), False),
        ((EVENT, TOOL), False),
        ((OPTIONS,), False),
    ],
)
def test_a_record_may_wait_if_only_events_timers_and_a_sent_request_wait_for_it(effects, expected):
    """Whatever a caller is told, and whatever acts, is behind a commit of its own. A request that has not left is, too."""
    assert may_wait(effects, is_sent=True) is expected
    assert may_wait((*effects, REQUEST), is_sent=False) is False


@pytest.mark.parametrize("waiting", [(), (EVENT, ANSWER, ALARM), (TOOL,), (OPTIONS,)])
def test_a_request_overtakes_what_does_not_change_it(waiting):
    """Events, answers and timers; not the options that it is sent with, and no work."""
    outbox, expected = Outbox(), not {RunTool, SetProviderOpts} & {type(one) for one in waiting}
    assert outbox.may_be_overtaken((*waiting, REQUEST)) is expected
    outbox.put(1, waiting, "before", "after", is_recorded=True)
    assert outbox.may_be_overtaken((EVENT, REQUEST)) is expected
    leaving = outbox.put(2, (EVENT, REQUEST), "before", "after", is_recorded=True, is_sent=True)
    assert leaving.at_once == (REQUEST,)
    assert [effect for effect, _ in outbox.leaving(2)] == [*waiting, EVENT]
