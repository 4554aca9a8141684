"""OpenAI Chat Completions, of OpenAI or of any server that speaks it, the way out: `ChatFormat`.

The reader of its stream is in `openai_chat_stream.py`.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from agentrail.core.protocol.request import ModelRequest
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import OptionError
from agentrail.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
    encoded,
)
from agentrail.providers.failures import Vendor
from agentrail.providers.grouping import Grouping, Placed, between
from agentrail.providers.json_text import encode_json
from agentrail.providers.openai_chat_stream import ChatStream
from agentrail.providers.options import ProviderOptions
from agentrail.providers.wire import (
    chosen_tool,
    joined_object,
    options_for,
    output_bound,
    refuse_settings,
    sampling,
    sayable,
    spoken,
    wire_arguments,
    wire_id,
    wire_name,
)
from agentrail.providers.wire_format import Endpoint, MakeReader

NAME: Final = "openai-chat"
_VENDOR_URL: Final = "https://api.openai.com/v1"
_KEY_HELP: Final = "set OPENAI_API_KEY or the option 'api_key', or try demo: which needs none"
_WORDS_ONLY: Final = (
    "provider option 'reasoning': openai-chat takes off, low, medium or high, not a number of tokens"
)
_PARAGRAPH: Final = encode_json("\n\n")[1:-1]


class ChatFormat:
    """The wire format of the provider `openai-chat`."""

    name = NAME
    make_reader: MakeReader = ChatStream

    def __init__(self, options: ProviderOptions) -> None:
        """Take the options.

        Raises:
            OptionError: Your move: a budget in tokens, which this format cannot say.
        """
        if isinstance(options.reasoning, int):
            raise OptionError([_WORDS_ONLY])
        self.options = options
        base_url = options.base_url or _VENDOR_URL
        self._is_vendor = urlsplit(base_url).hostname == "api.openai.com"
        # Reasoning in the open is an invention of compatible servers. Those that write it want it back; OpenAI itself
        # refuses a message with such a member.
        self._wire = NAME if self._is_vendor else f"{NAME}+reasoning"
        self.endpoint: Endpoint = Endpoint(
            base_url=base_url,
            url=base_url,
            vendor=Vendor(
                name=NAME, key_help=_KEY_HELP, base_url=base_url, is_compatible=not self._is_vendor
            ),
            key_missing=f"openai-chat needs a key for {base_url}: {_KEY_HELP}" if self._is_vendor else None,
        )
        self._grouping = Grouping(_role_of)
        self.encodings: int = 0

    def url_of(self, model_name: str) -> str:
        """Give the address of a request; the model stands in the body."""
        return f"{self.endpoint.url}/chat/completions"

    def encode(self, request: ModelRequest) -> bytes:
        """Make the body of a request: a join of parts, of which only those of new messages are encoded now."""
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
        """Join all messages behind the system prompt; neighbours of one role become one message."""
        said = self._grouping.pieces_of(request.messages, says=self._unit, wrap=self._wrap)
        if not request.system:
            return said
        begin, *items, end = said
        system = b'{"role":"system","content":%b}' % encode_json(request.system)
        return [begin, system, *([b","] if items else []), *items, end]

    def _unit(self, message: Message) -> bytes:
        """Return what is kept of a message: of a user's the inside of its content, of others the whole."""
        if not isinstance(message, UserMessage):
            return encoded(message, self._wire, self._encode)
        # A plain text goes as a text, not as a list of one part: some servers know nothing else.
        if self._shows(message):
            return encoded(message, f"{NAME}:parts", self._encode_parts)
        return encoded(message, f"{NAME}:text", self._encode_text)

    def _wrap(self, group: Sequence[Placed]) -> Sequence[bytes]:
        """Make one message of neighbours of one role."""
        messages = [message for _, message in group]
        first = messages[0]
        if isinstance(first, UserMessage):
            if not any(map(self._shows, messages)):
                texts = map(self._unit, messages)
                return [b'{"role":"user","content":"', *between(_PARAGRAPH, texts), b'"}']
            parts = (encoded(message, f"{NAME}:parts", self._encode_parts) for message in messages)
            return [b'{"role":"user","content":[', *between(b",", parts), b"]}"]
        if isinstance(first, AssistantMessage) and len(messages) > 1:
            # Rare, so encoded anew: one message with the content of all. Its pieces are not worth caches of their own.
            blocks = [
                block
                for message in messages
                if isinstance(message, AssistantMessage)
                for block in message.content
            ]
            return [self._encode(AssistantMessage(content=tuple(blocks), model=first.model))]
        return [self._unit(first)]

    def _shows(self, message: Message) -> bool:
        return isinstance(message, UserMessage) and any(
            isinstance(block, Image) for block in sayable(message, self.options)
        )

    def _encode(self, message: Message) -> bytes:
        self.encodings += 1
        if isinstance(message, ToolMessage):
            # Words alone: a result takes no pictures here, and where it is not refused they are not seen.
            return b",".join(
                encode_json(
                    {"role": "tool", "tool_call_id": wire_id(result.call_id), "content": result.words}
                )
                for result in message.results
            )
        return (
            _assistant(message, with_reasoning=not self._is_vendor)
            if isinstance(message, AssistantMessage)
            else b""
        )

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
                parts.append(
                    {
                        "type": "image_url",
                        "image_url": {"url": f"data:{block.media_type};base64,{block.data}"},
                    }
                )
            elif text.strip():
                parts.append({"type": "text", "text": text})
        return encode_json(parts)[1:-1]


def _role_of(message: Message) -> str | None:
    if isinstance(message, ToolMessage):
        return None
    return "user" if isinstance(message, UserMessage) else "assistant"


def _assistant(message: AssistantMessage, *, with_reasoning: bool) -> bytes:
    """Encode one message, or nothing when nothing of it can be said here."""
    text = "".join(block.text for block in message.content if isinstance(block, Text))
    calls = [_call(call) for call in message.calls]
    if not calls and not text.strip():
        return b""
    body: dict[str, object] = {"role": "assistant", "content": text or None}
    if calls:
        body["tool_calls"] = calls
        # Reasoning goes back inside a tool loop only: behind a plain answer some servers refuse it.
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
    return encode_json(
        [
            {
                "type": "function",
                "function": {
                    "name": spec.name,
                    "description": spec.description,
                    "parameters": spec.parameters,
                },
            }
            for spec in tools
        ]
    )


def _tool_choice(choice: str) -> bytes:
    if choice in {"auto", "none", "required"}:
        return encode_json(choice)
    return encode_json({"type": "function", "function": {"name": choice}})
