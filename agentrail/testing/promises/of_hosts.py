"""What a host is promised: nothing runs that it has not let run, and it hears of what ran, once."""

from agentrail.core.protocol.effects import AskHost, Publish, RunTool, SpawnChild, TellHost
from agentrail.core.protocol.signals import HostJudged, Recovered, ToolAnsweredEarly, ToolFinished
from agentrail.core.session.open_calls import CallState
from agentrail.events import Approval, ToolExecutionEnd
from agentrail.frozen import same_json
from agentrail.testing.promises.seen import Seen


def nothing_runs_that_the_host_has_not_let_run(seen: Seen) -> None:
    """A call begins in the step of its verdict, or when it had one already; with what was judged, or what a person was shown."""
    hooks = seen.before.data.config.host_hooks
    if "before_tool" not in hooks:
        assert not seen.of(AskHost)
        return
    for run in (*seen.of(RunTool), *(one for one in seen.of(SpawnChild) if one.wish is None)):
        was = seen.before.data.batch.find(run.call_id)
        if isinstance(seen.signal, Recovered) and was is None:
            was = next(call for call in seen.before.data.survivors if call.call.call_id == run.call_id)
        assert was is not None, "a call began in the step that brought it"
        if was.stage == "checking":
            _check_verdict(seen, was)
        elif was.stage == "asking":
            shown = [one.asked for one in seen.before.data.interactions if one.asked.call_id == run.call_id]
            assert any(isinstance(one, Approval) and same_json(one.arguments, run.arguments) for one in shown)
        else:
            # What comes back in another process runs again, and had its verdict before it ran the first time.
            assert was.stage in {
                "waiting",
                "pausing",
                *(("running",) if isinstance(seen.signal, Recovered) else ()),
            }
            assert same_json(was.arguments, run.arguments)


def _check_verdict(seen: Seen, was: CallState) -> None:
    signal = seen.signal
    assert isinstance(signal, HostJudged)
    assert (signal.effect_id, signal.deny) == (was.effect_id, None)


def the_host_hears_of_what_ran(seen: Seen) -> None:
    """Of code that has ended, or has answered and goes on, in the step of that, behind its event; of nothing else."""
    told = seen.of(TellHost)
    if "after_tool" not in seen.before.data.config.host_hooks:
        assert not told
        return
    ended = [event for event in seen.events if isinstance(event, ToolExecutionEnd)]
    for one in told:
        assert isinstance(seen.signal, ToolFinished | ToolAnsweredEarly)
        assert seen.signal.ran_ms == one.ran_ms
        assert [event.result for event in ended if event.call_id == one.call_id] == [one.result]
        published = [effect for effect in seen.effects if isinstance(effect, Publish)]
        end = next(effect for effect in published if effect.event in ended)
        assert seen.effects.index(end) < seen.effects.index(one)
    assert len(told) <= 1
