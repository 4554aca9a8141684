"""Stores that fail on request: with a connection that is cut, or hanging, slow, unreachable, crashing."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from agentrail.abc.store import Append, Store, Taken, TakeOver, take_all
from agentrail.errors import AgentrailError, Fenced, JournalBehind, StoreUnavailable

# `CutStore`: a store with a connection that is cut, before a call took effect or after it.

Cut: TypeAlias = Literal["before", "after"]
"""Whether the call is lost, or its answer."""

DecideCut: TypeAlias = Callable[[str], Cut | None]
"""Receives the name of a call, and returns whether it is cut."""


class CutStore:
    """Passes each call on, and raises `StoreUnavailable` on request: the caller cannot tell whether call or answer was lost."""

    def __init__(self, store: Store, decide: DecideCut = lambda _name: None) -> None:
        """Wrap a store.

        Args:
            store: The store.
            decide: Called once for each call except `is_immediate` and `close`. By default, none is cut.
        """
        self._store = store
        self._decide = decide

    def __getattr__(self, name: str) -> Any:
        """Return a member of the store; a call of it may be cut. A store without `take_many` takes the trees one by one."""
        member = None if name == "take_many" else getattr(self._store, name)
        return partial(self._call, name) if member is None or callable(member) else member

    def close(self) -> None:
        """Close the store. Never cut."""
        self._store.close()

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        cut = self._decide(name)
        answer = None if cut == "before" else self._execute(name, *args, **options)
        if cut is None:
            return answer
        message = f"the connection was cut in {name}"
        raise StoreUnavailable(message)

    def _execute(self, name: str, *args: Any, **options: Any) -> Any:
        call = partial(take_all, self._store) if name == "take_many" else getattr(self._store, name)
        return call(*args, **options)


StoreFault: TypeAlias = Literal["none", "hang", "away", "answer_lost", "bug"]


class FaultyStore(CutStore):
    """A store with faults on request. Its sessions treat it as a slow store, whatever the inner store is.

        store = FaultyStore(MemoryStore())
        store.hang()  # every later call waits, in its thread
        store.mend()  # and continues

    Attributes:
        inner: The wrapped store.
        delay_seconds: Additional time of each call that writes.
        calls: Names of the started calls that write, in order.
    """

    is_immediate: bool = False

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.inner: Store = inner
        self.delay_seconds: float = 0.0
        self.calls: list[str] = []
        self._fault: StoreFault = "none"
        self._said = "the disk is full"
        self._open = threading.Event()
        self._open.set()

    # --- faults

    def hang(self) -> None:
        """Make each call that writes wait until `mend`."""
        self._open.clear()

    def go_away(self, said: str = "the disk is full") -> None:
        """Make each call that writes raise `StoreUnavailable` without an effect."""
        self._fault, self._said = "away", said

    def lose_answers(self) -> None:
        """Make each call that writes take effect, and then raise `StoreUnavailable`: its outcome is unknown to the caller."""
        self._fault = "answer_lost"

    def crash(self) -> None:
        """Make each call that writes raise an exception that no store may raise."""
        self._fault = "bug"

    def mend(self) -> None:
        """Remove the fault. Hanging calls continue."""
        self._fault = "none"
        self._open.set()

    # --- operations of the store

    def append(self, batch: Sequence[Append]) -> tuple[Fenced | JournalBehind | None, ...]:
        """Write records; see `Store.append`."""
        answers: tuple[Fenced | JournalBehind | None, ...] = self._call("append", batch)
        return answers

    def take_many(self, wanted: Sequence[TakeOver]) -> tuple[Taken | AgentrailError, ...]:
        """Take many trees, also from a store that takes them one by one; see `ManyTaker.take_many`."""
        answers: tuple[Taken | AgentrailError, ...] = self._call("take_many", wanted)
        return answers

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        if name not in WRITING_CALLS:
            return self._execute(name, *args, **options)
        self.calls.append(name)
        self._open.wait()
        if self.delay_seconds:
            time.sleep(self.delay_seconds)
        if self._fault == "away":
            raise StoreUnavailable(self._said)
        if self._fault == "bug":
            message = "a bug in the store"
            raise ZeroDivisionError(message)
        answer = self._execute(name, *args, **options)
        if self._fault == "answer_lost":
            message = "the connection was cut"
            raise StoreUnavailable(message)
        return answer


WRITING_CALLS: Final = frozenset(
    "append create take take_many claim release put_snapshot beat gone take_allowance delete trim erase overwrite_removed change_owed adopt_owed".split()  # noqa: SIM905 - as a list it would fill a page
)
"""Names of all calls of a store that write."""
