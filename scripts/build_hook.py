"""What the build of a wheel does beyond packing: with `AGENTRAIL_COMPILE=1` it compiles the modules that `compiling.py` finds.

Our own, and not hatch-mypyc: that takes patterns of paths, where ours follow from what a module defines, and it would write
into the checkout; here a copy is compiled. Without the variable nothing is asked of the machine, no mypy and no C compiler.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE: Final = "AGENTRAIL_COMPILE"
_COMPILING: Final = "scripts/compiling.py"
_RECORD: Final = "agentrail/compiled.json"


class CompilingHook(BuildHookInterface[Any]):
    """Puts compiled modules beside their sources."""

    def dependencies(self) -> list[str]:
        """Say what the build needs to be installed: nothing, or a compiler and what it reads types from."""
        if not is_wanted():
            return []
        # The mypy that judges our types is the one that compiles them: another one may find what this one does not.
        dev = self.metadata.core.optional_dependencies["dev"]
        types = [needed for needed in dev if needed.startswith(("mypy==", "types-"))]
        return ["setuptools>=77", *types, *self.metadata.core.dependencies]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile a copy of the package, and add what was made to the wheel."""
        if not is_wanted():
            return
        if version == "editable":
            message = (
                f"{VARIABLE} does not go with an editable install: what is edited would not be what runs; "
                f"install without -e, or unset {VARIABLE}"
            )
            raise ValueError(message)
        root = Path(self.root)
        self._folder = Path(tempfile.mkdtemp(prefix="agentrail-compiled-"))
        shutil.copytree(
            root / "agentrail",
            self._folder / "agentrail",
            ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.pyd"),
        )
        command = (sys.executable, str(root / _COMPILING), str(self._folder), self.metadata.version)
        subprocess.run(command, check=True, stdout=sys.stderr)  # noqa: S603 - our own script
        record = json.loads((self._folder / _RECORD).read_text(encoding="utf-8"))
        made = (_RECORD, *record["extensions"])
        build_data["force_include"].update({str(self._folder / path): path for path in made})
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Take the copy away."""
        if is_wanted():
            shutil.rmtree(self._folder, ignore_errors=True)


def is_wanted() -> bool:
    """Say whether this build is to compile.

    Raises:
        ValueError: Your move: the variable is neither 0 nor 1.
    """
    match os.environ.get(VARIABLE, ""):
        case "" | "0":
            return False
        case "1":
            return True
        case other:
            message = f"{VARIABLE} is {other!r}: expected 1 (compile), 0 or nothing (do not)"
            raise ValueError(message)
