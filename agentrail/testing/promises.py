"""What is promised about every step of a session, each promise once, as a function of one `Seen`.

Most of them are laws of conservation: what was owed before, and what came in, is owed afterwards or was given out. So one
step is enough to see a reply that is given twice, a prompt that is lost, or a tool that is forgotten, whenever it matters.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from attrs import frozen

from agentrail.core import listening, machine
from agentrail.core.batch import GOES_ON_BY_ITSELF
from agentrail.core.effects import (
    CancelStream,
    CancelTimer,
    Effect,
    End,
    KillTools,
    Publish,
    Refuse,
    Reply,
    RunErrand,
    RunTool,
    SetTimer,
    SpawnChild,
    StartStream,
    Teardown,
    look_of,
)
from agentrail.core.interactions import MAX_RESOLVED
from agentrail.core.receipts import MAX_REMEMBERED
from agentrail.core.request import EffectId
from agentrail.core.signals import (
    Abort,
    Asked,
    Outcome,
    Parked,
    Prompt,
    ResponseCompleted,
    Restarted,
    Signal,
    SignalId,
    Steer,
    StepCrashed,
    Stop,
    ToolFinished,
)
from agentrail.core.state import CallState, Phase, SessionState
from agentrail.core.structured import Accepted
from agentrail.core.tags import TagReader
from agentrail.events import (
    EPHEMERAL,
    TERMINAL,
    AgentAbort,
    AgentEnd,
    AgentStart,
    CompactEnd,
    Event,
    LoopDetected,
    MessageDelta,
    PromptDropped,
    PromptQueued,
    PromptReceived,
    PromptRejected,
    SessionEnd,
    SteeringApplied,
    SteeringReceived,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolKilled,
)
from agentrail.messages import AssistantMessage, CallId, ToolMessage, UserMessage
from agentrail.otp.statem import Call


@frozen
class Seen:
    """One step, from both sides."""

    before: SessionState
    signal: Signal
    after: SessionState
    effects: tuple[Effect, ...]

    @property
    def events(self) -> list[Event]:
        """What was published."""
        return [effect.event for effect in self.effects if isinstance(effect, Publish)]

    def of(self, kind: type[Any]) -> list[Any]:
        """The effects of one class, in order."""
        return [effect for effect in self.effects if isinstance(effect, kind)]


# --- the state is as `core/state.py` says


def state_is_as_written(seen: Seen) -> None:
    """Each line of `SessionData` that names what binds its field."""
    state, data, was = seen.after, seen.after.data, seen.before.data
    assert bool(data.history.open) == (state.phase is Phase.EXECUTING_TOOLS or state.suspended)
    assert not data.queue or state.phase is not Phase.IDLE or data.teardown is not None or state.suspended
    # Steers that met the end of their cycle come on top of a queue that is full.
    assert len(data.queue) <= data.config.max_prompt_queue + data.config.max_steering_queue
    assert len(data.steers) <= data.config.max_steering_queue
    assert not data.steers or (data.cycle is not None and not state.suspended)
    assert data.cycle is None or state.phase is not Phase.IDLE or data.batch
    assert data.cycle is not None or state.phase is Phase.IDLE or data.compaction is not None
    is_asking = state.phase is Phase.STREAMING or (state.phase is Phase.RUNNING and data.compaction is None)
    assert (data.stream is not None) == is_asking
    assert data.compaction is None or state.phase is Phase.RUNNING
    assert tuple(call.call for call in data.batch) == data.history.open
    assert data.teardown is None or (state.phase is Phase.IDLE and not state.suspended)
    assert len(data.resolved) <= MAX_RESOLVED
    assert len(data.remembered) <= MAX_REMEMBERED
    assert data.rules >= was.rules
    assert data.stopping is None or data.teardown is not None or data.drains or state.ended
    assert not data.stoppers or data.stopping is not None
    assert data.last is not None or was.last is None
    assert data.usage.input >= was.usage.input
    assert data.usage.output >= was.usage.output
    assert data.minted >= was.minted
    assert data.dropped >= was.dropped
    assert data.quarantined - was.quarantined == isinstance(seen.signal, StepCrashed) * (
        not seen.before.ended
    )
    assert data.incarnation >= was.incarnation


def calls_are_as_written(seen: Seen) -> None:
    """Each line of `CallState`, of `batch` and of `survivors`, and how many may run."""
    data = seen.after.data
    for call in (*data.batch, *data.survivors):
        assert (call.result is not None) == (call.stage in {"stopping", "done"})
        assert call.result is None or call.result.call_id == call.call.call_id
        assert (call.effect_id is not None) == (call.stage in {"pausing", "running", "stopping"})
        assert call.started or call.stage in {"asking", "waiting"}
    assert not data.batch or any(call.stage != "done" for call in data.batch)
    asking = [call.call.call_id for call in data.batch if call.stage == "asking"]
    assert Counter(one.asked.call_id for one in data.interactions) == Counter(asking)
    if seen.after.suspended:
        assert {call.stage for call in data.batch} <= {"asking", "done"}
    elif data.batch:
        assert any(call.stage in GOES_ON_BY_ITSELF for call in data.batch)
    assert all(call.stage in {"running", "stopping"} for call in data.survivors)
    assert {call.call.call_id for call in data.survivors} <= set(_answered_calls(seen.after))
    running = sum(call.stage in {"running", "stopping"} for call in data.batch)
    taken = running + len(data.survivors)
    limit = data.config.max_parallel_tools
    assert taken <= limit or running <= 1 or not seen.of(RunTool)
    if any(call.stage == "waiting" for call in data.batch):
        assert running >= 1
        assert taken >= limit


def cycle_is_as_written(seen: Seen) -> None:
    """Each line of `Cycle` and `Stream`."""
    data = seen.after.data
    if data.cycle is not None:
        assert 1 <= data.cycle.turn <= data.config.max_turns
        mine = data.history.since(data.cycle.first_message)
        assert [said.ref for said in mine if isinstance(said, UserMessage) and said.origin == "prompt"] == [
            data.cycle.ref
        ]
        assert data.cycle.usage.total <= data.usage.total
        assert data.cycle.resume or data.batch
        if data.stream is not None:
            assert data.stream.last_turn == (data.cycle.turn == data.config.max_turns)
            assert seen.after.phase is Phase.STREAMING or not data.stream.text
            assert seen.after.phase is Phase.RUNNING or not data.stream.pausing


def loops_are_told_or_ended(seen: Seen) -> None:
    """A loop that is noticed aborts the cycle in this step, or the model is told, unless the cycle is over anyway."""
    loops = [event for event in seen.events if isinstance(event, LoopDetected)]
    grown = seen.after.data.history.since(len(seen.before.data.history))
    notes = [said for said in grown if isinstance(said, UserMessage) and said.origin == "note"]
    ends = any(loop.count == _LAST_TIME[loop.type] for loop in loops)
    if ends:
        assert any(isinstance(event, AgentAbort) for event in seen.events)
    elif loops and not any(type(event) in TERMINAL for event in seen.events):
        (note,) = notes
        assert len(note.content) == len(loops)


_LAST_TIME: Final = {"repeat_pattern": 6, "file_loop_abort": 4, "file_loop_warn": 0}


def answers_have_the_shape_that_was_asked_for(seen: Seen) -> None:
    """No cycle finishes with an answer of another shape; the model has one turn at most to put one right."""
    data, was = seen.after.data, seen.before.data.cycle
    wanted = data.config.response_format
    if data.cycle is not None and data.cycle.repaired:
        assert wanted is not None
    if was is not None and was.repaired and data.cycle is not None and data.cycle.ref == was.ref:
        assert data.cycle.repaired
    for end in (event for event in seen.events if isinstance(event, AgentEnd)):
        if wanted is not None and end.stop_reason not in {"not_resumed", "superseded"}:
            assert data.last is not None
            assert isinstance(wanted.judge(data.last.text, repaired=True), Accepted)


def a_budget_is_never_passed_by_a_promise(seen: Seen) -> None:
    """What is out has one reservation, and no request goes out that could pass a limit; what is booked stays booked."""
    ledger, was, data = seen.after.data.ledger, seen.before.data.ledger, seen.after.data
    assert (ledger is None) == (data.config.budget is None)
    if ledger is None or was is None:
        return
    out = data.stream is not None and not data.stream.pausing
    assert len(ledger.open) == out + len(data.loans)
    assert ledger.spent_tokens >= was.spent_tokens
    assert ledger.spent_nano_usd >= was.spent_nano_usd
    assert all(spawned.budget is not None for spawned in seen.of(SpawnChild))
    limit = ledger.budget.max_total_tokens
    if limit is not None and ((seen.of(StartStream) and out) or seen.of(SpawnChild)):
        assert ledger.spent_tokens + sum(bound.tokens for _, bound in ledger.open) <= limit


# --- the conversation


def history_is_valid(seen: Seen) -> None:
    """Every call has exactly one result, right behind it and in order; open ones stand at the end, while tools run."""
    data = seen.after.data
    expected: tuple[CallId, ...] = ()
    ids: list[CallId] = []
    for message in data.history.messages:
        if isinstance(message, ToolMessage):
            assert expected
            assert tuple(result.call_id for result in message.results) == expected
            assert all(result.text for result in message.results)
            expected = ()
        else:
            assert not expected
            assert message.content
        if isinstance(message, AssistantMessage):
            expected = tuple(call.call_id for call in message.calls)
            assert not (expected and message.cut)
            ids += expected
    assert expected == tuple(call.call_id for call in data.history.open)
    assert len(ids) == len(set(ids))
    assert all(call_id in data.call_ids for call_id in ids)


def history_only_grows(seen: Seen) -> None:
    """What was said stays said; only a summary may stand for the beginning, and what is behind it stays."""
    was = seen.before.data.history
    now = seen.after.data.history.messages
    removed = sum(event.removed for event in seen.events if isinstance(event, CompactEnd))
    if removed:
        kept = was.messages[removed:]
        assert all(new is old for new, old in zip(now[1 : 1 + len(kept)], kept, strict=True))
        return
    assert len(now) >= len(was)
    assert all(new is old for new, old in zip(now, was.messages, strict=False))


def requests_are_of_a_closed_history(seen: Seen) -> None:
    """A request goes out with the whole history, when all its calls are answered and nothing is torn down."""
    for start in seen.of(StartStream):
        if start.is_quiet:  # of the beginning alone, for a summary
            continue
        messages = start.request.messages
        history = seen.after.data.history
        assert not history.open
        assert tuple(messages[: len(history)]) == history.messages[:]
        assert len(messages) - len(history) == (start.request.tool_choice == "none")
        assert seen.after.data.teardown is None


# --- events


def people_see_what_is_said_without_tags(seen: Seen) -> None:
    """Deltas add up to the text without its tags, whatever is held back; an end that is no failure gives that back too."""
    was, now = seen.before.data.stream, seen.after.data.stream
    deltas = "".join(event.delta for event in seen.events if isinstance(event, MessageDelta))
    shown = listening.visible_so_far(was, seen.before.data.config) if was is not None else ""
    if was is not None and now is not None and was.effect_id == now.effect_id:
        assert shown + deltas == listening.visible_so_far(now, seen.after.data.config)
        assert now.reader == TagReader().fed("".join(now.text))[0]
    elif was is not None and isinstance(seen.signal, Abort | Stop):
        assert shown + deltas == listening.visible_text("".join(was.text), seen.before.data.config)
    elif was is not None and isinstance(seen.signal, ResponseCompleted):
        whole = listening.visible_text("".join(was.text), seen.before.data.config)
        assert shown + deltas in (whole, shown)  # an empty response is withdrawn
    else:
        assert not deltas


def cycles_have_one_terminal_event(seen: Seen) -> None:
    """Exactly one of AgentEnd, AgentAbort, AgentError follows an AgentStart.

    An AgentAbort of nothing comes in idle, or for a prompt that was refused, perhaps right behind the cycle before it.
    """
    rejected = 0
    running = seen.before.data.cycle.ref if seen.before.data.cycle else None
    idle = seen.before.data.cycle is None
    for event in seen.events:
        if isinstance(event, AgentStart):
            assert running is None
            running = event.ref
        elif isinstance(event, PromptRejected):
            rejected += 1
        elif type(event) in TERMINAL:
            assert running is not None or (isinstance(event, AgentAbort) and (idle or rejected))
            running = None
    assert running == (seen.after.data.cycle.ref if seen.after.data.cycle else None)
    # More than one in a step, when the prompt behind a cycle that ends is refused, or its cycle ends at once.
    starts = sum(isinstance(event, AgentStart) for event in seen.events)
    assert sum(type(event) in TERMINAL for event in seen.events) <= 1 + starts + rejected


def tool_events_come_in_pairs(seen: Seen) -> None:
    """Each call gives one ToolExecutionStart and later one ToolExecutionEnd; what is killed is killed in between."""
    waiting = _unstarted(seen.before)
    if isinstance(seen.signal, ResponseCompleted):
        grown = seen.after.data.history.since(len(seen.before.data.history))
        waiting |= {
            call.call_id for said in grown if isinstance(said, AssistantMessage) for call in said.calls
        }
    open_pairs = _running_calls(seen.before)
    for event in seen.events:
        match event:
            case ToolExecutionStart(call_id=call_id):
                assert call_id in waiting
                waiting.remove(call_id)
                open_pairs.add(call_id)
            case ToolExecutionEnd(call_id=call_id):
                assert call_id in open_pairs
                open_pairs.remove(call_id)
            case ToolKilled(call_id=call_id):
                assert call_id in open_pairs
            case _:  # no event about a call that runs
                pass
    assert waiting == _unstarted(seen.after)
    assert open_pairs == _running_calls(seen.after)


def event_numbers_are_dense(seen: Seen) -> None:
    """Committed events count on by one; an ephemeral event has the number of the committed one before it."""
    number = seen.before.data.seq
    for event in seen.events:
        number += type(event) not in EPHEMERAL
        assert event.meta is not None
        assert event.meta.seq == number
        assert event.meta.ephemeral == (type(event) in EPHEMERAL)
        assert event.meta.at_ms == seen.signal.at_ms
    assert number == seen.after.data.seq


# --- effects


def tools_run_once_and_only_from_waiting(seen: Seen) -> None:
    """Each RunTool is of a call that waited, or came with this response, and that runs now under this very id."""
    now = {call.effect_id: call for call in seen.after.data.batch}
    waited = _unstarted(seen.before)
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
    came = {seen.signal.effect_id} if isinstance(seen.signal, Outcome) else set()
    stopped = {effect.effect_id for effect in seen.of(CancelStream)}
    killed = {effect_id for effect in seen.of(KillTools) for effect_id in effect.effect_ids}
    stopped |= killed | {effect.effect_id for effect in seen.of(CancelTimer)}
    was, now = _open(seen.before), _open(seen.after)
    assert stopped <= was | set(
        _started(seen)
    )  # what is asked and superseded in one step is set and cancelled in it
    assert now <= was | set(_started(seen))
    if isinstance(seen.signal, Restarted | Parked) or seen.after.ended:
        assert not (was & now) or seen.before.ended
    else:
        # What is stopping was told to stop before; an abort stops waiting for it, and its teardown does instead.
        told = {call.effect_id for call in _stopping(seen.before)}
        assert was - now <= came | stopped | told
        stopping = {call.effect_id for call in _stopping(seen.after)}
        assert now.isdisjoint(stopped - stopping)
        assert now.isdisjoint(came) or not _ends_its_effect(seen)
    for teardown in seen.of(
        Teardown
    ):  # it waits for all that was stopped, and for what had been told to stop before
        streams = {effect.effect_id for effect in seen.of(CancelStream)}
        told = {call.effect_id for call in _stopping(seen.before)}
        assert killed | streams <= set(teardown.stopped) <= killed | streams | told


def late_outcomes_change_nothing(seen: Seen) -> None:
    """An outcome of an effect that is not open moves the counter, and nothing else."""
    if isinstance(seen.signal, Outcome) and not seen.before.ended:
        if seen.signal.effect_id in _open(seen.before) | _looks(seen.before) | set(seen.before.data.loans):
            return
        was = seen.before.data
        assert seen.after.data == msgspec.structs.replace(was, dropped=was.dropped + 1)
        assert seen.after.phase is seen.before.phase
        assert seen.effects == ()


def an_abort_leaves_nothing_open(seen: Seen) -> None:
    """An abort says AgentAbort, and leaves neither cycle nor batch; what starts behind it is a prompt that waited."""
    if isinstance(seen.signal, Abort) and not seen.before.ended:
        assert sum(isinstance(event, AgentAbort) for event in seen.events) == 1
        assert not seen.after.data.batch
        assert not seen.of(RunTool)
        if seen.after.data.cycle is not None:
            waited = {str(prompt.ref) for prompt in seen.before.data.queue}
            waited |= {str(steer.ref) for steer in seen.before.data.steers}
            assert seen.after.data.cycle.ref in waited
        else:
            assert seen.after.phase is Phase.IDLE
        if not seen.before.data.survivors and seen.signal.kill_tools == "all":
            assert not seen.after.data.survivors


# --- people


def prompts_are_never_lost(seen: Seen) -> None:
    """A prompt that was accepted waits, or enters the history in the step in which it leaves, or is dropped aloud."""
    came = [*_requeued(seen), *(prompt.ref for prompt in seen.before.data.queue), *_new_prompts(seen)]
    grown = seen.after.data.history.since(len(seen.before.data.history))
    begun = [said.ref for said in grown if isinstance(said, UserMessage) and said.origin == "prompt"]
    dropped = [event.ref for event in seen.events if isinstance(event, PromptDropped)]
    waiting = [prompt.ref for prompt in seen.after.data.queue]
    left = [event.ref for event in seen.events if isinstance(event, PromptRejected | AgentStart)]
    assert came in ([*left, *dropped, *waiting], [*dropped, *left, *waiting])
    # The next one leaves only when the one before it is over, which plugins may bring about in the same step.
    assert len(left) <= 1 + sum(type(event) in TERMINAL for event in seen.events)
    assert begun == [event.ref for event in seen.events if isinstance(event, AgentStart)]
    if dropped:
        assert isinstance(seen.signal, Stop | Parked) or (
            isinstance(seen.signal, Abort) and seen.signal.clear_queue
        )


def steers_are_never_lost(seen: Seen) -> None:
    """A steer that was accepted waits, or enters the history in the step in which it leaves, or becomes a prompt aloud."""
    came = [str(steer.ref) for steer in seen.before.data.steers]
    received = [event for event in seen.events if isinstance(event, SteeringReceived)]
    came += [str(event.ref) for event in received if event.status == "queued"]
    applied = [str(ref) for event in seen.events if isinstance(event, SteeringApplied) for ref in event.refs]
    waiting = [str(steer.ref) for steer in seen.after.data.steers]
    assert came == [*applied, *_requeued(seen), *waiting]
    grown = seen.after.data.history.since(len(seen.before.data.history))
    said = [message for message in grown if isinstance(message, UserMessage) and message.origin == "steer"]
    assert len(said) == bool(applied)


def _requeued(seen: Seen) -> list[str]:
    """The steers that met the end of their cycle, and are prompts now."""
    steers = {str(steer.ref) for steer in seen.before.data.steers}
    steers |= {
        str(event.ref)
        for event in seen.events
        if isinstance(event, SteeringReceived) and event.status == "queued"
    }
    queued = (event.ref for event in seen.events if isinstance(event, PromptQueued))
    return [ref for ref in queued if ref in steers]


def _new_prompts(seen: Seen) -> list[str]:
    if isinstance(seen.signal, Prompt | Steer):
        said = [str(event.ref) for event in seen.events if isinstance(event, PromptReceived | PromptQueued)]
        return [ref for ref in said if ref == seen.signal.ref]
    return []


def callers_are_answered_once(seen: Seen) -> None:
    """Who asks is answered once: now, or later by what the state holds; nobody is left when a session is quiet."""
    owed = Counter(_owed(seen.before))
    if isinstance(seen.signal, Asked) and not seen.before.ended:
        owed[seen.signal.signal_id] += 1
    if isinstance(seen.signal, StepCrashed) and seen.signal.asked_by and not seen.before.ended:
        owed[seen.signal.asked_by] += 1
    answered = Counter(effect.to for effect in seen.effects if isinstance(effect, Reply | Refuse))
    assert owed - answered == Counter(_owed(seen.after))
    assert not answered - owed
    data = seen.after.data
    rests = data.cycle is None and data.teardown is None and not data.drains
    if seen.after.ended or (seen.after.phase is Phase.IDLE and rests):
        assert not list(_owed(seen.after))


# --- the function


def the_same_again_gives_the_same(seen: Seen) -> None:
    """Stepping the old state a second time gives the same, although newer states share its conversation by now."""
    after, effects = machine.step(seen.before, seen.signal)
    assert after == seen.after
    assert list(map(comparable, effects)) == list(map(comparable, seen.effects))


def the_end_is_the_end(seen: Seen) -> None:
    """End is the last effect, behind SessionEnd; nothing is open then, and nothing happens any more."""
    if seen.before.ended:
        assert seen.after is seen.before
        assert seen.effects == ()
        return
    ends = [position for position, effect in enumerate(seen.effects) if isinstance(effect, End)]
    assert ends == ([len(seen.effects) - 1] if seen.after.ended else [])
    assert [type(event) for event in seen.events].count(SessionEnd) == seen.after.ended
    if seen.after.ended:
        assert isinstance(seen.events[-1], SessionEnd)
        assert not _open(seen.after)
        assert not seen.after.engine.queue


PROMISES: Final[tuple[Callable[[Seen], None], ...]] = (
    state_is_as_written,
    calls_are_as_written,
    cycle_is_as_written,
    loops_are_told_or_ended,
    a_budget_is_never_passed_by_a_promise,
    answers_have_the_shape_that_was_asked_for,
    history_is_valid,
    history_only_grows,
    requests_are_of_a_closed_history,
    people_see_what_is_said_without_tags,
    cycles_have_one_terminal_event,
    tool_events_come_in_pairs,
    event_numbers_are_dense,
    tools_run_once_and_only_from_waiting,
    effect_ids_are_new,
    nothing_started_is_forgotten,
    late_outcomes_change_nothing,
    an_abort_leaves_nothing_open,
    prompts_are_never_lost,
    steers_are_never_lost,
    callers_are_answered_once,
    the_same_again_gives_the_same,
    the_end_is_the_end,
)


# --- what a state holds


def comparable(effect: Effect) -> object:
    """An effect as something that equals another like it: exceptions do not, and envelopes are left out of events."""
    match effect:
        case Refuse(to=to, error=error):
            return ("Refuse", to, type(error), str(error))
        case Publish(event=event):
            return ("Publish", event, event.meta)
        case _:
            return effect


def _open(state: SessionState) -> set[EffectId]:
    data = state.data
    ids = {call.effect_id for call in _running(state) if call.effect_id is not None}
    if data.stream is not None:
        ids.add(data.stream.effect_id)
    if data.teardown is not None:
        ids.add(data.teardown.effect_id)
    if data.compaction is not None:
        ids.add(data.compaction.effect_id)
    ids |= {interaction.timer for interaction in data.interactions if interaction.timer is not None}
    ids |= {errand.effect_id for errand in data.errands}
    return ids | set(data.drains)


def _looks(state: SessionState) -> set[EffectId]:
    """The timer of the stream that is out."""
    stream, compaction = state.data.stream, state.data.compaction
    if compaction is not None and compaction.summary is None:
        return {look_of(compaction.effect_id)}
    return {look_of(stream.effect_id)} if stream is not None and not stream.pausing else set()


def _started(seen: Seen) -> Iterator[EffectId]:
    for effect in seen.effects:
        match effect:
            case StartStream(request=request):
                yield request.attempt
            case SetTimer(effect_id=effect_id) if effect_id.startswith("s"):
                pass  # of a stream that is out: set anew under the same id, and gone with the stream
            case RunTool(effect_id=effect_id) | Teardown(effect_id=effect_id) | SetTimer(effect_id=effect_id):
                yield effect_id
            case RunErrand(effect_id=effect_id) | SpawnChild(effect_id=effect_id):
                yield effect_id
            case _:
                pass


def _ends_its_effect(seen: Seen) -> bool:
    return type(seen.signal).__name__ in {
        "ResponseCompleted",
        "StreamFailed",
        "ToolFinished",
        "TeardownFinished",
        "TimerFired",
        "ErrandFinished",
    } and (isinstance(seen.signal, ToolFinished) or seen.after.data.dropped == seen.before.data.dropped)


def _owed(state: SessionState) -> Iterator[SignalId]:
    """Whoever waits for an answer: for a cycle, a receipt, the end, or the next change of phase."""
    data = state.data
    askers = [prompt.asker for prompt in data.queue]
    askers += data.cycle.askers if data.cycle else []
    askers += data.teardown.waiting if data.teardown else []
    yield from (asker for asker in (*askers, *data.stoppers) if asker is not None)
    for event in (*state.engine.postponed, *state.engine.queue):
        if isinstance(event, Call):
            yield SignalId(str(event.to))


def _is_accepted(seen: Seen) -> bool:
    return not seen.before.ended and not any(
        isinstance(effect, Refuse) and effect.to == seen.signal.signal_id  # type: ignore[union-attr]
        for effect in seen.effects
    )


def _running(state: SessionState) -> Iterator[CallState]:
    """The calls that have an effect: one that runs, one that is being stopped, one that pauses."""
    return (call for call in (*state.data.batch, *state.data.survivors) if call.effect_id is not None)


def _stopping(state: SessionState) -> Iterator[CallState]:
    return (call for call in (*state.data.batch, *state.data.survivors) if call.stage == "stopping")


def _running_calls(state: SessionState) -> set[CallId]:
    """The calls whose start is out and whose end is not."""
    calls = (*state.data.batch, *state.data.survivors)
    return {call.call.call_id for call in calls if call.started and call.result is None}


def _unstarted(state: SessionState) -> set[CallId]:
    return {call.call.call_id for call in state.data.batch if not call.started}


def _answered_calls(state: SessionState) -> Iterator[CallId]:
    for message in state.data.history.messages:
        if isinstance(message, ToolMessage):
            yield from (result.call_id for result in message.results)
