"""The port of the files for agents above the working directory: the sandbox ends there, and they do not.

What is read is a closed set of names in a fixed row of directories. No path enters, and nothing of the model's.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeAlias

from agentrail.core.protocol.hooks import InstructionsFound


class InstructionFiles(Protocol):
    """Reads the files for agents that hold for one working directory."""

    def read(self, names: tuple[str, ...]) -> InstructionsFound:
        """Read the user's file, and one of each directory from the root of the repository down to the working directory.

        Args:
            names: Of `INSTRUCTION_NAMES`; in each directory the first one that says something counts.

        Returns:
            What was found, the farthest first; of each text at most one character more than is ever shown. A link that leads out of the
            repository is not followed: its file is among those that could not be read.

        Raises:
            ValueError: The caller's move: another name. No other one is ever looked at.

        Runs in a thread, and blocks on the file system.
        """
        ...


FindInstructions: TypeAlias = Callable[[Path], InstructionFiles]
"""Gives the port for a working directory; nothing is read yet."""
