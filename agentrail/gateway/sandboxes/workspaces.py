"""A directory for each lease, where the commands of no other lease see it, and its removal, whatever its commands have left there."""

import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

import trio

from agentrail import outside
from agentrail.abc import Sandbox
from agentrail.logs import Logger
from agentrail.sandboxes.confinement import ShellFallback
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.view import Network

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

    Raises:
        OSError: It cannot be made.

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
    """Remove a directory with all that is in it, also where a command has taken the rights to that away. Blocks. Links are not followed."""

    def grant(_: object, path: str, __: object) -> None:
        above = Path(path).parent
        for one in (above, Path(path)):
            if one == directory or directory in one.parents:
                _make_writable(one)
        retry(path)

    def retry(path: str) -> None:
        try:
            if stat.S_ISDIR(os.lstat(path).st_mode):
                shutil.rmtree(path, onerror=tell)
            else:
                os.unlink(path)  # noqa: PTH108 - as `os.lstat` above
        except FileNotFoundError:
            pass
        except OSError as error:
            tell(None, path, (type(error), error, None))

    def tell(_: object, path: str, error: tuple[object, object, object]) -> None:
        LOGGER.warning("a workspace could not be removed as a whole: %s", error[1])

    shutil.rmtree(directory, onerror=grant)


def _make_writable(path: Path) -> None:
    try:
        if stat.S_ISDIR(path.lstat().st_mode):
            path.chmod(0o700)
    except OSError:  # gone, or another user's: what follows says so
        pass
