"""How often, and how soon, a session comes back after a crash, before it is parked."""

from typing import Final

from agentrail.otp.child_specs import Backoff, SupervisorFlags

MAX_RESTARTS: Final = 2
"""How often a session comes back within `PERIOD_SECONDS`: the third crash parks it."""

PERIOD_SECONDS: Final = 5.0

BACKOFF: Final = Backoff(initial_seconds=0.05, maximum_seconds=5.0)
"""Shorter than an actor's: a person sits before a session, and no more than two waits ever follow each other closely."""

SESSIONS: Final = SupervisorFlags(
    "dynamic",
    intensity=MAX_RESTARTS,
    period_seconds=PERIOD_SECONDS,
    backoff=BACKOFF,
    intensity_per="child",
)
BRANCH: Final = SupervisorFlags(
    "rest_for_one",
    intensity=MAX_RESTARTS,
    period_seconds=PERIOD_SECONDS,
    backoff=BACKOFF,
    stop_within_seconds=4.0,
)
