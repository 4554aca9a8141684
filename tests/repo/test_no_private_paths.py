"""The repository stands alone: it names no place of the machine on which it was written."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MADE_BY_TOOLS = {"__pycache__", "build", "dist", "bench-results"}

# Split, so that this file does not find itself. Paths of one machine; hosts of package registries, which the
# ordinary clients know and we need not.
NEEDLES = [
    "/wo" + "rk/",
    "shared/" + "spec",
    "py" + "pi.org",
    "files.python" + "hosted.org",
    "registry.npm" + "js.org",
    "deb.debian" + ".org",
    "proxy.golang" + ".org",
]


def files_of_the_repository() -> list[Path]:
    """What git knows or would add; without git, what is no tool's."""
    if shutil.which("git") and (ROOT / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
        return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]
    return list(_walk(ROOT))


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_file():
            yield path
        elif path.name == ".ci" or not (path.name.startswith(".") or path.name in MADE_BY_TOOLS):
            yield from _walk(path)


@pytest.mark.parametrize("needle", NEEDLES)
def test_no_file_names_a_private_place(needle):
    """No file that a clone would contain names this place."""
    files = files_of_the_repository()
    assert ROOT / "pyproject.toml" in files
    assert [str(path.relative_to(ROOT)) for path in files if needle.encode() in path.read_bytes()] == []
