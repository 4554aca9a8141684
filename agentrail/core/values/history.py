"""The conversation, as a type that cannot hold an unanswered call once a turn is over.

There is no repair pass anywhere: a history that no provider would take cannot be made. An assistant message with calls
opens the history; until `answered` has given each of its calls exactly one result, in call order, nothing else can be
appended and no request can be made of it.

Adding a message is O(1) and a fork shares the prefix, because messages are kept in a `Log`.
"""

# not compiled: it judges messages that others made, whose fields may not be what they are annotated as

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never

from agentrail.core.values.append_only import Log
from agentrail.errors import HistoryError
from agentrail.frozen import not_json
from agentrail.messages import (
    AssistantBlock,
    AssistantMessage,
    CallId,
    FileRef,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserBlock,
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

    @staticmethod
    def of(messages: Iterable[Message]) -> "History":
        """Make a history of what was one, as it was stored; the calls of a response that stands last are open.

        Raises:
            HistoryError: These messages are none, in this order.
        """
        made = History()
        for message in messages:
            match message:
                case UserMessage():
                    made = made.with_user(message)
                case AssistantMessage():
                    made = made.with_response(message)
                case ToolMessage():
                    made = made.answered(message.results)
                case _ as never:
                    assert_never(never)
        return made

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
        if len(calls) > 1 and len({call.call_id for call in calls}) != len(calls):
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

    def corrected(self, result: ToolResult) -> "History":
        """Replace one result of the last message, for a call whose true outcome came after its answer.

        Raises:
            HistoryError: Ours: the last message has no result of that call.
        """
        last = self.messages[-1] if len(self) else None
        ids = [one.call_id for one in last.results] if isinstance(last, ToolMessage) else []
        if not isinstance(last, ToolMessage) or result.call_id not in ids:
            complaint = f"the last message has no result of {result.call_id!r}; it has results of {ids}"
            raise HistoryError(complaint)
        results = tuple(result if one.call_id == result.call_id else one for one in last.results)
        corrected = History()
        corrected.messages = Log((*self.messages[:-1], ToolMessage(results=results)))
        return corrected

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


def fault_of_messages(messages: Any, known: Sequence[Message] = ()) -> str | None:
    """Say what keeps messages from being a conversation that a model can be sent; None when nothing does.

    Args:
        messages: From outside, so anything.
        known: Messages of a session; those among them are not looked into again.
    """
    if not isinstance(messages, tuple | list):
        return f"needs a tuple of messages, got a value of type {type(messages).__name__}"
    if not messages:
        return "hands on no message: a request needs one at least"
    sound = {id(message) for message in known}
    history = History()
    for position, message in enumerate(messages):
        fault = None if id(message) in sound else _fault_of_message(message)
        if fault is not None:
            return f"messages[{position}] {fault}"
        try:
            history = _with_message(history, message)
        except HistoryError as error:
            return f"messages[{position}]: {error}"
    if history.open:
        unanswered = [call.call_id for call in history.open]
        return f"messages end with calls that are unanswered: {unanswered}"
    return None


def _with_message(history: History, message: Message) -> History:
    match message:
        case UserMessage():
            return history.with_user(message)
        case AssistantMessage():
            return history.with_response(message)
        case ToolMessage(results=results):
            return history.answered(results)
        case _ as never:
            assert_never(never)


def _fault_of_message(message: Any) -> str | None:
    """Look into one message: what a type checker would have refused is the author's fault, and may not crash the core."""
    match message:
        case UserMessage(content=parts):
            kinds: Any = UserBlock
        case AssistantMessage(content=parts):
            kinds = AssistantBlock
            model: object = message.model
            if not isinstance(model, str):
                return f"has the model {model!r}: expected a text"
        case ToolMessage(results=parts):
            kinds = ToolResult
        case _:
            return f"is {message!r:.200}: expected a UserMessage, AssistantMessage or ToolMessage"
    held: Any = parts
    if not isinstance(held, tuple) or not all(isinstance(part, kinds) for part in held):
        return f"holds {held!r:.200}: expected a tuple of what such a message is made of"
    return next((fault for part in held if (fault := _fault_of_part(part)) is not None), None)


def fault_of_images(images: object) -> str | None:
    """Say what is wrong with the pictures of a result; None for a sound tuple of them."""
    if not isinstance(images, tuple) or not all(isinstance(image, Image) for image in images):
        return f"has a result with the pictures {images!r:.200}: expected a tuple of Image"
    return next((fault for image in images if (fault := _fault_of_part(image)) is not None), None)


def _fault_of_part(part: Any) -> str | None:
    texts: tuple[Any, ...]
    values: tuple[Any, ...] = ()
    match part:
        case Text(text=text):
            texts = (text,)
        case Image(media_type=media_type, data=data, name=name):
            texts = (media_type, data, name)
        case FileRef(path=path):
            texts = (path,)
        case Thinking(text=text, signature=signature, provider=provider):
            texts = (text, signature or "", provider)
        case Opaque(provider=provider, payload=payload):
            texts, values = (provider,), (payload,)
        case ToolCall(call_id=call_id, name=name, arguments=arguments, malformed=malformed):
            given: object = arguments
            texts, values = (call_id, name, malformed or ""), (given,)
            if given is not None and not isinstance(given, Mapping):
                return f"has a call with the arguments {given!r:.200}: expected a JSON object"
        case _:
            texts, values = (part.call_id, part.name, part.text), (part.details,)
            fault = fault_of_images(part.images)
            if fault is not None:
                return fault
    if not all(isinstance(text, str) for text in texts):
        return f"holds {part!r:.200}: expected texts where it has something else"
    fault = next((fault for value in values if (fault := not_json(value)) is not None), None)
    return None if fault is None else f"holds {part!r:.200}: {fault}"
