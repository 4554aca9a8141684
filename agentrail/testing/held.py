"""Deliberate races: while held, an actor takes no message from its mailbox, and a registry does no clean-up."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from agentrail.actors.actor_handle import ActorHandle, cell_of, mailbox_of
from agentrail.actors.actor_registry import Registry


@asynccontextmanager
async def held(target: ActorHandle | Registry) -> AsyncIterator[None]:
    """Hold a machine, a supervisor or a registry during the block. Messages wait meanwhile.

    Raises:
        NoMailbox: Your move: the actor is a worker, and reads no messages.

    Cancellation: Entering is a checkpoint. The hold is released however the block ends.
    """
    holder = target if isinstance(target, Registry) else mailbox_of(cell_of(target))
    await trio.lowlevel.checkpoint()
    holder.hold()
    try:
        yield
    finally:
        holder.release()
