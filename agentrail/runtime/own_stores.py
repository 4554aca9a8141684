"""What sessions have beside their journals: the stores of all of a supervisor, and of them what one session's owner has there."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import trio
from attrs import frozen

from agentrail.abc import (
    Embedder,
    FindInstructions,
    Knowledge,
    KnowledgeStore,
    Memories,
    Notes,
    NoteStore,
    RecallStore,
)
from agentrail.abc.recall import Forgotten, MemoryOwner
from agentrail.messages import SessionId
from agentrail.outside import Outside
from agentrail.runtime.knowledge import KnowledgeShelf
from agentrail.runtime.meanings import Meanings
from agentrail.runtime.memories import MemoryDesk, decide_owner
from agentrail.runtime.notes import NoteDesk


@frozen(kw_only=True)
class SharedStores:
    """What a supervisor has for all its sessions; the caller closes them.

    Attributes:
        recall: Where sessions remember; None for nowhere.
        notes: Where each session has its working notes; None for nowhere.
        knowledge: Where sessions look things up; None for nowhere.
        embedder: Gives vectors of texts, so that memories and knowledge are found by meaning too; None: by words alone.
        instructions: Gives what reads the files for agents above a working directory; None where none of them is read.
    """

    recall: RecallStore | None = None
    notes: NoteStore | None = None
    knowledge: KnowledgeStore | None = None
    embedder: Embedder | None = None
    instructions: FindInstructions | None = None


NO_STORES: Final = SharedStores()
"""Nothing is remembered, and nothing looked up."""


@frozen(kw_only=True, eq=False)
class OwnStores:
    """What one session has; its children share it.

    Attributes:
        memories: What its owner has remembered; None where nothing is remembered.
        notes: Its working notes; None where it has none.
        knowledge: What its owner may read; None where there is none.
    """

    memories: Memories | None = None
    notes: Notes | None = None
    knowledge: Knowledge | None = None


NOTHING_OWN: Final = OwnStores()
"""Of a session whose supervisor has no stores, or whose owner cannot be said."""


class StoreDesks:
    """Gives each session what its owner has. One of it for each supervisor."""

    def __init__(self, shared: SharedStores, outside: Outside, meanings: Meanings | None = None) -> None:
        """Take the stores.

        Args:
            shared: Of all sessions.
            outside: Where functions that block are run.
            meanings: Gives vectors; None: words are all that is compared.
        """
        self._memories = None if shared.recall is None else MemoryDesk(shared.recall, outside, meanings)
        self._notes = None if shared.notes is None else NoteDesk(shared.notes, outside)
        self._knowledge = (
            None if shared.knowledge is None else KnowledgeShelf(shared.knowledge, outside, meanings)
        )

    def memories_of(self, owner: MemoryOwner) -> Memories | None:
        """Give what an owner has remembered, in no session; None where nothing is remembered here."""
        return None if self._memories is None else self._memories.of(owner)

    async def forget(self, owner: MemoryOwner) -> Forgotten:
        """Forget all that an owner has remembered; nothing where nothing is remembered here.

        Cancellation: What has begun is done all the same, and only its answer is lost.
        """
        if self._memories is None:
            await trio.lowlevel.checkpoint()
            return Forgotten(entries=0, is_erased=True)
        return await self._memories.of(owner).forget()

    async def forget_notes(self, owner: MemoryOwner) -> int:
        """Forget the working notes of all sessions of an owner, and say of how many.

        Cancellation: As of `forget`.
        """
        if self._notes is None:
            await trio.lowlevel.checkpoint()
            return 0
        return await self._notes.carry(partial(self._notes.store.forget, owner))

    def of(self, session_id: SessionId, scope: str, user_data: Mapping[str, Any]) -> OwnStores:
        """Give a session what its owner has.

        Raises:
            OptionError: As of `decide_owner`, where there is anything to have.
        """
        if self._memories is None and self._notes is None and self._knowledge is None:
            return NOTHING_OWN
        owner = decide_owner(scope, user_data)
        return OwnStores(
            memories=None if self._memories is None else self._memories.of(owner, session_id),
            notes=None
            if self._notes is None
            else self._notes.of(owner, _name_of(scope, owner.tenant, session_id)),
            knowledge=None if self._knowledge is None else self._knowledge.of(owner),
        )


def _name_of(scope: str, tenant: str, session_id: SessionId) -> str:
    """Name a session among those of its tenant: by its id alone where that says enough, since a person looks for it.

    No scope has a slash, so that no two sessions have one name.
    """
    return session_id if scope == tenant and "/" not in session_id else f"{scope}/{session_id}"
