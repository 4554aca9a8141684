"""The edge of code that is not ours: the one place where any exception of a plain function becomes something else.

Inside, errors travel (STYLE: they become an exit reason at the actor's edge). But a listener, a redaction, a plugin or an
author's `__str__` is called by somebody whom its bug is no concern of. All of them are called through `contain`, so that
who looks for a broad `except` finds one, and not one per caller.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")
_O = TypeVar("_O")


def contain(
    otherwise: Callable[[Exception], _O], function: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs
) -> _R | _O:
    """Call a function; if it raises, say what `otherwise` makes of it.

    Args:
        otherwise: Gets the exception, instead of the caller: whoever keeps one in a variable makes a cycle with its own
            frame.
        function: What is called.
        *args: Its arguments.
        **kwargs: Its arguments too.

    Returns:
        What `function` returned, or `otherwise` if it raised.

    Raises:
        BaseException: What is no `Exception` (a `KeyboardInterrupt`, a cancellation), and what `otherwise` raises.
    """
    try:
        return function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - this is the edge
        return otherwise(error)
