"""The wire format of OpenAI Responses: requests (`ResponsesFormat`) and streams (`ResponsesStream`). Pure."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from agentrail.core.protocol.request import Chunk, Completed, ModelRequest, UsageUpdate
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import OptionError, ProtocolError
from agentrail.errors.advice import Advice, advise
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
from agentrail.providers.failures import reported_failure
from agentrail.providers.json_text import decode_object, encode_json
from agentrail.providers.options import ProviderOptions
from agentrail.providers.response_builder import object_of, pieces_in, text_of, usage_in
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
    openai_endpoint,
    options_for,
    output_bound,
    refuse_settings,
    role_of,
    sampling,
    sayable,
    shown_in,
    spoken,
    wire_arguments,
    wire_id,
    wire_name,
    wire_tool,
)

# The stream, event by event.
#
# The format repeats everything up to four times: in deltas, in the `done` of a part, in the `done` of its item, and in
# the final response. Each repetition is compared with the earlier ones. Servers that leave some out are understood, and
# so is a whole response instead of a stream. If two disagree, the later one wins.

_INCOMPLETE: Final[Mapping[str, StopReason]] = MappingProxyType(
    {"max_output_tokens": "max_tokens", "content_filter": "refused"}
)
# Member with the complete content in the `done` of a part.
_PART_DONE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "response.output_text.done": "text",
        "response.refusal.done": "refusal",
        "response.reasoning_summary_text.done": "text",
        "response.reasoning_text.done": "text",
    }
)
_ITEM_PARTS: Final[Mapping[str, str]] = MappingProxyType({"output_text": "text", "refusal": "refusal"})


class ResponsesStream(VendorReader):
    provider = "openai"

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        # Number of items announced per output index.
        self._announced: dict[int | str, int] = {}
        self._calls: dict[object, int] = {}  # by item: the call's index in the draft
        self._done: set[object] = set()  # complete items
        self._was_refused = False

    def feed(self, data: str) -> list[Chunk]:
        if self._is_finished or data.startswith("[DONE]"):  # of another format, added by proxies
            return self.ignore()
        event = decode_object(data)
        kind = event.get("type")
        match kind:
            case "response.output_text.delta":
                return self._text(text_of(event, "delta"), self._part(kind, event))
            case "response.function_call_arguments.delta":
                return self._arguments(event)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._thinking(text_of(event, "delta"), self._part(kind, event))
            case "response.refusal.delta":
                self._was_refused = True
                return self._text(text_of(event, "delta"), self._part(kind, event))
            case str() if kind in _PART_DONE:
                whole, part = text_of(event, _PART_DONE[kind]), self._part(kind, event)
                if kind.startswith("response.reasoning"):
                    return self._whole_thinking(whole, part)
                self._was_refused = self._was_refused or kind == "response.refusal.done"
                return self._whole_text(whole, part)
            case "response.function_call_arguments.done":
                return self._arguments_done(self._item(event), event.get("arguments"))
            case "response.output_item.added":
                return self._item_added(event, object_of(event, "item"))
            case "response.output_item.done":
                return self._item_done(self._item(event), object_of(event, "item"))
            case "response.completed" | "response.incomplete" | "response.failed":
                return self._terminal(object_of(event, "response"), kind.partition(".")[2])
            case _ if event.get("object") == "response":  # a whole response instead of a stream
                return self._terminal(event, "other")
            case _:
                return self._unknown(event)

    # --- items and their parts

    def _item(self, event: dict[str, Any]) -> tuple[int | str, int]:
        """Return the item of an event: by its output index, or by its id if a server omits the index."""
        place = event.get("output_index")
        if not isinstance(place, int):
            place = text_of(event, "item_id") or text_of(object_of(event, "item"), "id") or 0
        # The id comes second, because some proxies change an item's id with each event.
        return (place, self._announced.setdefault(place, 0))

    def _part(self, kind: str, event: dict[str, Any]) -> object:
        # By kind, not by the index that is present: some servers omit an index of 0.
        member = "summary" if kind.startswith("response.reasoning_summary") else "content"
        number = event.get(f"{member}_index")
        return (self._item(event), member, number if isinstance(number, int) else 0)

    # --- parts of items

    def _text(self, piece: str, part: object) -> list[Chunk]:
        return [self.draft.text(piece, part)] if piece else []

    def _thinking(self, piece: str, part: object) -> list[Chunk]:
        return [self.draft.thinking(piece, key=part)] if piece else []

    def _whole_text(self, whole: str, part: object) -> list[Chunk]:
        # A `done` without text has no content, and so removes nothing.
        return self._text(self.draft.missing(part, whole), part) if whole else []

    def _whole_thinking(self, whole: str, part: object) -> list[Chunk]:
        return self._thinking(self.draft.missing(part, whole), part) if whole else []

    def _arguments(self, event: dict[str, Any]) -> list[Chunk]:
        index, piece = self._calls.get(self._item(event)), text_of(event, "delta")
        if index is None:  # the item was not announced: its `done` has the content and the name
            return self.ignore()
        return [self.draft.arguments(index, piece)] if piece else []

    def _arguments_done(self, key: object, whole: object) -> list[Chunk]:
        index = self._calls.get(key)
        if index is None or whole in (None, "", {}):
            return []
        if not isinstance(whole, str):  # an object instead of its text
            whole = encode_json(whole).decode()
        missing = self.draft.missing_arguments(index, whole)
        return [self.draft.arguments(index, missing)] if missing else []

    # --- items

    def _item_added(self, event: dict[str, Any], item: dict[str, Any]) -> list[Chunk]:
        place, earlier = self._item(event)
        self._announced[place] = earlier + 1  # some servers use index 0 for every item: each starts a new one
        return self._start_call((place, earlier + 1), item) if item.get("type") == "function_call" else []

    def _start_call(self, key: object, item: dict[str, Any]) -> list[Chunk]:
        started = self.draft.start_call(text_of(item, "call_id"), text_of(item, "name"))
        self._calls[key] = started.index
        return [started]

    def _item_done(self, key: object, item: dict[str, Any]) -> list[Chunk]:
        if key in self._done:
            return self.ignore()
        self._done.add(key)
        match item.get("type"):
            case "message":
                chunks: list[Chunk] = []
                for number, part in _parts_of(item, "content"):
                    kind = text_of(part, "type")
                    if kind in _ITEM_PARTS:
                        self._was_refused = self._was_refused or kind == "refusal"
                        chunks += self._whole_text(text_of(part, _ITEM_PARTS[kind]), (key, "content", number))
                return chunks
            case "function_call":
                chunks = [] if key in self._calls else self._start_call(key, item)
                return [*chunks, *self._arguments_done(key, item.get("arguments"))]
            case "reasoning":
                chunks = self._reasoning_done(key, item)
                self.draft.opaque(item)  # goes back unchanged; the thinking with it is for users
                return chunks
            case str():
                self.draft.opaque(item)  # a hosted tool's call, or a future kind
                return []
            case _:
                message = "the provider finished an item without a type"
                raise ProtocolError(message)

    def _reasoning_done(self, key: object, item: dict[str, Any]) -> list[Chunk]:
        return [
            chunk
            for member in ("summary", "content")
            for number, part in _parts_of(item, member)
            for chunk in self._whole_thinking(text_of(part, "text"), (key, member, number))
        ]

    # --- the end

    def _terminal(self, response: dict[str, Any], said: str) -> list[Chunk]:
        status = response.get("status") or said
        if status == "failed":
            raise reported_failure(object_of(response, "error"), self._vendor)
        chunks: list[Chunk] = []
        if not self._done:  # complete items count; here they would only be repeated
            for number, item in _parts_of(response, "output"):
                item_id = text_of(item, "id")
                place = item_id if item_id in self._announced else number
                chunks += self._item_done((place, self._announced.get(place, 0)), item)
        reported = response.get("usage")
        usage = self.draft.estimate(self._request_bytes)
        if isinstance(reported, dict):
            usage = usage_in(self.draft, reported, "input_tokens", "output_tokens") or usage
            chunks.append(UsageUpdate(usage))
        self._is_finished = True
        return [*chunks, self._completed(status, response, usage)]

    def _completed(self, status: object, response: dict[str, Any], usage: TokenUsage) -> Completed:
        reason: StopReason
        if self._was_refused:
            reason = "refused"
        elif status == "completed":
            reason = "tool_use" if self.draft.has_calls else "end"
        elif status == "incomplete":
            # Some servers omit the reason. The one reason that every server has is then assumed.
            details = object_of(response, "incomplete_details")
            reason = _INCOMPLETE.get(text_of(details, "reason") or "max_output_tokens", "other")
        else:
            reason = "other"
        return self.draft.completed(reason, usage)

    def _unknown(self, event: dict[str, Any]) -> list[Chunk]:
        kind = event.get("type")
        if kind == "error" and not isinstance(event.get("error"), dict):
            raise reported_failure(event, self._vendor)  # flat, with `code` and `message` in the event
        if kind == "error" or not isinstance(kind, str):  # as proxies write it
            self.check(event)
        return self.ignore()


def _parts_of(value: dict[str, Any], name: str) -> list[tuple[int, dict[str, Any]]]:
    return [
        (number, part) for number, part in enumerate(pieces_in(value.get(name))) if isinstance(part, dict)
    ]


# Requests.
#
# Our history is the state: nothing is stored with the vendor, and no request refers to an earlier response.

NAME: Final = "openai"
_WORDS_ONLY: Final = (
    "provider option 'reasoning': openai takes off, low, medium or high, not a number of tokens"
)
_NO_STOP: Final = "provider option 'stop': the Responses API does not support stop texts; use openai-chat:"


class ResponsesFormat:
    name = NAME
    make_reader: MakeReader = ResponsesStream

    def __init__(self, options: ProviderOptions) -> None:
        faults = [_WORDS_ONLY] if isinstance(options.reasoning, int) else []
        faults += [_NO_STOP] if options.stop else []
        OptionError.raise_for(faults)
        self.options = options
        self.endpoint: Endpoint = openai_endpoint(
            NAME, options, foreign_path_help=advise(Advice.NO_RESPONSES)
        )
        self._is_vendor = not self.endpoint.vendor.is_compatible
        # The vendor rejects reasoning that it cannot decrypt. Compatible servers write it in plain text, and want it
        # back.
        self._memo = memo_name(NAME if self._is_vendor else f"{NAME}+reasoning", options)
        self._grouping = Grouping(role_of)
        self.encodings: int = 0

    def url_of(self, model_name: str) -> str:
        return f"{self.endpoint.url}/responses"

    def encode(self, request: ModelRequest) -> bytes:
        """Encode the body of a request, joining cached parts. Only new messages are encoded."""
        options = options_for(request, self.options)
        refuse_settings(
            _WORDS_ONLY if isinstance(options.reasoning, int) else None, _NO_STOP if options.stop else None
        )
        members: dict[str, bytes | list[bytes]] = {
            "model": encode_json(request.model_name),
            "input": self._grouping.pieces_of(request.messages, says=self._unit, wrap=self._wrap),
            "stream": b"true",
            "store": b"false",
            "include": b'["reasoning.encrypted_content"]',
        }
        if request.system:
            members["instructions"] = encode_json(request.system)
        if len(request.tools):
            members["tools"] = request.tools.encoded(NAME, _tools)
            members["tool_choice"] = _tool_choice(chosen_tool(request, options))
        bound = output_bound(request, options)
        if bound is not None:
            members["max_output_tokens"] = encode_json(bound)
        if options.reasoning is not None:
            effort = "none" if options.reasoning == "off" else options.reasoning
            members["reasoning"] = encode_json({"effort": effort})
        members |= sampling(options)
        if request.response_format is not None:
            schema = {"type": "json_schema", "name": "answer", "schema": request.response_format}
            members["text"] = encode_json({"format": schema})
        return joined_object(members, options.extra_body)

    def _unit(self, message: Message) -> bytes:
        """Return the cached form of a message: the inner content of a user message, or the items of any other."""
        return encoded(message, self._memo, self._encode)

    def _wrap(self, group: Sequence[Placed]) -> Sequence[bytes]:
        if isinstance(group[0][1], UserMessage):
            contents = (self._unit(message) for _, message in group)
            return [b'{"role":"user","content":[', *between(b",", contents), b"]}"]
        answers = [message for _, message in group if isinstance(message, AssistantMessage)]
        if len(answers) <= 1:
            return [self._unit(group[0][1])]
        # Rare, so encoded each time: one message with the content of all. Its pieces are not worth a cache.
        blocks = tuple(block for message in answers for block in message.content)
        return [self._encode(AssistantMessage(content=blocks, model=answers[0].model))]

    def _encode(self, message: Message) -> bytes:
        self.encodings += 1
        items: list[object]
        match message:
            case UserMessage():
                items = [_user_part(block) for block in sayable(message, self.options)]
            case AssistantMessage():
                items = _assistant_items(message, with_open_reasoning=not self._is_vendor)
            case ToolMessage():
                items = [_result(result, self.options) for result in message.results]
        return encode_json([item for item in items if item is not None])[1:-1]


def _user_part(block: UserBlock) -> dict[str, object] | None:
    if isinstance(block, Image):
        url = f"data:{block.media_type};base64,{block.data}"
        return {"type": "input_image", "detail": "auto", "image_url": url}
    text = spoken(block)
    return {"type": "input_text", "text": text} if text.strip() else None


def _assistant_items(message: AssistantMessage, *, with_open_reasoning: bool) -> list[object]:
    """Return the items of a message in order: texts, calls, and opaque blocks."""
    items: list[object] = []
    said: list[str] = []
    end = 0  # after the last non-reasoning item: trailing reasoning is refused
    for block in (*message.content, None):
        if isinstance(block, Text):
            said.append(block.text)
            continue
        if isinstance(block, Thinking):
            continue  # for users; the part that goes back is in an opaque block
        text, said = "".join(said), []
        if text.strip():
            items.append({"role": "assistant", "content": text})
            end = len(items)
        match block:
            case ToolCall():
                items.append(_call(block))
                end = len(items)
            case Opaque(provider="openai", payload=payload):
                is_reasoning = payload.get("type") == "reasoning"
                if not is_reasoning or with_open_reasoning or payload.get("encrypted_content"):
                    items.append(payload)
                    end = end if is_reasoning else len(items)
            case Opaque() | None:
                pass  # another vendor's, or trailing
    return items[:end]


def _call(call: ToolCall) -> dict[str, object]:
    return {
        "type": "function_call",
        "call_id": wire_id(call.call_id),
        "name": wire_name(call.name),
        "arguments": encode_json(wire_arguments(call)).decode(),
    }


def _result(result: ToolResult, options: ProviderOptions) -> dict[str, object]:
    output: object = result.words
    if shown_in(result, options):
        words = _user_part(Text(text=result.text))
        output = [*([] if words is None else [words]), *map(_user_part, result.images)]
    return {"type": "function_call_output", "call_id": wire_id(result.call_id), "output": output}


def _tools(tools: Toolbox) -> bytes:
    # `strict` is true by default here, and most schemas do not follow that dialect.
    return encode_json([{"type": "function", **wire_tool(spec), "strict": False} for spec in tools])


def _tool_choice(choice: str) -> bytes:
    if choice in {"auto", "none", "required"}:
        return encode_json(choice)
    return encode_json({"type": "function", "name": choice})
