"""Races on purpose: while it is held, an actor takes nothing from its mailbox, and a registry cleans nothing up."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from agentrail.actors.handle import ActorHandle, cell_of, mailbox_of
from agentrail.actors.registry import Registry


@asynccontextmanager
async def held(target: ActorHandle | Registry) -> AsyncIterator[None]:
    """Hold a machine, a supervisor or a registry for the time of the block; what comes meanwhile waits.

    Raises:
        NoMailbox: Your move: it is a worker, and reads no messages.

    Cancellation: Entering is a checkpoint; it is released however the block ends.
    """
    holder = target if isinstance(target, Registry) else mailbox_of(cell_of(target))
    await trio.lowlevel.checkpoint()
    holder.hold()
    try:
        yield
    finally:
        holder.release()
