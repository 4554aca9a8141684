"""What callers are told when their message was accepted, and the memory that lets them ask again."""

import hashlib
from typing import Final, Literal, TypeVar

import msgspec

from agentrail.core.protocol.signals import ReceiptQuery
from agentrail.core.session.state import Remembered
from agentrail.core.session.step_context import StepContext
from agentrail.errors import ClientIdReused
from agentrail.messages import PromptRef, SteerRef

MAX_REMEMBERED: Final = 256
"""How many messages with a name of their sender's a session remembers; the oldest is forgotten first."""

R = TypeVar("R")


class PromptReceipt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A prompt was accepted.

    Attributes:
        ref: Its name; `AgentStart` carries it too.
        queued: Whether it waits.
        position: In the queue, 0 is next; 0 for one that started at once.
        seq: The number of the event that says so.
        request_id: The request that brought it; of a message that is sent again the first one.
    """

    ref: PromptRef
    queued: bool
    position: int = 0
    seq: int = 0
    request_id: str | None = None


class SteerReceipt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A steer arrived.

    Attributes:
        ref: Its name; that of the prompt which it became.
        status: `queued` until the next gap between two turns; `became_prompt` where no cycle ran; or a plugin said no.
        seq: The number of the event that says so.
        request_id: As of `PromptReceipt`.
    """

    ref: SteerRef
    status: Literal["queued", "became_prompt", "rejected_by_plugin"]
    seq: int = 0
    request_id: str | None = None


class ToolsReceipt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The tools of a session were changed.

    Attributes:
        attached: Names that are there now, or have a new tool.
        detached: Names that are gone.
        missing: Names that were to go and were not there.
    """

    attached: tuple[str, ...] = ()
    detached: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def recall(
    step: StepContext, client_id: str | None, said: object, kind: type[R], *, digest: str | None = None
) -> R | None:
    """Find the receipt of a message that came before."""
    if client_id is None:
        return None
    known = _find(step, client_id)
    if known is None:
        return None
    if known.digest != (digest or _digest_of(said)) or not isinstance(known.receipt, kind):
        raise _used_for_another(client_id)
    return known.receipt


def tell_receipt(step: StepContext, signal: ReceiptQuery) -> None:
    """Answer with the receipt of a message that came before, if it is remembered and is the one that is meant."""
    known = _find(step, signal.client_id)
    if known is not None and signal.digest not in (None, known.digest):
        step.refuse(signal.signal_id, _used_for_another(signal.client_id))
    else:
        step.reply(signal.signal_id, None if known is None else known.receipt)


def _find(step: StepContext, client_id: str) -> Remembered | None:
    return next((one for one in step.data.remembered if one.client_id == client_id), None)


def _used_for_another(client_id: str) -> ClientIdReused:
    message = f"client_id {client_id!r} was used for another message: each message needs a name of its own"
    return ClientIdReused(message)


def remember(
    step: StepContext, client_id: str | None, said: object, receipt: object, *, digest: str | None = None
) -> None:
    """Keep the receipt of a message that has a name of its sender's; `said` and `digest` as of `recall`."""
    if client_id is not None:
        one = Remembered(client_id=client_id, digest=digest or _digest_of(said), receipt=receipt)
        step.data.remembered = (*step.data.remembered, one)[-MAX_REMEMBERED:]


def _digest_of(said: object) -> str:
    try:
        written = msgspec.json.encode(said, order="deterministic")
    except UnicodeEncodeError:  # half of a character
        written = repr(said).encode("utf-8", "surrogatepass")
    return hashlib.sha256(written).hexdigest()
