"""The result of a call at an MCP server, folded into what a session keeps: text, images, details, files. Pure."""

import base64
import binascii
import mimetypes
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from attrs import define, field, frozen

from agentrail.abc import Error, Ok
from agentrail.abc.tool_images import MAX_IMAGE_BYTES, MAX_RESULT_IMAGES
from agentrail.errors import ToolContractError
from agentrail.frozen import not_json, too_large
from agentrail.messages import Image, JsonValue
from agentrail.tools.mcp.tool_listing import ListedTool, cleaned

MEDIA_FOLDER: Final = ".agentrail/mcp"
"""Directory of audio and binary resources, below the working directory."""

MAX_PROTOCOL_ERROR_CHARACTERS: Final = 1_000
MAX_LISTED_RESOURCES: Final = 1_000
_NAME_BYTES: Final = 200
_MAY_HAVE_RUN: Final = "It may have taken effect; check before repeating."


@frozen
class ResultFile:
    """Bytes of a result that are no text and no image."""

    name: str
    data: bytes


@frozen(kw_only=True)
class FoldedResult:
    """A result.

    Attributes:
        files: Files to write before it is returned. Its text names them.
    """

    outcome: Ok | Error
    files: tuple[ResultFile, ...] = ()


@define
class _Parts:
    call_id: str
    read_with: str
    texts: list[str] = field(factory=list)
    images: list[Image] = field(factory=list)
    files: list[ResultFile] = field(factory=list)

    def add(self, block: Mapping[str, Any]) -> None:
        match block:
            case {"type": "image", "data": str() as data}:
                self._add_image(_type_of(block), data)
            case {"type": "audio", "data": str() as data}:
                self._add_file(_type_of(block), data)
            case {"type": "resource", "resource": {"blob": str() as data} as resource}:
                self._add_file(_type_of(resource), data)
            case _:
                kind = cleaned(str(block.get("type")), _NAME_BYTES)
                said = text_of_block(block, self.read_with)
                self.texts.append(
                    f"[a block of type {kind}, which cannot be shown]" if said is None else said
                )

    def _add_image(self, media_type: str, data: str) -> None:
        image = Image(media_type=media_type, data=data)
        if len(self.images) == MAX_RESULT_IMAGES or image.size_bytes > MAX_IMAGE_BYTES:
            self._add_file(media_type, data)
            return
        try:
            Ok(text="", images=(image,))
        except ToolContractError as fault:
            self.texts.append(f"[an image that {fault}]")
        else:
            self.images.append(image)

    def _add_file(self, media_type: str, data: str) -> None:
        try:
            raw = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            self.texts.append(f"[{media_type}, whose data is no base64]")
            return
        name = f"{self.call_id}-{len(self.files) + 1}{mimetypes.guess_extension(media_type) or '.bin'}"
        self.files.append(ResultFile(name, raw))
        self.texts.append(f"[{media_type}, {len(raw):,} bytes, in {MEDIA_FOLDER}/{name}]")


def text_of_block(block: Mapping[str, Any], read_with: str) -> str | None:
    """Return the text of a block, or None for other kinds, such as a picture."""
    match block:
        case {"type": "text", "text": str() as text}:
            return text
        case {"type": "resource", "resource": {"text": str() as text}}:
            return text
        case {"type": "resource_link", "uri": str() as uri}:
            name = cleaned(str(block.get("name", "")), _NAME_BYTES)
            said = cleaned(uri, MAX_PROTOCOL_ERROR_CHARACTERS)
            return f"[resource {name}: {said}; read it with {read_with}]"
        case _:
            return None


def fold_result(result: Mapping[str, Any], tool: ListedTool, *, call_id: str, read_with: str) -> FoldedResult:
    """Fold a result.

    Args:
        result: As the server sent it.
        tool: The tool, for the schema of its structured results.
        call_id: Id of the call, for names of files.
        read_with: Name of the tool that reads resources.
    """
    parts = _Parts(call_id=call_id, read_with=read_with)
    content = result.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, Mapping):
            parts.add(block)
    structured = result.get("structuredContent")
    details = None if structured is None else _details(structured, tool, parts)
    text = "\n\n".join(parts.texts)
    if result.get("isError") is True:
        outcome: Ok | Error = Error(text=text or "The tool failed and did not say why.", details=details)
    else:
        outcome = Ok(text=text, details=details, images=tuple(parts.images))
    return FoldedResult(outcome=outcome, files=tuple(parts.files))


def _details(structured: JsonValue, tool: ListedTool, parts: _Parts) -> JsonValue:
    if not parts.texts:
        parts.texts.append(msgspec.json.encode(structured).decode())
    size = too_large(structured)
    fault = not_json(structured) if size is None else f"it has {size}"  # over HTTP, NaN is taken
    if fault is not None:
        return {"note": f"the structured result is left out: {fault}"}
    faults = () if tool.judge is None else tool.judge.faults(structured)
    if faults:
        return {"structured": structured, "note": f"it does not fit the tool's output schema: {faults[0]}"}
    return structured


def _type_of(block: Mapping[str, Any]) -> str:
    said = block.get("mimeType")
    return cleaned(said, _NAME_BYTES) if isinstance(said, str) and said else "application/octet-stream"


def listed_resources(resources: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return a list of resources and templates as a result with one text."""
    lines = [
        " · ".join(
            cleaned(str(one[key]), MAX_PROTOCOL_ERROR_CHARACTERS)
            for key in ("uri", "uriTemplate", "name", "mimeType", "description")
            if one.get(key)
        )
        for one in resources[:MAX_LISTED_RESOURCES]
    ]
    more = len(resources) - len(lines)
    lines += [f"[{more:,} more are left out]"] if more else []
    return {"content": [{"type": "text", "text": "\n".join(lines) or "There are no resources."}]}


# --- calls without a result


class ServerLost(Exception):
    """The server was lost, or never there. The message has the reason, without secrets."""


class CallFailed(Exception):
    """There is no result, for a reason that the model reads. `code` is that of the protocol."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


def refused_call(code: int, message: str) -> CallFailed:
    text = f"The server refused the call ({code}): {cleaned(message)}"
    return CallFailed(text[:MAX_PROTOCOL_ERROR_CHARACTERS], code)


def lost_call(server: str) -> ServerLost:
    return ServerLost(f'The server "{server}" went away during this call. {_MAY_HAVE_RUN}')


def absent_server(server: str, state: str, log_in: str | None = None) -> CallFailed:
    """Return the answer of a call while the server is not connected. `log_in` names a tool instead of the command."""
    match state:
        case "parked":
            said = "was switched off after 6 crashes."
        case "needs_login":
            said = f"needs a login: {f'call {log_in}' if log_in else f'agentrail mcp login {server}'}"
        case "closed":
            said = "was closed."
        case _:
            said = "is restarting; try again later."
    return CallFailed(f'The server "{server}" {said}')
