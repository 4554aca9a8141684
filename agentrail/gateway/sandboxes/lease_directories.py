"""One directory per lease, hidden from commands of other leases, and its removal."""

import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

import trio

from agentrail import outside
from agentrail.abc import Sandbox
from agentrail.file_systems import remove_tree
from agentrail.logs import Logger
from agentrail.sandboxes.bubblewrap import Network
from agentrail.sandboxes.fallback import ShellFallback
from agentrail.sandboxes.local import LocalSandbox

LOGGER: Final = Logger("agentrail.gateway")

OpenWorkspace: TypeAlias = Callable[[], AbstractAsyncContextManager[Sandbox]]
"""Creates a new, empty workspace for a block, and removes it completely afterwards."""


@asynccontextmanager
async def open_local_workspace(
    *, shell_fallback: ShellFallback = "refuse", network: Network = "none"
) -> AsyncIterator[LocalSandbox]:
    """Create a directory for a block. Its removal is shielded, however long it takes."""
    directory = Path(await outside.offload(tempfile.mkdtemp, None, "agentrail-sandbox-"))
    try:
        sandbox = LocalSandbox(directory, shell_fallback=shell_fallback, network=network)
        try:
            await sandbox.confinement()  # so that the first response reports how commands run
            yield sandbox
        finally:
            with trio.CancelScope(shield=True):  # it does not block
                await sandbox.aclose()
    finally:
        with trio.CancelScope(shield=True):  # otherwise files of a client would remain
            await outside.offload(_remove, directory)


def _remove(directory: Path) -> None:
    try:
        remove_tree(directory)
    except OSError as error:
        LOGGER.warning("a workspace could not be removed completely: %s", error.strerror)
