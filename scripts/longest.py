"""Prints the five longest functions and files of agentrail, and every broad `except` that does not raise.

It fails where one is longer than anything may be, unless it stands in `TABLES` with a reason. It shows the tails too, because
they grow unseen.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from attrs import field, frozen

PACKAGE: Final = Path(__file__).parent.parent / "agentrail"
MAX_FUNCTION_LINES: Final = 70
MAX_FILE_LINES: Final = 700
TABLES: Final[Mapping[str, str]] = MappingProxyType({})
"""Functions that may be longer: tables in the shape of a `match`, each with the reason why it is one."""

BROAD: Final = frozenset({"Exception", "BaseException", "ExceptionGroup", "BaseExceptionGroup"})
RAISES: Final = "raise_what_travels"
"""The function of `runtime.crashes` that raises again what an edge may not keep."""


@frozen(kw_only=True, order=True)
class Place:
    """Something that is so many lines long, and where it begins."""

    lines: int
    where: str

    @property
    def name(self) -> str:
        """Its name, whatever stands before it in the file: `agentrail/core/session/machine.py _take`."""
        file, _, function = self.where.partition(" ")
        return f"{file.partition(':')[0]} {function}".rstrip()


@frozen(kw_only=True)
class Survey:
    """What a tree of modules looks like from far away; the longest comes first."""

    functions: tuple[Place, ...] = ()
    files: tuple[Place, ...] = ()
    swallowing: tuple[str, ...] = field(default=())  # `path:line` of each broad `except` without a `raise`


def survey(package: Path) -> Survey:
    """Measure every module below a folder.

    Args:
        package: The folder; places are named from its parent on.

    Raises:
        SyntaxError: A module does not parse.
    """
    functions: list[Place] = []
    files: list[Place] = []
    swallowing: list[str] = []
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(package.parent).as_posix()
        files.append(Place(lines=len(text.splitlines()), where=name))
        for node in ast.walk(ast.parse(text, filename=name)):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    lines = (node.end_lineno or node.lineno) - node.lineno + 1
                    functions.append(Place(lines=lines, where=f"{name}:{node.lineno} {node.name}"))
                case ast.ExceptHandler() if _is_broad(node.type) and not _raises(node):
                    swallowing.append(f"{name}:{node.lineno}")
                case _:
                    pass
    return Survey(
        functions=tuple(sorted(functions, reverse=True)),
        files=tuple(sorted(files, reverse=True)),
        swallowing=tuple(swallowing),
    )


def _is_broad(caught: ast.expr | None) -> bool:
    match caught:
        case None:  # a bare `except:`
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in BROAD
        case ast.Tuple(elts=elements):
            return any(_is_broad(element) for element in elements)
        case _:
            return False


def _raises(handler: ast.ExceptHandler) -> bool:
    return any(
        isinstance(node, ast.Raise)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == RAISES)
        for node in ast.walk(handler)
    )


def report(found: Survey, *, rows: int = 5) -> Iterator[str]:
    """The survey as lines of text."""
    yield "Longest functions, in lines:"
    yield from (f"  {place.lines:4d}  {place.where}" for place in found.functions[:rows])
    yield "Longest files, in lines:"
    yield from (f"  {place.lines:4d}  {place.where}" for place in found.files[:rows])
    yield f"Broad excepts that do not raise: {len(found.swallowing)}"
    yield from (f"        {where}" for where in found.swallowing)


def too_long(found: Survey, tables: Mapping[str, str] = TABLES) -> Iterator[str]:
    """Name what is longer than anything may be, and what may be longer and is not."""
    for limit, kind, places in (
        (MAX_FUNCTION_LINES, "function", found.functions),
        (MAX_FILE_LINES, "file", found.files),
    ):
        for place in places:
            if place.lines > limit and place.name not in tables:
                yield f"{place.where} has {place.lines} lines, a {kind} has at most {limit}: split it"
    long = {place.name for place in found.functions if place.lines > MAX_FUNCTION_LINES}
    yield from (
        f"{name} is no longer too long: take it out of TABLES" for name in sorted(tables.keys() - long)
    )


def main() -> int:
    """Print the survey; 1 when something is too long."""
    found = survey(PACKAGE)
    sys.stdout.writelines(f"{line}\n" for line in report(found))
    faults = list(too_long(found))
    sys.stderr.writelines(f"{line}\n" for line in faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
