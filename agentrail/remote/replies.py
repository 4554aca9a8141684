"""The results of commands, as the handle of a remote session reads them."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from agentrail.core.journal.branches import PastTurn
from agentrail.core.session.asked_forms import ApprovalRule
from agentrail.core.session.projection import Snapshot, Status
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
from agentrail.errors import (
    ClientIdReused,
    CodecError,
    CycleAborted,
    PromptRefused,
    RemoteRefused,
    SessionDown,
)
from agentrail.frozen import MAX_RECORD_LEVELS, frozen_json
from agentrail.remote.faults import error_of_failure
from agentrail.runtime.past import JournalEntry
from agentrail.runtime.restoring import Rewound
from agentrail.structs import decoder_of
from agentrail.wire.forms import (
    decode_receipt,
    decode_receipt_found,
    decode_snapshot,
    decode_status,
    read_rules,
)

# What a session was, and what came of going back, as values of the runtime again. Pure.


def read_rewound(text: bytes) -> Rewound:
    """Read what came of going back."""
    try:
        return _REWOUND.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _fault(error) from error


def read_journal_page(text: bytes) -> tuple[JournalEntry, ...]:
    """Read a page of a journal."""
    try:
        return tuple([_entry(one) for one in _ENTRIES.decode(text)])
    except (msgspec.DecodeError, RecursionError) as error:
        raise _fault(error) from error


def read_turns(text: bytes) -> tuple[PastTurn, ...]:
    """Read the turns of a session."""
    try:
        return tuple([PastTurn(**msgspec.structs.asdict(one)) for one in _TURNS.decode(text)])
    except (msgspec.DecodeError, RecursionError) as error:
        raise _fault(error) from error


class _Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as it is written; what a newer server says besides is left out."""

    number: int
    record: int
    asked: str = ""
    said: str = ""
    counts: bool = True


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A record as it is written."""

    number: int
    at_ms: int
    kind: str
    body: dict[str, Any]
    does: tuple[str, ...]
    events: int
    epoch: int
    hash: str


def _entry(form: _Entry) -> JournalEntry:
    return JournalEntry(
        number=form.number,
        at_ms=form.at_ms,
        kind=form.kind,
        body=frozen_json(form.body, max_levels=MAX_RECORD_LEVELS),
        does=form.does,
        events=form.events,
        epoch=form.epoch,
        hash=form.hash,
    )


def _fault(error: Exception) -> CodecError:
    message = f"what the server sent cannot be read: {error}; its version may be a newer one"
    return CodecError(message, path="$")


_REWOUND: Final = decoder_of(Rewound)
_ENTRIES: Final = decoder_of(list[_Entry])
_TURNS: Final = decoder_of(list[_Turn])


# How a request of a session on a server ended, as a caller of `ask` is told: its answer, or an exception. Pure.

ENDED_STATUSES: Final = frozenset(
    {"completed", "aborted", "failed", "not_found", "refused", "dropped", "shutdown"}
)
"""How a request can have ended; any other status is one that goes on."""


def answer_in(told: Mapping[str, Any], session_id: str) -> str:
    """Give the answer of a request that has ended."""
    reason = told.get("reason")
    match told.get("status"):
        case "completed":
            return str(told.get("text", ""))
        case "aborted" if told.get("stop_reason") == "superseded":
            return str(told.get("text", ""))  # to its own caller it is the answer that it had by then
        case "aborted" | "dropped":
            raise CycleAborted(reason)
        case "failed":
            raise error_of_failure(told)
        case "refused":
            raise PromptRefused(str(reason or "it gives no reason"))
        case "shutdown":
            raise SessionDown(session_id, "its server went down")
        case status:
            message = f"the request ended as {status!r}, which this client does not know"
            raise RemoteRefused(message, code="request_over", more=told)


T = TypeVar("T")


def read_prompt_receipt(result: bytes) -> PromptReceipt:
    """Read the receipt of a prompt."""
    receipt: PromptReceipt
    try:
        receipt = decode_receipt(PromptReceipt, result)
    except CodecError:
        with suppress(CodecError):
            decode_receipt(SteerReceipt, result)
            # To a server a message is the same one then, as with `when_busy: "steer"`; of a session it is another.
            message = "this client_id was used for a steer: send this prompt under another name"
            raise ClientIdReused(message) from None
        raise
    return receipt


def read_reply(decode: Callable[[bytes], T], result: bytes) -> T:
    """Read what a command gave."""
    try:
        return decode(result)
    except CodecError as error:
        told = msgspec.json.decode(result or b"null")
        if not isinstance(told, dict):
            raise
        message = f"what came is no answer of the session: {error}; a plugin of the host may have answered in its place"
        raise RemoteRefused(message, code="request_handled", more=told) from error


def read_result(gives: Any, result: bytes) -> Any:
    """Read the result of a call by its type; None for a call without one."""
    return None if gives is None else read_reply(_READ.get(gives) or partial(decode_receipt, gives), result)


_READ: Final[Mapping[Any, Callable[[bytes], Any]]] = {
    Status: decode_status,
    Snapshot: decode_snapshot,
    tuple[ApprovalRule, ...]: read_rules,
    PromptReceipt | SteerReceipt | None: decode_receipt_found,
}
"""How results are read that are no receipts."""
