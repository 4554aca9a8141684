"""One directory per lease, hidden from commands of other leases, and its removal."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

import trio

from agentrail import outside
from agentrail.abc import Sandbox
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
            await outside.offload(remove_tree, directory)


def remove_tree(directory: Path) -> None:
    """Remove a directory tree, even without permissions. Blocks. Links are not followed."""
    try:
        shutil.rmtree(directory)
    except FileNotFoundError:
        return
    except OSError:
        for place, names, _ in os.walk(directory):
            for name in names:  # before descending into them
                _grant(os.path.join(place, name))  # noqa: PTH118 - the names are arbitrary, chosen by commands
        try:
            shutil.rmtree(directory)
        except OSError as error:
            LOGGER.warning("a workspace could not be removed completely: %s", error.strerror)


def _grant(path: str) -> None:
    with contextlib.suppress(OSError, AttributeError):  # missing, owned by another user, or not Linux
        descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.chmod(f"/proc/self/fd/{descriptor}", 0o700)  # noqa: PTH101 - it is not a path of a file
        finally:
            os.close(descriptor)
