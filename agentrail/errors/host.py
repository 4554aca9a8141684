"""What a host refuses, and what its plugins do wrong."""

from collections.abc import Mapping
from types import MappingProxyType

from agentrail.errors.base import AgentrailError, YourMove


class RequestRefused(AgentrailError):
    """A plugin does not let a request pass. Raised by an interceptor of a plugin that is `critical`.

    Attributes:
        status: As of HTTP: 401, 402, 403, 409, 422, 429 or 503.
        code: A stable name, for programs.
        headers: Such as `retry-after`.
    """

    code = "request_refused"

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


class TooLarge(YourMove):
    """More came than is taken of one caller at once. The message names the limit; nothing of it is kept."""

    code = "too_large"


class UploadFailed(AgentrailError):
    """The files of a message could not be put into the workspace of a session.

    The operator's move: `__cause__` says what it was, and no caller is told that.
    """

    code = "upload_failed"


class QuotaReached(YourMove):
    """A caller has as many of something open as it may: no more is opened until one of them ends."""

    code = "quota"
