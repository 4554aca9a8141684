"""The edge of code that is not ours: the one place where any exception of a plain function becomes something else.

Inside, errors travel (STYLE: they become an exit reason at the actor's edge). But a listener, a redaction, a plugin or an
author's `__str__` is called by code that its bug is no concern of. All of them are called through `call_guarded`, so that
who looks for a broad `except` finds one, and not one per caller.

What may cross an edge all the same is said here once: by `what_leaves` what is meant for the process, and by `travels` that
and a cancellation. What is said of the rest stands in `leaving`.
"""

import inspect
from collections.abc import Callable
from functools import partial
from reprlib import Repr
from typing import Any, Final, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")
_O = TypeVar("_O")

FOR_THE_PROCESS: Final[tuple[type[BaseException], ...]] = (KeyboardInterrupt, SystemExit)
"""What any code may raise without a bug: a person pressed Ctrl-C, or the program ends itself."""

_EXCEPTIONS: Final = BaseExceptionGroup.__dict__["exceptions"].__get__
_NAME: Final = type.__dict__["__name__"].__get__
_MODULE: Final = type.__dict__["__module__"].__get__


_short: Final = Repr()  # bounded, and it survives a `__repr__` that raises
_short.maxother = _short.maxstring = 200


def is_async(function: Any) -> bool:
    """Whether the result of this callable can be awaited.

    False for a function, a method, a lambda or a `__call__` written with a plain `def`, and for a value that cannot be called. True for a
    callable whose code cannot be inspected, such as one that was compiled.
    """
    while isinstance(function, partial):
        function = function.func
    if not callable(function):
        return False
    if isinstance(function, type):
        return hasattr(function, "__await__")
    called = function if inspect.isroutine(function) else type(function).__call__
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called):
        return True
    return not inspect.isfunction(getattr(called, "__func__", called))


def call_guarded(
    otherwise: Callable[[BaseException], _O],
    function: Callable[_P, _R],
    /,
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> _R | _O:
    """Call a function; if it raises, say what `otherwise` makes of it."""
    try:
        return function(*args, **kwargs)
    except BaseException as error:  # noqa: ASYNC103 - this is the edge; `travels` knows a cancellation
        if travels(error):
            raise
        return otherwise(error)  # noqa: ASYNC104 - it is none


def travels(error: BaseException) -> bool:
    """Tell whether this may not end at an edge: Trio's cancellation, `KeyboardInterrupt`, `SystemExit`, or a group of one.

    Every other exception is a bug of the code that raised it, and ends no other, whatever class it has: `GeneratorExit`,
    asyncio's `CancelledError`, a `BaseException` of the user's own.
    """
    return what_leaves(error) is not None or any(map(is_cancellation, leaves(error)))


def what_leaves(
    error: BaseException, kinds: tuple[type[BaseException], ...] = FOR_THE_PROCESS
) -> BaseException | None:
    """Say what of a caught exception is no bug, and so goes on."""
    found = leaves(error)
    return next((leaf for kind in kinds for leaf in found if isinstance(leaf, kind)), None)


def is_cancellation(error: BaseException) -> bool:
    """Tell whether this is Trio's own cancellation; by its name, since nothing in this room imports Trio."""
    kind = type(error)  # of which its metaclass may say what it likes
    return _NAME(kind) == "Cancelled" and str(_MODULE(kind)).partition(".")[0] == "trio"


def leaves(error: BaseException) -> tuple[BaseException, ...]:
    """Return the exceptions in a group, from left to right, each once; of anything else the exception itself.

    A nursery wraps even one failure in a group, and `except Exception` does not see what is inside: who judges an
    exception asks its leaves. However deep a group is, and also of one that stands in itself many times.
    """
    found: dict[int, BaseException] = {}
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        current = waiting.pop()
        if not isinstance(current, BaseExceptionGroup):
            found.setdefault(id(current), current)
        elif id(current) not in seen:  # thirty groups of twice the same one have a billion paths
            seen.add(id(current))
            waiting.extend(reversed(members_of(current)))
    return tuple(found.values())


def members_of(group: BaseExceptionGroup[BaseException]) -> tuple[BaseException, ...]:
    """Return what a group holds, and not what its class says in place of that."""
    held: tuple[BaseException, ...] = _EXCEPTIONS(group)
    return held


def show(value: object) -> str:
    """Return a `repr` for a message: at most about 200 characters, and never an exception."""
    return call_guarded(lambda _: f"<{type(value).__name__}, whose __repr__ raises>", _short.repr, value)
