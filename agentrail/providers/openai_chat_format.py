"""The wire format of OpenAI Chat Completions: requests (`ChatFormat`) and streams (`ChatStream`). Pure."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from agentrail.core.protocol.request import Chunk, Completed, ModelRequest, UsageUpdate
from agentrail.core.values.toolbox import Toolbox, parse_arguments
from agentrail.errors import OptionError
from agentrail.messages import (
    AssistantMessage,
    Image,
    Message,
    StopReason,
    Text,
    Thinking,
    TokenUsage,
    ToolCall,
    ToolMessage,
    UserMessage,
    encoded,
)
from agentrail.providers.failures import cut_short
from agentrail.providers.json_text import JsonEnd, decode_object, encode_json
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
    openai_endpoint,
    options_for,
    output_bound,
    refuse_settings,
    role_of,
    sampling,
    sayable,
    spoken,
    wire_arguments,
    wire_id,
    wire_name,
    wire_tool,
)

# Thinking between tags at the beginning of a text.
#
# Servers that do not know their model's thinking format send it as text between `<think>` and `</think>`. Only tags at
# the beginning count: later, a model may write about them. Tags arrive in pieces, so a possible tag is held back until
# it is complete or ruled out.

_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"


class ThinkTags:
    """Separates thinking from text, piece by piece. Returns pairs of a text and whether it is thinking."""

    def __init__(self) -> None:
        self._held = ""
        self._blanks: list[str] = []  # before the held text: examined once
        self._is_inside = False
        self._has_thought = False
        self._is_behind = False  # after the closing tag, where blank lines belong to the tag
        self.is_over: bool = False
        """Whether everything that follows is text, so that this class is not needed any more."""

    def feed(self, piece: str) -> list[tuple[str, bool]]:
        if self.is_over:
            return [(piece, False)] if piece else []
        said: list[tuple[str, bool]] = []
        self._held += piece
        if not (self._is_inside or self._is_behind):
            self._look_for_open(said)
        if self._is_inside:
            self._look_for_close(said)
        if self._is_behind:
            self._held = self._held.lstrip()
            if self._held:
                said.append((self._held, False))
                self._end()
        return said

    def flush(self) -> list[tuple[str, bool]]:
        held, is_inside, is_behind = "".join((*self._blanks, self._held)), self._is_inside, self._is_behind
        self._end()
        return [(held, is_inside)] if held and not is_behind else []

    def _look_for_open(self, said: list[tuple[str, bool]]) -> None:
        begin = self._held.lstrip()
        if begin.startswith(_OPEN):
            self._is_inside = True
            self._blanks = []
            self._held = begin[len(_OPEN) :]
        elif not _OPEN.startswith(begin):
            said.append(("".join((*self._blanks, self._held)), False))
            self._end()
        elif len(begin) < len(self._held):
            self._blanks.append(self._held[: len(self._held) - len(begin)])
            self._held = begin

    def _look_for_close(self, said: list[tuple[str, bool]]) -> None:
        if not self._has_thought:  # the line break after the tag belongs to it
            self._held = self._held.lstrip("\n")
        thought, tag, rest = self._held.partition(_CLOSE)
        if tag:
            self._is_inside, self._is_behind = False, True
            self._held = rest
        else:
            thought, self._held = _split_at_beginning(thought)
        if thought:
            self._has_thought = True
            said.append((thought, True))

    def _end(self) -> None:
        self._held, self._blanks = "", []
        self._is_inside = self._is_behind = False
        self.is_over = True


def _split_at_beginning(text: str) -> tuple[str, str]:
    for length in range(min(len(_CLOSE) - 1, len(text)), 0, -1):
        if _CLOSE.startswith(text[-length:]):
            return text[:-length], text[-length:]
    return text, ""


# The stream, event by event.
#
# Many servers use this format with deviations. Each tolerance is noted at its place in the code, and has a transcript
# in `tests/wire/openai_chat`.

_STOP_REASONS: Final[Mapping[str, StopReason]] = MappingProxyType(
    {
        "stop": "end",
        "tool_calls": "tool_use",
        "function_call": "tool_use",
        "length": "max_tokens",
        "content_filter": "refused",
    }
)


class _Slot:
    __slots__ = ("arguments", "index", "is_malformed", "name", "wire_id")

    def __init__(self) -> None:
        self.index: int | None = None  # in the draft, once started
        self.name = ""
        self.wire_id = ""
        self.arguments = JsonEnd()
        self.is_malformed = False  # its arguments have ended, and no further text makes them JSON


class ChatStream(VendorReader):
    provider = "openai-chat"

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._slots: dict[object, _Slot] = {}  # by the index on the wire
        self._slot: _Slot | None = None  # the last one that grew
        self._waiting: _Slot | None = None  # the last to begin: all earlier ones are started
        self._tags = ThinkTags()
        self._finish_reason: str | None = None
        self._was_refused = False
        self._usage: TokenUsage | None = None

    def feed(self, data: str) -> list[Chunk]:
        if self._is_finished:
            return self.ignore()
        if data.startswith("[DONE]"):
            return [*self._start_waiting(), self._completed()]
        event = decode_object(data)
        if event.get("error") or event.get("object") == "error":
            self.check(event)
        chunks: list[Chunk] = []
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if isinstance(choice, dict):
            # `message` is a whole completion instead of a stream.
            delta = choice.get("delta") or choice.get("message")
            if isinstance(delta, dict):
                self._delta(delta, chunks)
            reason = choice.get("finish_reason")
            if isinstance(reason, str) and reason:
                self._finish_reason = reason
                chunks += self._start_waiting()
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._take_usage(usage, chunks)
        elif choice is None:
            self.ignore()  # an empty list of choices is some server's heartbeat
        return chunks

    def close(self) -> list[Chunk]:
        """Handle the end of the stream. Several servers omit `[DONE]`; all send the finish reason."""
        if self._is_finished:
            return []
        if self._finish_reason is None:
            raise cut_short(self._vendor)
        return [*self._start_waiting(), self._completed()]

    def _delta(self, delta: dict[str, Any], chunks: list[Chunk]) -> None:
        content = delta.get("content")
        if content and isinstance(content, str):  # first, because nearly every delta is text
            if self._tags.is_over:  # the usual case
                chunks.append(self.draft.text(content))
            else:
                chunks += self._said(content)
            if len(delta) == 1:
                return
        elif isinstance(content, list):  # parts, as in a request
            texts = [text_of(part, "text") for part in pieces_in(content) if isinstance(part, dict)]
            chunks += [chunk for text in texts if text for chunk in self._said(text)]
        thoughts = delta.get("reasoning_content") or delta.get("reasoning")
        if thoughts and isinstance(thoughts, str):
            chunks.append(self.draft.thinking(thoughts))
        refusal = text_of(delta, "refusal")
        if refusal:
            self._was_refused = True
            chunks.append(self.draft.text(refusal))
        for part in pieces_in(delta.get("tool_calls")):
            if isinstance(part, dict):
                self._call_part(part, chunks)

    def _said(self, text: str) -> list[Chunk]:
        return self._untagged(self._tags.feed(text))

    def _untagged(self, pieces: list[tuple[str, bool]]) -> list[Chunk]:
        say, think = self.draft.text, self.draft.thinking
        return [think(piece) if is_thinking else say(piece) for piece, is_thinking in pieces]

    # --- calls

    def _call_part(self, part: dict[str, Any], chunks: list[Chunk]) -> None:
        function = object_of(part, "function")
        wire_id = text_of(part, "id")  # numbers are not ids: one is generated
        name = text_of(function, "name")
        arguments = function.get("arguments")
        slot = self._slot_for(part.get("index"), wire_id, name, chunks)
        if slot.index is None:
            slot.wire_id = slot.wire_id or wire_id
            if name and name != slot.name:  # some repeat it, others send it in pieces
                slot.name += name
        if arguments in (None, "", {}):
            return
        if not isinstance(arguments, str):  # an object instead of its text
            arguments = encode_json(arguments).decode()
        index = self._start(slot, chunks)
        chunks.append(self.draft.arguments(index, arguments))

    def _slot_for(self, index: object, wire_id: str, name: str, chunks: list[Chunk]) -> _Slot:
        """Return the call of a part: by index, unless id or name show that another call begins."""
        key = index if isinstance(index, int) else None
        slot = self._slots.get(key) if key is not None else self._slot
        if slot is None or self._begins_anew(slot, wire_id, name):
            chunks += self._start_waiting()
            slot = self._slots[key] = self._waiting = _Slot()
        self._slot = slot
        return slot

    def _begins_anew(self, slot: _Slot, wire_id: str, name: str) -> bool:
        if wire_id and slot.wire_id:
            return wire_id != slot.wire_id  # some servers use index 0 for every parallel call
        # Without ids, another name after complete arguments starts the next call.
        if not name or slot.index is None or slot.is_malformed:
            return False
        pieces = self.draft.argument_pieces(slot.index)
        slot.arguments.read_on(pieces)
        if not slot.arguments.is_reached:
            return False
        slot.is_malformed = isinstance(parse_arguments("".join(pieces)), str)
        return not slot.is_malformed

    def _start(self, slot: _Slot, chunks: list[Chunk]) -> int:
        if slot.index is None:
            started = self.draft.start_call(slot.wire_id, slot.name)
            slot.index = started.index
            chunks.append(started)
        return slot.index

    def _start_waiting(self) -> list[Chunk]:
        """Return the held parts: text that could have become a tag, and calls whose name could have grown."""
        chunks: list[Chunk] = self._untagged(self._tags.flush())
        if self._waiting is not None:
            self._start(self._waiting, chunks)
            self._waiting = None
        return chunks

    # --- the end

    def _take_usage(self, usage: dict[str, Any], chunks: list[Chunk]) -> None:
        taken = usage_in(self.draft, usage, "prompt_tokens", "completion_tokens") or self.draft.estimate(
            self._request_bytes
        )
        if taken != self._usage:  # some servers repeat it with every chunk
            self._usage = taken
            chunks.append(UsageUpdate(taken))

    def _completed(self) -> Completed:
        self._is_finished = True
        usage = self._usage or self.draft.estimate(self._request_bytes)
        return self.draft.completed(self._stop_reason(), usage)

    def _stop_reason(self) -> StopReason:
        if self._was_refused:
            return "refused"
        # Some proxies end a stream with `[DONE]` but no reason: it is complete, for an unknown reason.
        reason = _STOP_REASONS.get(self._finish_reason or "", "other")
        if reason in {"end", "other"} and self.draft.has_calls:
            return "tool_use"
        if reason == "tool_use" and not self.draft.has_calls:
            return "end"
        return reason


# Requests.
#

NAME: Final = "openai-chat"
_WORDS_ONLY: Final = (
    "provider option 'reasoning': openai-chat takes off, low, medium or high, not a number of tokens"
)
_PARAGRAPH: Final = encode_json("\n\n")[1:-1]


class ChatFormat:
    name = NAME
    make_reader: MakeReader = ChatStream

    def __init__(self, options: ProviderOptions) -> None:
        if isinstance(options.reasoning, int):
            raise OptionError([_WORDS_ONLY])
        self.options = options
        self.endpoint: Endpoint = openai_endpoint(NAME, options)
        self._is_vendor = not self.endpoint.vendor.is_compatible
        # Plain-text reasoning is an extension of compatible servers, which want it back. OpenAI itself refuses it.
        self._wire = NAME if self._is_vendor else f"{NAME}+reasoning"
        self._grouping = Grouping(role_of)
        self.encodings: int = 0

    def url_of(self, model_name: str) -> str:
        return f"{self.endpoint.url}/chat/completions"

    def encode(self, request: ModelRequest) -> bytes:
        """Encode the body of a request, joining cached parts. Only new messages are encoded."""
        options = options_for(request, self.options)
        refuse_settings(_WORDS_ONLY if isinstance(options.reasoning, int) else None)
        members: dict[str, bytes | list[bytes]] = {
            "model": encode_json(request.model_name),
            "messages": self._messages(request),
            "stream": b"true",
            "stream_options": b'{"include_usage":true}',
        }
        if len(request.tools):
            members["tools"] = request.tools.encoded(NAME, _tools)
            members["tool_choice"] = _tool_choice(chosen_tool(request, options))
        bound = output_bound(request, options)
        if bound is not None:
            members["max_completion_tokens" if self._is_vendor else "max_tokens"] = encode_json(bound)
        if options.reasoning is not None:
            members["reasoning_effort"] = encode_json(
                "none" if options.reasoning == "off" else options.reasoning
            )
        members |= sampling(options)
        if options.stop:
            members["stop"] = encode_json(options.stop)
        if request.response_format is not None:
            schema = {"name": "answer", "schema": request.response_format}
            members["response_format"] = encode_json({"type": "json_schema", "json_schema": schema})
        return joined_object(members, options.extra_body)

    def _messages(self, request: ModelRequest) -> list[bytes]:
        said = self._grouping.pieces_of(request.messages, says=self._unit, wrap=self._wrap)
        if not request.system:
            return said
        begin, *items, end = said
        system = b'{"role":"system","content":%b}' % encode_json(request.system)
        return [begin, system, *([b","] if items else []), *items, end]

    def _unit(self, message: Message) -> bytes:
        """Return the cached form of a message: the inner content of a user message, or the whole of any other."""
        if not isinstance(message, UserMessage):
            return encoded(message, self._wire, self._encode)
        # Plain text is sent as a string, not as a list of one part: some servers accept nothing else.
        if self._shows(message):
            return encoded(message, f"{NAME}:parts", self._encode_parts)
        return encoded(message, f"{NAME}:text", self._encode_text)

    def _wrap(self, group: Sequence[Placed]) -> Sequence[bytes]:
        messages = [message for _, message in group]
        first = messages[0]
        if isinstance(first, UserMessage):
            if not any(map(self._shows, messages)):
                texts = map(self._unit, messages)
                return [b'{"role":"user","content":"', *between(_PARAGRAPH, texts), b'"}']
            parts = (encoded(message, f"{NAME}:parts", self._encode_parts) for message in messages)
            return [b'{"role":"user","content":[', *between(b",", parts), b"]}"]
        if isinstance(first, AssistantMessage) and len(messages) > 1:
            # Rare, so encoded each time: one message with the content of all. Its pieces are not worth a cache.
            answers = [message for message in messages if isinstance(message, AssistantMessage)]
            blocks = tuple([block for answer in answers for block in answer.content])
            return [self._encode(AssistantMessage(content=blocks, model=first.model))]
        return [self._unit(first)]

    def _shows(self, message: Message) -> bool:
        return isinstance(message, UserMessage) and any(
            isinstance(block, Image) for block in sayable(message, self.options)
        )

    def _encode(self, message: Message) -> bytes:
        self.encodings += 1
        if isinstance(message, AssistantMessage):
            return _assistant(message, with_reasoning=not self._is_vendor)
        # Text only: results with images are refused here, or the images are ignored.
        results = message.results if isinstance(message, ToolMessage) else ()
        said = [
            {"role": "tool", "tool_call_id": wire_id(one.call_id), "content": one.words} for one in results
        ]
        return b",".join(map(encode_json, said))

    def _encode_text(self, message: Message) -> bytes:
        self.encodings += 1
        blocks = message.content if isinstance(message, UserMessage) else ()
        texts = (spoken(block) for block in blocks)
        return encode_json("\n\n".join(text for text in texts if text.strip()))[1:-1]

    def _encode_parts(self, message: Message) -> bytes:
        self.encodings += 1
        parts: list[object] = []
        for block in message.content if isinstance(message, UserMessage) else ():
            text = spoken(block)
            if isinstance(block, Image):
                url = f"data:{block.media_type};base64,{block.data}"
                parts.append({"type": "image_url", "image_url": {"url": url}})
            elif text.strip():
                parts.append({"type": "text", "text": text})
        return encode_json(parts)[1:-1]


def _assistant(message: AssistantMessage, *, with_reasoning: bool) -> bytes:
    text = "".join(block.text for block in message.content if isinstance(block, Text))
    calls = [_call(call) for call in message.calls]
    if not calls and not text.strip():
        return b""
    body: dict[str, object] = {"role": "assistant", "content": text or None}
    if calls:
        body["tool_calls"] = calls
        # Reasoning goes back only inside a tool loop: after a plain answer, some servers refuse it.
        thoughts = "".join(
            block.text for block in message.content if isinstance(block, Thinking) and block.provider == NAME
        )
        if with_reasoning and thoughts:
            body["reasoning_content"] = thoughts
    return encode_json(body)


def _call(call: ToolCall) -> dict[str, object]:
    arguments = encode_json(wire_arguments(call)).decode()
    return {
        "id": wire_id(call.call_id),
        "type": "function",
        "function": {"name": wire_name(call.name), "arguments": arguments},
    }


def _tools(tools: Toolbox) -> bytes:
    return encode_json([{"type": "function", "function": wire_tool(spec)} for spec in tools])


def _tool_choice(choice: str) -> bytes:
    if choice in {"auto", "none", "required"}:
        return encode_json(choice)
    return encode_json({"type": "function", "function": {"name": choice}})
