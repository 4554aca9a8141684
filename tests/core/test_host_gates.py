"""The gates of the host in the core: asked about each call and told of what ran, in all of a small world (8.3, 8.16)."""

import pytest

from agentrail.core.protocol.effects import AskHost, RunTool, TellHost
from agentrail.core.protocol.signals import HostJudged, StepCrashed, ToolFinished
from agentrail.core.session.state import Phase, SessionState
from agentrail.core.values.toolbox import read_call
from agentrail.errors import ErrorInfo
from agentrail.testing.promises import PROMISES
from tests.core.worlds import completed, new_session, prompt, small_world, walk
from tests.thinned import each, sample

BOTH = frozenset({"before_tool", "after_tool"})


def stages(state: SessionState) -> set[str]:
    return {call.stage for call in state.data.batch}


@pytest.mark.check  # as complete as the other small world, and as long
@each("promise", PROMISES)
def test_promise_holds_in_all_of_a_small_world_with_a_host(promise):
    """Calls that are checked and reported meet every signal: in every twentieth step, and in all of them in `make nightly`."""
    steps = small_world(BOTH)
    for seen in sample(steps, len(steps) // 20):
        promise(seen)


@pytest.mark.check
def test_the_small_world_with_a_host_is_not_tiny():
    """Verdicts are late, hooks are told behind an abort, and calls are checked beside some that run, ask, and were stopped."""
    seen = small_world(BOTH)
    met = [stages(one.before) for one in seen]
    for together in ({"checking", "running"}, {"checking", "asking"}, {"reporting", "running"}):
        assert any(one >= together for one in met), together
    assert any(one.of(TellHost) for one in seen)
    verdicts = [one for one in seen if isinstance(one.signal, HostJudged)]
    assert {one.before.phase for one in verdicts} == set(Phase)


def test_a_session_without_a_host_asks_and_tells_nothing():
    """It pays nothing: no effect, no stage, no signal (H-020)."""
    for seen in small_world():
        assert not seen.of(AskHost)
        assert not seen.of(TellHost)
        assert not stages(seen.after) & {"checking", "reporting"}


def test_the_host_is_not_told_of_what_never_ran():
    """Such as a call that the runner refused because its arguments changed, or one for which no thread was left (H-050)."""
    calls = [prompt(), completed("r1", read_call("c1", "read", "{}"))]
    *_, seen = walk(calls, new_session(host_hooks=BOTH))
    (asked,) = seen.of(AskHost)
    (seen,) = walk([HostJudged(at_ms=2, effect_id=asked.effect_id)], seen.after)
    (started,) = seen.of(RunTool)
    ended = ToolFinished(at_ms=3, effect_id=started.effect_id, text="a", started_at_ms=2, ran_ms=None)
    error = ErrorInfo(code="internal", message="a bug")
    crashed = StepCrashed(at_ms=4, signal_kind="ToolFinished", error=error, owed_by=started.effect_id)
    for end in (ended, crashed):
        (last,) = walk([end], seen.after)
        assert not last.of(TellHost)
