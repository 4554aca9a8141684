"""Hypothesis strategies for sessions that come back in another process: what a record names of all that is open, and what it does not.

What is open is known when a state is: so places are drawn, and `fitting.py` puts ids in.
"""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import Recovered


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
