"""The conversation, as a type that cannot contain an unanswered call after a turn.

No repair is needed anywhere: a history that a provider would refuse cannot be created.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar, assert_never, overload

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

# Append-only sequences: appending is O(1), and older versions never change.
#
# All versions share one list, and each knows its own length. Only the newest version appends in place; appending to an older one copies its
# part, so a fork never changes the original. A persistent vector was rejected: a conversation is read from end to end for every
# request, and a list is ten times as fast at that.

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)


class Log(Sequence[T], Generic[T]):
    """An immutable sequence with O(1) append."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: Sequence[T] = ()) -> None:
        self._items: list[T] = list(items)
        self._length = len(self._items)

    def appended(self, item: T) -> "Log[T]":
        longer: Log[T] = Log.__new__(Log)
        newest = len(self._items) == self._length
        # An empty one is never written through: it may be the default of a field, which many sessions share.
        longer._items = self._items if newest and self._length else self._items[: self._length]
        longer._items.append(item)
        longer._length = self._length + 1
        return longer

    def grew_from(self, older: "Log[T]") -> bool:
        """Return whether this sequence begins with all of an older one, without comparing items."""
        return self._items is older._items and self._length >= older._length  # noqa: SLF001 - of its own class

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return islice(self._items, self._length)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            start, stop, stride = index.indices(self._length)
            if stride < 0:  # then `stop` may be -1, which a second slice would count from the end
                return tuple(self._items[position] for position in range(start, stop, stride))
            items = self._items
            # All of them at once, without a list in between: plugins get the whole conversation before each
            # request.
            is_all = start == 0 and stop == len(items) and stride == 1
            return tuple(items if is_all else items[start:stop:stride])
        if not -self._length <= index < self._length:
            message = f"index {index} is outside of a log of {self._length}"
            raise IndexError(message)
        return self._items[index if index >= 0 else self._length + index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Log) and self[:] == other[:]

    def __hash__(self) -> int:
        return hash(self._length)

    def __repr__(self) -> str:
        return f"Log({list(self)!r})"


class GrowingSet(Generic[H]):
    """An immutable set with O(1) insertion."""

    __slots__ = ("_count", "_first_seen")

    def __init__(self) -> None:
        self._first_seen: dict[H, int] = {}
        self._count = 0

    def added(self, item: H) -> "GrowingSet[H]":
        if item in self:
            return self
        grown: GrowingSet[H] = GrowingSet.__new__(GrowingSet)
        newest = len(self._first_seen) == self._count
        grown._first_seen = (
            self._first_seen
            if newest and self._count
            else dict(list(self._first_seen.items())[: self._count])
        )
        grown._first_seen[item] = self._count
        grown._count = self._count + 1
        return grown

    def __contains__(self, item: object) -> bool:
        return self._first_seen.get(item, self._count) < self._count  # type: ignore[arg-type]  # `in` takes anything

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[H]:
        return iter(self._items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GrowingSet) and self._items() == other._items()

    def __hash__(self) -> int:
        return hash(self._count)

    def _items(self) -> list[H]:
        return list(self._first_seen)[: self._count]


# not compiled: it checks messages made elsewhere, whose fields may not match their annotations


class History:
    """The conversation so far.

    Attributes:
        open: The calls of the last message, while they have no results. Otherwise empty.
    """

    __slots__ = ("messages", "open")

    messages: Log[Message]
    open: tuple[ToolCall, ...]

    def __init__(self) -> None:
        self.messages = Log()
        self.open = ()

    @staticmethod
    def of(messages: Iterable[Message]) -> "History":
        """Restore a stored history. The calls of a response at the end are open."""
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
        self._refuse_while_open("a user message")
        if not message.content:
            complaint = "a user message needs at least one block"
            raise HistoryError(complaint)
        return self._grown(message, ())

    def with_response(self, message: AssistantMessage) -> "History":
        self._refuse_while_open("a response")
        if not message.content:
            complaint = "a response needs at least one block"
            raise HistoryError(complaint)
        calls = message.calls
        if len(calls) > 1 and len({call.call_id for call in calls}) != len(calls):
            complaint = f"two calls in one response share an id: {[call.call_id for call in calls]}"
            raise HistoryError(complaint)
        return self._grown(message, calls)

    def answered(self, results: Sequence[ToolResult]) -> "History":
        expected = [call.call_id for call in self.open]
        came = [result.call_id for result in results]
        if not expected or came != expected:
            complaint = f"expected one result for each of {expected}, in this order, got {came}"
            raise HistoryError(complaint)
        return self._grown(ToolMessage(results=tuple(results)), ())

    def corrected(self, result: ToolResult) -> "History":
        """Replace one result of the last message, for a call whose true outcome came after its answer."""
        last = self.messages[-1] if len(self) else None
        ids = [one.call_id for one in last.results] if isinstance(last, ToolMessage) else []
        if not isinstance(last, ToolMessage) or result.call_id not in ids:
            complaint = f"the last message has no result for {result.call_id!r}; it has results for {ids}"
            raise HistoryError(complaint)
        results = tuple(result if one.call_id == result.call_id else one for one in last.results)
        corrected = History()
        corrected.messages = Log((*self.messages[:-1], ToolMessage(results=results)))
        return corrected

    def compacted(self, cut: int, summary: UserMessage) -> "History":
        """Replace the beginning with a summary. The rest is shared, including its cached encoded forms."""
        self._refuse_while_open("a summary")
        if not 0 < cut <= len(self) or not summary.content:
            complaint = f"a summary of one block or more replaces 1 to {len(self)} messages, not {cut}"
            raise HistoryError(complaint)
        rest = self.messages[cut:]
        if rest and isinstance(rest[0], ToolMessage):
            complaint = f" a cut at {cut} would separate results from their calls"
            raise HistoryError(complaint)
        shorter = History()
        shorter.messages = Log((summary, *rest))
        return shorter

    def since(self, position: int) -> tuple[Message, ...]:
        return self.messages[position:]

    def __len__(self) -> int:
        return len(self.messages)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and self.messages == other.messages

    def __hash__(self) -> int:
        return hash(len(self.messages))

    def __repr__(self) -> str:
        """Show the length and the open calls: whole conversations do not belong into logs."""
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
    """Return why messages are not a conversation that can be sent to a model, or None if they are."""
    if not isinstance(messages, tuple | list):
        return f"needs a tuple of messages, got a value of type {type(messages).__name__}"
    if not messages:
        return "passes no messages: a request needs at least one"
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
    """Check one message: type errors are the author's fault, and must not crash the core."""
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
        return f"holds {held!r:.200}: expected a tuple of this message's content types"
    return next((fault for part in held if (fault := _fault_of_part(part)) is not None), None)


def fault_of_images(images: object) -> str | None:
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
        return f"holds {part!r:.200}: expected text fields"
    fault = next((fault for value in values if (fault := not_json(value)) is not None), None)
    return None if fault is None else f"holds {part!r:.200}: {fault}"
