"""The port of a sandbox, which reads and writes files and runs commands. Refusals are values, never exceptions."""

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen


@frozen(kw_only=True)
class Refusal:
    """Reason that a sandbox refused an operation. A value, because expected failures are not exceptions.

    Not `SandboxError`, which is the exception for a sandbox that cannot be created.

    Attributes:
        code: `file_not_found`, `permission_denied`, `is_directory`, `invalid_path`. Our own sandboxes also use `too_large`,
            `not_text`, `changed`, `no_space`, `timeout`, `unsupported`, `io_error`, `invalid_edit`, `old_not_found`,
            `old_not_unique`, `invalid_pattern`, `invalid_command` and `not_started`. Other sandboxes may define more.
        message: Text that can be shown to the model. It never contains a path outside the sandbox.
    """

    code: str
    message: str


@frozen(kw_only=True)
class ReadResult:
    """Lines of a text file.

    Attributes:
        text: The requested lines with their original line ends, without a byte order mark.
        total_lines: Number of lines in the file. A final line end starts no further line.
        size_bytes: Size of the file.
        error: Reason that there is no text, or None.
    """

    text: str = ""
    total_lines: int = 0
    size_bytes: int = 0
    error: Refusal | None = None


@frozen(kw_only=True)
class WriteResult:
    """A written file.

    Attributes:
        is_new: Whether the file did not exist before.
        total_lines: Number of lines in the file.
        size_bytes: Size of the file.
        sha256: SHA-256 of its bytes, hexadecimal: equal content has an equal hash.
        sha256_before: SHA-256 of the replaced bytes, or None if there were none, or too many to read.
        error: Reason that nothing was written, or None.
    """

    is_new: bool = False
    total_lines: int = 0
    size_bytes: int = 0
    sha256: str = ""
    sha256_before: str | None = None
    error: Refusal | None = None


@frozen(kw_only=True)
class EditResult:
    """An edited file.

    Attributes:
        replacements: Number of replacements.
        diff: Unified diff of at most 4 KB. If it was cut, the last line says so.
        sha256: SHA-256 of the new bytes, hexadecimal.
        sha256_before: SHA-256 of the old bytes, hexadecimal.
        error: Reason that nothing was changed, or None.
    """

    replacements: int = 0
    diff: str = ""
    sha256: str = ""
    sha256_before: str | None = None
    error: Refusal | None = None


@frozen(kw_only=True)
class DirectoryEntry:
    """An entry of a directory.

    Attributes:
        name: Name without its directory.
        kind: `dir`, `file` or `link`, or `other` for pipes, sockets and devices.
        size_bytes: Size of a file, otherwise 0.
        target: Target of a link, otherwise None.
    """

    name: str
    kind: str
    size_bytes: int = 0
    target: str | None = None


@frozen(kw_only=True)
class ListResult:
    """Contents of a directory.

    Attributes:
        entries: Directories first, then by name.
        error: Reason that it could not be listed, or None.
    """

    entries: tuple[DirectoryEntry, ...] = ()
    error: Refusal | None = None


@frozen(kw_only=True)
class GrepOptions:
    """Options of a search.

    Attributes:
        include: Search only files that match this `glob` pattern. A pattern without `/` applies to the file name alone.
        context_lines: Number of lines to return before and after each match.
        max_results: Maximum number of matching lines.
        ignore_case: Whether `a` matches `A`.
    """

    include: str | None = None
    context_lines: int = 2
    max_results: int = 50
    ignore_case: bool = False


@frozen(kw_only=True)
class GrepLine:
    """A matching line, or a line of context.

    Attributes:
        path: Path of the file, from the root of the sandbox.
        number: Line number, from 1.
        text: The line without its line end.
        is_match: False for context.
    """

    path: str
    number: int
    text: str
    is_match: bool = True


@frozen(kw_only=True)
class GrepResult:
    """Result of a search.

    Attributes:
        lines: Matching and context lines, by file, then by number.
        searched_files: Number of files searched.
        truncated: Whether there are more matches.
        error: Reason that nothing was searched, or None.
    """

    lines: tuple[GrepLine, ...] = ()
    searched_files: int = 0
    truncated: bool = False
    error: Refusal | None = None


@frozen(kw_only=True)
class GlobResult:
    """Paths that match a pattern.

    Attributes:
        paths: Paths from the root of the sandbox, sorted. Directories end with `/`.
        truncated: Whether there are more.
        error: Reason that nothing was searched, or None.
    """

    paths: tuple[str, ...] = ()
    truncated: bool = False
    error: Refusal | None = None


@frozen(kw_only=True)
class FileBytes:
    """A file to upload into a sandbox.

    Attributes:
        path: Destination.
        content: All bytes of the file.
    """

    path: str
    content: bytes


@frozen(kw_only=True)
class Transfer:
    """Result for one file of an upload or a download.

    Attributes:
        path: The path as it was given.
        content: Bytes of a successful download, otherwise None.
        size_bytes: Number of bytes transferred.
        error: Reason that nothing was transferred, or None.
    """

    path: str
    content: bytes | None = None
    size_bytes: int = 0
    error: Refusal | None = None


@frozen(kw_only=True)
class ExecuteOptions:
    """Options of a command.

    Attributes:
        workdir: Initial directory.
        timeout_seconds: Time limit. After it, the command and all its descendants are stopped.
        output_name: Name of the file for the whole output, without directory and extension, used if the output is too long to
            be shown. None generates one.
    """

    workdir: str = "."
    timeout_seconds: float = 30.0
    output_name: str | None = None


@frozen(kw_only=True)
class ExecuteResult:
    """Result of a command.

    Attributes:
        output: Standard output and error, interleaved as written. Undecodable bytes become U+FFFD. The middle of long output
            is replaced by a note.
        exit_code: Exit code, or None if a signal ended it, it was stopped, or it never ran.
        signal: Number of the signal that ended it, or None.
        duration_ms: Run time, in milliseconds.
        truncated: Whether `output` is incomplete.
        output_path: File with the whole output, if truncated.
        stopped_processes: Number of leftover processes that were stopped.
        timed_out: Whether the time limit was reached.
        written_protected: Protected paths that the command created or changed, because the sandbox could not prevent it.
        error: Reason that it was not run, or None.
    """

    output: str = ""
    exit_code: int | None = None
    signal: int | None = None
    duration_ms: int = 0
    truncated: bool = False
    output_path: str | None = None
    stopped_processes: int = 0
    timed_out: bool = False
    written_protected: tuple[str, ...] = ()
    error: Refusal | None = None


class Sandbox(Protocol):
    """One port for files and commands, local or remote.

    Paths are relative to a root. An expected failure is the `error` of a result. Exceptions are bugs or cancellation.
    `agentrail.testing.check_sandbox` tests any implementation.
    """

    @property
    def capabilities(self) -> frozenset[str]:
        """Return the supported subset of `execute`, `snapshot` and `versions`. Unsupported calls return `unsupported`."""
        ...

    async def read(self, path: str, *, offset: int = 1, limit: int | None = None) -> ReadResult:
        """Read a text file from line `offset`, `limit` lines or all. Reading past the end returns an empty text, not an error."""
        ...

    async def write(self, path: str, content: str) -> WriteResult:
        """Replace or create a whole file, including missing parent directories. A crash leaves either the old file or the new one."""
        ...

    async def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> EditResult:
        """Replace the only occurrence of a text, or all of them. Line ends, byte order mark and mode are preserved."""
        ...

    async def exists(self, path: str) -> bool:
        """Return whether a file or directory exists. False for every path that would be refused."""
        ...

    async def list_dir(self, path: str) -> ListResult:
        """List a directory. Links are listed, not followed."""
        ...

    async def grep(self, pattern: str, path: str, options: GrepOptions) -> GrepResult:
        """Search text files for a regular expression, below a directory or in one file."""
        ...

    async def glob(self, pattern: str, path: str) -> GlobResult:
        """Find files and directories by `* ** ? [a-z] {a,b}`, at most 500."""
        ...

    async def upload(self, files: Sequence[FileBytes]) -> tuple[Transfer, ...]:
        """Write files as bytes. Each has its own result, in order, and no failure stops the others."""
        ...

    async def download(self, paths: Sequence[str]) -> tuple[Transfer, ...]:
        """Read files as bytes. Each has its own result, in order, and no failure stops the others."""
        ...

    async def execute(self, command: str, options: ExecuteOptions) -> ExecuteResult:
        """Run a shell command with closed input.

        Cancellation: All descendants of the command, however deep, are ended before the cancellation propagates.
        """
        ...

    async def aclose(self) -> None:
        """Release all resources. Idempotent. No operation may be in progress."""
        ...


class SnapshotSandbox(Sandbox, Protocol):
    """A sandbox with the capability `snapshot`."""

    async def snapshot(self) -> str:
        """Save the current state of all files.

        Returns:
            Id of the snapshot.
        """
        ...

    async def restore(self, snapshot_id: str) -> Refusal | None:
        """Restore all files to a snapshot.

        Returns:
            None, or the reason that nothing was changed: `file_not_found` for an unknown snapshot.
        """
        ...
