"""Records and their bodies.

A record is one line of a session's journal, numbered without gaps and chained by hashes.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from agentrail.core.protocol.request import EffectId
from agentrail.core.session.state import SessionState
from agentrail.core.session.state_codec import (
    decode_session,
    decode_stack,
    decode_toolbox,
    encode_session,
)
from agentrail.core.session.state_shapes import NO_PLUGINS, Resolve
from agentrail.core.stack.loaded_stack import Ask, call_handler as plainly
from agentrail.errors import CodecError
from agentrail.messages import SessionId
from agentrail.structs import Value, always_encoded, decoder_of

RECORD_VERSION: Final = 3
"""Version of the form of a record and of all bodies.

In version 1 bodies of signals were longer: see `recorded_steps`. Since version 3 a `drifted` record holds a state.
"""

OPENED: Final = "opened"
HEARD: Final = "heard"
TAKEN: Final = "taken"
CHANGED: Final = "changed"
DRIFTED: Final = "drifted"
REWOUND: Final = "rewound"
CLOSED: Final = "closed"
ERASED: Final = "erased"

OWN_KINDS: Final = frozenset({OPENED, HEARD, TAKEN, CHANGED, DRIFTED, REWOUND, CLOSED, ERASED})
"""Records that are not signals. Every other kind is the tag of a signal."""

NEWER_KINDS: Final[Mapping[str, int]] = MappingProxyType({})
"""Kinds that the first release for several nodes did not know, with the codec that introduced each. The others have codec 1."""

CODEC: Final = max(NEWER_KINDS.values(), default=1)
"""Highest codec of records that this version reads. A node takes a tree only if all records of the tree have this codec or a lower one."""

NO_HASH: Final = bytes(16)
"""The hash before the first record of a journal."""


class Draft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A record before it gets a number, an owner and a hash.

    Attributes:
        at_ms: When, on the clock of signals, in milliseconds since 1970. For `taken`, on the clock of the store.
        kind: One of `OWN_KINDS`, or the tag of a signal.
        body: A JSON object, UTF-8, without a line break.
        does: The decisions of the step, as written by `outline`: one line for each effect that is not ephemeral.
        events: The number of the last event after this step.
    """

    at_ms: int
    kind: str
    body: bytes
    does: str = ""
    events: int = 0


class Record(Draft, frozen=True, kw_only=True, gc=False):
    """One record. `scope`, `session` and `seq` are its key.

    Attributes:
        scope: Scope of the session. Empty for one without.
        session: The session of the journal.
        seq: Its number, from 1, without gaps.
        epoch: How often the session had been taken over when it was written. 1 for its first owner.
        hash: BLAKE2b-128 of the previous record's hash and of this record.
    """

    scope: str
    session: SessionId
    seq: int
    epoch: int
    hash: bytes = NO_HASH


class Tail(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The end of a journal.

    Attributes:
        seq: The number of its last record. 0 for an empty journal.
        epoch: The epoch to write with.
        hash: The hash of its last record.
    """

    seq: int = 0
    epoch: int = 1
    hash: bytes = NO_HASH


def codec_of(records: Iterable[Record]) -> int:
    """Return the highest codec of records."""
    return max([NEWER_KINDS.get(record.kind, 1) for record in records], default=1)


def hash_of(before: bytes, record: Record) -> bytes:
    """Return the correct hash of a record. Its `hash` field is ignored.

    Each part is written with its length, so that no two records give the same text.
    """
    scope, session, kind = record.scope.encode(), record.session.encode(), record.kind.encode()
    body, does = record.body, record.does.encode()
    numbers = (
        f"{record.seq} {record.epoch} {record.at_ms} {record.events} "
        f"{len(scope)} {len(session)} {len(kind)} {len(body)} {len(does)}\n"
    )
    text = b"".join((before, numbers.encode(), scope, session, kind, body, does))
    return hashlib.blake2b(text, digest_size=16).digest()


def fits_behind(before: bytes, record: Record) -> bool:
    """Return whether the hash of a record is correct after this previous hash.

    An `erased` record has the hash of the original record, as its own and in its body, so the chain continues over
    it.
    """
    if record.kind == ERASED:
        return record.hash.hex().encode() in record.body
    return record.hash == hash_of(before, record)


def sealed(
    drafts: Iterable[Draft], tail: Tail, *, scope: str, session: SessionId
) -> tuple[tuple[Record, ...], Tail]:
    records: list[Record] = []
    seq, last = tail.seq, tail.hash
    for draft in drafts:
        seq += 1
        record = Record(
            scope=scope,
            session=session,
            seq=seq,
            epoch=tail.epoch,
            at_ms=draft.at_ms,
            kind=draft.kind,
            body=draft.body,
            does=draft.does,
            events=draft.events,
        )
        last = hash_of(last, record)
        records.append(replace(record, hash=last))
    return tuple(records), Tail(seq=seq, epoch=tail.epoch, hash=last)


def first_broken(records: Iterable[Record], tail: Tail = Tail()) -> int | None:  # noqa: B008 - frozen
    """Return the number of the first record that does not follow the one before it, or None if all do."""
    seq, epoch, last = tail.seq, tail.epoch, tail.hash
    for record in records:
        seq += 1
        if record.seq != seq or record.epoch < epoch or not fits_behind(last, record):
            return seq
        epoch, last = record.epoch, record.hash
    return None


def tail_of(records: Iterable[Record], tail: Tail = Tail()) -> Tail:  # noqa: B008 - frozen
    """Return the end of a journal with these records after this tail."""
    for record in records:
        tail = Tail(seq=record.seq, epoch=record.epoch, hash=record.hash)
    return tail


class TakenBody(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The body of a `taken` record.

    Attributes:
        node: The node that took the session over. Empty if it has no owner now.
        cause: Why: `start`, `lease_over`, `gone`, `drain` or `restored`.
        engine: Its version of agentrail.
        version: Version of this form.
    """

    node: str
    cause: str
    engine: str = ""
    version: int = RECORD_VERSION


def taken_draft(*, node: str, cause: str, engine: str, at_ms: int, events: int) -> Draft:
    """Return the draft of a new owner's record. A store seals it, with the next higher epoch."""
    body = TakenBody(node=node, cause=cause, engine=engine)
    return Draft(at_ms=at_ms, kind=TAKEN, body=msgspec.json.encode(body), events=events)


# Bodies of records other than signals (those are in `recorded_steps`), and large values, which are stored
# next to records.  A body has a version. A newer version is refused as a whole, because half of a record
# would give another state.

# not compiled: it recurses as deep as its input, and only interpreted functions end with a RecursionError


B = TypeVar("B", bound=msgspec.Struct)


class OpenedBody(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The body of an `opened` record: the complete initial state of a session, from which alone it can be restored.

    Attributes:
        state: Same as in `encode_session`, before the first signal: configuration, model, tools, plugins with their
            first states, and initial messages.
        engine: The version of agentrail that started it.
        origin: Where its code is found: `package.module:NAME`, or another name known to its host. Empty for none.
        parent: Its parent session. Empty for a root.
        forked_from: The session that it was forked from, and the record number. None for none.
        version: Version of this form.
        node: The node that started it. Empty for none, and in older records.
    """

    # `node` was added later and is omitted when empty. msgspec always encodes a default that a function returns.
    state: Raw
    engine: str
    origin: str = always_encoded("")
    parent: str = always_encoded("")
    forked_from: tuple[SessionId, int] | None = always_encoded(None)
    version: int = always_encoded(RECORD_VERSION)
    node: str = ""


class ChangedBody(Value, frozen=True, kw_only=True):
    """The body of a `changed` record: tools and plugins of the session from here on, which no signal set.

    Attributes:
        tools: Same as in `encode_toolbox`.
        plugins: Same as in `encode_stack`: in order, with their states, perhaps of another version than before.
        engine: The version of agentrail from here on.
        version: Version of this form.
    """

    tools: Raw
    plugins: Raw
    engine: str = ""
    version: int = RECORD_VERSION


class DriftedBody(Value, frozen=True, kw_only=True):
    """The body of a `drifted` record: newer code folded the earlier records differently, and its result counts from here on.

    Attributes:
        first: The number of the first record that differed.
        what: How it differed: the recorded and the folded text, for users.
        events: The number of the last event from here on: the larger of both.
        engine: The version of agentrail whose code counts.
        state: Same as in `encode_session`: the state from which the session continues. `null` in records before
            version 3.
        begun: The open effects of that state that a record names.
        version: Version of this form.
    """

    first: int
    what: str
    events: int
    engine: str = ""
    state: Raw = Raw(b"null")
    begun: tuple[EffectId, ...] = ()
    version: int = RECORD_VERSION

    @property
    def has_state(self) -> bool:
        """Whether it holds the state that counts. Records before version 3 do not."""
        return bytes(self.state) != b"null"


class RewoundBody(Value, frozen=True, kw_only=True):
    """The body of a `rewound` record.

    Attributes:
        number: The record after which the session continues.
        version: Version of this form.
    """

    number: int
    version: int = RECORD_VERSION


class ClosedBody(Value, frozen=True, kw_only=True):
    """The body of a `closed` record.

    Attributes:
        reason: Why the session has ended, one line.
        version: Version of this form.
    """

    reason: str
    version: int = RECORD_VERSION


class ErasedBody(Value, frozen=True, kw_only=True):
    """The body of an `erased` record, which replaces a record whose content was removed.

    Attributes:
        number: Number of the record, kept by this one.
        hash: Hash of the original record, hexadecimal. The record keeps it as its own, so the chain continues over
            it.
        why: Such as `user forgotten`, or `retention`.
        kind: Kind of the original record. Empty if it was not stored.
        length: Length of the original body and outline, in bytes. 0 if it was not stored.
        version: Version of this form.
    """

    number: int
    hash: str
    why: str
    kind: str = ""
    length: int = 0
    version: int = RECORD_VERSION


# --- encoding


def encode_body(body: Value | TakenBody) -> bytes:
    """Encode a body: one JSON object, UTF-8, without a line break."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError as error:
        message = f"no {_name_of(type(body))} that can be stored: a lone surrogate in {error.object!r:.80}"
        raise CodecError(message, path="$") from error


def decode_opened(text: bytes | str) -> OpenedBody:
    """Decode the body of an `opened` record, except the state in it: see `open_state`."""
    return _read(OpenedBody, text)


def decode_changed(text: bytes | str) -> ChangedBody:
    """Decode the body of a `changed` record, except its contents: see `state_changed`."""
    return _read(ChangedBody, text)


def decode_drifted(text: bytes | str) -> DriftedBody:
    return _read(DriftedBody, text)


def decode_rewound(text: bytes | str) -> RewoundBody:
    return _read(RewoundBody, text)


def decode_erased(text: bytes | str) -> ErasedBody:
    return _read(ErasedBody, text)


def decode_taken(text: bytes | str) -> TakenBody:
    return _read(TakenBody, text)


class _Head(msgspec.Struct, frozen=True, gc=False):
    version: int


_HEADS: Final = decoder_of(_Head)
_BODIES: Final[Mapping[type, msgspec.json.Decoder[Any]]] = {
    kind: decoder_of(kind)
    for kind in (OpenedBody, ChangedBody, DriftedBody, RewoundBody, ErasedBody, TakenBody)
}


def _read(kind: type[B], text: bytes | str) -> B:
    name = _name_of(kind)
    try:
        version = _HEADS.decode(text).version
        if version > RECORD_VERSION:
            message = f"no {name}: at $.version: it is of version {version}, and this version reads up to {RECORD_VERSION}; a newer version wrote it"
            raise CodecError(message, path="$.version")
        if version < 1:
            message = f"no {name}: at $.version: expected a version >= 1, got {version}"
            raise CodecError(message, path="$.version")
        body: B = _BODIES[kind].decode(text)
        return body
    except (msgspec.DecodeError, RecursionError) as error:
        fault, _, path = str(error).partition(" - at `")
        place = path.rstrip("`") or "$"
        message = f"no {name}: at {place}: {fault}; pass what was written as one"
        raise CodecError(message, path=place) from error


def _name_of(kind: type) -> str:
    return f"{kind.__name__.removesuffix('Body').lower()} record"


# --- contents


def opened_body(
    state: SessionState,
    *,
    engine: str,
    origin: str = "",
    parent: str = "",
    forked_from: tuple[SessionId, int] | None = None,
) -> OpenedBody:
    return OpenedBody(
        state=Raw(encode_session(state)), engine=engine, origin=origin, parent=parent, forked_from=forked_from
    )


def open_state(text: bytes | str, resolve: Resolve = NO_PLUGINS, ask: Ask = plainly) -> SessionState:
    return decode_session(bytes(decode_opened(text).state), resolve, ask=ask)


def state_changed(
    state: SessionState, body: ChangedBody, resolve: Resolve = NO_PLUGINS, ask: Ask = plainly
) -> SessionState:
    stack, states = decode_stack(bytes(body.plugins), resolve, ask=ask)
    tools = decode_toolbox(bytes(body.tools))
    data = replace(state.data, tools=tools, stack=stack, plugin_states=states)
    return replace(state, data=data)


# --- large values

BLOB_LIMIT: Final = 65_536
"""In bytes of UTF-8. A longer text is stored next to the record."""

_BLOB: Final = "$blob"
_ESCAPED: Final = re.compile(r"\$+blob")
_MARK: Final = b'blob"'  # in every body that has a blob, or an object that looks like one


def split_blobs(body: bytes, limit: int = BLOB_LIMIT) -> tuple[bytes, dict[str, bytes]]:
    """Move the large texts out of a body, and replace each with `{"$blob": SHA-256}`.

    An object that already looks like that, because a caller or a model wrote it, gets one more `$` in its key.
    `join_blobs` removes it.
    """
    if len(body) <= limit and _MARK not in body:
        return body, {}
    blobs: dict[str, bytes] = {}
    made = _without_blobs(msgspec.json.decode(body), limit, blobs)
    return msgspec.json.encode(made), blobs


# Not inside `split_blobs`: a function that refers to itself would keep the blobs until the collector runs.
def _without_blobs(value: Any, limit: int, blobs: dict[str, bytes]) -> Any:
    if isinstance(value, str):
        if len(value) * 4 <= limit:  # at most four bytes per character
            return value
        content = value.encode()
        if len(content) <= limit:
            return value
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {_BLOB: digest}
    if isinstance(value, dict):
        if (own := _own_mark(value)) is not None:
            return {f"${own}": _without_blobs(value[own], limit, blobs)}
        return {name: _without_blobs(item, limit, blobs) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_blobs(item, limit, blobs) for item in value]
    return value


def split_draft(draft: Draft) -> tuple[Draft, dict[str, bytes]]:
    """Move the large texts out of a draft, same as `split_blobs`. Without any, return the same object."""
    body, blobs = split_blobs(draft.body)
    return (draft if body is draft.body else replace(draft, body=body)), blobs


def join_blobs(body: bytes, get: Callable[[str], bytes | None]) -> bytes:
    """Insert large texts again: the inverse of `split_blobs`."""
    if _MARK not in body:
        return body

    def whole(value: Any) -> Any:
        if isinstance(value, dict):
            own = _own_mark(value)
            if own == _BLOB:
                return _text_of(value[own], get)
            if own is not None:
                return {own[1:]: whole(value[own])}
            return {name: whole(item) for name, item in value.items()}
        if isinstance(value, list):
            return [whole(item) for item in value]
        return value

    try:
        return msgspec.json.encode(whole(msgspec.json.decode(body)))
    except (msgspec.DecodeError, RecursionError) as error:
        raise _unreadable(error) from error


def blobs_of(body: bytes) -> frozenset[str]:
    """Return the SHA-256 digests of the large texts that a stored body needs."""
    if _MARK not in body:
        return frozenset()

    def found(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            if _own_mark(value) == _BLOB and isinstance(value[_BLOB], str):  # `join_blobs` refuses others
                yield value[_BLOB]
                return
            for item in value.values():
                yield from found(item)
        elif isinstance(value, list):
            for item in value:
                yield from found(item)

    try:
        return frozenset(found(msgspec.json.decode(body)))
    except (msgspec.DecodeError, RecursionError) as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> CodecError:
    why = "it is nested too deeply to be read" if isinstance(error, RecursionError) else error
    message = f"not a body of a record: {why}; pass what was written as one"
    return CodecError(message, path="$")


def _own_mark(value: dict[str, Any]) -> str | None:
    """Return the only key of an object that is a blob or looks like one, otherwise None."""
    if len(value) != 1:
        return None
    (name,) = value
    return name if _ESCAPED.fullmatch(name) else None


def _text_of(digest: object, get: Callable[[str], bytes | None]) -> str:
    content = get(digest) if isinstance(digest, str) else None
    if content is None:
        message = f"a large value is missing: {digest!r:.80} is in a record, but not in the store"
        raise CodecError(message, path="$")
    if hashlib.sha256(content).hexdigest() != digest:
        message = f"a large value is damaged: what the store has for {digest} has different content"
        raise CodecError(message, path="$")
    return content.decode()
