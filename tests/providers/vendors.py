"""The vendors' own types, as judges of what we read and write: imported by the first test that asks one.

To import them takes three seconds, so the files whose tests ask run on one worker (`_SHARES` of the root `conftest.py`), and the
others do without.
"""

import functools
from importlib import import_module
from typing import Any


@functools.cache
def judge(module: str, name: str) -> Any:
    """Give what validates a type of a vendor, such as `judge("anthropic.types", "RawMessageStreamEvent")`.

    Returns:
        A `pydantic.TypeAdapter`.
    """
    return import_module("pydantic").TypeAdapter(getattr(import_module(module), name))
