"""The edge of code that is not ours."""

import functools
import time
from unittest.mock import AsyncMock

import pytest
import trio

from agentrail.otp.guarded_calls import (
    call_contained,
    call_guarded,
    decide_first,
    is_async,
    is_plain_function,
    leaves,
    takes,
    travels,
)


def name_of(error):
    return type(error).__name__


def raises(error):
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


def test_a_cancellation_goes_on(cancelled):
    """Trio's own cancellation ends no edge, alone or in a group."""
    assert travels(cancelled)
    assert travels(BaseExceptionGroup("g", [ValueError(), cancelled]))
    with pytest.raises(trio.Cancelled):
        call_guarded(name_of, raises(cancelled))


def test_a_contained_call_ends_no_program(cancelled):
    """Its `SystemExit` is a bug, alone or in a group. A cancellation and Ctrl-C still leave."""
    for error in (SystemExit(2), BaseExceptionGroup("g", [SystemExit(2), ValueError()])):
        assert call_contained(name_of, raises(error)) == name_of(error)
    for error in (cancelled, KeyboardInterrupt(), BaseExceptionGroup("g", [SystemExit(2), cancelled])):
        with pytest.raises(type(error)):
            call_contained(name_of, raises(error))


def test_leaves_of_a_group_within_itself_are_found_once():
    """Two hundred groups of twice the same one have more paths than anybody could walk, and one leaf."""
    group = leaf = ValueError()
    for _ in range(200):
        group = ExceptionGroup("g", [group, group])
    assert leaves(group) == (leaf,)


class Plain:
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


def test_a_listener_is_a_function_that_returns_what_it_says():
    """A function without Python code may be one, such as the `append` of a list; a coroutine function is none."""
    for function in ([].append, time.sleep, Plain, Plain(), lambda _: None, functools.partial(Plain())):
        assert is_plain_function(function)
    for function in (
        waiting,
        Plain().wait,
        Waiting(),
        Waiting.of_class,
        functools.partial(Waiting()),
        5,
        None,
    ):
        assert not is_plain_function(function)


@pytest.mark.parametrize(
    "function", [lambda: None, Plain(), Plain, Plain().__call__, functools.partial(Plain()), 5, None, "wait"]
)
def test_a_plain_callable_is_told_from_an_async_one(function):
    """A class is one too: an instance cannot be awaited."""
    assert not is_async(function)


@pytest.mark.parametrize(
    ("function", "most"),
    [
        (lambda a, b: 0, 2),
        (lambda a, *, b=0: 0, 1),
        (lambda *_: 0, 9),
        (str.upper, 1),
        (max, 9),
        ("text", -1),
    ],
)
def test_a_function_takes_as_many_arguments_as_it_has_parameters(function, most):
    """One without a signature, such as `max`, is not judged, and what is no function takes none."""
    assert takes(function, ["a"] * most) is (most >= 0)
    assert takes(function, ["a"] * (most + 1)) is (most == 9)


def test_the_first_member_that_is_no_cancellation_stands_for_a_group(cancelled):
    """As it is, also if it is a group. Of cancellations alone the first one does."""
    bug, both = ValueError(), BaseExceptionGroup("", [cancelled, KeyError()])
    alone = BaseExceptionGroup("", [cancelled])
    assert decide_first(BaseExceptionGroup("", [alone, cancelled, bug, KeyError()])) is bug
    assert decide_first(BaseExceptionGroup("", [cancelled, both, bug])) is both
    assert decide_first(BaseExceptionGroup("", [alone, cancelled])) is alone
