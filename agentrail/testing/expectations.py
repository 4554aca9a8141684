"""What holds for every session at any time, as checks that a test can make of what it saw: history and events."""

from collections import Counter
from collections.abc import Iterable, Sequence

from agentrail.events import (
    EPHEMERAL,
    TERMINAL,
    AgentAbort,
    AgentEnd,
    AgentError,
    AgentStart,
    Event,
    MessageDelta,
    MessageStart,
    RequestStart,
    ResponseComplete,
    SessionEnd,
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
from agentrail.messages import AssistantMessage, CallId, Message, ToolMessage


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


def _check_numbers(events: Sequence[Event]) -> None:
    last = 0
    for event in events:
        assert event.meta is not None, f"{event!r} has no envelope: was it published?"
        expected = last if type(event) in EPHEMERAL else last + 1
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
