"""The port of instruction files above the working directory, which the sandbox cannot reach. Takes no path, and no input from the model."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeAlias

from agentrail.core.protocol.hooks import InstructionsFound


class InstructionFiles(Protocol):
    """Reads the instruction files that apply to one working directory."""

    def read(self, names: tuple[str, ...]) -> InstructionsFound:
        """Read the user's file, and one file per directory from the repository root down to the working directory.

        Args:
            names: Names from `INSTRUCTION_NAMES`. In each directory, the first non-empty file counts.

        Returns:
            The files found, farthest first. Each text has at most one character more than is shown. A link out of the repository is listed as unreadable.

        Raises:
            ValueError: The caller's move: a name outside the set.

        Blocks on the file system, so it runs in a thread.
        """
        ...


FindInstructions: TypeAlias = Callable[[Path], InstructionFiles]
"""Returns the port for a working directory, without reading anything yet."""
