"""Copies of one child, and a way from a key to one of them."""

import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, cast

from agentrail.actors.blocks import open_supervisor
from agentrail.actors.handle import ActorHandle
from agentrail.actors.supervisor_handle import Supervisor
from agentrail.errors import (
    InvalidSpec,
    NoPartitions,
)
from agentrail.otp.child_specs import (
    ChildSpec,
    StartFunction,
    SupervisorFlags,
)


class Partitions:
    """Copies of one child, and a way from a key to one of them: the same key goes to the same copy."""

    def __init__(self, supervisor: Supervisor, count: int) -> None:
        """Made by `open_partitions`."""
        self.supervisor: Final = supervisor
        self._most: Final = count
        self._count = count

    def handle_for(self, key: int | str | bytes) -> ActorHandle:
        """Return the copy for a key: numbers by `abs(key) % n`, text and bytes by a hash that no process changes.

        Raises:
            NoPartitions: Your move: there are none, `resize` them.
            ActorDown: That copy has no process now.
            TypeError: Your move: another kind of key.
        """
        if not self._count:
            message = "the partitions were resized to 0: resize them before you look for one"
            raise NoPartitions(message)
        return self.supervisor.handle(_number_of(key) % self._count)

    async def resize(self, count: int) -> None:
        """Route among the first `count` copies; the others are stopped, and started again when they are wanted.

        Raises:
            InvalidSpec: Your move: below 0, or above the initial count.
            ChildStartFailed: A copy that is wanted again did not start.
            ActorDown: The supervisor has ended.

        Cancellation: Always a checkpoint; cancelled here some copies may run to which no key is routed.
        """
        if not _is_whole(count) or not 0 <= count <= self._most:
            message = f"partitions are resized to {count!r}, allowed is an integer from 0 to {self._most}"
            raise InvalidSpec(message, code="invalid_partitions", field="count")
        self._count = min(self._count, count)  # no key is routed to a copy that is being stopped
        for info in reversed(await self.supervisor.which_children()):
            number = cast("int", info.id)
            if number >= count:
                await self.supervisor.terminate_child(number)
        for info in await self.supervisor.which_children():
            if cast("int", info.id) < count and info.status == "stopped":
                await self.supervisor.restart_child(info.id)
        self._count = count


@asynccontextmanager
async def open_partitions(
    start: StartFunction,
    count: int,
    *,
    flags: SupervisorFlags = SupervisorFlags("one_for_one"),  # noqa: B008 - frozen
) -> AsyncIterator[Partitions]:
    """Open a supervisor over `count` copies of one child.

    Args:
        start: Of each copy.
        count: How many, from 1.
        flags: Of the supervisor.

    Raises:
        InvalidSpec: Your move: a count below 1.
        SupervisorStartFailed: A copy did not start.
        SupervisorGaveUp: As of `open_supervisor`.

    Cancellation: As of `open_supervisor`.
    """
    if not _is_whole(count) or count < 1:
        message = f"count is {count!r}, allowed is an integer from 1"
        raise InvalidSpec(message, code="invalid_partitions", field="count")
    async with open_supervisor(flags, [ChildSpec(number, start) for number in range(count)]) as supervisor:
        yield Partitions(supervisor, count)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number_of(key: object) -> int:
    match key:
        case int():
            return abs(key)
        case str():
            return zlib.crc32(key.encode())
        case bytes():
            return zlib.crc32(key)
        case _:
            message = (
                f"a key of partitions is a number, text or bytes, got {type(key).__name__}: choose one of it"
            )
            raise TypeError(message)
