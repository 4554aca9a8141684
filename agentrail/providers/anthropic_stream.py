"""The stream of Anthropic Messages, event by event: `MessagesStream`. Pure; no network and no clock enters this file."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from agentrail.core.protocol.request import Chunk, Completed, EffectId, UsageUpdate
from agentrail.errors import ProtocolError
from agentrail.messages import StopReason, TokenUsage
from agentrail.providers.failures import Vendor, cut_short, failure_in_stream
from agentrail.providers.json_text import decode_json, decode_object, encode_json, shown
from agentrail.providers.response_builder import ResponseBuilder, pieces_in, text_of

_STOP_REASONS: Final[Mapping[str, StopReason]] = MappingProxyType(
    {
        "end_turn": "end",
        "tool_use": "tool_use",
        "max_tokens": "max_tokens",
        "stop_sequence": "stop_sequence",
        "refusal": "refused",
        "pause_turn": "pause",
        "model_context_window_exceeded": "context_window",
    }
)

_COUNTS: Final = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class _Block:
    """A content block that is open."""

    __slots__ = ("call_index", "payload", "pieces")

    def __init__(self, payload: dict[str, Any]) -> None:
        self.payload = payload
        self.pieces: list[str] = []  # of JSON
        self.call_index: int | None = None


class MessagesStream:
    """Understands one response. Feed it the data of each event, then close it."""

    def __init__(self, *, model: str, attempt: EffectId, vendor: Vendor, request_bytes: int) -> None:
        """Begin a response; see `MakeReader`."""
        self.draft: ResponseBuilder = ResponseBuilder(provider="anthropic", model=model, attempt=attempt)
        self._vendor = vendor
        self._request_bytes = request_bytes
        self._blocks: dict[int, _Block] = {}
        self._counts: dict[str, int] = {}
        self._reasoning = 0
        self._stop_reason: str | None = None
        self._is_finished = False
        self.ignored_events: int = 0
        """How many events came after the terminal, or are of a kind that is not known here."""

    def feed(self, data: str) -> list[Chunk]:
        """Understand the data of one event.

        Raises:
            ProviderError: The vendor's move: the event is an error, none of this format, or out of order.
        """
        if self._is_finished:
            self.ignored_events += 1
            return []
        event = decode_object(data)
        match event.get("type"):
            case "content_block_delta":
                return self._delta(event)
            case "content_block_start":
                return self._start(event)
            case "content_block_stop":
                return self._stop(event)
            case "message_start":
                message = event.get("message")
                return self._take_usage(message.get("usage") if isinstance(message, dict) else None)
            case "message_delta":
                delta = event.get("delta")
                reason = delta.get("stop_reason") if isinstance(delta, dict) else None
                self._stop_reason = reason if isinstance(reason, str) else self._stop_reason
                return self._take_usage(event.get("usage"))
            case "message_stop":
                return [self._completed()]
            case "message":
                return self._whole(event)
            case "ping":
                return []
            case _:
                failure = failure_in_stream(event, self._vendor)
                if failure is not None:
                    raise failure
                self.ignored_events += 1
                return []

    def close(self) -> list[Chunk]:
        """Say what the end of the stream means: a response is over when it said so, and not before.

        Raises:
            Transport: The vendor's move: the stream ended before the response did.
        """
        if not self._is_finished:
            raise cut_short(self._vendor)
        return []

    # --- blocks

    def _start(self, event: dict[str, Any]) -> list[Chunk]:
        payload, index = event.get("content_block"), event.get("index")
        if not (isinstance(payload, dict) and isinstance(index, int)):
            message = "the provider began a content block without saying which"
            raise ProtocolError(message)
        block = self._blocks[index] = _Block(payload)
        match payload.get("type"):
            case "text":
                text = text_of(payload, "text")
                return [self.draft.text(text)] if text else []
            case "thinking":
                text, signature = text_of(payload, "thinking"), text_of(payload, "signature")
                return [self.draft.thinking(text, signature or None)] if text or signature else []
            case "tool_use":
                started = self.draft.start_call(text_of(payload, "id"), text_of(payload, "name"))
                block.call_index = started.index
                return [started]
            case _:
                return []  # redacted thinking, blocks of hosted tools: whole now, or with input to come

    def _delta(self, event: dict[str, Any]) -> list[Chunk]:
        block, delta = self._block_of(event), event.get("delta")
        if not isinstance(delta, dict):
            message = "the provider sent a delta of nothing"
            raise ProtocolError(message)
        match delta.get("type"):
            case "text_delta":
                text = text_of(delta, "text")
                return [self.draft.text(text)] if text else []
            case "input_json_delta":
                piece = text_of(delta, "partial_json")
                if not piece:
                    return []
                if block.call_index is None:  # of a hosted tool's call, which goes back as it came
                    block.pieces.append(piece)
                    return []
                block.payload["input"] = None  # what stood in the start was a placeholder
                return [self.draft.arguments(block.call_index, piece)]
            case "thinking_delta":
                text = text_of(delta, "thinking")
                return [self.draft.thinking(text)] if text else []
            case "signature_delta":
                signature = text_of(delta, "signature")
                return [self.draft.thinking("", signature)] if signature else []
            case _:
                self.ignored_events += 1  # citations, and what will be invented
                return []

    def _stop(self, event: dict[str, Any]) -> list[Chunk]:
        block = self._block_of(event)
        del self._blocks[event["index"]]
        if block.call_index is not None:
            whole = block.payload.get("input")  # some compatible servers send the input with the start
            return [self.draft.arguments(block.call_index, encode_json(whole).decode())] if whole else []
        if text_of(block.payload, "type") not in {"text", "thinking"}:
            payload = block.payload
            self.draft.opaque(
                {**payload, "input": decode_json("".join(block.pieces))} if block.pieces else payload
            )
        return []

    def _block_of(self, event: dict[str, Any]) -> _Block:
        index = event.get("index")
        block = self._blocks.get(index) if isinstance(index, int) else None
        if block is None:
            kind = event.get("type")
            message = f"the provider sent {kind} for block {shown(repr(index))}, which is not open"
            raise ProtocolError(message)
        return block

    def _whole(self, event: dict[str, Any]) -> list[Chunk]:
        """Take a whole message where a stream was asked for: the same events, made from it."""
        chunks = self._take_usage(event.get("usage"))
        for index, payload in enumerate(pieces_in(event.get("content"))):
            chunks += self._start({"index": index, "content_block": payload})
            chunks += self._stop({"index": index})
        reason = event.get("stop_reason")
        self._stop_reason = reason if isinstance(reason, str) else None
        return [*chunks, self._completed()]

    # --- the end

    def _take_usage(self, usage: object) -> list[Chunk]:
        """Take the totals that are named; one that is not named keeps its earlier value."""
        if not isinstance(usage, dict):
            return []
        for name in _COUNTS:
            count = self.draft.count(name, usage.get(name))
            if count is not None:
                self._counts[name] = count
        details = usage.get("output_tokens_details")
        if isinstance(details, dict):
            thought = self.draft.count("thinking_tokens", details.get("thinking_tokens"))
            self._reasoning = thought or self._reasoning
        return [UsageUpdate(self._usage())]

    def _usage(self) -> TokenUsage:
        counts = self._counts
        if self.draft.strange_counts or not counts:
            return self.draft.estimate(self._request_bytes)
        cache_read = counts.get("cache_read_input_tokens", 0)
        cache_write = counts.get("cache_creation_input_tokens", 0)
        return TokenUsage(
            input=counts.get("input_tokens", 0) + cache_read + cache_write,
            output=counts.get("output_tokens", 0),
            cache_read=cache_read,
            cache_write=cache_write,
            reasoning=self._reasoning,
            cost_usd=None,
        )

    def _completed(self) -> Completed:
        if self._blocks:
            message = f"the provider ended the answer with {len(self._blocks)} content blocks open"
            raise ProtocolError(message)
        self._is_finished = True
        reason: StopReason = _STOP_REASONS.get(self._stop_reason or "", "other")
        return self.draft.completed(reason, self._usage())
