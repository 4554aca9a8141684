"""Host name resolution by the system."""

import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

import trio

from agentrail import outside

LookUp: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the IP addresses of a host, or raises `OSError`."""

_MAX_LOOKUPS: Final = 8


class SystemNames:
    """System resolver."""

    __slots__ = ("_lookups",)

    def __init__(self) -> None:
        # A separate limit: a lookup cannot be cancelled, and names chosen by strangers may all be slow.
        self._lookups = trio.CapacityLimiter(_MAX_LOOKUPS)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        rows = await outside.offload(look_up, abandon_on_cancel=True, limiter=self._lookups)
        return [str(row[4][0]) for row in rows]
