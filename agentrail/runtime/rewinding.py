"""Going back, on the way from a handle to the actor of its session: a control message that is answered once."""

import trio

from agentrail.core.session.owners import OfPluginRequest
from agentrail.core.session.state import Phase, SessionState
from agentrail.runtime.crashes import Control


class RewindRequest(Control):
    """A control message to the session: it is to go back, if nothing is at work and nothing waits.

    Attributes:
        seq: The number of the record that says so; 0 before it is made.
        answered: Set when the session has looked at it; new for each try.
        told: Set when it is durable that it went back, and its subscribers know.
    """

    __slots__ = ("answered", "at_ms", "number", "seq", "then", "told")

    def __init__(self, *, number: int, then: SessionState, at_ms: int) -> None:
        self.number: int = number
        self.then: SessionState = then
        self.at_ms: int = at_ms
        self.seq: int = 0
        self.answered: trio.Event = trio.Event()
        self.told: trio.Event = trio.Event()


def is_quiet(state: SessionState) -> bool:
    """Say whether a session can go back at once: nothing is at work but what plugins asked for, which is not waited for then."""
    data = state.data
    waits = data.queue or data.interactions or data.survivors or data.teardown or data.stopping
    return (
        state.phase is Phase.IDLE
        and not waits
        and not state.ended
        and all(type(owner) is OfPluginRequest for owner in data.open.values())
    )
