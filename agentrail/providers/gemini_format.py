"""The wire format of Gemini, `streamGenerateContent`: requests (`GeminiFormat`) and streams (`GeminiStream`). Pure."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from agentrail.core.protocol.request import Chunk, Completed, ModelRequest, UsageUpdate
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import ContentRefused, ProtocolError
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
from agentrail.providers.failures import Vendor, cut_short
from agentrail.providers.json_text import decode_object, encode_json, shown
from agentrail.providers.options import ProviderOptions, Reasoning
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
    sayable,
    shown_in,
    spoken,
    wire_arguments,
    wire_id,
    wire_name,
)

# The stream, event by event.
#
# Each event is a whole response with a few more parts, and there is no terminator. A response is complete when it has a
# finish reason and the body has ended. Signatures belong to single parts and must go back on the same part. A signed
# part is therefore a block of its own, after an `Opaque` that holds only its signature.

NAME: Final = "google"
SIGNATURE: Final = "thoughtSignature"

_STOP_REASONS: Final[Mapping[str, StopReason]] = MappingProxyType(
    {
        "STOP": "end",
        "MAX_TOKENS": "max_tokens",
        "SAFETY": "refused",
        "PROHIBITED_CONTENT": "refused",
        "BLOCKLIST": "refused",
        "SPII": "refused",
        "RECITATION": "refused",
    }
)
_BROKEN_CALL: Final = "MALFORMED_FUNCTION_CALL"
_NO_REASON: Final = frozenset({"", "FINISH_REASON_UNSPECIFIED"})
_COUNTS: Final = (
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "cachedContentTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
)


class GeminiStream(VendorReader):
    provider = NAME

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._counts: dict[str, int] = {}
        self._reported: dict[str, Any] | None = None
        self._usage: TokenUsage | None = None
        self._finish_reason = ""
        self._finish_message = ""
        self._says_something = False  # a signature alone has no content

    def feed(self, data: str) -> list[Chunk]:
        if self._is_finished or data.startswith("[DONE]"):  # of another format, added by proxies
            return self.ignore()
        event = decode_object(data)
        self.check(event)
        candidates, usage = event.get("candidates"), event.get("usageMetadata")
        candidate = candidates[0] if isinstance(candidates, list) and candidates else None
        chunks: list[Chunk] = []
        if isinstance(candidate, dict):
            for part in pieces_in(object_of(candidate, "content").get("parts")):
                if isinstance(part, dict):
                    self._take_part(part, chunks)
            reason = candidate.get("finishReason")
            if isinstance(reason, str) and reason not in _NO_REASON:
                self._finish_reason = reason
                self._finish_message = text_of(candidate, "finishMessage")
        else:
            self._refuse_blocked(event.get("promptFeedback"))
            if not isinstance(usage, dict):
                self.ignore()
        if isinstance(usage, dict):
            self._take_usage(usage, chunks)
        return chunks

    def close(self) -> list[Chunk]:
        """Handle the end of the body: it ends the response if there was a finish reason."""
        if self._is_finished:
            return []
        self._is_finished = True
        if not self._finish_reason:
            raise cut_short(self._vendor)
        if self._finish_reason == _BROKEN_CALL:
            said = f": {shown(self._finish_message)}" if self._finish_message else ""
            message = f"{self._vendor.name} reports that the model wrote a malformed call{said}: try again"
            raise ProtocolError(message)
        return [self._completed()]

    # --- parts

    def _take_part(self, part: dict[str, Any], chunks: list[Chunk]) -> None:
        signature = text_of(part, SIGNATURE) or None
        call = part.get("functionCall")
        if isinstance(call, dict):
            self._take_call(call, signature, chunks)
        elif not isinstance(part.get("text", ""), str) or part.keys() - {"text", "thought", SIGNATURE}:
            self.draft.opaque(part)  # code run by the vendor, images, and future kinds
            self._says_something = True
        elif part.get("thought") is True:
            self._take_thought(text_of(part, "text"), signature, chunks)
        else:
            self._take_text(text_of(part, "text"), signature, chunks)

    def _take_text(self, text: str, signature: str | None, chunks: list[Chunk]) -> None:
        if not text:
            if signature is not None:  # the last part may be empty, and goes back unchanged
                self.draft.opaque({"text": "", SIGNATURE: signature})
            return
        self._says_something = True
        if signature is not None:
            self.draft.opaque({SIGNATURE: signature})
        chunks.append(self.draft.text(text))
        if signature is not None:
            self.draft.end_block()

    def _take_thought(self, text: str, signature: str | None, chunks: list[Chunk]) -> None:
        if signature is not None:
            self.draft.end_block()
        if text or signature is not None:
            self._says_something = True
            chunks.append(self.draft.thinking(text, signature))

    def _take_call(self, call: dict[str, Any], signature: str | None, chunks: list[Chunk]) -> None:
        self._says_something = True
        if signature is not None:
            self.draft.opaque({SIGNATURE: signature})
        started = self.draft.start_call(text_of(call, "id"), text_of(call, "name"))
        chunks.append(started)
        arguments = {} if call.get("args") is None else call["args"]
        whole = self.draft.arguments(started.index, encode_json(arguments).decode())
        chunks += [whole] if arguments != {} else []

    # --- the end

    def _refuse_blocked(self, feedback: object) -> None:
        reason = text_of(feedback, "blockReason") if isinstance(feedback, dict) else ""
        if reason and not self._says_something:
            message = f"{self._vendor.name} refused the prompt ({shown(reason)}): rephrase it, or shorten it"
            raise ContentRefused(message)

    def _take_usage(self, usage: dict[str, Any], chunks: list[Chunk]) -> None:
        """Update the totals present in an event. A missing total keeps its value, because 0 is never sent."""
        if usage == self._reported and not self.draft.strange_counts:
            return  # present in every event, mostly unchanged
        self._reported = usage
        self._counts |= self.draft.counts(usage, _COUNTS)
        taken_together = self._total()
        if taken_together != self._usage:
            self._usage = taken_together
            chunks.append(UsageUpdate(taken_together))

    def _total(self) -> TokenUsage:
        prompt, hosted_tools, cached, answer, thoughts = (self._counts.get(name, 0) for name in _COUNTS)
        self.draft.count("cachedContentTokenCount", cached, prompt + hosted_tools)
        if self.draft.strange_counts or not self._counts:
            return self.draft.estimate(self._request_bytes)
        return TokenUsage(
            input=prompt + hosted_tools,
            output=answer + thoughts,  # the candidates' count excludes thoughts
            cache_read=cached,
            reasoning=thoughts,
            cost_usd=None,
        )

    def _completed(self) -> Completed:
        reason: StopReason = _STOP_REASONS.get(self._finish_reason, "other")
        if reason in {"end", "other"}:
            if self.draft.has_calls:
                reason = "tool_use"
            elif not self._says_something:
                message = f"the provider answered with nothing (finish reason {shown(self._finish_reason)}): try again"
                raise ProtocolError(message)
        return self.draft.completed(reason, self._usage or self.draft.estimate(self._request_bytes))


# Requests.

_VENDOR_URL: Final = "https://generativelanguage.googleapis.com"
_KEY_HELP: Final = "set GEMINI_API_KEY or the option 'api_key', or try demo: which needs none"
_TOOL_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_OPENINGS: Final = {role: b'{"role":"%b","parts":[' % role.encode() for role in ("model", "user")}
_VERSION: Final = re.compile(r"gemini-(\d{1,3})")
_SHOWS_FROM: Final = 3
_FOREIGN: Final = f"{NAME}:foreign"
PLACEHOLDER: Final = "skip_thought_signature_validator"
"""The vendor's documented placeholder for a call of another model, which has no signature."""


class GeminiFormat:
    name = NAME
    make_reader: MakeReader = GeminiStream

    def __init__(self, options: ProviderOptions) -> None:
        self.options = options
        base_url = options.base_url or _VENDOR_URL
        self.endpoint: Endpoint = Endpoint(
            base_url=base_url,
            url=f"{base_url.removesuffix('/v1beta')}/v1beta/models",  # users write both
            vendor=Vendor(name=NAME, key_help=_KEY_HELP, base_url=base_url),
            key_header="x-goog-api-key",
            key_prefix="",
            key_missing=f"google needs a key: {_KEY_HELP}",
        )
        self._memo = memo_name(NAME, options)
        self._grouping = Grouping(_role_of)
        self.encodings: int = 0

    def url_of(self, model_name: str) -> str:
        model = quote(model_name.removeprefix("models/"), safe="")
        return f"{self.endpoint.url}/{model}:streamGenerateContent?alt=sse"

    def encode(self, request: ModelRequest) -> bytes:
        """Encode the body of a request, joining cached parts. Only new messages are encoded."""
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
        """Join the parts of all messages. Consecutive messages of one role become one content, results before text."""

        def says(message: Message) -> bytes:
            return self._parts(message, request.model)

        def wrap(group: Sequence[Placed]) -> Sequence[bytes]:
            parts = (says(message) for _, message in group)
            return [_OPENINGS[_role_of(group[0][1])], *between(b",", parts), b"]}"]

        return self._grouping.pieces_of(request.messages, says=says, wrap=wrap, key=request.model)

    def _parts(self, message: Message, model: str) -> bytes:
        """Return the parts of a message. Messages of another model are encoded separately, because their calls need the placeholder.

        Unsigned calls of this model do not get the placeholder: they go back unchanged, and older models sign nothing.
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
    """Return the parts of a model's message, each signature on its original part; empty if it only thought."""
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
                name, arguments = wire_name(block.name), wire_arguments(block)
                call = {"id": wire_id(block.call_id), "name": name, "args": arguments}
                parts.append(_signed({"functionCall": call}, signature or missing))
                is_first_call, says_something = False, True
            case Text() | Thinking() | Opaque():
                pass  # empty, or another vendor's
        signature = None
    return parts if says_something else []


def _signed(part: dict[str, object], signature: object) -> dict[str, object]:
    return part if signature is None else {**part, SIGNATURE: signature}


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
    """Return whether a model accepts parts in a function response: from version 3 on. Older ones refuse the request."""
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
    """Return the thinking setting: a word for newer models, tokens for older ones, 0 for none."""
    match reasoning:
        case None:
            return None
        case "off":
            return {"thinkingBudget": 0}
        case str():
            return {"thinkingLevel": reasoning.upper(), "includeThoughts": True}
        case _:
            return {"thinkingBudget": reasoning, "includeThoughts": True}
