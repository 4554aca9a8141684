"""What is compiled follows from what a module defines, and what it may not hold is held by these."""

import ast
import functools
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agentrail.core.session import batch, cycle, machine, step_context
from agentrail.core.stack import pipeline
from agentrail.otp import persistent_maps, supervision
from scripts.compiling import reason_against, verdicts

ROOT = Path(__file__).parents[2]
# Asked once, and by a test: when this is collected, each worker would read all modules for it.
judged = functools.cache(lambda: verdicts(ROOT))
HEAD_OF_A_CLASS = re.compile(r"^\s*class \w+(\(.*?):\s*(?:#.*)?$", re.MULTILINE | re.DOTALL)
FUNCTION = "def answer() -> int:\n    return 42\n"

BOUNDED = {
    "is_ephemeral": "as deep as sessions have children, which is bounded",
    "_one": "calls itself when an exception cannot be printed, and then with one that can",
    "_put": "as deep as a table is high",
    "_drop": "as above",
    "_first": "as above",
    "_last": "as above",
    "_items": "as above",
    "_put_hashed": "as deep as a hash has digits",
    "_drop_hashed": "as above",
    "_leaf_items": "as above",
}
"""The functions of compiled modules that call themselves, and why that ends soon."""


def source_of(name: str) -> str:
    """The text of a module."""
    return (ROOT / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")


def all_compiled() -> list[str]:
    """The names of the modules that are compiled."""
    return [name for name, reason in judged().items() if reason is None]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (FUNCTION, None),
        (f"@final\nclass A:\n    pass\n{FUNCTION}", None),
        (f"@final\nclass A(Generic[T]):\n    pass\n{FUNCTION}", None),
        ("A = 1\n", "it has no functions"),
        (f"class A:\n    pass\n{FUNCTION}", "A is not marked @final"),
        (f"@final\n@frozen\nclass A:\n    pass\n{FUNCTION}", "A is decorated"),
        (f"@final\nclass A(msgspec.Struct):\n    pass\n{FUNCTION}", "A derives from Struct"),
        (f"@final\nclass A(Protocol):\n    pass\n{FUNCTION}", "A derives from Protocol"),
        (f"@final\nclass A(Exception):\n    pass\n{FUNCTION}", "A derives from Exception"),
        (f"@final\nclass A(metaclass=M):\n    pass\n{FUNCTION}", "A derives from a metaclass"),
        (f"# not compiled: it is slow enough\n{FUNCTION}", "it is slow enough"),
    ],
)
def test_what_a_module_defines_decides(source, reason):
    """Functions and plain final classes are compiled; a mark with a reason keeps a module out."""
    assert reason_against(source) == reason


def test_what_is_hot_is_compiled():
    """The modules through which each step of a session and of a supervisor goes, wherever they stand by now."""
    hot = {
        module.__name__
        for module in (batch, cycle, machine, pipeline, step_context, supervision, persistent_maps)
    }
    assert hot <= set(all_compiled())


@pytest.mark.check  # goes through all of the package
def test_nothing_with_structs_is_compiled():
    """Asked of what the modules really define, and not of their text."""
    for name in all_compiled():
        module = importlib.import_module(name)
        defined = [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == name]
        assert not [
            one for one in defined if hasattr(one, "__struct_fields__") or hasattr(one, "__attrs_attrs__")
        ]


@pytest.mark.check  # goes through all of the package
def test_nobody_derives_from_a_compiled_class():
    """No class of the package has a compiled one among its bases."""
    compiled = {
        node.name
        for name in all_compiled()
        for node in ast.parse(source_of(name)).body
        if isinstance(node, ast.ClassDef)
    }
    for path in (ROOT / "agentrail").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        heads = " ".join(HEAD_OF_A_CLASS.findall(text))
        if compiled.isdisjoint(re.findall(r"\w+", heads)):  # only the rest is worth a closer look
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
                assert not bases & compiled, f"{path}: {node.name}"


@pytest.mark.check  # goes through all of the package
def test_no_compiled_function_goes_as_deep_as_what_it_is_given():
    """Compiled code has no recursion limit, and ends the process where interpreted code ends with a RecursionError."""
    recursive = {one for name in all_compiled() for one in recursive_functions(source_of(name))}
    assert recursive == set(BOUNDED)


def recursive_functions(source: str) -> set[str]:
    """The functions of a module that come back to themselves, by names of the module."""
    functions = {node.name: node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)}
    used = {name: _names_in(function) & set(functions) for name, function in functions.items()}

    def reached(name: str) -> set[str]:
        found: set[str] = set()
        left = [name]
        while left:
            new = used[left.pop()] - found
            found |= new
            left.extend(new)
        return found

    return {name for name in functions if name in reached(name)}


def _names_in(function: ast.FunctionDef) -> set[str]:
    own = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    own |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return {node.id for node in names} - own


def test_each_reason_is_one():
    """A mark gives more than a word."""
    assert all(reason is None or len(reason.split()) > 2 for reason in judged().values())


@pytest.mark.check  # goes through all of the package
def test_a_pure_build_asks_for_nothing():
    """Neither mypy nor setuptools is needed to build, as long as nobody asks for the compiled build."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    assert [needed.partition(">")[0] for needed in build["requires"]] == ["hatchling"]
    code = "import sys, scripts.compiling; print({'mypy', 'mypyc', 'setuptools'} & set(sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.stdout.strip() == "set()", ran.stderr
