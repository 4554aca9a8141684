"""`agentrail nodes`: the servers that share a store. Changes are signed calls to a node, with the secret of the store."""

import json
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import httpcore
import trio
from attrs import asdict, frozen
from cyclopts import App, Parameter

from agentrail import outside
from agentrail.abc.store import NODE_LEASE_SECONDS, Node, SharedSecret, Store
from agentrail.cli.storage_options import directory_for
from agentrail.cli.store_access import USUAL_PLACE, JsonLines, StorePlace, find_one, say, store_command
from agentrail.core.values.port_members import offers
from agentrail.errors import OptionError
from agentrail.runtime.arguments import refuse
from agentrail.runtime.persistence import has_other_nodes
from agentrail.runtime.shutdown import fault_of_within
from agentrail.runtime.trust import beat_seconds
from agentrail.stores.store_names import open_store
from agentrail.structs import picked_fields

app: Final = App(name="nodes", result_action="return_value")

NodeState: TypeAlias = Literal["alive", "late", "dead", "gone"]

_LATE_MS: Final = 1_000
_SENDER: Final = "agentrail-nodes"

NodeCa: TypeAlias = Annotated[
    Path | None,
    Parameter(help="File with the certificates that sign those of the nodes. Default: those of the system."),
]


@frozen(kw_only=True)
class ListedNode:
    """A node as `nodes list` shows it.

    Attributes:
        state: `alive`; `late` if a heartbeat is missing; `dead` after its lease; `gone` once it has stopped or was reported.
        seen_ago_ms: Time since its last heartbeat.
    """

    id: str
    state: NodeState
    address: str
    version: str
    load: int
    lease_ms: int
    seen_ago_ms: int


def decide_state(node: Node, now_ms: int) -> NodeState:
    """Return the state of a node by the store's clock."""
    lease_ms = node.lease_ms or round(NODE_LEASE_SECONDS * 1000)
    silence = now_ms - node.seen_at_ms
    if node.gone_at_ms:
        return "gone"
    if silence > lease_ms:
        return "dead"
    return "late" if silence > beat_seconds(lease_ms / 1000) * 1000 + _LATE_MS else "alive"


def listed_nodes(nodes: Iterable[Node], now_ms: int) -> list[ListedNode]:
    """Return the nodes as shown, last seen first."""
    return [
        ListedNode(
            **picked_fields(one, "id", "address", "version", "load", "lease_ms"),
            state=decide_state(one, now_ms),
            seen_ago_ms=max(now_ms - one.seen_at_ms, 0),
        )
        for one in sorted(nodes, key=lambda one: (-one.seen_at_ms, one.id))
    ]


def living_node(nodes: Iterable[Node], wanted: str, now_ms: int) -> Node:
    """Return a living node by its id.

    Raises:
        OptionError: It is unknown, dead or gone. The message lists the living ones.
    """
    living = {one.id: one for one in nodes if decide_state(one, now_ms) in ("alive", "late")}
    if wanted in living:
        return living[wanted]
    there = f"expected one of {', '.join(sorted(living))}" if living else "no node is alive"
    raise OptionError([f"{wanted!r:.80} is not a living node: {there}"])


@app.command(
    name="list", help="List the nodes: id, state, sessions in memory, version, last heartbeat, address."
)
@store_command
def list_nodes(
    *,
    as_json: JsonLines = False,
    place: StorePlace = USUAL_PLACE,
) -> None:
    with closing(_open(place)) as store:
        for one in listed_nodes(store.nodes(), store.now_ms()):
            seen = f"{one.seen_ago_ms / 1000:.1f} s ago  {one.address or '-'}"
            line = f"{one.id}  {one.state:5}  {one.load:5}  {one.version or '-'}  {seen}"
            say(json.dumps(asdict(one)) if as_json else line)


@app.command(
    name="drain",
    help="Drain a node: its readiness fails, and other nodes continue its sessions. Stop its process after that.",
)
@store_command
def drain_node(node: str, /, *, node_ca: NodeCa = None, place: StorePlace = USUAL_PLACE) -> None:
    with closing(_open(place)) as store:
        target = living_node(store.nodes(), node, store.now_ms())
        _call(store, target, "drain", node_ca)
    say(f"{node}: drained; stop its process")


@app.command(help="Move a session to another node, also in the middle of a cycle.")
@store_command
def move(
    session: str,
    /,
    *,
    to: Annotated[
        str | None, Parameter(help="Id of the node. Default: the living one with the lowest load.")
    ] = None,
    within: Annotated[float, Parameter(help="Seconds to wait for calls that must not run twice.")] = 30.0,
    node_ca: NodeCa = None,
    place: StorePlace = USUAL_PLACE,
) -> None:
    refuse(fault_of_within(within))
    with closing(_open(place)) as store:
        row = find_one(store, session, place.scope)
        if row.root != row.session:
            raise OptionError([f"session {row.session!r} is a sub-agent: move its root, {row.root!r}"])
        if not row.node:
            raise OptionError(
                [f"session {row.session!r} has no owner: it wakes where its next message arrives"]
            )
        nodes, now_ms = store.nodes(), store.now_ms()
        if to is not None:
            living_node(nodes, to, now_ms)
        owner = living_node(nodes, row.node, now_ms)
        taken_by = _call(
            store, owner, "move", node_ca, scope=row.scope, session_id=row.session, to=to, within=within
        )
    say(f"{session}: moved from {owner.id} to {taken_by}")


@app.command(
    help="Report that a node's process has ended for good, so that others take its sessions at once."
)
@store_command
def gone(
    node: str,
    /,
    *,
    yes: Annotated[bool, Parameter(help="Confirm that the process has ended.")] = False,
    place: StorePlace = USUAL_PLACE,
) -> None:
    with closing(_open(place)) as store:
        found = {one.id: one for one in store.nodes()}
        if node not in found:
            raise OptionError([f"{node!r:.80} is not a node of this store: agentrail nodes list shows them"])
        state = decide_state(found[node], store.now_ms())
        if not yes:
            risk = "if its process still runs, a tool that must not run twice can: first make sure that it has ended, then give --yes"
            raise OptionError([f"{node} is {state}; {risk}"])
        store.gone(node)
    say(f"{node}: reported gone; other nodes take its sessions")


def _open(place: StorePlace) -> Store:
    store = open_store(place.store, directory_for(place.store, place.data_dir), read_only=True)
    if has_other_nodes(store):
        return store
    store.close()
    raise OptionError(["--store names a store of one process: nodes share a postgres:// database"])


def _call(store: Store, node: Node, action: str, node_ca: Path | None, **order: object) -> str:
    from agentrail.gateway.forwarder import tls_of_nodes
    from agentrail.gateway.node_routes import NodeClient, NodeOrder

    if not offers(store, SharedSecret):
        raise OptionError(["this store keeps no secret for signatures between nodes"])
    secret, now_ms, tls = store.secret(), store.now_ms(), tls_of_nodes(node_ca)

    async def call() -> str:
        async with httpcore.AsyncConnectionPool(
            ssl_context=tls, network_backend=httpcore.TrioBackend()
        ) as connections:
            client = NodeClient(secret, f"{_SENDER}-{outside.ids(8)}", connections, lambda: now_ms)
            return (await client.call(node, action, NodeOrder(**order))).node  # type: ignore[arg-type]  # by name

    return trio.run(call)
