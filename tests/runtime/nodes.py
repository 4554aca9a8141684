"""Nodes of one process over one memory store, on a virtual clock. Each has a connection of its own, which a test can cut."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from agentrail.abc.store import take_all
from agentrail.errors import StoreUnavailable
from agentrail.outside import installed
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.stores.memory import MemoryStore
from tests.runtime.rig import Inline, open_over


class Clock:
    """The clock of a shared store, in milliseconds: Trio's, and what a test steps it by."""

    def __init__(self) -> None:
        self.stepped_ms = 0

    def __call__(self) -> int:
        return 1_700_000_000_000 + int(trio.current_time() * 1000) + self.stepped_ms


class Connection:
    """A node's connection to the shared store.

    Attributes:
        refused: Calls that fail: names, or `*` for all.
        answer_seconds: How late the answers of calls are, after the store carried them out.
        late: A name, a session and seconds: the answer of the next such call is later than that by so much.
        calls: Names of all calls so far, each with the session that it reads, if any.
        in_loop: Names of the calls that were made in the loop instead of a thread.
    """

    is_immediate = False
    is_shared = True

    def __init__(self, store: MemoryStore) -> None:
        self.inner, self.refused = store, frozenset[str]()
        self.answer_seconds = self._late_seconds = 0.0
        self.late: tuple[str, Any, float] | None = None
        self.calls: list[tuple[str, Any]] = []
        self.in_loop: list[str] = []
        self.is_in_thread = False

    def cut(self, *names: str) -> None:
        self.refused = frozenset(names or "*")

    def in_thread(self, function: Any, *args: Any) -> tuple[Any, float]:
        """Call a function as in a thread, where calls of the store may block. Return its answer, and how late that is."""
        self.is_in_thread, self._late_seconds = True, 0.0
        try:
            return function(*args), self.answer_seconds + self._late_seconds
        finally:
            self.is_in_thread = False

    def mend(self) -> None:
        self.refused = frozenset()

    def take_many(self, wanted: Any) -> Any:
        return self._call("take_many", wanted)

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            return self._call(name, *args, **options)

        return call

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        self.calls.append((name, args[1] if len(args) > 1 else None))
        if self.late is not None and self.calls[-1] == self.late[:2]:
            self._late_seconds, self.late = self.late[2], None
        if not self.is_in_thread:
            self.in_loop.append(name)
        if self.refused & {name, "*"}:
            message = f"the connection was cut in {name}"
            raise StoreUnavailable(message)
        if name == "take_many":
            return take_all(self.inner, *args)
        return getattr(self.inner, name)(*args, **options)


class Machine(Inline):
    """A machine whose clock is set wrong by some seconds."""

    def __init__(self, connection: Connection, ahead: float = 0.0) -> None:
        self.connection, self.ahead = connection, ahead

    async def offload(self, function: Any, /, *args: Any, **options: Any) -> Any:
        """Call it in place, in a hundredth of a second, and with an answer that may be late."""
        await trio.sleep(0.005)
        made, late_seconds = await super().offload(self.connection.in_thread, function, *args)
        await trio.sleep(0.005 + late_seconds)
        return made

    def wall(self) -> float:
        return 1_700_000_000 + trio.current_time() + self.ahead


def shared_store() -> tuple[MemoryStore, Clock]:
    clock = Clock()
    return MemoryStore(now_ms=clock, is_shared=True), clock


@asynccontextmanager
async def node_over(
    store: MemoryStore, *, ahead: float = 0.0, **options: Any
) -> AsyncIterator[tuple[SessionSupervisor, Connection]]:
    """Open a node that looks for the dead."""
    connection = Connection(store)
    with installed(Machine(connection, ahead)):
        async with open_over(connection, **{"resume": "working", **options}) as supervisor:
            yield supervisor, connection
    assert connection.in_loop == []


def taken_by(store: MemoryStore, session: str) -> list[int]:
    """Return the epochs of a session's takes."""
    return [one.epoch for one in store.read("", session) if one.kind == "taken"]  # type: ignore[arg-type]
