"""Promises to callers: each is answered exactly once."""

from collections import Counter
from collections.abc import Iterator
from typing import TypeGuard

from agentrail import events as e
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.effects import Refuse, ReplyToCaller, SpawnChild
from agentrail.core.session.state import Phase, QueuedPrompt, SessionState
from agentrail.messages import ToolMessage, UserMessage
from agentrail.testing.promises.observed_step import Seen, newly_said, teardowns_of, waiting_prompts


def prompts_are_never_lost(seen: Seen) -> None:
    """An accepted prompt waits, or enters the history in the step in which it leaves, or is dropped or taken, with an event."""
    came = [*_requeued(seen), *map(_ref_of, waiting_prompts(seen.before)), *_new_prompts(seen)]
    grown = newly_said(seen)
    begun = [said.ref for said in grown if isinstance(said, UserMessage) and said.origin == "prompt"]
    dropped = [event.ref for event in seen.events if isinstance(event, e.PromptDropped)]
    waiting = list(map(_ref_of, waiting_prompts(seen.after)))
    left = [
        event.ref
        for event in seen.events
        if isinstance(event, e.PromptRejected | e.PromptTaken) or _is_of_a_prompt(event)
    ]
    if isinstance(seen.signal, s.AbortCycle) and seen.signal.ref is not None:
        # One is removed, wherever it waits.
        assert seen.signal.clear_queue or set(dropped) <= {seen.signal.ref}
        came = [ref for ref in came if ref not in dropped]
        dropped = []
    assert came in ([*left, *dropped, *waiting], [*dropped, *left, *waiting])
    # The next one leaves only after the previous one is over, which plugins may cause in the same step.
    assert len(left) <= 1 + sum(type(event) in e.TERMINAL for event in seen.events)
    assert begun == [event.ref for event in seen.events if _is_of_a_prompt(event)]
    if dropped:
        assert isinstance(seen.signal, s.StopSession | s.Parked) or (
            isinstance(seen.signal, s.AbortCycle) and seen.signal.clear_queue
        )


def _is_of_a_prompt(event: e.Event) -> TypeGuard[e.AgentStart]:
    return isinstance(event, e.AgentStart) and not event.goes_on


def a_cycle_without_words_answers_what_is_there(seen: Seen) -> None:
    """It starts in idle, on a caller's request, after results or a user's message, and no prompt enters the history."""
    started = [event for event in seen.events if isinstance(event, e.AgentStart) and event.goes_on]
    if not started:
        return
    assert isinstance(seen.signal, s.GoOn)
    assert [event.ref for event in started] == [seen.signal.ref]
    assert seen.before.phase is Phase.IDLE
    assert seen.before.data.cycle is None
    assert isinstance(seen.before.data.history.messages[-1], UserMessage | ToolMessage)
    assert seen.after.data.cycle is None or seen.after.data.cycle.goes_on


def steers_are_never_lost(seen: Seen) -> None:
    """An accepted steer waits, or enters the history in the step in which it leaves, or becomes a prompt, with an event."""
    came = [str(steer.ref) for steer in seen.before.data.steers]
    received = [event for event in seen.events if isinstance(event, e.SteeringReceived)]
    came += [str(event.ref) for event in received if event.status == "queued"]
    applied = [
        str(ref) for event in seen.events if isinstance(event, e.SteeringApplied) for ref in event.refs
    ]
    waiting = [str(steer.ref) for steer in seen.after.data.steers]
    assert came == [*applied, *_requeued(seen), *waiting]
    grown = newly_said(seen)
    said = [message for message in grown if isinstance(message, UserMessage) and message.origin == "steer"]
    assert len(said) == bool(applied)


def what_a_prompt_came_with_goes_with_it(seen: Seen) -> None:
    """The origin and the request of a prompt, or of a steer that becomes one, are the same wherever it waits or is reported."""
    came = list(_origins(seen.before))
    if isinstance(seen.signal, s.Prompt | s.GoOn | s.Steer):
        came.append((seen.signal.ref, seen.signal.via, seen.signal.request_id))
    # A wake-up from the background has no origin and no request.
    came += [(ref, None, None) for ref in _woken(seen)]
    said = [
        (event.ref, event.via, event.request_id)
        for event in seen.events
        if isinstance(event, e.PromptReceived | e.PromptQueued)
    ]
    assert all(one in came for one in (*said, *_origins(seen.after)))
    requests = [(ref, request_id) for ref, _, request_id in came]
    started = [(event.ref, event.request_id) for event in seen.events if isinstance(event, e.AgentStart)]
    assert all(one in requests for one in started)
    was, cycle = seen.before.data.cycle, seen.after.data.cycle
    if was is not None:
        requests.append((was.ref, was.request_id))
    assert cycle is None or (cycle.ref, cycle.request_id) in requests


def _origins(state: SessionState) -> Iterator[tuple[str, str | None, str | None]]:
    for prompt in waiting_prompts(state):
        yield prompt.ref, prompt.via, prompt.request_id
    for steer in state.data.steers:
        yield steer.ref, steer.via, steer.request_id


def _ref_of(prompt: QueuedPrompt) -> str:
    return prompt.ref


def _requeued(seen: Seen) -> list[str]:
    """The steers that arrived at the end of their cycle, and are now prompts."""
    steers = {str(steer.ref) for steer in seen.before.data.steers}
    steers |= {
        str(event.ref)
        for event in seen.events
        if isinstance(event, e.SteeringReceived) and event.status == "queued"
    }
    queued = (event.ref for event in seen.events if isinstance(event, e.PromptQueued))
    return [ref for ref in queued if ref in steers]


def _new_prompts(seen: Seen) -> list[str]:
    if isinstance(seen.signal, s.Prompt | s.Steer):
        said = [
            str(event.ref) for event in seen.events if isinstance(event, e.PromptReceived | e.PromptQueued)
        ]
        # A steer that ends the last turn by skipping it is a prompt in its own step: requeued rather than new.
        again = _requeued(seen)
        return [*[ref for ref in said if ref == seen.signal.ref and ref not in again], *_woken(seen)]
    return _woken(seen)


def _woken(seen: Seen) -> list[str]:
    """News from the background as the next prompt, of an agent or of a call. A waiting one may be queued once more."""
    waited = set(map(_ref_of, waiting_prompts(seen.before)))
    queued = [str(event.ref) for event in seen.events if isinstance(event, e.PromptQueued)]
    return [ref for ref in queued if ref.startswith("wake/") and ref not in waited]


def callers_are_answered_once(seen: Seen) -> None:
    """A caller is answered once, now or later from the state. None is left when a session is quiet."""
    owed = Counter(_owed(seen.before))
    if isinstance(seen.signal, s.Asked) and not seen.before.ended:
        owed[seen.signal.signal_id] += 1
    if isinstance(seen.signal, s.StepCrashed) and seen.signal.asked_by and not seen.before.ended:
        owed[seen.signal.asked_by] += 1
    answered = Counter(effect.to for effect in seen.effects if isinstance(effect, ReplyToCaller | Refuse))
    answered += Counter(spawned.wish.signal_id for spawned in seen.of(SpawnChild) if spawned.wish is not None)
    assert owed - answered == Counter(_owed(seen.after))
    assert not answered - owed
    data = seen.after.data
    rests = data.cycle is None and not teardowns_of(seen.after)
    if seen.after.ended or (seen.after.phase is Phase.IDLE and rests):
        # A tool that an abort spared may continue waiting for its share.
        spared = set() if seen.after.ended else {wish.signal_id for wish in data.wishes}
        assert spared.issuperset(_owed(seen.after))


def _owed(state: SessionState) -> Iterator[s.SignalId]:
    """The callers that wait for an answer: for a cycle, a receipt, a user, the end, or the next change of phase."""
    data = state.data
    askers = [asker for prompt in waiting_prompts(state) for asker in prompt.askers]
    askers += data.cycle.askers if data.cycle else []
    askers += data.teardown.waiting if data.teardown else []
    askers += [one.asker for one in data.interactions if one.asker is not None]
    askers += [wish.signal_id for wish in data.wishes]
    yield from (*askers, *data.stoppers)
    yield from (signal.signal_id for signal in state.postponed if isinstance(signal, s.Asked))
