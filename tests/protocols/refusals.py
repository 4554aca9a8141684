"""Refused requests, for the tests of wires."""

from collections.abc import Callable
from typing import Any

import pytest

from agentrail.protocols.decisions import WireRefused


def refusal_of(work: Callable[..., object], *given: Any) -> WireRefused:
    """Do what is to be refused; gives the refusal."""
    with pytest.raises(WireRefused) as caught:
        work(*given)
    return caught.value
