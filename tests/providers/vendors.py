"""The vendors' own types, as judges of what we read and write: imported by the first test that asks one.

To import them takes three seconds, so the files whose tests ask run on one worker (`SHARES` of the root `conftest.py`), and the
others do without.
"""

import functools
from importlib import import_module
from typing import Any


def library(name: str) -> Any:
    """Give a library of a vendor, or one that comes with it."""
    return import_module(name)


@functools.cache
def judge(module: str, name: str) -> Any:
    """Give what validates a type of a vendor, such as `judge("anthropic.types", "RawMessageStreamEvent")`.

    Returns:
        A `pydantic.TypeAdapter`.
    """
    return library("pydantic").TypeAdapter(getattr(library(module), name))
