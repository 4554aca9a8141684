"""Which modules a compiled build compiles, and how: `AGENTRAIL_COMPILE=1 pip install .`, or `make compiled-test`.

    python scripts/compiling.py                    lists them, and why each other module of the rooms is left out
    python scripts/compiling.py TREE VERSION       compiles those of TREE in place, and writes its record
    python scripts/compiling.py TREE VERSION NAME  compiles that one alone, without a record: for its mutants

Nothing is listed by name: what a module defines decides, so a module that is moved or split needs no second edit. A module
of these rooms is compiled when it has functions, and every class in it is marked `@typing.final`, plain, and derived from
nothing that is interpreted. mypyc does not know Structs and attrs classes; and interpreted code (ours, and that of users)
cannot derive from a compiled class, which `@final` promises in both builds. One that must stay interpreted for another
reason says so in a line of its own: `# not compiled: the reason`.

They are compiled together, so that they call each other without a detour through the interpreter. So it is all of them or
none: see `agentrail/builds.py`, which looks whether they belong together before the first is imported.
"""

import ast
import importlib.machinery
import json
import os
import re
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
ROOMS: Final = ("errors", "messages", "otp", "core", "plugins")
"""The rooms whose modules may be compiled: the pure ones that the events and their parts are not defined in."""

RECORD: Final = "agentrail/compiled.json"
SUFFIX: Final = importlib.machinery.EXTENSION_SUFFIXES[0]
_MARK: Final = re.compile(r"^# not compiled: (.+)$", re.MULTILINE)
_PLAIN_BASES: Final = frozenset({"Generic"})


@cache  # of a module that did not change it says the same
def reason_against(source: str) -> str | None:
    """Say why a module is not compiled; None where it is.

    Args:
        source: Its text.
    """
    marked = _MARK.search(source)
    if marked is not None:
        return marked[1]
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    if not any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes):
        return "it has no functions"
    return next(
        (said for node in nodes if isinstance(node, ast.ClassDef) and (said := _fault_of(node))), None
    )


def _fault_of(defined: ast.ClassDef) -> str | None:
    bases = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in defined.bases]
    foreign = [base for base in bases if base not in _PLAIN_BASES]
    if foreign or defined.keywords:
        return f"{defined.name} derives from {', '.join(foreign) or 'a metaclass'}"
    marks = [ast.unparse(mark).rpartition(".")[2] for mark in defined.decorator_list]
    if marks != ["final"]:
        return f"{defined.name} is {'decorated' if set(marks) - {'final'} else 'not marked @final'}"
    return None


def sources(root: Path) -> Iterator[Path]:
    """Give the modules of the rooms, in a fixed order; an `__init__` is a signpost and no module."""
    for room in ROOMS:
        found = [root / f"agentrail/{room}.py", *sorted((root / f"agentrail/{room}").rglob("*.py"))]
        yield from (path for path in found if path.is_file() and path.name != "__init__.py")


def verdicts(root: Path) -> Mapping[str, str | None]:
    """Say of each module of the rooms, by its dotted name, why it is not compiled; None where it is."""
    return {
        ".".join(path.relative_to(root).with_suffix("").parts): reason_against(
            path.read_text(encoding="utf-8")
        )
        for path in sources(root)
    }


def compiled_modules(root: Path = ROOT) -> tuple[str, ...]:
    """Name the modules that are compiled."""
    return tuple(name for name, reason in verdicts(root).items() if reason is None)


def compile_tree(root: Path, version: str) -> tuple[str, ...]:
    """Compile the modules of a tree in place, and write the record that `agentrail.builds` reads.

    Args:
        root: Has `agentrail/` in it. It is the working directory too: mypyc names its files from there.
        version: Of the package.

    Returns:
        The paths of what was made, from `root`.

    Raises:
        SystemExit: mypy or the C compiler refused; what they said is on stderr.
    """
    names = compiled_modules(root)
    checked = {name: zlib.crc32((root / _path_of(name)).read_bytes()) for name in names}
    # The name of the shared library has the version and the sources in it: a shim of another build asks for another one.
    group = f"agentrail_{re.sub('[^0-9a-z]', '_', version)}_{zlib.crc32(repr(checked).encode()):08x}"
    _run_mypyc([_path_of(name) for name in names], group, level="3")
    made = [f"{group}__mypyc{SUFFIX}", *(_path_of(name)[: -len(".py")] + SUFFIX for name in names)]
    record = {
        "version": version,
        "suffix": SUFFIX,
        "extensions": {path: zlib.crc32((root / path).read_bytes()) for path in made},
        "sources": checked,
    }
    (root / RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")
    return (*made, RECORD)


def _path_of(name: str) -> str:
    return name.replace(".", "/") + ".py"


def _run_mypyc(paths: Sequence[str], group: str | None, *, level: str) -> None:
    # Late, because nothing but this needs them: a pure build has neither.
    from mypyc.build import mypycify  # noqa: PLC0415 - as above
    from setuptools import Distribution  # noqa: PLC0415 - as above
    from setuptools.command.build_ext import build_ext  # noqa: PLC0415 - as above

    # Types are judged by `make lint`, with the versions that we pinned; here only what mypyc needs to know of them.
    flags = ["--config-file=", "--explicit-package-bases", "--ignore-missing-imports"]
    # One alone is compiled again and again, each time with another bug: so what mypy knows of all others is kept, for which mypyc
    # has no other word than this one. It takes a third of the time.
    extensions = mypycify(
        [*flags, *paths], opt_level=level, debug_level="0", group_name=group, separate=group is None
    )
    command = build_ext(Distribution({"name": group or "alone", "ext_modules": extensions}))
    command.inplace = True
    command.ensure_finalized()
    command.run()


def main(arguments: Sequence[str]) -> int:
    """List what is compiled and what is not, or compile a tree; give the exit code."""
    if not arguments:
        for name, reason in verdicts(ROOT).items():
            print(f"{name:44} {'compiled' if reason is None else f'not compiled: {reason}'}")
        return 0
    tree, version, *alone = arguments
    os.chdir(tree)
    if alone:
        _run_mypyc([_path_of(name) for name in alone], None, level="0")
        return 0
    made = compile_tree(Path(), version)
    print(f"{len(made)} files: {len(made) - 2} modules, the library that they share, and the record")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
