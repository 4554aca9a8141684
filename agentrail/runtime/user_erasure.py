"""Forgetting a user: sessions end, journals are erased, memories go, and their place in files is overwritten."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

import trio
from attrs import evolve

from agentrail.abc import Memories
from agentrail.abc.recall import MemoryOwner
from agentrail.abc.store import Erasure
from agentrail.core.journal.erasing import USER_FORGOTTEN
from agentrail.errors import AgentrailError, OptionError, SessionDown, SessionNotFound, StillNeeded
from agentrail.messages import SessionId
from agentrail.runtime.arguments import fault_of_text, refuse
from agentrail.runtime.forgetting import (
    ForgottenUser,
    TreeKey,
    UserTrees,
    forgotten_of,
    left_alive,
    trees_of_user,
)
from agentrail.runtime.handle import Session
from agentrail.runtime.keeping import Keeping
from agentrail.runtime.own_stores import decide_owner
from agentrail.runtime.scopes import key_of
from agentrail.runtime.session import SessionCell
from agentrail.runtime.shared import Shared

_TRIES: Final = 3
"""How often a session is ended that is to be erased, and wakes each time."""

_OVERWRITE_TRIES: Final = 10
_OVERWRITE_PAUSE_SECONDS: Final = 0.5
"""How often, and how long after each other, a reader who stands in the way is waited for."""


class UserErasure:
    """The part of a supervisor that forgets users."""

    def __init__(
        self,
        shared: Shared,
        *,
        known: Callable[[str], SessionCell | None],
        sessions: Callable[[], tuple[Session, ...]],
        stop: Callable[[str, str], Awaitable[None]],
    ) -> None:
        """Erase nothing yet."""
        self._shared = shared
        self._known, self._sessions, self._stop = known, sessions, stop

    async def forget_user(self, user_id: str, *, tenant_id: str = "") -> ForgottenUser:
        """Forget a user: end their sessions, erase what was said in them, and remove what is remembered of them. Again is fine.

        Whose a session is says its `user_data`, as with memories. In the journals of all their sessions, of those that worked for these,
        and of all forks, each record is replaced by one that says what it was, how long, and its hash; snapshots and large values go. So
        a journal can still be checked, and no more be read. The memories go with their words in the index, and working notes with their files. Then the files are written
        anew, so that nothing of it stands in an unused part of them. Other sessions go on; while a file is copied they wait for the store.

        Args:
            user_id: The user; 1 character or more.
            tenant_id: Of which tenant; the scope of their sessions, where their `user_data` names none.

        Returns:
            What was erased, what could not be, and where more may be that is not reached from here.

        Raises:
            OptionError: Your move: no user is named.
            StoreUnavailable: A store takes nothing for now. What is done stays done: begin again.

        Cancellation: What is done stays done, and a step that has begun ends: begin again.
        """
        refuse(fault_of_text("user_id", user_id), fault_of_text("tenant_id", tenant_id))
        if not user_id:
            raise OptionError(
                ["user_id is empty: name the user; what belongs to no user is no user's to forget"]
            )
        await trio.lowlevel.checkpoint()
        owner = MemoryOwner(tenant=tenant_id, user=user_id)
        # Sessions first: what they remember is removed behind their end, so that nothing comes to it any more.
        told = await self._forget_sessions(owner)
        desks = self._shared.dependencies.desks
        if desks is not None:
            notes = await desks.forget_notes(owner)
            memories = await desks.forget(owner)
            told = evolve(told, notes=notes, memories=memories.entries, is_overwritten=memories.is_erased)
        is_overwritten = await self._overwrite()
        return evolve(told, is_overwritten=told.is_overwritten and is_overwritten)

    def memories_of(self, user_id: str, *, tenant_id: str = "") -> Memories | None:
        """Give what a user has remembered, for programs that write there besides sessions; None where nothing is remembered here.

        Args:
            user_id: The user; empty for what belongs to no user in particular.
            tenant_id: As of `forget_user`.

        Raises:
            OptionError: Your move: one of them is no text.
        """
        refuse(fault_of_text("user_id", user_id), fault_of_text("tenant_id", tenant_id))
        desks = self._shared.dependencies.desks
        return None if desks is None else desks.memories_of(MemoryOwner(tenant=tenant_id, user=user_id))

    async def _forget_sessions(self, owner: MemoryOwner) -> ForgottenUser:
        if self._shared.keeping is None:
            return await self._end_unkept(owner)
        found: UserTrees = await self._shared.keeping.read(
            partial(trees_of_user, self._shared.keeping.store, owner)
        )
        erased, done, left = Erasure(), list[TreeKey](), [*found.unread.values()]
        for scope, root in found.trees:
            try:
                erased += await self._erase_tree(self._shared.keeping, scope, root)
                done.append((scope, root))
            except SessionNotFound:  # it is deleted just now
                continue
            except StillNeeded as error:
                left.append(left_alive(root, error.by))
        return forgotten_of(erased, done, left)

    async def _erase_tree(self, keeping: Keeping, scope: str, root: SessionId) -> Erasure:
        """End what is alive of a tree, and erase it; it may be woken in between by who reads it."""
        key = key_of(scope, root)
        why: AgentrailError | None = None
        for _ in range(_TRIES):
            try:
                with suppress(SessionDown):
                    await self._stop(root, scope)
            except AgentrailError as error:  # it sleeps, and cannot be woken to be ended
                why = error
            async with self._shared.beginnings.reserve(key):
                if self._known(key) is None:
                    erase = partial(keeping.store.erase, scope, root, USER_FORGOTTEN)
                    erased = await keeping.write(erase)
                    self._shared.ended.drop_tree(scope, root)
                    return erased
        raise StillNeeded(root, by=["this process, where it is alive" if why is None else str(why)])

    async def _end_unkept(self, owner: MemoryOwner) -> ForgottenUser:
        """End the sessions of a user that no store keeps: what they know is gone with them."""
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
        """See to it that nothing erased stands in a file of the store; a reader who stands in the way is waited for, some seconds."""
        keeping = self._shared.keeping
        if keeping is None:
            return True
        for place in range(_OVERWRITE_TRIES):
            if place:
                await trio.sleep(_OVERWRITE_PAUSE_SECONDS)
            if await keeping.write(keeping.store.overwrite_removed):
                return True
        return False
