"""Files of a session, for programs that serve sessions in a product. Their writes do not count as tool calls."""

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

from agentrail.abc import Sandbox
from agentrail.errors import SessionDown
from agentrail.runtime.session_handle import Session


@asynccontextmanager
async def open_files(session: Session) -> AsyncIterator[Sandbox]:
    cell = session._cell  # noqa: SLF001 - internal access to the cell of a handle
    if cell.ending is not None:
        raise SessionDown(cell.ports.session_id, cell.ending)
    async with cell.ports.workspace.hold() as sandbox:
        yield sandbox


def place_of_files(session: Session) -> Hashable:
    """Return an identity of a session's files: equal for two sessions with the same files, if that is known."""
    return session._cell.ports.workspace.place  # noqa: SLF001 - internal access to the cell of a handle
