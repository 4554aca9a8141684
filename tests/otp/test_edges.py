"""The edge of code that is not ours."""

import asyncio
import functools
import gc
import time
import weakref
from unittest.mock import AsyncMock

import pytest
import trio

from agentrail.otp.edges import call_guarded, is_async, leaves, show, travels


def name_of(error):
    """Make data of an error."""
    return type(error).__name__


def test_what_returns_is_returned():
    """Arguments go in, the value comes out, and `otherwise` is not asked."""
    assert call_guarded(name_of, divmod, 7, 2) == (3, 1)
    assert call_guarded(name_of, sorted, [2, 1], reverse=True) == [2, 1]


def test_what_raises_becomes_something_else():
    """The error ends here, as what `otherwise` makes of it."""
    assert call_guarded(name_of, divmod, 7, 0) == "ZeroDivisionError"


class Mine(BaseException):
    """A class of somebody's own that is no `Exception`."""


def raises(error):
    """Make a function that raises."""

    def fail():
        raise error

    return fail


@pytest.fixture(scope="module")
def cancelled():
    """What Trio cancels with: nobody else can make one."""

    async def sleep_in(scope):
        scope.cancel()
        await trio.sleep_forever()

    async def main():
        caught = []
        with trio.CancelScope() as scope:
            try:
                await sleep_in(scope)
            except trio.Cancelled as error:
                caught.append(error)
                raise
        return caught[0]

    return trio.run(main)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_what_is_meant_for_the_process_goes_on(error):
    """An interrupt is nobody's bug, alone or in a group, however deep."""
    group = BaseExceptionGroup("outer", [ValueError(), BaseExceptionGroup("inner", [error])])
    for each in (error, group):
        assert travels(each)
        with pytest.raises(type(each)):
            call_guarded(name_of, raises(each))


def test_a_cancellation_goes_on(cancelled):
    """Trio's own cancellation ends no edge, alone or in a group."""
    assert travels(cancelled)
    assert travels(BaseExceptionGroup("g", [ValueError(), cancelled]))
    with pytest.raises(trio.Cancelled):
        call_guarded(name_of, raises(cancelled))


@pytest.mark.parametrize(
    "error",
    [GeneratorExit(), asyncio.CancelledError(), Mine(), BaseExceptionGroup("of one", [Mine()])],
    ids=repr,
)
def test_every_other_exception_is_a_bug_of_whoever_raised_it(error):
    """It ends at the edge, whatever class it has."""
    assert not travels(error)
    assert call_guarded(name_of, raises(error)) == type(error).__name__


def test_leaves_of_a_group_within_itself_are_found_once():
    """Two hundred groups of twice the same one have more paths than anybody could walk, and one leaf."""
    group = leaf = ValueError()
    for _ in range(200):
        group = ExceptionGroup("g", [group, group])
    assert leaves(group) == (leaf,)


def test_a_group_that_lies_about_its_parts_is_asked_itself():
    """A class may say that a group has no end; what it holds is a tuple."""

    class Endless(ExceptionGroup):
        """Each look makes another group."""

        @property
        def exceptions(self):
            return (Endless("more", [ValueError()]),)

    leaf = KeyError()
    assert leaves(Endless("g", [leaf])) == (leaf,)


@pytest.mark.parametrize(
    "value", ["x" * 10_000, 10**6_000, [[[[[[[[[1]]]]]]]]] * 10_000], ids=["text", "number", "list"]
)
def test_what_is_shown_is_short(value):
    """A message shows any value, and stays short."""
    assert len(show(value)) < 1000


def test_what_cannot_be_shown_is_named():
    """A `__repr__` that raises breaks no message."""

    class Hidden:
        def __repr__(self):
            raise GeneratorExit

    assert "Hidden" in show(Hidden())


def test_nothing_keeps_the_error():
    """No frame holds it afterwards, so what it held is gone without the garbage collector."""

    class Precious:
        """What a frame of the traceback holds."""

    seen = []

    def fail():
        precious = Precious()
        seen.append(weakref.ref(precious))
        raise ValueError

    gc.disable()
    try:
        assert call_guarded(name_of, fail) == "ValueError"
        assert seen[0]() is None
    finally:
        gc.enable()


class Plain:
    """A callable with plain methods."""

    def __call__(self):
        """Return nothing."""

    async def wait(self):
        """Return nothing, later."""


class Waiting(Plain):
    """The same, called with `await`."""

    async def __call__(self):
        """Return nothing, later."""

    @classmethod
    async def of_class(cls):
        """Return nothing, later."""


async def waiting():
    """Return nothing, later."""


@pytest.mark.parametrize(
    "function",
    [
        waiting,
        Plain().wait,
        Waiting(),
        Waiting.of_class,
        functools.partial(functools.partial(waiting)),
        functools.partial(Waiting()),
        AsyncMock(),
        trio.to_thread.run_sync,
        time.sleep,  # no Python code to inspect
    ],
)
def test_an_async_callable_is_told_by_its_code(function):
    """Also below partials, as a method, and where its class has an async `__call__`."""
    assert is_async(function)


@pytest.mark.parametrize(
    "function", [lambda: None, Plain(), Plain, Plain().__call__, functools.partial(Plain()), 5, None, "wait"]
)
def test_a_plain_callable_is_told_from_an_async_one(function):
    """A class is one too: an instance cannot be awaited."""
    assert not is_async(function)
