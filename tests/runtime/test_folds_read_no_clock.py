"""A fold depends on its records alone: how long a plugin takes while a journal is folded changes nothing."""

import pytest

from agentrail.plugins.human_approval import HumanApproval
from agentrail.runtime import plugin_watch
from agentrail.runtime.plugin_watch import PluginWatch, QuietWatch
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.runtime.test_drifts import NoSnapshots
from tests.runtime.test_resumed_sessions import open_again

PLUGINS = [(HumanApproval, {"require_approval_for": ["nothing"]})]


@pytest.fixture
def given():
    """Code of the session: a model that charges once per prompt, and a guard that allows it."""
    once = RecordingTool(name="once", effect_class="once")
    model = ScriptedModel([calls(("once", {})), says("charged")] * 4)
    return {"model": model, "tools": [once], "plugins": PLUGINS}


async def lived(store, given):
    """Let a session charge twice in a process that is over then; return its messages."""
    async with open_again(store) as supervisor:
        session = await supervisor.start_session(session_id="s", **given)
        await session.ask("one")
        await session.ask("two")
        return await session.messages()


def slow_handlers(monkeypatch):
    monkeypatch.setattr(plugin_watch, "_SLOW_SECONDS", -1.0)


async def test_a_session_that_is_resumed_has_the_history_that_it_had(given, monkeypatch, caplog):
    """Each handler is slow while its journal is folded, and was not when it lived."""
    store = NoSnapshots(lease_ms=0)
    before = await lived(store, given)
    slow_handlers(monkeypatch)
    async with open_again(store) as supervisor:
        session = await supervisor.resume_session("s", **given)
        assert await session.messages() == before
        assert type(supervisor._known("s").state.data.stack.ask) is PluginWatch  # noqa: SLF001
    assert len(given["tools"][0].calls) == 2
    assert "the current code produces a different history: %s" not in caplog.text
    assert "crashed" not in caplog.text


async def test_a_fork_has_the_history_of_its_parent(given, monkeypatch, caplog):
    """A fork folds by the watch that its session will have, and that one reports to a session already."""
    store = NoSnapshots(lease_ms=0)
    before = await lived(store, given)
    async with open_again(store) as supervisor:
        session = await supervisor.resume_session("s", **given)
        slow_handlers(monkeypatch)
        fork = await session.fork(session_id="f")
        assert await fork.messages() == before
        assert type(supervisor._known("f").state.data.stack.ask) is PluginWatch  # noqa: SLF001
    assert "crashed" not in caplog.text


async def test_a_quiet_watch_looks_at_no_clock():
    """The stopwatch of a fold is never called."""
    looks = []
    watch = QuietWatch("s", {})
    watch._stopwatch = lambda: looks.append(1) or 0.0  # noqa: SLF001
    plugin = HumanApproval()

    class Member:
        name = "HumanApproval"

    Member.plugin = plugin
    plugin.handle = lambda _event, state, _ctx: state
    assert watch(Member, object(), "state", None) == "state"
    assert not looks
