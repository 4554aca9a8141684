"""The gates of the host in the core: asked about each call and told of what ran, in all of a small world (8.3, 8.16)."""

import pytest

from agentrail.core.protocol.effects import AskHost, RunTool, TellHost
from agentrail.core.protocol.signals import HostJudged, Prompt, SignalId, StepCrashed, ToolFinished
from agentrail.core.session.state import Phase, SessionState
from agentrail.core.values.toolbox import read_call
from agentrail.errors import ErrorInfo
from agentrail.messages import PromptRef, Text
from agentrail.testing.promises import PROMISES, Seen
from tests.core.worlds import completed, new_session, run, small_world, walk
from tests.thinned import each, sample

BOTH = frozenset({"before_tool", "after_tool"})
GO = Prompt(at_ms=1, signal_id=SignalId("p1"), ref=PromptRef("p1"), content=(Text(text="go"),))


def stages(state: SessionState) -> set[str]:
    """The stages of the calls that are open."""
    return {call.stage for call in state.data.batch}


@pytest.mark.check  # as complete as the other small world, and as long
@each("promise", PROMISES)
def test_promise_holds_in_all_of_a_small_world_with_a_host(promise):
    """Calls that are checked and reported meet every signal: in every fifth step, and in all of them in `make nightly`."""
    steps = small_world(BOTH)
    for seen in sample(steps, len(steps) // 5):
        promise(seen)


@pytest.mark.check
def test_the_small_world_with_a_host_is_not_tiny():
    """Verdicts are late, hooks are told behind an abort, and calls are checked beside some that run, ask, and were stopped."""
    seen = small_world(BOTH)
    met = [stages(one.before) for one in seen]
    assert any(one >= {"checking", "running"} for one in met)
    assert any(one >= {"checking", "asking"} for one in met)
    assert any(one >= {"reporting", "running"} for one in met)
    assert any(one.of(TellHost) for one in seen)
    verdicts = [one for one in seen if isinstance(one.signal, HostJudged)]
    assert {one.before.phase for one in verdicts} == set(Phase)


def test_a_session_without_a_host_asks_and_tells_nothing():
    """It pays nothing: no effect, no stage, no signal (H-020)."""
    for seen in small_world():
        assert not seen.of(AskHost)
        assert not seen.of(TellHost)
        assert not stages(seen.after) & {"checking", "reporting"}


def one_call(hooks: frozenset[str], *, ran_ms: int | None) -> list[Seen]:
    """A call that the host lets run, and its end."""
    state = run([GO], new_session(host_hooks=hooks))
    seen = list(walk([completed("r1", read_call("c1", "read", "{}"))], state))
    asked = seen[-1].of(AskHost)
    if asked:
        seen += walk([HostJudged(at_ms=2, effect_id=asked[0].effect_id)], seen[-1].after)
    (started,) = seen[-1].of(RunTool)
    ended = ToolFinished(at_ms=3, effect_id=started.effect_id, text="a", started_at_ms=2, ran_ms=ran_ms)
    return [*seen, *walk([ended], seen[-1].after)]


def test_the_host_is_not_told_of_what_never_ran():
    """Such as a call that the runner refused because its arguments changed, or one for which no thread was left (H-050)."""
    assert not one_call(BOTH, ran_ms=None)[-1].of(TellHost)
    state = one_call(BOTH, ran_ms=None)[-2].after
    (running,) = state.data.batch
    error = ErrorInfo(code="internal", message="a bug")
    crashed = StepCrashed(at_ms=4, signal_kind="ToolFinished", error=error, owed_by=running.effect_id)
    assert not list(walk([crashed], state))[-1].of(TellHost)
