"""Follow one child or one name across all its instances: up, down with the reason, up again, and finally gone."""

from collections.abc import AsyncIterator, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Self, TypeAlias, overload

import trio
from attrs import frozen

from agentrail.actors.actor_handle import ActorHandle, cell_of
from agentrail.actors.actor_registry import Registered, Registry, RegistryEvent
from agentrail.actors.reply_slots import down
from agentrail.actors.supervisor_handle import Supervisor
from agentrail.actors.supervisor_loop import Core, SupervisorCell
from agentrail.errors import InvalidSpec, WatcherTooSlow
from agentrail.otp.exits import ExitReason, NoProcess
from agentrail.otp.guarded_calls import show
from agentrail.otp.statem_types import check_bound
from agentrail.otp.supervision import no_child, wrong_key

_NOBODY: Final = NoProcess()


@frozen
class ChildUp:
    """Event: the first instance seen by this watcher is up, even if it was up before the watch started.

    Attributes:
        handle: Handle of the instance.
    """

    handle: ActorHandle


@frozen
class ChildDown:
    """Event: an instance has ended.

    Attributes:
        handle: Handle of the instance.
        reason: Exit reason. For a name `NoProcess()`, if its holder gave it up and still lives.
        comes_back: Whether its supervisor will restart it, as currently planned. `False`: only a call or a restart of its
            group starts it. `None` for a name, which any actor may register.
    """

    handle: ActorHandle
    reason: ExitReason
    comes_back: bool | None


@frozen
class ChildRestarted:
    """Event: another instance is up. Always follows a `ChildDown`.

    Attributes:
        handle: Handle of the new instance.
    """

    handle: ActorHandle


@frozen
class ChildGone:
    """Event: there will be no further instance. This is the last event.

    Attributes:
        reason: The exit reason of its supervisor if that has ended, otherwise of its last instance (`NoProcess()` if none was
            seen). For a name: `NoProcess()`, its registry was closed.
    """

    reason: ExitReason


ChildEvent: TypeAlias = ChildUp | ChildDown | ChildRestarted | ChildGone
"""A closed union: code that matches on it ends with `assert_never`."""


# --- events from observations


@frozen(kw_only=True)
class LastTold:
    handle: ActorHandle | None = None
    is_up: bool = False
    reason: ExitReason | None = None


@frozen(kw_only=True)
class Glimpse:
    handle: ActorHandle | None = None
    comes_back: bool | None = False
    gone: ExitReason | None = None
    is_gone: bool = False


def decide_news(seen: LastTold, now: Glimpse) -> tuple[LastTold, tuple[ChildEvent, ...]]:
    """Return the events for a watcher: each reported instance goes down before another one comes up."""
    news: list[ChildEvent] = []
    if seen.is_up and seen.handle is not None and now.handle is not seen.handle:
        reason = seen.handle.exit_reason or _NOBODY
        news.append(ChildDown(seen.handle, reason, True if now.handle is not None else now.comes_back))
        seen = LastTold(handle=seen.handle, reason=reason)
    if now.handle is not None and not seen.is_up:
        news.append(ChildUp(now.handle) if seen.handle is None else ChildRestarted(now.handle))
        seen = LastTold(handle=now.handle, is_up=True)
    if now.is_gone:
        news.append(ChildGone(now.gone or seen.reason or _NOBODY))
    return seen, tuple(news)


# --- the watcher


class _Recorder:
    def __init__(self, what: str, max_events: int) -> None:
        self.what = what
        self.max_events = max_events
        self.is_too_slow: bool = False
        self.send: trio.MemorySendChannel[ChildEvent]
        self.receive: trio.MemoryReceiveChannel[ChildEvent]
        self.send, self.receive = trio.open_memory_channel[ChildEvent](max_events)
        self._seen = LastTold()
        self._is_over = False

    def see(self, now: Glimpse) -> bool:
        if self._is_over:
            return False
        self._seen, news = decide_news(self._seen, now)
        for event in news:
            try:
                self.send.send_nowait(event)
            except trio.WouldBlock:
                self.is_too_slow = True
                self.end()
                return False
        if now.is_gone:
            self.end()
        return not now.is_gone

    def end(self) -> None:
        self._is_over = True
        self.send.close()


class Watching:
    """The events of one child, oldest first: `async for event in watching`. Ends after `ChildGone`, or with its block.

    Created by `watch`.
    """

    __slots__ = ("__weakref__", "_recorder")

    def __init__(self, recorder: _Recorder) -> None:
        """Created by `watch`."""
        self._recorder = recorder

    def __repr__(self) -> str:
        return f"<Watching {self._recorder.what}>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChildEvent:
        """Wait for the next event.

        Raises:
            WatcherTooSlow: Your move: the buffer overflowed. Raised after all buffered events.

        Cancellation: Always a checkpoint. If cancelled, no event was taken.
        """
        recorder = self._recorder
        try:
            return await recorder.receive.receive()
        except trio.EndOfChannel:
            if not recorder.is_too_slow:
                raise StopAsyncIteration from None
            message = f"{recorder.what} published events faster than its watcher read them: {recorder.max_events} events were delivered, later ones were lost. Watch it again, and read faster or raise max_events"
            raise WatcherTooSlow(message) from None


class _OfChild:
    def __init__(self, core: Core, number: int, recorder: _Recorder) -> None:
        self._core = core
        self._number = number
        self._recorder = recorder
        self._instance: ActorHandle | None = None

    def open(self) -> None:
        self._core.cell.watch(self, self._on_supervisor_end)
        self._look()

    def close(self) -> None:
        self._core.cell.unwatch(self)
        self._core.observe(self._number, self, None)
        if self._instance is not None:
            cell_of(self._instance).unwatch(self)

    def _look(self) -> None:
        core = self._core
        child = core.state.children.get(self._number)
        if child is None:
            self._recorder.see(Glimpse(is_gone=True))
            self.close()
            return
        handle = child.handle if child.has_process and isinstance(child.handle, ActorHandle) else None
        if not self._recorder.see(Glimpse(handle=handle, comes_back=core.comes_back(self._number))):
            self.close()
            return
        # While an instance lives, only its end can happen, so the observer does not run after each step of the supervisor.
        if handle is None or handle.exit_reason is not None:
            core.observe(self._number, self, self._look)
            return
        core.observe(self._number, self, None)
        self._instance = handle
        cell_of(handle).watch(self, self._on_end)

    def _on_end(self, _: ExitReason) -> None:
        # The supervisor has not decided yet whether to restart it.
        self._core.observe(self._number, self, self._look)

    def _on_supervisor_end(self, reason: ExitReason) -> None:
        self._recorder.see(Glimpse(gone=reason, is_gone=True))
        self.close()


class _OfName:
    def __init__(self, registry: Registry, key: Hashable, recorder: _Recorder) -> None:
        self._registry = registry
        self._key = key
        self._recorder = recorder

    def open(self) -> None:
        self._registry.follow(self._key, self, self._hear)
        self._recorder.see(Glimpse(handle=self._registry.lookup(self._key), comes_back=None))

    def close(self) -> None:
        self._registry.follow(self._key, self, None)

    def _hear(self, event: RegistryEvent | None) -> None:
        handle = event.handle if isinstance(event, Registered) else None
        if not self._recorder.see(Glimpse(handle=handle, comes_back=None, is_gone=event is None)):
            self.close()


@overload
def watch(
    where: Supervisor, child: Hashable | ActorHandle, *, max_events: int = ...
) -> AbstractAsyncContextManager[Watching]: ...


@overload
def watch(
    where: Registry, child: Hashable, *, max_events: int = ...
) -> AbstractAsyncContextManager[Watching]: ...


def watch(
    where: Supervisor | Registry, child: Hashable | ActorHandle, *, max_events: int = 1_000
) -> AbstractAsyncContextManager[Watching]:
    """Follow a child of a supervisor, or the holder of a key of a registry, across all its instances.

    For a child: `ChildUp`, then alternating `ChildDown` and `ChildRestarted`. `ChildGone` follows when its spec is removed (a
    temporary child or an instance ended for good, `delete_child`) or its supervisor has ended. A child without a process
    whose spec stays is not gone: a call or its group may start it again.

    For a name: an actor that registers is up. One that ends or unregisters is down. The name is gone when the
    registry is closed.

    Args:
        where: The supervisor, or a registry of unique keys.
        child: Id of the child; for a dynamic supervisor the handle of its current instance; for a registry the key.
        max_events: Size of the buffer for unread events. On overflow, the watch raises `WatcherTooSlow` after the buffered
            events.

    Raises:
        ChildNotFound: Your move: on entering. No such child.
        WrongChildKey: Your move: on entering. Children of a dynamic supervisor are identified by their handles.
        ActorDown: On entering. The supervisor has ended.
        RegistryClosed: Your move: on entering. Use another registry.
        InvalidSpec: Your move: `max_events` is not an integer >= 1, or the registry has duplicate keys.

    Cancellation: Entering is a checkpoint. Nothing is recorded after the end of the block.
    """
    check_bound("max_events", max_events)
    return _watch(where, child, max_events)


@asynccontextmanager
async def _watch(
    where: Supervisor | Registry, child: Hashable | ActorHandle, max_events: int
) -> AsyncIterator[Watching]:
    await trio.lowlevel.checkpoint()
    recorder = _Recorder(f"child {show(child)}", max_events)
    if isinstance(where, Registry):
        if not where.is_unique:
            message = f"the keys of this registry are 'duplicate', and {show(child)} may have many holders: use monitor"
            raise InvalidSpec(message, code="invalid_watch", field="where")
        eye: _OfChild | _OfName = _OfName(where, child, recorder)
    else:
        cell = cell_of(where)
        core = cell.core if isinstance(cell, SupervisorCell) else None
        if core is None or where.exit_reason is not None:
            raise down(where)
        eye = _OfChild(core, _number_of(core, child), recorder)
    eye.open()
    try:
        yield Watching(recorder)
    finally:
        eye.close()
        recorder.end()


def _number_of(core: Core, child: Hashable | ActorHandle) -> int:
    state = core.state
    if isinstance(child, ActorHandle):
        number = state.handles.get(child)
    elif state.flags.strategy == "dynamic":
        raise wrong_key(child)
    else:
        number = state.numbers.get(child)
    if number is None:
        raise no_child(core.cell.id, child)
    return number
