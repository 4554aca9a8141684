"""Blocks in which the collector frees nothing, so that what is freed was in no cycle."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Keep the collector off. A server of many sessions looks at old objects about once an hour, so it must not need it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
