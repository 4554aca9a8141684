"""`ResponseBuilder`: a response while it arrives. It creates the chunks and, from the same pieces, the final message."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from agentrail.core.protocol.request import (
    ArgumentsDelta,
    Completed,
    EffectId,
    ReasoningDelta,
    TextDelta,
    ToolCallStarted,
)
from agentrail.core.values.toolbox import read_call
from agentrail.errors import ProtocolError
from agentrail.errors.advice import Advice, advise, with_advice
from agentrail.frozen import TooDeep
from agentrail.messages import (
    AssistantBlock,
    AssistantMessage,
    JsonObject,
    Opaque,
    StopReason,
    Text,
    Thinking,
    TokenUsage,
    ToolCall,
)

MAX_CALLS: Final = 10_000
MAX_PIECES: Final = 10_000

_BYTES_PER_TOKEN = 4
_MAX_BELIEVED_TOKENS = 1_000_000_000
_CUTS: frozenset[StopReason] = frozenset({"refused", "max_tokens", "context_window"})
_MAY_BE_EMPTY: frozenset[StopReason] = frozenset({*_CUTS, "stop_sequence", "pause"})


@define(eq=False, repr=False, weakref_slot=False)
class _Text:
    pieces: list[str] = field(init=False, factory=list)


@define(eq=False, repr=False, weakref_slot=False)
class _Thinking:
    pieces: list[str] = field(init=False, factory=list)
    signature: str | None = field(init=False, default=None)


@define(eq=False, repr=False, weakref_slot=False)
class _Call:
    call_id: str
    name: str
    pieces: list[str] = field(init=False, factory=list)


class ResponseBuilder:
    """Collects one response. Each method returns the chunk for its addition."""

    def __init__(self, *, provider: str, model: str, attempt: EffectId) -> None:
        """Start a response.

        Args:
            provider: Provider of its thinking and opaque blocks.
            model: The whole model string of the request.
            attempt: Id of the request. Missing call ids are derived from it, so that the same events give the same chunks,
                and ids are unique across requests.
        """
        self._provider = provider
        self._model = model
        self._attempt = attempt
        self._blocks: list[_Text | _Thinking | _Call | Opaque] = []
        self._calls: list[_Call] = []
        self._call_ids: set[str] = set()
        self._last: _Text | _Thinking | _Call | Opaque | None = None
        self._keyed: dict[object, _Text | _Thinking] = {}
        self._output_characters = 0
        self.strange_counts: dict[str, object] = {}
        """Impossible token counts, by name. They are excluded from all sums."""

    @property
    def has_calls(self) -> bool:
        """Whether a call has started."""
        return bool(self._calls)

    def text(self, piece: str, key: object = None) -> TextDelta:
        """Append visible text to the block with this key, or without a key to the last block."""
        block = self._last if key is None else self._keyed.get(key)
        if not isinstance(block, _Text):
            block = _Text()
            self._add(block, key)
        block.pieces.append(piece)
        self._output_characters += len(piece)
        return TextDelta(piece)

    def thinking(self, piece: str, signature: str | None = None, *, key: object = None) -> ReasoningDelta:
        """Append thinking, or its final signature. Thinking after a signature starts a new block."""
        block = self._last if key is None else self._keyed.get(key)
        if not isinstance(block, _Thinking) or block.signature is not None:
            block = _Thinking()
            self._add(block, key)
        block.pieces.append(piece)
        block.signature = signature
        self._output_characters += len(piece)
        return ReasoningDelta(piece, signature)

    def missing(self, key: object, whole: str) -> str:
        """Compare the text received for a keyed block with the complete one, and return the missing rest.

        If they disagree, the complete text wins and nothing is missing. A delta cannot be taken back, but the stored message,
        which is sent again later, must be the vendor's.
        """
        block = self._keyed.get(key)
        return _missing([] if block is None else block.pieces, whole)

    def opaque(self, payload: JsonObject) -> None:
        """Append a block of unknown type unchanged. It has no chunk.

        Raises:
            ProtocolError: The vendor's move: more levels of nesting than a message can hold.
        """
        try:
            self._add(Opaque(provider=self._provider, payload=payload))
        except TooDeep as error:
            message = f"the provider sent a block of unknown type, {error}"
            raise ProtocolError(message) from None

    def end_block(self) -> None:
        """End the current block, so that the next piece starts a new one."""
        self._last = None

    def start_call(self, call_id: str, name: str) -> ToolCallStarted:
        """Start a call. An id that is missing or already used in this response is generated.

        Raises:
            ProtocolError: The vendor's move: a call without a name.
        """
        if not name:
            message = "the provider sent a tool call without a name"
            raise ProtocolError(message)
        index = len(self._calls)
        if index >= MAX_CALLS:
            message = f"the provider sent more than {MAX_CALLS:,} tool calls in one answer, so the request was abandoned"
            raise ProtocolError(message)
        if not call_id or call_id in self._call_ids:
            call_id = f"call_{self._attempt}_{index}"
        self._call_ids.add(call_id)
        call = _Call(call_id, name)
        self._calls.append(call)
        self._add(call)
        return ToolCallStarted(index, call_id, name)

    def arguments(self, index: int, piece: str) -> ArgumentsDelta:
        """Append to the arguments of a call."""
        self._calls[index].pieces.append(piece)
        self._output_characters += len(piece)
        return ArgumentsDelta(index, piece)

    def missing_arguments(self, index: int, whole: str) -> str:
        """Same as `missing`, for the arguments of a call."""
        return _missing(self._calls[index].pieces, whole)

    def argument_pieces(self, index: int) -> Sequence[str]:
        """Return the received pieces of a call's arguments."""
        return self._calls[index].pieces

    def count(self, name: str, value: object, most: int = _MAX_BELIEVED_TOKENS) -> int | None:
        """Validate a token count of the vendor.

        Args:
            name: Name of the count.
            value: The vendor's value, of any type.
            most: The largest possible value, such as the total of which this is a part.

        Returns:
            The count, or None if it is missing or impossible. Impossible counts are recorded.
        """
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most:
            return value
        self.strange_counts[name] = value
        return None

    def counts(self, usage: Mapping[str, Any], names: Sequence[str]) -> dict[str, int]:
        """Return the counts of an object that are present and possible."""
        found = {name: self.count(name, usage.get(name)) for name in names}
        return {name: count for name, count in found.items() if count is not None}

    def estimate(self, request_bytes: int) -> TokenUsage:
        """Estimate missing usage: four bytes per token, marked as estimated."""
        return TokenUsage(
            input=request_bytes // _BYTES_PER_TOKEN,
            output=self._output_characters // _BYTES_PER_TOKEN,
            cost_usd=None,
            estimated=True,
        )

    def completed(self, stop_reason: StopReason, usage: TokenUsage) -> Completed:
        """End the response.

        Raises:
            ProtocolError: The vendor's move: the response is empty, without a stop reason that explains it.
        """
        blocks = tuple(block for block in map(self._finished, self._blocks) if block is not None)
        if not blocks and stop_reason not in _MAY_BE_EMPTY:
            message = f"the provider answered with nothing (stop reason {stop_reason!r})"
            raise ProtocolError(with_advice(message, advise(Advice.EMPTY)))
        last = blocks[-1] if blocks else None
        if stop_reason in _CUTS and isinstance(last, ToolCall) and not self._calls[-1].pieces:
            # Cut before its first argument. It must not pass for a call without arguments, which would run.
            cut = ToolCall(call_id=last.call_id, name=last.name, arguments=None, malformed="")
            blocks = (*blocks[:-1], cut)
        return Completed(
            stop_reason, AssistantMessage(content=blocks, model=self._model, stop_reason=stop_reason), usage
        )

    def _add(self, block: "_Text | _Thinking | _Call | Opaque", key: object = None) -> None:
        self._blocks.append(block)
        self._last = block
        if key is not None and isinstance(block, _Text | _Thinking):
            self._keyed[key] = block

    def _finished(self, block: "_Text | _Thinking | _Call | Opaque") -> AssistantBlock | None:
        match block:
            case _Text():
                text = "".join(block.pieces)
                return Text(text=text) if text else None
            case _Thinking():
                text = "".join(block.pieces)
                if not text and block.signature is None:
                    return None
                return Thinking(text=text, signature=block.signature, provider=self._provider)
            case _Call():
                return read_call(block.call_id, block.name, "".join(block.pieces))
            case _:
                return block


def pieces_in(value: object) -> list[Any]:
    """Return the list of pieces in an event; empty if there is no list.

    Raises:
        ProtocolError: The vendor's move: more pieces than any vendor sends at once, and too many for one step.
    """
    if not isinstance(value, list):
        return []
    if len(value) > MAX_PIECES:
        message = f"the provider sent an event of {len(value):,} pieces, at most {MAX_PIECES:,} are allowed, so the request was abandoned"
        raise ProtocolError(message)
    return value


def text_of(value: Mapping[str, Any], name: str) -> str:
    """Return a text member, or an empty string."""
    text = value.get(name)
    return text if isinstance(text, str) else ""


def object_of(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a member that is an object, or an empty object."""
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}


def _missing(pieces: list[str], whole: str) -> str:
    said = "".join(pieces)
    if whole.startswith(said):
        return whole[len(said) :]
    pieces[:] = [whole]
    return ""


def usage_in(
    draft: ResponseBuilder, usage: Mapping[str, Any], of_input: str, of_output: str
) -> TokenUsage | None:
    """Read a usage in OpenAI's formats: two totals, each with a breakdown.

    Args:
        draft: The response. It records impossible counts.
        usage: The vendor's object.
        of_input: Name of the input total.
        of_output: Name of the output total.

    Returns:
        The usage, or None if its totals are missing or impossible.
    """
    read, written = draft.count(of_input, usage.get(of_input)), draft.count(of_output, usage.get(of_output))
    if read is None or written is None:
        return None

    def part(total: str, name: str, most: int) -> int:
        return draft.count(name, object_of(usage, f"{total}_details").get(name), most) or 0

    cached = part(of_input, "cached_tokens", read)
    return TokenUsage(
        input=read,
        output=written,
        cache_read=cached,
        cache_write=part(of_input, "cache_write_tokens", read - cached),
        reasoning=part(of_output, "reasoning_tokens", _MAX_BELIEVED_TOKENS),  # some count it in addition
        cost_usd=None,
        estimated=bool(draft.strange_counts),
    )
