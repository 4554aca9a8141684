"""What a client of a session on a server meets, besides what the session itself refuses."""

from collections.abc import Mapping
from typing import Any

from agentrail.errors.base import AgentrailError, YourMove


class NotRemote(YourMove):
    """A call, or an argument of one, that cannot be made over a network: it takes code, or the server has no command for it."""

    code = "not_remote"


class Unauthorized(YourMove):
    """The server does not know the token, or no longer. It is not tried again: another token helps, and nothing else does."""

    code = "unauthorized"


class Unreachable(AgentrailError):
    """No server answered in time. Try again later, or look at the address; `__cause__` says what the last attempt came to."""

    code = "unreachable"


class RemoteRefused(AgentrailError):
    """The server refused a call for a reason that no other class stands for.

    Attributes:
        code: What the server said, in place of the code of the class: such as `too_many_requests`, or one of a plugin's own.
        status: What the same answer has as a status over HTTP; None where it did not say.
        hint: What to do next, or None.
        retry_after_seconds: How long to wait first, where it said so.
        more: What else it said.
    """

    code: str = "remote_refused"

    def __init__(self, message: str, *, code: str, more: Mapping[str, Any]) -> None:
        """Take the error as it came.

        Args:
            message: For people.
            code: For programs.
            more: All of it; what this class has attributes for is read from there.
        """
        super().__init__(message)
        self.code = code
        self.more: dict[str, Any] = dict(more)
        status, hint = more.get("status"), more.get("hint")
        self.status: int | None = status if isinstance(status, int) else None
        self.hint: str | None = hint if isinstance(hint, str) else None
        self.retry_after_seconds: float | None = _seconds(more.get("retry_after"))


def _seconds(told: object) -> float | None:
    try:
        return float(told) if isinstance(told, str | int) else None
    except ValueError:
        return None
