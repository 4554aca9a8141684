"""`LocalSandbox`: a directory of this machine. Files are confined to it; commands only start in it.

How a path is judged stands in `paths.py`, how it is opened in `beneath.py`, how a command lives and ends in `command.py`.
Here they meet the port.
"""

import difflib
import errno
import functools
import os
import shutil
import stat
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final, TypeVar

import trio

from agentrail.abc import CommandResult, DirectoryEntry, FileText, Refusal
from agentrail.errors import SandboxError
from agentrail.sandboxes.beneath import find_opener
from agentrail.sandboxes.command import Command, run_command
from agentrail.sandboxes.paths import decide_names
from agentrail.sandboxes.process_tree import has_proc
from agentrail.sandboxes.text import decode_text

T = TypeVar("T")
Names = tuple[str, ...]

MAX_FILE_BYTES: Final = 50_000_000
MAX_FILE_THREADS: Final = 8

_MAX_NAMES_SHOWN: Final = 5
_MAX_NAMES_COMPARED: Final = 1_000

_PASSED_ON: Final = frozenset({"PATH", "HOME", "LANG", "TZ", "TERM", "USER"})
"""What a command sees of our environment, and `LC_*`: a list of what may, because keys have any name."""


class LocalSandbox:
    """A directory of this machine as a `Sandbox`.

    Files: only what lies below the root can be opened, whatever links are made or moved meanwhile. Commands run with the
    rights of the user and are not confined; they begin in the root, see few variables, and nothing of them outlives the
    call.

    File work runs in worker threads. A local disk would answer sooner than a thread starts (25 µs against 190 µs for a
    listing), but a network file system may take seconds, in which no session of the process would move. Cancelled, the
    thread is left to end by itself: it only reads, and nothing can interrupt such a file system.
    """

    def __init__(
        self, root: str | os.PathLike[str], *, env: Mapping[str, str] | None = None, allow_root: bool = False
    ) -> None:
        """Open the root. It stays the same directory, even when another takes its name.

        Args:
            root: An existing directory.
            env: Variables that commands see, besides those that are passed on.
            allow_root: Take even `/`.

        Raises:
            SandboxError: Your move: the root is missing, is no directory, cannot be opened, or is `/`.
        """
        given = Path(os.path.abspath(root))  # noqa: PTH100 - resolve() would also follow links; both names count
        resolved = given.resolve()
        if resolved == Path("/") and not allow_root:
            message = (
                "the root of a sandbox is '/', the whole machine: name a directory, or set allow_root=True"
            )
            raise SandboxError(message)
        try:
            self._root = os.open(given, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            message = (
                f"the root {str(given)!r} cannot be opened ({error.strerror}): name an existing directory"
            )
            raise SandboxError(message) from None
        self._close_root = weakref.finalize(self, os.close, self._root)
        self._open = find_opener(self._root)
        self._path = resolved
        self._roots = (PurePosixPath(given), PurePosixPath(resolved))
        self._env = dict(env or {})
        self._threads = trio.CapacityLimiter(MAX_FILE_THREADS)

    def __repr__(self) -> str:
        return f"LocalSandbox({str(self._path)!r})"

    async def aclose(self) -> None:
        """Close the root; again if you like. Nothing may be under way."""
        self._close_root()
        await trio.lowlevel.checkpoint()

    async def read_text(self, path: str) -> FileText | Refusal:
        """Read a text file of at most 50 MB: UTF-8 with or without a byte order mark, or UTF-16 with one.

        Returns:
            The text; a `Refusal` with the code `file_not_found`, `is_directory`, `invalid_path`, `permission_denied`,
            `too_large` or `not_text`.

        Cancellation: Takes effect at once; nothing has changed.
        """
        return await self._in_thread("file", path, self._read_text)

    async def list_dir(self, path: str) -> tuple[DirectoryEntry, ...] | Refusal:
        """List a directory: subdirectories first, then by name. Links are shown, not followed.

        Returns:
            The entries; a `Refusal` with the code `file_not_found`, `invalid_path` or `permission_denied`.

        Cancellation: Takes effect at once; nothing has changed.
        """
        return await self._in_thread("directory", path, self._list_dir)

    async def execute(self, command: str, *, workdir: str, within_seconds: float) -> CommandResult | Refusal:
        """Run a command with `bash -c`, or `sh -c` where there is no bash, with the rights of the user.

        Args:
            command: For the shell.
            workdir: Where it begins, below the root.
            within_seconds: After this time it is stopped, with all that it started.

        Returns:
            What it did; a `Refusal` when it did not start.

        Cancellation: The command and all that it started get `SIGTERM`, two seconds later `SIGKILL`; then it travels on.
        """
        shell = shutil.which("bash") or shutil.which("sh")
        if shell is None:
            return Refusal(
                code="unsupported", message="Commands are disabled: neither bash nor sh is installed here."
            )
        if "\0" in command or not _is_encodable(command):
            message = (
                "The command has a NUL or a lone surrogate in it, which no command can have. Leave it out."
            )
            return Refusal(code="invalid_command", message=message)
        # Not abandoned when cancelled: the descriptor would be lost.
        directory = await self._in_thread("directory", workdir, self._open_directory, abandon=False)
        if isinstance(directory, Refusal):
            return directory
        try:
            return await run_command(
                Command(
                    argv=(shell, "-c", command),
                    directory=self._directory_name(directory, workdir),
                    environment=self._environment(),
                    within_seconds=within_seconds,
                )
            )
        except OSError as error:
            return Refusal(code="not_started", message=f"The command could not be started: {error.strerror}.")
        finally:
            os.close(directory)

    # --- in the event loop

    async def _in_thread(
        self, what: str, path: str, work: Callable[[Names], T | Refusal], *, abandon: bool = True
    ) -> T | Refusal:
        if not self._close_root.alive:
            message = f"{self!r} was closed"
            raise trio.ClosedResourceError(message)
        names = decide_names(path, self._roots)
        if isinstance(names, Refusal):
            await trio.lowlevel.checkpoint()
            return names
        call = functools.partial(self._refusing, what, work, names)
        return await trio.to_thread.run_sync(call, abandon_on_cancel=abandon, limiter=self._threads)

    def _environment(self) -> dict[str, str]:
        passed_on = {
            name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith("LC_")
        }
        return passed_on | self._env

    def _directory_name(self, directory: int, workdir: str) -> str:
        # By descriptor where that works, so that the command begins in what was opened, whatever is renamed meanwhile.
        return f"/proc/self/fd/{directory}" if has_proc() else str(self._path.joinpath(workdir))

    # --- in worker threads

    def _refusing(self, what: str, work: Callable[[Names], T | Refusal], names: Names) -> T | Refusal:
        try:
            return work(names)
        except OSError as error:
            if error.errno == errno.ENOENT:
                message = f"No such {what}: {_shown(names)}.{self._neighbours(names)}"
                return Refusal(code="file_not_found", message=message)
            code, reason = _REASONS.get(error.errno or 0, ("io_error", error.strerror))
            return Refusal(code=code, message=f"{_shown(names)}: {reason}.")

    def _read_text(self, names: Names) -> FileText | Refusal:
        descriptor = self._open(self._root, names, os.O_RDONLY)
        try:
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode):
                message = f'{_shown(names)} is a directory. Use list_dir("{_shown(names)}").'
                return Refusal(code="is_directory", message=message)
            if not stat.S_ISREG(status.st_mode):
                message = f"{_shown(names)} is no regular file: pipes, sockets and devices are not read."
                return Refusal(code="permission_denied", message=message)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                # What the status says is not trusted: the file may grow, and under /proc every size is 0.
                data = file.read(MAX_FILE_BYTES + 1) if status.st_size <= MAX_FILE_BYTES else None
        finally:
            os.close(descriptor)
        if data is None or len(data) > MAX_FILE_BYTES:
            size_bytes = max(status.st_size, MAX_FILE_BYTES + 1)
            message = f"{_shown(names)} has {size_bytes:,} bytes, at most {MAX_FILE_BYTES:,} are read. Look at a part with a command."
            return Refusal(code="too_large", message=message)
        text = decode_text(data, _shown(names))
        return text if isinstance(text, Refusal) else FileText(text=text, size_bytes=len(data))

    def _list_dir(self, names: Names) -> tuple[DirectoryEntry, ...]:
        descriptor = self._open_directory(names)
        try:
            with os.scandir(descriptor) as found:
                entries = [entry for item in found if (entry := _describe(item, descriptor)) is not None]
        finally:
            os.close(descriptor)
        return tuple(sorted(entries, key=lambda entry: (entry.kind != "dir", entry.name)))

    def _open_directory(self, names: Names) -> int:
        return self._open(self._root, names, os.O_RDONLY | os.O_DIRECTORY)

    def _neighbours(self, names: Names) -> str:
        """Say what there is in the deepest directory on the way that exists, what is named most alike first."""
        for depth in range(len(names) - 1, -1, -1):
            try:
                descriptor = self._open_directory(names[:depth])
            except OSError:
                continue
            try:
                every = os.listdir(descriptor)  # noqa: PTH208 - pathlib lists no descriptor
            finally:
                os.close(descriptor)
            found = [name for name in every[:_MAX_NAMES_COMPARED] if name.isprintable()]
            found.sort(key=lambda name: (-difflib.SequenceMatcher(None, name, names[depth]).ratio(), name))
            shown = ", ".join(found[:_MAX_NAMES_SHOWN]) or "nothing"
            return f' list_dir("{_shown(names[:depth])}") shows: {shown}'
        return ""


_REASONS: Final[Mapping[int, tuple[str, str]]] = MappingProxyType(
    {
        errno.ENOTDIR: ("invalid_path", "it is no directory, or leads through something that is none"),
        errno.EXDEV: ("invalid_path", "a link in it leads out of the working directory"),
        errno.ELOOP: ("invalid_path", "it leads through a link that is not followed"),
        errno.ENAMETOOLONG: ("invalid_path", "it is too long"),
        errno.EACCES: ("permission_denied", "the user may not read it"),
        errno.EPERM: ("permission_denied", "the user may not read it"),
        errno.ENXIO: ("permission_denied", "sockets and devices are not opened"),
        errno.ENODEV: ("permission_denied", "sockets and devices are not opened"),
    }
)


def _describe(item: "os.DirEntry[str]", directory: int) -> DirectoryEntry | None:
    try:
        if item.is_symlink():
            return DirectoryEntry(
                name=item.name, kind="link", target=os.readlink(item.name, dir_fd=directory)
            )
        if item.is_dir(follow_symlinks=False):
            return DirectoryEntry(name=item.name, kind="dir")
        if item.is_file(follow_symlinks=False):
            return DirectoryEntry(
                name=item.name, kind="file", size_bytes=item.stat(follow_symlinks=False).st_size
            )
    except FileNotFoundError:  # removed since the listing began
        return None
    return DirectoryEntry(name=item.name, kind="other")


def _shown(names: Names) -> str:
    return "/".join(names) or "."


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
