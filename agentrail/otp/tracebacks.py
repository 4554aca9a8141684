"""An exception as bounded text, in Python's traceback format. Its cost does not grow with attached causes."""

import traceback
from collections import deque
from collections.abc import Iterator
from typing import Final

from agentrail.otp.guarded_calls import call_guarded, members_of

CHAIN_LIMIT: Final = 10
"""Number of exceptions printed of one chain of causes: the first and the last ones of a longer chain."""

GROUP_LIMIT: Final = 50
"""Number of exceptions printed inside groups."""

FRAME_LIMIT: Final = 100
"""Number of frames printed of one exception: the innermost ones of a longer stack."""

_WIDTH: Final = 15  # Python's own limits for groups
_DEPTH: Final = 10
# The real attributes, even if a class overrides them.
_CAUSE: Final = BaseException.__dict__["__cause__"].__get__
_TRACEBACK: Final = BaseException.__dict__["__traceback__"].__get__
_CONTEXT: Final = BaseException.__dict__["__context__"].__get__
_UNPRINTABLE: Final = "<exception str() failed>"  # Python's own words


def print_exception(error: BaseException) -> str:
    """Format an exception with its causes and parts, as Python does. Omitted parts are marked."""
    return call_guarded(lambda _: _UNPRINTABLE, lambda: "".join(_printable(error).format()))


def message_of(error: BaseException) -> str:
    """Return the message of an exception, or a placeholder if its `__str__` raises."""
    return call_guarded(lambda _: _UNPRINTABLE, str, error)


def innermost_line(error: BaseException) -> str:
    """Return `file:line` of the innermost frame, without folders. Empty for an exception that was never raised."""
    frame = _TRACEBACK(error)
    if frame is None:
        return ""
    while frame.tb_next is not None:
        frame = frame.tb_next
    name = frame.tb_frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
    return f"{name}:{frame.tb_lineno}"


def _printable(error: BaseException) -> traceback.TracebackException:
    seen: set[int] = set()
    top = _one(error, seen)
    waiting = deque([(top, error, 0)])
    left = GROUP_LIMIT
    while waiting:  # the outermost first, so that omitted ones lie deep
        head, chained, depth = waiting.popleft()
        for printed, each in _link(head, chained, seen):
            if not isinstance(each, BaseExceptionGroup):
                continue
            inner = members_of(each)
            shown = inner[:_WIDTH] if left > 0 and depth <= _DEPTH else ()
            parts = [_one(part, seen) for part in shown]
            left -= len(parts)
            waiting.extend((part, of, depth + 1) for part, of in zip(parts, shown, strict=True))
            # Python prints the number of the parts that are not shown.
            printed.exceptions = [*parts, *parts[-1:] * (len(inner) - len(parts))]
    return top


def _one(error: BaseException, seen: set[int]) -> traceback.TracebackException:
    # `_seen` is Python's own argument for a cause: it then formats this exception without its causes.
    return call_guarded(lambda _: _one(ValueError(_UNPRINTABLE), seen), _print_one, error, seen)


def _print_one(error: BaseException, seen: set[int]) -> traceback.TracebackException:
    printed = traceback.TracebackException(
        type(error), error, error.__traceback__, limit=-FRAME_LIMIT, capture_locals=False, _seen=seen
    )
    # Without columns no carets are drawn. For those, Python would parse the line of each frame again: half
    # the cost of turning a crash into data while a supervisor waits.
    for frame in printed.stack:
        frame.colno = None
    printed.__cause__ = printed.__context__ = printed.exceptions = None
    return printed


def _link(
    head: traceback.TracebackException, error: BaseException, seen: set[int]
) -> Iterator[tuple[traceback.TracebackException, BaseException]]:
    yield head, error
    chain = _chain_of(error, seen)
    half = CHAIN_LIMIT // 2
    skipped = len(chain) - CHAIN_LIMIT
    if skipped > 0:
        chain = [*chain[:half], *chain[-half:]]
    for place, (each, is_cause) in enumerate(chain):
        below = _one(each, seen)
        if skipped > 0 and place == half:
            below.__notes__ = [*(below.__notes__ or ()), f"[... {skipped} more in between are left out ...]"]
        if is_cause:
            head.__cause__ = below
        else:
            head.__context__ = below
        head = below
        yield below, each


def _chain_of(error: BaseException, seen: set[int]) -> list[tuple[BaseException, bool]]:
    """Return the chain of causes and contexts, the nearest first, and whether each is a cause or only a context."""
    chain: list[tuple[BaseException, bool]] = []
    known = {*seen, id(error)}
    while True:
        cause: BaseException | None = _CAUSE(error)
        behind: BaseException | None = (
            _CONTEXT(error) if cause is None and not error.__suppress_context__ else cause
        )
        if behind is None or id(behind) in known:
            return chain
        known.add(id(behind))
        chain.append((behind, cause is not None))
        error = behind
