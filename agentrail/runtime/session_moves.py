"""Moves of live sessions to other nodes of a shared store, and the drain of a node.

The order of a move: the target folds the session and checks its code, calls that must not be cut end, the session stops with a snapshot, its tree is
released, the target takes it. After the release it has no owner: if the target fails, the node that looks first takes it.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, Protocol

import trio
from attrs import define, field

from agentrail.abc.store import Node
from agentrail.actors.deferred_error import ungrouped
from agentrail.errors import AgentrailError, HeldBy, OptionError
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.runtime.arguments import faults_of_key, refuse
from agentrail.runtime.persistence import Keeping
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_keys import NO_SCOPE, key_of
from agentrail.runtime.session_loader import stored_of
from agentrail.runtime.session_nodes import place_of_session
from agentrail.runtime.shared_resources import Shared
from agentrail.runtime.shutdown import fault_of_within, leave_for_move, leave_quietly, tree_by_tree
from agentrail.runtime.trust import is_living, silent_nodes

LOGGER: Final = Logger("agentrail.runtime")

MOVE_WITHIN_SECONDS: Final = 30.0
"""Seconds that a move waits for calls that must not be cut."""


class OtherNodes(Protocol):
    """Calls to other nodes about their sessions."""

    async def check_revive(self, node: Node, scope: str, session_id: SessionId) -> None:
        """Fold a session on a node and check its code. Changes nothing.

        Raises:
            AgentrailError: It cannot continue the session, or does not answer.
        """

    async def take(self, node: Node, scope: str, session_id: SessionId) -> None:
        """Continue a released session on a node.

        Raises:
            AgentrailError: It did not, or does not answer.
        """

    async def stop(self, node: Node, scope: str, session_id: SessionId) -> None:
        """End a session on a node, because its user is forgotten.

        Raises:
            AgentrailError: It did not, or does not answer.
        """


def decide_targets(wanted: str | None, own: str, living: Iterable[Node]) -> list[Node]:
    """Return the nodes to which a session may move, in the order in which they are asked.

    Args:
        wanted: The id of the only one. None for all others, that with the lowest load first.
        own: The node that owns the session.
        living: The nodes that are alive.

    Raises:
        OptionError: The caller's move: it is unknown, dead, or the owner.
    """
    if wanted == own:
        raise OptionError([f"to is {own!r}: it is there"])
    others = sorted((one for one in living if one.id != own), key=lambda one: (one.load, one.id))
    found = [one for one in others if wanted in (None, one.id)]
    if found:
        return found
    fault = f"to is {wanted!r:.80}, which is not a living node: expected one of "
    raise OptionError([fault + ", ".join(one.id for one in others) if others else "no other node is alive"])


@define(eq=False)
class Moves:
    """Moves sessions of one supervisor."""

    _shared: Shared
    _known: Callable[[str], SessionCell | None] = field(kw_only=True)
    _left_to_others: Callable[[str, SessionId], AbstractContextManager[None]] = field(kw_only=True)
    _others: OtherNodes | None = field(init=False, default=None)

    def call_nodes(self, others: OtherNodes | None) -> None:
        """Set how other nodes are called. A gateway does this while it is open."""
        self._others = others

    async def move_session(
        self,
        session_id: str,
        to: str | None = None,
        *,
        within: float = MOVE_WITHIN_SECONDS,
        scope: str = NO_SCOPE,
    ) -> Node:
        """Move a session with its children to another node, also in the middle of a cycle.

        Its stream is cut, and what it said is withdrawn. Calls of `pure` and `idempotent` tools stop, and run again on the other node. Calls of
        `once` and `reconcilable` tools end first. Readers see the end reason `moved` and miss nothing. Pending approvals stay as they are.

        Args:
            session_id: Id of a root session of this node.
            to: Id of the other node. None for the living one with the lowest load of those that can continue it.
            within: Seconds to wait for such calls. Nothing else begins meanwhile.
            scope: Scope that it was started in.

        Returns:
            The node that was asked to take it. If it failed after the release, whichever node looks first has taken the session.

        Raises:
            OptionError: Your move: no shared store, an unknown or dead node, this node, or the id of a child.
            SessionNotFound: Your move: the store has no session with this id.
            HeldBy: Your move: another node owns it. Call that one.
            SessionBusy: A call did not end in time. Nothing has changed.
            Unrevivable: The other node lacks its code. Nothing has changed.
            StoreUnavailable: The store accepts no writes for now. Nothing has changed.

        Cancellation: The session continues here, or it was released and another node takes it.
        """
        refuse(*faults_of_key(scope, session_id), fault_of_within(within))
        keeping, others = self._keeping(), self._others
        if others is None:
            raise OptionError(["move_session calls another node: serve this one with create_app"])
        store, own = keeping.store, keeping.node.id
        wanted = SessionId(session_id)
        await self._check_root(keeping, scope, wanted)
        nodes = await keeping.read(store.nodes)
        silent = silent_nodes(keeping.silence)
        targets = decide_targets(to, own, [one for one in nodes if is_living(one, silent)])
        for target in targets:
            try:
                await others.check_revive(target, scope, wanted)
                break
            except AgentrailError:  # it lacks the code, drains, or does not answer
                if target is targets[-1]:
                    raise
        cell = self._known(key_of(scope, session_id))
        with self._left_to_others(scope, wanted):
            if cell is not None and not cell.is_asleep:  # a hibernated one has no owner
                await leave_for_move(cell, within)
                await keeping.writer.wait_empty()
            try:
                await others.take(target, scope, wanted)
            except AgentrailError as error:
                told = session_id, target.id, error
                LOGGER.warning("session %s was released, but node %s did not take it: %s", *told)
        return target

    async def stop_at(self, node: Node, scope: str, session_id: SessionId) -> None:
        """End a session on another node. Without a gateway nothing happens, and its content stays."""
        if self._others is not None:
            await self._others.stop(node, scope, session_id)

    async def drain(self, within: float) -> None:
        """Stop all sessions of a shared store and release them, so that other nodes continue them at once. Take no more.

        Each stops at a turn boundary if one comes in time, and otherwise where it is. Its snapshot names the operations that have begun.

        Args:
            within: Seconds to wait for turn boundaries.

        Raises:
            OptionError: Your move: no shared store.

        Cancellation: Sessions that have not stopped yet continue.
        """
        refuse(fault_of_within(within))
        keeping = self._keeping()
        self._shared.is_draining = True
        with ungrouped():
            async with trio.open_nursery() as nursery:
                async for entry in tree_by_tree(self._shared.entries.values()):
                    if len(entry.cell.state.data.config.path) == 1 and not entry.cell.is_leaving:
                        nursery.start_soon(leave_quietly, entry.cell, within)
        await keeping.writer.wait_empty()

    def _keeping(self) -> Keeping:
        keeping = self._shared.store_of("move_session")
        if keeping.heartbeat is None:
            raise OptionError(
                ["sessions move between nodes of a shared store: use a postgres:// URL as store"]
            )
        return keeping

    async def _check_root(self, keeping: Keeping, scope: str, session_id: SessionId) -> None:
        row = await keeping.read(partial(stored_of, keeping.store, scope, session_id))
        if row.root != row.session:
            raise OptionError([f"session {row.session!r} is a sub-agent: move its root, {row.root!r}"])
        nodes = await keeping.read(keeping.store.nodes)
        place = place_of_session(row, nodes, keeping.node.id, silent_nodes(keeping.silence))
        if isinstance(place, Node):
            seen_ago_ms = max(now_ms() - place.seen_at_ms, 0)
            raise HeldBy(session_id, node=place.id, address=place.address, seen_ago_ms=seen_ago_ms)
