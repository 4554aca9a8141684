"""Removal of secrets from signals before each step, so that state, records and events agree.

The end of a piece of streamed text is held back while it could be the start of a secret. The end of its response, an abort,
a stop, a restart or `policy.patience` releases it.
"""

from typing import Final

from attrs import define, field
from msgspec.structs import replace

from agentrail.core.protocol.effects import stall_timer_of
from agentrail.core.protocol.request import Chunk, EffectId, ReasoningDelta, TextDelta
from agentrail.core.protocol.signals import (
    AbortCycle,
    ChunksArrived,
    Parked,
    ResponseCompleted,
    Restarted,
    Signal,
    StopSession,
    StreamFailed,
    TimerFired,
    ToolFinished,
    ToolProgressed,
)
from agentrail.core.session.state import Phase, SessionState
from agentrail.core.values.secret_scrubber import KnownSecrets, StreamedText
from agentrail.core.wire.normalize import settled
from agentrail.core.wire.redaction import withheld

_KEEP_WHAT_WAS_SAID: Final = (AbortCycle, StopSession, Restarted, Parked)
"""Signals that may end a stream and keep its text in the history."""


@define(eq=False)
class _Response:
    effect_id: EffectId
    said: StreamedText
    thought: StreamedText
    at_ms: int


@define(eq=False, repr=False)
class SignalCleaner:
    """Removes secrets from the signals of one session. It lives as long as the session, across crashes of its actor."""

    _response: _Response | None = field(init=False, default=None)
    _progress: dict[EffectId, StreamedText] = field(init=False, factory=dict)

    def cleaned(self, signal: Signal, state: SessionState, known: KnownSecrets) -> tuple[Signal, ...]:
        """Return the signals to step in place of a signal: usually one, preceded by held-back text if there is any."""
        said = settled(signal)
        match said:
            case ChunksArrived():
                return (self._heard(said, state, known),)
            case ToolProgressed():
                return (self._progressed(said, known),)
            case ResponseCompleted():
                return (*self._rest(state, ends=said.effect_id), withheld(said, known))
            case StreamFailed(effect_id=effect_id):  # its text is withdrawn
                self._forget(effect_id)
            case TimerFired():
                return (*self._rest_of_silent(state, said), said)
            case ToolFinished(effect_id=effect_id):
                self._progress.pop(effect_id, None)
            case _ if isinstance(said, _KEEP_WHAT_WAS_SAID):
                return (*self._rest(state), withheld(said, known))
            case _:
                pass
        return (withheld(said, known),)

    # --- model output

    def _heard(self, signal: ChunksArrived, state: SessionState, known: KnownSecrets) -> ChunksArrived:
        response = self._response_of(signal, state, known)
        chunks: list[Chunk] = []
        for chunk in signal.chunks:
            match chunk:
                case TextDelta(text=text):
                    said = response.said.feed(text)
                    if said:
                        chunks.append(chunk if said == text else TextDelta(said))
                case ReasoningDelta(text=text, signature=signature):
                    said = response.thought.feed(text)
                    if said == text:
                        chunks.append(chunk)
                    elif said or signature is not None:
                        chunks.append(ReasoningDelta(said, signature))
                case _:
                    chunks.append(withheld(chunk, known))
        return replace(signal, chunks=tuple(chunks))

    def _response_of(self, signal: ChunksArrived, state: SessionState, known: KnownSecrets) -> _Response:
        found, stream = self._response, state.data.stream
        if found is None or found.effect_id != signal.effect_id:
            found = _Response(signal.effect_id, StreamedText(known), StreamedText(known), signal.at_ms)
            # A late one is discarded.
            if stream is not None and stream.effect_id == signal.effect_id:
                self._response = found
        found.said.known = found.thought.known = known  # more secrets may be known by now
        found.at_ms = signal.at_ms
        return found

    def _rest(self, state: SessionState, *, ends: EffectId | None = None) -> tuple[Signal, ...]:
        """Release the held-back text of the current response. With `ends`, only if that response is complete."""
        response, stream = self._response, state.data.stream
        if response is None or ends not in {None, response.effect_id}:
            return ()
        if ends is not None:
            self._response = None
        is_open = state.phase is Phase.STREAMING and stream is not None
        if not is_open or stream is None or stream.effect_id != response.effect_id:
            return ()
        chunks: list[Chunk] = []
        if response.thought.is_waiting:
            chunks.append(ReasoningDelta(response.thought.let_go()))
        if response.said.is_waiting:
            chunks.append(TextDelta(response.said.let_go()))
        if not chunks:
            return ()
        # Dated like the last chunk, because it is not a sign of life.
        return (ChunksArrived(at_ms=response.at_ms, effect_id=response.effect_id, chunks=tuple(chunks)),)

    def _rest_of_silent(self, state: SessionState, fired: TimerFired) -> tuple[Signal, ...]:
        stream = state.data.stream
        if stream is None or fired.effect_id != stall_timer_of(stream.effect_id):
            return ()
        return self._rest(state)

    def _forget(self, effect_id: EffectId) -> None:
        if self._response is not None and self._response.effect_id == effect_id:
            self._response = None

    # --- tool progress

    def _progressed(self, signal: ToolProgressed, known: KnownSecrets) -> ToolProgressed:
        """Check the progress as one text, and release all of it: each piece is a message of its own, such as `50 %`."""
        text = self._progress.get(signal.effect_id) or StreamedText(known)
        text.known = known
        said = text.feed(signal.text) + text.let_go()
        if text.is_clear:
            self._progress.pop(signal.effect_id, None)
        else:
            self._progress[signal.effect_id] = text
        return signal if said == signal.text else replace(signal, text=said)
