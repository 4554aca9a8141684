"""Receipts of accepted messages, and the memory that returns them again for a repeated message."""

import hashlib
from typing import Final, Literal, TypeVar

import msgspec

from agentrail.core.protocol.signals import ReceiptQuery
from agentrail.core.session.state import Remembered
from agentrail.core.session.step_context import StepContext
from agentrail.errors import ClientIdReused
from agentrail.messages import PromptRef, SteerRef

MAX_REMEMBERED: Final = 256
"""Maximum number of messages with a client id that a session remembers. The oldest is forgotten first."""

R = TypeVar("R")


class PromptReceipt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The receipt of an accepted prompt.

    Attributes:
        ref: Its name, also in `AgentStart`.
        queued: Whether it is queued.
        position: Position in the queue, 0 is next. 0 for one that started at once.
        seq: The number of the event that reports it.
        request_id: The request that sent it. For a message that is sent again, the first one.
    """

    ref: PromptRef
    queued: bool
    position: int = 0
    seq: int = 0
    request_id: str | None = None


class SteerReceipt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The receipt of a steer.

    Attributes:
        ref: Its name, also of the prompt that it became.
        status: `queued` until the next gap between two turns, `became_prompt` if no cycle ran, or
            `rejected_by_plugin`.
        seq: The number of the event that reports it.
        request_id: Same as in `PromptReceipt`.
    """

    ref: SteerRef
    status: Literal["queued", "became_prompt", "rejected_by_plugin"]
    seq: int = 0
    request_id: str | None = None


class ToolsReceipt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The receipt of a change of a session's tools.

    Attributes:
        attached: Names that were added or have a new tool.
    """

    attached: tuple[str, ...] = ()
    detached: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def recall(
    step: StepContext, client_id: str | None, said: object, kind: type[R], *, digest: str | None = None
) -> R | None:
    if client_id is None:
        return None
    known = _find(step, client_id)
    if known is None:
        return None
    if known.digest != (digest or _digest_of(said)) or not isinstance(known.receipt, kind):
        raise _used_for_another(client_id)
    return known.receipt


def tell_receipt(step: StepContext, signal: ReceiptQuery) -> None:
    """Answer with the receipt of an earlier message, if it is remembered and has the expected digest."""
    known = _find(step, signal.client_id)
    if known is not None and signal.digest not in (None, known.digest):
        step.refuse(signal.signal_id, _used_for_another(signal.client_id))
    else:
        step.reply(signal.signal_id, None if known is None else known.receipt)


def _find(step: StepContext, client_id: str) -> Remembered | None:
    return next((one for one in step.data.remembered if one.client_id == client_id), None)


def _used_for_another(client_id: str) -> ClientIdReused:
    message = (
        f"client_id {client_id!r} was already used for another message: give each message its own client_id"
    )
    return ClientIdReused(message)


def remember(
    step: StepContext, client_id: str | None, said: object, receipt: object, *, digest: str | None = None
) -> None:
    """Remember the receipt of a message with a client id. `said` and `digest` are the same as in `recall`."""
    if client_id is not None:
        one = Remembered(client_id=client_id, digest=digest or _digest_of(said), receipt=receipt)
        step.data.remembered = (*step.data.remembered, one)[-MAX_REMEMBERED:]


def _digest_of(said: object) -> str:
    try:
        written = msgspec.json.encode(said, order="deterministic")
    except UnicodeEncodeError:  # half of a surrogate pair
        written = repr(said).encode("utf-8", "surrogatepass")
    return hashlib.sha256(written).hexdigest()
