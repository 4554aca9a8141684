"""Snapshots: what a session knew behind one record, so that coming back need not read all of its journal. A cache, never truth."""

import hashlib
from typing import Final

from agentrail.abc.store import StoredSnapshot
from agentrail.core.journal.record import Tail
from agentrail.core.protocol.request import EffectId
from agentrail.core.session import owners
from agentrail.core.session.state import Phase, SessionState
from agentrail.core.session.state_codec import encode_session

MIN_RECORDS: Final = 200
"""How many records come at least before another snapshot is worth its bytes."""


def is_snapshot_due(last: int, now: int) -> bool:
    """Say whether there should be a snapshot: what would have to be read is long, and half as long as what one stands for."""
    return now - last > max(MIN_RECORDS, last // 2)


def is_at_rest(state: SessionState) -> bool:
    """Say whether a snapshot may be taken: nothing is at work, nothing is torn down, and at most people are waited for."""
    data = state.data
    return (
        state.phase is Phase.IDLE
        and not state.ended
        and data.teardown is None
        and data.stopping is None
        and not data.survivors
        and all(type(owner) is owners.OfInteraction for owner in data.open.values())
    )


_TIMERS: Final = (
    owners.OfStallTimer,
    owners.OfSummaryTimer,
    owners.OfHoldTimer,
    owners.OfPause,
    owners.OfRetry,
    owners.OfInteraction,
    owners.OfAgentWait,
    owners.OfDrain,
    owners.OfTeardown,
)


def begun_effects(state: SessionState) -> tuple[EffectId, ...]:
    """Return the open effects of a live session that began work: its records name each of them."""
    found = state.data.open.items()
    return tuple([effect_id for effect_id, owner in found if not isinstance(owner, _TIMERS)])


def make_snapshot(
    state: SessionState, tail: Tail, begun: tuple[EffectId, ...] | None = None
) -> StoredSnapshot:
    """Make the snapshot of a session."""
    text = encode_session(state, begun=begun)
    config = state.data.config
    return StoredSnapshot(
        scope=config.scope,
        session=config.session_id,
        seq=tail.seq,
        hash=tail.hash,
        state=text,
        check=_check_of(tail.hash, text),
    )


def is_sound(snapshot: StoredSnapshot) -> bool:
    """Say whether a snapshot is what was put. Whether it is of its journal says the record that it stands behind."""
    return snapshot.check == _check_of(snapshot.hash, snapshot.state)


def _check_of(behind: bytes, state: bytes) -> bytes:
    return hashlib.blake2b(behind + state, digest_size=16).digest()
