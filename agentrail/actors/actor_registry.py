"""Names and groups for actors. A lookup never returns an actor that is known to be dead."""

import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias

import trio
from attrs import frozen

from agentrail.actors.actor_handle import ActorHandle, cell_of, current_cell
from agentrail.actors.address import Address, Lookup, OnChange, Wait, forget_waiter, is_open, wait_for_end
from agentrail.actors.dead_letters import LOGGER
from agentrail.actors.keyed_locks import KeyedLocks
from agentrail.actors.message_origins import PASSIVATED
from agentrail.actors.supervisor_loop import ANY_CHILD, Core
from agentrail.errors import ActorDown, AlreadyRegistered, InvalidSpec, NotOwner, RegistryClosed
from agentrail.otp.child_specs import check_listener
from agentrail.otp.exits import ExitReason, Normal, check_reason
from agentrail.otp.guarded_calls import call_guarded, is_async, show
from agentrail.otp.tracebacks import print_exception

Activate: TypeAlias = Callable[[], Awaitable[object]]

_SLACK: Final = 32
_MAX_CHAIN: Final = 1_000


@frozen
class Entry:
    """One holder of a key.

    Attributes:
        handle: The actor.
        value: The value registered with it.
    """

    handle: ActorHandle
    value: object = None


@frozen
class Registered:
    """Change: an actor registered a key.

    Attributes:
        key: The key.
        handle: The actor.
        value: The value registered with it.
    """

    key: Hashable
    handle: ActorHandle
    value: object = None


@frozen
class Unregistered:
    """Change: an actor gave up a key, or its holder has ended.

    Attributes:
        key: The key.
        handle: The former holder.
        value: The last value registered with it.
    """

    key: Hashable
    handle: ActorHandle
    value: object = None


RegistryEvent: TypeAlias = Registered | Unregistered
Listener: TypeAlias = Callable[[RegistryEvent], None]
Follower: TypeAlias = Callable[[RegistryEvent | None], None]


@frozen
class Name:
    """A key of one registry, for `Start.with_options(name=…)`.

    Attributes:
        registry: The registry.
        key: The key.
    """

    registry: "Registry"
    key: Hashable

    def register(self, handle: ActorHandle) -> None:
        """Register this actor under the name.

        Raises:
            AlreadyRegistered: A living actor has it.
            RegistryClosed: Your move: the registry is closed.
        """
        self.registry.register(self.key, handle)


@frozen
class _Last:
    """The last holder of a key, as a child that its supervisor may restart. Nothing of the instance is kept."""

    core: "weakref.ref[Core]"
    number: int

    @property
    def coming(self) -> Wait | None:
        core = self.core()
        return core.wait_for_child(ANY_CHILD) if core and core.comes_back(self.number) else None


class Registry:
    """A registry of keys and their holders: `unique` (one per key) or `duplicate` (a group per key).

    Use it as a context manager, which closes it at the end, or run `registry.serve` as a child.
    """

    def __init__(self, *, keys: Literal["unique", "duplicate"] = "unique") -> None:
        """Create an empty registry.

        Raises:
            ValueError: Your move: `keys` is neither.
        """
        if keys not in ("unique", "duplicate"):
            message = f"keys is {show(keys)}: expected 'unique' or 'duplicate'"
            raise ValueError(message)
        self._is_unique: Final = keys == "unique"
        self._entries: dict[Hashable, dict[ActorHandle, Entry]] = {}
        self._keys: dict[ActorHandle, dict[Hashable, None]] = {}
        self._last: dict[Hashable, _Last] = {}
        self._last_bound = _SLACK
        self._listeners: list[Listener] = []
        self._followers: dict[Hashable, dict[object, Follower]] = {}
        self._news: deque[tuple[RegistryEvent | None, tuple[Callable[[Any], None], ...], int]] = deque()
        self._telling: int | None = (
            None  # length of the chain of changes that led to the current notification
        )
        self._locks = KeyedLocks()
        self._waiters: dict[Hashable, dict[object, OnChange]] = {}
        # Whether an actor was registered and passivated again before the activation was over.
        self._activating: dict[Hashable, bool] = {}
        self._closed = False
        self._held = 0
        self._unclean: list[ActorHandle] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def serve(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the registry open until cancelled, as a child of a supervisor.

        A restart opens it again, empty: listeners, names and addresses remain, and all keys are removed. So start it before
        the holders of its keys, with the strategy `rest_for_one` or `one_for_all`, which then restarts them too.

        Cancellation: Closes it.
        """
        self._closed = False
        with self:
            task_status.started(self)
            await trio.sleep_forever()

    # --- holding keys

    def register(self, key: Hashable, handle: ActorHandle, value: object = None) -> None:
        """Register an actor under a key until the actor ends or gives the key up.

        Raises:
            AlreadyRegistered: Your move: a living actor holds this unique key. `handle` is its handle.
            ActorDown: The actor has ended.
            RegistryClosed: Your move: use another registry.
        """
        self._check_open(key)
        cell = cell_of(handle)
        if cell.exit_reason is not None:
            message = f"{handle!r} has ended and cannot hold a key"
            raise ActorDown(message, handle=handle, reason=cell.exit_reason)
        entries = self._entries.get(key, {})
        for holder in tuple(entries) if self._is_unique else (handle,) * (handle in entries):
            if holder.exit_reason is None:
                message = f"key {show(key)} is held by {holder!r}: unregister it first, or use its `handle`"
                raise AlreadyRegistered(message, handle=holder)
            self._remove(key, holder)
        self._entries.setdefault(key, {})[handle] = Entry(handle, value)
        own = self._keys.setdefault(handle, {})
        if not own:
            cell.on_release(self, lambda: self._on_end(handle))
        own[key] = None
        if isinstance(cell.owner, Core) and cell.token is not None:
            self._last[key] = _Last(weakref.ref(cell.owner), cell.token.child)
            if len(self._last) > self._last_bound:
                self._last = {
                    key: last for key, last in self._last.items() if key in self._entries or last.coming
                }
                self._last_bound = 2 * len(self._last) + _SLACK
        self._tell(Registered(key, handle, value))
        self._look(key)

    def unregister(self, key: Hashable, handle: ActorHandle) -> None:
        """Remove a key from an actor. Harmless if the actor does not hold it.

        Raises:
            RegistryClosed: Your move: all keys are already removed.
        """
        self._check_open(key)
        if self._remove(key, handle):
            self._last.pop(key, None)

    def lookup(self, key: Hashable) -> ActorHandle | None:
        """Return the living holder of a key. For duplicates the one that registered first.

        Raises:
            RegistryClosed: Your move: use another registry.
        """
        self._check_open(key)
        return next((one for one in self._entries.get(key, ()) if one.exit_reason is None), None)

    def members(self, key: Hashable) -> tuple[Entry, ...]:
        """Return all living holders of a key, in the order of their registration.

        Raises:
            RegistryClosed: Your move: use another registry.
        """
        self._check_open(key)
        return tuple(
            entry for entry in self._entries.get(key, {}).values() if entry.handle.exit_reason is None
        )

    def keys_of(self, handle: ActorHandle) -> tuple[Hashable, ...]:
        """Return the keys that a living actor holds.

        Raises:
            TypeError: Your move: this is not the handle of an actor.
            RegistryClosed: Your move: use another registry.
        """
        self._check_open(handle)
        return tuple(self._keys.get(handle, ())) if cell_of(handle).exit_reason is None else ()

    def update_value(self, key: Hashable, value: object) -> None:
        """Change the value registered with a key. Only the actor that holds the key may call this.

        Raises:
            NotOwner: Your move: the running code belongs to another actor, or to none.
            RegistryClosed: Your move: use another registry.
        """
        self._check_open(key)
        cell = current_cell()
        entries = self._entries.get(key, {})
        if cell is None or cell.handle not in entries:
            message = f"the value of key {show(key)} belongs to its owner: only that actor can change it"
            raise NotOwner(message)
        entries[cell.handle] = Entry(cell.handle, value)

    @asynccontextmanager
    async def _lock(self, key: Hashable) -> AsyncIterator[None]:
        self._check_open(key)
        async with self._locks.hold(key):
            yield

    def lock(self, key: Hashable) -> AbstractAsyncContextManager[None]:
        """Return a lock for this key. It is fair, and is released however the block ends.

        Cancellation: Entering is a checkpoint. If cancelled there, the lock is not held.
        """
        return self._lock(key)

    # --- listeners

    def add_listener(self, listener: Listener) -> None:
        """Call `listener` once for each change, in order. A listener that raises is logged and stays registered.

        A change made by a listener is reported after the current one.

        Raises:
            InvalidSpec: Your move: an async function, or no function.
            RegistryClosed: Your move: use another registry.
        """
        self._check_open(listener)
        check_listener("listener", listener)
        self._listeners.append(listener)

    @property
    def is_unique(self) -> bool:
        """Whether a key has at most one holder."""
        return self._is_unique

    def follow(self, key: Hashable, who: object, follower: Follower | None) -> None:
        """Call `follower` for each change of this key, and with `None` when the registry is closed. See `watch`.

        Args:
            key: The key.
            who: Identifies the follower, once for each key.
            follower: The callback. `None` removes it.

        Raises:
            RegistryClosed: Your move: use another registry.
        """
        if follower is not None:
            self._check_open(key)
            self._followers.setdefault(key, {})[who] = follower
            return
        forget_waiter(self._followers, key, who)

    def name(self, key: Hashable) -> Name:
        """Return a key as a name, for `Start.with_options` and `open_supervisor`."""
        self._check_open(key)
        return Name(self, key)

    def close(self, reason: ExitReason = Normal()) -> None:  # noqa: B008 - frozen
        """Remove all names. For a reason other than `Normal`, their holders get an exit signal. Idempotent.

        Raises:
            TypeError: Your move: `reason` is not an exit reason.
        """
        check_reason(reason)
        if self._closed:
            return
        holders = [handle for handle in self._keys if handle.exit_reason is None]
        for key, entries in tuple(self._entries.items()):
            for handle in tuple(entries):
                self._remove(key, handle)
        self._closed = True
        self._last.clear()
        for followers in tuple(self._followers.values()):
            self._tell_all(None, tuple(followers.values()))
        for key in tuple(self._waiters):
            self._look(key)
        if not isinstance(reason, Normal):
            for handle in holders:
                handle.exit(reason)

    # --- addresses

    def address(self, key: Hashable, *, activate: Activate | None = None, hold_limit: int = 100) -> Address:
        """Return an address of the holder of this unique key.

        Args:
            key: The key.
            activate: Async function that starts an actor for the key if no actor holds it and no restart is expected. Returns
                when the new actor has registered. Only one activation per key runs at a time.
            hold_limit: How many messages are held meanwhile.

        Raises:
            InvalidSpec: Your move: a limit below 1, or an `activate` that is not async.
            RegistryClosed: Your move: use another registry.
        """
        self._check_open(key)
        if activate is not None and not is_async(activate):
            message = f"activate is {show(activate)}: expected an async function (`async def`), or None"
            raise InvalidSpec(message, code="invalid_start", field="activate")
        address: list[Address] = []

        def find() -> Lookup:
            return self._find(key, activate, address[0])

        address.append(Address(show(key), find, hold_limit))
        return address[0]

    def _find(self, key: Hashable, activate: Activate | None, address: Address) -> Lookup:
        if self._closed:
            return None
        for handle in self._entries.get(key, {}):
            cell = cell_of(handle)
            if cell.exit_reason is None:
                return cell if is_open(cell) else wait_for_end(cell)
        here = Wait(
            lambda waiter, look: self._waiters.setdefault(key, {}).update({waiter: look}),
            partial(forget_waiter, self._waiters, key),
        )
        if key in self._activating:
            return here
        if (coming := self._coming(key)) is not None:
            return coming
        if activate is None:
            return None
        # A system task rather than an actor: a cast has no task to wait in, and the started actor has an owner of its own.
        trio.lowlevel.spawn_system_task(self._activate, key, activate, address, name=f"activate {show(key)}")
        self._activating[key] = False  # after it: it raises in a thread that is not Trio's
        return here

    def _coming(self, key: Hashable) -> Wait | None:
        last = self._last.get(key)
        return None if last is None else last.coming

    async def _activate(self, key: Hashable, activate: Activate, address: Address) -> None:
        has_failed = True
        try:
            await activate()
            has_failed = False
        except trio.Cancelled:  # the run has ended: no actor receives anything any more
            raise
        except BaseException as error:  # noqa: BLE001, ASYNC103 - user code: an exception that leaves a system task ends the run
            LOGGER.error("starting the holder of the key %r failed", key, exception=print_exception(error))
        finally:
            is_gone_again = self._activating.pop(key, False)
        is_there = not self._closed and (self.lookup(key) or self._coming(key)) is not None
        if has_failed or not (is_gone_again or is_there):
            address.give_up()
        self._look(key)  # messages handed back by a passivated actor start it again

    def _look(self, key: Hashable) -> None:
        for look in tuple(self._waiters.pop(key, {}).values()):
            look()

    # --- clean-up

    def hold(self) -> None:
        """Suspend clean-up until `release` was called as often."""
        self._held += 1

    def release(self) -> None:
        """Undo one `hold`."""
        self._held -= 1
        while not self._held and self._unclean:
            self._clean_up(self._unclean.pop(0))

    def _on_end(self, handle: ActorHandle) -> None:
        if handle.exit_reason == PASSIVATED:
            for key in self._keys.get(handle, {}):
                if key in self._activating:
                    self._activating[key] = True
        if self._held:
            self._unclean.append(handle)
        else:
            self._clean_up(handle)

    def _clean_up(self, handle: ActorHandle) -> None:
        for key in tuple(self._keys.get(handle, ())):
            self._remove(key, handle)

    def _remove(self, key: Hashable, handle: ActorHandle) -> bool:
        entries = self._entries.get(key, {})
        entry = entries.pop(handle, None)
        if entry is None:
            return False
        if not entries:
            del self._entries[key]
        own = self._keys.get(handle, {})
        own.pop(key, None)
        if not own:
            self._keys.pop(handle, None)
            cell_of(handle).on_release(self, None)
        self._tell(Unregistered(key, handle, entry.value))
        return True

    def _tell(self, event: RegistryEvent) -> None:
        followers = self._followers.get(event.key)
        hearers: tuple[Callable[[Any], None], ...] = tuple(self._listeners)
        self._tell_all(event, hearers if followers is None else (*hearers, *followers.values()))

    def _tell_all(self, event: RegistryEvent | None, hearers: tuple[Callable[[Any], None], ...]) -> None:
        if not hearers:
            return
        chain = 0 if self._telling is None else self._telling + 1
        if chain > _MAX_CHAIN:
            LOGGER.error(
                "registry listeners changed the registry in response to each change, %d times in a row; further notifications were skipped",
                chain,
            )
            return
        self._news.append((event, hearers, chain))
        if self._telling is not None:  # a listener made this change: it is delivered after the current one
            return
        try:
            while self._news:
                news, listeners, self._telling = self._news.popleft()
                for listener in listeners:
                    call_guarded(_log_listener, listener, news)
        finally:
            self._telling = None

    def _check_open(self, *keys: Hashable) -> None:
        if self._closed:
            asked = f", {show(keys[0])} too" if keys else ""
            message = f"the registry is closed and its names no longer exist{asked}; create another registry"
            raise RegistryClosed(message)


def _log_listener(error: BaseException) -> None:
    LOGGER.error(
        "a registry listener raised; the other listeners were notified",
        exception=print_exception(error),
    )
