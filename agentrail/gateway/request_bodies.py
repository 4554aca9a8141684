"""Request bodies as structs, with the types and defaults of their fields."""

from typing import Any, Literal

import msgspec

from agentrail.messages import Message
from agentrail.structs import Value


class AttachmentBody(Value, frozen=True, kw_only=True):
    """An attached file.

    Attributes:
        name: File name given by the caller.
        mime_type: MIME type given by the caller.
        base64: Content of the file in Base64.
    """

    name: str
    mime_type: str
    base64: str


class ChatBody(Value, frozen=True, kw_only=True):
    """A message of a user, for `/chat`, `/stream` and `/sessions/{id}/prompt`.

    Attributes:
        message: Text of the message. May be empty if there are attachments.
        agent_id: Profile, or None for the profile of the session or the default.
        session_id: Target session, or None for a new session.
        attachments: Attached files.
        mode: Argument for a profile that is a function.
        client_id: Name that the caller gives the message, so that it can be sent again safely.
        when_busy: What to do if the session is busy, or None for the default.
        on_disconnect: What to do with the cycle if the caller disconnects, or None for the default.
        webhook: URL that is called when the request ends.
        metadata: Metadata of the caller, passed to host plugins and stored with a session that the message creates.
        history: Earlier conversation for a session that the message creates, in the form of its messages.
        keep: Whether a session that the message creates is kept. See `CreateSessionBody`.
        tenant_id: Tenant of the caller. Must agree with the token.
        user_id: User of the caller. Must agree with the token.
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
    history: tuple[Message, ...] = ()
    keep: bool = True
    tenant_id: str | None = None
    user_id: str | None = None


class UiChatBody(Value, frozen=True, kw_only=True):
    """A chat as `useChat` sends it, for `/ai-ui/{profile}`. The field names are those of that client.

    Attributes:
        id: Id of the chat, which is the session id.
        messages: All messages of the client, or the last ones. See `agentrail.protocols.ai_ui_messages`.
        trigger: Reason for sending: `submit-message`, or None for the same.
        messageId: Message that it is sent for. Ignored, because the session already knows it.
    """

    id: str
    messages: tuple[Any, ...]
    trigger: str | None = None
    messageId: str | None = None  # noqa: N815 - as it stands on the wire


class OpenBody(Value, frozen=True, kw_only=True):
    """A request of a third-party protocol, whose own documentation has its fields. Its wire reads them.

    Attributes:
        plain: The whole object.
        size: Its length as text.
    """

    plain: dict[str, Any]
    size: int


class ChatCompletionBody(OpenBody, frozen=True, kw_only=True):
    """A request for a completion, as in the OpenAI API: `model` is a profile. Parameters without effect are ignored."""


class ResponseBody(OpenBody, frozen=True, kw_only=True):
    """A request for a response, as in the OpenAI API: `model` is a profile. Parameters without effect are ignored."""


class A2aBody(OpenBody, frozen=True, kw_only=True):
    """A request of A2A: a request of JSON-RPC, or the parameters of a method."""


class McpBody(OpenBody, frozen=True, kw_only=True):
    """A message of the Model Context Protocol."""


class CancelResponseBody(Value, frozen=True, kw_only=True):
    """Cancels a response. Has no fields."""


class CreateSessionBody(Value, frozen=True, kw_only=True):
    """Options of a new session.

    Attributes:
        agent_id: Profile, or None for the default.
        session_id: Id of the session, or None for a generated one.
        model: Model that replaces the profile's.
        metadata: Metadata of the caller, stored with the session and shown in lists.
        history: Earlier conversation, in the form of the session's messages.
        keep: False for a temporary session: in no list, and deleted when it ends, at the latest ten minutes after its last cycle.
    """

    agent_id: str | None = None
    session_id: str | None = None
    model: str | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    history: tuple[Message, ...] = ()
    keep: bool = True


class SteerBody(Value, frozen=True, kw_only=True):
    """A steering message for the running cycle.

    Attributes:
        message: Text of the message.
        client_id: See `ChatBody`.
    """

    message: str
    client_id: str | None = None


class AbortBody(Value, frozen=True, kw_only=True):
    """Stops running work.

    Attributes:
        reason: Reason shown to users.
        kill_tools: See `Session.abort`.
        clear_queue: See `Session.abort`.
        call_id: Call to stop in place of the cycle.
    """

    reason: str | None = None
    kill_tools: Literal["killable", "all", "none"] = "killable"
    clear_queue: bool = False
    call_id: str | None = None


class ApproveBody(Value, frozen=True, kw_only=True):
    """Approves a call.

    Attributes:
        approval_id: Approval id.
        arguments_hash: Hash of the arguments that were shown. The call is refused if its arguments differ.
        arguments: Arguments to run the call with instead.
        kind: `once`, or `always` to create a rule.
        auto_resume: Whether the model gets a turn to read the result.
    """

    approval_id: str
    arguments_hash: str | None = None
    arguments: dict[str, Any] | None = None
    kind: Literal["once", "always"] = "once"
    auto_resume: bool = True


class ModelBody(Value, frozen=True, kw_only=True):
    """Switches the model.

    Attributes:
        model: Model string.
        provider_opts: Options for the provider.
    """

    model: str
    provider_opts: dict[str, Any] = msgspec.field(default_factory=dict)


class CommandBody(Value, frozen=True, kw_only=True):
    """Runs a slash command.

    Attributes:
        text: Text after the command name, as typed.
        session_id: Session to run it with, or None for a command that needs none.
        client_id: Name of the message, for a command that sends one. Same as in `ChatBody`.
    """

    text: str = ""
    session_id: str | None = None
    client_id: str | None = None


class ForkBody(Value, frozen=True, kw_only=True):
    """Point at which to fork.

    Attributes:
        at: Number of the record after which to fork, or None for the last.
        event: Number of an event, in place of `at`: fork after its record.
        session_id: Id of the fork, or None for a generated one.
    """

    at: int | None = None
    event: int | None = None
    session_id: str | None = None


class RewindBody(Value, frozen=True, kw_only=True):
    """Point to rewind to.

    Attributes:
        to: Number of the record after which to continue.
        event: Number of an event, in place of `to`: continue after its record.
        files: Whether to restore files that tools have written since then.
        dry: Whether to only return a preview.
    """

    to: int | None = None
    event: int | None = None
    files: bool = False
    dry: bool = False


class ResumeBody(Value, frozen=True, kw_only=True):
    """Handling of journal drift: the server's code replays the journal to other operations than it records.

    Attributes:
        on_drift: `park` leaves the session unchanged, with `journal_drifted`. `go_on` continues it with the state that the
            current code computes. No `once` or `reconcilable` call that had started runs again.
    """

    on_drift: Literal["park", "go_on"] = "park"


class CancelBody(Value, frozen=True, kw_only=True):
    """Cancels a request.

    Attributes:
        reason: Reason shown to users.
    """

    reason: str | None = None


class RestartSourceBody(Value, frozen=True, kw_only=True):
    """Restarts an MCP server.

    Attributes:
        source: Name of its node in the tree, such as `mcp files`.
        session_id: The session above the node, or None if the server belongs to no single session.
    """

    source: str
    session_id: str | None = None
