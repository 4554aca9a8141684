"""Strict parsers for all client input. Bodies are bounded while they arrive, and messages never repeat an id or a token."""

import base64
import binascii
import functools
import itertools
import re
from collections.abc import (
    Awaitable,
    Callable,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import msgspec
import trio
from attrs import define, field

from agentrail.core.wire.json_text import read_json
from agentrail.core.wire.shapes import Misfit, PlainJson
from agentrail.errors import OptionError, TooLarge
from agentrail.errors.name_guesses import near_name
from agentrail.events import KINDS, Event
from agentrail.frozen import MAX_CONTAINERS
from agentrail.gateway.error_responses import CallRefused, ErrorAnswer, error_answer, refuse_call
from agentrail.gateway.request_bodies import (
    A2aBody,
    AttachmentBody,
    ChatBody,
    CreateSessionBody,
    ForkBody,
    OpenBody,
    RewindBody,
    SteerBody,
)
from agentrail.host.agent_profiles import check_metadata
from agentrail.host.attachments import Attachment
from agentrail.host.identity import fault_of_name, fault_of_session_id
from agentrail.host.listed_session import SESSION_PHASES
from agentrail.host.quotas import Limits
from agentrail.structs import converter_of
from agentrail.wire.operations import MAX_SENTENCE_CHARACTERS, MAX_WORD_CHARACTERS, RespondBody
from agentrail.wire.rows import MAX_ROWS, OUTCOMES_OF_ROWS, RowFilter
from agentrail.wire.server_frames import MAX_CURSOR

# Parses large JSON texts in pieces, because a long call into C holds the interpreter lock even in another
# thread.

JSON_PIECE_BYTES: Final = 64 << 10
"""Bytes parsed by one call into C, in a millisecond or two. A multiple of four, for base64."""

LongText: TypeAlias = tuple[int, int, int]
"""A string longer than a piece: the number of strings before it, its start and its end, with its quotes."""

_TOKENS: Final = re.compile(rb'(?:[^"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_INSIDE: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_WHOLE_LETTERS: Final = re.compile(
    rb'(?:[^"\\]++|\\u[dD][89abAB]..\\u....|\\u(?![dD][89abAB])....|\\[^u])*+', re.DOTALL
)
_PLACE: Final = re.compile(r" \(byte \d+\)")
_CONTINUES: Final = range(0x80, 0xC0)
"""UTF-8 bytes that do not start a character."""


def parts_of(text: bytes) -> Iterator[tuple[int, int, bool]]:
    at = 0
    while at < len(text):
        end = _end_in(_TOKENS, text, at)
        is_text = end == at
        if is_text:
            end = _end_of_text(text, at + 1)
        yield at, end, is_text
        at = end


def _end_in(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    found = pattern.match(text, at, at + JSON_PIECE_BYTES)
    assert found is not None  # noqa: S101 - the pattern also matches nothing
    return found.end()


def _end_of_text(text: bytes, at: int) -> int:
    while at < len(text):
        at = _end_in(_INSIDE, text, at)
        if text.startswith(b'"', at):
            return at + 1
        if text.startswith(b"\\", at):  # an escape at the end of the piece
            at += 2
    return len(text)


def read_apart(text: bytes, long: Sequence[LongText]) -> PlainJson:
    left: list[bytes] = []
    at = 0
    for number, start, end in long:
        left += text[at:start], b'"\\u0000%d"' % number  # unique, because they may be keys
        at = end
    try:
        plain = read_json(b"".join((*left, text[at:])))
    except Misfit as misfit:
        raise Misfit(_PLACE.sub("", str(misfit))) from misfit
    texts = {number: _read_long(text, start + 1, end - 1) for number, start, end in long}
    return _whole(plain, texts, itertools.count())


# Not inside `read_apart`: a function that refers to itself would keep the texts until the collector runs.
def _whole(value: Any, texts: Mapping[int, str], numbers: Iterator[int]) -> Any:
    if isinstance(value, str):
        return texts.get(next(numbers), value)
    if isinstance(value, dict):
        return {_whole(name, texts, numbers): _whole(item, texts, numbers) for name, item in value.items()}
    return [_whole(item, texts, numbers) for item in value] if isinstance(value, list) else value


def _read_long(text: bytes, at: int, end: int) -> str:
    pieces: list[str] = []
    while at < end:
        # Never split an escape, a surrogate pair of escapes, or a character.
        found = _WHOLE_LETTERS.match(text, at, min(at + JSON_PIECE_BYTES, end))
        cut = at if found is None else found.end()
        while at < cut < end and text[cut] in _CONTINUES:
            cut -= 1
        if cut == at:
            message = "not JSON: a long text contains an invalid escape or byte"
            raise Misfit(message)
        pieces.append(str(read_json(b'"%b"' % text[at:cut])))
        at = cut
    return "".join(pieces)


MAX_SEARCH_CHARACTERS: Final = 200
"""Limit on a search text, in characters."""

_EVENTS: Final[Mapping[str, type[Event]]] = {kind: event for event, kind in KINDS.items()}


def refuse_field(name: str, what: str) -> NoReturn:
    refuse_call("field_invalid", f"{name} {what}"[:300], more={"field": name})


def events_of_kinds(kinds: Sequence[str]) -> tuple[type[Event], ...]:
    """Return the classes of events of these kinds."""
    unknown = next((kind for kind in kinds if kind not in _EVENTS), None)
    if unknown is not None:
        refuse_field("kinds", f"has {unknown[:80]!r}: expected kinds of events, such as 'agent_end'")
    return tuple([_EVENTS[kind] for kind in kinds])


def check_known(given: Mapping[str, Any], known: tuple[str, ...], before: str = "") -> None:
    unknown = next((name for name in given if name not in known), None)
    if unknown is None:
        return
    listed = f"expected one of {', '.join(known)}"
    refuse_call(
        "field_unknown",
        f"{before}{unknown[:80]} is not known here",
        hint=near_name(unknown, known, "did you mean {!r}?", listed, cutoff=0.5),
        more={"field": before + unknown[:80]},
    )


def check_id(name: str, value: str, *, of_session: bool = False) -> str:
    fault = fault_of_session_id(name, value) if of_session else fault_of_name(name, value)
    if fault is not None:
        refuse_call("id_invalid", fault, more={"field": name})
    return value


def check_same_session(body: ChatBody, session_id: str) -> None:
    if body.session_id not in (None, session_id):
        refuse_field("session_id", "is not the session in the path: omit it")


def named_by_client(body_id: str | None, header: str | None) -> str | None:
    if header is not None:
        check_id("Idempotency-Key", header)
        if body_id not in (None, header):
            refuse_field("client_id", "differs from Idempotency-Key: send only one of them")
    return body_id if body_id is not None else header


def check_filter(wanted: RowFilter, before: str = "") -> None:
    if wanted.q is not None and len(wanted.q) > MAX_SEARCH_CHARACTERS:
        refuse_field(f"{before}q", f"has more than {MAX_SEARCH_CHARACTERS} characters")
    if wanted.agent_id is not None:
        check_id(f"{before}agent_id", wanted.agent_id)
    choices = ("phase", wanted.phase, SESSION_PHASES), ("outcome", wanted.outcome, OUTCOMES_OF_ROWS)
    for name, given, known in choices:
        if given is not None and given not in known:
            refuse_field(f"{before}{name}", f"is {given!r:.40}: expected one of {', '.join(known)}")
    if not 1 <= wanted.limit <= MAX_ROWS:
        refuse_field(f"{before}limit", f"is {wanted.limit:.0f}: expected a whole number from 1 to {MAX_ROWS}")


_WHOLE: Final = re.compile(r"[0-9]{1,16}")


def cursor_of(last_event_id: str | None, after: str | None) -> int | None:
    found = [_cursor(name, text) for name, text in (("Last-Event-ID", last_event_id), ("after", after))]
    return found[0] if found[0] is not None else found[1]


def _cursor(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not _WHOLE.fullmatch(text) or int(text) > MAX_CURSOR:
        refuse_call("cursor_invalid", f"{name} is not a cursor: expected a whole number >= 0")
    return int(text)


def whole_number(name: str, text: str | None, default: int, *, least: int = 0, most: int = MAX_CURSOR) -> int:
    """Parse a number in a query, such as `limit=50`."""
    if text is None:
        return default
    if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
        refuse_field(name, f"is {text!r:.40}: expected a whole number from {least} to {most}")
    return int(text)


def yes_or_no(name: str, text: str | None) -> bool:
    if text not in (None, "true", "false"):
        refuse_field(name, f"is {text!r:.40}: expected true or false")
    return text == "true"


def check_query(given: Iterable[str], known: tuple[str, ...]) -> None:
    names = list(given)
    if any(name.lower() in ("token", "access_token") for name in names):
        refuse_call("token_in_url", "a token in a URL is refused")
    # Only known names: a stranger controls the number of others.
    twice = next((name for name in known if names.count(name) > 1 and not name.endswith("[]")), None)
    if twice is not None:
        refuse_field(twice, "appears twice in the query")
    check_known(dict.fromkeys(names), known or ("none",), "?")


# Request bodies: bounded on arrival, checked for content that would block the loop, then decoded into
# structs.

READ_HERE_BYTES: Final = 64 << 10
"""Limit for parsing in the event loop, which takes at most twenty milliseconds."""

MAX_JSON_TEXTS: Final = 100_000
"""Limit on the strings of a body, including keys, because each one is created while other tasks wait."""

_UTF_8: Final = frozenset({"charset=utf-8", 'charset="utf-8"', "charset=utf8", 'charset="utf8"'})

B = TypeVar("B", bound=msgspec.Struct)

ID_FIELDS: Final[Mapping[str, bool]] = {
    "session_id": True,
    "agent_id": False,
    "client_id": False,
    "fork_id": True,
    "tenant_id": False,
    "user_id": False,
}
"""Id fields, and whether the narrower rule for session ids applies."""

WORD_FIELDS: Final[Mapping[str, int]] = {
    "mode": MAX_WORD_CHARACTERS,
    "model": MAX_WORD_CHARACTERS,
    "approval_id": MAX_WORD_CHARACTERS,
    "call_id": MAX_WORD_CHARACTERS,
    "ref": MAX_WORD_CHARACTERS,
    "arguments_hash": MAX_WORD_CHARACTERS,
    "reason": MAX_SENTENCE_CHARACTERS,
    "webhook": MAX_SENTENCE_CHARACTERS,
}
"""Short fields, with their limits in characters."""


# --- bytes


class BodyBytes:
    """A body that is being received. It is refused as soon as it is known to be too large."""

    __slots__ = ("_held", "_limit")

    def __init__(self, limit: int, *, announced: str | None = None) -> None:
        self._limit = limit
        # Extended in place: a list of pieces would take forty bytes per piece, and a piece may be one byte
        # long.
        self._held = bytearray()
        if announced is not None:
            if not re.fullmatch(r"[0-9]{1,19}", announced):
                refuse_call("bad_json", "Content-Length is not a whole number")
            self._check(int(announced))

    def add(self, piece: bytes) -> None:
        self._check(len(self._held) + len(piece))
        self._held += piece

    def whole(self) -> bytes:
        """Return the whole body, once."""
        whole, self._held = bytes(self._held), bytearray()
        return whole

    def _check(self, size: int) -> None:
        if size > self._limit:
            self._held = bytearray()
            message = f"the body has more than {self._limit:,} bytes, which is the limit here"
            refuse_call("too_large", message)


def check_content_type(value: str | None, encoding: str | None = None) -> None:
    """Refuse any content type but JSON, and compressed bodies. Stops forms of other sites, which need no preflight."""
    # Not a regular expression: with optional parts surrounded by blanks it would backtrack.
    kind, *more = (part.strip() for part in (value or "").lower().split(";"))
    terms = {"=".join(side.strip() for side in part.partition("=")[::2]) for part in more if part}
    if kind not in ("application/json", "application/a2a+json") or not terms <= _UTF_8:
        refuse_call("content_type", "Content-Type is not JSON in UTF-8: expected application/json")
    if (encoding or "identity").strip().lower() != "identity":
        refuse_call("content_type", "the body is encoded: send it without Content-Encoding")


# --- JSON


_converter: Final = functools.cache(converter_of)


def decode_body(kind: type[B], text: bytes, limits: Limits) -> B:
    """Decode a body. Above `READ_HERE_BYTES` it must run in a thread, because it may take seconds."""
    plain = read_object(text, limits) if text.strip(b" \t\r\n") else {}
    return make_body(kind, plain, limits, size=len(text))


def make_body(kind: type[B], plain: dict[str, Any], limits: Limits, *, size: int) -> B:
    if issubclass(kind, OpenBody):
        return kind(plain=plain, size=size)
    check_known(plain, kind.__struct_fields__)
    files = plain.get("attachments")
    if issubclass(kind, ChatBody) and isinstance(files, list):
        for place, file in enumerate(files):
            if isinstance(file, dict):
                check_known(file, AttachmentBody.__struct_fields__, f"attachments[{place}].")
    try:
        body: B = _converter(kind)(plain)
    except msgspec.ValidationError as error:
        _refuse_field_of(str(error))
    if isinstance(body, ChatBody):
        # What attachments contain does not count, but for escapes in it.
        own_size = size - sum(len(file.base64) for file in body.attachments)
        if own_size > limits.max_body_bytes:
            _refuse_what_is_beside(limits)
    _check_values(body, limits)
    return body


# At most one piece of a string: longer ones are handled separately, and no call into C may parse all of a
# large body.
_TEXTS: Final = re.compile(rb'"(?:[^"\\]++|\\.){0,%d}+"' % JSON_PIECE_BYTES, re.DOTALL)
_TEXTS_AND_BRACKETS: Final = re.compile(_TEXTS.pattern + rb"|[\[\]{}]", re.DOTALL)
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


def read_object(text: bytes, limits: Limits) -> dict[str, Any]:
    long = _check_shape(text, limits)
    try:
        plain = read_apart(text, long) if long else read_json(text)
    except Misfit as misfit:
        raise CallRefused(error_answer("bad_json", f"the body is invalid: {misfit}"[:300])) from None
    if not isinstance(plain, dict):
        refuse_call("bad_json", "the body is not a JSON object: expected one, at byte 0")
    return plain


def _check_shape(text: bytes, limits: Limits) -> list[LongText]:
    """Refuse a document that would block the loop or is too deep. Return its long strings."""
    outside, texts, long = bytearray(), 0, list[LongText]()
    for start, end, is_text in parts_of(text):
        if is_text:
            long.append((texts, start, end))
        rest, found = (b"", 1) if is_text else _TEXTS.subn(b"", text[start:end])
        outside += rest
        texts += found
        if texts >= MAX_JSON_TEXTS or len(outside) > limits.max_body_bytes:
            refuse_call(
                "too_large", f"the body has too many values: at most {MAX_JSON_TEXTS:,} texts are allowed"
            )
    beside = len(text) - sum(end - start for _, start, end in long)
    if beside > limits.max_body_bytes + limits.max_attachments * JSON_PIECE_BYTES:
        _refuse_what_is_beside(limits)
    brackets = outside.translate(None, _NOT_BRACKETS)
    if brackets.count(b"[") + brackets.count(b"{") > MAX_CONTAINERS:
        refuse_call("too_large", f"the body has more than {MAX_CONTAINERS:,} objects and arrays")
    depth = 0
    for bracket in brackets:
        depth += 1 if bracket in b"[{" else -1
        if depth < 0:  # not JSON, which the parser will report
            return long
        if depth > limits.max_json_depth:
            place = _place_of_depth(text, limits.max_json_depth)
            message = f"the body is nested more deeply than {limits.max_json_depth} levels, at byte {place}"
            refuse_call("bad_json", message)
    return long


def _place_of_depth(text: bytes, most: int) -> int:
    depth = 0
    for start, end, is_text in parts_of(text):
        for found in () if is_text else _TEXTS_AND_BRACKETS.finditer(text, start, end):
            if found[0] in (b"[", b"{"):
                depth += 1
                if depth > most:
                    return found.start()
            elif found[0] in (b"]", b"}"):
                depth -= 1
    return len(text)


_MISSING: Final = re.compile(r"Object missing required field `(\w+)`")
_FAULT: Final = re.compile(r"(?P<fault>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)


def _refuse_field_of(fault: str) -> NoReturn:
    found = _FAULT.fullmatch(fault)
    assert found is not None  # noqa: S101 - the pattern matches every text
    path, said = found["path"] or "", found["fault"]
    missing = _MISSING.fullmatch(said)
    if missing is not None:
        path = f"{path}.{missing[1]}" if path else missing[1]
        refuse_field(path, "is missing")
    refuse_field(path, f"is invalid: {said}")


def _refuse_what_is_beside(limits: Limits) -> NoReturn:
    message = (
        f"the body has more than {limits.max_body_bytes:,} bytes without the contents of its attachments"
    )
    refuse_call("too_large", message)


def _check_values(body: msgspec.Struct, limits: Limits) -> None:
    for name in body.__struct_fields__:
        value = getattr(body, name)
        if value is None:
            continue
        if name in ID_FIELDS:
            check_id(name, value, of_session=ID_FIELDS[name])
        elif name in WORD_FIELDS:
            if not value.strip():
                refuse_field(name, "is empty: omit it, or give a text")
            if len(value) > WORD_FIELDS[name]:
                refuse_field(name, f"has more than {WORD_FIELDS[name]:,} characters")
        elif name in ("at", "to") and isinstance(body, ForkBody | RewindBody) and value < 0:
            refuse_field(name, f"is {value}: expected a whole number >= 0")
    if isinstance(body, ChatBody | SteerBody):
        has_more = getattr(body, "attachments", ()) or getattr(body, "content", None)
        if not body.message.strip() and not has_more:
            refuse_field("message", "is missing or empty: give a text or attachments")
        _check_size("message", body.message, limits)
    if isinstance(body, ChatBody | CreateSessionBody):
        check_own_data(body.metadata, limits)
    if isinstance(body, RespondBody) and isinstance(body.response, str):
        _check_size("response", body.response, limits)


def check_own_data(metadata: object, limits: Limits) -> None:
    try:
        check_metadata(metadata, limits)
    except TooLarge as error:
        refuse_call("too_large", f"{error}", more={"field": "metadata"})
    except OptionError as error:
        refuse_call("field_invalid", f"{error}", more={"field": "metadata"})


def _check_size(name: str, text: str, limits: Limits) -> None:
    if len(text.encode("utf-8", "replace")) > limits.max_message_bytes:
        message = f"{name} has more than {limits.max_message_bytes:,} bytes: put the rest into a file"
        refuse_call("too_large", message, more={"field": name})


# --- attachments


def decode_files(body: ChatBody, limits: Limits) -> tuple[Attachment, ...]:
    files = body.attachments
    if len(files) > limits.max_attachments:
        refuse_call("too_large", f"{len(files)} attachments, at most {limits.max_attachments} are allowed")
    sizes = [len(file.base64) * 3 // 4 - file.base64[-2:].count("=") for file in files]
    for place, size in enumerate(sizes):
        if size > limits.max_attachment_bytes:
            message = f"attachments[{place}] has more than {limits.max_attachment_bytes:,} bytes"
            refuse_call("too_large", message, more={"index": place})
    if sum(sizes) > limits.max_attachments_bytes:
        refuse_call(
            "too_large", f"the attachments have more than {limits.max_attachments_bytes:,} bytes together"
        )
    return tuple(
        Attachment(name=file.name, mime_type=file.mime_type, content=_decoded(place, file))
        for place, file in enumerate(files)
    )


def _decoded(place: int, file: AttachmentBody) -> bytes:
    text, pieces, at = file.base64, list[bytes](), 0
    try:
        while len(text) - at > JSON_PIECE_BYTES + 4:
            piece = text[at : at + JSON_PIECE_BYTES]
            if "=" in piece:
                raise binascii.Error  # noqa: TRY301 - answered below
            pieces.append(base64.b64decode(piece.encode("ascii"), validate=True))
            at += JSON_PIECE_BYTES
        pieces.append(base64.b64decode(text[at:].encode("ascii"), validate=True))
        return b"".join(pieces)
    except (binascii.Error, ValueError):
        message = f"attachments[{place}].base64 is not base64: expected A-Z a-z 0-9 + / in groups of four, padded with ="
        raise CallRefused(error_answer("attachment_invalid", message, more={"index": place})) from None


def body_limit(kind: type[msgspec.Struct], limits: Limits) -> int:
    has_files = kind is ChatBody or (issubclass(kind, OpenBody) and kind is not A2aBody)
    return limits.max_body_with_attachments_bytes if has_files else limits.max_body_bytes


# Limits of a connection: number of headers, size and speed of a body, and detection of a disconnect.
#
# The server passes ASGI messages one by one and enforces none of these limits itself.

AsgiReceive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
"""Returns the next ASGI message of a connection."""

AsgiSend: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
"""Sends an ASGI message of an application."""

AsgiApp: TypeAlias = Callable[[MutableMapping[str, Any], AsgiReceive, AsgiSend], Awaitable[None]]
"""An ASGI 3 application."""

MAX_HEADERS: Final = 100
MAX_HEADER_BYTES: Final = 32 << 10

SLOW_START_SECONDS: Final = 30.0
"""Time limit for the smallest body."""

SLOWEST_BYTES_PER_SECOND: Final = 4 << 10
"""Minimum average speed of a larger body."""

MAX_BYTES_AT_ONCE: Final = 256 << 20
"""Limit on all bodies being read in a process. One caller may use half of it, so that others have room."""


class CallerLeft(Exception):
    """The client has closed the connection. Caught at the gateway's edge."""


def judge_headers(scope: Mapping[str, Any]) -> ErrorAnswer | None:
    headers = scope["headers"]
    size = sum(len(name) + len(value) for name, value in headers)
    size += len(scope.get("raw_path") or b"") + len(scope.get("query_string", b""))
    if len(headers) <= MAX_HEADERS and size <= MAX_HEADER_BYTES:
        return None
    return error_answer(
        "headers_too_large",
        f"expected at most {MAX_HEADERS} headers, and {MAX_HEADER_BYTES:,} bytes of them with the path and its query",
    )


@define(eq=False, kw_only=True)
class BodyReader:
    """Reads request bodies, with a limit on their total size."""

    _max_bytes_at_once: int = MAX_BYTES_AT_ONCE
    _slow_start_seconds: float = SLOW_START_SECONDS
    _slowest: int = field(default=SLOWEST_BYTES_PER_SECOND, alias="slowest_bytes_per_second")
    held_bytes: int = field(init=False, default=0)
    _held_of: dict[Hashable, int] = field(init=False, factory=dict)

    async def read(
        self,
        receive: AsgiReceive,
        headers: Mapping[str, str],
        max_bytes: int,
        *,
        caller: Hashable = None,
    ) -> bytes:
        body = BodyBytes(max_bytes, announced=headers.get("content-length"))
        came = 0
        try:
            with trio.CancelScope(deadline=trio.current_time() + self._slow_start_seconds) as scope:
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise CallerLeft
                    piece = message.get("body", b"")
                    self._find_room(len(piece), caller)
                    body.add(piece)
                    came += len(piece)
                    self._hold(len(piece), caller)
                    if not message.get("more_body", False):
                        return body.whole()
                    scope.deadline += len(piece) / self._slowest
        finally:
            self._hold(-came, caller)
        expected = (
            f"within {self._slow_start_seconds:g} s, and a second more for each {self._slowest:,} bytes"
        )
        raise CallRefused(error_answer("too_slow", f"expected the body {expected}"))

    def _find_room(self, size: int, caller: Hashable) -> None:
        if self.held_bytes + size > self._max_bytes_at_once:
            refuse_call("server_full", "the limit of bodies that this server reads at once is reached")
        if caller is not None and 2 * (self._held_of.get(caller, 0) + size) > self._max_bytes_at_once:
            message = "the limit of bodies that are being read for this caller is reached"
            refuse_call("too_many_requests", message, headers={"retry-after": "5"})

    def _hold(self, size: int, caller: Hashable) -> None:
        self.held_bytes += size
        held = self._held_of.pop(caller, 0) + size
        if held:  # otherwise an entry would remain for every caller ever seen
            self._held_of[caller] = held


async def wait_left(receive: AsgiReceive) -> None:
    """Wait until the client disconnects, after the body of its call was read. Always a checkpoint."""
    while (await receive())["type"] != "http.disconnect":
        pass


LINGER_SECONDS: Final = 1.0
"""Time during which a connection that is about to close still reads and discards input."""

LINGER_STEP_SECONDS: Final = 0.1
"""Silence that ends this early."""


async def linger(heard_at: Callable[[], float]) -> None:
    """Let a sending client read the last message: closing with unread bytes resets the connection, and the message would be lost."""
    until = trio.current_time() + LINGER_SECONDS
    while trio.current_time() < min(until, heard_at() + LINGER_STEP_SECONDS):  # noqa: ASYNC110 - silence has no event
        await trio.sleep(LINGER_STEP_SECONDS / 2)
