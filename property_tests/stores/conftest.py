"""The PostgreSQL server of tests."""

from tests.postgres import postgres_server, postgres_session

__all__ = ["postgres_server", "postgres_session"]  # fixtures
