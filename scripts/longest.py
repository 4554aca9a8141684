"""Prints the figures that keep the package readable: `python -m scripts.longest`, or `make longest`.

The five longest functions, files and classes, every broad `except` that does not raise, and the figures of `bars.toml`. It
fails where something is longer than its limit, unless it is in `TABLES` with a reason, and where a figure is worse than its
bar. A class counts with its mixins, and without docstrings and comments: cutting a class into ten files does not shorten it.
"""

import ast
import gc
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from attrs import field, frozen

from scripts import module_survey, walks
from scripts.compiling import compiled_modules

PACKAGE: Final = Path(__file__).parent.parent / "agentrail"
MAX_FUNCTION_LINES: Final = 70
MAX_FILE_LINES: Final = 1_000
LONG_CLASS_LINES: Final = 700
BARS: Final = Path(__file__).parent / "bars.toml"
TABLES: Final[Mapping[str, str]] = MappingProxyType({})
"""Functions that may be longer: tables in the shape of a `match`, each with its reason."""

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
    classes: tuple[Place, ...] = ()  # lines of code, with the mixins
    lines: int = 0
    code_lines: int = 0  # without blank lines, comments, docstrings and imports
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
    classes = _Classes()
    code_lines = 0
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(package.parent).as_posix()
        nodes = module_survey.nodes_of(text, name)
        files.append(Place(lines=len(text.splitlines()), where=name))
        code = _code_lines(text, nodes)
        code_lines += len(code)
        imported = _imported(nodes)
        for node in nodes:
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    lines = (node.end_lineno or node.lineno) - node.lineno + 1
                    functions.append(Place(lines=lines, where=f"{name}:{node.lineno} {node.name}"))
                case ast.ClassDef():
                    classes.add(node, name, code, imported)
                case ast.ExceptHandler() if _is_broad(node.type) and not _raises(node):
                    swallowing.append(f"{name}:{node.lineno}")
                case _:
                    pass
    return Survey(
        functions=tuple(sorted(functions, reverse=True)),
        files=tuple(sorted(files, reverse=True)),
        classes=tuple(sorted(classes.places(), reverse=True)),
        lines=sum(place.lines for place in files),
        code_lines=code_lines,
        swallowing=tuple(swallowing),
    )


def _code_lines(text: str, nodes: Sequence[ast.AST]) -> frozenset[int]:
    """The numbers of lines that are code: not blank, and no part of a comment, a docstring or an import."""
    other: set[int] = set()
    for node in nodes:
        match node:
            case (
                ast.Import()
                | ast.ImportFrom()
                | ast.Expr(value=ast.Constant(value=str()))  # also the text below a field
            ):
                other.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            case _:
                pass
    return frozenset(
        number
        for number, line in enumerate(text.splitlines(), 1)
        if number not in other and line.strip() and not line.lstrip().startswith("#")
    )


@frozen
class _Classes:
    """The classes of a package, to be measured with their bases in the package."""

    _lines: dict[str, int] = field(
        factory=dict
    )  # by file and name, as in `agentrail/runtime/session_handle.py Session`
    _bases: dict[str, list[str]] = field(factory=dict)

    def add(
        self, defined: ast.ClassDef, file: str, code: frozenset[int], imported: Mapping[str, str]
    ) -> None:
        place = f"{file} {defined.name}"
        self._lines[place] = sum(defined.lineno <= number <= (defined.end_lineno or 0) for number in code)
        names = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in defined.bases]
        self._bases[place] = [imported.get(name, f"{file} {name}") for name in names]

    def places(self) -> Iterator[Place]:
        for place in self._lines:
            found, left = set[str](), [place]
            while left:
                one = left.pop()
                if one in self._lines and one not in found:
                    found.add(one)
                    left += self._bases[one]
            yield Place(lines=sum(self._lines[one] for one in found), where=place)


def _imported(nodes: Sequence[ast.AST]) -> dict[str, str]:
    """Where each name that a module imports from another of ours is defined, as `_Classes` names places."""
    return {
        alias.asname or alias.name: f"{node.module.replace('.', '/')}.py {alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


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
        for node in module_survey.walk(handler)
    )


def report(found: Survey, *, rows: int = 5) -> Iterator[str]:
    """The survey as lines of text."""
    yield "Longest functions, in lines:"
    yield from (f"  {place.lines:4d}  {place.where}" for place in found.functions[:rows])
    yield "Longest files, in lines:"
    yield from (f"  {place.lines:4d}  {place.where}" for place in found.files[:rows])
    yield "Longest classes, in lines of code, with their mixins:"
    yield from (f"  {place.lines:4d}  {place.where}" for place in found.classes[:rows])
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


def figures(found: Survey, package: Path = PACKAGE) -> dict[str, float]:
    """Measure what `bars.toml` holds; runs the walks, which takes some seconds.

    Args:
        found: The survey of the package.
        package: Its folder.
    """
    modules = module_survey.survey_modules(package, max_file_lines=MAX_FILE_LINES)
    pairs = list(module_survey.similar_classes(package))
    measured: dict[str, float] = {
        "lines": found.lines,
        "code_lines": found.code_lines,
        "longest_class": max((place.lines for place in found.classes), default=0),
        "swallowing_excepts": len(found.swallowing),
        "long_classes": sum(place.lines > LONG_CLASS_LINES for place in found.classes),
        "mergeable_modules_percent": modules.mergeable_percent,
        "similar_class_pairs": len(pairs),
        "similar_class_pairs_without_reason": len(module_survey.pairs_by_reason(pairs).get("", ())),
        "compiled_modules": len(compiled_modules(package.parent)),
        "compiled_functions": module_survey.compiled_functions(package),
    }
    for name in walks.WALKS:
        walk = walks.measure(name)
        measured |= {
            f"{name}_files": walk.files,
            f"{name}_functions": walk.functions,
            f"{name}_calls": walk.calls,
            f"{name}_depth": walk.depth,
        }
    return measured


def below_bars(measured: Mapping[str, float], bars: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Name each figure that is worse than its bar, and each that has none.

    Args:
        measured: The figures.
        bars: The tables `at_most` and `at_least` of `bars.toml`.
    """
    at_most, at_least = bars["at_most"], bars["at_least"]
    for name, figure in measured.items():
        if name in at_most and figure > at_most[name]:
            yield f"{name} is {figure:g}, its bar is {at_most[name]:g}: simplify, or raise the bar with a reason"
        elif name in at_least and figure < at_least[name]:
            yield f"{name} is {figure:g}, its bar is {at_least[name]:g}: find what was lost"
        elif name not in at_most and name not in at_least:
            yield f"{name} has no bar in {BARS.name}: add one"
    yield from (
        f"{name} is in {BARS.name} and is not measured: take it out"
        for name in sorted((at_most.keys() | at_least.keys()) - measured.keys())
    )


def main() -> int:
    """Print survey and figures; 1 when something is too long or worse than its bar."""
    found = survey(PACKAGE)
    sys.stdout.writelines(f"{line}\n" for line in report(found))
    bars = tomllib.loads(BARS.read_text(encoding="utf-8"))
    measured = figures(found)
    limits = {name: f"{kind.replace('_', ' ')} {bar:g}" for kind in bars for name, bar in bars[kind].items()}
    sys.stdout.writelines(
        f"{name:28} {figure:8g}   {limits.get(name, 'no bar')}\n" for name, figure in measured.items()
    )
    faults = [*too_long(found), *below_bars(measured, bars)]
    sys.stderr.writelines(f"{line}\n" for line in faults)
    return 1 if faults else 0


if __name__ == "__main__":
    gc.disable()  # the trees have no cycles, and to look through them takes a third of the time
    sys.exit(main())
