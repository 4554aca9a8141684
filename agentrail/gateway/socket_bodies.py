"""Bodies of socket commands without an equivalent HTTP route."""

from typing import Any

from agentrail.gateway.request_bodies import AbortBody, ChatBody
from agentrail.messages import FileRef, Image, Text
from agentrail.structs import Value


class PromptCommandBody(ChatBody, frozen=True, kw_only=True):
    """A message as in the HTTP route, or content blocks in its place.

    Attributes:
        content: Content blocks. `message` is then omitted, so that plugins check exactly the content that the session receives.
        settings: Model settings for this cycle. Same as in `Session.prompt`.
        trace: Trace of the sender: `traceparent` and `tracestate`. Same as in `Session.prompt`.
    """

    content: tuple[Text | Image | FileRef, ...] | None = None
    settings: dict[str, Any] | None = None
    trace: dict[str, Any] | None = None


class AbortCommandBody(AbortBody, frozen=True, kw_only=True):
    """Stops running work as in the HTTP route, with more options.

    Attributes:
        children: See `Session.abort`.
        ref: See `Session.abort`.
    """

    children: bool = True
    ref: str | None = None


class ForkCommandBody(Value, frozen=True, kw_only=True):
    """Point at which to fork.

    Attributes:
        at: Number of the record after which to fork, or None for the last.
        turn: Number of a turn, in place of `at`: fork after that turn.
        event: Number of an event, in place of `at`: fork after its record.
        fork_id: Id of the fork, or None for a generated one.
    """

    at: int | None = None
    turn: int | None = None
    event: int | None = None
    fork_id: str | None = None


class RewindCommandBody(Value, frozen=True, kw_only=True):
    """Point to rewind to.

    Attributes:
        to: Number of the record after which to continue.
        turn: Number of a turn, in place of `to`: continue after that turn.
        event: Number of an event, in place of `to`: continue after its record.
        files: See `Session.rewind`.
        force: See `Session.rewind`.
        dry: See `Session.rewind`.
    """

    to: int | None = None
    turn: int | None = None
    event: int | None = None
    files: bool = False
    force: bool = False
    dry: bool = False
