"""What is said of an exception that may not leave an edge: text that no bug can spoil.

An edge that awaits catches everything and asks `edges.what_leaves`. All else is a bug of the code behind the edge, of which only
text may remain: it is made here, also of exceptions whose `__str__` raises. Nothing in here keeps an exception.
"""

import re
import traceback
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, TypeVar

from agentrail.otp.edges import leaves
from agentrail.otp.tracebacks import print_exception

_R = TypeVar("_R")

MAX_EXCEPTIONS: Final = 20
"""How many exceptions of a group are described."""

MAX_WORDS: Final = 20_000
"""How much is read of what one exception says, in characters: the code that shows it takes secrets out first, and cuts it then."""

MAX_TRACEBACK: Final = 20_000
"""The longest traceback, in characters; of a longer one the middle is left out."""

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_LIBRARY: Final = traceback.__file__.rpartition("/")[0] + "/"
# Where foreign code is called: a call that did not get in, such as one with a wrong argument, was not wrong there.
_EDGES: Final = (
    "otp/edges.py",
    "core/stack/loading.py",
    "core/stack/plugin_changes.py",
    "runtime/plugin_watch.py",
)
# Where the test kit crashes on purpose: what it says is repeated as it is, so that transcripts hold no numbers of lines.
_ON_PURPOSE: Final = ("testing/cancelling.py", "testing/plugins.py")
_SAYS_NOTHING: Final = tuple(f"/{place}" for place in (*_EDGES, *_ON_PURPOSE))


def describe_crash(error: BaseException) -> str:
    """Say what crashed in one line: class and words of each leaf; no exception is kept."""
    found = leaves(error)
    said = "; ".join(f"{class_name_of(leaf)}: {words_of(leaf)}" for leaf in found[:MAX_EXCEPTIONS])
    return said if len(found) <= MAX_EXCEPTIONS else f"{said}; and {len(found) - MAX_EXCEPTIONS:,} more"


def describe_bug(error: BaseException) -> str:
    """Say what crashed and where: for the developer who has to mend it."""
    place = place_of(error)
    return f"{describe_crash(error)} ({place})" if place else describe_crash(error)


def class_name_of(error: BaseException) -> str:
    """Name the class of an exception, whatever its metaclass says of names."""
    name: str = type.__dict__["__name__"].__get__(type(error))
    return name


def words_of(error: BaseException) -> str:
    """Give the message of an exception; of one that cannot be printed a placeholder, because it is still only a crash."""
    return _try(lambda: _plain(str(error)), "<no message: its __str__ raises>")


def place_of(error: BaseException) -> str:
    """Say where it was raised: `folder/file.py:12 in function`; the empty text where that is unknown.

    Inside a library the line of its caller says more. Of a group it is the place of its first leaf.
    """
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
    """Write a traceback as Python prints it, without local variables, bounded in time and length."""
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
    """Make exactly a `str` of what may be of a class of the user's own, not too long, and fit to be encoded."""
    return _SURROGATE.sub("\ufffd", str.__getitem__(text, slice(MAX_WORDS)))


def _try(function: Callable[[], _R], otherwise: _R) -> _R:
    # Stricter than `contain`: a `SystemExit` of a user's `__str__` ends no program.
    try:
        return function()
    except BaseException as error:  # noqa: ASYNC103 - of plain code, which cannot be cancelled
        if isinstance(error, KeyboardInterrupt):
            raise
        return otherwise  # noqa: ASYNC104 - as above
