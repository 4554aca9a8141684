"""Failures of a rule of a conformance suite: with the rule's sentence, and the cause."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


def sentence_of_rule(rule: Callable[..., object]) -> str:
    """Return the sentence of a rule in one line: its docstring."""
    return " ".join((rule.__doc__ or rule.__name__).split())


@contextmanager
def under_rule(rule: Callable[..., object], tried: object) -> Iterator[None]:
    """Test a rule in a block, and name the rule in a failure."""
    try:
        yield
    except AssertionError as error:
        message = f"{_store_of(tried)!r} breaks a rule: {sentence_of_rule(rule)} {error}"
        raise AssertionError(message) from error
    except Exception as error:
        error.add_note(f"{_store_of(tried)!r} raised it under the rule: {sentence_of_rule(rule)}")
        raise


def _store_of(tried: object) -> object:
    return getattr(tried, "store", tried)
