"""Request bodies as structs, with the types and defaults of their fields.

Pure values. `reading` parses and checks them. The OpenAPI document is generated from these classes.
"""

from typing import Any, Final, Literal

import msgspec

from agentrail.structs import Value
from agentrail.wire.operations import CompactBody, RejectBody, RespondBody


class AttachmentBody(Value, frozen=True, kw_only=True):
    """A file in a body.

    Attributes:
        name: As the caller calls it.
        mime_type: As the caller says.
        base64: Its content.
    """

    name: str
    mime_type: str
    base64: str


class ChatBody(Value, frozen=True, kw_only=True):
    """A message of a user: of `/chat`, `/stream` and `/sessions/{id}/prompt`.

    Attributes:
        message: What it says; may be empty where there are attachments.
        agent_id: The profile; None for that of the session, or the default.
        session_id: Where it goes; None for a new session.
        attachments: Files that come with it.
        mode: What a profile that is a function is given.
        client_id: The caller's name of it, so that it can be sent again.
        when_busy: What becomes of it in a session that works; None for the default.
        on_disconnect: What becomes of its cycle when the caller leaves; None for the default.
        webhook: Where its end is told.
        metadata: What the caller says besides: plugins of the host are told, and a session that the message creates keeps it.
        tenant_id: Whose it is; must agree with the token.
        user_id: Who of them; must agree with the token.
    """

    message: str = ""
    agent_id: str | None = None
    session_id: str | None = None
    attachments: tuple[AttachmentBody, ...] = ()
    mode: str | None = None
    client_id: str | None = None
    when_busy: Literal["queue", "steer", "refuse"] | None = None
    on_disconnect: Literal["continue", "abort"] | None = None
    webhook: str | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    tenant_id: str | None = None
    user_id: str | None = None


class UiChatBody(Value, frozen=True, kw_only=True):
    """A chat as `useChat` sends it: of `/ai-ui/{profile}`. Its names are those of that client.

    Attributes:
        id: The chat, which is the session.
        messages: All that the client has, or the last ones; see `agentrail.protocols.ai_ui_messages`.
        trigger: Why it is sent: `submit-message`; None for that.
        messageId: The message that it is sent for; the session knows by itself.
    """

    id: str
    messages: tuple[Any, ...]
    trigger: str | None = None
    messageId: str | None = None  # noqa: N815 - as it stands on the wire


class CreateSessionBody(Value, frozen=True, kw_only=True):
    """What a session is created with.

    Attributes:
        agent_id: The profile; None for the default.
        session_id: Its id; None for a new one.
        model: In place of that of the profile.
        metadata: What the caller says of it: kept with it, and shown in lists.
    """

    agent_id: str | None = None
    session_id: str | None = None
    model: str | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class SteerBody(Value, frozen=True, kw_only=True):
    """Words into the running cycle.

    Attributes:
        message: What to say.
        client_id: As of `ChatBody`.
    """

    message: str
    client_id: str | None = None


class AbortBody(Value, frozen=True, kw_only=True):
    """What is to be stopped.

    Attributes:
        reason: For people.
        kill_tools: As of `Session.abort`.
        clear_queue: As of `Session.abort`.
        call_id: One call in place of the cycle.
    """

    reason: str | None = None
    kill_tools: Literal["killable", "all", "none"] = "killable"
    clear_queue: bool = False
    call_id: str | None = None


class ApproveBody(Value, frozen=True, kw_only=True):
    """A call that may run.

    Attributes:
        approval_id: Which one.
        arguments_hash: Of the arguments that were shown; one of others is refused.
        arguments: What shall run instead.
        kind: Once, or always.
        auto_resume: Whether the model reads the result.
    """

    approval_id: str
    arguments_hash: str | None = None
    arguments: dict[str, Any] | None = None
    kind: Literal["once", "always"] = "once"
    auto_resume: bool = True


class ModelBody(Value, frozen=True, kw_only=True):
    """Another model.

    Attributes:
        model: Its name.
        provider_opts: What its provider takes.
    """

    model: str
    provider_opts: dict[str, Any] = msgspec.field(default_factory=dict)


class CommandBody(Value, frozen=True, kw_only=True):
    """A slash command.

    Attributes:
        text: What stands behind its name, as it was typed.
        session_id: With which session; None for one that needs none.
        client_id: As of a message, for a command that says something.
    """

    text: str = ""
    session_id: str | None = None
    client_id: str | None = None


class ForkBody(Value, frozen=True, kw_only=True):
    """Where a fork begins.

    Attributes:
        at: Behind which record; None for the last.
        event: Behind the record of which event, by its number, in place of a record.
        session_id: Its id; None for a new one.
    """

    at: int | None = None
    event: int | None = None
    session_id: str | None = None


class RewindBody(Value, frozen=True, kw_only=True):
    """Where a session goes back to.

    Attributes:
        to: Behind which record.
        event: Behind the record of which event, by its number, in place of a record.
        files: Whether the files that its tools have written since become what they were.
        dry: Whether it is only told what going back would come to.
    """

    to: int | None = None
    event: int | None = None
    files: bool = False
    dry: bool = False


class ResumeBody(Value, frozen=True, kw_only=True):
    """What happens to a session that the code of the server folds to other operations than it began.

    Attributes:
        on_drift: `park` leaves it as it is, with `journal_drifted`; `go_on` continues it with the state of the code that runs: no `once` or
            `reconcilable` call runs again that had begun.
    """

    on_drift: Literal["park", "go_on"] = "park"


class CancelBody(Value, frozen=True, kw_only=True):
    """Why a request is cancelled.

    Attributes:
        reason: For people.
    """

    reason: str | None = None


BODIES: Final[tuple[type[msgspec.Struct], ...]] = (
    ChatBody,
    UiChatBody,
    CreateSessionBody,
    SteerBody,
    AbortBody,
    ApproveBody,
    RejectBody,
    RespondBody,
    ModelBody,
    CommandBody,
    ForkBody,
    RewindBody,
    ResumeBody,
    CompactBody,
    CancelBody,
)
"""The body of each route that has one."""


def described_bodies() -> dict[str, Any]:
    """Return the JSON Schema of each body by class name, for the OpenAPI document."""
    return msgspec.json.schema_components(BODIES, ref_template="#/components/schemas/{name}")[1]
