"""What a host refuses, and what its plugins do wrong."""

from collections.abc import Mapping
from types import MappingProxyType

from agentrail.errors.base import AgentrailError, YourMove
from agentrail.errors.sessions import OptionError


class RequestRefused(AgentrailError):
    """A plugin does not let a request pass. Raised by an interceptor of a plugin that is `critical`.

    Attributes:
        status: As of HTTP: 401, 402, 403, 409, 422, 429 or 503.
        code: A stable name, for programs.
        headers: Such as `retry-after`.
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
        """Keep what the caller is to be told."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers: Mapping[str, str] = MappingProxyType(dict(headers))


class HookTimeout(AgentrailError):
    """A hook of a plugin did not come to an end in its time.

    Attributes:
        plugin: The name of the plugin.
        hook: Which hook.
        seconds: How long it was waited for.
    """

    code = "hook_timeout"

    def __init__(self, message: str, *, plugin: str, hook: str, seconds: float) -> None:
        """Keep which one it was."""
        super().__init__(message)
        self.plugin = plugin
        self.hook = hook
        self.seconds = seconds


class HostDraining(AgentrailError):
    """The host takes no new request: it is being closed. No one's move; another one of the same product may take it."""

    code = "draining"


class IdInvalid(OptionError):
    """An id that can be none. The message names which, and does not repeat it: it may be made to be shown to others."""

    code = "id_invalid"


class PrincipalMismatch(YourMove):
    """A message names another tenant or user than the principal that sends it."""

    code = "principal_mismatch"


class SessionUnknown(YourMove):
    """There is no session of this id, as far as this caller may know. Said alike where it is another's.

    Attributes:
        hint: What to do next, or None.
    """

    code = "session_unknown"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        """Keep what there is to say."""
        super().__init__(message)
        self.hint = hint


class SessionIsChild(YourMove):
    """What only a root can do was asked of a session that works for another.

    Attributes:
        root_id: The session on top.
    """

    code = "session_is_child"

    def __init__(self, message: str, *, root_id: str) -> None:
        """Keep where to go."""
        super().__init__(message)
        self.root_id = root_id


class SessionBusy(YourMove):
    """A session is at work, and the message was to be refused then."""

    code = "session_busy"


class ProfileUnknown(YourMove):
    """There is no profile of this id. The message lists ten of those that there are, at most."""

    code = "profile_unknown"


class ProfileMismatch(YourMove):
    """A message names another profile than that of its session, which keeps the one it was created with.

    Attributes:
        agent_id: That of the session.
    """

    code = "profile_mismatch"

    def __init__(self, message: str, *, agent_id: str) -> None:
        """Keep which one it is."""
        super().__init__(message)
        self.agent_id = agent_id


class PromptRefused(AgentrailError):
    """A session plugin does not want a prompt, or a steer: no one's move.

    Attributes:
        reason: What the plugin said.
    """

    code = "prompt_rejected"

    def __init__(self, reason: str) -> None:
        """Keep why."""
        super().__init__(f"a plugin of the session refused this message: {reason}")
        self.reason = reason


class RequestUnknown(YourMove):
    """The session has no request of this id, or it is forgotten: the last 1,000 are known."""

    code = "request_unknown"


class RequestOver(YourMove):
    """The request has ended, so that there is nothing to cancel."""

    code = "request_over"


class ProfileFailed(AgentrailError):
    """A profile could not be found, or made options of: its function raised, or gave what configures no session.

    The operator's move, and never the caller's: `__cause__` says what it was, and no caller is told that.

    Attributes:
        agent_id: Which profile.
    """

    code = "profile_failed"

    def __init__(self, message: str, *, agent_id: str) -> None:
        """Keep which one it was."""
        super().__init__(message)
        self.agent_id = agent_id


class AttachmentInvalid(YourMove):
    """What came as a file with a message is none.

    Attributes:
        index: Which one, from 0.
    """

    code = "attachment_invalid"

    def __init__(self, message: str, *, index: int) -> None:
        """Keep which one it was."""
        super().__init__(message)
        self.index = index


class AttachmentsUnsupported(YourMove):
    """Files came with a message for a session that has no place for them, or none of its user's own."""

    code = "attachments_unsupported"


class FilesUnsupported(YourMove):
    """Files were asked for of a session that has no workspace of its user's own."""

    code = "files_unsupported"


class FileUnknown(YourMove):
    """There is no such file in the workspace of a session, or it may not be read: said alike, whatever the reason is."""

    code = "file_unknown"


class WebhookInvalid(YourMove):
    """An address was named to which no webhook may be sent, or that is none. The message begins with the name of the field."""

    code = "webhook_invalid"


class WebhooksOff(YourMove):
    """An address was named to a host that tells none of the ends of requests."""

    code = "webhooks_off"


class TooLarge(YourMove):
    """More came than is taken of one caller at once. The message names the limit; nothing of it is kept."""

    code = "too_large"


class UploadFailed(AgentrailError):
    """The files of a message could not be put into the workspace of a session.

    The operator's move: `__cause__` says what it was, and no caller is told that.
    """

    code = "upload_failed"


class QuotaReached(YourMove):
    """A caller has as much of something open as it may: no more is opened until some of it ends."""

    code = "quota"


class DayBudgetSpent(YourMove):
    """A caller, or all of their tenant, have spent what a host lets them spend in a day: no message is taken until the next one.

    Attributes:
        retry_after_seconds: How long it is until the next midnight of UTC; 0 where a server did not say it.
    """

    code = "budget"

    def __init__(self, message: str, *, retry_after_seconds: float) -> None:
        """Say whose budget it is, and when it is free again."""
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
