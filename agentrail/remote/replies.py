"""The results of commands, as the handle of a remote session reads them."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from agentrail.core.session.asked_forms import ApprovalRule
from agentrail.core.session.projection import Snapshot, Status
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
from agentrail.errors import ClientIdReused, CodecError, RemoteRefused
from agentrail.wire.forms import (
    decode_receipt,
    decode_receipt_found,
    decode_snapshot,
    decode_status,
    read_rules,
)

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
