"""Rules of a conformance suite, and their failures: with the rule's sentence, and the cause."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any, TypeVar

from agentrail.errors import OptionError

E = TypeVar("E", bound=Exception)


def rules_on(trial: object, *modules: ModuleType) -> tuple[Callable[[Any], Any], ...]:
    """Return the rules of modules: each public function with one argument of the type `trial`, in the order of its file."""
    return tuple(
        one
        for module in modules
        for name, one in vars(module).items()
        if isinstance(one, FunctionType) and one.__module__ == module.__name__ and name[0] != "_"
        if list(one.__annotations__.values()) == [trial, None]
    )


def require_assertions() -> None:
    """Raise if Python ignores assertions, because then every check would pass.

    Raises:
        OptionError: Your move: `-O` or `PYTHONOPTIMIZE` is set.
    """
    if not __debug__:
        raise OptionError(
            ["Python ignores assertions, so every check would pass: remove -O or PYTHONOPTIMIZE"]
        )


def _sentence_of(rule: Callable[..., object]) -> str:
    return " ".join((rule.__doc__ or rule.__name__).split())


@contextmanager
def under_rule(rule: Callable[..., object], tried: object) -> Iterator[None]:
    """Test a rule in a block, and name the rule in a failure."""
    require_assertions()
    try:
        yield
    except AssertionError as error:
        message = f"{tried} breaks a rule: {_sentence_of(rule)} {error}"
        raise AssertionError(message) from error
    except Exception as error:
        error.add_note(f"{tried} raised this error for the rule: {_sentence_of(rule)}")
        raise


def expect_same(found: object, expected: object, what: str) -> None:
    if found != expected:
        message = f"{what}: expected {expected!r:.300}, got {found!r:.300}"
        raise AssertionError(message)


def expect_error(kind: type[E], call: Callable[[], object], what: str) -> E:
    try:
        answer = call()
    except kind as error:
        return error
    message = f"{what}: expected {kind.__name__}, got {answer!r:.300}"
    raise AssertionError(message)


@contextmanager
def while_others_read(look: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Look again and again in two other threads while the block writes. What a look returns or raises is a fault."""
    is_over = threading.Event()
    faults, ended = list[str](), list[str]()

    def read() -> None:
        while not is_over.is_set():
            faults.extend(look())
        ended.append("well")

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        yield
    finally:
        is_over.set()
        for reader in readers:
            reader.join()
    expect_same(faults, [], "results during concurrent writes")
    expect_same(ended, ["well"] * 2, "the outcome of the readers")
