"""A mark for tests of files that only a checkout has. `make compiled-test` runs in a copy in which `agentrail/` is a link to what was installed."""

from pathlib import Path

import pytest

import agentrail

CHECKOUT = Path(__file__).parents[1]

only_in_a_checkout = pytest.mark.skipif(
    Path(agentrail.__file__).resolve().parents[1] != CHECKOUT.resolve(),
    reason="agentrail was installed from a wheel: what is tested lies in a checkout",
)
