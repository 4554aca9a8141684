"""What comes in on a connection, read with bounds: how many headers, how large a body and how slow, and that the caller has left.

It knows messages of ASGI, and no framework: the server hands them over piece by piece, and limits none of this by itself. What a body
means does not enter; see `bodies`.
"""

from collections.abc import Awaitable, Callable, Hashable, Mapping, MutableMapping
from typing import Any, Final, TypeAlias

import trio

from agentrail.gateway.answers import CallRefused, ErrorAnswer, error_answer, refuse_call
from agentrail.gateway.body_reading import BodyBytes

AsgiReceive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
"""Gives the next message of a connection, as of ASGI."""

AsgiSend: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
"""Takes a message of an application, as of ASGI."""

AsgiApp: TypeAlias = Callable[[MutableMapping[str, Any], AsgiReceive, AsgiSend], Awaitable[None]]
"""An application, as of ASGI 3."""

MAX_HEADERS: Final = 100
MAX_HEADER_BYTES: Final = 32 << 10

SLOW_START_SECONDS: Final = 30.0
"""How long a body may take however small it is."""

SLOWEST_BYTES_PER_SECOND: Final = 4 << 10
"""How fast a body has to come behind that, on the average."""

MAX_BYTES_AT_ONCE: Final = 256 << 20
"""Of all bodies that a process reads at one time; of those of one caller at most half of that, so that others have room."""


class CallerLeft(Exception):
    """The caller has closed the connection, so no answer is read. Caught at the gateway's edge."""


def judge_headers(scope: Mapping[str, Any]) -> ErrorAnswer | None:
    """Refuse a call with more headers, or a longer path and query, than any has that means well: all later code goes through them."""
    headers = scope["headers"]
    size = sum(len(name) + len(value) for name, value in headers)
    size += len(scope.get("raw_path") or b"") + len(scope.get("query_string", b""))
    if len(headers) <= MAX_HEADERS and size <= MAX_HEADER_BYTES:
        return None
    return error_answer(
        "headers_too_large",
        f"expected at most {MAX_HEADERS} headers, and {MAX_HEADER_BYTES:,} bytes of them with the path and its query",
    )


class BodyReader:
    """Reads bodies of calls, and bounds what all of them take together."""

    def __init__(
        self,
        *,
        max_bytes_at_once: int = MAX_BYTES_AT_ONCE,
        slow_start_seconds: float = SLOW_START_SECONDS,
        slowest_bytes_per_second: int = SLOWEST_BYTES_PER_SECOND,
    ) -> None:
        """Read none yet.

        Args:
            max_bytes_at_once: Of all bodies that are being read.
            slow_start_seconds: How long each may take however small it is.
            slowest_bytes_per_second: How fast it has to come behind that, on the average.
        """
        self._max_bytes_at_once = max_bytes_at_once
        self._slow_start_seconds = slow_start_seconds
        self._slowest = slowest_bytes_per_second
        self._held_bytes = 0
        self._held_of: dict[Hashable, int] = {}

    @property
    def held_bytes(self) -> int:
        """How much has come of the bodies that are being read."""
        return self._held_bytes

    async def read(
        self,
        receive: AsgiReceive,
        headers: Mapping[str, str],
        max_bytes: int,
        *,
        caller: Hashable = None,
    ) -> bytes:
        """Read a body to its end.

        Args:
            receive: The connection.
            headers: Of the call; a `content-length` that is too large is refused before anything is read.
            max_bytes: How large it may be.
            caller: Whose it is.

        Raises:
            CallRefused: 413 `too_large`, 400 for a length that is no number, 408 `too_slow`, 429 where other bodies of the caller take half of the room there is, or
                503 `server_full` where all bodies take all of it. What had come is forgotten.
            CallerLeft: In the middle of it.

        Cancellation: What had come is forgotten.
        """
        body = BodyBytes(max_bytes, announced=headers.get("content-length"))
        came = 0
        try:
            with trio.CancelScope(deadline=trio.current_time() + self._slow_start_seconds) as scope:
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise CallerLeft
                    piece = message.get("body", b"")
                    self._find_room(len(piece), caller)
                    body.add(piece)
                    came += len(piece)
                    self._hold(len(piece), caller)
                    if not message.get("more_body", False):
                        return body.whole()
                    scope.deadline += len(piece) / self._slowest
        finally:
            self._hold(-came, caller)
        expected = (
            f"within {self._slow_start_seconds:g} s, and a second more for each {self._slowest:,} bytes"
        )
        raise CallRefused(error_answer("too_slow", f"expected the body {expected}"))

    def _find_room(self, size: int, caller: Hashable) -> None:
        if self._held_bytes + size > self._max_bytes_at_once:
            refuse_call("server_full", "the server reads as many bodies as it has room for")
        if caller is not None and 2 * (self._held_of.get(caller, 0) + size) > self._max_bytes_at_once:
            message = "as many bodies of this caller are being read as there is room for"
            raise CallRefused(error_answer("too_many_requests", message, headers={"retry-after": "5"}))

    def _hold(self, size: int, caller: Hashable) -> None:
        self._held_bytes += size
        held = self._held_of.pop(caller, 0) + size
        if held:  # else a caller would be kept for each that there ever was
            self._held_of[caller] = held


async def wait_left(receive: AsgiReceive) -> None:
    """Wait until the caller of a call whose body was read has closed the connection.

    The server tells a plain route nothing of that, and cancels none.

    Cancellation: A checkpoint.
    """
    while (await receive())["type"] != "http.disconnect":
        pass
