"""What calls bring: bodies, ids and numbers, read strictly, each fault named with what to do about it.

Pure: bytes and texts in, values out. A body is bounded while it comes in, looked at for what would hold the loop before anything is
made of it, and then read into its struct; nothing of a refused one is kept, and no message repeats an id. What a field means for a
session, and who may call, is decided elsewhere.
"""

import base64
import binascii
import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

import msgspec

from agentrail.core.wire.json_text import read_json
from agentrail.core.wire.shapes import Misfit
from agentrail.frozen import MAX_CONTAINERS
from agentrail.gateway.answers import CallRefused, call_refused
from agentrail.host.identity import fault_of_name, fault_of_session_id
from agentrail.structs import Value

MAX_BODY_BYTES: Final = 1 << 20
"""Of all that is no content of an attachment."""

MAX_BODY_WITH_FILES_BYTES: Final = 36 << 20
"""Of a body that may bring attachments."""

MAX_TEXT_BYTES: Final = 256 << 10
"""Of the words of a user, as UTF-8."""

MAX_JSON_DEPTH: Final = 64

MAX_JSON_TEXTS: Final = 100_000
"""How many texts a body may have, keys among them: each is made anew while others wait."""

MAX_WORD_CHARACTERS: Final = 128
MAX_URL_CHARACTERS: Final = 2_000
MAX_CURSOR: Final = (1 << 53) - 1
"""The largest whole number that every client can hold."""

B = TypeVar("B", bound=msgspec.Struct)


# --- the bodies


class AttachmentBody(Value, frozen=True, kw_only=True):
    """A file in a body.

    Attributes:
        name: As the caller calls it.
        mime_type: As the caller says.
        base64: Its content.
    """

    name: str
    mime_type: str
    base64: str


class ChatBody(Value, frozen=True, kw_only=True):
    """A message of a user: of `/chat`, `/stream` and `/sessions/{id}/prompt`.

    Attributes:
        message: What it says; may be empty where there are attachments.
        agent_id: The profile; None for that of the session, or the default.
        session_id: Where it goes; None for a new session.
        attachments: Files that come with it.
        mode: What a profile that is a function is given.
        client_id: The caller's name of it, so that it can be sent again.
        when_busy: What becomes of it in a session that works; None for the default.
        on_disconnect: What becomes of its cycle when the caller leaves; None for the default.
        webhook: Where its end is told.
        metadata: What the caller says besides.
        tenant_id: Whose it is; must agree with the token.
        user_id: Who of them; must agree with the token.
    """

    message: str = ""
    agent_id: str | None = None
    session_id: str | None = None
    attachments: tuple[AttachmentBody, ...] = ()
    mode: str | None = None
    client_id: str | None = None
    when_busy: Literal["queue", "steer", "refuse"] | None = None
    on_disconnect: Literal["continue", "abort"] | None = None
    webhook: str | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    tenant_id: str | None = None
    user_id: str | None = None


class CreateSessionBody(Value, frozen=True, kw_only=True):
    """What a session is created with.

    Attributes:
        agent_id: The profile; None for the default.
        session_id: Its id; None for a new one.
        model: In place of that of the profile.
        metadata: What the caller says besides.
    """

    agent_id: str | None = None
    session_id: str | None = None
    model: str | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class SteerBody(Value, frozen=True, kw_only=True):
    """Words into the running cycle.

    Attributes:
        message: What to say.
        client_id: As of `ChatBody`.
    """

    message: str
    client_id: str | None = None


class AbortBody(Value, frozen=True, kw_only=True):
    """What is to be stopped.

    Attributes:
        reason: For people.
        kill_tools: As of `Session.abort`.
        clear_queue: As of `Session.abort`.
        call_id: One call in place of the cycle.
    """

    reason: str | None = None
    kill_tools: Literal["killable", "all", "none"] = "killable"
    clear_queue: bool = False
    call_id: str | None = None


class ApproveBody(Value, frozen=True, kw_only=True):
    """A call that may run.

    Attributes:
        approval_id: Which one.
        arguments_hash: Of the arguments that were shown; one of others is refused.
        arguments: What shall run instead.
        kind: Once, or always.
        auto_resume: Whether the model reads the result.
    """

    approval_id: str
    arguments_hash: str | None = None
    arguments: dict[str, Any] | None = None
    kind: Literal["once", "always"] = "once"
    auto_resume: bool = True


class RejectBody(Value, frozen=True, kw_only=True):
    """A call that may not run.

    Attributes:
        approval_id: Which one.
        reason: What the model reads.
        auto_resume: Whether the model gets a turn to react.
    """

    approval_id: str
    reason: str | None = None
    auto_resume: bool = False


class RespondBody(Value, frozen=True, kw_only=True):
    """An answer to a question.

    Attributes:
        ref: Which one.
        response: In words, the number of an option, or the object that was filled in.
    """

    ref: str
    response: str | int | dict[str, Any]


class ModelBody(Value, frozen=True, kw_only=True):
    """Another model.

    Attributes:
        model: Its name.
        provider_opts: What its provider takes.
    """

    model: str
    provider_opts: dict[str, Any] = msgspec.field(default_factory=dict)


class ForkBody(Value, frozen=True, kw_only=True):
    """Where a fork begins.

    Attributes:
        at: Behind which record; None for the last.
        session_id: Its id; None for a new one.
    """

    at: int | None = None
    session_id: str | None = None


class RewindBody(Value, frozen=True, kw_only=True):
    """Where a session goes back to.

    Attributes:
        to: Behind which record.
    """

    to: int


class CompactBody(Value, frozen=True, kw_only=True):
    """Why a conversation is to be summarised.

    Attributes:
        reason: For people.
    """

    reason: str | None = None


class CancelBody(Value, frozen=True, kw_only=True):
    """Why a request is cancelled.

    Attributes:
        reason: For people.
    """

    reason: str | None = None


BODIES: Final[tuple[type[msgspec.Struct], ...]] = (
    ChatBody,
    CreateSessionBody,
    SteerBody,
    AbortBody,
    ApproveBody,
    RejectBody,
    RespondBody,
    ModelBody,
    ForkBody,
    RewindBody,
    CompactBody,
    CancelBody,
)
"""The body of each route that takes one."""

_IDS: Final[Mapping[str, bool]] = {
    "session_id": True,
    "agent_id": False,
    "client_id": False,
    "tenant_id": False,
    "user_id": False,
}
"""The fields that are ids, and whether by the narrower rule, that of sessions."""

_WORDS: Final[Mapping[str, int]] = {
    "mode": MAX_WORD_CHARACTERS,
    "model": MAX_WORD_CHARACTERS,
    "approval_id": MAX_WORD_CHARACTERS,
    "call_id": MAX_WORD_CHARACTERS,
    "ref": MAX_WORD_CHARACTERS,
    "arguments_hash": MAX_WORD_CHARACTERS,
    "reason": MAX_URL_CHARACTERS,
    "webhook": MAX_URL_CHARACTERS,
}
"""The fields that are short, and how many characters they may have."""


# --- bytes


class BodyBytes:
    """A body that comes in, counted while it does: what is too large is refused before it is there."""

    __slots__ = ("_limit", "_pieces", "_size")

    def __init__(self, limit: int, *, announced: str | None = None) -> None:
        """Begin with nothing.

        Args:
            limit: How many bytes may come.
            announced: `Content-Length`, where there is one. It may lie, so the bytes count all the same.

        Raises:
            CallRefused: It announces too many, or no number.
        """
        self._limit = limit
        self._size = 0
        self._pieces: list[bytes] = []
        if announced is not None:
            if not re.fullmatch(r"[0-9]{1,19}", announced):
                raise call_refused("bad_json", "Content-Length is no whole number")
            self._check(int(announced))

    def add(self, piece: bytes) -> None:
        """Take what came.

        Raises:
            CallRefused: It is too much, 413; all of it is forgotten.
        """
        self._size += len(piece)
        self._check(self._size)
        self._pieces.append(piece)

    def whole(self) -> bytes:
        """Give all that came, once."""
        whole, self._pieces = b"".join(self._pieces), []
        return whole

    def _check(self, size: int) -> None:
        if size > self._limit:
            self._pieces = []
            message = f"the body has more than {self._limit:,} bytes, which are the most that is taken here"
            raise call_refused("too_large", message)


def check_content_type(value: str | None) -> None:
    """Let JSON pass, in UTF-8.

    A form of another site can send other types without a preflight, so that this guards sessions in browsers too.

    Raises:
        CallRefused: 415.
    """
    kind, _, rest = (value or "").partition(";")
    charset = re.fullmatch(r'\s*charset\s*=\s*"?([A-Za-z0-9_-]+)"?\s*;?\s*', rest)
    known = not rest.strip(" ;") or (charset is not None and charset[1].lower() in ("utf-8", "utf8"))
    if kind.strip().lower() != "application/json" or not known:
        raise call_refused("content_type", f"Content-Type is {value!r:.80}: expected application/json")


# --- JSON


def decode_body(kind: type[B], text: bytes) -> B:
    """Read a body.

    Args:
        kind: One of `BODIES`.
        text: All that came. Nothing at all is taken for `{}`, for calls that need nothing said.

    Returns:
        The body; its ids, words and texts are as they have to be.

    Raises:
        CallRefused: 400, 413 or 422, with what is wrong.

    It takes up to a fifth of a second for the largest one: above a megabyte it belongs into a thread.
    """
    plain = _read_object(text) if text.strip(b" \t\r\n") else {}
    _check_names(plain, kind.__struct_fields__)
    files = plain.get("attachments")
    if kind is ChatBody and isinstance(files, list):
        for place, file in enumerate(files):
            if isinstance(file, dict):
                _check_names(file, AttachmentBody.__struct_fields__, f"attachments[{place}].")
    try:
        body = msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise _field_invalid(str(error)) from None
    _check_values(body)
    return body


_TEXTS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_AT_BYTE: Final = re.compile(r"\(byte \d+\)")


def _read_object(text: bytes) -> dict[str, Any]:
    _check_shape(text)
    try:
        plain = read_json(text)
    except Misfit as misfit:
        raise call_refused("bad_json", f"the body is {misfit}"[:300]) from None
    if not isinstance(plain, dict):
        raise call_refused("bad_json", "the body is JSON, and no object: expected one, at byte 0")
    return plain


def _check_shape(text: bytes) -> None:
    """Refuse what would hold the loop, or go too deep, before anything is made of it.

    Raises:
        CallRefused: 413, or 400 with the place.
    """
    # In C, and never further than the bound: a text is taken out whole, whatever its length.
    outside, texts = _TEXTS.subn(b"", text, count=MAX_JSON_TEXTS)
    if texts == MAX_JSON_TEXTS or len(outside) > MAX_BODY_BYTES:
        raise call_refused("too_large", f"the body has too many values: at most {MAX_JSON_TEXTS:,} texts are taken")
    brackets = outside.translate(None, _NOT_BRACKETS)
    if brackets.count(b"[") + brackets.count(b"{") > MAX_CONTAINERS:
        raise call_refused("too_large", f"the body has more than {MAX_CONTAINERS:,} objects and arrays")
    depth = 0
    for bracket in brackets:
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_JSON_DEPTH:
            place = _place_of_depth(text)
            message = f"the body is nested more deeply than {MAX_JSON_DEPTH} levels, at byte {place}"
            raise call_refused("bad_json", message)


def _place_of_depth(text: bytes) -> int:
    depth = 0
    for found in re.finditer(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{}]', text, re.DOTALL):
        if found[0] in (b"[", b"{"):
            depth += 1
            if depth > MAX_JSON_DEPTH:
                return found.start()
        elif found[0] in (b"]", b"}"):
            depth -= 1
    return len(text)


def _check_names(given: Mapping[str, Any], known: tuple[str, ...], before: str = "") -> None:
    unknown = next((name for name in given if name not in known), None)
    if unknown is None:
        return
    near = difflib.get_close_matches(unknown[:MAX_WORD_CHARACTERS], known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
    raise call_refused(
        "field_unknown", f"{before}{unknown[:80]} is no field of this body", hint=hint, more={"field": before + unknown[:80]}
    )


_MISSING: Final = re.compile(r"Object missing required field `(\w+)`")
_FAULT: Final = re.compile(r"(?P<fault>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)


def _field_invalid(fault: str) -> CallRefused:
    found = _FAULT.fullmatch(fault)
    assert found is not None  # noqa: S101 - the pattern takes every text
    path, said = found["path"] or "", found["fault"]
    missing = _MISSING.fullmatch(said)
    if missing is not None:
        path = f"{path}.{missing[1]}" if path else missing[1]
        return _refused_field(path, "is missing")
    return _refused_field(path, f"cannot be this: {said}")


def _refused_field(name: str, what: str) -> CallRefused:
    return call_refused("field_invalid", f"{name} {what}"[:300], more={"field": name})


def _check_values(body: msgspec.Struct) -> None:
    for name in body.__struct_fields__:
        value = getattr(body, name)
        if value is None:
            continue
        if name in _IDS:
            check_id(name, value, of_session=_IDS[name])
        elif name in _WORDS:
            _check_word(name, value, _WORDS[name])
        elif name in ("at", "to") and value < 0:
            raise _refused_field(name, f"is {value}: expected a whole number from 0")
    if isinstance(body, ChatBody | SteerBody):
        _check_message(body.message, "attachments" if getattr(body, "attachments", ()) else None)
    if isinstance(body, RespondBody) and isinstance(body.response, str):
        _check_size("response", body.response)


def _check_word(name: str, value: str, limit: int) -> None:
    if not value.strip():
        raise _refused_field(name, "is empty: leave it out, or say something")
    if len(value) > limit:
        raise _refused_field(name, f"has more than {limit:,} characters")


def _check_message(message: str, instead: str | None) -> None:
    if not message.strip() and instead is None:
        raise _refused_field("message", "is missing or empty: say something, or bring attachments")
    _check_size("message", message)


def _check_size(name: str, text: str) -> None:
    if len(text) * 4 > MAX_TEXT_BYTES and len(text.encode("utf-8", "replace")) > MAX_TEXT_BYTES:
        message = f"{name} has more than {MAX_TEXT_BYTES:,} bytes: put the rest into a file"
        raise call_refused("too_large", message, more={"field": name})


# --- ids, numbers, words of a path, a query or a header


def check_id(name: str, value: str, *, of_session: bool = False) -> str:
    """Let an id pass: out of a body, a path, a query or a header.

    Args:
        name: Of the field.
        value: What came.
        of_session: Whether it is the id of a session, which has no `@` and no `+`.

    Raises:
        CallRefused: 422 `id_invalid`, which does not repeat it.
    """
    fault = fault_of_session_id(name, value) if of_session else fault_of_name(name, value)
    if fault is not None:
        raise call_refused("id_invalid", fault, more={"field": name})
    return value


def check_same_session(body: ChatBody, session_id: str) -> None:
    """Let a body pass that names no session, or the one in the path.

    Raises:
        CallRefused: 422: it names another one.
    """
    if body.session_id not in (None, session_id):
        raise _refused_field("session_id", "is not the session in the path: leave it out")


def named_by_client(body_id: str | None, header: str | None) -> str | None:
    """Give the caller's name of a message: `client_id` of the body, or the header `Idempotency-Key`.

    Raises:
        CallRefused: 422: the header is no id, or both are there and differ.
    """
    if header is not None:
        check_id("Idempotency-Key", header)
        if body_id not in (None, header):
            raise _refused_field("client_id", "is not what Idempotency-Key says: send one of both")
    return body_id if body_id is not None else header


_WHOLE: Final = re.compile(r"[0-9]{1,16}")


def cursor_of(last_event_id: str | None, after: str | None) -> int | None:
    """Give the number that a reader goes on after; None for one that begins.

    Args:
        last_event_id: The header `Last-Event-ID`. It goes first: a browser that comes back sends the query of its beginning again.
        after: Of the query.

    Raises:
        CallRefused: 400 `cursor_invalid`: either of them is no whole number from 0.
    """
    found = [_cursor(name, text) for name, text in (("Last-Event-ID", last_event_id), ("after", after))]
    return found[0] if found[0] is not None else found[1]


def _cursor(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not _WHOLE.fullmatch(text) or int(text) > MAX_CURSOR:
        raise call_refused("cursor_invalid", f"{name} is {text!r:.40}: expected a whole number from 0")
    return int(text)


def whole_number(name: str, text: str | None, default: int, *, least: int = 0, most: int = MAX_CURSOR) -> int:
    """Read a number of a query, such as `limit=50`.

    Raises:
        CallRefused: 422: it is none, or out of bounds.
    """
    if text is None:
        return default
    if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
        raise _refused_field(name, f"is {text!r:.40}: expected a whole number from {least} to {most}")
    return int(text)


def yes_or_no(name: str, text: str | None) -> bool:
    """Read a flag of a query, such as `wait=true`; left out means no.

    Raises:
        CallRefused: 422: it is neither `true` nor `false`.
    """
    if text not in (None, "true", "false"):
        raise _refused_field(name, f"is {text!r:.40}: expected true or false")
    return text == "true"


def check_query(given: Iterable[str], known: tuple[str, ...]) -> None:
    """Let a query pass whose names a route knows, each once.

    Raises:
        CallRefused: 400 for a token, which is not repeated; 422 for any other unknown name.
    """
    names = list(given)
    if any(name.lower() in ("token", "access_token") for name in names):
        raise call_refused("token_in_url", "a token in a URL is refused")
    twice = next((name for place, name in enumerate(names) if name in names[:place] and name in known), None)
    if twice is not None:
        raise _refused_field(twice, "stands twice in the query")
    _check_names(dict.fromkeys(names), known or ("none",), "?")


# --- attachments

DecodedFile: TypeAlias = tuple[str, str, bytes]
"""Name and type as the caller says, and the content."""

MAX_FILES: Final = 10
MAX_FILE_BYTES: Final = 10 << 20
MAX_FILES_BYTES: Final = 25 << 20


def decode_files(body: ChatBody) -> tuple[DecodedFile, ...]:
    """Decode the attachments of a body. Their sizes are looked at first, so that what is too much is not made.

    Returns:
        Name, type and content of each, in order; names are not cleaned.

    Raises:
        CallRefused: 413: too many, or too large; 422 `attachment_invalid`, with the index: broken base64.
    """
    files = body.attachments
    if len(files) > MAX_FILES:
        raise call_refused("too_large", f"{len(files)} attachments, at most {MAX_FILES} are taken")
    sizes = [len(file.base64) * 3 // 4 - file.base64[-2:].count("=") for file in files]
    for place, size in enumerate(sizes):
        if size > MAX_FILE_BYTES:
            message = f"attachments[{place}] has more than {MAX_FILE_BYTES:,} bytes"
            raise call_refused("too_large", message, more={"index": place})
    if sum(sizes) > MAX_FILES_BYTES:
        raise call_refused("too_large", f"the attachments have more than {MAX_FILES_BYTES:,} bytes together")
    return tuple((file.name, file.mime_type, _decoded(place, file)) for place, file in enumerate(files))


def _decoded(place: int, file: AttachmentBody) -> bytes:
    try:
        return base64.b64decode(file.base64.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        message = f"attachments[{place}].base64 is no base64: expected A-Z a-z 0-9 + / in groups of four, padded with ="
        raise call_refused("attachment_invalid", message, more={"index": place}) from None


def check_size_without_files(size: int, body: ChatBody) -> None:
    """Let a large body pass only for its attachments.

    Args:
        size: Of all that came, in bytes.
        body: What it says.

    Raises:
        CallRefused: 413.
    """
    contents = sum(len(file.base64) for file in body.attachments)
    if size - contents > MAX_BODY_BYTES:
        message = f"the body has more than {MAX_BODY_BYTES:,} bytes beside the contents of its attachments"
        raise call_refused("too_large", message)


def body_limit(kind: type[msgspec.Struct]) -> int:
    """Say how many bytes a body may have while it comes in."""
    return MAX_BODY_WITH_FILES_BYTES if kind is ChatBody else MAX_BODY_BYTES


def described_bodies() -> dict[str, Any]:
    """Give the JSON Schema of each body, by the name of its class: what a page of the interface is made of."""
    return cast("dict[str, Any]", msgspec.json.schema_components(BODIES, ref_template="#/components/schemas/{name}")[1])
