"""Putting a session to rest: it leaves at a place where nothing of it is at work, and what it knows is given as bytes.

That is no end: nothing is published, no plugin hears of one, and the state goes on where it was left, in another process too. A planned
stop of the process wants it of all sessions, and hibernation of those that are idle; both are this.
"""

from collections.abc import Sequence
from typing import Final

import trio
from attrs import frozen

from agentrail.core.protocol.effects import Effect, StartStream
from agentrail.core.session import owners
from agentrail.core.session.state import Phase, SessionState
from agentrail.core.session.state_codec import encode_session
from agentrail.errors import CodecError
from agentrail.messages import CallId, SessionId

RESTED: Final = "put to rest"
"""Why a session is not there any more that is at rest, as callers are told."""

_WAITS_FOR_PEOPLE: Final[frozenset[type[object]]] = frozenset({owners.OfInteraction})
_ABOUT_TO_ASK: Final[frozenset[type[object]]] = _WAITS_FOR_PEOPLE | {owners.OfStream, owners.OfStallTimer}


@frozen(kw_only=True)
class Rested:
    """What a session left behind.

    Attributes:
        session_id: Which one.
        scope: Of which scope; empty for one without.
        state: All that it knows, as of `decode_session` in `agentrail.abc.stored_states`.
        last_seq: The number of its last event; readers go on after it.
        at_boundary: Whether it left where nothing was at work. Else it was cut: what was at work is told by the state.
        cut_calls: The calls that ran when it was cut, so that it is unknown what they did; none at a boundary.
    """

    session_id: SessionId
    scope: str
    state: bytes
    last_seq: int
    at_boundary: bool
    cut_calls: tuple[CallId, ...] = ()


class RestRequest:
    """That a session is to leave, from when the first caller asks for it until it has left, or no caller wants it any more.

    Attributes:
        callers: How many want it.
        is_due: Whether the time is over, so that it leaves wherever it is.
        settled: Set when it has left, ended, or could not leave.
        error: Why it could not.
    """

    __slots__ = ("callers", "error", "is_due", "settled")

    def __init__(self) -> None:
        self.callers: int = 0
        self.is_due: bool = False
        self.settled: trio.Event = trio.Event()
        self.error: CodecError | None = None


def is_boundary(state: SessionState, effects: Sequence[Effect]) -> bool:
    """Say whether a session may leave behind a step, before the step's effects are carried out.

    It may where nothing is at work: in idle, also with a cycle that waits for a person; and between two turns, where the next
    request is decided and has not gone out, so that to send it later is to send it once.
    """
    data = state.data
    if state.ended or data.stopping is not None or data.teardown is not None or data.survivors:
        return False
    if state.phase is Phase.IDLE:
        allowed = _WAITS_FOR_PEOPLE
    elif state.phase is Phase.RUNNING and any(isinstance(effect, StartStream) for effect in effects):
        allowed = _ABOUT_TO_ASK
    else:
        return False
    return all(type(owner) in allowed for owner in data.open.values())


def decide_rest(state: SessionState, effects: Sequence[Effect], *, is_due: bool) -> bool | None:
    """Say whether a session leaves behind this step: True at a boundary, False because it is cut, None not at all."""
    if is_boundary(state, effects):
        return True
    # One that ends does so by itself, and soon: its end is no rest.
    is_ending = state.ended or state.data.stopping is not None
    return False if is_due and not is_ending else None


def make_rested(state: SessionState, *, at_boundary: bool) -> Rested:
    """Write down what a session leaves behind."""
    data = state.data
    running = () if at_boundary else tuple(call for call in data.batch if call.stage == "running")
    return Rested(
        session_id=data.config.session_id,
        scope=data.config.scope,
        state=encode_session(state),
        last_seq=data.seq,
        at_boundary=at_boundary,
        cut_calls=tuple(call.call.call_id for call in (*running, *(() if at_boundary else data.survivors))),
    )
