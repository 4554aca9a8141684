"""OpenAI Responses, the way out: `ResponsesFormat`. The reader of its stream is in `openai_responses_stream.py`.

Our history is the state: nothing is stored with the vendor, and no request refers to an earlier response.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from agentrail.core.protocol.request import ModelRequest
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import OptionError
from agentrail.errors.advice import Advice, advise
from agentrail.messages import (
    AssistantMessage,
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
    encoded,
)
from agentrail.providers.failures import Vendor
from agentrail.providers.grouping import Grouping, Placed, between
from agentrail.providers.json_text import encode_json
from agentrail.providers.openai_responses_stream import ResponsesStream
from agentrail.providers.options import ProviderOptions
from agentrail.providers.wire import (
    chosen_tool,
    joined_object,
    memo_name,
    options_for,
    output_bound,
    refuse_settings,
    sampling,
    sayable,
    shown_in,
    spoken,
    wire_arguments,
    wire_id,
    wire_name,
)
from agentrail.providers.wire_format import Endpoint, MakeReader

NAME: Final = "openai"
_VENDOR_URL: Final = "https://api.openai.com/v1"
_KEY_HELP: Final = "set OPENAI_API_KEY or the option 'api_key', or try demo: which needs none"
_WORDS_ONLY: Final = (
    "provider option 'reasoning': openai takes off, low, medium or high, not a number of tokens"
)
_NO_STOP: Final = "provider option 'stop': Responses know no texts that end the answer; openai-chat: does"


class ResponsesFormat:
    """The wire format of the provider `openai`."""

    name = NAME
    make_reader: MakeReader = ResponsesStream

    def __init__(self, options: ProviderOptions) -> None:
        """Take the options.

        Raises:
            OptionError: Your move: a budget in tokens, or texts to stop at, which this format cannot say.
        """
        faults = [_WORDS_ONLY] if isinstance(options.reasoning, int) else []
        faults += [_NO_STOP] if options.stop else []
        if faults:
            raise OptionError(faults)
        self.options = options
        base_url = options.base_url or _VENDOR_URL
        self._is_vendor = urlsplit(base_url).hostname == "api.openai.com"
        # The vendor takes no reasoning back that it cannot decrypt; servers of one's own write it in the open, and
        # want it back like that.
        self._memo = memo_name(NAME if self._is_vendor else f"{NAME}+reasoning", options)
        self.endpoint: Endpoint = Endpoint(
            base_url=base_url,
            url=base_url,
            vendor=Vendor(
                name=NAME,
                key_help=_KEY_HELP,
                path_help="" if self._is_vendor else advise(Advice.NO_RESPONSES),
                base_url=base_url,
                is_compatible=not self._is_vendor,
            ),
            key_missing=f"openai needs a key for {base_url}: {_KEY_HELP}" if self._is_vendor else None,
        )
        self._grouping = Grouping(_role_of)
        self.encodings: int = 0

    def url_of(self, model_name: str) -> str:
        """Give the address of a request; the model stands in the body."""
        return f"{self.endpoint.url}/responses"

    def encode(self, request: ModelRequest) -> bytes:
        """Make the body of a request: a join of parts, of which only those of new messages are encoded now."""
        options = options_for(request, self.options)
        refuse_settings(
            _WORDS_ONLY if isinstance(options.reasoning, int) else None, _NO_STOP if options.stop else None
        )
        members: dict[str, bytes | list[bytes]] = {
            "model": encode_json(request.model_name),
            "input": self._input(request.messages),
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

    def _input(self, messages: Sequence[Message]) -> list[bytes]:
        """Join the items of all messages; neighbours that are the user's become one item."""
        return self._grouping.pieces_of(messages, says=self._unit, wrap=self._wrap)

    def _unit(self, message: Message) -> bytes:
        """Return what is kept of a message: of a user's the inside of its content, of others their items."""
        return encoded(message, self._memo, self._encode)

    def _wrap(self, group: Sequence[Placed]) -> Sequence[bytes]:
        if isinstance(group[0][1], UserMessage):
            contents = (self._unit(message) for _, message in group)
            return [b'{"role":"user","content":[', *between(b",", contents), b"]}"]
        answers = [message for _, message in group if isinstance(message, AssistantMessage)]
        return [self._joined(answers) if answers else self._unit(group[0][1])]

    def _joined(self, answers: list[AssistantMessage]) -> bytes:
        if len(answers) == 1:
            return self._unit(answers[0])
        # Rare, so encoded anew: one message with the content of all. Its pieces are not worth caches of their own.
        blocks = tuple(block for message in answers for block in message.content)
        return self._encode(AssistantMessage(content=blocks, model=answers[0].model))

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


def _role_of(message: Message) -> str | None:
    if isinstance(message, ToolMessage):
        return None
    return "user" if isinstance(message, UserMessage) else "assistant"


def _user_part(block: UserBlock) -> dict[str, object] | None:
    if isinstance(block, Image):
        url = f"data:{block.media_type};base64,{block.data}"
        return {"type": "input_image", "detail": "auto", "image_url": url}
    text = spoken(block)
    return {"type": "input_text", "text": text} if text.strip() else None


def _assistant_items(message: AssistantMessage, *, with_open_reasoning: bool) -> list[object]:
    """Make the items of a message: its texts, calls and what only the vendor understands, in their order."""
    items: list[object] = []
    said: list[str] = []
    end = 0  # behind the last item that is no reasoning: reasoning that nothing follows is refused
    for block in (*message.content, None):
        if isinstance(block, Text):
            said.append(block.text)
            continue
        if isinstance(block, Thinking):
            continue  # for people; what goes back of it stands in an opaque block
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
                pass  # another vendor's, or the end
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
    return encode_json(
        [
            {
                "type": "function",
                "name": spec.name,
                "description": spec.description,
                "parameters": spec.parameters,
                "strict": False,  # left out it would be true here, and most schemas are not of that dialect
            }
            for spec in tools
        ]
    )


def _tool_choice(choice: str) -> bytes:
    if choice in {"auto", "none", "required"}:
        return encode_json(choice)
    return encode_json({"type": "function", "name": choice})
