"""Wire formats: the port `WireFormat`, and what the formats of the vendors share. Pure.

A format says what goes out and understands what comes back. It opens nothing, waits for nothing and needs no key:
`HttpProvider` does, for all of them. What a refusal means is said by one table for all formats (`failures.py`), which the
`Vendor` of the endpoint gives its words to.
"""

import hashlib
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

import attrs
from attrs import frozen

from agentrail.core.protocol.request import Chunk, EffectId, ModelRequest
from agentrail.core.values.history import Log
from agentrail.errors import BadRequest
from agentrail.messages import (
    FileRef,
    Image,
    JsonObject,
    Message,
    Text,
    ToolCall,
    ToolResult,
    UserBlock,
    UserMessage,
)
from agentrail.providers.failures import Vendor
from agentrail.providers.json_text import encode_json
from agentrail.providers.options import ProviderOptions
from agentrail.providers.response_builder import ResponseBuilder


class Reader(Protocol):
    """Understands one response: fed with each event, closed when there are no more.

    Attributes:
        draft: What it has made of the response so far.
        ignored_events: How many events came after the terminal, or said nothing that is known to it.
    """

    draft: ResponseBuilder
    ignored_events: int

    def feed(self, data: str) -> list[Chunk]:
        """Understand the data of one event; after the terminal chunk nothing comes any more."""
        ...

    def close(self) -> list[Chunk]:
        """Say what the end of the stream means: nothing more, a last chunk, or `Transport`."""
        ...


class MakeReader(Protocol):
    """Makes the reader of a response; the class of a reader is one."""

    def __call__(self, *, model: str, attempt: EffectId, vendor: Vendor, request_bytes: int) -> Reader:
        """Begin a response.

        Args:
            model: The whole model string of the request.
            attempt: The request's id.
            vendor: Who answers, for error texts; the key of this request is among its secrets.
            request_bytes: The size of the request's body, for an estimate where no usage is reported.
        """
        ...


@frozen(kw_only=True)
class Endpoint:
    """Where the requests of a provider go, and what is the same for all of them.

    Attributes:
        base_url: The address as it was given, or the vendor's own; who bills is known by it.
        url: Where requests go, or what their addresses begin with.
        vendor: Who answers there; the key comes with each request.
        key_header: The header that the key stands in.
        key_prefix: What stands in front of it there.
        key_missing: What to say when there is no key; None where none is needed.
        headers: Besides.
        max_output_tokens: The bound of an answer for which none is set; None where the format does without.
        without_schemas: What the names of models begin with that take no schema of an answer.
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


class WireFormat(Protocol):
    """The pure half of a provider.

    Attributes:
        name: Of the provider, as it stands in a model string.
        options: What it was told.
        endpoint: Where its requests go.
        make_reader: Makes what understands a response.
        encodings: How many messages were encoded so far: in a session one per new message, whatever its length.
    """

    name: str
    options: ProviderOptions
    endpoint: Endpoint
    make_reader: MakeReader
    encodings: int

    def url_of(self, model_name: str) -> str:
        """Give the address of a request.

        Args:
            model_name: As the vendor names it.
        """
        ...

    def encode(self, request: ModelRequest) -> bytes:
        """Make the body of a request: a join of parts, of which only those of new messages are encoded now."""
        ...


# Ids, names, arguments and bounds as vendors accept them.
#
# Pure. What only one format does stands in its own file.

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


# A conversation as the list in a body.
#
# All groups but the last stay what they are when the conversation grows. So their pieces are kept, and a body with one new
# message costs one join. A long piece is the one that its message keeps anyway: a conversation is held once. Short ones, and the
# constants between them, are joined in blocks: there are thousands of them, and to go through them would cost more than to
# copy what they hold.
#
# Pure: what is kept follows from the messages, and who has lost it begins anew. It is of one conversation, the one that was asked
# about last.

Placed: TypeAlias = tuple[int, Message]
"""A message, and where in the conversation it stands."""

_MAX_COPIED_BYTES: Final = 1_000
_BLOCK_PIECES: Final = 64


class Grouping:
    """What one provider keeps of the conversation that it was asked about last."""

    __slots__ = ("_key", "_kinds", "_known", "_last", "_pieces", "_role_of", "_short")

    _known: int

    def __init__(self, role_of: Callable[[Message], str | None]) -> None:
        """Begin with nothing.

        Args:
            role_of: Neighbours of one role become one message of the body; None is no role, and stands alone.
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
        """Give the pieces of the list, which are to be joined once, with the rest of the body: each copy costs as much.

        Args:
            messages: The conversation.
            says: What is kept of a message; empty where nothing of it can be said in this format. Such a message is left
                out, and then its neighbours are neighbours of each other.
            wrap: The pieces of such a message, which are joined without anything between them.
            key: What else the pieces depend on. With another one than the last time all is made anew.
            steady: Messages from this place on may be wrapped otherwise the next time; None if none will be.
        """
        steady = len(messages) if steady is None else steady
        if not self._goes_on(messages, key, steady):
            self._begin_anew(key)
        # A log keeps what it was, and shares what it holds with the session's; of anything else a copy is kept.
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
        """Say whether the conversation that was asked about last has a message of that kind."""
        return kind in self._kinds or kind in map(type, self._last[self._known :])

    def _begin_anew(self, key: object) -> None:
        self._key = key
        self._known = 0  # messages whose pieces are settled
        self._kinds: set[type[Message]] = set()  # theirs
        self._pieces: list[bytes] = []
        self._short: list[bytes] = []  # behind the others, not a block yet

    def _goes_on(self, messages: Sequence[Message], key: object, steady: int) -> bool:
        known = self._known
        # The message behind what is settled is asked for too: without it the last group is open again.
        if known >= len(messages) or known > steady or key != self._key:
            return False
        if isinstance(messages, Log) and isinstance(self._last, Log) and messages.grew_from(self._last):
            return True
        # By identity: messages that are equal may be written otherwise, as `True` and `1` in arguments are.
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
    """Put a separator between pieces, without making one of them."""
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
