"""How a session, its conversation and receipts look on the wire, and how a client makes the values of it again.

Pure. Events have their form in `core.wire.codec`, and it is that one here too. All else is written as it is, every field under its own
name, so that a client in any language reads what the reference describes, and `RemoteSession` gives the very classes of `Session`.
"""

from typing import Any, Final, Literal, TypeAlias

import msgspec
from attrs import frozen
from msgspec import UNSET, Struct, UnsetType

from agentrail.core.session.projection import QueuedInput, Snapshot, Status
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
from agentrail.errors import CodecError
from agentrail.events import AbortReceipt, Todo
from agentrail.frozen import EMPTY, thawed
from agentrail.messages import JsonObject, Message
from agentrail.wire.plain import encode_plain

Receipt: TypeAlias = PromptReceipt | SteerReceipt | AbortReceipt


class SnapshotForm(Struct, frozen=True, kw_only=True):
    """A snapshot as it is written: the number in front, because a reader goes on from there."""

    seq: int
    status: Status
    queued: tuple[QueuedInput, ...]
    todos: tuple[Todo, ...]
    text: str
    messages: tuple[Message, ...]
    before: int
    metadata: dict[str, Any] | UnsetType = UNSET


class AcceptedForm(Struct, frozen=True, kw_only=True):
    """What a prompt is answered with: its receipt, and the request that it is.

    Attributes:
        request_id: Of the request.
        ref: The name of the prompt, which its events have too.
        seq: The number of the event that says that it was taken.
        queued: Whether it waits for its turn.
        position: In the queue, 0 is next.
    """

    request_id: str
    ref: str
    seq: int
    queued: bool
    position: int


@frozen(kw_only=True)
class MessagePage:
    """A part of a conversation.

    Attributes:
        messages: In order.
        next: How many stand in front of what comes behind them; None behind the last.
    """

    messages: tuple[Message, ...]
    next: int | None


# --- how a session stands


def encode_snapshot(snapshot: Snapshot, *, metadata: JsonObject = EMPTY) -> bytes:
    """Write `{seq, status, queued, todos, text, messages, before}`, and `metadata` where there is some.

    `messages` are the last ones, `before` is how many stand in front of them: `messages?after=` gives those.

    Args:
        snapshot: How it stands.
        metadata: What its caller said of it when it was created.
    """
    shown = snapshot.last_messages
    form = SnapshotForm(
        seq=snapshot.last_seq,
        status=snapshot.status,
        queued=snapshot.queued,
        todos=snapshot.todos,
        text=snapshot.text,
        messages=shown,
        before=snapshot.status.messages - len(shown),
        metadata=thawed(metadata) or UNSET,
    )
    return encode_plain(form)


def decode_snapshot(text: bytes) -> Snapshot:
    """Read what `encode_snapshot` wrote.

    Raises:
        CodecError: It is none.
    """
    return _snapshot_in(_read(_SNAPSHOTS, text))


def _snapshot_in(form: SnapshotForm) -> Snapshot:
    return Snapshot(
        status=form.status,
        queued=form.queued,
        todos=form.todos,
        text=form.text,
        last_seq=form.seq,
        last_messages=form.messages,
    )


def encode_status(status: Status) -> bytes:
    """Write how a session stands, every field under its name."""
    return encode_plain(status)


def decode_status(text: bytes) -> Status:
    """Read what `encode_status` wrote.

    Raises:
        CodecError: It is none.
    """
    status: Status = _read(_STATUSES, text)
    return status


# --- the conversation


def encode_messages(messages: tuple[Message, ...], *, after: int = 0, limit: int = 100) -> bytes:
    """Write a part of a conversation: `{messages, next}`.

    Args:
        messages: All of it.
        after: How many stand in front of the first that is wanted; beyond the end there are none.
        limit: How many are wanted at most, from 1 on.
    """
    page = page_of_messages(messages, after=after, limit=limit)
    return encode_plain({"messages": page.messages, "next": page.next})


def page_of_messages(messages: tuple[Message, ...], *, after: int = 0, limit: int = 100) -> MessagePage:
    """Give a part of a conversation; the arguments are those of `encode_messages`."""
    shown = messages[after : after + limit]
    behind = after + len(shown)
    return MessagePage(messages=shown, next=behind if shown and behind < len(messages) else None)


def decode_messages(text: bytes) -> MessagePage:
    """Read what `encode_messages` wrote.

    Raises:
        CodecError: It is none.
    """
    page: MessagePage = _read(_PAGES, text)
    return page


# --- receipts


def encode_receipt(receipt: Receipt) -> bytes:
    """Write a receipt, every field under its name. Which of the three it is follows from what was asked for."""
    return encode_plain(receipt)


def decode_receipt(kind: type[Struct], text: bytes) -> Any:
    """Read a receipt.

    Args:
        kind: `PromptReceipt`, `SteerReceipt` or `AbortReceipt`.
        text: What `encode_receipt` wrote.

    Raises:
        CodecError: It is none.
    """
    return _read(msgspec.json.Decoder(kind), text)


def encode_accepted(receipt: PromptReceipt, request_id: str) -> bytes:
    """Write what a prompt is answered with: `{request_id, ref, seq, queued, position}`."""
    told = AcceptedForm(
        request_id=request_id,
        ref=receipt.ref,
        seq=receipt.seq,
        queued=receipt.queued,
        position=receipt.position,
    )
    return encode_plain(told)


def encode_receipt_found(receipt: PromptReceipt | SteerReceipt | None) -> bytes:
    """Write `{of, receipt}`, where `of` is `prompt` or `steer`; `null` where there is none."""
    if receipt is None:
        return b"null"
    of = "prompt" if isinstance(receipt, PromptReceipt) else "steer"
    return encode_plain({"of": of, "receipt": receipt})


def decode_receipt_found(text: bytes) -> PromptReceipt | SteerReceipt | None:
    """Read what `encode_receipt_found` wrote.

    Raises:
        CodecError: It is none.
    """
    found: _ReceiptFound | None = _read(_RECEIPTS_FOUND, text)
    if found is None:
        return None
    receipt: PromptReceipt | SteerReceipt = decode_receipt(
        PromptReceipt if found.of == "prompt" else SteerReceipt, bytes(found.receipt)
    )
    return receipt


class _ReceiptFound(Struct, frozen=True, kw_only=True):
    of: Literal["prompt", "steer"]
    receipt: msgspec.Raw


# --- the past


class PastForm(Struct, frozen=True, kw_only=True):
    """What a session was behind a record, as it is written."""

    number: int
    at_ms: int
    snapshot: SnapshotForm
    messages: tuple[Message, ...]


def encode_past_state(number: int, at_ms: int, snapshot: Snapshot, messages: tuple[Message, ...]) -> bytes:
    """Write `{number, at_ms, snapshot, messages}`: what a session was behind a record."""
    form = msgspec.Raw(encode_snapshot(snapshot))
    return encode_plain({"number": number, "at_ms": at_ms, "snapshot": form, "messages": messages})


def decode_past_state(text: bytes) -> tuple[int, int, Snapshot, tuple[Message, ...]]:
    """Read what `encode_past_state` wrote, in the order of its arguments.

    Raises:
        CodecError: It is none.
    """
    form: PastForm = _read(_PASTS, text)
    return form.number, form.at_ms, _snapshot_in(form.snapshot), form.messages


def _read(decoder: msgspec.json.Decoder[Any], text: bytes) -> Any:
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"what the server sent cannot be read: {error}; its version may be a newer one"
        raise CodecError(message, path="$") from error


_SNAPSHOTS: Final = msgspec.json.Decoder(SnapshotForm)
_STATUSES: Final = msgspec.json.Decoder(Status)
_RECEIPTS_FOUND: Final = msgspec.json.Decoder(_ReceiptFound | None)
_PASTS: Final = msgspec.json.Decoder(PastForm)
_PAGES: Final = msgspec.json.Decoder(MessagePage)
