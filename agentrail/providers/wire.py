"""What the projections of all formats share: ids, names and arguments that a vendor takes, bodies joined from parts.

Pure. What only one format does stands in its own file.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from agentrail.core.protocol.request import ModelRequest
from agentrail.errors import BadRequest
from agentrail.messages import FileRef, Image, JsonObject, Text, ToolCall, ToolResult, UserBlock, UserMessage
from agentrail.providers.json_text import encode_json
from agentrail.providers.options import ProviderOptions

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")  # 40 is the strictest vendor's bound
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME: Final = 64
_SHOWN: Final = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})


def wire_id(call_id: str) -> str:
    """Return an id that every vendor takes: the same for the call and its result, another for another call."""
    if _ID.fullmatch(call_id):
        return call_id
    return "call_" + hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def wire_name(name: str) -> str:
    """Return a tool's name as every vendor takes it; a model may have called something that is no name at all."""
    return _NOT_IN_A_NAME.sub("_", name)[:_MAX_NAME] or "_"


def wire_arguments(call: ToolCall) -> JsonObject:
    """Return the arguments of a call as an object, which every vendor wants back; the model still sees what it wrote."""
    return {"_malformed_arguments": call.malformed or ""} if call.arguments is None else call.arguments


def spoken(block: UserBlock) -> str:
    """Return what a block says in words: of a picture, what a model is told that takes none."""
    match block:
        case Text(text=text):
            return text
        case FileRef(path=path):
            return f"[file: {path}]"
        case Image(name=name, media_type=media_type):
            return f"[image: {name}, {media_type}, {block.size_bytes:,} bytes]"


def sayable(message: UserMessage, options: ProviderOptions) -> tuple[UserBlock, ...]:
    """Return the blocks that a model takes; for pictures that it does not take stand a few words."""
    if options.images:
        return message.content
    return tuple(Text(text=spoken(block)) if isinstance(block, Image) else block for block in message.content)


def shown_in(result: ToolResult, options: ProviderOptions) -> bool:
    """Say whether a model sees the pictures of a result, in a format that has a place for them there.

    Not those of a failure, beside which one vendor takes words alone, and none where one is of a kind that no vendor takes: a
    request that is refused once is refused for good, because the picture stays in the conversation.
    """
    return (
        bool(result.images)
        and options.images
        and not result.is_error
        and all(image.media_type in _SHOWN for image in result.images)
    )


def memo_name(wire: str, options: ProviderOptions) -> str:
    """Name the encoded forms that messages keep: a picture has another one where it is words."""
    return wire if options.images else f"{wire}:words"


def joined_object(members: Mapping[str, bytes | Sequence[bytes]], extra: Mapping[str, object]) -> bytes:
    """Join encoded members into a body; those of `extra_body` come last and win. One that is long comes in pieces."""
    every = {**members, **{name: encode_json(value) for name, value in extra.items()}} if extra else members
    pieces = [b"{"]
    for name, value in every.items():
        pieces.append(b'%b"%b":' % (b"," if len(pieces) > 1 else b"", _quoted(name)))
        pieces += [value] if isinstance(value, bytes) else value
    return b"".join([*pieces, b"}"])


def _quoted(name: str) -> bytes:
    return encode_json(name)[1:-1]


def options_for(request: ModelRequest, options: ProviderOptions) -> ProviderOptions:
    """Give the options for one request: what the caller of its cycle wants wins over them; the very same where nothing is."""
    settings = request.settings
    if settings is None:
        return options
    wanted = {"temperature": settings.temperature, "top_p": settings.top_p, "reasoning": settings.reasoning}
    changes: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
    if settings.stop:
        changes["stop"] = settings.stop
    return attrs.evolve(options, **changes) if changes else options


def refuse_settings(*faults: str | None) -> None:
    """Refuse a request whose settings a format cannot say, before anything is sent.

    Raises:
        BadRequest: The caller's move: what is wrong with them. It is final, as no later attempt says them either.
    """
    found = [fault for fault in faults if fault is not None]
    if found:
        raise BadRequest("; ".join(found))


def output_bound(request: ModelRequest, options: ProviderOptions) -> int | None:
    """Return the smaller of the bounds that the session and the options set; None when neither does."""
    bounds = [bound for bound in (request.max_output_tokens, options.max_output_tokens) if bound is not None]
    return min(bounds, default=None)


def sampling(options: ProviderOptions) -> dict[str, bytes]:
    """Encode how to choose words, where the options say it; three of four formats have the same names for it."""
    values = {"temperature": options.temperature, "top_p": options.top_p}
    return {name: encode_json(value) for name, value in values.items() if value is not None}


def chosen_tool(request: ModelRequest, options: ProviderOptions) -> str:
    """Return `auto`, `none`, `required` or a tool's name: what the request withholds stays withheld."""
    return options.tool_choice if request.tool_choice == "auto" else request.tool_choice


def merged_headers(ours: Mapping[str, str], options: ProviderOptions) -> dict[str, str]:
    """Add the headers of the options to ours; None removes one."""
    every: dict[str, str | None] = {**ours, **options.headers}
    return {name: text for name, text in every.items() if text is not None}
