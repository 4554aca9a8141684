"""Results of a cycle for its caller: the reply, and the answer as a typed value."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar

from attrs import field, frozen
from msgspec.structs import replace

from agentrail.core.policy.response_format import document_in
from agentrail.core.protocol.signals import ResponseCompleted
from agentrail.core.session.inline_tags import visible_text
from agentrail.core.session.state import SessionState
from agentrail.errors import CycleAborted, CycleFailed, ErrorInfo
from agentrail.events import AgentAbort, AgentEnd, AgentError, EndReason, Event
from agentrail.messages import Message, PromptRef, TokenUsage, ToolCall
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.guarded_calls import call_guarded
from agentrail.structs import picked_fields
from agentrail.typed import OutputFault, TypedValue

T = TypeVar("T")

Readers: TypeAlias = Mapping[PromptRef, TypedValue[Any]]
"""Readers for the answers of queued and running prompts whose callers want typed values."""

NO_READERS: Final[Readers] = MappingProxyType({})
"""The readers of a session whose callers want text only."""


def raise_failure(event: Event | None) -> None:
    """Raise the error of a cycle that was aborted or failed. Any other event is ignored."""
    match event:
        case AgentAbort(reason=reason):
            raise CycleAborted(reason)
        case AgentError(error=error):
            raise CycleFailed(error)
        case _:
            pass


@frozen(kw_only=True)
class CycleReply(Generic[T]):
    """The reply of a cycle that finished.

    Attributes:
        text: The last answer: the visible text of the model's last response, or the JSON document if a format was
            required.
        output: The answer as a value of the requested type, or the text if no type was requested.
        all_text: All visible text of the model in the cycle, with an empty line between two responses.
        messages: The messages of the cycle, starting with the user's.
        usage: Tokens and cost of the cycle.
        turns: Number of model calls.
        stop_reason: Why the cycle stopped.
        events_from: Number of its first event.
        events_to: Number of its last event, `AgentEnd`.
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
        """Cost in US dollars. None if a price is unknown, never 0 in that case."""
        return self.usage.cost_usd


def reply_of_cycle(end: AgentEnd, text: str, said: Iterable[str], events_from: int) -> CycleReply[str]:
    assert end.meta is not None  # noqa: S101 - it was published
    return CycleReply(
        text=text,
        output=text,
        all_text="\n\n".join(filter(None, said)),
        **picked_fields(end, "messages", "usage", "turns", "stop_reason"),
        events_from=events_from,
        events_to=end.meta.seq,
    )


class TurnsApart:
    def __init__(self) -> None:
        self._has_said = self._is_due = False

    def take(self, text: str) -> str:
        if not text:
            return text
        before = "\n\n" if self._is_due else ""
        self._has_said, self._is_due = True, False
        return before + text

    def end(self) -> None:
        self._is_due = self._has_said


def fault_of_answer(text: str, reader: TypedValue[Any]) -> str | None:
    def read(text: str) -> str | None:
        try:
            reader.decode_text(text)
        except OutputFault as fault:
            return str(fault)
        return None

    return call_guarded(describe_bug, read, text)


def judged(signal: ResponseCompleted, state: SessionState, readers: Readers) -> ResponseCompleted:
    cycle, stream = state.data.cycle, state.data.stream
    if cycle is None or stream is None or stream.effect_id != signal.effect_id:
        return signal
    reader = readers.get(cycle.ref)
    if reader is None or any(isinstance(block, ToolCall) for block in signal.message.content):
        return signal
    said = visible_text(signal.message.text, state.data.config)
    fault = fault_of_answer(document_in(said, reader.wire_schema), reader)
    return signal if fault is None else replace(signal, misfit=fault)


def read_answer(text: str, reader: TypedValue[T]) -> T:
    def give_up(error: BaseException) -> T:
        said = str(error) if isinstance(error, OutputFault) else describe_bug(error)
        message = f"the answer does not have the requested type: {said}"
        raise CycleFailed(ErrorInfo(code="response_format", message=message), text=text) from None

    read: Callable[[str], T] = reader.decode_text
    return call_guarded(give_up, read, text)
