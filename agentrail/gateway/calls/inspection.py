"""Calls for operators, limited to their tenant. None wakes a session or shows plugin options."""

from typing import Final

from attrs import evolve
from msgspec import structs

from agentrail import outside
from agentrail.actors.tree_report import TreeNode
from agentrail.gateway.authorization import checked, require_scope
from agentrail.gateway.calls.session_calls import FIRST_PAGE, AskedSessions, page_of_sessions
from agentrail.gateway.inspection_replies import (
    HostPluginItem,
    HostPluginList,
    InspectedMessages,
    StateReply,
    TracePage,
    TreeItem,
    TreePage,
)
from agentrail.gateway.request_bodies import RestartSourceBody
from agentrail.gateway.whole_answer import WholeAnswer, answer_json
from agentrail.host import Host, Principal
from agentrail.host.tenant_rows import Abouts, abouts_of, row_of_node
from agentrail.runtime.journal_inspection import WantedRecords
from agentrail.structs import picked_fields, struct_from
from agentrail.wire.form_fields import page_of_messages
from agentrail.wire.plain import encode_plain


def check_may_inspect(principal: Principal) -> None:
    checked(require_scope(principal, "inspect"))


async def inspect_sessions(
    host: Host, principal: Principal, asked: AskedSessions = FIRST_PAGE
) -> WholeAnswer:
    check_may_inspect(principal)
    return page_of_sessions(await asked.find(host, principal, of_tenant=True), asked, with_users=True)


MAX_SESSIONS_OF_A_TREE: Final = 1_000
FIRST_RECORDS: Final = WantedRecords()


async def inspect_tree(
    host: Host, principal: Principal, *, after: int | None = None, limit: int = 200
) -> WholeAnswer:
    check_may_inspect(principal)
    tenant_id = principal.tenant_id
    tree = await host.supervisor.tree(scope=tenant_id, after=after, limit=limit + 1)
    shown = tree.children[:limit]
    ids = {str(node.id).removeprefix(f"{tenant_id}/") for node in shown}
    item = item_of_node(evolve(tree, children=shown), tenant_id, abouts_of(host.supervisor, tenant_id, ids))
    next_after = int(shown[-1].key.rpartition(".")[2]) if len(tree.children) > limit else None
    return answer_json(TreePage(**structs.asdict(item), next=next_after))


def item_of_node(node: TreeNode, tenant_id: str, abouts: Abouts) -> TreeItem:
    row = row_of_node(node, None, tenant_id, abouts)
    return TreeItem(
        id=row.name,
        **picked_fields(node, "kind", "status", "strategy", "phase", "incarnation", "restarts"),
        **picked_fields(node, "uptime_seconds", "mailbox"),
        **picked_fields(row, "key", "up_at_ms", "intensity", "exits", "stuck", "title", "first_words"),
        children=tuple(item_of_node(child, tenant_id, abouts) for child in node.children),
    )


async def restart_source(host: Host, principal: Principal, asked: RestartSourceBody) -> WholeAnswer:  # noqa: RUF029 - the handler of a route, which is awaited
    host.supervisor.sources.restart(
        asked.source, scope=principal.tenant_id, session_id=asked.session_id or ""
    )
    return WholeAnswer(status=204)


async def inspect_plugins(host: Host, principal: Principal) -> WholeAnswer:  # noqa: RUF029 - the handler of a route, which is awaited
    check_may_inspect(principal)
    failures, stuck = host.hooks.failures, host.hooks.stuck
    having = host.plugins.having
    items = [
        struct_from(
            HostPluginItem,
            one,
            hooks=tuple(hook for hook, those in having.items() if one in those),
            failures=failures.get(one.name, 0),
            stuck_hook=stuck.get(one.name),
        )
        for one in host.plugins.all
    ]
    rows = tuple(host.plugin_rows(principal.tenant_id).values())
    return answer_json(HostPluginList(plugins=tuple(items), rows=rows))


async def inspect_trace(
    host: Host, principal: Principal, session_id: str, wanted: WantedRecords = FIRST_RECORDS
) -> WholeAnswer:
    check_may_inspect(principal)
    page = await (await host.inspected(session_id, principal)).find_records(wanted)
    return await _answer_aside(struct_from(TracePage, page))


async def inspect_state(
    host: Host, principal: Principal, session_id: str, number: int, *, since: int | None = None
) -> WholeAnswer:
    check_may_inspect(principal)
    found = await (await host.inspected(session_id, principal)).plain_state_at(number, since=since)
    return await _answer_aside(StateReply(at=found.at, state=dict(found.state), patch=found.patch))


async def inspect_explanation(host: Host, principal: Principal, session_id: str, number: int) -> WholeAnswer:
    check_may_inspect(principal)
    return answer_json(await (await host.inspected(session_id, principal)).explain_record(number))


async def _answer_aside(value: object) -> WholeAnswer:
    """Encode a large value in a thread, so that other calls do not wait."""
    return WholeAnswer(body=await outside.offload(encode_plain, value, abandon_on_cancel=True))


async def inspect_messages(
    host: Host, principal: Principal, session_id: str, *, after: int = 0, limit: int = 100
) -> WholeAnswer:
    check_may_inspect(principal)
    messages, usage = await host.inspect_messages(session_id, principal)
    page = page_of_messages(messages, after=after, limit=limit)
    return answer_json(InspectedMessages(messages=page.messages, next=page.next, usage=usage))
