"""Fixtures for tests of agents, available wherever agentrail is installed: `supervisor`, `scripted`, `clock`.

    async def test_my_agent(supervisor, scripted, clock):
        session = await supervisor.start_session(model=scripted(says("hello")))
        assert await session.ask("Hi") == "hello"

They need pytest-trio, which runs the test. Neither agentrail nor Trio is imported before a test uses one of them: pytest
loads this module at every start, in every project of the environment. A fixture of the same name in a conftest.py
takes precedence.

Every session of `supervisor` is journaled in memory. After the test, its state must equal the folded journal, or it could
not be resumed from a store. A test whose sessions cannot do this, such as one of a plugin that reads a clock, states the
reason: `@pytest.mark.unfolded("its plugin asks a clock")`.
"""

from collections.abc import AsyncIterator, Callable, Generator
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import trio.testing

    from agentrail.runtime.supervisor import SessionSupervisor
    from agentrail.testing.models import ScriptedModel, Turn


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "unfolded(why): sessions of `supervisor` differ from their journals")


@pytest.fixture
def clock() -> "trio.testing.MockClock":
    """The clock of the test: it jumps to the next deadline when all tasks wait.

    Not for tests with threads or child processes: it does not see them working, and jumps past them.
    """
    from agentrail.testing.clock import FakeClock  # noqa: PLC0415 - see the docstring of the module

    return FakeClock()


@pytest.fixture
def scripted() -> "Generator[Callable[..., ScriptedModel], None, None]":
    """Create a `ScriptedModel` from turns: `scripted(says("one"), says("two"))`. A passing test must use all of them."""
    from agentrail.testing.models import ScriptedModel  # noqa: PLC0415 - see the docstring of the module

    made: list[ScriptedModel] = []

    def make(*turns: "Turn") -> "ScriptedModel":
        made.append(ScriptedModel(turns))
        return made[-1]

    yield make
    for model in made:
        model.assert_exhausted()


@pytest.fixture
async def supervisor(request: pytest.FixtureRequest) -> "AsyncIterator[SessionSupervisor]":
    """A supervisor whose models are objects, so that no test calls a real one. Its sessions have ended after the test.

    Each session must equal its folded journal, unless the test is marked `unfolded`.
    """
    from agentrail.testing.folded import folded_sessions  # noqa: PLC0415 - see the docstring of the module
    from agentrail.testing.orphans import no_orphans  # noqa: PLC0415
    from agentrail.testing.supervisors import open_nameless  # noqa: PLC0415

    is_folded = request.node.get_closest_marker("unfolded") is None
    with folded_sessions() if is_folded else nullcontext():
        async with no_orphans(), open_nameless() as opened:
            yield opened
