"""Strict readers for everything a client sends: paths, queries, headers, bodies and the ASGI messages that carry them.

Texts and bytes in, values out. A text is a number only if every reader would take it for one. A body is bounded while it arrives and
checked for content that would hold the loop before it becomes a struct; nothing of a refused body is kept. Messages name the field
and the remedy, and never repeat an id or a token.
"""

import base64
import binascii
import difflib
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

from agentrail.core.wire.json_text import read_json
from agentrail.core.wire.shapes import Misfit, PlainJson
from agentrail.errors import OptionError, TooLarge
from agentrail.frozen import MAX_CONTAINERS
from agentrail.gateway.answers import CallRefused, ErrorAnswer, error_answer, refuse_call
from agentrail.gateway.bodies import (
    AttachmentBody,
    ChatBody,
    CreateSessionBody,
    ForkBody,
    RewindBody,
    SteerBody,
)
from agentrail.host.attachments import Attachment
from agentrail.host.identity import fault_of_name, fault_of_session_id
from agentrail.host.limits import Limits
from agentrail.host.listed_session import SESSION_PHASES
from agentrail.host.profiles import check_metadata
from agentrail.structs import converter_of
from agentrail.wire.operations import RespondBody
from agentrail.wire.rows import MAX_ROWS, OUTCOMES_OF_ROWS, RowFilter

# Reads large JSON texts in pieces, so that no call of C keeps the interpreter: also from another thread one does.

JSON_PIECE_BYTES: Final = 64 << 10
"""Bytes that one call of C reads, in a millisecond or two. A multiple of four, for base64."""

LongText: TypeAlias = tuple[int, int, int]
"""A text that is longer than a piece: the number of texts before it, its begin and its end, with its quotes."""

_TOKENS: Final = re.compile(rb'(?:[^"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_INSIDE: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_WHOLE_LETTERS: Final = re.compile(
    rb'(?:[^"\\]++|\\u[dD][89abAB]..\\u....|\\u(?![dD][89abAB])....|\\[^u])*+', re.DOTALL
)
_PLACE: Final = re.compile(r" \(byte \d+\)")
_CONTINUES: Final = range(0x80, 0xC0)
"""Bytes of UTF-8 that begin no character."""


def parts_of(text: bytes) -> Iterator[tuple[int, int, bool]]:
    """Divide a document into parts of whole tokens, and texts that are longer than a piece."""
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
    assert found is not None  # noqa: S101 - the pattern takes nothing too
    return found.end()


def _end_of_text(text: bytes, at: int) -> int:
    while at < len(text):
        at = _end_in(_INSIDE, text, at)
        if text.startswith(b'"', at):
            return at + 1
        if text.startswith(b"\\", at):  # an escape that the end of the piece cuts
            at += 2
    return len(text)


def read_apart(text: bytes, long: Sequence[LongText]) -> PlainJson:
    """Read a document whose long texts are read by themselves, piece by piece."""
    left: list[bytes] = []
    at = 0
    for number, start, end in long:
        left += text[at:start], b'"\\u0000%d"' % number  # no two alike, since they may be keys
        at = end
    try:
        plain = read_json(b"".join((*left, text[at:])))
    except Misfit as misfit:
        raise Misfit(_PLACE.sub("", str(misfit))) from misfit
    texts = {number: _read_long(text, start + 1, end - 1) for number, start, end in long}
    numbers = itertools.count()

    def whole(value: Any) -> Any:
        if isinstance(value, str):
            return texts.get(next(numbers), value)
        if isinstance(value, dict):
            return {whole(name): whole(item) for name, item in value.items()}
        return [whole(item) for item in value] if isinstance(value, list) else value

    return whole(plain)


def _read_long(text: bytes, at: int, end: int) -> str:
    pieces: list[str] = []
    while at < end:
        # No escape is cut, no pair of escapes that is one character, and no character.
        found = _WHOLE_LETTERS.match(text, at, min(at + JSON_PIECE_BYTES, end))
        cut = at if found is None else found.end()
        while at < cut < end and text[cut] in _CONTINUES:
            cut -= 1
        if cut == at:
            message = "no JSON: a long text has an escape or a byte in it that is none"
            raise Misfit(message)
        pieces.append(str(read_json(b'"%b"' % text[at:cut])))
        at = cut
    return "".join(pieces)


MAX_CURSOR: Final = (1 << 53) - 1
"""The largest whole number that every client can hold."""

MAX_SEARCH_CHARACTERS: Final = 200
"""Characters that rows are searched for."""


def refuse_field(name: str, what: str) -> NoReturn:
    """Refuse a field, or a part of a query."""
    refuse_call("field_invalid", f"{name} {what}"[:300], more={"field": name})


def check_known(given: Mapping[str, Any], known: tuple[str, ...], before: str = "") -> None:
    """Let names pass that are known."""
    unknown = next((name for name in given if name not in known), None)
    if unknown is None:
        return
    near = difflib.get_close_matches(unknown[:128], known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
    refuse_call(
        "field_unknown",
        f"{before}{unknown[:80]} is not known here",
        hint=hint,
        more={"field": before + unknown[:80]},
    )


def check_id(name: str, value: str, *, of_session: bool = False) -> str:
    """Let an id pass: out of a body, a path, a query or a header."""
    fault = fault_of_session_id(name, value) if of_session else fault_of_name(name, value)
    if fault is not None:
        refuse_call("id_invalid", fault, more={"field": name})
    return value


def check_same_session(body: ChatBody, session_id: str) -> None:
    """Let a body pass that names no session, or the one in the path."""
    if body.session_id not in (None, session_id):
        refuse_field("session_id", "is not the session in the path: leave it out")


def named_by_client(body_id: str | None, header: str | None) -> str | None:
    """Give the caller's name of a message: `client_id` of the body, or the header `Idempotency-Key`."""
    if header is not None:
        check_id("Idempotency-Key", header)
        if body_id not in (None, header):
            refuse_field("client_id", "is not what Idempotency-Key says: send one of both")
    return body_id if body_id is not None else header


def check_filter(wanted: RowFilter, before: str = "") -> None:
    """Let a filter pass that rows can be found by."""
    if wanted.q is not None and len(wanted.q) > MAX_SEARCH_CHARACTERS:
        refuse_field(f"{before}q", f"has more than {MAX_SEARCH_CHARACTERS} characters")
    if wanted.agent_id is not None:
        check_id(f"{before}agent_id", wanted.agent_id)
    if wanted.phase is not None and wanted.phase not in SESSION_PHASES:
        refuse_field(
            f"{before}phase", f"is {wanted.phase!r:.40}: expected one of {', '.join(SESSION_PHASES)}"
        )
    if wanted.outcome is not None and wanted.outcome not in OUTCOMES_OF_ROWS:
        refuse_field(
            f"{before}outcome", f"is {wanted.outcome!r:.40}: expected one of {', '.join(OUTCOMES_OF_ROWS)}"
        )
    if not 1 <= wanted.limit <= MAX_ROWS:
        refuse_field(f"{before}limit", f"is {wanted.limit:.0f}: expected a whole number from 1 to {MAX_ROWS}")


_WHOLE: Final = re.compile(r"[0-9]{1,16}")


def cursor_of(last_event_id: str | None, after: str | None) -> int | None:
    """Give the number that a reader goes on after; None for one that begins."""
    found = [_cursor(name, text) for name, text in (("Last-Event-ID", last_event_id), ("after", after))]
    return found[0] if found[0] is not None else found[1]


def _cursor(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not _WHOLE.fullmatch(text) or int(text) > MAX_CURSOR:
        refuse_call("cursor_invalid", f"{name} is no cursor: expected a whole number from 0")
    return int(text)


def whole_number(name: str, text: str | None, default: int, *, least: int = 0, most: int = MAX_CURSOR) -> int:
    """Read a number of a query, such as `limit=50`."""
    if text is None:
        return default
    if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
        refuse_field(name, f"is {text!r:.40}: expected a whole number from {least} to {most}")
    return int(text)


def yes_or_no(name: str, text: str | None) -> bool:
    """Read a flag of a query, such as `wait=true`; left out means no."""
    if text not in (None, "true", "false"):
        refuse_field(name, f"is {text!r:.40}: expected true or false")
    return text == "true"


def check_query(given: Iterable[str], known: tuple[str, ...]) -> None:
    """Let a query pass whose names a route knows, each once."""
    names = list(given)
    if any(name.lower() in ("token", "access_token") for name in names):
        refuse_call("token_in_url", "a token in a URL is refused")
    twice = next(
        (name for name in known if names.count(name) > 1), None
    )  # and not each name: a stranger says how many
    if twice is not None:
        refuse_field(twice, "stands twice in the query")
    check_known(dict.fromkeys(names), known or ("none",), "?")


# Request bodies: bounded on arrival, checked for content that would hold the loop, then decoded into structs.

READ_HERE_BYTES: Final = 64 << 10
"""What is read while all others wait: twenty milliseconds at most."""

MAX_JSON_TEXTS: Final = 100_000
"""How many texts a body may have, keys among them: each is made anew while others wait."""

_UTF_8: Final = frozenset({"charset=utf-8", 'charset="utf-8"', "charset=utf8", 'charset="utf8"'})

MAX_WORD_CHARACTERS: Final = 128
MAX_SENTENCE_CHARACTERS: Final = 2_000

B = TypeVar("B", bound=msgspec.Struct)

ID_FIELDS: Final[Mapping[str, bool]] = {
    "session_id": True,
    "agent_id": False,
    "client_id": False,
    "fork_id": True,
    "tenant_id": False,
    "user_id": False,
}
"""The fields that are ids, and whether by the narrower rule, that of sessions."""

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
"""The fields that are short, and how many characters they may have."""


# --- bytes


class BodyBytes:
    """A body that comes in, counted while it does: what is too large is refused before it is there."""

    __slots__ = ("_held", "_limit")

    def __init__(self, limit: int, *, announced: str | None = None) -> None:
        """Begin with nothing."""
        self._limit = limit
        # Grown in place: a list of pieces would take forty bytes for each, and a piece may be one byte long.
        self._held = bytearray()
        if announced is not None:
            if not re.fullmatch(r"[0-9]{1,19}", announced):
                refuse_call("bad_json", "Content-Length is no whole number")
            self._check(int(announced))

    def add(self, piece: bytes) -> None:
        """Take what came."""
        self._check(len(self._held) + len(piece))
        self._held += piece

    def whole(self) -> bytes:
        """Give all that came, once."""
        whole, self._held = bytes(self._held), bytearray()
        return whole

    def _check(self, size: int) -> None:
        if size > self._limit:
            self._held = bytearray()
            message = f"the body has more than {self._limit:,} bytes, which are the most that is taken here"
            refuse_call("too_large", message)


def check_content_type(value: str | None, encoding: str | None = None) -> None:
    """Let JSON pass, in UTF-8, and not compressed: a few bytes of that become as many as one likes.

    A form of another site can send other types without a preflight, so that this guards sessions in browsers too. What came is not repeated:
    headers are in no answer.
    """
    # No pattern: one with blanks on both sides of something that may be missing tries all places for it.
    kind, *more = (part.strip() for part in (value or "").lower().split(";"))
    terms = {"=".join(side.strip() for side in part.partition("=")[::2]) for part in more if part}
    if kind != "application/json" or not terms <= _UTF_8:
        refuse_call("content_type", "Content-Type is not JSON in UTF-8: expected application/json")
    if (encoding or "identity").strip().lower() != "identity":
        refuse_call("content_type", "the body is encoded: expected it as it is, without Content-Encoding")


# --- JSON


def decode_body(kind: type[B], text: bytes, limits: Limits) -> B:
    """Read a body.

    It takes up to a third of a microsecond for each byte, and seconds for the largest one: above `READ_HERE_BYTES` it belongs into a thread.
    """
    plain = read_object(text, limits) if text.strip(b" \t\r\n") else {}
    return make_body(kind, plain, limits, size=len(text))


def make_body(kind: type[B], plain: dict[str, Any], limits: Limits, *, size: int) -> B:
    """Make a body of an object that was read already."""
    check_known(plain, kind.__struct_fields__)
    files = plain.get("attachments")
    if issubclass(kind, ChatBody) and isinstance(files, list):
        for place, file in enumerate(files):
            if isinstance(file, dict):
                check_known(file, AttachmentBody.__struct_fields__, f"attachments[{place}].")
    try:
        body = converter_of(kind)(plain)
    except msgspec.ValidationError as error:
        _refuse_field_of(str(error))
    if isinstance(body, ChatBody):
        _check_size_without_files(size, body, limits)
    _check_values(body, limits)
    return body


# Of a text no more than a piece: longer ones come by themselves, and no call of C may read all of a large body.
_TEXTS: Final = re.compile(rb'"(?:[^"\\]++|\\.){0,%d}+"' % JSON_PIECE_BYTES, re.DOTALL)
_TEXTS_AND_BRACKETS: Final = re.compile(_TEXTS.pattern + rb"|[\[\]{}]", re.DOTALL)
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


def read_object(text: bytes, limits: Limits) -> dict[str, Any]:
    """Read a JSON object, bounded in its depth and in how much there is in it."""
    long = _check_shape(text, limits)
    try:
        plain = read_apart(text, long) if long else read_json(text)
    except Misfit as misfit:
        raise CallRefused(error_answer("bad_json", f"the body is {misfit}"[:300])) from None
    if not isinstance(plain, dict):
        refuse_call("bad_json", "the body is JSON, and no object: expected one, at byte 0")
    return plain


def _check_shape(text: bytes, limits: Limits) -> list[LongText]:
    """Refuse what would hold the loop, or go too deep, before anything is made of it; find the texts longer than a piece."""
    outside, texts, long = bytearray(), 0, list[LongText]()
    for start, end, is_text in parts_of(text):
        if is_text:
            long.append((texts, start, end))
        rest, found = (b"", 1) if is_text else _TEXTS.subn(b"", text[start:end])
        outside += rest
        texts += found
        if texts >= MAX_JSON_TEXTS or len(outside) > limits.max_body_bytes:
            refuse_call(
                "too_large", f"the body has too many values: at most {MAX_JSON_TEXTS:,} texts are taken"
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
        if depth < 0:  # it is no JSON, and who reads it says so at once
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
    assert found is not None  # noqa: S101 - the pattern takes every text
    path, said = found["path"] or "", found["fault"]
    missing = _MISSING.fullmatch(said)
    if missing is not None:
        path = f"{path}.{missing[1]}" if path else missing[1]
        refuse_field(path, "is missing")
    refuse_field(path, f"cannot be this: {said}")


def _check_size_without_files(size: int, body: ChatBody, limits: Limits) -> None:
    """Let a large body pass only for its attachments: escapes in their contents, which make six bytes of one, are none."""
    if size - sum(len(file.base64) for file in body.attachments) > limits.max_body_bytes:
        _refuse_what_is_beside(limits)


def _refuse_what_is_beside(limits: Limits) -> NoReturn:
    message = f"the body has more than {limits.max_body_bytes:,} bytes beside the contents of its attachments"
    refuse_call("too_large", message)


def _check_values(body: msgspec.Struct, limits: Limits) -> None:
    for name in body.__struct_fields__:
        value = getattr(body, name)
        if value is None:
            continue
        if name in ID_FIELDS:
            check_id(name, value, of_session=ID_FIELDS[name])
        elif name in WORD_FIELDS:
            _check_word(name, value, WORD_FIELDS[name])
        elif name in ("at", "to") and isinstance(body, ForkBody | RewindBody) and value < 0:
            refuse_field(name, f"is {value}: expected a whole number from 0")
    if isinstance(body, ChatBody | SteerBody):
        has_more = getattr(body, "attachments", ()) or getattr(body, "content", None)
        if not body.message.strip() and not has_more:
            refuse_field("message", "is missing or empty: say something, or bring attachments")
        _check_size("message", body.message, limits)
    if isinstance(body, ChatBody | CreateSessionBody):
        _check_metadata(body.metadata, limits)
    if isinstance(body, RespondBody) and isinstance(body.response, str):
        _check_size("response", body.response, limits)


def _check_metadata(metadata: dict[str, Any], limits: Limits) -> None:
    try:
        check_metadata(metadata, limits)
    except TooLarge as error:
        refuse_call("too_large", f"{error}", more={"field": "metadata"})
    except OptionError as error:
        refuse_call("field_invalid", f"{error}", more={"field": "metadata"})


def _check_word(name: str, value: str, limit: int) -> None:
    if not value.strip():
        refuse_field(name, "is empty: leave it out, or say something")
    if len(value) > limit:
        refuse_field(name, f"has more than {limit:,} characters")


def _check_size(name: str, text: str, limits: Limits) -> None:
    if len(text.encode("utf-8", "replace")) > limits.max_message_bytes:
        message = f"{name} has more than {limits.max_message_bytes:,} bytes: put the rest into a file"
        refuse_call("too_large", message, more={"field": name})


# --- attachments


def decode_files(body: ChatBody, limits: Limits) -> tuple[Attachment, ...]:
    """Decode the attachments of a body. Their sizes are looked at first, so that what is too much is not made."""
    files = body.attachments
    if len(files) > limits.max_attachments:
        refuse_call("too_large", f"{len(files)} attachments, at most {limits.max_attachments} are taken")
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
                raise binascii.Error  # noqa: TRY301 - said below
            pieces.append(base64.b64decode(piece.encode("ascii"), validate=True))
            at += JSON_PIECE_BYTES
        pieces.append(base64.b64decode(text[at:].encode("ascii"), validate=True))
        return b"".join(pieces)
    except (binascii.Error, ValueError):
        message = f"attachments[{place}].base64 is no base64: expected A-Z a-z 0-9 + / in groups of four, padded with ="
        raise CallRefused(error_answer("attachment_invalid", message, more={"index": place})) from None


def body_limit(kind: type[msgspec.Struct], limits: Limits) -> int:
    """Say how many bytes a body may have while it comes in."""
    return limits.max_body_with_attachments_bytes if kind is ChatBody else limits.max_body_bytes


# Limits of a connection: number of headers, size and speed of a body, and whether the caller left.
#
# The server passes ASGI messages one by one and enforces none of these limits itself.

AsgiReceive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
"""Gives the next message of a connection, as of ASGI."""

AsgiSend: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
"""Takes a message of an application, as of ASGI."""

AsgiApp: TypeAlias = Callable[[MutableMapping[str, Any], AsgiReceive, AsgiSend], Awaitable[None]]
"""An application, as of ASGI 3."""

MAX_HEADERS: Final = 100
MAX_HEADER_BYTES: Final = 32 << 10

SLOW_START_SECONDS: Final = 30.0
"""How long a body may take however small it is."""

SLOWEST_BYTES_PER_SECOND: Final = 4 << 10
"""How fast a body has to come behind that, on the average."""

MAX_BYTES_AT_ONCE: Final = 256 << 20
"""Of all bodies that a process reads at one time; of those of one caller at most half of that, so that others have room."""


class CallerLeft(Exception):
    """The caller has closed the connection, so no answer is read. Caught at the gateway's edge."""


def judge_headers(scope: Mapping[str, Any]) -> ErrorAnswer | None:
    """Refuse a call with more headers, or a longer path and query, than any has that means well: all later code goes through them."""
    headers = scope["headers"]
    size = sum(len(name) + len(value) for name, value in headers)
    size += len(scope.get("raw_path") or b"") + len(scope.get("query_string", b""))
    if len(headers) <= MAX_HEADERS and size <= MAX_HEADER_BYTES:
        return None
    return error_answer(
        "headers_too_large",
        f"expected at most {MAX_HEADERS} headers, and {MAX_HEADER_BYTES:,} bytes of them with the path and its query",
    )


class BodyReader:
    """Reads bodies of calls, and bounds what all of them take together."""

    def __init__(
        self,
        *,
        max_bytes_at_once: int = MAX_BYTES_AT_ONCE,
        slow_start_seconds: float = SLOW_START_SECONDS,
        slowest_bytes_per_second: int = SLOWEST_BYTES_PER_SECOND,
    ) -> None:
        """Read none yet."""
        self._max_bytes_at_once = max_bytes_at_once
        self._slow_start_seconds = slow_start_seconds
        self._slowest = slowest_bytes_per_second
        self._held_bytes = 0
        self._held_of: dict[Hashable, int] = {}

    @property
    def held_bytes(self) -> int:
        """How much has come of the bodies that are being read."""
        return self._held_bytes

    async def read(
        self,
        receive: AsgiReceive,
        headers: Mapping[str, str],
        max_bytes: int,
        *,
        caller: Hashable = None,
    ) -> bytes:
        """Read a body to its end.

        Cancellation: What had come is forgotten.
        """
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
        if self._held_bytes + size > self._max_bytes_at_once:
            refuse_call("server_full", "the server reads as many bodies as it has room for")
        if caller is not None and 2 * (self._held_of.get(caller, 0) + size) > self._max_bytes_at_once:
            message = "as many bodies of this caller are being read as there is room for"
            raise CallRefused(error_answer("too_many_requests", message, headers={"retry-after": "5"}))

    def _hold(self, size: int, caller: Hashable) -> None:
        self._held_bytes += size
        held = self._held_of.pop(caller, 0) + size
        if held:  # else a caller would be kept for each that there ever was
            self._held_of[caller] = held


async def wait_left(receive: AsgiReceive) -> None:
    """Wait until the caller of a call whose body was read has closed the connection.

    The server tells a plain route nothing of that, and cancels none.

    Cancellation: A checkpoint.
    """
    while (await receive())["type"] != "http.disconnect":
        pass
