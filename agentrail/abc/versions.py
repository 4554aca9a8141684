"""The port of a sandbox that reports every write, for rewinding files."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from attrs import frozen

from agentrail.abc.sandbox import Refusal, Sandbox
from agentrail.core.journal.file_changes import FileWrite, WantedFile

GetContent: TypeAlias = Callable[[str], bytes | None]
"""Returns the content with this SHA-256, or None. It blocks, and is called in a worker thread."""

FileOutcome: TypeAlias = Literal["restored", "removed", "same", "conflict", "failed"]
"""Outcome for a path: written, removed, already as wanted, changed by other code since, or failed."""


class FileKeeper(Protocol):
    """Receives every write before it happens."""

    async def keep(self, changes: Sequence[FileWrite], contents: Mapping[str, bytes]) -> Refusal | None:
        """Record durably the writes about to happen.

        Args:
            changes: The next writes.
            contents: Old and new contents by SHA-256, except those that are too large.

        Returns:
            None, or why they cannot be recorded and nothing is written.
        """
        ...

    def take_back(self, changes: Sequence[FileWrite]) -> None:
        """Withdraw recorded changes that did not happen."""
        ...

    async def keep_command(self) -> Refusal | None:
        """Record that a command with unknown writes is about to run.

        Returns:
            None, or why it cannot be recorded and must not run.
        """
        ...


@frozen(kw_only=True)
class PutBack:
    """Outcome for one path.

    Attributes:
        path: The path as requested.
        outcome: Outcome for the path.
        why: One sentence for a conflict or a failure.
    """

    path: str
    outcome: FileOutcome
    why: str = ""


@runtime_checkable
class VersionedSandbox(Protocol):
    """Additional methods of a sandbox with the capability `versions`."""

    def kept_by(self, keeper: FileKeeper) -> Sandbox:
        """Return the same sandbox for one call, reporting writes to a keeper. Needs no closing."""
        ...

    async def put_back(
        self, wanted: Sequence[WantedFile], content: GetContent, keeper: FileKeeper, *, force: bool = False
    ) -> tuple[PutBack, ...]:
        """Restore files to an earlier content. Files changed since stay, unless forced.

        All contents are first written next to their targets, so that a full disk changes nothing.

        Args:
            wanted: Files, and their earlier contents by hash.
            content: Returns the contents.
            keeper: Receives the writes.
            force: Whether to overwrite later changes by other code.

        Returns:
            The outcome for each file, in order.

        Cancellation: All files are replaced, or none.
        """
        ...

    async def copy_to(self, directory: Path) -> Sandbox:
        """Copy all files into a new or empty directory, and open it with the same settings.

        Raises:
            SandboxError: Your move: the directory is not empty or cannot be created, or the disk is full. The partial copy is removed.

        Cancellation: The partial copy is removed.
        """
        ...
