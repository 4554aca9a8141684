"""Whether each public type is said, as a type checker that is not ours reads it: `python -m scripts.verify_types`.

mypy infers what has no annotation, and so does pyright; but not the same. `pyright --verifytypes` names what a user's checker
could read otherwise. One unsaid attribute is in the report once for each signature that leads to it, so what stands at the root
is printed, and what only follows is counted.
"""

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
_FOLLOWS: Final = ("Type of parameter", "Return type", "Type of base class")
"""How messages begin that say of a symbol only that it leads to another one."""


def search_path(root: Path = ROOT) -> str:
    """Give where pyright is to look: it does not follow what an editable install leaves behind."""
    return os.pathsep.join([str(root), sysconfig.get_path("purelib")])


def run_pyright(*arguments: str, where: Path) -> Mapping[str, Any]:
    """Run pyright in a folder, and give its report.

    Args:
        arguments: What to look at.
        where: The folder, whose `pyrightconfig.json` holds; that of a checkout would be read too.

    Raises:
        RuntimeError: It gave none; what it said is the message.
    """
    environment = {**os.environ, "PYTHONPATH": search_path()}
    # As JSON also because it then asks no server for a newer version of itself.
    command = [sys.executable, "-m", "pyright", "--outputjson", *arguments]
    done = subprocess.run(  # noqa: S603 - our own interpreter, and what is written above
        command, cwd=where, env=environment, capture_output=True, text=True, check=False
    )
    try:
        report: Mapping[str, Any] = json.loads(done.stdout)
    except ValueError:
        message = f"pyright gave no report: {done.stderr or done.stdout}"
        raise RuntimeError(message) from None
    return report


def unsaid(completeness: Mapping[str, Any], root: Path = ROOT) -> list[str]:
    """Name what is not said, a line each: what stands at the root, or all where nothing does.

    Args:
        completeness: `typeCompleteness` of the report.
        root: Paths are written from here.
    """
    roots: list[str] = []
    follow: list[str] = []
    for symbol in completeness["symbols"]:
        for one in symbol["diagnostics"] if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"] else ():
            message = " ".join(one["message"].split())
            line = f"{_place(one, root)}{symbol['name']}: {message}"
            (follow if message.startswith(_FOLLOWS) else roots).append(line)
    return roots or follow


def _place(diagnostic: Mapping[str, Any], root: Path) -> str:
    if not diagnostic.get("file"):  # of what is inherited, pyright names no place
        return ""
    path = os.path.relpath(diagnostic["file"], root)
    return f"{path}:{diagnostic['range']['start']['line'] + 1}: "


def main() -> int:
    """Print what is not said, and the score; 1 unless it is full."""
    with tempfile.TemporaryDirectory() as nowhere:  # without a configuration of anybody's
        report = run_pyright("--verifytypes", "agentrail", "--ignoreexternal", where=Path(nowhere))
    completeness = report.get("typeCompleteness")
    if completeness is None:
        print(*(one["message"] for one in report["generalDiagnostics"]), sep="\n")
        return 1
    counts, score = completeness["exportedSymbolCounts"], completeness["completenessScore"]
    for line in unsaid(completeness):
        print(line)
    wanting = counts["withAmbiguousType"] + counts["withUnknownType"]
    print(f"{sum(counts.values())} public symbols, {wanting} without a type that is said: {score:.1%}")
    return 0 if score == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
