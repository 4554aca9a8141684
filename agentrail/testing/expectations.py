"""What holds for every session at any time, as checks that a test can make of what it saw: history and events."""

from collections import Counter
from collections.abc import Iterable, Sequence

from agentrail.core.session.step_context import is_ephemeral
from agentrail.events import (
    TERMINAL,
    AgentAbort,
    AgentEnd,
    AgentError,
    AgentStart,
    ContextOverflow,
    Event,
    MessageDelta,
    MessageStart,
    ModelSwitched,
    PromptDropped,
    PromptQueued,
    PromptReceived,
    PromptRejected,
    PromptTaken,
    RequestStart,
    ResponseComplete,
    Retry,
    SessionEnd,
    SteeringApplied,
    SteeringReceived,
    StreamError,
    ThinkingDelta,
    ThinkingStart,
    ToolBlocked,
    ToolCallUnknown,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolKilled,
    ToolSkippedForSteering,
)
from agentrail.messages import AssistantMessage, CallId, Message, Text, ToolMessage, UserMessage


def check_history(messages: Sequence[Message]) -> None:
    """Check that every call has exactly one result, right behind it and in its order, and that no result is alone.

    Args:
        messages: A conversation between two cycles, as `Session.messages` gives it.

    Raises:
        AssertionError: It would be refused by a provider; the message has the place.
    """
    asked: tuple[str, ...] = ()
    for position, message in enumerate(messages):
        came = tuple(result.call_id for result in message.results) if isinstance(message, ToolMessage) else ()
        assert came == asked, f"message {position}: expected results for {asked}, got {came}"
        asked = tuple(call.call_id for call in message.calls) if isinstance(message, AssistantMessage) else ()
    assert not asked, f"the last message asks for {asked}, and nothing answers"


def check_events(events: Iterable[Event]) -> None:
    """Check all that a session has published in its life: numbers, cycles, calls, what stands in what, and the end.

    Args:
        events: Of one session that has ended, from its first event on.

    Raises:
        AssertionError: A number is missing, a cycle has no end or two, a call has not exactly one result, an event stands
            outside of the cycle, request or call that it belongs to, or something came after the last event; the
            message says which.
    """
    seen = list(events)
    _check_numbers(seen)
    _check_cycles(seen)
    _check_calls(seen)
    nesting = _Nesting()
    for event in seen:
        assert nesting.takes(event), f"{event!r} stands outside of what it belongs to"
    ends = [position for position, event in enumerate(seen) if isinstance(event, SessionEnd)]
    assert ends == [len(seen) - 1], f"SessionEnd stands at {ends} of {len(seen)} events: expected once, last"


def check_nothing_lost(events: Iterable[Event], messages: Sequence[Message] | None = None) -> None:
    """Check that every message that was accepted was heard once, or was thrown away aloud.

    A prompt is heard by the cycle that `AgentStart` names, a steer by the turn that `SteeringApplied` names.

    Args:
        events: Of one session that has ended, from its first event on.
        messages: Its conversation, from its first message on, when nothing waited any more; None where it could not be asked for.

    Raises:
        AssertionError: A message was lost, was heard twice, or was heard and thrown away; the message has its ref.
    """
    fates = _Fates()
    for event in events:
        fates.take(event)
    came = Counter([*fates.started, *fates.applied, *fates.gone])
    accepted = sorted(fates.accepted)
    assert came == Counter(accepted), f"expected one outcome for each of {accepted}, got {dict(came)}"
    if messages is None:
        return
    said = [message for message in messages if isinstance(message, UserMessage)]
    heard = [message.ref for message in said if message.origin == "prompt"]
    assert heard == fates.started, f"expected the prompts {fates.started} in the history, got {heard}"
    steered = [
        block.text
        for message in said
        if message.origin == "steer"
        for block in message.content
        if isinstance(block, Text)
    ]
    lost = [ref for ref in fates.applied if not any(fates.steers[ref] in text for text in steered)]
    assert not lost, f"the steers {lost} were applied, and the history has only {steered}"


class _Fates:
    """What became of the messages that a session accepted."""

    def __init__(self) -> None:
        self.accepted: set[str] = set()
        self.started: list[str] = []
        self.applied: list[str] = []
        self.gone: list[str] = []
        self.steers: dict[str, str] = {}

    def take(self, event: Event) -> None:
        match event:
            # A steer that met the end of its cycle is one too.
            case PromptReceived(ref=ref) | PromptQueued(ref=ref):
                self.accepted.add(ref)
            case SteeringReceived(ref=ref, text=text, status="queued"):
                self.accepted.add(ref)
                self.steers[ref] = text
            case AgentStart(ref=ref, goes_on=False):
                self.started.append(ref)
            case SteeringApplied(refs=refs):
                self.applied += refs
            case PromptDropped(ref=ref) | PromptRejected(ref=ref) | PromptTaken(ref=ref):
                self.gone.append(ref)
            case _:
                pass


def _check_numbers(events: Sequence[Event]) -> None:
    last = 0
    for event in events:
        assert event.meta is not None, f"{event!r} has no envelope: was it published?"
        expected = last if is_ephemeral(event) else last + 1
        assert event.meta.seq == expected, f"{event!r} has number {event.meta.seq}, expected {expected}"
        last = expected


def _check_cycles(events: Sequence[Event]) -> None:
    running: AgentStart | None = None
    for event in events:
        if isinstance(event, AgentStart):
            assert running is None, f"{event!r} came before the end of {running!r}"
            running = event
        elif type(event) in TERMINAL:
            # An abort says so in idle too, where there is nothing to end.
            assert running is not None or isinstance(event, AgentAbort), f"{event!r} ends no cycle"
            assert isinstance(event, AgentEnd | AgentAbort | AgentError)
            named = None if running is None else running.ref
            assert event.ref in (named, None), f"{event!r} does not name the prompt of its cycle, {named!r}"
            running = None
    assert running is None, f"{running!r} has no terminal event"


def _check_calls(events: Sequence[Event]) -> None:
    asked = Counter(
        call.call_id
        for event in events
        if isinstance(event, ResponseComplete)
        for call in event.message.calls
    )
    for kind in (ToolExecutionStart, ToolExecutionEnd):
        came = Counter(event.call_id for event in events if isinstance(event, kind))
        assert came == asked, f"{kind.__name__} per call: expected {dict(asked)}, got {dict(came)}"


class _Nesting:
    """What is open while events go by: a cycle, in it a request or a batch of calls, and what an abort let run on."""

    def __init__(self) -> None:
        self._in_cycle = False
        self._in_request = False
        self._running: set[CallId] = set()
        self._spared: set[CallId] = set()

    def takes(self, event: Event) -> bool:
        """Go past an event, and say whether it may stand there."""
        match event:
            case AgentStart():
                self._in_cycle = True
            case AgentEnd() | AgentError() | AgentAbort():
                fits = not self._running or isinstance(event, AgentAbort)
                self._spared |= self._running
                self._in_cycle, self._in_request, self._running = False, False, set()
                return fits
            case RequestStart():
                fits = self._in_cycle and not self._in_request and not self._running
                self._in_request = True
                return fits
            case MessageStart() | MessageDelta() | ThinkingStart() | ThinkingDelta():
                return self._in_request
            case ResponseComplete() | StreamError():
                fits, self._in_request = self._in_request, False
                return fits
            case Retry() | ContextOverflow() | ModelSwitched(by="fallback"):
                # The end of a request that failed before its first chunk, and of one that `StreamError` has ended.
                self._in_request = False
                return self._in_cycle
            case _:
                return self._takes_of_a_call(event)
        return True

    def _takes_of_a_call(self, event: Event) -> bool:
        match event:
            case ToolExecutionStart(call_id=call_id):
                self._running.add(call_id)
                return self._in_cycle and not self._in_request
            case ToolExecutionEnd(call_id=call_id):
                fits = call_id in self._running | self._spared
                self._running.discard(call_id)
                self._spared.discard(call_id)
                return fits
            case (
                ToolBlocked(call_id=call_id)
                | ToolCallUnknown(call_id=call_id)
                | ToolKilled(call_id=call_id)
                | ToolSkippedForSteering(call_id=call_id)
            ):
                return call_id in self._running | self._spared
            case _:
                return True
