"""A store that fails when a test says so: it hangs, is slow, is away, crashes, or does what it was asked and loses the answer."""

import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

from agentrail.abc.store import Append, Store, Taken, TakeOver, take_all
from agentrail.errors import AgentrailError, Fenced, StoreUnavailable

Fault: TypeAlias = Literal["none", "hang", "away", "answer_lost", "bug"]


class FaultyStore:
    """Any store, and what goes wrong with it. To its sessions it is one that takes time, whatever it is itself.

        store = FaultyStore(MemoryStore())
        store.hang()  # whatever is called from here on waits, in its thread
        store.mend()  # and goes on

    Attributes:
        inner: The store behind it.
        delay_seconds: How long each call that writes takes, besides.
        calls: The names of the calls that write and were begun, in order.
    """

    is_immediate: bool = False

    def __init__(self, inner: Store) -> None:
        """Begin without a fault."""
        self.inner: Store = inner
        self.delay_seconds: float = 0.0
        self.calls: list[str] = []
        self._fault: Fault = "none"
        self._said = "the disk is full"
        self._open = threading.Event()
        self._open.set()

    # --- what a test says

    def hang(self) -> None:
        """Let each call that writes wait until `mend`."""
        self._open.clear()

    def go_away(self, said: str = "the disk is full") -> None:
        """Let each call that writes raise `StoreUnavailable`, and do nothing."""
        self._fault, self._said = "away", said

    def lose_answers(self) -> None:
        """Let each call that writes be done, and raise `StoreUnavailable` all the same: nothing is known of it."""
        self._fault = "answer_lost"

    def crash(self) -> None:
        """Let each call that writes raise what no store may raise."""
        self._fault = "bug"

    def mend(self) -> None:
        """Be sound again; what hangs goes on."""
        self._fault = "none"
        self._open.set()

    # --- what a store does

    def append(self, batch: Sequence[Append]) -> tuple[Fenced | None, ...]:
        """Write records; see `Store.append`."""
        answers: tuple[Fenced | None, ...] = self._write("append", batch)
        return answers

    def take_many(self, wanted: Sequence[TakeOver]) -> tuple[Taken | AgentrailError, ...]:
        """Take many trees, also of a store that takes them one by one; see `ManyTaker.take_many`."""
        answers: tuple[Taken | AgentrailError, ...] = self._write("take_many", wanted)
        return answers

    def __getattr__(self, name: str) -> Any:
        """Give all other calls of a store: those that write with the fault, those that read as they are."""
        if name not in _WRITING:
            return getattr(self.inner, name)

        def write(*args: Any, **options: Any) -> Any:
            return self._write(name, *args, **options)

        return write

    def close(self) -> None:
        """Let go of the store, faults or not."""
        self.inner.close()

    def _write(self, name: str, *args: Any, **options: Any) -> Any:
        self.calls.append(name)
        self._open.wait()
        if self.delay_seconds:
            time.sleep(self.delay_seconds)
        if self._fault == "away":
            raise StoreUnavailable(self._said)
        if self._fault == "bug":
            message = "a bug in the store"
            raise ZeroDivisionError(message)
        call = partial(take_all, self.inner) if name == "take_many" else getattr(self.inner, name)
        value = call(*args, **options)
        if self._fault == "answer_lost":
            message = "the connection was cut"
            raise StoreUnavailable(message)
        return value


_WRITING = frozenset(
    "create take release put_snapshot beat delete trim erase overwrite_removed change_owed".split()  # noqa: SIM905 - as a list it would fill a page
)
