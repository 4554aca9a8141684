"""A session that comes back in another process: each open effect is decided once, and a tool that may not run twice does not."""

from typing import Any, Final, assert_never

import msgspec

from agentrail.core.protocol.effects import Publish, ResumeChild, RunTool
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import Recovered
from agentrail.core.session import owners
from agentrail.core.session.calls import OUTCOME_UNKNOWN
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.recovery import MAX_RECOVERIES
from agentrail.events import SessionParked, SessionRecovered, ToolExecutionEnd
from agentrail.testing.promises.seen import Seen

_CALLS: Final = frozenset({"tool", "child"})


def a_recovery_decides_all_that_is_open(seen: Seen) -> None:
    """One decision for each open effect, and nothing of the old process is waited for, but for sessions that go on."""
    signal, was, now = seen.signal, seen.before.data, seen.after.data
    if not isinstance(signal, Recovered) or seen.before.ended:
        return
    told = [event for event in seen.events if isinstance(event, SessionRecovered)]
    parked = [event for event in seen.events if isinstance(event, SessionParked)]
    if was.open and signal.attempt >= MAX_RECOVERIES:
        assert [type(effect) for effect in seen.effects] == [Publish]
        assert (len(told), len(parked)) == (0, 1)
        assert now == msgspec.structs.replace(was, seq=was.seq + 1)
        return
    assert (len(told), len(parked)) == (1, 0)
    decided = [(one.open in _CALLS, one.id) for one in told[0].decisions]
    assert len(set(decided)) == len(decided)
    for effect_id, owner in was.open.items():
        name = _decided_as(effect_id, owner)
        assert name is None or decided.count(name) == 1, f"{effect_id} of {owner} is not decided"
    resumed = {effect.effect_id for effect in seen.of(ResumeChild)}
    assert set(was.open) & set(now.open) == (set() if seen.after.ended else resumed)


def a_recovery_runs_nothing_twice_that_may_not_be(seen: Seen) -> None:
    """A `once` tool that a durable record names has its result; any other that ran runs again, as the same operation."""
    signal, was = seen.signal, seen.before.data
    if not isinstance(signal, Recovered) or not [e for e in seen.events if isinstance(e, SessionRecovered)]:
        return
    ran = {run.call_id: run for run in seen.of(RunTool)}
    assert len(ran) == len(seen.of(RunTool))
    ends = [event for event in seen.events if isinstance(event, ToolExecutionEnd)]
    for call in (*was.batch, *was.survivors):
        if call.stage != "running" or call.wants_child:
            continue
        if call.detached:
            assert call.call.call_id not in ran, "what went on in the background was begun again"
            continue
        run: Any = ran.get(call.call.call_id)
        has_begun = call.effect_id in signal.open
        if has_begun and _is_once(call):
            assert run is None
            texts = [end.result.text for end in ends if end.call_id == call.call.call_id]
            assert len(texts) == 1
            assert texts == [OUTCOME_UNKNOWN] or seen.after.data.stopping is not None or seen.after.ended
        elif run is not None:
            assert run.operation_id == call.operation_id
            assert run.attempt == call.attempt + has_begun


def _is_once(call: CallState) -> bool:
    return call.spec is None or call.spec.effect_class == "once"


def _decided_as(effect_id: EffectId, owner: owners.Owner) -> tuple[bool, str] | None:
    """Say under which name an open effect is decided, and whether as a call; None: with what it goes with."""
    match owner:
        case owners.OfStallTimer() | owners.OfSummaryTimer() | owners.OfHoldTimer():
            return None
        case owners.OfCall(call_id) | owners.OfSurvivor(call_id) | owners.OfStoppedCall(call_id):
            return True, call_id
        case owners.OfHostCheck(call_id) | owners.OfHostReport(call_id):
            return False, call_id
        case owners.OfChild() | owners.OfLoan() | owners.OfAgent():
            return True, effect_id
        case owners.OfInteraction(interaction_id):
            return False, interaction_id
        case (
            owners.OfStream()
            | owners.OfSummary()
            | owners.OfPause()
            | owners.OfRetry()
            | owners.OfTranscript()
            | owners.OfPluginRequest()
            | owners.OfContext()
            | owners.OfHeldHook()
            | owners.OfAgentWait()
            | owners.OfDrain()
            | owners.OfTeardown()
        ):
            return False, effect_id
        case _ as never:
            assert_never(never)
