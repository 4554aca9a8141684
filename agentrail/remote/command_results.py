"""Decoders for the results of commands of a remote session."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from attrs import frozen

from agentrail.commands.slash_command import CommandRow
from agentrail.core.journal.turn_index import PastTurn
from agentrail.core.session.approval_details import ApprovalRule
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
from agentrail.core.session.views import Snapshot, Status
from agentrail.errors import (
    ClientIdReused,
    CodecError,
    CycleAborted,
    PromptRefused,
    RemoteRefused,
    SessionDown,
)
from agentrail.remote.error_codes import error_of_failure
from agentrail.remote.frame_codec import object_in
from agentrail.runtime.file_restore import Rewound
from agentrail.runtime.journal_state import JournalEntry
from agentrail.structs import decoder_of, picked_fields, struct_from
from agentrail.wire.form_fields import (
    decode_receipt,
    decode_receipt_found,
    decode_snapshot,
    decode_status,
    decoded_answer,
    read_rules,
)
from agentrail.wire.rows import SessionSummary

T = TypeVar("T")

# Lists, past turns, journal pages and the results of a rewind, as runtime values. Pure.


@frozen(kw_only=True)
class RemoteCommandAnswer:
    """Result of a slash command.

    Attributes:
        lines: Output for the user, empty if the command sent a message to the session.
        request_id: The request of that message, for `wait_for_request`, or None if it sent none.
    """

    command: str
    lines: tuple[str, ...] = ()
    request_id: str | None = None


class _Commands(msgspec.Struct, frozen=True, kw_only=True):
    commands: tuple[CommandRow, ...]


@frozen(kw_only=True)
class _Item(SessionSummary):
    first_words: str | None = None


class _Page(msgspec.Struct, frozen=True, kw_only=True):
    sessions: tuple[_Item, ...]


class _Turn(PastTurn, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A turn that may have fields of a newer server."""


_COMMANDS: Final = decoder_of(_Commands)
_PAGES: Final = decoder_of(_Page)
_TURNS: Final = decoder_of(list[_Turn])


read_rewound: Final = partial(decoded_answer, decoder_of(Rewound))
read_journal_page: Final = partial(decoded_answer, decoder_of(tuple[JournalEntry, ...]))
read_command_answer: Final = partial(decoded_answer, decoder_of(RemoteCommandAnswer))


def read_turns(text: bytes) -> tuple[PastTurn, ...]:
    return tuple([struct_from(PastTurn, one) for one in decoded_answer(_TURNS, text)])


def read_command_rows(text: bytes) -> tuple[CommandRow, ...]:
    return decoded_answer(_COMMANDS, text).commands


def read_session_page(text: bytes) -> tuple[SessionSummary, ...]:
    known = ("session_id", "agent_id", "phase", "waits_for", "changed_at_ms")
    return tuple(
        [
            SessionSummary(**picked_fields(one, *known), title=one.title or one.first_words or "")
            for one in decoded_answer(_PAGES, text).sessions
        ]
    )


# The end of a request, as `ask` returns it: an answer or an exception. Pure.

ENDED_STATUSES: Final = frozenset(
    {"completed", "aborted", "failed", "not_found", "refused", "dropped", "shutdown"}
)
"""Final statuses of a request. Any other status is still running."""


def answer_in(told: Mapping[str, Any], session_id: str) -> str:
    reason = told.get("reason")
    match told.get("status"):
        case "completed":
            return str(told.get("text", ""))
        case "aborted" if told.get("stop_reason") == "superseded":
            return str(told.get("text", ""))  # its own caller gets the answer so far
        case "aborted":
            raise CycleAborted(reason)
        case "dropped":
            raise CycleAborted(reason or "the prompt was taken out of the queue")
        case "failed":
            raise error_of_failure(told)
        case "refused":
            raise PromptRefused(str(reason or "it gave no reason"))
        case "shutdown":
            raise SessionDown(session_id, "its server shut down")
        case status:
            message = f"the request ended as {status!r}, which this client does not know"
            raise RemoteRefused(message, code="request_over", more=told)


def read_prompt_receipt(result: bytes) -> PromptReceipt:
    receipt: PromptReceipt
    try:
        receipt = decode_receipt(PromptReceipt, result)
    except CodecError:
        with suppress(CodecError):
            decode_receipt(SteerReceipt, result)
            # A server treats it as the same message, as with `when_busy: "steer"`. For a session it is a different one.
            message = "this client_id was already used for a steer: send this prompt with another one"
            raise ClientIdReused(message) from None
        raise
    return receipt


def read_reply(decode: Callable[[bytes], T], result: bytes) -> T:
    try:
        return decode(result)
    except CodecError as error:
        with suppress(CodecError):
            told = object_in(result)
            message = f"the reply is not an answer of the session: {error}; a host plugin may have answered in its place"
            raise RemoteRefused(message, code="request_handled", more=told) from error
        raise


def read_result(gives: Any, result: bytes) -> Any:
    return None if gives is None else read_reply(_READ.get(gives) or partial(decode_receipt, gives), result)


_READ: Final[Mapping[Any, Callable[[bytes], Any]]] = {
    Status: decode_status,
    Snapshot: decode_snapshot,
    tuple[ApprovalRule, ...]: read_rules,
    PromptReceipt | SteerReceipt | None: decode_receipt_found,
}
"""Decoders of the results that are not receipts."""
