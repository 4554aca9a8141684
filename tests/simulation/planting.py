"""Bugs planted in the loaded library, for one block: patch files of `planted/`, or of `tests/mutants`."""

import importlib
import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Final

import pytest

from tests.mutants import catalogue

FOLDER: Final = Path(__file__).parent / "planted"


def patch_of(name: str) -> Path:
    """Return the file of a bug."""
    here = FOLDER / f"{name}.patch"
    return here if here.exists() else catalogue.FOLDER / here.name


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a bug: each function of the module gets the code that it has in the patched source.

    Classes and other objects stay the same ones, so modules that imported them have the bug too. A patch must not change
    anything outside of functions.
    """
    mutant = catalogue.parse(patch_of(name).read_text(encoding="utf-8"))
    module = importlib.import_module(f"agentrail.{mutant.file.removesuffix('.py').replace('/', '.')}")
    assert module.__file__ is not None
    if not module.__file__.endswith(".py"):
        pytest.skip(f"{module.__name__} is compiled: its functions have no code to exchange")
    source = mutant.apply(inspect.getsource(module))
    assert source is not None, f"the patch {name} no longer applies"
    patched = dict(_code_of(compile(source, module.__file__, "exec")))
    changed = 0
    with ExitStack() as stack:
        for place, function in _functions_of(module):
            code = patched.get(place, function.__code__)  # a generated method is not in the source
            if code != function.__code__:
                stack.callback(setattr, function, "__code__", function.__code__)
                function.__code__ = code
                changed += 1
        assert changed, f"the patch {name} changes no function"
        yield


def _code_of(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each.co_qualname, each
            yield from _code_of(each)


def _functions_of(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    """Find the functions of a module and of its classes, decorated ones too."""
    for owner in (module, *(one for one in vars(module).values() if inspect.isclass(one))):
        if owner is not module and owner.__module__ != module.__name__:
            continue
        for member in vars(owner).values():
            bare = inspect.unwrap(getattr(member, "__func__", member))
            for function in (bare, getattr(member, "fget", None)):
                if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                    yield function.__code__.co_qualname, function
