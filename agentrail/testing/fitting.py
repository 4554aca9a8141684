"""Drawn signals fitted to a state: times, ids and places that are there. Needs no hypothesis."""

from typing import Final, TypeVar

import msgspec

from agentrail.core.protocol import signals as s
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import Recovered
from agentrail.core.session.state import SessionState
from agentrail.messages import ApprovalId, ClientCallRef, PromptRef, QuestionRef, SteerRef
from agentrail.testing.open_places import call_at, id_at, interaction_at

S = TypeVar("S", bound=s.Signal)

_MUCH_LATER_MS: Final = 200_000


def fit(signal: S, state: SessionState, number: int) -> S:
    """Give a signal its time and its ids.

    Args:
        signal: From one of the strategies.
        state: What it is going to meet.
        number: Which signal of the script it is; no two have the same.
    """
    changes: dict[str, object] = {"at_ms": 10 * number}
    match signal:
        case s.Asked():
            changes["signal_id"] = s.SignalId(f"s{number}")
        case s.EffectOutcome():
            changes["effect_id"] = id_at(signal, state)
        case s.Restarted():
            changes["incarnation"] = state.data.incarnation + 1
        case s.Recovered():
            changes |= _fitting_recovery(signal, state, number)
        case _:
            pass
    match signal:
        case s.Prompt() | s.GoOn():
            changes["ref"] = PromptRef(f"s{number}")
        case s.Steer():
            changes["ref"] = SteerRef(f"s{number}")
        case s.Approve(approval_id=place) | s.Reject(approval_id=place):
            changes["approval_id"] = ApprovalId(interaction_at(place, state))
        case s.ToolAsked() | s.ToolWantsChild():
            changes["effect_id"] = id_at(signal, state)
        case s.AnswerCall(ref=place):
            changes["ref"] = ClientCallRef(interaction_at(place, state))
        case s.Respond(ref=place) | s.Decline(ref=place):
            changes["ref"] = QuestionRef(interaction_at(place, state))
        case s.AbortTool(call_id=place):
            changes["call_id"] = call_at(place, state)
        case s.RevokeRule() if state.data.rules:
            rule = min(state.data.rules, key=lambda one: (one.tool, one.family or ""))
            changes |= {"tool": rule.tool, "command_family": rule.family, "exact": rule.exact}
        case s.ChangeTools():
            changes["generation"] = number
        case _:
            pass
    return msgspec.structs.replace(signal, **changes)


def _fitting_recovery(drawn: Recovered, state: SessionState, number: int) -> dict[str, object]:
    """Give the open effects that a record names, and a time; every other one comes when all that waits is over its time."""
    at_ms = 10 * number if number % 2 else _MUCH_LATER_MS + 10 * number
    return {"open": _begun(drawn.open, state), "at_ms": at_ms}


def _begun(places: tuple[EffectId, ...], state: SessionState) -> tuple[EffectId, ...]:
    ids = sorted(state.data.open)
    match places:
        case ("all",):
            return tuple(ids)
        case ("some",):
            return tuple(ids[::2])
        case _:
            return tuple(EffectId("t0") if place == "late" else place for place in places)
