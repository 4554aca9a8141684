"""Hypothesis strategies for sessions that come back in another process: what a record names of all that is open, and what it does not.

What is open is known when a state is: so places are drawn, and `fitting_recovery` puts ids in, as `fit` does for all other signals.
"""

from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import Recovered
from agentrail.core.session.state import SessionState

_MUCH_LATER_MS: Final = 200_000


def recoveries() -> SearchStrategy[Recovered]:
    """Recoveries of any cause, the third in a row among them."""
    return st.builds(
        Recovered,
        at_ms=st.just(0),
        cause=st.sampled_from(("start", "lease_over", "gone", "drain")),
        # All that is there, every other one, nothing, and what is not.
        open=st.sampled_from((("all",), ("all",), ("some",), (), ("late",))).map(
            lambda places: tuple(map(EffectId, places))
        ),
        attempt=st.sampled_from((1, 1, 2, 3)),
    )


def fitting_recovery(drawn: Recovered, state: SessionState, number: int) -> dict[str, object]:
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
