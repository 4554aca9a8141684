"""Rows of a tenant's supervision tree and plugins, and feeds of them."""

from collections.abc import Container, Hashable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import trio
from attrs import frozen
from msgspec.structs import replace

from agentrail.actors.tree_report import TreeNode
from agentrail.host.plugin_chain import HookRunner, PluginOrder
from agentrail.host.row_sources import TakenRows
from agentrail.runtime.health import PluginUse
from agentrail.runtime.hook_times import PluginTally
from agentrail.runtime.session_clock import ms_of
from agentrail.runtime.session_reports import SessionReport
from agentrail.runtime.session_rows import first_words_of, title_of
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.runtime.tool_sources import SOURCE_FLAGS, RunningSource, SourceId
from agentrail.structs import picked_fields
from agentrail.wire.inspection_rows import (
    ExitNote,
    HookRow,
    Intensity,
    PluginRow,
    TreeRow,
)

LOOK_EVERY_SECONDS: Final = 0.5
"""Interval between looks at a watched tree, in seconds. A restart is noticed at once."""

PLUGINS_EVERY_SECONDS: Final = 1.0
"""Interval between looks at watched plugins, in seconds."""


@frozen
class About:
    """Topic of a session.

    Attributes:
        title: Its model's latest title for the conversation. None if there is none.
        first_words: First message to it, or the task of a child. None if unknown.
    """

    title: str | None = None
    first_words: str | None = None


Abouts: TypeAlias = Mapping[str, About]
"""Topics of sessions, by id."""

_NO_ABOUTS: Final[Abouts] = {}
_NOT_KNOWN: Final = About()


# --- the tree


def abouts_of(
    supervisor: SessionSupervisor, tenant_id: str, wanted: Container[str] | None = None
) -> dict[str, About]:
    sessions = list(supervisor.sessions(scope=tenant_id))
    for report in supervisor.parked_sessions(scope=tenant_id):
        words = supervisor.last_words(report.session_id, scope=tenant_id)
        if words is not None and words.session is not None:
            # Inserted first: if the id is in use again, the live session wins.
            sessions.insert(0, words.session)
    return {
        str(one.session_id): About(title_of(one), first_words_of(one))
        for one in sessions
        if wanted is None or one.session_id in wanted
    }


def tree_rows(
    root: TreeNode,
    parked: tuple[SessionReport, ...],
    tenant_id: str,
    abouts: Abouts = _NO_ABOUTS,
    sources: Iterable[tuple[str, RunningSource]] = (),
) -> dict[str, TreeRow]:
    rows = {row.key: row for row in _rows_below(root, None, tenant_id, abouts)}
    there = {row.session_id for row in rows.values()}
    for report in parked:
        if str(report.session_id) not in there:  # otherwise it came back
            row = _row_of_parked(report, root.key, abouts)
            rows.pop(row.key, None)
            rows[row.key] = row
    keys = {row.session_id: row.key for row in rows.values() if row.session_id is not None}
    for session_id, one in sources:
        if one.given_up_at_ms is not None:
            parent, name = keys.get(session_id, root.key), plain_id(one.child_id, tenant_id)
            row = TreeRow(
                key=f"parked:{parent}:{name}",
                parent=parent,
                name=name,
                kind="source",
                status="parked",
                incarnation=0,
                restarts=SOURCE_FLAGS.intensity,
                exits=(ExitNote(reason=one.source.reason or "", at_ms=one.given_up_at_ms or 0),),
            )
            rows[row.key] = row
    return rows


def _rows_below(node: TreeNode, parent: str | None, tenant_id: str, abouts: Abouts) -> Iterator[TreeRow]:
    yield row_of_node(node, parent, tenant_id, abouts)
    for child in node.children:
        yield from _rows_below(child, node.key, tenant_id, abouts)


def row_of_node(node: TreeNode, parent: str | None, tenant_id: str, abouts: Abouts = _NO_ABOUTS) -> TreeRow:
    """Return the row of a node without its children. Needs Trio for its clock."""
    name = plain_id(node.id, tenant_id)
    is_session = node.phase is not None
    kind = (
        "session"
        if is_session
        else "source"
        if isinstance(node.id, SourceId)
        else "supervisor"
        if node.kind == "supervisor"
        else "actor"
    )
    about = abouts.get(name, _NOT_KNOWN) if is_session else _NOT_KNOWN
    budget = node.budget
    return TreeRow(
        **picked_fields(node, "key", "status", "phase", "incarnation", "restarts", "mailbox", "strategy"),
        parent=parent,
        name=name,
        kind=kind,
        session_id=name if is_session else None,
        title=about.title,
        first_words=about.first_words,
        up_at_ms=None if node.up_at_seconds is None else ms_of(node.up_at_seconds),
        intensity=None
        if budget is None
        else Intensity(used=budget.used, allowed=budget.allowed, within_ms=int(budget.within_seconds * 1000)),
        exits=tuple([ExitNote(reason=one.reason, at_ms=ms_of(one.at_seconds)) for one in node.exits]),
        stuck=node.status == "stuck",
    )


def plain_id(key: Hashable, tenant_id: str) -> str:
    return str(key).removeprefix(f"{tenant_id}/")


def _row_of_parked(report: SessionReport, root_key: str, abouts: Abouts) -> TreeRow:
    name = str(report.session_id)
    about = abouts.get(name, _NOT_KNOWN)
    return TreeRow(
        key=f"parked:{name}",
        parent=root_key,
        name=name,
        kind="session",
        status="parked",
        session_id=name,
        title=about.title,
        first_words=about.first_words,
        incarnation=report.incarnation,
        restarts=max(report.incarnation - 1, 0),
        exits=(ExitNote(reason=report.reason, at_ms=report.at_ms),),
    )


class TreeFeed(TakenRows):
    """Rows of a tree: polled periodically, and at once after a crash."""

    def __init__(self, supervisor: SessionSupervisor, tenant_id: str) -> None:
        super().__init__(self._look, every_seconds=LOOK_EVERY_SECONDS)
        self._supervisor = supervisor
        self._tenant_id = tenant_id

    async def run(self, up: trio.Event) -> None:
        async with self._supervisor.reports(scope=self._tenant_id) as reports:
            up.set()
            async for _ in reports:
                self.look_now()

    async def _look(self) -> dict[str, TreeRow]:
        root = await self._supervisor.tree(scope=self._tenant_id)
        parked = self._supervisor.parked_sessions(scope=self._tenant_id)
        # If the handle of a given-up session has expired, its last known topic is kept.
        seen = {
            row.session_id: About(row.title, row.first_words)
            for row in map(self.row, self.keys())
            if isinstance(row, TreeRow) and row.session_id is not None
        }
        known = {**seen, **abouts_of(self._supervisor, self._tenant_id)}
        sources = self._supervisor.sources.found(self._tenant_id)
        return tree_rows(root, parked, self._tenant_id, known, sources)


# --- plugins


def plugin_rows(order: PluginOrder, hooks: HookRunner, used: tuple[PluginUse, ...]) -> dict[str, PluginRow]:
    rows = [_row_of_host(order, hooks, place) for place in range(len(order.all))]
    rows += [_row_of_session(one) for one in used]
    return {row.key: row for row in rows}


def _row_of_host(order: PluginOrder, hooks: HookRunner, place: int) -> PluginRow:
    plugin = order.all[place]
    since = hooks.stuck_since.get(plugin.name)
    having = [hook for hook, those in order.having.items() if plugin in those]
    return PluginRow(
        key=f"host:{plugin.name}",
        name=plugin.name,
        kind="host",
        version=plugin.version,
        order=place + 1,
        hooks=hook_rows(hooks.tally, plugin.name, having),
        failures=hooks.failures.get(plugin.name, 0),
        stuck_hook=hooks.stuck.get(plugin.name),
        stuck_at_ms=None if since is None else ms_of(since),
        last_failure=hooks.tally.last_failure_of(plugin.name),
    )


def hook_rows(tally: PluginTally, plugin: str, having: list[str]) -> tuple[HookRow, ...]:
    counted = {one.hook: one for one in tally.hooks_of(plugin)}
    return tuple([
        _rounded(counted.get(hook) or HookRow(hook=hook, calls=0, failures=0, p50_ms=0.0, p99_ms=0.0))
        for hook in having
    ])  # fmt: skip


def _rounded(one: HookRow) -> HookRow:
    return replace(one, p50_ms=round(one.p50_ms, 4), p99_ms=round(one.p99_ms, 4))


def _row_of_session(one: PluginUse) -> PluginRow:
    return PluginRow(
        key=f"session:{one.name}",
        name=one.name,
        kind="session",
        hooks=tuple(map(_rounded, one.hooks)),
        failures=sum(hook.failures for hook in one.hooks),
        sessions=one.sessions,
        last_failure=one.last_failure,
    )
