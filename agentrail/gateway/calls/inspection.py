"""Calls of who looks after a product: all sessions of their tenant, the tree of actors, the plugins of the host, journals. Reads only.

Each of them needs the scope `inspect`, and shows no other tenant. None wakes a session: what sleeps is read in its journal. Options of plugins
are not shown: keys may be among them.
"""

from collections.abc import Hashable

from agentrail.actors.tree import TreeNode
from agentrail.gateway.access import require_scope
from agentrail.gateway.answers import CallRefused
from agentrail.gateway.calls.answering import CallAnswer, answer_with
from agentrail.gateway.calls.sessions import known_phase, page_of_sessions, place_of_cursor
from agentrail.gateway.replies import HostPluginItem, HostPluginList, InspectedMessages, TracePage, TreeItem
from agentrail.host import Host, Principal
from agentrail.wire.forms import page_of_messages


def check_may_inspect(principal: Principal) -> None:
    """Let who may inspect pass.

    Raises:
        CallRefused: 403 `forbidden`.
    """
    refused = require_scope(principal, "inspect")
    if refused is not None:
        raise CallRefused(refused)


async def inspect_sessions(
    host: Host, principal: Principal, *, limit: int = 50, cursor: str | None = None, phase: str | None = None
) -> CallAnswer:
    """GET /inspect/sessions: those of all users of the tenant."""
    check_may_inspect(principal)
    found = await host.list_sessions(
        principal,
        phase=known_phase(phase),
        behind=place_of_cursor(cursor),
        limit=limit + 1,
        of_tenant=True,
    )
    return page_of_sessions(found, limit, with_users=True)


async def inspect_tree(host: Host, principal: Principal) -> CallAnswer:
    """GET /inspect/tree: the supervision tree, as far as it is of the tenant."""
    check_may_inspect(principal)
    tree = await host.supervisor.tree(scope=principal.tenant_id)
    return answer_with(item_of_node(tree, principal.tenant_id))


def item_of_node(node: TreeNode, tenant_id: str) -> TreeItem:
    """Say of a node of the tree what people look for, with all below it."""
    return TreeItem(
        id=_plain_id(node.id, tenant_id),
        kind=node.kind,
        status=node.status,
        strategy=node.strategy,
        phase=node.phase,
        incarnation=node.incarnation,
        restarts=node.restarts,
        uptime_seconds=node.uptime_seconds,
        mailbox=node.mailbox,
        children=tuple(item_of_node(child, tenant_id) for child in node.children),
    )


def _plain_id(key: Hashable, tenant_id: str) -> str:
    return str(key).removeprefix(f"{tenant_id}/")


async def inspect_plugins(host: Host, principal: Principal) -> CallAnswer:  # noqa: ASYNC124 - the handler of a route, which is awaited
    """GET /inspect/plugins: those of the host, in their order."""
    check_may_inspect(principal)
    failures, stuck = host.hooks.failures, host.hooks.stuck
    having = host.plugins.having
    items = [
        HostPluginItem(
            name=one.name,
            version=one.version,
            priority=one.priority,
            critical=one.critical,
            fail_closed=one.fail_closed,
            hooks=tuple(hook for hook, those in having.items() if one in those),
            failures=failures.get(one.name, 0),
            stuck_hook=stuck.get(one.name),
        )
        for one in host.plugins.all
    ]
    return answer_with(HostPluginList(plugins=tuple(items)))


async def inspect_trace(
    host: Host, principal: Principal, session_id: str, *, after: int = 0, limit: int = 100
) -> CallAnswer:
    """GET /inspect/sessions/{id}/trace: the journal, with what each step decided and when."""
    check_may_inspect(principal)
    entries = await host.inspect_journal(session_id, principal, after=after, limit=limit)
    behind = entries[-1].number if len(entries) == limit else None
    return answer_with(TracePage(entries=entries, next=behind))


async def inspect_messages(
    host: Host, principal: Principal, session_id: str, *, after: int = 0, limit: int = 100
) -> CallAnswer:
    """GET /inspect/sessions/{id}/messages."""
    check_may_inspect(principal)
    messages, usage = await host.inspect_messages(session_id, principal)
    page = page_of_messages(messages, after=after, limit=limit)
    return answer_with(InspectedMessages(messages=page.messages, next=page.next, usage=usage))
