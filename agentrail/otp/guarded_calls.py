"""Guarded calls of foreign code: the only place that converts arbitrary exceptions of a plain function.

Errors of our own code propagate and become an exit reason at the actor's edge (see STYLE). A bug in a listener,
a redaction, a plugin or an author's `__str__` must not affect the code that calls it. All of them are called
through `call_guarded`, so that there is one broad `except` to review instead of one per caller.

Some exceptions must still cross an edge. `what_leaves` names those that are meant for the process. `travels`
adds cancellations. `leaving` describes the rest.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from reprlib import Repr
from typing import Any, Final, ParamSpec, TypeGuard, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")
_O = TypeVar("_O")

FOR_THE_PROCESS: Final[tuple[type[BaseException], ...]] = (KeyboardInterrupt, SystemExit)
"""Exceptions that any code may raise without a bug: Ctrl-C, or a program that ends itself."""

_EXCEPTIONS: Final = BaseExceptionGroup.__dict__["exceptions"].__get__
_NAME: Final = type.__dict__["__name__"].__get__
_MODULE: Final = type.__dict__["__module__"].__get__


_short: Final = Repr()  # bounded, and it survives a `__repr__` that raises
_short.maxother = _short.maxstring = 200


def is_async(function: Any) -> bool:
    """Whether the result of this callable can be awaited."""
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


def is_coroutine_function(function: Any) -> bool:
    """Whether a call only makes a coroutine, which a caller of a plain function would drop."""
    called = function.func if isinstance(function, partial) else function
    return inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(type(called).__call__)


def takes(function: Callable[..., object], arguments: Sequence[str]) -> bool:
    """Whether this can be called with that many positional arguments. A wrapper is judged by its own parameters."""
    try:
        inspect.signature(function, follow_wrapped=False).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # callables not written in Python have no signature
        return True
    return True


def is_plain_function(function: object) -> TypeGuard[Callable[..., Any]]:
    """Whether this can be called, and is not a coroutine function."""
    return callable(function) and not is_coroutine_function(function)


def call_guarded(
    otherwise: Callable[[BaseException], _O],
    function: Callable[_P, _R],
    /,
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> _R | _O:
    """Return the function's result, or `otherwise(error)` if it raises."""
    try:
        return function(*args, **kwargs)
    except BaseException as error:  # noqa: ASYNC103 - this is the edge; `travels` recognises a cancellation
        if travels(error):
            raise
        return otherwise(error)  # noqa: ASYNC104 - not a cancellation


def call_contained(
    otherwise: Callable[[BaseException], _O], function: Callable[..., _R], /, *args: Any
) -> _R | _O:
    """Same as `call_guarded`, for code that must not end the program, such as an import: `SystemExit` is a bug there."""
    try:
        return call_guarded(otherwise, function, *args)
    except (SystemExit, BaseExceptionGroup) as error:
        if travels(error, (KeyboardInterrupt,)):
            raise
        return otherwise(error)


def travels(error: BaseException, kinds: tuple[type[BaseException], ...] = FOR_THE_PROCESS) -> bool:
    """Return whether an exception must cross an edge.

    True for Trio's cancellation, `KeyboardInterrupt`, `SystemExit`, and a group that contains one of them.
    Every other exception is a bug in the code that raised it and ends only that code, whatever its class:
    `GeneratorExit`, asyncio's `CancelledError`, a `BaseException` of the user's own.
    """
    return what_leaves(error, kinds) is not None or any(map(is_cancellation, leaves(error)))


def what_leaves(
    error: BaseException, kinds: tuple[type[BaseException], ...] = FOR_THE_PROCESS
) -> BaseException | None:
    """Return the exception in `error` that is meant for the process rather than a bug, or None."""
    found = leaves(error)
    return next((leaf for kind in kinds for leaf in found if isinstance(leaf, kind)), None)


def is_cancellation(error: BaseException) -> bool:
    """Return whether this is Trio's cancellation. Matched by name, because nothing in this package imports Trio."""
    kind = type(error)  # its metaclass could fake any attribute
    return _NAME(kind) == "Cancelled" and str(_MODULE(kind)).partition(".")[0] == "trio"


def leaves(error: BaseException) -> tuple[BaseException, ...]:
    """Return the exceptions in a group, from left to right, each once. Any other exception is returned itself.

    A nursery wraps even a single failure in a group, and `except Exception` does not see inside it. Code that
    judges an exception must therefore look at its leaves. Handles groups of any depth, and groups that contain
    the same group many times.
    """
    found: dict[int, BaseException] = {}
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        current = waiting.pop()
        if not isinstance(current, BaseExceptionGroup):
            found.setdefault(id(current), current)
        elif id(current) not in seen:  # thirty nested groups can have a billion paths
            seen.add(id(current))
            waiting.extend(reversed(members_of(current)))
    return tuple(found.values())


def members_of(group: BaseExceptionGroup[BaseException]) -> tuple[BaseException, ...]:
    """Return the real members of a group, even if its class overrides `exceptions`."""
    held: tuple[BaseException, ...] = _EXCEPTIONS(group)
    return held


def decide_first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the member to raise in place of a group: the first that is not a cancellation, otherwise the first."""
    return min(members_of(group), key=lambda one: all(map(is_cancellation, leaves(one))))


def show(value: object) -> str:
    """Return a `repr` for a message: at most about 200 characters. It never raises."""
    return repr_of(value, _short.repr)


def repr_of(value: object, form: Callable[[object], str] = repr) -> str:
    """Return the `repr` of any value. It never raises: numbers beyond 4,300 digits and deep lists have none."""
    return call_guarded(lambda _: f"<{type(value).__name__}, whose __repr__ raises>", form, value)
