"""Databases of `PostgresStore` for tests."""

import pytest

from tests.stores.postgres_databases import fresh_databases


@pytest.fixture
def databases(postgres_server):
    """Create databases with tables and a clock that stands still; they are dropped when the test is over."""
    with fresh_databases(postgres_server) as create:
        yield create
