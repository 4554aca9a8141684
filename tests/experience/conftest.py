"""The fixtures of the shell's tests."""

from tests.runtime.conftest import supervisor  # noqa: F401 - a fixture
