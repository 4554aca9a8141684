"""What a session says in passing and has not said for good: the answer that streams, thinking, the progress of calls.

Ephemeral events are never replayed, so one who joins in the middle would miss how they began. The bus lets each event pass by here, in
the order in which it publishes, and a snapshot says what came of it: the very words that a reader has who was there all along.
Nothing of it is stored: after a crash of the process a request is sent anew. No subscriber enters.
"""

from typing import Final

from agentrail.core.session.projection import LiveText
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentError,
    Event,
    MessageDelta,
    RequestStart,
    ResponseComplete,
    SessionEnd,
    SessionRestarted,
    StreamError,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolProgress,
)
from agentrail.messages import CallId

_BEGINS_ANEW: Final[frozenset[type[Event]]] = frozenset({ResponseComplete, StreamError})
_ENDS: Final[frozenset[type[Event]]] = frozenset(
    {AgentEnd, AgentAbort, AgentError, SessionRestarted, SessionEnd}
)


# One for all that have none, and never written to: while a model is waited for there are as many as sessions.
_NO_WORDS: Final[list[str]] = []


class LiveTail:
    """What is said in passing in one session, as far as it still counts."""

    __slots__ = ("_attempt", "_progress", "_text", "_thinking")

    def __init__(self) -> None:
        """Begin with nothing said."""
        self._attempt = 0
        self._text = self._thinking = _NO_WORDS
        self._progress: dict[CallId, str] = {}

    def hear(self, event: Event) -> bool:
        """Let an event pass by.

        Returns:
            Whether anything is left that a snapshot would tell.
        """
        kind = type(event)
        if kind is MessageDelta:
            assert isinstance(event, MessageDelta)  # noqa: S101 - for the type checker: its class was asked
            self._attempt = event.attempt
            if self._text is _NO_WORDS:
                self._text = []
            self._text.append(event.delta)
        elif kind is ThinkingDelta:
            assert isinstance(event, ThinkingDelta)  # noqa: S101 - as above
            self._attempt = event.attempt
            if self._thinking is _NO_WORDS:
                self._thinking = []
            self._thinking.append(event.delta)
        elif isinstance(event, ToolProgress):
            self._progress[event.call_id] = event.text
        elif isinstance(event, RequestStart):
            self._begin(event.attempt)
        elif isinstance(event, ToolExecutionEnd):
            self._progress.pop(event.call_id, None)
        elif kind in _BEGINS_ANEW:
            self._begin(0)
        elif kind in _ENDS:
            self._begin(0)
            self._progress.clear()
        return bool(self._attempt or self._progress)

    def _begin(self, attempt: int) -> None:
        self._attempt = attempt
        self._text = self._thinking = _NO_WORDS

    def draw(self) -> LiveText:
        """Say what it comes to by now."""
        return LiveText(
            attempt=self._attempt,
            text="".join(self._text),
            thinking="".join(self._thinking),
            progress=tuple(self._progress.items()),
        )


STARTS: Final[frozenset[type[Event]]] = frozenset({MessageDelta, ThinkingDelta, ToolProgress, RequestStart})
"""With which kinds something begins to be live; a session that is at rest holds no `LiveTail`."""

CHANGES_TEXT: Final[frozenset[type[Event]]] = STARTS | {ToolExecutionEnd} | _BEGINS_ANEW | _ENDS
"""All that changes it; others need not pass by."""
