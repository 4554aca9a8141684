"""The port of instruction files above the working directory, which the sandbox cannot reach.

Only a closed set of names in a fixed list of directories is read. The port takes no path, and no input from the model.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeAlias

from agentrail.core.protocol.hooks import InstructionsFound


class InstructionFiles(Protocol):
    """Reads the instruction files that apply to one working directory."""

    def read(self, names: tuple[str, ...]) -> InstructionsFound:
        """Read the user's file, and one file from each directory from the repository root down to the working directory.

        Args:
            names: Names from `INSTRUCTION_NAMES`. In each directory, the first non-empty file counts.

        Returns:
            The files found, farthest first. Each text has at most one character more than is ever shown. A link that leads
            out of the repository is not followed: its file is listed as unreadable.

        Raises:
            ValueError: The caller's move: a name outside the set. Such a file is never read.

        Runs in a thread, and blocks on the file system.
        """
        ...


FindInstructions: TypeAlias = Callable[[Path], InstructionFiles]
"""Returns the port for a working directory, without reading anything yet."""
