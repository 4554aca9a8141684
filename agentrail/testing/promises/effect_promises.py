"""Promises about effects: each is requested once, under its own id, and is never forgotten."""

from collections.abc import Iterator
from typing import Any, Final, assert_never

from msgspec.structs import replace

from agentrail.core.protocol.effects import (
    AskHost,
    CancelPluginRequest,
    CancelStream,
    ClearTimer,
    GatherContext,
    KillTools,
    Publish,
    ResumeChild,
    RunPluginRequest,
    RunTool,
    SetTimer,
    SpawnChild,
    StartAgent,
    StartStream,
    Teardown,
    TellHost,
    stall_timer_of,
)
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import (
    AbortCycle,
    ChunksArrived,
    EffectOutcome,
    HostJudged,
    Parked,
    Recovered,
    ResponseCompleted,
    Restarted,
    StepCrashed,
    ToolAnsweredEarly,
    ToolFinished,
)
from agentrail.core.session import effect_owners
from agentrail.core.session.call_results import OUTCOME_UNKNOWN
from agentrail.core.session.recovery import MAX_RECOVERIES
from agentrail.core.session.state import Phase, SessionState
from agentrail.core.session.transitions import is_ephemeral_signal, is_late_ephemeral
from agentrail.events import (
    AgentAbort,
    AgentStart,
    Approval,
    PromptDropped,
    PromptRejected,
    SessionParked,
    SessionRecovered,
    ToolExecutionEnd,
)
from agentrail.frozen import same_json
from agentrail.messages import PromptRef
from agentrail.testing.promises.observed_step import Seen, open_effects, unstarted_calls


def tools_run_once_and_only_from_waiting(seen: Seen) -> None:
    """Each RunTool belongs to a call that was waiting, or came with this response, and that now runs under this exact id."""
    data = seen.after.data
    now = {call.effect_id: call for call in data.batch}
    recovered = isinstance(seen.signal, Recovered)  # then it waited for its outcome, also after an abort
    if recovered:
        now |= {call.effect_id: call for call in data.survivors}
    waited = unstarted_calls(seen.before)
    for run in seen.of(RunTool):
        state = now[run.effect_id]
        assert state.stage == "running"
        assert state.call.call_id == run.call_id
        assert (state.call.name, state.arguments) == (run.name, run.arguments)
        assert (
            run.call_id in waited
            or isinstance(seen.signal, ResponseCompleted)
            or run.attempt > 1
            or run.resumption is not None
            or recovered
        )
        if state in data.survivors:
            continue
        assert data.cycle is not None
        # A last turn reserved for an answer has no tools. In any other last turn they run, and then the cycle ends.
        answers = data.config.on_max_turns == "answer"
        assert run.turn == data.cycle.turn <= data.config.max_turns - answers


def effect_ids_are_new(seen: Seen) -> None:
    """No effect is requested under an id that was used before."""
    numbers = [int(effect_id[1:]) for effect_id in _started(seen)]
    # Approvals and questions share the numbering.
    was = {str(interaction.id) for interaction in seen.before.data.interactions}
    now = {str(interaction.id) for interaction in seen.after.data.interactions}
    now |= {resolved.id for resolved in seen.after.data.resolved}
    numbers += [int(one.rpartition("/a")[2]) for one in now - was]
    new = range(seen.before.data.minted + 1, seen.after.data.minted + 1)
    assert sorted(number for number in numbers if number in new) == list(new)
    assert all(int(effect_id[1:]) in new for effect_id in _started(seen))


def nothing_started_is_forgotten(seen: Seen) -> None:
    """A started effect is open until its outcome arrived, or the step requested its stop, or the actor died with it."""
    came = {seen.signal.effect_id} if isinstance(seen.signal, EffectOutcome) else set()
    # It replaces that outcome.
    if isinstance(seen.signal, StepCrashed) and seen.signal.owed_by is not None:
        came = {seen.signal.owed_by}
    stopped = {effect.effect_id for effect in seen.of(CancelStream)}
    killed = {effect_id for effect in seen.of(KillTools) for effect_id in effect.effect_ids}
    plugin_requests = {effect.effect_id for effect in seen.of(CancelPluginRequest)}
    stopped |= killed | plugin_requests | {effect.effect_id for effect in seen.of(ClearTimer)}
    was, now = open_effects(seen.before), open_effects(seen.after)
    # A timer requested and superseded in one step is set and cancelled in it.
    assert stopped <= was | set(_started(seen))
    assert now <= was | set(_started(seen))
    if isinstance(seen.signal, Restarted | Parked) or seen.after.ended or _is_as_a_crash(seen.signal):
        assert not (was & now) or seen.before.ended
    elif not isinstance(seen.signal, Recovered):  # recoveries have their own promise
        # Calls that are stopping were stopped earlier. An abort no longer waits for them, but its teardown does.
        told = _stopping(seen.before)
        compaction = seen.before.data.compaction if isinstance(seen.signal, AbortCycle) else None
        if compaction is not None and compaction.summary is not None:
            told |= {compaction.effect_id}  # the file may still be written
        assert was - now <= came | stopped | told
        stopping = _stopping(seen.after)
        assert now.isdisjoint(stopped - stopping)
        assert now.isdisjoint(came) or not _ends_its_effect(seen)
    # It waits for everything stopped now or earlier.
    for teardown in seen.of(Teardown):
        streams = {effect.effect_id for effect in seen.of(CancelStream)} | plugin_requests
        told = _stopping(seen.before)
        assert killed | streams <= set(teardown.stopped) <= killed | streams | told


def requests_have_the_context_of_their_turn(seen: Seen) -> None:
    """If context is gathered, each request of a turn has the context of this turn. Otherwise none is gathered.

    Requests for summaries have none. Gathered context stays the same for all attempts at the turn.
    """
    gathers = seen.after.data.config.gathers_context
    assert gathers or not seen.of(GatherContext)
    before, after = seen.before.data.cycle, seen.after.data.cycle
    for started in seen.of(StartStream):
        assert not (started.is_quiet and started.context)
        if gathers and not started.is_quiet and after is not None and seen.after.data.stream is not None:
            context = after.context
            assert context is not None
            assert not context.is_open
            assert started.context == (context.effect_id if context.count else None)
    if before is not None and after is not None and (before.ref, before.turn) == (after.ref, after.turn):
        known = before.context
        # It is not kept in another process.
        is_kept = not isinstance(seen.signal, Recovered)
        assert known is None or known.is_open or after.context == known or not is_kept
    if seen.of(GatherContext) and after is not None:
        assert seen.after.phase is Phase.RUNNING
        assert seen.after.data.stream is None


def _is_as_a_crash(signal: object) -> bool:
    return isinstance(signal, StepCrashed) and signal.signal_kind == Recovered.__name__


def late_outcomes_change_nothing(seen: Seen) -> None:
    """An outcome without an open effect changes only the counter. An ephemeral one does not change even that."""
    if isinstance(seen.signal, EffectOutcome) and not seen.before.ended:
        # Lent to a child whose call is answered: its usage is counted nevertheless.
        lent = set(seen.before.data.loans)
        if seen.signal.effect_id in open_effects(seen.before) | _looks(seen.before) | lent:
            return
        was = seen.before.data
        counted = not is_ephemeral_signal(seen.signal)
        assert seen.after.data == replace(was, dropped=was.dropped + counted)
        assert seen.after.phase is seen.before.phase
        assert seen.effects == ()


def what_is_not_recorded_leaves_no_trace(seen: Seen) -> None:
    """A journal contains no progress, no streamed events of children, and no late chunks: the state does not depend on them.

    Awaited chunks differ: they are recorded if they have an effect.
    """
    if is_ephemeral_signal(seen.signal):
        is_late = is_late_ephemeral(seen.before, seen.signal)
        if is_late or not isinstance(seen.signal, ChunksArrived):
            assert seen.after == seen.before
            assert not (is_late and seen.effects)


def an_abort_leaves_nothing_open(seen: Seen) -> None:
    """An abort publishes AgentAbort, and leaves neither cycle nor batch. Only a waiting prompt starts after it.

    An abort of a prompt that is not running stops no work: it removes that prompt, and everything else is unchanged.
    """
    if not isinstance(seen.signal, AbortCycle) or seen.before.ended:
        return
    if seen.signal.ref is not None and not _is_at_work(seen.before, seen.signal.ref):
        _is_taken_back(seen, seen.signal.ref)
    else:
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
        spared = [call for call in seen.before.data.survivors if not call.detached or call.stage != "running"]
        if not spared and seen.signal.kill_tools == "all":
            assert not seen.after.data.survivors


def _is_at_work(state: SessionState, ref: PromptRef) -> bool:
    """If a prompt is judged next to a suspended cycle, that cycle is running, and the prompt is not."""
    held = state.data.held.prompt if state.data.held is not None else None
    cycle = state.data.cycle
    return cycle.ref == ref if cycle is not None else held is not None and held.ref == ref


def _is_taken_back(seen: Seen, ref: PromptRef) -> None:
    before, after = seen.before.data, seen.after.data
    judged = before.held.prompt if before.held is not None and before.cycle is not None else None
    waits_again = (judged,) if judged is not None and judged.ref == ref else ()
    waited = (*waits_again, *before.queue)
    assert [prompt for prompt in waited if prompt.ref != ref] == list(after.queue)
    dropped = [event.ref for event in seen.events if isinstance(event, PromptDropped)]
    assert dropped == [prompt.ref for prompt in waited if prompt.ref == ref]
    assert len(seen.events) == len(dropped) + len(waits_again)
    assert (after.cycle, after.batch) == (before.cycle, before.batch)
    assert waits_again or after.open == before.open
    assert seen.after.phase is seen.before.phase


def _says_so_once(seen: Seen) -> None:
    """One AgentAbort, and one for each later prompt that a plugin aborted as it started."""
    owed, said = 1, 0
    for event in seen.events:
        if isinstance(event, AgentStart | PromptRejected):
            owed += said >= owed
        said += isinstance(event, AgentAbort)
        assert said <= owed, f"AgentAbort came {said} times for {owed} cycles"
    assert said >= 1, "an abort was accepted without an AgentAbort"


def _stopping(state: SessionState) -> set[EffectId | None]:
    """The calls that were asked to stop and have not ended yet."""
    calls = (*state.data.batch, *state.data.survivors)
    agents = {agent.effect_id for agent in state.data.agents.states if agent.status == "stopping"}
    return agents | {call.effect_id for call in calls if call.stage == "stopping"}


def _looks(state: SessionState) -> set[EffectId]:
    """The timer of the open stream."""
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
                pass  # of an open stream: reset under the same id, and removed with the stream
            case RunTool(effect_id=effect_id) | Teardown(effect_id=effect_id) | SetTimer(effect_id=effect_id):
                yield effect_id
            case (
                RunPluginRequest(effect_id=effect_id)
                | SpawnChild(effect_id=effect_id)
                | GatherContext(effect_id=effect_id)
                | StartAgent(effect_id=effect_id)
            ):
                yield effect_id
            case AskHost(effect_id=effect_id) | TellHost(effect_id=effect_id):
                yield effect_id
            case _:
                pass


def _ends_its_effect(seen: Seen) -> bool:
    # An outcome that came too late for its value is counted, and ends it nevertheless.
    if isinstance(seen.signal, ToolFinished):
        return seen.signal.effect_id.startswith("t")  # a timer's outcome ends no call, and no timer
    return (
        type(seen.signal).__name__
        in {
            "AgentEnded",
            "ResponseCompleted",
            "StreamFailed",
            "TeardownFinished",
            "TimerFired",
            "PluginRequestFinished",
            "HostJudged",
            "HostTold",
            "ContextGathered",
        }
        and seen.after.data.dropped == seen.before.data.dropped
    )


# Hosts.


def nothing_passes_a_breakpoint(seen: Seen) -> None:
    """A call of a tool with a breakpoint waits for the user, even if plugins, rules and the host allow it."""
    rules = seen.before.data.rules
    was = {call.call.call_id: call for call in seen.before.data.batch}
    for call in seen.after.data.batch if rules else ():
        before = was.get(call.call.call_id)
        is_judged = before is None or (before.stage == "checking" and before.bound_to is None)
        if is_judged and call.stage not in {"checking", "asking", "done"}:
            assert not any(one.breaks and one.tool in {call.call.name, "*"} for one in rules)


def nothing_runs_that_the_host_has_not_let_run(seen: Seen) -> None:
    """A call starts in the step of its verdict, or after it, with the arguments that were judged or shown to a user."""
    hooks = seen.after.data.config.host_hooks
    if "before_tool" not in hooks:
        assert not seen.of(AskHost)
        return
    for run in (*seen.of(RunTool), *(one for one in seen.of(SpawnChild) if one.wish is None)):
        was = seen.before.data.batch.find(run.call_id)
        if isinstance(seen.signal, Recovered) and was is None:
            was = next(call for call in seen.before.data.survivors if call.call.call_id == run.call_id)
        assert was is not None, "a call started in the step that introduced it"
        if was.stage == "checking":
            signal = seen.signal
            assert isinstance(signal, HostJudged)
            assert (signal.effect_id, signal.deny) == (was.effect_id, None)
        elif was.stage == "asking":
            shown = [one.asked for one in seen.before.data.interactions if one.asked.call_id == run.call_id]
            known = (
                [was] if run.resumption is not None else [one for one in shown if isinstance(one, Approval)]
            )
            assert any(same_json(one.arguments, run.arguments) for one in known)
        else:
            # A recovered call runs again in another process, and had its verdict before its first run.
            assert was.stage in {
                "waiting",
                "pausing",
                *(("running",) if isinstance(seen.signal, Recovered) else ()),
            }
            assert same_json(was.arguments, run.arguments)


def the_host_hears_of_what_ran(seen: Seen) -> None:
    """The host is notified only of code that has ended, or has answered and continues, in that step and after its event."""
    told = seen.of(TellHost)
    if "after_tool" not in seen.after.data.config.host_hooks:
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


# Sessions recovered in another process.

_CALLS: Final = frozenset({"tool", "child"})


def a_recovery_decides_all_that_is_open(seen: Seen) -> None:
    """One decision for each open effect, and no effect of the old process is awaited, except sessions that continue."""
    signal, was, now = seen.signal, seen.before.data, seen.after.data
    if not isinstance(signal, Recovered) or seen.before.ended:
        return
    told = [event for event in seen.events if isinstance(event, SessionRecovered)]
    parked = [event for event in seen.events if isinstance(event, SessionParked)]
    if was.open and signal.attempt >= MAX_RECOVERIES:
        assert [type(effect) for effect in seen.effects] == [Publish]
        assert (len(told), len(parked)) == (0, 1)
        assert now == replace(was, seq=was.seq + 1)
        return
    assert (len(told), len(parked)) == (1, 0)
    decided = [(one.open in _CALLS, one.id) for one in told[0].decisions]
    assert len(set(decided)) == len(decided)
    for effect_id, owner in was.open.items():
        name = _decided_as(effect_id, owner)
        assert name is None or decided.count(name) == 1, f"{effect_id} of {owner} is not decided"
    resumed = {effect.effect_id for effect in seen.of(ResumeChild)}
    assert set(was.open) & set(now.open) == (set() if seen.after.ended else resumed)


def a_recovery_runs_nothing_twice_that_may_not_be(seen: Seen) -> None:
    """A `once` tool in a durable record has its result. Any other that ran runs again, as the same operation."""
    signal, was = seen.signal, seen.before.data
    if not isinstance(signal, Recovered) or not [e for e in seen.events if isinstance(e, SessionRecovered)]:
        return
    ran = {run.call_id: run for run in seen.of(RunTool)}
    assert len(ran) == len(seen.of(RunTool))
    ends = [event for event in seen.events if isinstance(event, ToolExecutionEnd)]
    for call in (*was.batch, *was.survivors):
        if call.stage != "running" or call.wants_child:
            continue
        if call.detached:
            assert call.call.call_id not in ran, "background work was started again"
            continue
        run: Any = ran.get(call.call.call_id)
        has_begun = call.effect_id in signal.open
        if has_begun and (call.spec is None or call.spec.effect_class == "once"):
            assert run is None
            texts = [end.result.text for end in ends if end.call_id == call.call.call_id]
            assert len(texts) == 1
            assert texts == [OUTCOME_UNKNOWN] or seen.after.data.stopping is not None or seen.after.ended
        elif run is not None:
            assert run.operation_id == call.operation_id
            assert run.attempt == call.attempt + has_begun


def _decided_as(effect_id: EffectId, owner: effect_owners.Owner) -> tuple[bool, str] | None:
    """Return the name under which an open effect is decided, and whether as a call. None: it is decided with another effect."""
    match owner:
        case effect_owners.OfStallTimer() | effect_owners.OfSummaryTimer() | effect_owners.OfHoldTimer():
            return None
        case (
            effect_owners.OfCall(call_id)
            | effect_owners.OfSurvivor(call_id)
            | effect_owners.OfStoppedCall(call_id)
        ):
            return True, call_id
        case effect_owners.OfHostCheck(call_id) | effect_owners.OfHostReport(call_id):
            return False, call_id
        case effect_owners.OfChild() | effect_owners.OfLoan() | effect_owners.OfAgent():
            return True, effect_id
        case effect_owners.OfInteraction(interaction_id):
            return False, interaction_id
        case (
            effect_owners.OfStream()
            | effect_owners.OfSummary()
            | effect_owners.OfPause()
            | effect_owners.OfRetry()
            | effect_owners.OfTranscript()
            | effect_owners.OfPluginRequest()
            | effect_owners.OfContext()
            | effect_owners.OfHeldHook()
            | effect_owners.OfAgentWait()
            | effect_owners.OfDrain()
            | effect_owners.OfTeardown()
        ):
            return False, effect_id
        case _ as never:
            assert_never(never)
