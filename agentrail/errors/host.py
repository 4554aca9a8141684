"""Errors of a host and of its plugins."""

from collections.abc import Mapping
from types import MappingProxyType

from agentrail.errors.base import AgentrailError, YourMove
from agentrail.errors.sessions import OptionError


class RequestRefused(AgentrailError):
    """A host plugin rejects a request. Raised by an interceptor of a plugin that is `critical`.

    Attributes:
        status: HTTP status: 401, 402, 403, 409, 422, 429 or 503.
        code: A stable name, for programs.
        headers: Response headers, such as `retry-after`.
    """

    code: str = "request_refused"

    def __init__(
        self,
        status: int = 403,
        code: str = "request_refused",
        message: str = "this request is not allowed",
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Store the response to the caller."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers: Mapping[str, str] = MappingProxyType(dict(headers))


class HookTimeout(AgentrailError):
    """A plugin hook exceeded its time limit.

    Attributes:
        plugin: Name of the plugin.
        hook: Name of the hook.
        seconds: The time limit, in seconds.
    """

    code = "hook_timeout"

    def __init__(self, message: str, *, plugin: str, hook: str, seconds: float) -> None:
        """Store the hook and its limit."""
        super().__init__(message)
        self.plugin = plugin
        self.hook = hook
        self.seconds = seconds


class HostDraining(AgentrailError):
    """The host is shutting down and accepts no new requests. No one's move: another host of the same product may accept it."""

    code = "draining"


class IdInvalid(OptionError):
    """An invalid id. The message names the field but never repeats the id, which may be crafted to be shown to others."""

    code = "id_invalid"


class PrincipalMismatch(YourMove):
    """A message names a different tenant or user than its sender's principal."""

    code = "principal_mismatch"


class SessionUnknown(YourMove):
    """Unknown session id. Another owner's session gives the same error, so that ids cannot be probed.

    Attributes:
        hint: The next step to take, or None.
    """

    code = "session_unknown"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        """Store the hint."""
        super().__init__(message)
        self.hint = hint


class SessionIsChild(YourMove):
    """A child session received an operation that only a root session supports.

    Attributes:
        root_id: Id of the root session.
    """

    code = "session_is_child"

    def __init__(self, message: str, *, root_id: str) -> None:
        """Store the root's id."""
        super().__init__(message)
        self.root_id = root_id


class SessionBusy(YourMove):
    """The session is busy, and the message asked to be refused in that case."""

    code = "session_busy"


class ProfileUnknown(YourMove):
    """Unknown profile id. The message lists at most ten known profiles."""

    code = "profile_unknown"


class ProfileMismatch(YourMove):
    """A message names a different profile than its session, which keeps the profile it was created with.

    Attributes:
        agent_id: The session's profile.
    """

    code = "profile_mismatch"

    def __init__(self, message: str, *, agent_id: str) -> None:
        """Store the session's profile."""
        super().__init__(message)
        self.agent_id = agent_id


class PromptRefused(AgentrailError):
    """A session plugin rejects a prompt or a steer: no one's move.

    Attributes:
        reason: The plugin's reason.
    """

    code = "prompt_rejected"

    def __init__(self, reason: str) -> None:
        """Store the reason."""
        super().__init__(f"a plugin of the session refused this message: {reason}")
        self.reason = reason


class RequestUnknown(YourMove):
    """Unknown request id, or a request that the session has forgotten. It remembers the last 1,000."""

    code = "request_unknown"


class RequestOver(YourMove):
    """The request has already ended and cannot be cancelled."""

    code = "request_over"


class ProfileFailed(AgentrailError):
    """A profile could not be loaded: its function raised, or returned options that configure no session.

    The operator's move, never the caller's. `__cause__` holds the original error. Callers never see it.

    Attributes:
        agent_id: Id of the profile.
    """

    code = "profile_failed"

    def __init__(self, message: str, *, agent_id: str) -> None:
        """Store the profile's id."""
        super().__init__(message)
        self.agent_id = agent_id


class AttachmentInvalid(YourMove):
    """An attachment of a message is not a valid file.

    Attributes:
        index: Its position in the message, counted from 0.
    """

    code = "attachment_invalid"

    def __init__(self, message: str, *, index: int) -> None:
        """Store the position."""
        super().__init__(message)
        self.index = index


class AttachmentsUnsupported(YourMove):
    """The message has attachments, but the session has no workspace that belongs to its user alone."""

    code = "attachments_unsupported"


class FilesUnsupported(YourMove):
    """The session has no workspace that belongs to its user alone, so no file can be read."""

    code = "files_unsupported"


class FileUnknown(YourMove):
    """The workspace has no such file, or the file must not be read. Both cases give the same error."""

    code = "file_unknown"


class WebhookInvalid(YourMove):
    """A webhook address is malformed or not allowed. The message begins with the name of the field."""

    code = "webhook_invalid"


class WebhooksOff(YourMove):
    """A webhook address was given, but this host sends no webhooks when a request ends."""

    code = "webhooks_off"


class TooLarge(YourMove):
    """The input exceeds the limit for one caller. The message names the limit. Nothing of the input is kept."""

    code = "too_large"


class UploadFailed(AgentrailError):
    """The attachments of a message could not be written to the session's workspace.

    The operator's move. `__cause__` holds the original error. Callers never see it.
    """

    code = "upload_failed"


class QuotaReached(YourMove):
    """The caller has reached a limit on open resources. Nothing more opens until one of them ends."""

    code = "quota"


class DayBudgetSpent(YourMove):
    """The daily budget of the caller, or of their whole tenant, is spent. No message is accepted until the next day.

    Attributes:
        retry_after_seconds: Seconds until the next midnight UTC, or 0 if a server did not state it.
    """

    code = "budget"

    def __init__(self, message: str, *, retry_after_seconds: float) -> None:
        """Store the wait. The message names the owner of the budget."""
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
