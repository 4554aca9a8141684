"""How a rule of a conformance suite fails: with its own sentence, and what broke it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


def sentence_of_rule(rule: Callable[..., object]) -> str:
    """Give what a rule demands, in one line: its docstring."""
    return " ".join((rule.__doc__ or rule.__name__).split())


@contextmanager
def under_rule(rule: Callable[..., object], tried: object) -> Iterator[None]:
    """Try a rule in a block, and say which one it was when it fails.

    Args:
        rule: Its docstring is what is said.
        tried: What is held against it; of a trial its `store`, as it is at the end: it may have been opened again meanwhile.

    Raises:
        AssertionError: The rule is broken; the message is the rule, and what came instead. What else is raised travels, with the rule as a note.
    """
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
