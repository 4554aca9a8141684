"""A recovery brings the gates, the context providers and the models of the process that runs the session now."""

import pytest
from msgspec.structs import replace

from agentrail.core.protocol.effects import AskHost, GatherContext, StartStream
from agentrail.core.protocol.request import ModelFacts
from agentrail.core.protocol.signals import HostHook, HostJudged, Recovered, SignalId, StopSession
from agentrail.core.session.agent_records import AgentSpec
from agentrail.core.session.state import SessionState
from agentrail.core.values.toolbox import read_call
from agentrail.events import ToolBlocked
from agentrail.testing.promises import Seen
from tests.core.test_host_gates import BOTH, stages
from tests.core.worlds import completed, new_session, prompt, walk

PAY = read_call("c1", "deploy", "{}")
LATER = read_call("c2", "deploy", "{}")


def _recovered(state: SessionState, *hooks: HostHook) -> Seen:
    (seen,) = walk([Recovered(at_ms=5, open=tuple(state.data.open), host_hooks=hooks)], state)
    return seen


def test_a_recovery_asks_a_new_gate_about_calls_that_wait_for_a_slot():
    """Before they run. A gate that is known is asked no second time, and `after_tool` alone asks about nothing."""
    *_, seen = walk([prompt(), completed("r1", PAY, LATER)], new_session(max_parallel_tools=1))
    assert stages(seen.after) == {"running", "waiting"}
    assert not _recovered(seen.after, "after_tool").of(AskHost)
    again = _recovered(seen.after, "after_tool", "before_tool")
    assert [one.call_id for one in again.of(AskHost)] == ["c2"]
    assert again.after.data.config.host_hooks == BOTH
    (asked,) = again.of(AskHost)
    (denied,) = walk([HostJudged(at_ms=6, effect_id=asked.effect_id, deny="no")], again.after)
    assert [one.reason for one in denied.events if isinstance(one, ToolBlocked)] == ["no"]
    twice = _recovered(again.after, "before_tool")
    assert [one.call_id for one in twice.of(AskHost)] == ["c2"]


def test_a_session_that_stops_asks_no_new_gate():
    """It ends with its recovery, and nothing of it runs."""
    *_, seen = walk(
        [prompt(), completed("r1", PAY, LATER), StopSession(at_ms=3, signal_id=SignalId("k"))],
        new_session(max_parallel_tools=1),
    )
    assert not _recovered(seen.after, "before_tool").of(AskHost)


@pytest.mark.parametrize("gathers", [True, False])
def test_a_recovery_brings_context_providers_and_takes_them_away(gathers):
    """From the next turn on. A request that was lost is sent again, with or without them."""
    *_, seen = walk([prompt()], new_session(gathers_context=not gathers))
    (back,) = walk(
        [Recovered(at_ms=5, open=tuple(seen.after.data.open), gathers_context=gathers)], seen.after
    )
    assert (len(back.of(GatherContext)), len(back.of(StartStream))) == ((1, 0) if gathers else (0, 1))


def test_a_recovery_knows_the_models_as_they_are_described_now():
    """Wherever the session may use them. One that is not of the session changes nothing."""
    others = [ModelFacts(model=name) for name in ("demo:spare", "demo:clerk", "demo:kept")]
    agents = [AgentSpec(name=one.model, description="d", model=one) for one in others[1:]]
    state = new_session(fallbacks=(others[0],), agents=(*agents, AgentSpec(name="plain", description="d")))
    own = state.data.model
    now = [replace(one, context_window=9_000) for one in (own, *others[:2], ModelFacts(model="demo:unknown"))]
    (seen,) = walk([Recovered(at_ms=5, models=tuple(now))], state)
    data = seen.after.data
    assert (data.model, data.config.model, data.config.fallbacks) == (now[0], now[0], (now[1],))
    assert [one.model for one in data.config.agents] == [now[2], others[2], None]
