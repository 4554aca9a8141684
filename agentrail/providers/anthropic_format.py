"""The wire format of Anthropic Messages: requests (`MessagesFormat`) and streams (`MessagesStream`). Pure."""

import re
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Any, Final

from agentrail.core.protocol.request import Chunk, Completed, ModelRequest, UsageUpdate
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import ProtocolError
from agentrail.messages import (
    AssistantMessage,
    Image,
    Message,
    Opaque,
    StopReason,
    Text,
    Thinking,
    TokenUsage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserBlock,
    UserMessage,
    encoded,
)
from agentrail.providers.failures import Vendor
from agentrail.providers.json_text import decode_json, decode_object, encode_json, shown
from agentrail.providers.options import ProviderOptions
from agentrail.providers.response_builder import object_of, pieces_in, text_of
from agentrail.providers.wire_format import (
    Endpoint,
    Grouping,
    MakeReader,
    Placed,
    VendorReader,
    between,
    chosen_tool,
    joined_object,
    memo_name,
    options_for,
    output_bound,
    sampling,
    sayable,
    shown_in,
    spoken,
    wire_arguments,
    wire_id,
    wire_name,
    wire_parameters,
)

# The stream, event by event.

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
    __slots__ = ("call_index", "payload", "pieces")

    def __init__(self, payload: dict[str, Any]) -> None:
        self.payload = payload
        self.pieces: list[str] = []  # of JSON
        self.call_index: int | None = None


class MessagesStream(VendorReader):
    provider = "anthropic"

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._blocks: dict[int, _Block] = {}
        self._counts: dict[str, int] = {}
        self._reasoning = 0
        self._stop_reason: str | None = None

    def feed(self, data: str) -> list[Chunk]:
        if self._is_finished:
            return self.ignore()
        event = decode_object(data)
        match event.get("type"):
            case "content_block_delta":
                return self._delta(event)
            case "content_block_start":
                return self._start(event)
            case "content_block_stop":
                return self._stop(event)
            case "message_start":
                return self._take_usage(object_of(event, "message").get("usage"))
            case "message_delta":
                self._stop_reason = text_of(object_of(event, "delta"), "stop_reason") or self._stop_reason
                return self._take_usage(event.get("usage"))
            case "message_stop":
                return [self._completed()]
            case "message":
                return self._whole(event)
            case "ping":
                return []
            case _:
                self.check(event)
                return self.ignore()

    # --- blocks

    def _start(self, event: dict[str, Any]) -> list[Chunk]:
        payload, index = event.get("content_block"), event.get("index")
        if not (isinstance(payload, dict) and isinstance(index, int)) or index in self._blocks:
            message = "the provider started a content block without an index of its own"
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
                return []  # redacted thinking, hosted tools: complete, or with input to follow

    def _delta(self, event: dict[str, Any]) -> list[Chunk]:
        block, delta = self._block_of(event), event.get("delta")
        if not isinstance(delta, dict):
            message = "the provider sent an empty delta"
            raise ProtocolError(message)
        match delta.get("type"):
            case "text_delta":
                text = text_of(delta, "text")
                return [self.draft.text(text)] if text else []
            case "input_json_delta":
                piece = text_of(delta, "partial_json")
                if not piece:
                    return []
                if block.call_index is None:  # of a hosted tool's call, which goes back unchanged
                    block.pieces.append(piece)
                    return []
                block.payload["input"] = None  # the start had a placeholder
                return [self.draft.arguments(block.call_index, piece)]
            case "thinking_delta":
                text = text_of(delta, "thinking")
                return [self.draft.thinking(text)] if text else []
            case "signature_delta":
                signature = text_of(delta, "signature")
                return [self.draft.thinking("", signature)] if signature else []
            case _:
                return self.ignore()  # citations, and future kinds

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
        chunks = self._take_usage(event.get("usage"))
        for index, payload in enumerate(pieces_in(event.get("content"))):
            chunks += self._start({"index": index, "content_block": payload})
            chunks += self._stop({"index": index})
        reason = event.get("stop_reason")
        self._stop_reason = reason if isinstance(reason, str) else None
        return [*chunks, self._completed()]

    # --- the end

    def _take_usage(self, usage: object) -> list[Chunk]:
        if not isinstance(usage, dict):
            return []
        self._counts |= self.draft.counts(usage, _COUNTS)
        thought = object_of(usage, "output_tokens_details").get("thinking_tokens")
        self._reasoning = self.draft.count("thinking_tokens", thought) or self._reasoning
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


# Requests.

NAME: Final = "anthropic"
_VENDOR_URL: Final = "https://api.anthropic.com"
_VERSION: Final = "2023-06-01"
_KEY_HELP: Final = "set ANTHROPIC_API_KEY or the option 'api_key', or try demo: which needs none"
_DEFAULT_MAX_TOKENS: Final = 16_384  # the format requires a number
_LEAST_THINKING_TOKENS: Final = 1_024  # a smaller budget is refused
_MAX_CACHE_POINTS: Final = 4  # a request with more is refused
_OPENINGS: Final = {role: b'{"role":"%b","content":[' % role.encode() for role in ("assistant", "user")}
_TOOL_CHOICES: Final = {"auto": "auto", "none": "none", "required": "any"}


_WITHOUT_SCHEMAS: Final = (
    *("claude-instant", "claude-2", "claude-3"),
    *("claude-sonnet-4-0", "claude-sonnet-4-2025", "claude-opus-4-0", "claude-opus-4-2025"),
)
"""Models older than `output_config.format`, which came with Opus 4.1 and Sonnet 4.5."""


_REFUSED_IN_SCHEMAS: Final = re.compile(
    r"(exclusive)?(min|max)imum|multipleOf|(min|max)(Length|Properties)|maxItems|uniqueItems|prefixItems|contains"
    r"|oneOf|not|if|patternProperties|propertyNames|dependent(Required|Schemas)",
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(rb'"#/\$defs/([^"/]*)')


def _takes_schema(part: Any) -> bool:
    """Return whether the API supports an answer schema: it refuses bounds, open objects and recursion.

    A property named like a bound counts as one. Such a schema becomes a tool, which supports every keyword.
    """
    if isinstance(part, list | tuple):
        return all(map(_takes_schema, part))
    if not isinstance(part, Mapping):
        return True
    named = part["$defs"].items() if isinstance(part.get("$defs"), Mapping) else ()
    try:
        TopologicalSorter(
            {name.encode(): _REFERENCE.findall(encode_json(one)) for name, one in named}
        ).prepare()
    except CycleError:
        return False
    is_open = "object" in str(part.get("type")) and part.get("additionalProperties") is not False
    is_bounded = part.get("minItems", 0) not in (0, 1) or any(map(_REFUSED_IN_SCHEMAS.fullmatch, part))
    return not (part.get("$ref") == "#" or is_open or is_bounded) and all(map(_takes_schema, part.values()))


class MessagesFormat:
    name = NAME
    make_reader: MakeReader = MessagesStream

    def __init__(self, options: ProviderOptions) -> None:
        self.options = options
        base_url = options.base_url or _VENDOR_URL
        # This vendor's base URL excludes the version, all others' include it, so users write both.
        url = f"{base_url}/messages" if base_url.endswith("/v1") else f"{base_url}/v1/messages"
        self.endpoint: Endpoint = Endpoint(
            base_url=base_url,
            url=url,
            vendor=Vendor(name=NAME, key_help=_KEY_HELP, base_url=base_url),
            key_header="x-api-key",
            key_prefix="",
            key_missing=f"anthropic needs a key: {_KEY_HELP}",
            headers={"anthropic-version": _VERSION},
            max_output_tokens=_DEFAULT_MAX_TOKENS,
            without_schemas=_WITHOUT_SCHEMAS,
            takes_schema=_takes_schema,
        )
        self._memo = memo_name(NAME, options)
        self._grouping = Grouping(_role_of)
        self.encodings: int = 0

    def url_of(self, model_name: str) -> str:
        return self.endpoint.url

    def encode(self, request: ModelRequest) -> bytes:
        """Encode the body of a request, joining cached parts. Only new messages are encoded."""
        options = options_for(request, self.options)
        max_tokens, thinking = _bounds(output_bound(request, options), options.reasoning)
        members: dict[str, bytes | list[bytes]] = {
            "model": encode_json(request.model_name),
            "max_tokens": encode_json(max_tokens),
            "stream": b"true",
            "messages": self._messages(request.messages, _marked(request)),
        }
        starts_cached = "system" in request.cache_points[:_MAX_CACHE_POINTS]
        if request.system:
            members["system"] = encode_json(request.system)
            if starts_cached:
                members["system"] = b"[%b]" % _cached(encode_json({"type": "text", "text": request.system}))
        if len(request.tools):
            tools = request.tools.encoded(NAME, _tools)
            # Tools come before the system prompt, so a cache mark on the prompt covers them.
            members["tools"] = b"%b]" % _cached(tools[:-1]) if starts_cached and not request.system else tools
            members["tool_choice"] = _tool_choice(chosen_tool(request, options))
        elif self._grouping.has_kind(ToolMessage):
            members["tools"], members["tool_choice"] = _stand_ins(request.messages), _tool_choice("none")
        if thinking is not None:
            members["thinking"] = encode_json(thinking)
        output_config: dict[str, object] = {}
        if isinstance(options.reasoning, str) and options.reasoning != "off":
            output_config["effort"] = options.reasoning
        if request.response_format is not None:
            output_config["format"] = {"type": "json_schema", "schema": request.response_format}
        if output_config:
            members["output_config"] = encode_json(output_config)
        members |= sampling(options)
        if options.stop:
            members["stop_sequences"] = encode_json(options.stop)
        return joined_object(members, options.extra_body)

    def _messages(self, messages: Sequence[Message], marked: frozenset[int]) -> list[bytes]:
        """Join the blocks of all messages. Consecutive messages of one role become one message, results before text."""

        def wrap(group: Sequence[Placed]) -> Sequence[bytes]:
            blocks = (
                _cached(self._blocks(message)) if place in marked else self._blocks(message)
                for place, message in group
            )
            return [_OPENINGS[_role_of(group[0][1])], *between(b",", blocks), b"]}"]

        steady = min(marked, default=None)
        return self._grouping.pieces_of(messages, says=self._blocks, wrap=wrap, steady=steady)

    def _blocks(self, message: Message) -> bytes:
        return encoded(message, self._memo, self._encode)

    def _encode(self, message: Message) -> bytes:
        self.encodings += 1
        blocks: list[object]
        match message:
            case UserMessage():
                blocks = [_user_block(block) for block in sayable(message, self.options)]
            case AssistantMessage():
                blocks = [*_assistant_blocks(message)]
            case ToolMessage():
                blocks = [_result(result, self.options) for result in message.results]
        return encode_json([block for block in blocks if block is not None])[1:-1]


def _role_of(message: Message) -> str:
    return "assistant" if isinstance(message, AssistantMessage) else "user"


def _marked(request: ModelRequest) -> frozenset[int]:
    """Return the positions of messages that end a cached prefix. Responses may end in thinking, which cannot be marked."""
    points = (point for point in request.cache_points[:_MAX_CACHE_POINTS] if isinstance(point, int))
    return frozenset(
        point
        for point in points
        if point < len(request.messages) and not isinstance(request.messages[point], AssistantMessage)
    )


def _cached(blocks: bytes) -> bytes:
    return blocks[:-1] + b',"cache_control":{"type":"ephemeral"}}'


def _bounds(bound: int | None, reasoning: str | int | None) -> tuple[int, dict[str, object] | None]:
    """Return `max_tokens` and the thinking setting. The thinking budget is part of `max_tokens` and stays below it."""
    max_tokens = bound or _DEFAULT_MAX_TOKENS
    match reasoning:
        case None:
            return max_tokens, None
        case str():
            return max_tokens, {"type": "disabled" if reasoning == "off" else "adaptive"}
        case _ if bound is not None and bound <= _LEAST_THINKING_TOKENS:
            return bound, {"type": "disabled"}
        case _:
            budget = max(reasoning, _LEAST_THINKING_TOKENS)
            max_tokens = bound or _DEFAULT_MAX_TOKENS + budget
            return max_tokens, {"type": "enabled", "budget_tokens": min(budget, max_tokens - 1)}


def _user_block(block: UserBlock) -> dict[str, object] | None:
    if isinstance(block, Image):
        return {
            "type": "image",
            "source": {"type": "base64", "media_type": block.media_type, "data": block.data},
        }
    text = spoken(block)
    return {"type": "text", "text": text} if text.strip() else None


def _assistant_blocks(message: AssistantMessage) -> Sequence[Mapping[str, object]]:
    """Return the blocks of a response: thinking and text, then the calls, because their results follow directly."""
    blocks: list[Mapping[str, object]] = []
    calls: list[Mapping[str, object]] = []
    for block in message.content:
        match block:
            case Text(text=text) if text.strip():
                blocks.append({"type": "text", "text": text})
            case Thinking(provider="anthropic", signature=str(signature)):
                # An unsigned block was cut, and would be refused.
                blocks.append({"type": "thinking", "thinking": block.text, "signature": signature})
            case Opaque(provider="anthropic", payload=payload):
                blocks.append(payload)
            case ToolCall():
                call = {
                    "id": wire_id(block.call_id),
                    "name": wire_name(block.name),
                    "input": wire_arguments(block),
                }
                calls.append({"type": "tool_use", **call})
            case Text() | Thinking() | Opaque():
                pass  # empty, cut, or another vendor's
    blocks += calls
    said = any(one.get("type") not in {"thinking", "redacted_thinking"} for one in blocks)
    return blocks if said else []  # a message that ends in thinking is refused


def _result(result: ToolResult, options: ProviderOptions) -> dict[str, object]:
    content: object = result.words
    if shown_in(result, options):
        words = _user_block(Text(text=result.text))
        content = [*([] if words is None else [words]), *map(_user_block, result.images)]
    block: dict[str, object] = {
        "type": "tool_result",
        "tool_use_id": wire_id(result.call_id),
        "content": content,
    }
    if result.is_error:
        block["is_error"] = True
    return block


def _tools(tools: Toolbox) -> bytes:
    return encode_json(
        [
            {
                "name": spec.name,
                "description": spec.description,
                "input_schema": wire_parameters(spec.parameters),
            }
            for spec in tools
        ]
    )


def _stand_ins(messages: Sequence[Message]) -> bytes:
    """Declare the tools of old calls if the session has no tools any more.

    The API refuses a conversation with calls but without a list of tools. The choice `none` keeps the model from calling
    them.
    """
    called = (call for message in messages if isinstance(message, AssistantMessage) for call in message.calls)
    names = {wire_name(call.name) for call in called}
    return encode_json(
        [
            {"name": name, "description": "No longer available.", "input_schema": {"type": "object"}}
            for name in sorted(names)
        ]
    )


def _tool_choice(choice: str) -> bytes:
    kind = _TOOL_CHOICES.get(choice)
    return encode_json({"type": kind} if kind is not None else {"type": "tool", "name": choice})
