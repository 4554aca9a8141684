"""Habits of Trio, judged by flake8-async in a quarter of the time: `python -m scripts.trio_habits [FOLDER]`.

These are what ruff lacks and Trio code gets wrong: yields in scopes, swallowed cancellations, await in `finally` without a shield,
control flow out of a nursery. flake8-async judges all but one of them in Python's own syntax trees, which is quick. For ASYNC101, and
for the comments that allow a finding, it builds trees of libcst. Here only files that can break ASYNC101 get such a tree, and the
comments are looked up in the lines.
"""

import ast
import re
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from flake8_async import Plugin
from flake8_async.base import Error, Options
from flake8_async.runner import Flake8AsyncRunner, Flake8AsyncRunner_cst

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
    tree, lines = ast.parse(source), source.splitlines()
    found = [*Flake8AsyncRunner.run(tree, _options())]
    if any(map(_yields_in_scope, ast.walk(tree))):
        found += Flake8AsyncRunner_cst(_options(), Plugin.from_source(source).module).run()
    for each in sorted(found):
        if each.code not in lines[each.line - 1].partition("# noqa: ")[2]:
            yield each


def _yields_in_scope(node: ast.AST) -> bool:
    """Say whether ASYNC101 can be broken here; it knows which functions may do so."""
    return (
        isinstance(node, ast.With | ast.AsyncWith)
        and any(_SCOPE.search(ast.unparse(item)) for item in node.items)
        and any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in ast.walk(node))
    )


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
    sys.exit(main(sys.argv[1:]))
