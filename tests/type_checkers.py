"""mypy as users of the package run it, for tests of what it says of their programs."""

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent

# Kept, and one for all tests that ask: mypy reads half of the library for any program, and that takes half a minute once.
CACHE: Final = ROOT / ".mypy_cache" / "as users see it"


def strict_mypy(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run `mypy --strict` on the modules of a folder, without our own settings."""
    command = [
        *(sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={CACHE}"),
        *options,
        ".",
    ]
    environment = {"PYTHONPATH": "", "MYPYPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
