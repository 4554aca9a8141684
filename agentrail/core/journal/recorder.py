"""Recording of a live session: the drafts of each step. Pure. Numbering, sealing and storing are the caller's.

Signals are recorded, events are not. Two rules omit signals, because a fold without them has the same result:

- **Queries and ephemeral signals.** A status, the messages and a snapshot change nothing. Neither does the progress
  of a tool, or a child's stream.
- **The chunk rule.** Chunks of a stream are held back. They become one `heard` record as soon as they cause more
  than deltas (a committed event), or before any other signal that is recorded while the stream is open. A complete
  response contains all of their text, so they are dropped, unless its step would differ without them.
"""

from typing import Final, final

from msgspec import Raw
from msgspec.structs import replace

from agentrail.core.journal.fold import Drift
from agentrail.core.journal.record import (
    CLOSED,
    DRIFTED,
    HEARD,
    OPENED,
    ClosedBody,
    Draft,
    DriftedBody,
    encode_body,
    opened_body,
)
from agentrail.core.journal.recorded_steps import encode_signal_body, outline
from agentrail.core.protocol import signals
from agentrail.core.protocol.effects import Effect
from agentrail.core.protocol.request import Chunk, EffectId
from agentrail.core.protocol.signals import Signal
from agentrail.core.session.inline_tags import tags_at_end
from agentrail.core.session.state import Phase, SessionState, Stream
from agentrail.core.session.state_codec import encode_session
from agentrail.core.session.transitions import is_ephemeral_signal
from agentrail.core.wire.codec import SIGNAL_KINDS
from agentrail.messages import SessionId

QUESTIONS: Final[frozenset[type[Signal]]] = frozenset(
    {signals.StatusQuery, signals.MessagesQuery, signals.SnapshotQuery}
)
"""Signals that are answered from the state and change none of it."""


@final
class Recorder:
    """Returns the records of each step of one session. It lives as long as the session, across crashes of its actor.

    Attributes:
        state: The state after the last signal that it was given.
    """

    __slots__ = ("_behind", "_chunks", "state")

    def __init__(self, state: SessionState) -> None:
        self.state: SessionState = state
        self._chunks: list[signals.ChunksArrived] = []
        self._behind: Stream | None = None  # the stream at the last record, while chunks are held back

    def note(
        self, before: SessionState, signal: Signal, after: SessionState, effects: tuple[Effect, ...]
    ) -> tuple[Draft, ...]:
        self.state = after
        if before.ended:
            return ()
        if isinstance(signal, signals.ChunksArrived):
            return self._note_chunks(before, signal, after, effects)
        kind = type(signal)
        if kind in QUESTIONS:
            return ()
        does = outline(effects)
        if not does and is_ephemeral_signal(signal):
            return ()
        draft = Draft(
            at_ms=signal.at_ms,
            kind=SIGNAL_KINDS[kind],
            body=encode_signal_body(signal),
            does=does,
            events=after.data.seq,
        )
        if not self._chunks:
            return (draft,)
        if isinstance(signal, signals.ResponseCompleted) and self._says_all(before, signal):
            self._forget()
            return (draft,)
        return (self._heard(before), draft)

    def flush(self) -> tuple[Draft, ...]:
        """Return the chunks held back, for a fork, or a snapshot during a stream. Usually nothing."""
        return (self._heard(self.state),) if self._chunks else ()

    def _note_chunks(
        self,
        before: SessionState,
        signal: signals.ChunksArrived,
        after: SessionState,
        effects: tuple[Effect, ...],
    ) -> tuple[Draft, ...]:
        stream = before.data.stream
        if before.phase is not Phase.STREAMING or stream is None or stream.effect_id != signal.effect_id:
            return ()  # late: the table has dropped them
        if not self._chunks:
            self._behind = stream
        self._chunks.append(signal)
        does = outline(effects)
        # Only published events would show that a plugin was called, but none is called for chunks.
        return (self._heard(after, does),) if does else ()

    def _says_all(self, before: SessionState, signal: signals.ResponseCompleted) -> bool:
        stream, known = before.data.stream, self._behind
        if stream is None or known is None or stream.effect_id != signal.effect_id:
            return False  # late, from another stream
        if not signal.message.content:  # it has failed, and its usage is estimated from the chunks
            return False
        config, message = before.data.config, signal.message
        return tags_at_end(known, message, config) == tags_at_end(stream, message, config)

    def _heard(self, state: SessionState, does: str = "") -> Draft:
        """Join the chunks held back. `state` is the state after them."""
        last = self._chunks[-1]
        chunks: list[Chunk] = []
        for signal in self._chunks:
            chunks += signal.chunks
        self._forget()
        joined = replace(last, chunks=tuple(chunks))
        return Draft(
            at_ms=last.at_ms, kind=HEARD, body=encode_signal_body(joined), does=does, events=state.data.seq
        )

    def _forget(self) -> None:
        self._chunks = []
        self._behind = None


def opened_draft(  # noqa: PLR0913 - what the record says
    state: SessionState,
    *,
    at_ms: int,
    engine: str,
    origin: str = "",
    parent: str = "",
    forked_from: tuple[SessionId, int] | None = None,
    node: str = "",
) -> Draft:
    """Return the first record of a session. `SessionBegan` follows as a signal like others."""
    body = opened_body(state, engine=engine, origin=origin, parent=parent, forked_from=forked_from)
    whole = replace(body, node=node)
    return Draft(at_ms=at_ms, kind=OPENED, body=encode_body(whole), events=state.data.seq)


def drifted_draft(
    drift: Drift, state: SessionState, begun: tuple[EffectId, ...], *, at_ms: int, engine: str
) -> Draft:
    """Return the record of a drift: newer code folded the earlier records differently, and its result counts from here on."""
    body = DriftedBody(
        first=drift.first,
        what=str(drift)[:_MAX_WHAT],
        events=drift.events,
        engine=engine,
        state=Raw(encode_session(state)),
        begun=begun,
    )
    return Draft(at_ms=at_ms, kind=DRIFTED, body=encode_body(body), events=drift.events)


_MAX_WHAT: Final = 2_000


def closed_draft(reason: str, *, at_ms: int, events: int) -> Draft:
    """Return the last record of a session. No record follows it."""
    return Draft(at_ms=at_ms, kind=CLOSED, body=encode_body(ClosedBody(reason=reason)), events=events)
