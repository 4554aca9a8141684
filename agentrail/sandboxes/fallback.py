"""Treatment of commands that cannot be confined. A separate module, so that a command can use it without importing a sandbox."""

from typing import Literal, TypeAlias

ShellFallback: TypeAlias = Literal["refuse", "unconfined"]
"""Commands are refused, or run with all rights of the process."""
