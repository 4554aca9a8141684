"""The bounded worlds: little enough happens in each that all of it is walked. See `agentrail.testing.exhaustive`."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from attrs import evolve

from agentrail import messages as m
from agentrail.core.policy.budget import Budget
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.request import EffectId, TextDelta
from agentrail.core.session import effect_owners as owners
from agentrail.core.session.state import Rule, SessionState
from agentrail.core.values.toolbox import Toolbox, ToolSpec, read_call
from agentrail.errors import ErrorInfo
from agentrail.events import AbortReceipt
from agentrail.testing.checked_run import LATER_MS
from agentrail.testing.exhaustive import ABSTRACTION, CallerSignals, SmallWorld
from tests.core.worlds import SMALL, completed, new_session

READ: Final = ToolSpec(name="read", description="Reads.", parameters={"type": "object"}, effect_class="once")
TASK: Final = ToolSpec(
    name="task", description="Delegates.", parameters={"type": "object"}, answered_by="child"
)


def outcomes(
    state: SessionState, *, calls: Sequence[str] = ("read",), can_speak: bool = True
) -> Iterator[s.Signal]:
    """Return the outcomes of each open effect: success, failure and progress; and late ones of effects that are not open.

    Args:
        state: The session.
        calls: Tools that the model may call, one in a response.
        can_speak: Whether chunks arrive before a response.
    """
    for effect_id, owner in sorted(state.data.open.items(), key=lambda entry: int(entry[0][1:])):
        by: dict[str, Any] = {"at_ms": 1, "effect_id": effect_id}
        match owner:
            case owners.OfStream():
                yield from _stream_outcomes(state, by, calls, can_speak=can_speak)
            case (
                owners.OfCall()
                | owners.OfSurvivor()
                | owners.OfStoppedCall()
                | owners.OfChild()
                | owners.OfLoan()
            ):
                yield s.ToolFinished(**by, text="done", started_at_ms=0)
                yield s.ToolFinished(**by, text="bang", is_error=True, crashed=True, started_at_ms=0)
                yield s.ToolProgressed(**by, text="half")
                if not any(call.child_ids for call in (*state.data.batch, *state.data.survivors)):
                    yield s.ChildStarted(**by, child_id=m.SessionId(f"s/{effect_id}"))
            case owners.OfTeardown() | owners.OfDrain():
                yield s.TeardownFinished(**by, receipt=AbortReceipt(tasks_ended=1))
            case owners.OfStallTimer():
                yield s.TimerFired(at_ms=LATER_MS, effect_id=effect_id)
            case _:
                yield s.TimerFired(**by)
    yield completed("r0", m.Text(text="late"))
    yield s.ToolFinished(at_ms=1, effect_id=EffectId("t0"), text="late", started_at_ms=0)
    yield s.TimerFired(at_ms=1, effect_id=EffectId("w0"))
    yield s.TeardownFinished(at_ms=1, effect_id=EffectId("d0"), receipt=AbortReceipt())


def _stream_outcomes(
    state: SessionState, by: dict[str, Any], calls: Sequence[str], *, can_speak: bool
) -> Iterator[s.Signal]:
    yield s.StreamStarted(**by)
    if can_speak and state.data.stream is not None and not state.data.stream.text:
        yield s.ChunksArrived(**by, chunks=(TextDelta("a"),))
    for code, retryable in (("bad_request", False), ("transport", True)):
        yield s.StreamFailed(**by, error=ErrorInfo(code=code, message="cut", retryable=retryable))
    yield completed(by["effect_id"], m.Text(text="a"))
    for name in calls:
        yield completed(by["effect_id"], read_call(f"c{state.data.minted}", name, "{}"))


def _by(number: int) -> dict[str, Any]:
    return {"at_ms": 1, "signal_id": s.SignalId(f"q{number}")}


def _prompts(_: SessionState, number: int) -> Iterator[s.Signal]:
    yield s.Prompt(**_by(number), ref=m.PromptRef(f"p{number}"), content=(m.Text(text="go"),), reply="text")


def _steers(_: SessionState, number: int) -> Iterator[s.Signal]:
    yield s.Steer(**_by(number), ref=m.SteerRef(f"p{number}"), text="left")


def _aborts(state: SessionState, number: int) -> Iterator[s.Signal]:
    for kill_tools in ("killable", "all", "none"):
        yield s.AbortCycle(**_by(number), kill_tools=kill_tools)
    yield s.AbortCycle(**_by(number), clear_queue=True, wait=False)
    for call in state.data.batch[:1]:
        yield s.AbortTool(**_by(number), call_id=call.call.call_id)


def _stops(_: SessionState, number: int) -> Iterator[s.Signal]:
    yield s.StopSession(**_by(number))


def _queries(_: SessionState, number: int) -> Iterator[s.Signal]:
    yield s.ReplyQuery(**_by(number))
    yield s.StatusQuery(**_by(number))


def _decisions(state: SessionState, number: int) -> Iterator[s.Signal]:
    open_ids, old_ids = [one.id for one in state.data.interactions], [one.id for one in state.data.resolved]
    ids = [m.ApprovalId(one) for one in open_ids + old_ids][:1]
    for wanted in ids or [m.ApprovalId("a0")]:
        yield s.Approve(**_by(number), approval_id=wanted)
        yield s.Approve(**_by(number), approval_id=wanted, how="always", auto_resume=False)
        yield s.Approve(**_by(number), approval_id=wanted, arguments={"path": "other"})
        yield s.Reject(**_by(number), approval_id=wanted)
        yield s.Reject(**_by(number), approval_id=wanted, auto_resume=True)


def _crashes(state: SessionState, _: int) -> Iterator[s.Signal]:
    yield s.Restarted(at_ms=1, reason="crash", incarnation=state.data.incarnation + 1)
    for begun in (tuple(state.data.open), ()):
        yield s.Recovered(at_ms=1, cause="gone", open=begun)
    yield s.Recovered(at_ms=LATER_MS, cause="gone", open=tuple(state.data.open), attempt=3)


def _wishes(state: SessionState, number: int) -> Iterator[s.Signal]:
    for effect_id, _ in owners.owned_by(state.data.open, owners.OfCall):
        yield s.ToolWantsChild(**_by(number), effect_id=effect_id, prompt="Go.")


def _loans(_: SessionState, __: int) -> Iterator[s.Signal]:
    yield s.BudgetLent(at_ms=1, budget=Budget(max_total_tokens=2_000))


def _start(*tools: ToolSpec, **options: Any) -> SessionState:
    return new_session(Toolbox(tools), **(SMALL | {"max_retries": 1} | options))


def _calls_of(**times: int) -> dict[str, CallerSignals]:
    kinds = {
        "prompt": _prompts,
        "steer": _steers,
        "abort": _aborts,
        "stop": _stops,
        "query": _queries,
        "decision": _decisions,
        "crash": _crashes,
        "wish": _wishes,
        "loan": _loans,
    }
    return {name: CallerSignals(times=many, signals=kinds[name]) for name, many in times.items()}


_WITH_TEXTS: Final = evolve(
    ABSTRACTION, reduced={**ABSTRACTION.reduced, "history": lambda history: history.messages}
)
"""For budgets, since the size of a request depends on the texts before it."""

_BREAKPOINT: Final = Rule(tool="read", family=None, breaks=True)

WORLDS: Final[Mapping[str, SmallWorld]] = {
    "one prompt and one tool": SmallWorld(
        start=_start(READ), calls=_calls_of(prompt=1, abort=1, stop=1, query=1), outcomes=outcomes
    ),
    "two prompts": SmallWorld(
        start=_start(READ), calls=_calls_of(prompt=2, abort=1, stop=1), outcomes=outcomes
    ),
    "an approval": SmallWorld(
        start=_start(READ, rules=frozenset({_BREAKPOINT})),
        calls=_calls_of(prompt=1, decision=2, abort=1, stop=1),
        outcomes=outcomes,
    ),
    "a steer": SmallWorld(
        start=_start(READ), calls=_calls_of(prompt=1, steer=2, abort=1, stop=1), outcomes=outcomes
    ),
    "a crash": SmallWorld(start=_start(READ), calls=_calls_of(prompt=1, crash=2, abort=1), outcomes=outcomes),
    "a child": SmallWorld(
        start=_start(READ, TASK),
        calls=_calls_of(prompt=1, wish=1, abort=1, stop=1),
        outcomes=partial(outcomes, calls=("read", "task")),
    ),
    "a budget with two requests": SmallWorld(
        start=_start(READ, budget=Budget(max_total_tokens=402), max_output_tokens=40),
        calls=_calls_of(prompt=1, loan=1, abort=1, stop=1),
        outcomes=outcomes,
        abstraction=_WITH_TEXTS,
    ),
}
"""The worlds that the tests of agentrail walk, by name. Each is closed within ten minutes of one core."""
