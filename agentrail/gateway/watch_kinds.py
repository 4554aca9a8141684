"""What can be watched over a socket, by name: which scope it needs, and where its rows come from.

A table. A new kind is a new entry here, with a `RowSource` of its own; nothing else of the machinery knows of it:

    WatchKind(name="tree", scope="inspect", open_feed=tree_rows)

    def tree_rows(host: Host, tenant_id: str) -> TakenRows:
        return TakenRows(partial(rows_of_tree, host, tenant_id), every_seconds=1.0)
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import trio
from attrs import field, frozen

from agentrail.host.host import Host
from agentrail.host.inspected_rows import PLUGINS_EVERY_SECONDS
from agentrail.host.row_sources import RowFeed, RowSource, TakenRows
from agentrail.host.session_feed import SessionFeed
from agentrail.wire.inspected_rows import PluginRow


def _itself(feed: Any) -> RowSource:
    assert isinstance(feed, RowSource)  # noqa: S101 - where a kind says nothing, its feed is its source
    return feed


@frozen(kw_only=True)
class WatchKind:
    """One thing that can be watched.

    Attributes:
        name: As `what` of the frame.
        open_feed: Makes what follows it in a tenant; called when the first watcher comes, and run until the last one has left.
        feed: The name of that: kinds of one feed share it.
        source: Gives the rows of a feed; left out where it is one.
        scope: What a token needs. Under `use` a caller is shown their own rows, and with `inspect` besides those of the tenant.
        also: Another scope that is enough; it shows the rows of the tenant too.
    """

    name: str
    open_feed: Callable[[Host, str], RowFeed]
    feed: str = field()
    source: Callable[[Any], RowSource] = _itself
    scope: str = "use"
    also: str | None = None

    @feed.default
    def _own_feed(self) -> str:
        return self.name


def _session_feed(host: Host, tenant_id: str) -> SessionFeed:
    return host.session_feed(tenant_id)


def _plugin_feed(host: Host, tenant_id: str) -> TakenRows:
    async def look() -> Mapping[str, PluginRow]:
        await trio.lowlevel.checkpoint()
        return host.plugin_rows(tenant_id)

    return TakenRows(look, every_seconds=PLUGINS_EVERY_SECONDS)


WATCH_KINDS: Final[Mapping[str, WatchKind]] = {
    kind.name: kind
    for kind in (
        WatchKind(
            name="sessions", open_feed=_session_feed, feed="sessions", source=lambda feed: feed.sessions
        ),
        WatchKind(name="tree", scope="inspect", open_feed=lambda host, tenant_id: host.tree_feed(tenant_id)),
        WatchKind(name="plugins", scope="inspect", open_feed=_plugin_feed),
        WatchKind(
            name="waiting",
            open_feed=_session_feed,
            feed="sessions",
            source=lambda feed: feed.waiting,
            also="decide",
        ),
    )
}
"""All that there are."""
