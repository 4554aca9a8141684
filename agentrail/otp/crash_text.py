"""Descriptions of exceptions that must not leave an edge, as text that no bug can spoil."""

import re
import traceback
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, TypeVar

from agentrail.otp.guarded_calls import leaves
from agentrail.otp.tracebacks import print_exception

_R = TypeVar("_R")

MAX_EXCEPTIONS: Final = 20
"""Number of exceptions of a group that are described."""

MAX_WORDS: Final = 20_000
"""Limit on the message of one exception, in characters. The code that shows it removes secrets first and then cuts it."""

MAX_TRACEBACK: Final = 20_000
"""Limit on a traceback, in characters. The middle of a longer one is left out."""

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_LIBRARY: Final = traceback.__file__.rpartition("/")[0] + "/"
# Callers of foreign code: a call that failed before entry, such as one with a wrong argument, was not wrong
# there.
_EDGES: Final = (
    "otp/guarded_calls.py",
    "core/stack/loaded_stack.py",
    "core/stack/plugin_changes.py",
    "runtime/plugin_watch.py",
)
# Deliberate crashes of the test kit: repeated without a place, so that transcripts contain no line numbers.
_ON_PURPOSE: Final = ("testing/cancelling.py", "testing/plugins.py")
_SAYS_NOTHING: Final = tuple(f"/{place}" for place in (*_EDGES, *_ON_PURPOSE))


def describe_crash(error: BaseException) -> str:
    """Describe a crash in one line: class and message of each leaf. Keeps no exception."""
    found = leaves(error)
    said = "; ".join(f"{class_name_of(leaf)}: {words_of(leaf)}" for leaf in found[:MAX_EXCEPTIONS])
    return said if len(found) <= MAX_EXCEPTIONS else f"{said}; and {len(found) - MAX_EXCEPTIONS:,} more"


def describe_bug(error: BaseException) -> str:
    """Describe a crash and where it happened, for the developer who fixes it."""
    place = place_of(error)
    return f"{describe_crash(error)} ({place})" if place else describe_crash(error)


def class_name_of(error: BaseException) -> str:
    """Return the real class name of an exception, even if its metaclass overrides it."""
    name: str = type.__dict__["__name__"].__get__(type(error))
    return name


def words_of(error: BaseException) -> str:
    """Return the message of an exception, or a placeholder if its `__str__` raises."""
    return _try(lambda: _plain(str(error)), "<no message: its __str__ raises>")


def place_of(error: BaseException) -> str:
    """Return where an exception was raised, as `folder/file.py:12 in function`, or an empty string if unknown."""
    first = leaves(error)[0]
    frames = [*_frames_of(first.__traceback__)] or [*_frames_of(error.__traceback__)]
    own = [frame for frame in frames if not _is_library(frame[0])] or frames
    if not own:
        return ""
    file, line, function = own[-1]
    place = file.replace("\\", "/")
    if place.endswith(_SAYS_NOTHING):
        return ""
    return f"{'/'.join(place.split('/')[-2:])}:{line} in {function}"


def traceback_of(error: BaseException, redact: Callable[[str], str]) -> str:
    """Return a traceback as Python prints it, without local variables, bounded in time and length."""
    text = redact(_try(lambda: print_exception(error), f"{class_name_of(error)}: <no traceback>\n"))
    if len(text) <= MAX_TRACEBACK:
        return text
    half = MAX_TRACEBACK // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters left out ...]\n{text[-half:]}"


def _frames_of(found: TracebackType | None) -> Iterator[tuple[str, int, str]]:
    while found is not None:
        code = found.tb_frame.f_code
        yield code.co_filename, found.tb_lineno, code.co_name
        found = found.tb_next


def _is_library(file: str) -> bool:
    return file.startswith((_LIBRARY, "<frozen")) or "site-packages" in file


def _plain(text: str) -> str:
    """Return an exact `str` of bounded length that can be encoded, even from a user's subclass of `str`."""
    return _SURROGATE.sub("\ufffd", str.__getitem__(text, slice(MAX_WORDS)))


def _try(function: Callable[[], _R], otherwise: _R) -> _R:
    # Stricter than `contain`: a `SystemExit` in a user's `__str__` does not end the program.
    try:
        return function()
    except BaseException as error:  # noqa: ASYNC103 - plain code cannot be cancelled
        if isinstance(error, KeyboardInterrupt):
            raise
        return otherwise  # noqa: ASYNC104 - as above
