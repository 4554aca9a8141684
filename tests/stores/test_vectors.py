"""Vectors in memory: they are those of the file, and none is kept that was forgotten."""

import pytest

from agentrail.stores.vectors import VectorCache

ONE = b"\x00\x00\x80\x3f"
"""A vector of one number, 1.0."""


def test_rows_read_before_a_drop_are_not_kept():
    """A search that reads while another caller forgets them answers with them, but the next one reads again."""
    pytest.importorskip("numpy", reason="no extra `embeddings`")
    cache, reads = VectorCache(), []

    def read(*, forgets):
        reads.append(forgets)
        if forgets:
            cache.drop()
        return [(7, ONE)]

    def search(*, forgets):
        return cache.nearest(1, ("acme",), ONE, lambda: read(forgets=forgets), limit=5)

    assert search(forgets=True) == search(forgets=False) == search(forgets=False) == [(1.0, 7)]
    assert reads == [True, False]
