"""Code that takes from the machine what a seed should give, by file, line and door: `python -m scripts.doors [FOLDER]`.

Two halves. What can be seen by its name is a list for ruff, `doors.toml`. What hangs on types is looked for here, in trees that
mypy has read: the order of a set, which hangs on hashes; `id` and `hash` where something is ordered or shown; code that runs
when the collector comes. A set may be counted, searched, compared and sorted; what goes through it is to be sorted before.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import frozen
from mypy import build, nodes, options, types
from mypy.find_sources import create_source_list
from mypy.main import process_options
from mypy.modulefinder import BuildSource
from mypy.util import hard_exit

ROOT: Final = Path(__file__).parent.parent
LIST: Final = Path(__file__).parent / "doors.toml"

LET_OFF: Final[Mapping[str, str]] = {
    "agentrail/testing/": "stands on the other side of the doors; what it draws, Hypothesis draws again",
    "agentrail/cli/": "a program for one person and one terminal, in no simulation",
}
"""Folders that this half does not look at, and why; those of the other half stand in `doors.toml`."""

_ORDERLESS: Final = frozenset(
    {"builtins." + name for name in ("all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum")}
)
"""What comes to the same in whatever order it is given the items."""

_LAZY: Final = frozenset({"builtins.filter", "builtins.map"})
"""What hands the items on in the order in which it gets them, and does nothing of itself."""

_SHOWN: Final = frozenset({"builtins." + name for name in ("ascii", "format", "print", "repr", "str")})
_RANKED: Final = frozenset({"builtins." + name for name in ("max", "min", "sorted")})
_GOES_THROUGH: Final = frozenset(
    {"_typeshed.SupportsIter", "typing.Collection", "typing.Iterable", "typing.Iterator"}
)
_IN_ORDER: Final = frozenset({"typing.MappingView"})
"""Sets that go through their items as the dict does that they belong to."""

_OF_SETS: Final = "a set has no order that a seed could give: sort it, or keep a dict"
_OF_IDS: Final = "is another one in each process: number things in the order in which they come"


# mypy's own visitors are compiled, and nothing interpreted may derive from them; these are the fields that hold what is below.
_BELOW: Final = (
    *(
        "defs",
        "base_type_exprs",
        "keywords",
        "decorators",
        "func",
        "items",
        "impl",
        "arguments",
        "initializer",
    ),
    *("subject", "patterns", "guards", "bodies", "target", "types", "vars", "handlers", "lvalues", "lvalue"),
    *("rvalue", "index", "condlists", "sequences", "left_expr", "generator", "key", "value", "begin_index"),
    *("end_index", "stride", "callee", "args", "base", "left", "right", "operands", "cond", "if_expr"),
    *("else_expr", "expr", "from_expr", "msg", "body", "else_body", "finally_body", "pattern", "class_ref"),
    *("positionals", "keyword_values", "keys", "values"),
)


@frozen(kw_only=True, order=True)
class Finding:
    """A place where something comes from the machine.

    Attributes:
        file: From the folder in which the command runs.
        line: From 1.
        said: The door, or why there is none, and what to do.
    """

    file: str
    line: int
    said: str

    def __str__(self) -> str:
        """Say it as compilers do."""
        return f"{self.file}:{self.line}: {self.said}"


def find_names(folder: Path, root: Path = ROOT) -> list[Finding]:
    """Look for what `doors.toml` lists.

    Args:
        folder: Where.
        root: The exceptions are paths from here.
    """
    command = [
        "ruff",
        "check",
        "--config",
        str(LIST),
        "--no-cache",
        "--output-format",
        "concise",
        str(folder),
    ]
    beside = Path(sys.executable).with_name("ruff")
    if beside.exists():
        command[0] = str(beside)
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)  # noqa: S603 - our linter
    if ran.returncode not in {0, 1}:
        raise SystemExit(ran.stderr)
    return sorted(_read(line) for line in ran.stdout.splitlines() if ": TID251 " in line)


def _read(line: str) -> Finding:
    place, _, said = line.partition(": TID251 ")
    file, number, _ = place.rsplit(":", 2)
    return Finding(file=file, line=int(number), said=said)


def find_orders(folder: Path) -> list[Finding]:
    """Look for what hangs on types, in all modules of a folder.

    Raises:
        mypy.errors.CompileError: One of them cannot be read.
    """
    given = options.Options()
    given.python_version = (3, 11)
    given.explicit_package_bases = given.namespace_packages = True
    given.ignore_missing_imports = given.ignore_errors = True
    found, _ = _find_in(create_source_list([str(folder)], given), given)
    return found


def check_types(folder: str = "agentrail") -> tuple[list[Finding], list[str]]:
    """Check all that pyproject.toml names, as mypy does, and look for what hangs on types in a folder of it.

    One run of mypy serves both: from its cache come no types, so each would read everything anew.

    Returns:
        The findings, and what mypy reports.
    """
    sources, given = process_options([])
    return _find_in(sources, given, f"{folder}/")


def _find_in(
    sources: list[BuildSource], given: options.Options, below: str = ""
) -> tuple[list[Finding], list[str]]:
    looked_at = [source for source in sources if f"{source.path}".startswith(below)]
    given.incremental = False  # a tree that comes from the cache has no types in it
    given.preserve_asts = given.export_types = True
    # Of everything else only the signatures are kept: bodies would take most of the time.
    given.per_module_options |= {
        "*.*": {"preserve_asts": False},
        **{source.module: {"preserve_asts": True} for source in looked_at},
    }
    built = build.build(sources, given)
    found: list[Finding] = []
    for source in looked_at:
        tree = built.files[source.module]
        if not any(part in f"{tree.path}" for part in LET_OFF):
            look = _Look(tree.path, built.types)
            look.read(tree)
            found += look.found
    return sorted(set(found)), built.errors


class _Look:
    def __init__(self, path: str, known: Mapping[nodes.Expression, types.Type]) -> None:
        self.found: list[Finding] = []
        self._path = path
        self._types = known
        self._orderless: set[nodes.Expression] = set()
        self._looks: Mapping[type[nodes.Node], Callable[[Any], None]] = {
            nodes.ForStmt: self._for_stmt,
            nodes.GeneratorExpr: self._generator_expr,
            nodes.SetComprehension: self._set_comprehension,
            nodes.DictionaryComprehension: self._dictionary_comprehension,
            nodes.YieldFromExpr: self._yield_from_expr,
            nodes.ListExpr: self._list_expr,
            nodes.TupleExpr: self._tuple_expr,
            nodes.AssignmentStmt: self._assignment_stmt,
            nodes.OperatorAssignmentStmt: self._operator_assignment_stmt,
            nodes.CallExpr: self._call_expr,
            nodes.ComparisonExpr: self._comparison_expr,
            nodes.FuncDef: self._func_def,
        }

    def read(self, tree: nodes.MypyFile) -> None:
        """Look at all of a module."""
        for node in _within(tree):
            if look := self._looks.get(type(node)):
                look(node)

    def _find(self, at: nodes.Context, said: str) -> None:
        self.found.append(Finding(file=self._path, line=at.line, said=said))

    # --- going through a set

    def _for_stmt(self, o: nodes.ForStmt) -> None:
        self._ordered(o.expr, "`for`")

    def _generator_expr(self, o: nodes.GeneratorExpr) -> None:
        if o not in self._orderless:
            for each in o.sequences:
                self._ordered(each, "a comprehension")

    def _set_comprehension(self, o: nodes.SetComprehension) -> None:
        self._orderless.add(o.generator)

    def _dictionary_comprehension(self, o: nodes.DictionaryComprehension) -> None:
        for each in o.sequences:
            self._ordered(each, "a comprehension of a dict")

    def _yield_from_expr(self, o: nodes.YieldFromExpr) -> None:
        self._ordered(o.expr, "`yield from`")

    def _list_expr(self, o: nodes.ListExpr) -> None:
        self._unpacked(o.items)

    def _tuple_expr(self, o: nodes.TupleExpr) -> None:
        self._unpacked(o.items)

    def _assignment_stmt(self, o: nodes.AssignmentStmt) -> None:
        for target in o.lvalues:
            # One target takes the only one there is.
            if isinstance(target, nodes.TupleExpr | nodes.ListExpr) and len(target.items) > 1:
                self._ordered(o.rvalue, "unpacking")

    def _operator_assignment_stmt(self, o: nodes.OperatorAssignmentStmt) -> None:
        if o.op == "+":
            self._ordered(o.rvalue, f"`{o.op}=`")

    def _call_expr(self, o: nodes.CallExpr) -> None:
        name = self._name_of(o.callee)
        if name in _ORDERLESS or (name in _LAZY and o in self._orderless):
            self._orderless.update(o.args)
        elif isinstance(o.callee, nodes.MemberExpr) and self._is_set(o.callee.expr):
            if o.callee.name == "pop":
                self._find(o, f"set: `pop` takes any; {_OF_SETS}")
            self._orderless.update(o.args)
        else:
            self._look_at_arguments(o, name)
        self._look_at_ids(o, name)
        if name in {"weakref.ref", "weakref.proxy", "weakref.ReferenceType"} and len(o.args) > 1:
            self._find(o, "weakref: its callback runs when the object goes, which may hang on the collector")

    def _look_at_arguments(self, o: nodes.CallExpr, name: str) -> None:
        for place, (argument, kind) in enumerate(zip(o.args, o.arg_kinds, strict=True)):
            if kind is nodes.ARG_STAR:
                self._ordered(argument, "`*`")
            elif name in _SHOWN or name == "builtins.str.format":
                self._ordered(argument, "a text")
            elif self._is_set(argument) and self._goes_through(o, place):
                self._ordered(argument, f"`{name.removeprefix('builtins.') or 'a call'}`")

    def _goes_through(self, o: nodes.CallExpr, place: int) -> bool:
        """Say whether what is called takes anything that has items, there where the argument goes."""
        callee = types.get_proper_type(self._types.get(o.callee))
        forms = callee.items if isinstance(callee, types.Overloaded) else [callee]
        for form in forms:
            if not isinstance(form, types.CallableType):
                continue
            wanted = (
                form.argument_by_position(place)
                if o.arg_names[place] is None
                else form.argument_by_name(o.arg_names[place])
            )
            kind = None if wanted is None else types.get_proper_type(wanted.typ)
            if isinstance(kind, types.Instance) and kind.type.fullname in _GOES_THROUGH:
                return True
        return False

    def _unpacked(self, items: Sequence[nodes.Expression]) -> None:
        for item in items:
            if isinstance(item, nodes.StarExpr):
                self._ordered(item.expr, "`*`")

    def _ordered(self, through: nodes.Expression, by: str) -> None:
        if through not in self._orderless and self._is_set(through):
            self._find(through, f"set: {by} goes through one; {_OF_SETS}")

    def _is_set(self, expression: nodes.Expression) -> bool:
        kind = types.get_proper_type(self._types.get(expression))
        parts = kind.items if isinstance(kind, types.UnionType) else [kind]
        return any(_is_set(types.get_proper_type(part)) for part in parts if part is not None)

    def _name_of(self, callee: nodes.Expression) -> str:
        if isinstance(callee, nodes.RefExpr) and callee.fullname:
            return callee.fullname
        if isinstance(callee, nodes.MemberExpr):
            kind = types.get_proper_type(self._types.get(callee.expr))
            if isinstance(kind, types.LiteralType):
                kind = kind.fallback
            if isinstance(kind, types.Instance):
                whole = kind.last_known_value.fallback if kind.last_known_value else kind
                return f"{whole.type.fullname}.{callee.name}"
        return ""

    # --- what is another one in each process

    def _look_at_ids(self, o: nodes.CallExpr, name: str) -> None:
        for given, argument in zip(o.arg_names, o.args, strict=True):
            if given == "key" and self._name_of(argument) in {"builtins.id", "builtins.hash"}:
                self._find(argument, f"id: what `{self._name_of(argument)[9:]}` gives {_OF_IDS}")
        if name in _SHOWN | _RANKED or name in {"builtins.str.format", "builtins.str.join"}:
            for inner in (node for argument in o.args for node in _within(argument)):
                called = self._name_of(inner.callee) if isinstance(inner, nodes.CallExpr) else ""
                if called in {"builtins.id", "builtins.hash"}:
                    self._find(inner, f"id: what `{called[9:]}` gives {_OF_IDS}")

    def _comparison_expr(self, o: nodes.ComparisonExpr) -> None:
        if {"<", ">", "<=", ">="}.intersection(o.operators):
            for operand in o.operands:
                called = self._name_of(operand.callee) if isinstance(operand, nodes.CallExpr) else ""
                if called in {"builtins.id", "builtins.hash"}:
                    self._find(operand, f"id: what `{called[9:]}` gives {_OF_IDS}")

    def _func_def(self, o: nodes.FuncDef) -> None:
        if o.name == "__del__":
            self._find(o, "__del__: it runs when the object goes, which may hang on the collector")


_FIELDS: Final[dict[type[nodes.Node], Sequence[str]]] = {}
"""The fields of `_BELOW` that a kind of node has, the last one first; filled as kinds are met."""


def _within(node: nodes.Node) -> Iterator[nodes.Node]:
    """Give a node and all below it, what contains another first."""
    waiting: list[object] = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list | tuple):
            waiting += reversed(each)
        elif isinstance(each, nodes.Node):
            yield each
            kind = type(each)
            if kind not in _FIELDS:
                _FIELDS[kind] = [name for name in reversed(_BELOW) if hasattr(kind, name)]
            waiting += [getattr(each, name, None) for name in _FIELDS[kind]]


def _is_set(kind: types.ProperType | None) -> bool:
    if not isinstance(kind, types.Instance):
        return False
    bases = {base.fullname for base in kind.type.mro}
    return "typing.AbstractSet" in bases and not bases & _IN_ORDER


def main(arguments: Sequence[str]) -> int:
    """Look at a folder, or check our types and look at our package; print what was found, and give the exit code."""
    errors: list[str] = []
    if arguments:
        names, orders = find_names(Path(arguments[0]).resolve()), find_orders(Path(arguments[0]))
    else:
        names, (orders, errors) = find_names(Path("agentrail")), check_types()
    for finding in (*sorted([*names, *orders]), *errors):
        print(finding)
    return 1 if names or orders or any(": error:" in line for line in errors) else 0


if __name__ == "__main__":
    hard_exit(main(sys.argv[1:]))  # without freeing the trees, which takes half as long as to build them
