"""Prints the lowest version that `pyproject.toml` allows of each thing a user installs, as constraints for pip.

    python scripts/lower_bounds.py > constraints.txt

The extras `test`, `docs` and `dev` are left out: they hold our tools, and no user has them.
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
OURS: Final = frozenset({"dev", "docs", "test"})
_NAMED: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?(?P<versions>.*)")
_LOWEST: Final = re.compile(r"(?:>=|==|~=)\s*(?P<version>[0-9][0-9A-Za-z.]*)")


def constraints(project: Mapping[str, Any]) -> Iterator[str]:
    """Each requirement of a user, held to its lower bound.

    Args:
        project: The table `project` of a pyproject.toml.

    Raises:
        ValueError: A requirement has no lower bound, so nobody can say whether the suite holds on it.
    """
    extras = project.get("optional-dependencies", {})
    wanted = [
        *project.get("dependencies", ()),
        *(one for name in extras if name not in OURS for one in extras[name]),
    ]
    for requirement in wanted:
        named = _NAMED.fullmatch(requirement)
        if named is None or named["name"] == project["name"]:  # an extra that names other extras of ours
            continue
        lowest = _LOWEST.search(named["versions"])
        if lowest is None:
            message = f"{requirement!r} has no lower bound: write {named['name']}>=VERSION, the oldest that the suite passes on"
            raise ValueError(message)
        yield f"{named['name']}=={lowest['version']}"


if __name__ == "__main__":
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sys.stdout.writelines(f"{line}\n" for line in constraints(table))
