"""Encoding and decoding of sessions, conversations and receipts. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from attrs import frozen
from msgspec import UNSET, Struct, UnsetType

from agentrail.core.session.approval_details import ApprovalRule
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
from agentrail.core.session.views import (
    ChildSession,
    ContextLength,
    LiveText,
    QueuedInput,
    Snapshot,
    Status,
)
from agentrail.core.values.toolbox import EffectClass
from agentrail.errors import CodecError
from agentrail.events import AbortReceipt, Todo
from agentrail.frozen import EMPTY, thawed
from agentrail.messages import CallId, JsonObject, Message
from agentrail.structs import decoder_of, picked_fields, struct_from
from agentrail.wire.plain import encode_plain

T = TypeVar("T")
Receipt: TypeAlias = PromptReceipt | SteerReceipt | AbortReceipt


class ChildForm(Struct, frozen=True, kw_only=True):
    """A child session, as a snapshot lists it. `status.children` has its full status.

    Attributes:
        session_id: Id of the child session.
        call_id: The parent's call that started it.
        agent_id: Agent that it runs as, as named by the call that started it, or None if unknown.
        phase: One of the four phases, in lower case, or None if unknown.
    """

    session_id: str
    call_id: str | None
    agent_id: str | None
    phase: str | None


class LiveForm(Struct, frozen=True, kw_only=True):
    """Streamed output that is not committed yet.

    Attributes:
        attempt: Number of the open request's attempt at its turn, or 0 if no request is open.
        text: Response text so far.
        thinking: Thinking text so far.
        progress: Latest progress message of each call.
    """

    attempt: int
    text: str
    thinking: str
    progress: dict[str, str]


class SnapshotForm(Struct, frozen=True, kw_only=True):
    """An encoded snapshot. The event number comes first, because a reader continues from it.

    Attributes:
        seq: Number of the last committed event.
        status: Status of the session.
        queued: Queued user input, steering messages first.
        todos: The model's to-do list.
        text: Text of the streaming response so far.
        messages: The last messages.
        before: Number of earlier messages.
        title: Title that the model gave the conversation, or None before it sets one.
        agent_id: Profile of the session, or None if it has none.
        first_seq: Number of the first event that can still be read, if known.
        children: Child sessions.
        live: Streamed output that is not committed yet, or None if there is none.
        context: How full the model's context window is.
        first_words: First message to the session, up to 80 characters. Omitted if unknown.
        metadata: Metadata given when the session was created. Omitted if empty.
        effects: Effect class by tool: whether a call may run again. Tools that are not listed are `once`.
    """

    seq: int
    status: Status
    queued: tuple[QueuedInput, ...]
    todos: tuple[Todo, ...]
    text: str
    messages: tuple[Message, ...]
    before: int
    # Later fields have defaults: an older server omits them, and older clients ignore them.
    title: str | None = None
    agent_id: str | None = None
    first_seq: int = 1
    children: tuple[ChildForm, ...] = ()
    live: LiveForm | None = None
    context: ContextLength = ContextLength()
    first_words: str | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    effects: dict[str, EffectClass] = msgspec.field(default_factory=dict)


class AcceptedForm(Struct, frozen=True, kw_only=True):
    """Reply to a prompt: its receipt and its request id.

    Attributes:
        request_id: Id of the request.
        ref: Name of the prompt, also carried by its events.
        seq: Number of the event that records the prompt.
        queued: Whether the prompt waits in the queue.
        position: Position in the queue, where 0 is next.
    """

    request_id: str
    ref: str
    seq: int
    queued: bool
    position: int


@frozen(kw_only=True)
class MessagePage:
    """A page of a conversation.

    Attributes:
        messages: The messages in order.
        next: Value of `after` for the next page, or None on the last page.
    """

    messages: tuple[Message, ...]
    next: int | None


class RuleForm(ApprovalRule, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """An encoded approval rule of a user.

    Attributes:
        rule_id: Id with which the rule is revoked.
        session_id: Session that has the rule.
        tool: Name of the tool.
        command_family: Leading words of the commands that it covers, or None if it covers every call of the tool.
        exact: Whether it covers exactly this command. Otherwise it covers all simple commands that start with its words.
        words: Readable description of what the rule allows.
        reach: Where the rule applies: only in the session that has it. Child sessions ask for themselves.
        at_ms: Time of creation in milliseconds since 1970, or None if not recorded.
        by: Creator of the rule, always a user.
    """


class RuleList(Struct, frozen=True, kw_only=True):
    """Approval rules of users.

    Attributes:
        rules: Rules of the requested session, followed by those of its child sessions.
    """

    rules: tuple[RuleForm, ...]


def list_rules(rules: Iterable[ApprovalRule]) -> RuleList:
    return RuleList(rules=tuple([struct_from(RuleForm, one) for one in rules]))


def read_rules(text: bytes) -> tuple[ApprovalRule, ...]:
    return tuple([struct_from(ApprovalRule, one) for one in decoded_answer(_RULES, text).rules])


_RULES: Final = decoder_of(RuleList)


# --- session status


def encode_snapshot(
    snapshot: Snapshot, *, metadata: JsonObject = EMPTY, agent_id: str | None = None
) -> bytes:
    """Encode a snapshot as a `SnapshotForm`, without `metadata` if it is empty.

    `messages` holds the last messages, and `before` counts the earlier ones. Read those with `messages?after=`.
    """
    shown = snapshot.last_messages
    form = SnapshotForm(
        seq=snapshot.last_seq,
        **picked_fields(snapshot, "status", "queued", "todos", "text", "title", "first_seq", "context"),
        messages=shown,
        before=snapshot.status.messages - len(shown),
        first_words=snapshot.first_words or UNSET,
        agent_id=agent_id,
        children=tuple([_child_form(one) for one in snapshot.status.children]),
        live=None if snapshot.live is None else _live_form(snapshot.live),
        metadata=thawed(metadata) or UNSET,
        effects=dict(snapshot.effects),
    )
    return encode_plain(form)


def _child_form(child: ChildSession) -> ChildForm:
    status = child.status
    return ChildForm(
        session_id=child.session_id,
        call_id=child.call_id,
        agent_id=child.agent,
        phase=None if status is None else status.phase,
    )


def _live_form(live: LiveText) -> LiveForm:
    return LiveForm(
        attempt=live.attempt, text=live.text, thinking=live.thinking, progress=dict(live.progress)
    )


def _live_in(form: LiveForm) -> LiveText:
    progress = tuple([(CallId(call_id), text) for call_id, text in form.progress.items()])
    return LiveText(attempt=form.attempt, text=form.text, thinking=form.thinking, progress=progress)


def decode_snapshot(text: bytes) -> Snapshot:
    return _snapshot_in(decoded_answer(_SNAPSHOTS, text))


def _snapshot_in(form: SnapshotForm) -> Snapshot:
    return Snapshot(
        **picked_fields(form, "status", "queued", "todos", "text", "title", "first_seq", "context"),
        last_seq=form.seq,
        last_messages=form.messages,
        first_words=form.first_words or None,
        live=None if form.live is None else _live_in(form.live),
        effects=tuple(form.effects.items()),
    )


def decode_status(text: bytes) -> Status:
    return decoded_answer(_STATUSES, text)


# --- the conversation


def encode_messages(messages: tuple[Message, ...], *, after: int = 0, limit: int = 100) -> bytes:
    page = page_of_messages(messages, after=after, limit=limit)
    return encode_plain({"messages": page.messages, "next": page.next})


def page_of_messages(messages: tuple[Message, ...], *, after: int = 0, limit: int = 100) -> MessagePage:
    shown = messages[after : after + limit]
    behind = after + len(shown)
    return MessagePage(messages=shown, next=behind if shown and behind < len(messages) else None)


def decode_messages(text: bytes) -> MessagePage:
    return decoded_answer(_PAGES, text)


# --- receipts


def encode_receipt(receipt: Receipt) -> bytes:
    """Encode a receipt, each field under its own name. The request determines which of the three kinds it is."""
    return encode_plain(receipt)


def decode_receipt(kind: type[T], text: bytes) -> T:
    receipt: T = decoded_answer(_RECEIPTS[kind], text)
    return receipt


def encode_accepted(receipt: PromptReceipt, request_id: str) -> bytes:
    told = AcceptedForm(
        request_id=request_id,
        ref=receipt.ref,
        seq=receipt.seq,
        queued=receipt.queued,
        position=receipt.position,
    )
    return encode_plain(told)


def encode_receipt_found(receipt: PromptReceipt | SteerReceipt | None) -> bytes:
    """Encode `{of, receipt}`, where `of` is `prompt` or `steer`, or `null` if there is no receipt."""
    if receipt is None:
        return b"null"
    of = "prompt" if isinstance(receipt, PromptReceipt) else "steer"
    return encode_plain({"of": of, "receipt": receipt})


def decode_receipt_found(text: bytes) -> PromptReceipt | SteerReceipt | None:
    found: _ReceiptFound | None = decoded_answer(_RECEIPTS_FOUND, text)
    if found is None:
        return None
    kind: type[PromptReceipt | SteerReceipt] = PromptReceipt if found.of == "prompt" else SteerReceipt
    return decode_receipt(kind, bytes(found.receipt))


class _ReceiptFound(Struct, frozen=True, kw_only=True):
    of: Literal["prompt", "steer"]
    receipt: msgspec.Raw


# --- the past


class PastForm(Struct, frozen=True, kw_only=True):
    """Encoded state of a session after a record."""

    number: int
    at_ms: int
    snapshot: SnapshotForm
    messages: tuple[Message, ...]


def encode_past_state(number: int, at_ms: int, snapshot: Snapshot, messages: tuple[Message, ...]) -> bytes:
    """Encode `{number, at_ms, snapshot, messages}`: the state of a session after a record."""
    form = msgspec.Raw(encode_snapshot(snapshot))
    return encode_plain({"number": number, "at_ms": at_ms, "snapshot": form, "messages": messages})


def decode_past_state(text: bytes) -> tuple[int, int, Snapshot, tuple[Message, ...]]:
    """Decode a past state into the arguments of `encode_past_state`, in the same order."""
    form: PastForm = decoded_answer(_PASTS, text)
    return form.number, form.at_ms, _snapshot_in(form.snapshot), form.messages


def decoded_answer(
    decoder: msgspec.json.Decoder[T], text: bytes | str, fault: str = "the server's answer cannot be read"
) -> T:
    """Decode an answer of a server. `fault` begins the message of one that cannot be read."""
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"{fault}: {error}; it may be a newer version"
        raise CodecError(message, path="$") from error


_SNAPSHOTS: Final = decoder_of(SnapshotForm)
_STATUSES: Final = decoder_of(Status)
_RECEIPTS: Final[Mapping[type[Any], msgspec.json.Decoder[Any]]] = {
    kind: decoder_of(kind) for kind in (PromptReceipt, SteerReceipt, AbortReceipt)
}
_RECEIPTS_FOUND: Final = decoder_of(_ReceiptFound | None)
_PASTS: Final = decoder_of(PastForm)
_PAGES: Final = decoder_of(MessagePage)
