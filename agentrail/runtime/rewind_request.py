"""Rewind requests from a handle to the actor of its session: a control message that is answered once."""

import trio
from attrs import define, field

from agentrail.core.session.effect_owners import OfPluginRequest
from agentrail.core.session.state import Phase, SessionState
from agentrail.errors import AgentrailError
from agentrail.runtime.crashes import Control


@define(eq=False, kw_only=True)
class RewindRequest(Control):
    """Control message: rewind the session if it has no running or pending work.

    Attributes:
        seq: Number of the record of the rewind. 0 before it is made.
        answered: Set when the session has checked the request. New for each attempt.
        told: Set when the rewind is durable, and its subscribers are notified.
        error: Why it failed. None otherwise.
    """

    number: int
    then: SessionState
    at_ms: int
    seq: int = field(init=False, default=0)
    error: AgentrailError | None = field(init=False, default=None)
    answered: trio.Event = field(init=False, factory=trio.Event)
    told: trio.Event = field(init=False, factory=trio.Event)


def is_quiet(state: SessionState) -> bool:
    """Return whether a session can rewind at once: only plugin requests are running, which are not awaited."""
    data = state.data
    waits = data.queue or data.interactions or data.survivors or data.teardown or data.stopping
    return (
        state.phase is Phase.IDLE
        and not waits
        and not state.ended
        and all(type(owner) is OfPluginRequest for owner in data.open.values())
    )
