"""The edge of code that is not ours."""

import gc
import weakref

import pytest

from agentrail.otp.edges import contain


def name_of(error):
    """Make data of an error."""
    return type(error).__name__


def test_what_returns_is_returned():
    """Arguments go in, the value comes out, and `otherwise` is not asked."""
    assert contain(name_of, divmod, 7, 2) == (3, 1)
    assert contain(name_of, sorted, [2, 1], reverse=True) == [2, 1]


def test_what_raises_becomes_something_else():
    """The error ends here, as what `otherwise` makes of it."""
    assert contain(name_of, divmod, 7, 0) == "ZeroDivisionError"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_exception_goes_on(error):
    """An interrupt is nobody's bug."""

    def interrupt():
        raise error

    with pytest.raises(error):
        contain(name_of, interrupt)


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
        assert contain(name_of, fail) == "ValueError"
        assert seen[0]() is None
    finally:
        gc.enable()
