"""The port of a sandbox: where file tools read and write, and where commands run. Refusals are values, never exceptions."""

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen


@frozen(kw_only=True)
class Refusal:
    """Why a sandbox did not do what it was asked. A value, because expected failures are no exceptions.

    Not `SandboxError`: that is the exception for a sandbox that cannot be made.

    Attributes:
        code: `file_not_found`, `permission_denied`, `is_directory`, `invalid_path`; ours are also `too_large`, `not_text`,
            `changed`, `no_space`, `timeout`, `unsupported`, `io_error`, `invalid_edit`, `old_not_found`,
            `old_not_unique`, `invalid_pattern`, `invalid_command` and `not_started`. Another sandbox may have its own.
        message: Fit for the model; never shows a path outside the sandbox.
    """

    code: str
    message: str


@frozen(kw_only=True)
class ReadResult:
    """Lines of a text file.

    Attributes:
        text: The lines that were asked for, with their ends as they are in the file, without a byte order mark.
        total_lines: Of the file; an end of line at its very end begins no other line.
        size_bytes: Of the file.
        error: Why there is no text, else None.
    """

    text: str = ""
    total_lines: int = 0
    size_bytes: int = 0
    error: Refusal | None = None


@frozen(kw_only=True)
class WriteResult:
    """A file that was written.

    Attributes:
        is_new: Whether there was none before.
        total_lines: Of the file.
        size_bytes: Of the file.
        sha256: Of its bytes, in hexadecimal: two writes of one content have the same.
        sha256_before: Of the bytes that were replaced; None when there were none, or too many to read.
        error: Why nothing was written, else None.
    """

    is_new: bool = False
    total_lines: int = 0
    size_bytes: int = 0
    sha256: str = ""
    sha256_before: str | None = None
    error: Refusal | None = None


@frozen(kw_only=True)
class EditResult:
    """A file in which a text was replaced.

    Attributes:
        replacements: How often.
        diff: Unified, of at most 4 KB; a last line says where it was cut.
        sha256: Of the new bytes, in hexadecimal.
        sha256_before: Of the old bytes.
        error: Why nothing was changed, else None.
    """

    replacements: int = 0
    diff: str = ""
    sha256: str = ""
    sha256_before: str | None = None
    error: Refusal | None = None


@frozen(kw_only=True)
class DirectoryEntry:
    """One name in a directory.

    Attributes:
        name: Without its directory.
        kind: `dir`, `file` or `link`; `other` for pipes, sockets and devices.
        size_bytes: Of a file, else 0.
        target: Of a link, else None.
    """

    name: str
    kind: str
    size_bytes: int = 0
    target: str | None = None


@frozen(kw_only=True)
class ListResult:
    """What is in a directory.

    Attributes:
        entries: Directories first, then by name.
        error: Why it could not be listed, else None.
    """

    entries: tuple[DirectoryEntry, ...] = ()
    error: Refusal | None = None


@frozen(kw_only=True)
class GrepOptions:
    """How to search.

    Attributes:
        include: Only files that fit this pattern, as of `glob`; one without `/` is about the name alone.
        context_lines: How many lines before and after each match.
        max_results: How many matching lines at most.
        ignore_case: Whether `a` finds `A`.
    """

    include: str | None = None
    context_lines: int = 2
    max_results: int = 50
    ignore_case: bool = False


@frozen(kw_only=True)
class GrepLine:
    """A line that matches, or one beside it.

    Attributes:
        path: Of its file, from the root of the sandbox.
        number: From 1.
        text: Without its end.
        is_match: False for context.
    """

    path: str
    number: int
    text: str
    is_match: bool = True


@frozen(kw_only=True)
class GrepResult:
    """What a search found.

    Attributes:
        lines: By file, then by number.
        searched_files: How many files were looked through.
        truncated: Whether there are more matches.
        error: Why there was no search, else None.
    """

    lines: tuple[GrepLine, ...] = ()
    searched_files: int = 0
    truncated: bool = False
    error: Refusal | None = None


@frozen(kw_only=True)
class GlobResult:
    """What has a name that fits.

    Attributes:
        paths: From the root of the sandbox, sorted; directories end with `/`.
        truncated: Whether there are more.
        error: Why there was no search, else None.
    """

    paths: tuple[str, ...] = ()
    truncated: bool = False
    error: Refusal | None = None


@frozen(kw_only=True)
class FileBytes:
    """A file on its way into a sandbox.

    Attributes:
        path: Where it belongs.
        content: All of it.
    """

    path: str
    content: bytes


@frozen(kw_only=True)
class Transfer:
    """What became of one file of an upload or a download.

    Attributes:
        path: As it was given.
        content: Of a download that worked, else None.
        size_bytes: How much was moved.
        error: Why nothing was moved, else None.
    """

    path: str
    content: bytes | None = None
    size_bytes: int = 0
    error: Refusal | None = None


@frozen(kw_only=True)
class ExecuteOptions:
    """How to run a command.

    Attributes:
        workdir: Where it begins.
        timeout_seconds: After this time it is stopped, with all that it started.
        output_name: What the file with the whole output is called, without directory and ending, should the output be
            too long to be shown; minted when None.
    """

    workdir: str = "."
    timeout_seconds: float = 30.0
    output_name: str | None = None


@frozen(kw_only=True)
class ExecuteResult:
    """What a command did.

    Attributes:
        output: Standard output and error in their real order; undecodable bytes are U+FFFD. Of much the beginning and
            the end, with a note between them.
        exit_code: None when a signal ended it, when it was stopped, or when it never ran.
        signal: Its number, when one ended it.
        duration_ms: From start to end.
        truncated: Whether a part of the output is not in `output`.
        output_path: The file that has all of it, when it is truncated.
        stopped_processes: How many processes it left running, which were stopped.
        timed_out: Whether the time was up.
        written_protected: Protected paths that it made or changed and that could not be kept from it.
        error: Why it was not run, else None.
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

    Paths are relative to a root. An expected failure is the `error` of a result; exceptions are bugs or cancellation.
    `agentrail.testing.check_sandbox` holds any implementation against this.
    """

    @property
    def capabilities(self) -> frozenset[str]:
        """What it can, of `execute`, `snapshot` and `versions`; without it the answer is `unsupported`."""
        ...

    async def read(self, path: str, *, offset: int = 1, limit: int | None = None) -> ReadResult:
        """Read a text file, from line `offset` on, `limit` lines or all. Past the end is no error, but empty."""
        ...

    async def write(self, path: str, content: str) -> WriteResult:
        """Replace a whole file or make it, with the directories above it. A crash leaves the old one or the new one."""
        ...

    async def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> EditResult:
        """Replace the one occurrence of a text, or all. Line ends, byte order mark and mode stay as they are."""
        ...

    async def exists(self, path: str) -> bool:
        """Tell whether there is a file or directory; False for every path that would be refused."""
        ...

    async def list_dir(self, path: str) -> ListResult:
        """List a directory; links are shown, not followed."""
        ...

    async def grep(self, pattern: str, path: str, options: GrepOptions) -> GrepResult:
        """Search text files for a regular expression, below a directory or in a file."""
        ...

    async def glob(self, pattern: str, path: str) -> GlobResult:
        """Find files and directories by `* ** ? [a-z] {a,b}`, at most 500."""
        ...

    async def upload(self, files: Sequence[FileBytes]) -> tuple[Transfer, ...]:
        """Write files as bytes; each has its own answer, in order, and no failure stops the others."""
        ...

    async def download(self, paths: Sequence[str]) -> tuple[Transfer, ...]:
        """Read files as bytes; each has its own answer, in order, and no failure stops the others."""
        ...

    async def execute(self, command: str, options: ExecuteOptions) -> ExecuteResult:
        """Run a shell command with closed input.

        Cancelling it ends all that it started, grandchildren included, before the cancellation travels on.
        """
        ...

    async def aclose(self) -> None:
        """Let go of what it holds; again if you like. Nothing may be under way."""
        ...


class SnapshotSandbox(Sandbox, Protocol):
    """A sandbox with the capability `snapshot`."""

    async def snapshot(self) -> str:
        """Keep all files as they are now.

        Returns:
            What to call that state.
        """
        ...

    async def restore(self, snapshot_id: str) -> Refusal | None:
        """Make all files what they were.

        Returns:
            None; or why nothing was changed: `file_not_found` for a state that was never kept.
        """
        ...
