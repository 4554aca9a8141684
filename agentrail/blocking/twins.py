"""How a call gets its twins: one that gives a future, and one that blocks. Their signatures are those of the call, by construction.

Written out, sixty methods would have to follow each change of the sixty that they stand for. What may not enter: any of them.
"""

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar, cast, overload

import trio

from agentrail.blocking.thread import SupervisorThread
from agentrail.runtime.own_prompts import OwnPrompts

GIVEN_UP: Final = "its caller gave it up"
"""The reason of an abort behind a future that was cancelled."""

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
_R_co = TypeVar("_R_co", covariant=True)


class Twin(Protocol[P, _R_co]):
    """What type checkers see of a twin; when the program runs it is a plain function, and bound like one."""

    @overload
    def __get__(self, holder: None, owner: Any) -> Callable[Concatenate[Any, P], _R_co]: ...
    @overload
    def __get__(self, holder: object, owner: Any) -> Callable[P, _R_co]: ...


class Far:
    """Stands for something that lives in the thread.

    Attributes:
        noun: What it is called in messages.
    """

    noun = ""

    def __init__(self, thread: SupervisorThread, near: Callable[[], Any]) -> None:
        self._thread = thread
        self._near = near


def later(
    call: Callable[Concatenate[Any, P], Awaitable[R]],
    *,
    within: Callable[[SupervisorThread, Awaitable[R]], Awaitable[R]] | None = None,
) -> Twin[P, Future[R]]:
    """Make the twin of a call that gives a future.

    Args:
        call: Which.
        within: Is awaited in its place, and awaits it.
    """

    @wraps(call)
    def start(self: Far, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        def make() -> Awaitable[R]:
            made = call(self._near(), *args, **kwargs)
            return made if within is None else within(self._thread, made)

        return self._thread.submit(make)

    return cast("Twin[P, Future[R]]", start)


def later_or_aborted(call: Callable[Concatenate[Any, P], Awaitable[R]]) -> Twin[P, Future[R]]:
    """Make the twin of a call that waits for the cycle of a prompt: who cancels its future wants no such cycle any more."""

    @wraps(call)
    def start(self: Far, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        async def ask() -> R:
            own = OwnPrompts(self._near())
            try:
                return await call(own, *args, **kwargs)
            except trio.Cancelled:
                self._thread.start(own.abort_sent, GIVEN_UP)
                raise

        return self._thread.submit(ask)

    what = (call.__doc__ or "").partition("Cancellation:")[0]
    start.__doc__ = (
        f"{what}Cancellation: Of the future, or by Ctrl-C: the cycle of this very prompt is aborted; where it still waits it\n"
        "            leaves the queue. Cycles of other prompts go on.\n        "
    )
    return cast("Twin[P, Future[R]]", start)


def waits(of: Callable[Concatenate[Any, P], Future[R]]) -> Twin[P, R]:
    """Make the twin of a call that blocks, out of the one that gives a future."""
    name: str = cast("Any", of).__name__

    @wraps(of)
    def wait(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        thread: SupervisorThread = self._thread
        thread.refuse_to_hold(f"{self.noun}.{name}")
        return thread.wait(of(self.futures, *args, **kwargs))

    return cast("Twin[P, R]", wait)


def looks(call: Callable[Concatenate[Any, P], T], made: Callable[[SupervisorThread, T], R]) -> Twin[P, R]:
    """Make the twin of a call that does not wait: it is made in the thread, where nothing changes meanwhile."""

    @wraps(call)
    def look(self: Far, *args: P.args, **kwargs: P.kwargs) -> R:
        return made(self._thread, self._thread.look(lambda: call(self._near(), *args, **kwargs)))

    return cast("Twin[P, R]", look)


def as_it_is(_: SupervisorThread, value: T) -> T:
    """Make nothing of what was looked at."""
    return value
