"""What is asked of the world is asked once, under an id of its own, and is never forgotten."""

from collections.abc import Iterator

import msgspec

from agentrail.core.protocol.effects import (
    CancelPluginRequest,
    CancelStream,
    ClearTimer,
    KillTools,
    RunPluginRequest,
    RunTool,
    SetTimer,
    SpawnChild,
    StartStream,
    Teardown,
    stall_timer_of,
)
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import (
    AbortCycle,
    EffectOutcome,
    Parked,
    ResponseCompleted,
    Restarted,
    StepCrashed,
    ToolFinished,
)
from agentrail.core.session.state import Phase, SessionState
from agentrail.events import AgentAbort, AgentStart, PromptRejected
from agentrail.testing.promises.seen import Seen, open_effects, unstarted_calls


def tools_run_once_and_only_from_waiting(seen: Seen) -> None:
    """Each RunTool is of a call that waited, or came with this response, and that runs now under this very id."""
    now = {call.effect_id: call for call in seen.after.data.batch}
    waited = unstarted_calls(seen.before)
    for run in seen.of(RunTool):
        state = now[run.effect_id]
        assert state.stage == "running"
        assert state.call.call_id == run.call_id
        assert (state.call.name, state.arguments) == (run.name, run.arguments)
        assert run.call_id in waited or isinstance(seen.signal, ResponseCompleted) or run.attempt > 1
        assert seen.after.data.cycle is not None
        assert run.turn == seen.after.data.cycle.turn < seen.after.data.config.max_turns


def effect_ids_are_new(seen: Seen) -> None:
    """No effect is asked for under an id that was given out before."""
    numbers = [int(effect_id[1:]) for effect_id in _started(seen)]
    # Approvals and questions are numbered along with them.
    was = {str(interaction.id) for interaction in seen.before.data.interactions}
    now = {str(interaction.id) for interaction in seen.after.data.interactions}
    now |= {resolved.id for resolved in seen.after.data.resolved}
    numbers += [int(one.rpartition("/a")[2]) for one in now - was]
    new = range(seen.before.data.minted + 1, seen.after.data.minted + 1)
    assert sorted(number for number in numbers if number in new) == list(new)
    assert all(int(effect_id[1:]) in new for effect_id in _started(seen))


def nothing_started_is_forgotten(seen: Seen) -> None:
    """What was started is open until its outcome came, or the step asked to stop it, or the actor died with it."""
    came = {seen.signal.effect_id} if isinstance(seen.signal, EffectOutcome) else set()
    # It stands in for that outcome.
    if isinstance(seen.signal, StepCrashed) and seen.signal.owed_by is not None:
        came = {seen.signal.owed_by}
    stopped = {effect.effect_id for effect in seen.of(CancelStream)}
    killed = {effect_id for effect in seen.of(KillTools) for effect_id in effect.effect_ids}
    plugin_requests = {effect.effect_id for effect in seen.of(CancelPluginRequest)}
    stopped |= killed | plugin_requests | {effect.effect_id for effect in seen.of(ClearTimer)}
    was, now = open_effects(seen.before), open_effects(seen.after)
    # What is asked and superseded in one step is set and cancelled in it.
    assert stopped <= was | set(_started(seen))
    assert now <= was | set(_started(seen))
    if isinstance(seen.signal, Restarted | Parked) or seen.after.ended:
        assert not (was & now) or seen.before.ended
    else:
        # What is stopping was told to stop before; an abort stops waiting for it, and its teardown does instead.
        told = _stopping(seen.before)
        assert was - now <= came | stopped | told
        stopping = _stopping(seen.after)
        assert now.isdisjoint(stopped - stopping)
        assert now.isdisjoint(came) or not _ends_its_effect(seen)
    # It waits for all that was stopped, and for what had been told to stop before.
    for teardown in seen.of(Teardown):
        streams = {effect.effect_id for effect in seen.of(CancelStream)} | plugin_requests
        told = _stopping(seen.before)
        assert killed | streams <= set(teardown.stopped) <= killed | streams | told


def late_outcomes_change_nothing(seen: Seen) -> None:
    """An outcome of an effect that is not open moves the counter, and nothing else."""
    if isinstance(seen.signal, EffectOutcome) and not seen.before.ended:
        # To a child whose call is answered: what it used is counted all the same.
        lent = set(seen.before.data.loans)
        if seen.signal.effect_id in open_effects(seen.before) | _looks(seen.before) | lent:
            return
        was = seen.before.data
        assert seen.after.data == msgspec.structs.replace(was, dropped=was.dropped + 1)
        assert seen.after.phase is seen.before.phase
        assert seen.effects == ()


def an_abort_leaves_nothing_open(seen: Seen) -> None:
    """An abort says AgentAbort, and leaves neither cycle nor batch; what starts behind it is a prompt that waited."""
    if isinstance(seen.signal, AbortCycle) and not seen.before.ended:
        _says_so_once(seen)
        assert not seen.after.data.batch
        assert not seen.of(RunTool)
        held = seen.after.data.held
        checked = held.prompt if held is not None else None
        begun = seen.after.data.cycle or checked
        if begun is not None:
            waited = {str(prompt.ref) for prompt in seen.before.data.queue}
            waited |= {str(steer.ref) for steer in seen.before.data.steers}
            assert begun.ref in waited
        else:
            assert seen.after.phase is Phase.IDLE
        if not seen.before.data.survivors and seen.signal.kill_tools == "all":
            assert not seen.after.data.survivors


def _says_so_once(seen: Seen) -> None:
    """One AgentAbort, and one for each prompt behind it that a plugin aborted in its turn, as it began."""
    owed, said = 1, 0
    for event in seen.events:
        if isinstance(event, AgentStart | PromptRejected):
            owed += said >= owed
        said += isinstance(event, AgentAbort)
        assert said <= owed, f"AgentAbort came {said} times, and {owed} cycles were there to end"
    assert said >= 1, "an abort was taken without an AgentAbort"


def _stopping(state: SessionState) -> set[EffectId | None]:
    """The calls that were told to stop and have not ended yet."""
    calls = (*state.data.batch, *state.data.survivors)
    return {call.effect_id for call in calls if call.stage == "stopping"}


def _looks(state: SessionState) -> set[EffectId]:
    """The timer of the stream that is out."""
    stream, compaction = state.data.stream, state.data.compaction
    if compaction is not None and compaction.summary is None:
        return {stall_timer_of(compaction.effect_id)}
    return {stall_timer_of(stream.effect_id)} if stream is not None and not stream.pausing else set()


def _started(seen: Seen) -> Iterator[EffectId]:
    for effect in seen.effects:
        match effect:
            case StartStream(request=request):
                yield request.attempt
            case SetTimer(effect_id=effect_id) if effect_id.startswith("s"):
                pass  # of a stream that is out: set anew under the same id, and gone with the stream
            case RunTool(effect_id=effect_id) | Teardown(effect_id=effect_id) | SetTimer(effect_id=effect_id):
                yield effect_id
            case RunPluginRequest(effect_id=effect_id) | SpawnChild(effect_id=effect_id):
                yield effect_id
            case _:
                pass


def _ends_its_effect(seen: Seen) -> bool:
    # One that came too late for its value is counted, and ends it all the same.
    if isinstance(seen.signal, ToolFinished):
        return seen.signal.effect_id.startswith("t")  # that of a timer ends no call, and no timer
    return (
        type(seen.signal).__name__
        in {
            "ResponseCompleted",
            "StreamFailed",
            "TeardownFinished",
            "TimerFired",
            "PluginRequestFinished",
        }
        and seen.after.data.dropped == seen.before.data.dropped
    )
