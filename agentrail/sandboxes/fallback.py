"""What becomes of commands where nothing can confine them. Stands for itself, so that a command can name the choice and import no sandbox."""

from typing import Literal, TypeAlias

ShellFallback: TypeAlias = Literal["refuse", "unconfined"]
"""They are refused, or run with all rights of the process."""
