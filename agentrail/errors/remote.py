"""Errors of a client whose session runs on a server."""

import math
from collections.abc import Mapping
from typing import Any

from agentrail.errors.base import AgentrailError, YourMove


class NotRemote(YourMove):
    """The call or an argument takes code, or the server has no command for it."""

    code = "not_remote"


class Unauthorized(YourMove):
    """The server does not accept the token. Use another one."""

    code = "unauthorized"


class Unreachable(AgentrailError):
    """No server answered in time. Try again later, or check the address. `__cause__` holds the last error."""

    code = "unreachable"


class RemoteRefused(AgentrailError):
    """The server refused a call for a reason without a class of its own.

    Attributes:
        code: The server's code, such as `too_many_requests`.
        status: The equivalent HTTP status, or None.
        hint: The next step to take, or None.
        retry_after_seconds: Wait before the next attempt, or None.
        more: The other fields of the server's error.
    """

    code: str = "remote_refused"

    def __init__(self, message: str, *, code: str, more: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.code = code
        self.more: dict[str, Any] = dict(more)
        status, hint = more.get("status"), more.get("hint")
        self.status: int | None = status if isinstance(status, int) else None
        self.hint: str | None = hint if isinstance(hint, str) else None
        self.retry_after_seconds: float | None = seconds_in(more.get("retry_after"))


def seconds_in(told: object) -> float | None:
    """Read a wait as a server states it. None for one that cannot be waited for."""
    try:
        seconds = float(told) if isinstance(told, str | int | float) else -1.0
    except (ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds < math.inf else None
