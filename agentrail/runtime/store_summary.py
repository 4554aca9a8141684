"""Status of a session for searches in a store that read no journals. A pure function of the state."""

from typing import Final

from msgspec.structs import replace

from agentrail.abc.store import Standing
from agentrail.core.session import effect_owners
from agentrail.core.session.state import Phase, SessionState

_IN_NO_HURRY: Final = frozenset({effect_owners.OfInteraction, effect_owners.OfAgent})
"""Owners of effects that may be open while a session is idle: users decide when they like, and an agent is a session itself."""


def stored_standing(state: SessionState) -> Standing:
    data = state.data
    title = data.title or ""
    if state.ended:
        return Standing(has_ended=True, title=title)
    is_working = (
        state.phase is not Phase.IDLE
        or bool(data.queue)
        or data.held is not None
        or data.teardown is not None
        or any(type(owner) not in _IN_NO_HURRY for owner in data.open.values())
    )
    interactions = data.interactions
    if not interactions:
        usual = _WORKING if is_working else _IDLE
        return replace(usual, title=title) if title else usual
    times = [one.asked.expires_at_ms for one in interactions if one.asked.expires_at_ms is not None]
    return Standing(
        is_working=is_working,
        waits_for=len(interactions),
        due_at_ms=min(times) if times else None,
        title=title,
    )


_WORKING: Final = Standing(is_working=True)
_IDLE: Final = Standing()
