"""An error that waits."""

import pytest

from agentrail.actors.kept import Kept


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(3)])
def test_an_error_is_raised_when_it_is_released(error):
    """It leaves the block as nothing, and `release` as itself."""
    kept = Kept()
    with kept:
        raise error
    assert kept.error is error
    with pytest.raises(type(error)) as caught:
        kept.release()
    assert caught.value is error


def test_nothing_is_released_of_a_block_that_ended_well():
    """No error, nothing to raise."""
    kept = Kept()
    with kept:
        pass
    kept.release()
    assert kept.error is None
