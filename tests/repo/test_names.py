"""One name, one meaning: a public name that two modules define is on the list of those that mean the same in each."""

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

PACKAGE: Final = Path(__file__).parents[2] / "agentrail"

ONE_MEANING: Final = {
    "BackgroundAgents": "the agents of a session in the background, awaited or blocking",
    "CycleStream": "the events of one cycle, awaited or blocking",
    "LOGGER": "the logger of each module",
    "Limits": "how much may wait or be asked for: in a machine, and at a host",
    "NAME": "the name of each wire format, where its module is the format",
    "Names": "the parts of a path, in all modules of the sandboxes",
    "Plugin": "the port, and the class that keeps to it",
    "S_co": "a type variable",
    "Session": "the handle to a session: the one that is awaited, and the one that blocks",
    "SessionMonitor": "watches a session, awaited or blocking",
    "SessionReports": "what happens to sessions, awaited or blocking",
    "Subscription": "what one subscriber reads, awaited or blocking",
    "Supervisor": "starts what it supervises again: actors, and in `blocking` sessions",
    "app": "each group of commands of the command line",
    "apply_config_update": "what a plugin may have and what the base class has",
    "connect": "opens the way to what is kept elsewhere: a session on a server, a database in a file",
    "main": "the entry of each program",
    "open_supervisor": "opens a supervisor: of actors, and of sessions, which is one of actors with what sessions need",
}
"""Names that several modules may define, because they mean the same in each."""


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case _:
                pass


def modules_of_public_names(package: Path) -> dict[str, list[str]]:
    """Which modules define each public name; type variables, which have one letter, are left out."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        module = path.relative_to(package).with_suffix("").as_posix()
        if any(part.startswith("_") and not part.startswith("__") for part in path.parts):
            continue
        for name in set(_defined(ast.parse(path.read_text(encoding="utf-8")).body)):
            if not name.startswith("_") and len(name) > 1:
                found[name].append(module)
    return found


named = functools.cache(lambda: modules_of_public_names(PACKAGE))


@pytest.mark.check  # goes through all of the package
def test_no_public_name_has_two_meanings():
    """Each is defined once, but for those on the list (16.6)."""
    found = {name: where for name, where in named().items() if len(where) > 1}
    assert {name: found[name] for name in found.keys() - ONE_MEANING.keys()} == {}


@pytest.mark.check
def test_the_list_of_names_only_shrinks():
    """A name that is defined once is not on it."""
    found = named()
    assert sorted(name for name in ONE_MEANING if len(found[name]) < 2) == []


def test_a_name_that_two_modules_define_is_found(tmp_path):
    """Classes, functions, aliases and constants count; what begins with an underscore does not."""
    (tmp_path / "one.py").write_text(
        "class Held: ...\nMAX: int = 1\n_own = 2\ndef run(): ...\nfrom two import Kept\n"
    )
    (tmp_path / "two.py").write_text("Held = int\nMAX = 2\n_own = 3\nasync def run(): ...\nclass Kept: ...\n")
    found = modules_of_public_names(tmp_path)
    assert {name for name, where in found.items() if len(where) > 1} == {"Held", "MAX", "run"}
