"""User erasure: end the sessions, erase the journals, delete the memories, and overwrite the files that held them."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

import trio
from attrs import field, frozen
from msgspec.structs import replace

from agentrail.abc import Memories
from agentrail.abc.recall import MemoryOwner
from agentrail.abc.store import Erasure
from agentrail.core.journal.erasure import USER_FORGOTTEN
from agentrail.core.journal.session_owner import session_owner_key
from agentrail.errors import AgentrailError, OptionError, SessionDown, SessionNotFound, StillNeeded
from agentrail.messages import SessionId
from agentrail.runtime.arguments import fault_of, refuse
from agentrail.runtime.erasure_report import (
    ForgottenUser,
    TreeKey,
    UserTrees,
    forgotten_of,
    left_alive,
    trees_of_user,
    unreached_of,
)
from agentrail.runtime.persistence import Keeping, has_other_nodes
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_keys import key_of
from agentrail.runtime.session_stores import decide_owner
from agentrail.runtime.shared_resources import Shared

_TRIES: Final = 3
"""Maximum number of attempts to end a session that wakes again while it is being erased."""

_OVERWRITE_TRIES: Final = 10
_OVERWRITE_PAUSE_SECONDS: Final = 0.5
"""Seconds between attempts to overwrite while a reader blocks it."""


@frozen(eq=False)
class UserErasure:
    _shared: Shared
    _known: Callable[[str], SessionCell | None] = field(kw_only=True)
    _sessions: Callable[[], tuple[Session, ...]] = field(kw_only=True)
    _stop: Callable[[str, str], Awaitable[None]] = field(kw_only=True)
    _forget_logins: Callable[[str], Awaitable[list[str]]] = field(kw_only=True)

    async def forget_user(self, user_id: str, *, tenant_id: str = "") -> ForgottenUser:
        """Erase a user: end their sessions, erase the sessions' content, and delete the user's memories and logins to MCP servers. Safe to repeat.

        The `user_data` of a session names its user. Each record of the user's sessions, their child sessions and all
        forks is replaced by one with its kind, length and hash: a journal can still be verified but no longer read.
        Snapshots, large values, memories and working notes are deleted. Then the files are rewritten. Other sessions
        continue, and wait for the store meanwhile.

        Args:
            user_id: The user. 1 character or more.
            tenant_id: Tenant of the user. It is the scope of sessions whose `user_data` names no tenant.

        Returns:
            What was erased, what could not be erased, and where data out of reach may remain.

        Raises:
            OptionError: Your move: `user_id` is empty.
            StoreUnavailable: A store accepts no writes for now. Completed steps stay done. Call again.

        Cancellation: Completed steps stay done, and a step that has begun completes. Call again.
        """
        refuse(fault_of("user_id", user_id, str), fault_of("tenant_id", tenant_id, str))
        if not user_id:
            fault = "user_id must not be empty; sessions without a user cannot be forgotten this way"
            raise OptionError([fault])
        await trio.lowlevel.checkpoint()
        owner = MemoryOwner(tenant=tenant_id, user=user_id)
        # Sessions first: their memories are deleted after their end, so that none are added later.
        told = await self._forget_sessions(owner)
        key = session_owner_key({"tenant_id": tenant_id, "user_id": user_id})
        told = replace(told, left=(*told.left, *await self._forget_logins(key)))
        desks = self._shared.dependencies.desks
        if desks is not None:
            notes = await desks.forget_notes(owner)
            memories = await desks.forget(owner)
            told = replace(told, notes=notes, memories=memories.entries, is_overwritten=memories.is_erased)
        is_overwritten = await self._overwrite()
        keeping = self._shared.keeping
        not_reached = unreached_of(None if keeping is None else keeping.store, desks and desks.recall)
        is_overwritten = told.is_overwritten and is_overwritten
        return replace(told, is_overwritten=is_overwritten, not_reached=not_reached)

    async def end_forgotten(self, scope: str, session_id: SessionId) -> None:
        """End a session of this node whose user another one forgets, and keep nothing of it in memory."""
        with suppress(SessionDown):
            await self._stop(session_id, scope)
        self._shared.ended.drop_tree(scope, session_id)

    def memories_of(self, user_id: str, *, tenant_id: str = "") -> Memories | None:
        """Return the memories of a user, for programs that write them outside of sessions. None if there are no memories here.

        Args:
            user_id: The user. Empty for memories that belong to no particular user.
            tenant_id: Same as `forget_user`.

        Raises:
            OptionError: Your move: one of them is not a string.
        """
        refuse(fault_of("user_id", user_id, str), fault_of("tenant_id", tenant_id, str))
        desks = self._shared.dependencies.desks
        return None if desks is None else desks.memories_of(MemoryOwner(tenant=tenant_id, user=user_id))

    async def _forget_sessions(self, owner: MemoryOwner) -> ForgottenUser:
        keeping = self._shared.keeping
        if keeping is None:
            return await self._end_unkept(owner)
        found: UserTrees = await keeping.read(partial(trees_of_user, keeping.store, owner))
        erased, done, left = Erasure(), list[TreeKey](), [*found.unread.values()]
        for scope, root in found.trees:
            try:
                erased += await self._erase_tree(keeping, scope, root)
                done.append((scope, root))
            except SessionNotFound:  # it was deleted meanwhile
                continue
            except StillNeeded as error:
                left.append(left_alive(root, error.by))
        return forgotten_of(erased, done, left)

    async def _erase_tree(self, keeping: Keeping, scope: str, root: SessionId) -> Erasure:
        key = key_of(scope, root)
        why: AgentrailError | None = None
        for _ in range(_TRIES):
            try:
                with suppress(SessionDown):
                    await self._stop(root, scope)
            except AgentrailError as error:  # it is hibernated, and cannot be woken to be ended
                why = error
            async with self._shared.beginnings.hold(key):
                if self._known(key) is None:
                    await self._shared.fan_in.settle(scope, root)
                    erase = partial(keeping.store.erase, scope, root, USER_FORGOTTEN)
                    erased = await keeping.remove(scope, root, erase)
                    self._shared.ended.drop_tree(scope, root)
                    return erased
        raise StillNeeded(root, by=["this process, in which it is running" if why is None else str(why)])

    async def _end_unkept(self, owner: MemoryOwner) -> ForgottenUser:
        ended: list[TreeKey] = []
        for session in self._sessions():
            facts = session.facts
            with suppress(OptionError, SessionDown):
                if (
                    facts.root_id == session.session_id
                    and decide_owner(session.scope, facts.user_data) == owner
                ):
                    await self._stop(session.session_id, session.scope)
                    self._shared.ended.drop_tree(session.scope, session.session_id)
                    ended.append((session.scope, session.session_id))
        return forgotten_of(Erasure(sessions=len(ended)), ended, ())

    async def _overwrite(self) -> bool:
        keeping = self._shared.keeping
        if keeping is None:
            return True
        for place in range(1 if has_other_nodes(keeping.store) else _OVERWRITE_TRIES):
            if place:
                await trio.sleep(_OVERWRITE_PAUSE_SECONDS)
            if await keeping.write(keeping.store.overwrite_removed):
                return True
        return False
