"""What callers get of a cycle: its reply, and its answer as a value of a type. What the model hears of one that cannot be read.

The core judges by a JSON Schema, which is data. What no schema says (the 30th of February, a validator of the caller's class) is
found by reading the answer, which only this process can: it is told to the core with the response, and so is replayed as it was.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from attrs import field, frozen

from agentrail.core.policy.response_format import document_in
from agentrail.core.protocol.signals import ResponseCompleted
from agentrail.core.session.state import SessionState
from agentrail.core.session.tags import visible_text
from agentrail.errors import CycleFailed, ErrorInfo
from agentrail.events import EndReason
from agentrail.messages import Message, PromptRef, TokenUsage, ToolCall
from agentrail.otp.edges import call_guarded
from agentrail.otp.leaving import describe_bug
from agentrail.typed import OutputFault, TypedValue

T = TypeVar("T")

Readers: TypeAlias = Mapping[PromptRef, TypedValue[Any]]
"""How the answers of the prompts that wait or run are read, where their callers want values."""

NO_READERS: Final[Readers] = MappingProxyType({})
"""Those of a session whose callers want none."""


@frozen(kw_only=True)
class CycleReply(Generic[T]):
    """What came of a cycle that finished.

    Attributes:
        text: The last answer: what the model said aloud in its last response; where that was to have a shape, the JSON document.
        output: The answer as a value of the type that was asked for; without one the text.
        all_text: All that the model said aloud in the cycle, an empty line between two responses.
        messages: Those of the cycle, the user's first.
        usage: What it used.
        turns: How often the model was asked.
        stop_reason: Why it stopped.
        events_from: The number of its first event.
        events_to: The number of its last one, `AgentEnd`.
    """

    text: str
    output: T
    all_text: str
    messages: tuple[Message, ...] = field(repr=False)
    usage: TokenUsage
    turns: int
    stop_reason: EndReason
    events_from: int
    events_to: int

    @property
    def cost_usd(self) -> float | None:
        """What it cost; None when a price is unknown, and never 0 for that."""
        return self.usage.cost_usd


class TurnsApart:
    """The empty line between the texts of two responses of a cycle."""

    def __init__(self) -> None:
        """Begin with nothing said."""
        self._has_said = self._is_due = False

    def take(self, text: str) -> str:
        """Return a piece of text, with the empty line before it if a response with text has ended."""
        if not text:
            return text
        before = "\n\n" if self._is_due else ""
        self._has_said, self._is_due = True, False
        return before + text

    def end(self) -> None:
        """Note that a response has ended."""
        self._is_due = self._has_said


def fault_of_answer(text: str, reader: TypedValue[Any]) -> str | None:
    """Say, for the model, why an answer cannot be read; None for one that can.

    Whatever the caller's own class raises is a fault of the answer: it is what the class says of it.
    """

    def read(text: str) -> str | None:
        try:
            reader.decode_text(text)
        except OutputFault as fault:
            return str(fault)
        return None

    return call_guarded(describe_bug, read, text)


def judged(signal: ResponseCompleted, state: SessionState, readers: Readers) -> ResponseCompleted:
    """Add to a response why the caller of its prompt cannot read it, if that is so and it is meant as the answer."""
    cycle, stream = state.data.cycle, state.data.stream
    if cycle is None or stream is None or stream.effect_id != signal.effect_id:
        return signal
    reader = readers.get(cycle.ref)
    if reader is None or any(isinstance(block, ToolCall) for block in signal.message.content):
        return signal
    said = visible_text(signal.message.text, state.data.config)
    fault = fault_of_answer(document_in(said, reader.wire_schema), reader)
    return signal if fault is None else msgspec.structs.replace(signal, misfit=fault)


def read_answer(text: str, reader: TypedValue[T]) -> T:
    """Read the answer of a cycle that finished."""

    def give_up(error: BaseException) -> T:
        said = str(error) if isinstance(error, OutputFault) else describe_bug(error)
        message = f"the answer is not of the type that was asked for: {said}"
        raise CycleFailed(ErrorInfo(code="response_format", message=message), text=text) from None

    read: Callable[[str], T] = reader.decode_text
    return call_guarded(give_up, read, text)
