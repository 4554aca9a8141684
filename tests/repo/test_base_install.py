"""What somebody gets who installs agentrail without an extra stays light (14.5)."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
MOST_PACKAGES = 32
MOST_BYTES = 60_000_000


def closure(requirements):
    """All distributions that these bring along, by name, as they are installed here."""
    found: dict[str, metadata.Distribution] = {}
    wanted = [Requirement(one) for one in requirements]
    while wanted:
        one = wanted.pop()
        name = re.sub(r"[-_.]+", "-", one.name).lower()
        extras = one.extras or {""}
        if name in found or not (one.marker is None or one.marker.evaluate({"extra": ""})):
            continue
        found[name] = metadata.distribution(name)
        below = [Requirement(line) for line in found[name].requires or ()]
        wanted += [
            Requirement(f"{it.name}[{','.join(it.extras)}]" if it.extras else it.name)
            for it in below
            if it.marker is None or any(it.marker.evaluate({"extra": extra}) for extra in extras)
        ]
    return found


def test_the_base_is_light():
    """Packages are counted with all that they need; bytes are those that their installers wrote down."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = closure(project["dependencies"])
    assert {"trio", "httpx", "attrs"} <= found.keys()
    assert len(found) <= MOST_PACKAGES, sorted(found)
    written = sum(file.size or 0 for one in found.values() for file in one.files or ())
    assert 10_000_000 < written < MOST_BYTES, written


def test_an_extra_is_not_in_the_base():
    """Who wants it installs it: nothing heavy comes along unasked."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    unasked = {"numpy", "lxml", "trafilatura", "hypothesis", "pytest", "starlette", "hypercorn", "pydantic"}
    unasked |= {"trio-websocket", "wsproto"}
    assert not unasked & closure(project["dependencies"]).keys()
