"""Watches of all sockets: the rows of a tenant are read once, and sent to every socket that watches them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import trio
from attrs import define, field, frozen

from agentrail.gateway.authorization import require_scope
from agentrail.gateway.error_responses import CallRefused, refuse_call
from agentrail.gateway.request_parser import refuse_field
from agentrail.gateway.watch_window import WatchPart, WatchWindow
from agentrail.host.hook_payloads import Principal
from agentrail.host.host import Host
from agentrail.host.row_sources import RowFeed, RowSource, TakenRows
from agentrail.host.tenant_rows import PLUGINS_EVERY_SECONDS
from agentrail.otp.exits import keep
from agentrail.runtime.crashes import log_crash, raise_what_travels
from agentrail.wire.inspection_rows import PluginRow
from agentrail.wire.rows import RowFilter

# Kinds of watched rows, by name: the required scope and the source of rows.


def _itself(feed: Any) -> RowSource:
    assert isinstance(feed, RowSource)  # noqa: S101 - without a `source`, the feed itself is the source
    return feed


@frozen(kw_only=True)
class WatchKind:
    name: str
    open_feed: Callable[[Host, str], RowFeed]
    feed: str = field()
    source: Callable[[Any], RowSource] = _itself
    scope: str = "use"
    also: str | None = None

    @feed.default
    def _own_feed(self) -> str:
        return self.name


def _plugin_feed(host: Host, tenant_id: str) -> TakenRows:
    async def look() -> Mapping[str, PluginRow]:
        await trio.lowlevel.checkpoint()
        return host.plugin_rows(tenant_id)

    return TakenRows(look, every_seconds=PLUGINS_EVERY_SECONDS)


WATCH_KINDS: Final[Mapping[str, WatchKind]] = {
    kind.name: kind
    for kind in (
        WatchKind(name="sessions", open_feed=Host.session_feed, source=lambda feed: feed.sessions),
        WatchKind(name="tree", scope="inspect", open_feed=Host.tree_feed),
        WatchKind(name="plugins", scope="inspect", open_feed=_plugin_feed),
        WatchKind(
            name="waiting",
            open_feed=Host.session_feed,
            feed="sessions",
            source=lambda feed: feed.waiting,
            also="decide",
        ),
    )
}
"""All kinds of watches."""


ROUND_SECONDS: Final = 0.25
"""Minimum interval between two updates of a watcher. Changes in between are merged."""

ROWS_A_TURN: Final = 500
"""Rows examined before other tasks run."""

TellPart: TypeAlias = Callable[[WatchPart], Awaitable[None]]
"""Queues the contents of a frame."""

WaitRoom: TypeAlias = Callable[[], Awaitable[None]]
"""Waits until there is room for a frame."""


@define(eq=False)
class _Followed:
    """A followed feed with the number of its watchers."""

    feed: RowFeed
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    up: trio.Event = field(factory=trio.Event)
    watchers: int = 0
    over: str = ""
    """Code with which its watchers end; empty while it continues."""

    def check(self) -> None:
        """Raise if the feed has ended."""
        if self.over:
            refuse_call(self.over, "the watched rows are no longer available: watch them again")


class Watches:
    """All watches of a process. Created by `open_watches`."""

    def __init__(
        self, host: Host, nursery: trio.Nursery, *, kinds: Mapping[str, WatchKind], has_inspector: bool
    ) -> None:
        self._host = host
        self._nursery = nursery
        self._kinds = {name: kind for name, kind in kinds.items() if has_inspector or kind.scope != "inspect"}
        self._has_inspector = has_inspector
        self._followed: dict[tuple[str, str], _Followed] = {}

    @property
    def open_feeds(self) -> int:
        return len(self._followed)

    def kind_of(self, what: str, principal: Principal) -> WatchKind:
        kind = self._kinds.get(what)
        if kind is None:
            refuse_field("what", f"is {what!r:.40}: expected one of {', '.join(self._kinds)}")
        refused = require_scope(principal, kind.scope, kind.also)
        if refused is not None:
            raise CallRefused(refused)
        return kind

    async def watch(  # noqa: PLR0913 - the settings of one watch
        self,
        kind: WatchKind,
        wanted: RowFilter,
        principal: Principal,
        *,
        wait_room: WaitRoom,
        begin: TellPart,
        tell: TellPart,
    ) -> None:
        """Report the current rows, and then changes, until cancelled."""
        is_for_all = (
            kind.scope == "inspect"
            or (self._has_inspector and "inspect" in principal.scopes)
            or (kind.also is not None and kind.also in principal.scopes)
        )
        async with self._following(kind, principal.tenant_id) as followed:
            source = kind.source(followed.feed)
            look = _Look(source, wanted, user_id=None if is_for_all else principal.user_id)
            await look.at_all()
            await wait_room()
            part = look.next_part()
            await begin(part or WatchPart(rows=(), gone=(), total=look.window.total))
            while True:
                while look.window.has_more:
                    await wait_room()
                    await look.at_changes()  # the current state, not that of the time without room
                    part = look.next_part()
                    if part is not None:
                        await tell(part)
                await trio.sleep(ROUND_SECONDS)
                await source.wait_newer(look.version)
                followed.check()
                await look.at_changes()

    @asynccontextmanager
    async def _following(self, kind: WatchKind, tenant_id: str) -> AsyncIterator[_Followed]:
        key = kind.feed, tenant_id
        followed = self._followed.get(key)
        if followed is None:
            followed = self._followed[key] = _Followed(kind.open_feed(self._host, tenant_id))
            self._nursery.start_soon(self._follow, key, followed, kind, name=f"rows of {kind.feed}")
        followed.watchers += 1
        try:
            await followed.up.wait()
            followed.check()
            yield followed
        finally:
            followed.watchers -= 1
            if not followed.watchers:
                followed.scope.cancel(reason="there are no watchers any more")
                self._drop(key, followed)

    async def _follow(self, key: tuple[str, str], followed: _Followed, kind: WatchKind) -> None:
        try:
            with followed.scope:
                await followed.feed.run(followed.up)
            followed.over = "draining"
        except BaseException as raised:  # noqa: ASYNC103, BLE001 - cancellation is raised again
            followed.over = "internal"
            raise_what_travels(raised)
            log_crash(f"watched rows of {kind.feed!r} cannot be followed", raised, keep)
        finally:
            self._drop(key, followed)
            followed.up.set()
            for one in self._kinds.values():
                if one.feed == kind.feed:
                    one.source(followed.feed).log.wake()

    def _drop(self, key: tuple[str, str], followed: _Followed) -> None:
        if self._followed.get(key) is followed:
            del self._followed[key]


class _Look:
    """Progress of one watcher in a source."""

    def __init__(self, source: RowSource, wanted: RowFilter, *, user_id: str | None) -> None:
        self._source = source
        self._wanted = wanted
        self._user_id = user_id
        self.window: WatchWindow = WatchWindow(wanted)
        self.version = 0

    async def at_all(self) -> None:
        await self._source.settle()
        self.version = self._source.log.version
        self.window.begin_anew()
        for place, key in enumerate(self._source.keys(), 1):
            self.window.note(key, is_wanted=self._is_wanted(key))
            if place % ROWS_A_TURN == 0:
                await trio.lowlevel.checkpoint()
        self.window.close_gaps()

    async def at_changes(self) -> None:
        await self._source.settle()
        changed = self._source.log.since(self.version)
        if changed is None:
            await self.at_all()
            return
        self.version = self._source.log.version
        for key in reversed(changed):
            self.window.note(key, is_wanted=self._is_wanted(key))
        self.window.close_gaps()

    def next_part(self) -> WatchPart | None:
        return self.window.next_part(self.written)

    def written(self, key: str) -> bytes | None:
        """Return a row in its current state if this watcher may still see it."""
        return self._source.written(key) if self._is_wanted(key) else None

    def _is_wanted(self, key: str) -> bool:
        row = self._source.row(key)
        if row is None or (self._user_id is not None and not self._source.is_of(key, self._user_id)):
            return False
        return self._source.fits(row, self._wanted)


@asynccontextmanager
async def open_watches(host: Host, *, has_inspector: bool) -> AsyncIterator[Watches]:
    async with trio.open_nursery() as nursery:
        yield Watches(host, nursery, kinds=WATCH_KINDS, has_inspector=has_inspector)
        nursery.cancel_scope.cancel(reason="there are no watches any more")
