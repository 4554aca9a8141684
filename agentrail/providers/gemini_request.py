"""Gemini, `streamGenerateContent`, the way out: `GeminiFormat`. The reader of its stream is in `gemini_stream.py`."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final
from urllib.parse import quote

from agentrail.core.protocol.request import ModelRequest
from agentrail.core.values.toolbox import Toolbox
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
from agentrail.providers.gemini_stream import NAME, SIGNATURE, GeminiStream
from agentrail.providers.grouping import Grouping, Placed, between
from agentrail.providers.json_text import encode_json
from agentrail.providers.options import ProviderOptions, Reasoning
from agentrail.providers.wire import (
    chosen_tool,
    joined_object,
    memo_name,
    options_for,
    output_bound,
    sayable,
    shown_in,
    spoken,
    wire_arguments,
    wire_id,
    wire_name,
)
from agentrail.providers.wire_format import Endpoint, MakeReader

_VENDOR_URL: Final = "https://generativelanguage.googleapis.com"
_KEY_HELP: Final = "set GEMINI_API_KEY or the option 'api_key', or try demo: which needs none"
_TOOL_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_OPENINGS: Final = {role: b'{"role":"%b","parts":[' % role.encode() for role in ("model", "user")}
_VERSION: Final = re.compile(r"gemini-(\d{1,3})")
_SHOWS_FROM: Final = 3
_FOREIGN: Final = f"{NAME}:foreign"
PLACEHOLDER: Final = "skip_thought_signature_validator"
"""What the vendor documents for a call that its own model did not make, and that therefore has no signature."""


class GeminiFormat:
    """The wire format of the provider `google`."""

    name = NAME
    make_reader: MakeReader = GeminiStream

    def __init__(self, options: ProviderOptions) -> None:
        """Take the options."""
        self.options = options
        base_url = options.base_url or _VENDOR_URL
        self.endpoint: Endpoint = Endpoint(
            base_url=base_url,
            url=f"{base_url.removesuffix('/v1beta')}/v1beta/models",  # people write both
            vendor=Vendor(name=NAME, key_help=_KEY_HELP, base_url=base_url),
            key_header="x-goog-api-key",
            key_prefix="",
            key_missing=f"google needs a key: {_KEY_HELP}",
        )
        self._memo = memo_name(NAME, options)
        self._grouping = Grouping(_role_of)
        self.encodings: int = 0

    def url_of(self, model_name: str) -> str:
        """Give the address of a request, in which its model stands."""
        model = quote(model_name.removeprefix("models/"), safe="")
        return f"{self.endpoint.url}/{model}:streamGenerateContent?alt=sse"

    def encode(self, request: ModelRequest) -> bytes:
        """Make the body of a request: a join of parts, of which only those of new messages are encoded now.

        The model stands in the address, not here.
        """
        options = options_for(request, self.options)
        members: dict[str, bytes | list[bytes]] = {"contents": self._contents(request)}
        if request.system:
            members["systemInstruction"] = encode_json({"parts": [{"text": request.system}]})
        if len(request.tools):
            members["tools"] = request.tools.encoded(NAME, _tools)
            members["toolConfig"] = _tool_config(chosen_tool(request, options))
        generation = _generation_config(request, options)
        if generation:
            members["generationConfig"] = encode_json(generation)
        return joined_object(members, options.extra_body)

    def _contents(self, request: ModelRequest) -> list[bytes]:
        """Join the parts of all messages; neighbours of one role become one content, results before words.

        What is kept of a message is its parts without brackets: they can be joined to a neighbour's.
        """

        def says(message: Message) -> bytes:
            return self._parts(message, request.model)

        def wrap(group: Sequence[Placed]) -> Sequence[bytes]:
            parts = (says(message) for _, message in group)
            return [_OPENINGS[_role_of(group[0][1])], *between(b",", parts), b"]}"]

        return self._grouping.pieces_of(request.messages, says=says, wrap=wrap, key=request.model)

    def _parts(self, message: Message, model: str) -> bytes:
        """Return the parts of a message. What another model said is encoded apart: its calls need the placeholder.

        Not the placeholder for every call without a signature: what this model wrote goes back as it came, and older
        models sign nothing.
        """
        if isinstance(message, ToolMessage) and any(result.images for result in message.results):
            shows = _takes_images_in_results(model)
            memo = f"{self._memo}:shown" if shows else self._memo
            return encoded(message, memo, partial(self._encode, is_foreign=False, shows=shows))
        is_foreign = isinstance(message, AssistantMessage) and message.model != model
        return encoded(
            message, _FOREIGN if is_foreign else self._memo, partial(self._encode, is_foreign=is_foreign)
        )

    def _encode(self, message: Message, *, is_foreign: bool, shows: bool = False) -> bytes:
        self.encodings += 1
        parts: Sequence[object]
        match message:
            case UserMessage():
                said = map(_user_part, sayable(message, self.options))
                parts = [part for part in said if part is not None]
            case AssistantMessage():
                parts = _model_parts(message, is_foreign=is_foreign)
            case ToolMessage():
                parts = [
                    _function_response(result, shows=shows and shown_in(result, self.options))
                    for result in message.results
                ]
        return encode_json(parts)[1:-1]


def _role_of(message: Message) -> str:
    return "model" if isinstance(message, AssistantMessage) else "user"


def _user_part(block: UserBlock) -> dict[str, object] | None:
    if isinstance(block, Image):
        return {"inlineData": {"mimeType": block.media_type, "data": block.data}}
    text = spoken(block)
    return {"text": text} if text.strip() else None


def _model_parts(message: AssistantMessage, *, is_foreign: bool) -> list[Mapping[str, object]]:
    """Return what a model said, each signature on the part that it came with; nothing when it only thought."""
    parts: list[Mapping[str, object]] = []
    signature: object = None  # of the next part
    is_first_call, says_something = True, False
    for block in message.content:
        match block:
            case Opaque(provider="google", payload=payload) if payload.keys() == {SIGNATURE}:
                signature = payload[SIGNATURE]
                continue
            case Opaque(provider="google", payload=payload):
                parts.append(payload)
                says_something = says_something or payload.keys() != {"text", SIGNATURE}
            case Thinking(provider="google", text=text, signature=own):
                parts.append(_signed({"text": text, "thought": True}, own))
            case Text(text=text) if text.strip() or signature is not None:
                parts.append(_signed({"text": text}, signature))
                says_something = True
            case ToolCall():
                missing = PLACEHOLDER if is_foreign and is_first_call else None
                parts.append(_signed({"functionCall": _function_call(block)}, signature or missing))
                is_first_call, says_something = False, True
            case Text() | Thinking() | Opaque():
                pass  # empty, or another vendor's
        signature = None
    return parts if says_something else []


def _signed(part: dict[str, object], signature: object) -> dict[str, object]:
    return part if signature is None else {**part, SIGNATURE: signature}


def _function_call(call: ToolCall) -> dict[str, object]:
    return {"id": wire_id(call.call_id), "name": wire_name(call.name), "args": wire_arguments(call)}


def _function_response(result: ToolResult, *, shows: bool) -> dict[str, object]:
    said: dict[str, object] = {
        "id": wire_id(result.call_id),
        "name": wire_name(result.name),
        "response": {"error" if result.is_error else "result": result.text if shows else result.words},
    }
    if shows:
        said["parts"] = [_user_part(image) for image in result.images]
    return {"functionResponse": said}


def _takes_images_in_results(model: str) -> bool:
    """Say whether a model takes parts in a function response: those from version 3 on; what is before refuses the request."""
    found = _VERSION.search(model)
    return found is not None and int(found[1]) >= _SHOWS_FROM


def _tools(tools: Toolbox) -> bytes:
    declarations = [
        {"name": spec.name, "description": spec.description, "parametersJsonSchema": spec.parameters}
        for spec in tools
    ]
    return encode_json([{"functionDeclarations": declarations}])


def _tool_config(choice: str) -> bytes:
    mode = _TOOL_MODES.get(choice)
    calling = {"mode": mode} if mode is not None else {"mode": "ANY", "allowedFunctionNames": [choice]}
    return encode_json({"functionCallingConfig": calling})


def _generation_config(request: ModelRequest, options: ProviderOptions) -> dict[str, object]:
    wanted: dict[str, object] = {
        "maxOutputTokens": output_bound(request, options),
        "temperature": options.temperature,
        "topP": options.top_p,
        "stopSequences": options.stop or None,
        "thinkingConfig": _thinking_config(options.reasoning),
    }
    if request.response_format is not None:
        wanted |= {"responseMimeType": "application/json", "responseJsonSchema": request.response_format}
    return {name: value for name, value in wanted.items() if value is not None}


def _thinking_config(reasoning: Reasoning | None) -> dict[str, object] | None:
    """Say how much to think: in words to newer models, in tokens to those before them, 0 for not at all."""
    match reasoning:
        case None:
            return None
        case "off":
            return {"thinkingBudget": 0}
        case str():
            return {"thinkingLevel": reasoning.upper(), "includeThoughts": True}
        case _:
            return {"thinkingBudget": reasoning, "includeThoughts": True}
