"""The files of a session, for the code that puts sessions behind a product: what it writes there is no call of a tool."""

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

from agentrail.abc import Sandbox
from agentrail.errors import SessionDown
from agentrail.runtime.handle import Session


@asynccontextmanager
async def open_files(session: Session) -> AsyncIterator[Sandbox]:
    """Give the sandbox that the tools of a session work in, opened at need, and keep it open for the block.

    A session that ends meanwhile does not wait: the files are let go of when the block is left.

    Cancellation: Leaving may close the sandbox, shielded, for at most five seconds.
    """
    cell = session._cell  # noqa: SLF001 - the door between a handle and its cell
    if cell.ending is not None:
        raise SessionDown(cell.ports.session_id, cell.ending)
    async with cell.ports.workspace.hold() as sandbox:
        yield sandbox


def place_of_files(session: Session) -> Hashable:
    """Say on which files a session works: the same of two that work on the same ones, as far as that can be known."""
    return session._cell.ports.workspace.place  # noqa: SLF001 - the door between a handle and its cell
