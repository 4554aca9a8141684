"""The port of a sandbox, which reads and writes files and runs commands."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from attrs import frozen

from agentrail.otp.field_rules import CheckedFields, Count, CountOrZero, TimeLimit
from agentrail.structs import SafeNumber


@frozen(kw_only=True)
class Refusal:
    """Reason that a sandbox refused an operation, as a value.

    Not `SandboxError`, raised if a sandbox cannot be created.

    Attributes:
        code: `file_not_found`, `permission_denied`, `is_directory`, `invalid_path`. Ours also use `too_large`, `not_text`, `changed`, `no_space`, `timeout`,
            `unsupported`, `io_error`, `invalid_edit`, `old_not_found`, `old_not_unique`, `invalid_pattern`, `invalid_command` and `not_started`. Others may
            define more.
        message: Text for the model, without paths outside the sandbox.
    """

    code: str
    message: str


@frozen(kw_only=True)
class ReadResult:
    """Lines of a text file.

    Attributes:
        text: Requested lines with original line ends, without a byte order mark.
        total_lines: Number of lines in the file.
        size_bytes: Size of the file.
        error: Reason that there is no text, or None.
    """

    text: str = ""
    total_lines: SafeNumber = 0
    size_bytes: SafeNumber = 0
    error: Refusal | None = None


@frozen(kw_only=True)
class WriteResult:
    """A written file.

    Attributes:
        is_new: Whether the file did not exist before.
        total_lines: Number of lines in the file.
        size_bytes: Size of the file.
        sha256: SHA-256 of its bytes, hexadecimal.
        sha256_before: SHA-256 of the replaced bytes, or None if none, or too many to read.
        error: Reason that nothing was written, or None.
    """

    is_new: bool = False
    total_lines: SafeNumber = 0
    size_bytes: SafeNumber = 0
    sha256: str = ""
    sha256_before: str | None = None
    error: Refusal | None = None


@frozen(kw_only=True)
class EditResult:
    """An edited file.

    Attributes:
        replacements: Number of replacements.
        diff: Unified diff of at most 4 KB, marked if cut.
        sha256: SHA-256 of the new bytes, hexadecimal.
        sha256_before: SHA-256 of the old bytes, hexadecimal.
        error: Reason that nothing was changed, or None.
    """

    replacements: SafeNumber = 0
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
    size_bytes: SafeNumber = 0
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
class GrepOptions(CheckedFields):
    """Options of a search.

    Attributes:
        include: Search only files that match this `glob` pattern. Without `/`, it applies to the file name.
        context_lines: Lines of context before and after each match.
        max_results: Maximum number of matching lines.
        ignore_case: Whether `a` matches `A`.
    """

    include: str | None = None
    context_lines: CountOrZero = 2
    max_results: Count = 50
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
    number: SafeNumber
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
    searched_files: SafeNumber = 0
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
    size_bytes: SafeNumber = 0
    error: Refusal | None = None


@frozen(kw_only=True)
class ExecuteOptions(CheckedFields):
    """Options of a command.

    Attributes:
        workdir: Initial directory.
        timeout_seconds: Time limit. It stops the command and its descendants.
        output_name: Name of the file for the whole output if it is too long, without directory and extension. None generates one.
    """

    workdir: str = "."
    timeout_seconds: TimeLimit = 30.0
    output_name: str | None = None


@frozen(kw_only=True)
class ExecuteResult:
    """Result of a command.

    Attributes:
        output: Standard output and error, interleaved as written. Undecodable bytes become U+FFFD. The middle of long output is replaced by a note.
        exit_code: Exit code, or None if signalled, stopped or never run.
        signal: Number of the signal that ended it, or None.
        duration_ms: Run time, in milliseconds.
        truncated: Whether `output` is incomplete.
        output_path: File with the whole output, if truncated.
        stopped_processes: Number of leftover processes that were stopped.
        timed_out: Whether the time limit was reached.
        written_protected: Protected paths that the command changed, where the sandbox could not prevent it.
        error: Reason that it was not run, or None.
    """

    output: str = ""
    exit_code: int | None = None
    signal: int | None = None
    duration_ms: SafeNumber = 0
    truncated: bool = False
    output_path: str | None = None
    stopped_processes: SafeNumber = 0
    timed_out: bool = False
    written_protected: tuple[str, ...] = ()
    error: Refusal | None = None


class Sandbox(Protocol):
    """One port for files and commands, local or remote.

    Paths are relative to a root. Expected failures are the `error` of a result. Exceptions are bugs or cancellation. Test a sandbox with
    `agentrail.testing.check_sandbox`.
    """

    @property
    def capabilities(self) -> frozenset[str]:
        """Return the supported subset of `execute`, `snapshot` and `versions`. Unsupported calls return `unsupported`."""
        ...

    async def read(self, path: str, *, offset: int = 1, limit: int | None = None) -> ReadResult:
        """Read a text file from line `offset`, `limit` lines or all. Past the end, the text is empty."""
        ...

    async def write(self, path: str, content: str) -> WriteResult:
        """Replace or create a file with its parent directories. A crash leaves the old file or the new one."""
        ...

    async def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> EditResult:
        """Replace the only occurrence of a text, or all of them. Line ends, byte order mark and mode are preserved."""
        ...

    async def exists(self, path: str) -> bool:
        """Return whether a file or directory exists. False for refused paths."""
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
        """Write files as bytes. Each has its own result, in order."""
        ...

    async def download(self, paths: Sequence[str]) -> tuple[Transfer, ...]:
        """Read files as bytes. Each has its own result, in order."""
        ...

    async def execute(self, command: str, options: ExecuteOptions) -> ExecuteResult:
        """Run a shell command with closed input.

        Cancellation: All descendants are ended before it propagates.
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
            None, or why nothing changed: `file_not_found` for an unknown snapshot.
        """
        ...


@runtime_checkable
class KeepsResultFiles(Protocol):
    """A sandbox that keeps files of tool results below `.agentrail/mcp/`, where tools read and never write."""

    async def keep_result_file(self, name: str, data: bytes) -> Refusal | None:
        """Write a file.

        Args:
            name: A plain file name.
            data: All bytes.

        Returns:
            None, or why it was not written.
        """
        ...
