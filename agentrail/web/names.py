"""Names of hosts, looked up as the system does it."""

import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

import trio

from agentrail import outside

LookUp: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the IP addresses of a host, or raises `OSError`."""

_MAX_LOOKUPS: Final = 8


class SystemNames:
    """Looks names up as the system does."""

    __slots__ = ("_lookups",)

    def __init__(self) -> None:
        """Look nothing up yet."""
        # A limit of its own: a lookup cannot be cancelled, and names that a stranger chose may all take their time.
        self._lookups = trio.CapacityLimiter(_MAX_LOOKUPS)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Give the addresses of a host.

        Cancellation: The lookup is left behind.
        """
        look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        rows = await outside.offload(look_up, abandon_on_cancel=True, limiter=self._lookups)
        return [str(row[4][0]) for row in rows]
