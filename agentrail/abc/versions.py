"""The port of a sandbox that tells what is written through it, so that a session can go back with its files too."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from attrs import frozen

from agentrail.abc.sandbox import Refusal, Sandbox
from agentrail.core.journal.files import FileWrite, WantedFile

GetContent: TypeAlias = Callable[[str], bytes | None]
"""Gives what a file contained by its SHA-256, or None; it blocks, and is called in a worker thread."""

FileOutcome: TypeAlias = Literal["restored", "removed", "same", "conflict", "failed"]
"""What became of a path: it was written, or removed; it was like that already; it is another than was left; or it could not be done."""


class FileKeeper(Protocol):
    """Who is told of what is written, before it is written."""

    async def keep(self, changes: Sequence[FileWrite], contents: Mapping[str, bytes]) -> Refusal | None:
        """Keep what is about to be written, durably.

        Args:
            changes: What is written next.
            contents: What stood there and what will, by SHA-256, as far as it is not too large.

        Returns:
            None; or why it cannot be kept, and then it is not written.
        """
        ...

    def take_back(self, changes: Sequence[FileWrite]) -> None:
        """Hear that these were not made after all."""
        ...

    async def keep_command(self) -> Refusal | None:
        """Keep that a command runs next, of which it cannot be said what it writes.

        Returns:
            None; or why it cannot be kept, and then it does not run.
        """
        ...


@frozen(kw_only=True)
class PutBack:
    """What became of one path.

    Attributes:
        path: As it was wanted.
        outcome: What became of it.
        why: Of a conflict and of a failure, a sentence.
    """

    path: str
    outcome: FileOutcome
    why: str = ""


@runtime_checkable
class VersionedSandbox(Protocol):
    """What a sandbox with the capability `versions` has besides."""

    def kept_by(self, keeper: FileKeeper) -> Sandbox:
        """Give the same sandbox for one call: what is written through it is told first. Nothing is to be closed."""
        ...

    async def put_back(
        self, wanted: Sequence[WantedFile], content: GetContent, keeper: FileKeeper, *, force: bool = False
    ) -> tuple[PutBack, ...]:
        """Let files be what they were. What is not what was left there stays as it is, unless it is forced.

        Nothing is written until all of it stands beside its places: a disk that is full changes no file.

        Args:
            wanted: Which, and what they were.
            content: What they contained.
            keeper: Is told what is written.
            force: Whether what others wrote since is overwritten.

        Returns:
            What became of each, in order.

        Cancellation: Before the first of them is put in its place nothing was done; from then on all of it is.
        """
        ...

    async def copy_to(self, directory: Path) -> Sandbox:
        """Copy all files into a directory that is not there yet, or is empty, and open that with the same settings.

        Raises:
            SandboxError: Your move: there is something in the directory, or it cannot be made; or there is no space left. Nothing of the
                copy is left.

        Cancellation: Nothing of the copy is left.
        """
        ...
