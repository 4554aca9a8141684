"""Blocks in which the collector frees nothing, so that what is freed was in no cycle."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Keep the collector off. A server of many sessions looks at old objects about once an hour, so it must not need it.

    `gc.get_objects()` shows only objects of the block. A worker has millions of older ones, and looking at them takes seconds.
    """
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()
