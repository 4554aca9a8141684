"""An environment for each peer, because what they need does not go together, and must not reach ours."""

import subprocess
import sys
from pathlib import Path
from typing import Final

from benchmarks.idle import ROOT

PEERS: Final = ("agent-framework", "autogen", "agno", "pydantic-ai")
HOME: Final = ROOT / ".bench-peers"
_REQUIREMENTS: Final = Path(__file__).parent / "requirements"
_SHOWN_LINES: Final = 5


class CannotInstall(Exception):
    """A peer could not be installed; the text says why, as pip does."""


def python_of(peer: str, home: Path = HOME) -> Path:
    """Say which Python runs a peer."""
    return home / peer / "bin" / "python"


def requirements_of(peer: str) -> tuple[str, ...]:
    """Say what a peer is, with versions, as pip takes it."""
    lines = (line.partition("#")[0].strip() for line in _file_of(peer).read_text().splitlines())
    return tuple(line for line in lines if line)


def install(peer: str, home: Path = HOME) -> None:
    """Make the environment of a peer, unless it is there with just these versions.

    Raises:
        CannotInstall: Nobody's, or the index's: there is no such version for this Python, or no network.
    """
    stamp = home / peer / "installed.txt"
    wanted = _file_of(peer).read_text()
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    print(f"installing {peer}", file=sys.stderr, flush=True)
    # Our own pip installs into it: to give each environment a pip of its own takes longer than some peers do.
    _run(peer, sys.executable, "-m", "venv", "--clear", "--without-pip", str(home / peer))
    into = ("--python", str(python_of(peer, home)), "--disable-pip-version-check")
    _run(peer, sys.executable, "-m", "pip", *into, "install", "--quiet", "--requirement", str(_file_of(peer)))
    stamp.write_text(wanted)


def _file_of(peer: str) -> Path:
    return _REQUIREMENTS / f"{peer}.txt"


def _run(peer: str, *command: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - venv and pip
    if ran.returncode:
        said = "\n".join((ran.stderr or ran.stdout).strip().splitlines()[-_SHOWN_LINES:])
        message = f"{peer} cannot be installed:\n{said}"
        raise CannotInstall(message)
