"""The conversation, as a type that cannot hold an unanswered call once a turn is over.

There is no repair pass anywhere: a history that no provider would take cannot be made. An assistant message with calls
opens the history; until `answered` has given each of its calls exactly one result, in call order, nothing else can be
appended and no request can be made of it.

Adding a message is O(1) and a fork shares the prefix, because messages are kept in a `Log`.
"""

from collections.abc import Sequence

from agentrail.core.append_only import Log
from agentrail.errors import HistoryError
from agentrail.messages import (
    AssistantMessage,
    CallId,
    Message,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)


class History:
    """The conversation so far.

    Attributes:
        messages: All messages, oldest first.
        open: The calls of the last message, while they have no results; else empty.
    """

    __slots__ = ("messages", "open")

    messages: Log[Message]
    open: tuple[ToolCall, ...]

    def __init__(self) -> None:
        """Start empty."""
        self.messages = Log()
        self.open = ()

    def with_user(self, message: UserMessage) -> "History":
        """Add what the user said.

        Raises:
            HistoryError: Ours: calls are unanswered, or the message is empty.
        """
        self._refuse_while_open("a user message")
        if not message.content:
            complaint = "a user message needs at least one block"
            raise HistoryError(complaint)
        return self._grown(message, ())

    def with_response(self, message: AssistantMessage) -> "History":
        """Add what the model said; its calls are open from now on.

        Raises:
            HistoryError: Ours: calls are unanswered, the message is empty, or two of its calls share an id.
        """
        self._refuse_while_open("a response")
        if not message.content:
            complaint = "a response needs at least one block"
            raise HistoryError(complaint)
        calls = message.calls
        if len({call.call_id for call in calls}) != len(calls):
            complaint = f"two calls of one response share an id: {[call.call_id for call in calls]}"
            raise HistoryError(complaint)
        return self._grown(message, calls)

    def answered(self, results: Sequence[ToolResult]) -> "History":
        """Give every open call its result, all in one step.

        Raises:
            HistoryError: Ours: the results are not one for each open call, in the order of the calls.
        """
        expected = [call.call_id for call in self.open]
        came = [result.call_id for result in results]
        if not expected or came != expected:
            complaint = f"expected one result for each of {expected}, in this order, got {came}"
            raise HistoryError(complaint)
        return self._grown(ToolMessage(results=tuple(results)), ())

    def compacted(self, cut: int, summary: UserMessage) -> "History":
        """Put a summary in the place of the beginning; what stays is shared, with the encoded forms that it keeps.

        Args:
            cut: How many messages go.
            summary: What stands for them.

        Raises:
            HistoryError: Ours: calls are unanswered, there are not so many messages, the summary is empty, or the rest
                would begin with results whose calls are gone.
        """
        self._refuse_while_open("a summary")
        if not 0 < cut <= len(self) or not summary.content:
            complaint = f"a summary of one block or more replaces 1 to {len(self)} messages, not {cut}"
            raise HistoryError(complaint)
        rest = self.messages[cut:]
        if rest and isinstance(rest[0], ToolMessage):
            complaint = f"a cut at {cut} would part results from their calls"
            raise HistoryError(complaint)
        shorter = History()
        shorter.messages = Log((summary, *rest))
        return shorter

    def since(self, position: int) -> tuple[Message, ...]:
        """Give the messages from a position on."""
        return self.messages[position:]

    def __len__(self) -> int:
        """Count the messages."""
        return len(self.messages)

    def __eq__(self, other: object) -> bool:
        """Two histories are equal when they hold equal messages; what is open follows from those."""
        return isinstance(other, History) and self.messages == other.messages

    def __hash__(self) -> int:
        """Hash by length."""
        return hash(len(self.messages))

    def __repr__(self) -> str:
        """Show the length and what is open: whole conversations do not belong into logs."""
        return f"<History of {len(self.messages)} messages, {len(self.open)} calls open>"

    def _refuse_while_open(self, what: str) -> None:
        if self.open:
            unanswered: list[CallId] = [call.call_id for call in self.open]
            complaint = f"{what} cannot be added while calls are unanswered: {unanswered}"
            raise HistoryError(complaint)

    def _grown(self, message: Message, open_calls: tuple[ToolCall, ...]) -> "History":
        grown = History.__new__(History)
        grown.messages = self.messages.appended(message)
        grown.open = open_calls
        return grown
