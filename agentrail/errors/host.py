"""Errors of a host and of its plugins."""

from collections.abc import Mapping
from types import MappingProxyType

from agentrail.errors.base import AgentrailError, YourMove
from agentrail.errors.sessions import OptionError


class RequestRefused(AgentrailError):
    """A host plugin rejects a request. Raised by an interceptor of a `critical` plugin.

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
        super().__init__(message)
        self.plugin = plugin
        self.hook = hook
        self.seconds = seconds


class HostDraining(AgentrailError):
    """The host is shutting down. No one's move: another host may accept the request."""

    code = "draining"


class IdInvalid(OptionError):
    """An invalid id. The message names the field, never the id."""

    code = "id_invalid"


class PrincipalMismatch(YourMove):
    """A message's tenant or user differs from its sender's principal."""

    code = "principal_mismatch"


class SessionUnknown(YourMove):
    """Unknown session id, or another owner's.

    Attributes:
        hint: The next step to take, or None.
    """

    code = "session_unknown"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class SessionIsChild(YourMove):
    """An operation for root sessions reached a child session.

    Attributes:
        root_id: Id of the root session.
    """

    code = "session_is_child"

    def __init__(self, message: str, *, root_id: str) -> None:
        super().__init__(message)
        self.root_id = root_id


class SessionBusy(YourMove):
    """The session is busy, and the message asked for this refusal."""

    code = "session_busy"


class ProfileUnknown(YourMove):
    """Unknown profile id. The message lists at most ten known profiles."""

    code = "profile_unknown"


class ProfileMismatch(YourMove):
    """A message's profile differs from the one its session keeps.

    Attributes:
        agent_id: The session's profile.
    """

    code = "profile_mismatch"

    def __init__(self, message: str, *, agent_id: str) -> None:
        super().__init__(message)
        self.agent_id = agent_id


class PromptRefused(AgentrailError):
    """A session plugin rejects a prompt or a steer: no one's move.

    Attributes:
        reason: The plugin's reason.
    """

    code = "prompt_rejected"

    def __init__(self, reason: str) -> None:
        super().__init__(f"a plugin of the session refused this message: {reason}")
        self.reason = reason


class RequestUnknown(YourMove):
    """Unknown request id, or a request that the session has forgotten. It remembers the last 1,000."""

    code = "request_unknown"


class RequestOver(YourMove):
    """The request has already ended and cannot be cancelled."""

    code = "request_over"


class ProfileFailed(AgentrailError):
    """A profile's function raised, or returned options that configure no session.

    The operator's move. `__cause__` holds the original error, hidden from callers.

    Attributes:
        agent_id: Id of the profile.
    """

    code = "profile_failed"

    def __init__(self, message: str, *, agent_id: str) -> None:
        super().__init__(message)
        self.agent_id = agent_id


class AttachmentInvalid(YourMove):
    """An attachment of a message is not a valid file.

    Attributes:
        index: Position in the message, from 0.
    """

    code = "attachment_invalid"

    def __init__(self, message: str, *, index: int) -> None:
        super().__init__(message)
        self.index = index


class AttachmentsUnsupported(YourMove):
    """Attachments for a session without a workspace of its user's own."""

    code = "attachments_unsupported"


class FilesUnsupported(YourMove):
    """The session has no workspace of its user's own to read files from."""

    code = "files_unsupported"


class FileUnknown(YourMove):
    """The workspace has no such file, or it must not be read."""

    code = "file_unknown"


class WebhookInvalid(YourMove):
    """A webhook address is malformed or not allowed. The message begins with the name of the field."""

    code = "webhook_invalid"


class WebhooksOff(YourMove):
    """A webhook address, but this host sends no webhooks."""

    code = "webhooks_off"


class TooLarge(YourMove):
    """The input exceeds the limit for one caller, and nothing is kept. The message names the limit."""

    code = "too_large"


class UploadFailed(AgentrailError):
    """The attachments of a message could not be written to the session's workspace.

    The operator's move. `__cause__` holds the original error, hidden from callers.
    """

    code = "upload_failed"


class QuotaReached(YourMove):
    """The caller has reached a limit on open resources. One of them must end first."""

    code = "quota"


class DayBudgetSpent(YourMove):
    """The daily budget of the caller or tenant is spent. No message is accepted until the next day.

    Attributes:
        retry_after_seconds: Seconds until the next midnight UTC, or 0 if a server did not state it.
    """

    code = "budget"

    def __init__(self, message: str, *, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
