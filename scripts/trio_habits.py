"""Habits of Trio, judged by flake8-async in a quarter of the time: `python -m scripts.trio_habits [FOLDER]`.

These are what ruff lacks and Trio code gets wrong: yields in scopes, swallowed cancellations, await in `finally` without a shield,
control flow out of a nursery. flake8-async judges all but one of them in Python's own syntax trees, which is quick. For ASYNC101, and
for the comments that allow a finding, it builds trees of libcst. Here only functions that can break ASYNC101 get such a tree, and
the comments are looked up in the lines.
"""

import ast
import gc
import re
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from flake8_async import Plugin
from flake8_async.base import Error, Options
from flake8_async.runner import Flake8AsyncRunner, Flake8AsyncRunner_cst
from flake8_async.visitors.flake8asyncvisitor import Flake8AsyncVisitor

from scripts.module_survey import nodes_of, walk

ROOT: Final = Path(__file__).parent.parent
RULES: Final = "ASYNC101,ASYNC102,ASYNC103,ASYNC104,ASYNC113,ASYNC119,ASYNC121,ASYNC122"

_SCOPE: Final = re.compile(r"\b(open_nursery|CancelScope|(fail|move_on)_(after|at))\b")
_WORDS: Final = re.compile(
    rf"\b(yield|finally|BaseException|Cancelled|__aenter__)\b|except:|{_SCOPE.pattern}"
)
_ASYNC: Final = re.compile(r"async|trio|except:|BaseException")
"""A file that has none of the words, or none of these, breaks no rule."""


def find_habits(source: str) -> Iterator[Error]:
    """Give what breaks a rule in the text of a module, and is not allowed in its line."""
    if not _WORDS.search(source) or not _ASYNC.search(source):
        return
    tree, lines = nodes_of(source)[0], source.splitlines()
    found = [*_Runner.run(tree, _options())]
    if "yield" in source and _SCOPE.search(source) and _yields_in_scope(tree):
        left = [*lines]
        _leave_out(tree, left)
        module = Plugin.from_source("\n".join([*left, ""])).module
        found += Flake8AsyncRunner_cst(_options(), module).run()
    for each in sorted(found):
        if each.code not in lines[each.line - 1].partition("# noqa: ")[2]:
            yield each


class _Runner(Flake8AsyncRunner):
    """Calls only the visitors that have a method for a node. The runner of flake8-async looks for one in all ten of them."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._all = (*self.utility_visitors, *self.visitors)
        self._methods: dict[type[ast.AST], list[tuple[Flake8AsyncVisitor, Callable[[ast.AST], None]]]] = {}
        self._below: set[Flake8AsyncVisitor] = set()  # that go through the children of a node by themselves

    def visit(self, node: ast.AST) -> None:
        kind = type(node)
        methods = self._methods.get(kind)
        if methods is None:
            name = f"visit_{kind.__name__}"
            methods = self._methods[kind] = [
                (visitor, method)
                for visitor in self._all
                if kind is not ast.Constant and (method := getattr(visitor, name, None))
            ]
        called = [visitor for visitor, _ in methods if visitor not in self._below]
        for visitor, method in methods:
            if visitor not in self._below:
                method(node)
        own = [visitor for visitor in called if visitor.novisit]
        self._below.update(own)
        for child in ast.iter_child_nodes(node):
            self.visit(child)
        self._below.difference_update(own)
        for visitor in own:
            visitor.novisit = False
        for visitor in called:
            visitor.set_state(visitor.outer.pop(node, {}))


def _yields_in_scope(tree: ast.AST) -> bool:
    """Say whether ASYNC101 can be broken here; it knows which functions may do so."""
    return any(
        isinstance(node, ast.With | ast.AsyncWith)
        and any(_SCOPE.search(ast.unparse(item)) for item in node.items)
        and any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in walk(node))
        for node in walk(tree)
    )


def _leave_out(within: ast.AST, lines: list[str]) -> None:
    """Put `pass` in place of functions and classes that cannot break ASYNC101; all lines keep their numbers."""
    for node in ast.iter_child_nodes(within):
        match node:
            case ast.ClassDef() if _yields_in_scope(node):
                _leave_out(node, lines)
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if not _yields_in_scope(node):
                first = min(one.lineno for one in (node, *node.decorator_list)) - 1
                last = node.end_lineno or node.lineno
                lines[first:last] = [f"{' ' * node.col_offset}pass", *[""] * (last - first - 1)]
            case _:
                pass


@cache
def _options() -> Options:
    parser = ArgumentParser()
    Plugin.add_options(parser)
    Plugin.parse_options(parser.parse_args([f"--enable={RULES}", "--disable-noqa"]))
    return Plugin.from_source("").options


def main(arguments: Sequence[str]) -> int:
    """Judge all files of a folder, print what is found, and give the exit code."""
    status = 0
    for file in sorted((ROOT / (arguments[0] if arguments else "agentrail")).rglob("*.py")):
        for line, column, said, _ in find_habits(file.read_text(encoding="utf-8")):
            print(f"{file.relative_to(ROOT)}:{line}:{column}: {said}")
            status = 1
    return status


if __name__ == "__main__":
    gc.disable()  # the trees have no cycles
    sys.exit(main(sys.argv[1:]))
