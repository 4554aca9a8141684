"""Bodies of socket commands without an equivalent HTTP route, as structs. Pure values. See `bodies` for the others."""

from typing import Any, Final

import msgspec

from agentrail.gateway.bodies import AbortBody, ChatBody
from agentrail.messages import FileRef, Image, Text
from agentrail.structs import Value
from agentrail.wire.operations import DeclineBody, GoOnBody, ReceiptBody, StateAtBody, StopBody


class PromptCommandBody(ChatBody, frozen=True, kw_only=True):
    """A message, as of the route, or blocks in its place.

    Attributes:
        content: Blocks; then `message` is left out, so that plugins judge the very words that the session gets.
        settings: What is wanted of the model for this cycle, as of `Session.prompt`.
    """

    content: tuple[Text | Image | FileRef, ...] | None = None
    settings: dict[str, Any] | None = None


class AbortCommandBody(AbortBody, frozen=True, kw_only=True):
    """What is to be stopped, as of the route, and more exactly.

    Attributes:
        children: As of `Session.abort`.
        ref: As of `Session.abort`.
    """

    children: bool = True
    ref: str | None = None


class AnswerBody(Value, frozen=True, kw_only=True):
    """The result of a call that the client ran.

    Attributes:
        ref: Which one.
        text: What the model reads.
        is_error: Whether it failed.
        details: JSON for events and user interfaces.
        images: Pictures.
    """

    ref: str
    text: str
    is_error: bool = False
    details: Any = None
    images: tuple[Image, ...] = ()


class ForkCommandBody(Value, frozen=True, kw_only=True):
    """Where a fork begins.

    Attributes:
        at: Behind which record; None for the last.
        turn: Behind which turn, in place of a record.
        event: Behind the record of which event, by its number, in place of a record.
        fork_id: The id of the fork; None for a new one.
    """

    at: int | None = None
    turn: int | None = None
    event: int | None = None
    fork_id: str | None = None


class RewindCommandBody(Value, frozen=True, kw_only=True):
    """Where a session goes back to.

    Attributes:
        to: Behind which record.
        turn: Behind which turn, in place of a record.
        event: Behind the record of which event, by its number, in place of a record.
        files: As of `Session.rewind`.
        force: As of `Session.rewind`.
        dry: As of `Session.rewind`.
    """

    to: int | None = None
    turn: int | None = None
    event: int | None = None
    files: bool = False
    force: bool = False
    dry: bool = False


COMMAND_BODIES: Final[tuple[type[msgspec.Struct], ...]] = (
    PromptCommandBody,
    GoOnBody,
    ReceiptBody,
    AbortCommandBody,
    DeclineBody,
    AnswerBody,
    ForkCommandBody,
    RewindCommandBody,
    StateAtBody,
    StopBody,
)
"""The body of each command that has its own."""
