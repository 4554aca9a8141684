"""Import of conversations from outside: any messages in, a valid `History` out, with each repair reported.

Inside, validity is an invariant of `History` and nothing is ever repaired.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, pairwise
from typing import Any, Final, Literal, TypeAlias, assert_never

from attrs import frozen
from msgspec.structs import replace

from agentrail.core.values.history import History
from agentrail.errors import OptionError
from agentrail.messages import (
    AssistantMessage,
    CallId,
    Message,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.otp.guarded_calls import show

NO_RESULT: Final = "[No result: the conversation that was imported has none for this call.]"
NO_OUTPUT: Final = "[no output]"

RepairCode: TypeAlias = Literal[
    "empty_message",  # dropped: no provider accepts one
    "call_id",  # replaced: it was empty, or another call had it
    "call_arguments",  # set to none: there was neither an object nor the model's raw text
    "missing_result",  # answered with an error that reports it
    "misplaced_result",  # moved to its call, or into the order of the calls
    "orphan_result",  # dropped: no call before it lacks a result
    "empty_result",  # filled with a text: no provider accepts an empty one
    "result_name",  # set to the name of the tool that was called
]


@frozen(kw_only=True)
class Repair:
    """One repair.

    Attributes:
        code: The defect.
        position: Index of the message in the input, from 0.
        call_id: Original id of the call. None if the defect concerns a whole message.
    """

    code: RepairCode
    position: int
    call_id: CallId | None = None


def import_messages(messages: Iterable[Message]) -> tuple[History, tuple[Repair, ...]]:
    """Create a history from any messages in any order.

    Args:
        messages: The input, unchanged.

    Returns:
        A history without open calls, and the repairs. No repairs for valid messages.

    Raises:
        OptionError: Your move: one of them is not a message.
    """
    said: Any = messages
    given = tuple(said) if isinstance(said, Iterable) else (said,)
    wrong = [one for one in given if not isinstance(one, Message)]
    OptionError.raise_for(
        [f"messages has {show(one)}: expected messages of a conversation" for one in wrong[:1]]
    )
    importing = _Importing(given)
    # Results belong to the response before them, even if the user spoke meanwhile, and never to one after
    # that.
    starts = [position for position, message in enumerate(given) if isinstance(message, AssistantMessage)]
    for start, end in pairwise([0, *starts, len(given)]):
        importing.take(start, given[start:end])
    return importing.history, tuple(importing.repairs)


class _Importing:
    """An import in progress. It lives within one call, so it may be mutable."""

    def __init__(self, given: Sequence[Message]) -> None:
        responses = (message for message in given if isinstance(message, AssistantMessage))
        self.history = History()
        self.repairs: list[Repair] = []
        self._foreign_ids = {call.call_id for response in responses for call in response.calls}
        self._taken_ids: set[CallId] = set()
        self._numbers: dict[CallId, Iterator[int]] = {}

    def take(self, start: int, part: Sequence[Message]) -> None:
        """Add a response with all messages before the next one, or the messages before the first."""
        came = [
            (position, result)
            for position, message in enumerate(part, start)
            if isinstance(message, ToolMessage)
            for result in message.results
        ]
        orphans: Sequence[int] = range(len(came))
        for position, message in enumerate(part, start):
            match message:
                case UserMessage(content=()) | AssistantMessage(content=()) | ToolMessage(results=()):
                    self._report("empty_message", position)
                case AssistantMessage():
                    orphans = self._take_response(position, message, came)
                case UserMessage():
                    self.history = self.history.with_user(message)
                case ToolMessage():
                    pass  # its results were added to their calls already
                case _ as never:
                    assert_never(never)
        for position, result in (came[place] for place in orphans):
            self._report("orphan_result", position, result.call_id)

    def _take_response(
        self, position: int, message: AssistantMessage, came: Sequence[tuple[int, ToolResult]]
    ) -> Sequence[int]:
        """Add a response and the results of its calls. Return the indices of the other results."""
        sound = [
            self._sound_call(position, block) if isinstance(block, ToolCall) else block
            for block in message.content
        ]
        self.history = self.history.with_response(replace(message, content=tuple(sound)))
        unused: dict[CallId, list[int]] = {}  # of each id, the last one first
        for place in reversed(range(len(came))):
            unused.setdefault(came[place][1].call_id, []).append(place)
        last = 0
        results: list[ToolResult] = []
        for call, as_it_came in zip(self.history.open, message.calls, strict=True):
            places = unused.get(as_it_came.call_id)
            if not places:
                self._report("missing_result", position, as_it_came.call_id)
                results.append(
                    ToolResult(call_id=call.call_id, name=call.name, text=NO_RESULT, is_error=True)
                )
                continue
            place = places.pop()
            stood_at, result = came[place]
            if stood_at != position + 1 or place < last:
                self._report("misplaced_result", stood_at, result.call_id)
            last = max(last, place)
            results.append(self._sound_result(stood_at, result, call))
        if results:
            self.history = self.history.answered(results)
        return sorted(chain.from_iterable(unused.values()))

    def _sound_call(self, position: int, call: ToolCall) -> ToolCall:
        call_id = call.call_id
        if not call_id or call_id in self._taken_ids:
            self._report("call_id", position, call.call_id)
            # One counter per id: some vendors have the same few ids in each response.
            numbers = self._numbers.setdefault(call.call_id, count(2))
            offered = (CallId(f"{call.call_id or 'call'}_{number}") for number in numbers)
            call_id = next(
                one for one in offered if one not in self._taken_ids and one not in self._foreign_ids
            )
        self._taken_ids.add(call_id)
        arguments = call.arguments
        if arguments is None and call.malformed is None:
            self._report("call_arguments", position, call.call_id)
            arguments = {}
        return replace(call, call_id=call_id, arguments=arguments)

    def _sound_result(self, position: int, result: ToolResult, call: ToolCall) -> ToolResult:
        """Return the result with the id and the name of its call, and with a text."""
        if result.name != call.name:
            self._report("result_name", position, result.call_id)
        if not result.text:
            self._report("empty_result", position, result.call_id)
        return replace(result, call_id=call.call_id, name=call.name, text=result.text or NO_OUTPUT)

    def _report(self, code: RepairCode, position: int, call_id: CallId | None = None) -> None:
        self.repairs.append(Repair(code=code, position=position, call_id=call_id))
