"""Rewind requests from a handle to the actor of its session: a control message that is answered once."""

import trio

from agentrail.core.session.effect_owners import OfPluginRequest
from agentrail.core.session.state import Phase, SessionState
from agentrail.errors import AgentrailError
from agentrail.runtime.crashes import Control


class RewindRequest(Control):
    """Control message: rewind the session if it has no running or pending work.

    Attributes:
        seq: Number of the record of the rewind. 0 before it is made.
        answered: Set when the session has checked the request. New for each attempt.
        told: Set when the rewind is durable, and its subscribers are notified.
        error: Why it failed. None otherwise.
    """

    __slots__ = ("answered", "at_ms", "error", "number", "seq", "then", "told")

    def __init__(self, *, number: int, then: SessionState, at_ms: int) -> None:
        self.number: int = number
        self.then: SessionState = then
        self.at_ms: int = at_ms
        self.seq: int = 0
        self.error: AgentrailError | None = None
        self.answered: trio.Event = trio.Event()
        self.told: trio.Event = trio.Event()


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
