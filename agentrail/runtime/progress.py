"""What a running tool says of itself: at most ten times a second, and what comes faster is merged."""

from collections.abc import Callable
from typing import Final

MIN_PAUSE_SECONDS: Final = 0.1
MAX_PROGRESS_BYTES: Final = 4_096


class Progress:
    """The words of one call on their way to its session."""

    __slots__ = ("_next_at", "_send", "_waiting")

    def __init__(self, send: Callable[[str], None]) -> None:
        """Begin with nothing said.

        Args:
            send: Takes what may go out.
        """
        self._send = send
        self._waiting: list[str] = []
        self._next_at = 0.0

    def say(self, text: str, at_seconds: float) -> float | None:
        """Send a text, or keep it until its time has come.

        Returns:
            When `flush` has to be called, unless the caller knows that already; None where nothing has to be done.
        """
        self._waiting.append(text)
        if at_seconds >= self._next_at:
            self._next_at = at_seconds + MIN_PAUSE_SECONDS
            self.flush()
            return None
        return self._next_at if len(self._waiting) == 1 else None

    def flush(self, at_seconds: float | None = None) -> None:
        """Send what waits, as one text; of too much the end, for that is how far the call is."""
        if at_seconds is not None:
            self._next_at = at_seconds + MIN_PAUSE_SECONDS
        if self._waiting:
            merged = "\n".join(self._waiting).encode("utf-8", "replace")
            self._waiting.clear()
            self._send(merged[-MAX_PROGRESS_BYTES:].decode("utf-8", "ignore"))
