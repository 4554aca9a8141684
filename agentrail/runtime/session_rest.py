"""Rest: a session stops at a point without running work, and its state is returned as bytes."""

import math
from collections.abc import Callable, Sequence
from typing import Final

import trio
from attrs import define, field, frozen

from agentrail.core.protocol.effects import CancelPluginRequest, CancelStream, Effect, KillTools, StartStream
from agentrail.core.protocol.request import EffectId
from agentrail.core.session import effect_owners
from agentrail.core.session.state import Phase, SessionState
from agentrail.core.session.state_codec import encode_session
from agentrail.errors import CodecError
from agentrail.messages import CallId, SessionId

RESTED: Final = "put to rest"
"""Reason reported to callers of a session at rest."""

STOPS_WORK: Final = frozenset({CancelStream, KillTools, CancelPluginRequest})
"""Effects of the last step that are still executed: the actor may wait for the store before it ends, and all work with it."""

_WAITS_FOR_PEOPLE: Final[frozenset[type[object]]] = frozenset({effect_owners.OfInteraction})
_ABOUT_TO_ASK: Final[frozenset[type[object]]] = _WAITS_FOR_PEOPLE | {
    effect_owners.OfStream,
    effect_owners.OfStallTimer,
}


@frozen(kw_only=True)
class Rested:
    """The state of a session at rest.

    Attributes:
        scope: Its scope. Empty for none.
        state: Its whole state, in the format of `decode_session` in `agentrail.abc.stored_states`.
        last_seq: Number of its last event. Readers continue after it.
        at_boundary: Whether it stopped without running work. Otherwise it was cut, and the state lists the running work.
        cut_calls: Calls that ran when it was cut, so that their outcome is unknown. Empty at a boundary.
    """

    session_id: SessionId
    scope: str
    state: bytes
    last_seq: int
    at_boundary: bool
    cut_calls: tuple[CallId, ...] = ()


@define(eq=False, kw_only=True)
class RestRequest:
    """A pending request to rest, until the session has stopped or no caller wants it any more.

    Attributes:
        callers: For each caller, the time when it wants running work to be cut.
        error: Makes an error for each caller. The traceback of a shared one would refer to this request: a cycle.
    """

    is_move: bool = False
    callers: list[float] = field(init=False, factory=list)
    settled: trio.Event = field(init=False, factory=trio.Event)
    error: Callable[[], CodecError] | None = field(init=False, default=None)

    @property
    def is_due(self) -> bool:
        return min(self.callers, default=math.inf) <= trio.current_time()


def is_boundary(state: SessionState, effects: Sequence[Effect]) -> bool:
    """Return whether a session may stop after a step, before the step's effects are executed."""
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
    """Return whether a session stops after this step: True at a boundary, False if it is cut, None if it continues."""
    if is_boundary(state, effects):
        return True
    # A session that is ending does so soon, without a rest.
    is_ending = state.ended or state.data.stopping is not None
    return False if is_due and not is_ending else None


def decide_awaited(state: SessionState, not_begun: frozenset[EffectId]) -> tuple[str, ...]:
    """Return the tools of the running calls that must end before a session moves, by name.

    A call of a `pure` or `idempotent` tool is stopped, and runs again on the other node. One in `not_begun` runs there for the first time. For
    a call that runs a child session, the child's own calls count.
    """
    return tuple(
        [
            one.call.name
            for one in (*state.data.batch, *state.data.survivors)
            if one.stage == "running" and not one.wants_child and one.effect_id not in not_begun
            if one.spec is None or one.spec.effect_class in ("once", "reconcilable")
        ]
    )


def make_rested(state: SessionState, *, at_boundary: bool) -> Rested:
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
