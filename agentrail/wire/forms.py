"""How a session, its conversation and receipts look on the wire, and how a client makes the values of it again.

Pure. Events have their form in `core.wire.codec`, and it is that one here too. All else is written as it is, every field under its own
name, so that a client in any language reads what the reference describes, and `RemoteSession` gives the very classes of `Session`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec
from attrs import frozen
from msgspec import UNSET, Struct, UnsetType

from agentrail.core.session.asked_forms import ApprovalRule, RuleReach
from agentrail.core.session.projection import (
    ChildSession,
    ContextLength,
    LiveText,
    QueuedInput,
    Snapshot,
    Status,
)
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
from agentrail.core.values.toolbox import EffectClass
from agentrail.errors import CodecError
from agentrail.events import AbortReceipt, Todo
from agentrail.frozen import EMPTY, thawed
from agentrail.messages import CallId, JsonObject, Message, SessionId
from agentrail.structs import decoder_of
from agentrail.wire.plain import encode_plain

Receipt: TypeAlias = PromptReceipt | SteerReceipt | AbortReceipt


class ChildForm(Struct, frozen=True, kw_only=True):
    """A session that works for a call, as a snapshot names it; how it stands in full is in `status.children`.

    Attributes:
        session_id: Which one.
        call_id: The call of the session above it.
        agent_id: As which agent it works, in the words of the call that began it; None where that is not known.
        phase: One of the four, in lower case; None where it is not at hand.
    """

    session_id: str
    call_id: str | None
    agent_id: str | None
    phase: str | None


class LiveForm(Struct, frozen=True, kw_only=True):
    """What was said in passing and not yet for good.

    Attributes:
        attempt: Which attempt at its turn the request is that is out; 0 where none is.
        text: What its response has said so far.
        thinking: What it has thought aloud so far.
        progress: By call, what it said last of how far it is.
    """

    attempt: int
    text: str
    thinking: str
    progress: dict[str, str]


class SnapshotForm(Struct, frozen=True, kw_only=True):
    """A snapshot as it is written: the number in front, because a reader goes on from there.

    Attributes:
        seq: The number of the last committed event.
        status: How it stands.
        queued: What the user said and what waits, steers first.
        todos: The list that the model keeps of its work.
        text: What the response that streams has said so far.
        messages: The last ones.
        before: How many stand in front of them.
        title: What the model called the conversation; None before it has.
        agent_id: The profile that it was started with; None where it has none.
        first_seq: The number of the first event that can still be read, as far as that is known.
        children: The sessions that work for it.
        live: What was said in passing and not yet for good; None where that is nothing.
        context: How full the model's window is.
        first_words: What was said to it first, up to 80 characters; left out where that is not known.
        metadata: What its caller said of it when it was created; left out where that is nothing.
        effects: By tool, what it promises about being run twice; a tool that is not named here is `once`.
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


class RuleForm(Struct, frozen=True, kw_only=True):
    """A rule that a person made, as it is written.

    Attributes:
        rule_id: What it is revoked by.
        session_id: The session that has it.
        tool: The tool.
        command_family: For commands their words; None: every call of the tool.
        exact: Whether it covers these very words and no others; else all simple commands that begin with them.
        words: What it allows, for people.
        reach: Where it holds: in the one session that has it; what works for that one asks for itself.
        at_ms: When it was made, in milliseconds since 1970; None where that was not kept.
        by: Who made it: a person.
    """

    rule_id: str
    session_id: SessionId
    tool: str
    command_family: str | None
    exact: bool
    words: str
    reach: RuleReach
    at_ms: int | None
    by: Literal["user"] = "user"


class RuleList(Struct, frozen=True, kw_only=True):
    """The rules that people made.

    Attributes:
        rules: Those of the session that was asked first, then those of the sessions below it.
    """

    rules: tuple[RuleForm, ...]


def list_rules(rules: Iterable[ApprovalRule]) -> RuleList:
    """Write rules."""
    return RuleList(
        rules=tuple(
            [
                RuleForm(
                    rule_id=one.rule_id,
                    session_id=one.session_id,
                    tool=one.tool,
                    command_family=one.command_family,
                    exact=one.exact,
                    words=one.words,
                    reach=one.reach,
                    at_ms=one.at_ms,
                )
                for one in rules
            ]
        )
    )


def read_rules(text: bytes) -> tuple[ApprovalRule, ...]:
    """Read what `list_rules` wrote."""
    try:
        found = _RULES.decode(text).rules
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"these are no rules: {error}"
        raise CodecError(message, path="$") from error
    return tuple(
        [
            ApprovalRule(
                rule_id=one.rule_id,
                session_id=one.session_id,
                tool=one.tool,
                command_family=one.command_family,
                exact=one.exact,
                reach=one.reach,
                at_ms=one.at_ms,
            )
            for one in found
        ]
    )


_RULES: Final = decoder_of(RuleList)


# --- session status


def encode_snapshot(
    snapshot: Snapshot, *, metadata: JsonObject = EMPTY, agent_id: str | None = None
) -> bytes:
    """Write what `SnapshotForm` has, `metadata` only where there is some.

    `messages` are the last ones, `before` is how many stand in front of them: `messages?after=` gives those.
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
        title=snapshot.title,
        first_words=snapshot.first_words or UNSET,
        agent_id=agent_id,
        first_seq=snapshot.first_seq,
        children=tuple([_child_form(one) for one in snapshot.status.children]),
        live=None if snapshot.live is None else _live_form(snapshot.live),
        context=snapshot.context,
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
    """Read what `encode_snapshot` wrote."""
    return _snapshot_in(_read(_SNAPSHOTS, text))


def _snapshot_in(form: SnapshotForm) -> Snapshot:
    return Snapshot(
        status=form.status,
        queued=form.queued,
        todos=form.todos,
        text=form.text,
        last_seq=form.seq,
        last_messages=form.messages,
        title=form.title,
        first_words=form.first_words or None,
        first_seq=form.first_seq,
        live=None if form.live is None else _live_in(form.live),
        context=form.context,
        effects=tuple(form.effects.items()),
    )


def encode_status(status: Status) -> bytes:
    """Write how a session stands, every field under its name."""
    return encode_plain(status)


def decode_status(text: bytes) -> Status:
    """Read what `encode_status` wrote."""
    status: Status = _read(_STATUSES, text)
    return status


# --- the conversation


def encode_messages(messages: tuple[Message, ...], *, after: int = 0, limit: int = 100) -> bytes:
    """Write a part of a conversation: `{messages, next}`."""
    page = page_of_messages(messages, after=after, limit=limit)
    return encode_plain({"messages": page.messages, "next": page.next})


def page_of_messages(messages: tuple[Message, ...], *, after: int = 0, limit: int = 100) -> MessagePage:
    """Give a part of a conversation; the arguments are those of `encode_messages`."""
    shown = messages[after : after + limit]
    behind = after + len(shown)
    return MessagePage(messages=shown, next=behind if shown and behind < len(messages) else None)


def decode_messages(text: bytes) -> MessagePage:
    """Read what `encode_messages` wrote."""
    page: MessagePage = _read(_PAGES, text)
    return page


# --- receipts


def encode_receipt(receipt: Receipt) -> bytes:
    """Write a receipt, every field under its name. Which of the three it is follows from what was asked for."""
    return encode_plain(receipt)


def decode_receipt(kind: type[Struct], text: bytes) -> Any:
    """Read a receipt."""
    return _read(_RECEIPTS[kind], text)


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
    """Read what `encode_receipt_found` wrote."""
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
    """Read what `encode_past_state` wrote, in the order of its arguments."""
    form: PastForm = _read(_PASTS, text)
    return form.number, form.at_ms, _snapshot_in(form.snapshot), form.messages


def _read(decoder: msgspec.json.Decoder[Any], text: bytes) -> Any:
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"what the server sent cannot be read: {error}; its version may be a newer one"
        raise CodecError(message, path="$") from error


_SNAPSHOTS: Final = decoder_of(SnapshotForm)
_STATUSES: Final = decoder_of(Status)
_RECEIPTS: Final[Mapping[type[Struct], msgspec.json.Decoder[Any]]] = {
    kind: decoder_of(kind) for kind in (PromptReceipt, SteerReceipt, AbortReceipt)
}
_RECEIPTS_FOUND: Final = decoder_of(_ReceiptFound | None)
_PASTS: Final = decoder_of(PastForm)
_PAGES: Final = decoder_of(MessagePage)
