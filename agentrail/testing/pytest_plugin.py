"""Fixtures for tests of agents, there wherever agentrail is installed: `supervisor`, `scripted`, `clock`.

    async def test_my_agent(supervisor, scripted, clock):
        session = await supervisor.start_session(model=scripted(says("hello")))
        assert await session.ask("Hi") == "hello"

They need pytest-trio, which runs the test. Nothing of agentrail and no Trio is imported before a test asks for one of them:
pytest loads this module whenever it starts, in every project of the environment. A fixture of the same name in a conftest.py
comes before the one from here.

Every session of `supervisor` is journaled in memory and folded when the test is over, and has to come to what it was: else it could
not be resumed from a store. A test whose sessions cannot, such as one of a plugin that asks a clock, says so and why:
`@pytest.mark.unfolded("its plugin asks a clock")`.
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
    """Say what the mark means."""
    config.addinivalue_line(
        "markers", "unfolded(why): sessions of `supervisor` are something else than their journals say"
    )


@pytest.fixture
def clock() -> "trio.testing.MockClock":
    """The clock under which the test runs: it jumps to the next deadline when all tasks wait.

    Not for tests with threads or child processes: it does not see them at work, and jumps past them.
    """
    from agentrail.testing.clock import FakeClock  # noqa: PLC0415 - as the module says

    return FakeClock()


@pytest.fixture
def scripted() -> "Generator[Callable[..., ScriptedModel], None, None]":
    """Make a `ScriptedModel` of turns: `scripted(says("one"), says("two"))`. In a test that passes all were asked for."""
    from agentrail.testing.models import ScriptedModel  # noqa: PLC0415 - as the module says

    made: list[ScriptedModel] = []

    def make(*turns: "Turn") -> "ScriptedModel":
        made.append(ScriptedModel(turns))
        return made[-1]

    yield make
    for model in made:
        model.assert_exhausted()


@pytest.fixture
async def supervisor(request: pytest.FixtureRequest) -> "AsyncIterator[SessionSupervisor]":
    """A supervisor whose models are objects, so that no test asks a real one; behind it nothing of its sessions is left.

    And each of them is what its journal comes to, unless the test is marked `unfolded`.
    """
    from agentrail.testing.folded import folded_sessions  # noqa: PLC0415 - as the module says
    from agentrail.testing.orphans import no_orphans  # noqa: PLC0415
    from agentrail.testing.supervisors import open_nameless  # noqa: PLC0415

    is_folded = request.node.get_closest_marker("unfolded") is None
    with folded_sessions() if is_folded else nullcontext():
        async with no_orphans(), open_nameless() as opened:
            yield opened
