"""Snapshots: the state after one record, so that resuming need not read the whole journal. A cache, never the source of truth."""

import hashlib
from typing import Final

from agentrail.abc.store import StoredSnapshot
from agentrail.core.journal.record import Tail
from agentrail.core.protocol.request import EffectId
from agentrail.core.session import effect_owners
from agentrail.core.session.state import Phase, SessionState
from agentrail.core.session.state_codec import encode_session

MIN_RECORDS: Final = 200
"""Minimum number of records before another snapshot is worth its bytes."""


def is_snapshot_due(last: int, now: int) -> bool:
    """Return whether a snapshot is due: the unread part is long, and at least half as long as the part that a snapshot covers."""
    return now - last > max(MIN_RECORDS, last // 2)


def is_at_rest(state: SessionState) -> bool:
    """Return whether a snapshot may be taken: no work is running or being torn down, and at most users are awaited."""
    data = state.data
    return (
        state.phase is Phase.IDLE
        and not state.ended
        and data.teardown is None
        and data.stopping is None
        and not data.survivors
        and all(type(owner) is effect_owners.OfInteraction for owner in data.open.values())
    )


_TIMERS: Final = (
    effect_owners.OfStallTimer,
    effect_owners.OfSummaryTimer,
    effect_owners.OfHoldTimer,
    effect_owners.OfPause,
    effect_owners.OfRetry,
    effect_owners.OfInteraction,
    effect_owners.OfAgentWait,
    effect_owners.OfDrain,
    effect_owners.OfTeardown,
)


def begun_effects(state: SessionState) -> tuple[EffectId, ...]:
    found = state.data.open.items()
    return tuple([effect_id for effect_id, owner in found if not isinstance(owner, _TIMERS)])


def make_snapshot(
    state: SessionState, tail: Tail, begun: tuple[EffectId, ...] | None = None
) -> StoredSnapshot:
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
    """Return whether a snapshot is unchanged since it was stored. The record before it shows whether it belongs to its journal."""
    return snapshot.check == _check_of(snapshot.hash, snapshot.state)


def _check_of(behind: bytes, state: bytes) -> bytes:
    return hashlib.blake2b(behind + state, digest_size=16).digest()
