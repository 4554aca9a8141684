"""Wire formats: the port `WireFormat`, and the shared code of the vendors' formats. Pure."""

import hashlib
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, ClassVar, Final, Protocol, TypeAlias
from urllib.parse import urlsplit

import attrs
from attrs import frozen

from agentrail.core.protocol.request import Chunk, EffectId, ModelRequest
from agentrail.core.values.history import Log
from agentrail.core.values.toolbox import ToolSpec
from agentrail.errors import BadRequest
from agentrail.messages import (
    FileRef,
    Image,
    JsonObject,
    Message,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserBlock,
    UserMessage,
)
from agentrail.providers.failures import Vendor, cut_short, failure_in_stream
from agentrail.providers.json_text import encode_json
from agentrail.providers.options import ProviderOptions
from agentrail.providers.response_builder import ResponseBuilder


class Reader(Protocol):
    """Decodes one response: fed with each event, closed at the end.

    Attributes:
        draft: The response so far.
        ignored_events: Number of events that came after the end or were not understood.
    """

    draft: ResponseBuilder
    ignored_events: int

    def feed(self, data: str) -> list[Chunk]:
        """Decode the data of one event. Nothing follows the terminal chunk."""
        ...

    def close(self) -> list[Chunk]:
        """Handle the end of the stream: return nothing or a last chunk, or raise `Transport`."""
        ...


class VendorReader(Reader):
    """What the readers of the built-in formats share. `provider` is that of their thinking and opaque blocks."""

    provider: ClassVar[str]

    def __init__(self, *, model: str, attempt: EffectId, vendor: Vendor, request_bytes: int) -> None:
        self.draft: ResponseBuilder = ResponseBuilder(provider=self.provider, model=model, attempt=attempt)
        self.ignored_events: int = 0
        self._vendor = vendor
        self._request_bytes = request_bytes
        self._is_finished = False

    def ignore(self) -> list[Chunk]:
        """Count an event that gives nothing."""
        self.ignored_events += 1
        return []

    def check(self, event: Mapping[str, Any]) -> None:
        """Raise the error that an event reports."""
        failure = failure_in_stream(event, self._vendor)
        if failure is not None:
            raise failure

    def close(self) -> list[Chunk]:
        if not self._is_finished:
            raise cut_short(self._vendor)
        return []


class MakeReader(Protocol):
    """Creates the reader of a response. A reader class satisfies it."""

    def __call__(self, *, model: str, attempt: EffectId, vendor: Vendor, request_bytes: int) -> Reader:
        """Start a response.

        Args:
            model: The whole model string of the request.
            attempt: Id of the request.
            vendor: The vendor, for error messages, with the key of this request among its secrets.
            request_bytes: Size of the request's body, to estimate usage that is not reported.
        """
        ...


@frozen(kw_only=True)
class Endpoint:
    """Address and fixed properties of a provider's requests.

    Attributes:
        base_url: The configured address, or the vendor's own. It determines who bills.
        url: Address of the requests, or their common prefix.
        vendor: The vendor at this address. The key is added per request.
        key_header: Header that carries the key.
        key_prefix: Prefix of the key in that header.
        key_missing: Message if there is no key, or None if none is needed.
        headers: Additional headers.
        max_output_tokens: Default limit of an answer, in tokens, or None if the format needs none.
        without_schemas: Prefixes of the models that do not support answer schemas.
        takes_schema: Returns whether the other models support an answer schema.
    """

    base_url: str
    url: str
    vendor: Vendor
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    key_missing: str | None
    headers: Mapping[str, str] = MappingProxyType({})
    max_output_tokens: int | None = None
    without_schemas: tuple[str, ...] = ()
    takes_schema: Callable[[JsonObject], bool] = lambda _schema: True


def openai_endpoint(name: str, options: ProviderOptions, *, foreign_path_help: str = "") -> Endpoint:
    """Return the endpoint of one of OpenAI's formats, at OpenAI or at a compatible server, which may need no key."""
    base_url = options.base_url or "https://api.openai.com/v1"
    is_foreign = urlsplit(base_url).hostname != "api.openai.com"
    key_help = "set OPENAI_API_KEY or the option 'api_key', or try demo: which needs none"
    return Endpoint(
        base_url=base_url,
        url=base_url,
        vendor=Vendor(
            name=name,
            key_help=key_help,
            path_help=foreign_path_help if is_foreign else "",
            base_url=base_url,
            is_compatible=is_foreign,
        ),
        key_missing=None if is_foreign else f"{name} needs a key for {base_url}: {key_help}",
    )


class WireFormat(Protocol):
    """The pure half of a provider.

    Attributes:
        name: Name of the provider, as in a model string.
        options: Options of the provider.
        endpoint: Address of its requests.
        make_reader: Creates the reader of a response.
        encodings: Number of messages encoded so far: one per new message of a session, whatever its length.
    """

    name: str
    options: ProviderOptions
    endpoint: Endpoint
    make_reader: MakeReader
    encodings: int

    def url_of(self, model_name: str) -> str:
        """Return the address of a request.

        Args:
            model_name: The vendor's name of the model.
        """
        ...

    def encode(self, request: ModelRequest) -> bytes:
        """Encode the body of a request, joining cached parts. Only new messages are encoded."""
        ...


# Ids, names, arguments and limits that vendors accept.
#
# Pure. Code of a single format is in that format's module.

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")  # 40 is the strictest vendor's limit
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME: Final = 64
_ALTERNATIVES: Final = ("allOf", "anyOf", "oneOf")
_NOT_AT_THE_TOP: Final = frozenset({*_ALTERNATIVES, "enum", "not"})
_SHOWN: Final = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})


def wire_id(call_id: str) -> str:
    """Return an id that every vendor accepts: equal for a call and its result, unique per call."""
    if _ID.fullmatch(call_id):
        return call_id
    return "call_" + hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def wire_name(name: str) -> str:
    """Return a tool name that every vendor accepts. A model may have called something that is not a valid name."""
    return _NOT_IN_A_NAME.sub("_", name)[:_MAX_NAME] or "_"


def role_of(message: Message) -> str | None:
    """Return the role of a message in OpenAI's formats. Results have none, because each is sent separately."""
    if isinstance(message, ToolMessage):
        return None
    return "user" if isinstance(message, UserMessage) else "assistant"


def wire_arguments(call: ToolCall) -> JsonObject:
    """Return a call's arguments as an object, which every vendor requires. The model still sees its original text."""
    return {"_malformed_arguments": call.malformed or ""} if call.arguments is None else call.arguments


def wire_tool(spec: ToolSpec) -> dict[str, object]:
    """Return a tool as both of OpenAI's formats describe it."""
    parameters = wire_parameters(spec.parameters)
    return {"name": spec.name, "description": spec.description, "parameters": parameters}


def wire_parameters(schema: JsonObject) -> JsonObject:
    """Return a tool's parameters as vendors accept them: with `properties`, and without alternatives at the top level.

    The properties of all alternatives are offered, and those that all require are required. Calls are still judged by the
    original schema.
    """
    if _NOT_AT_THE_TOP.isdisjoint(schema):
        return schema if "properties" in schema else {**schema, "properties": {}}
    given: Any = schema
    required = dict.fromkeys(given.get("required", ()))
    offered: dict[str, dict[bytes, object]] = {}
    for keyword in _ALTERNATIVES:
        parts: list[Any] = [wire_parameters(part) for part in _parts_of(given, keyword)]
        for name, one in (pair for part in parts for pair in part["properties"].items()):
            offered.setdefault(name, {})[encode_json(one)] = one
        needs = [{*part.get("required", ())} for part in parts] or [set()]
        needed = set.union(*needs) if keyword == "allOf" else set.intersection(*needs)
        required |= dict.fromkeys(sorted(needed))
    several = {name: [*ones.values()] for name, ones in offered.items()}
    properties = {name: ones[0] if len(ones) == 1 else {"anyOf": ones} for name, ones in several.items()}
    kept = {name: part for name, part in given.items() if name not in _NOT_AT_THE_TOP}
    more = {"required": [*required]} if required else {}
    return {**kept, "properties": {**properties, **given.get("properties", {})}, **more}


def _parts_of(schema: Any, keyword: str) -> Iterable[JsonObject]:
    """Return the different alternatives of a keyword. References are followed once, so that cycles end."""
    places = ("$defs", "definitions")
    named: dict[Any, Any] = {
        f"#/{place}/{name}": part for place in places for name, part in schema.get(place, {}).items()
    }
    parts = [
        named.get(one.get("$ref"), one) if isinstance(one, Mapping) else {} for one in schema.get(keyword, ())
    ]
    return {id(part): part for part in parts if isinstance(part, Mapping)}.values()


def spoken(block: UserBlock) -> str:
    """Return a block as text. An image becomes a note for a model that accepts none."""
    match block:
        case Text(text=text):
            return text
        case FileRef(path=path):
            return f"[file: {path}]"
        case Image(name=name, media_type=media_type):
            return f"[image: {name}, {media_type}, {block.size_bytes:,} bytes]"


def sayable(message: UserMessage, options: ProviderOptions) -> tuple[UserBlock, ...]:
    """Return the blocks for the model. Images that it does not accept become a few words."""
    if options.images:
        return message.content
    return tuple(Text(text=spoken(block)) if isinstance(block, Image) else block for block in message.content)


def shown_in(result: ToolResult, options: ProviderOptions) -> bool:
    """Return whether a model sees the images of a result, in a format that supports them there.

    Not for failures, where one vendor accepts only text. Not if one image has a type that no vendor accepts: the image stays
    in the conversation, so every later request would be refused.
    """
    return (
        bool(result.images)
        and options.images
        and not result.is_error
        and all(image.media_type in _SHOWN for image in result.images)
    )


def memo_name(wire: str, options: ProviderOptions) -> str:
    """Return the cache key of encoded messages. Images encoded as words need another key."""
    return wire if options.images else f"{wire}:words"


def joined_object(members: Mapping[str, bytes | Sequence[bytes]], extra: Mapping[str, object]) -> bytes:
    """Join encoded members into a body. `extra` comes last and wins. Long members may come in pieces."""
    every = {**members, **{name: encode_json(value) for name, value in extra.items()}} if extra else members
    pieces = [b"{"]
    for name, value in every.items():
        pieces.append(b"%b%b:" % (b"," if len(pieces) > 1 else b"", encode_json(name)))
        pieces += [value] if isinstance(value, bytes) else value
    return b"".join([*pieces, b"}"])


def options_for(request: ModelRequest, options: ProviderOptions) -> ProviderOptions:
    """Return the options for one request: the cycle's settings override them. Unchanged options are returned as the same object."""
    settings = request.settings
    if settings is None:
        return options
    wanted = {"temperature": settings.temperature, "top_p": settings.top_p, "reasoning": settings.reasoning}
    changes: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
    if settings.stop:
        changes["stop"] = settings.stop
    return attrs.evolve(options, **changes) if changes else options


def refuse_settings(*faults: str | None) -> None:
    """Refuse a request whose settings a format does not support, before it is sent.

    Raises:
        BadRequest: The caller's move: unsupported settings. Final, because a retry would have the same settings.
    """
    found = [fault for fault in faults if fault is not None]
    if found:
        raise BadRequest("; ".join(found))


def output_bound(request: ModelRequest, options: ProviderOptions) -> int | None:
    """Return the smaller limit of session and options, or None if neither sets one."""
    bounds = [bound for bound in (request.max_output_tokens, options.max_output_tokens) if bound is not None]
    return min(bounds, default=None)


def sampling(options: ProviderOptions) -> dict[str, bytes]:
    """Encode the sampling options that are set. Three of four formats share their names."""
    values = {"temperature": options.temperature, "top_p": options.top_p}
    return {name: encode_json(value) for name, value in values.items() if value is not None}


def chosen_tool(request: ModelRequest, options: ProviderOptions) -> str:
    """Return `auto`, `none`, `required` or a tool's name. Tools that the request withholds stay withheld."""
    return options.tool_choice if request.tool_choice == "auto" else request.tool_choice


def merged_headers(ours: Mapping[str, str], options: ProviderOptions) -> dict[str, str]:
    """Add the headers of the options to ours. None removes a header."""
    every: dict[str, str | None] = {**ours, **options.headers}
    return {name: text for name, text in every.items() if text is not None}


# A conversation as the list in a body.
#
# All groups but the last stay the same when the conversation grows. Their pieces are kept, so a body with one new
# message costs one join. A long piece is shared with its message, so a conversation is held in memory once. Short
# pieces and separators are joined into blocks: there are thousands of them, and iterating over them would cost more
# than copying.
#
# Pure: the cache follows from the messages, and can be rebuilt. It belongs to the conversation of the last call.

Placed: TypeAlias = tuple[int, Message]
"""A message and its position in the conversation."""

_MAX_COPIED_BYTES: Final = 1_000
_BLOCK_PIECES: Final = 64


class Grouping:
    """Cache of one provider for the conversation of its last call."""

    __slots__ = ("_key", "_kinds", "_known", "_last", "_pieces", "_role_of", "_short")

    _known: int

    def __init__(self, role_of: Callable[[Message], str | None]) -> None:
        """Start with an empty cache.

        Args:
            role_of: Consecutive messages of one role become one message in the body. None is not a role; such a message stays
                separate.
        """
        self._role_of = role_of
        self._last: Sequence[Message] = ()
        self._begin_anew(None)

    def pieces_of(
        self,
        messages: Sequence[Message],
        *,
        says: Callable[[Message], bytes],
        wrap: Callable[[Sequence[Placed]], Sequence[bytes]],
        key: object = None,
        steady: int | None = None,
    ) -> list[bytes]:
        """Return the pieces of the list, to be joined once with the rest of the body, because each copy costs as much.

        Args:
            messages: The conversation.
            says: Encodes a message, empty if the format can express nothing of it. Such a message is left out, and its
                neighbours become adjacent.
            wrap: Returns the pieces of a group, which are joined without a separator.
            key: Anything else that the pieces depend on. A changed key discards the cache.
            steady: Messages from this position on may be wrapped differently next time; None if all stay the same.
        """
        steady = len(messages) if steady is None else steady
        if not self._goes_on(messages, key, steady):
            self._begin_anew(key)
        # A log is immutable and shares its data with the session's. Anything else is copied.
        self._last = messages if isinstance(messages, Log) else tuple(messages)
        groups = _groups(messages[self._known :], self._known, says, self._role_of)
        settled = 0
        for group, (following, *_) in pairwise(groups):
            if following[0] > steady:
                break
            self._settle(wrap(group))
            self._kinds.update(map(type, messages[self._known : following[0]]))
            self._known = following[0]
            settled += 1
        pieces = [b"[", *self._pieces, *self._short]
        for group in groups[settled:]:
            if len(pieces) > 1:
                pieces.append(b",")
            pieces += wrap(group)
        pieces.append(b"]")
        return pieces

    def has_kind(self, kind: type[Message]) -> bool:
        """Return whether the last conversation has a message of that type."""
        return kind in self._kinds or kind in map(type, self._last[self._known :])

    def _begin_anew(self, key: object) -> None:
        self._key = key
        self._known = 0  # number of messages with settled pieces
        self._kinds: set[type[Message]] = set()  # their types
        self._pieces: list[bytes] = []
        self._short: list[bytes] = []  # pieces after the others, not yet a block

    def _goes_on(self, messages: Sequence[Message], key: object, steady: int) -> bool:
        known = self._known
        # The first message after the settled ones is needed too: without it the last group is open again.
        if known >= len(messages) or known > steady or key != self._key:
            return False
        if isinstance(messages, Log) and isinstance(self._last, Log) and messages.grew_from(self._last):
            return True
        # By identity: equal messages may be encoded differently, such as `True` and `1` in arguments.
        return all(map(operator.is_, self._last[: known + 1], messages[: known + 1]))

    def _settle(self, pieces: Iterable[bytes]) -> None:
        if self._pieces or self._short:
            self._short.append(b",")
        for piece in pieces:
            is_long = len(piece) > _MAX_COPIED_BYTES
            if not is_long:
                self._short.append(piece)
            if self._short and (is_long or len(self._short) >= _BLOCK_PIECES):
                self._pieces.append(b"".join(self._short))
                self._short = []
            if is_long:
                self._pieces.append(piece)


def between(separator: bytes, pieces: Iterable[bytes]) -> list[bytes]:
    """Put a separator between pieces, without joining them."""
    parted = [part for piece in pieces for part in (separator, piece)]
    return parted[1:]


def _groups(
    messages: Sequence[Message],
    start: int,
    says: Callable[[Message], bytes],
    role_of: Callable[[Message], str | None],
) -> list[list[Placed]]:
    groups: list[list[Placed]] = []
    last: str | None = None
    for place, message in enumerate(messages, start):
        if not says(message):
            continue
        role = role_of(message)
        if role is not None and role == last:
            groups[-1].append((place, message))
        else:
            groups.append([(place, message)])
        last = role
    return groups
