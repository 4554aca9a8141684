"""A directory for each lease, where the commands of no other lease see it, and its removal, whatever its commands have left there."""

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
"""Makes a workspace that is new and empty, for a block; after it nothing of it is left."""


@asynccontextmanager
async def open_local_workspace(
    *, shell_fallback: ShellFallback = "refuse", network: Network = "none"
) -> AsyncIterator[LocalSandbox]:
    """Make a directory for a block, with the rules of `LocalSandbox`.

    It lies in the temporary directory of this machine (`TMPDIR`), because that is hidden from confined commands: one client's command sees
    nothing of another's files.

    Cancellation: The directory is removed, shielded, however long that takes.
    """
    directory = Path(await outside.offload(tempfile.mkdtemp, None, "agentrail-sandbox-"))
    try:
        sandbox = LocalSandbox(directory, shell_fallback=shell_fallback, network=network)
        try:
            await sandbox.confinement()  # so that the first answer says how commands run
            yield sandbox
        finally:
            with trio.CancelScope(shield=True):  # it waits for nothing
                await sandbox.aclose()
    finally:
        with trio.CancelScope(shield=True):  # else files of a client stay
            await outside.offload(remove_tree, directory)


def remove_tree(directory: Path) -> None:
    """Remove a directory with all that is in it, also where a command has taken the rights to that away. Blocks; links are not followed."""
    try:
        shutil.rmtree(directory)
    except FileNotFoundError:
        return
    except OSError:
        for place, names, _ in os.walk(directory):
            for name in names:  # before they are gone into
                _grant(os.path.join(place, name))  # noqa: PTH118 - no path of ours is made of what a command has called it
        try:
            shutil.rmtree(directory)
        except OSError as error:
            LOGGER.warning("a workspace could not be removed as a whole: %s", error.strerror)


def _grant(path: str) -> None:
    """Take the rights to a directory back; a link, and what it leads to, stays as it is."""
    with contextlib.suppress(OSError, AttributeError):  # gone, another user's, or another system than Linux
        descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.chmod(f"/proc/self/fd/{descriptor}", 0o700)  # noqa: PTH101 - it is no path of a file
        finally:
            os.close(descriptor)
