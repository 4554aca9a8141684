"""How a request of a session on a server ended, as a caller of `ask` is told: its answer, or an exception. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from agentrail.errors import CycleAborted, PromptRefused, RemoteRefused, SessionDown
from agentrail.remote.faults import error_of_failure

ENDED_STATUSES: Final = frozenset(
    {"completed", "aborted", "failed", "not_found", "refused", "dropped", "shutdown"}
)
"""How a request can have ended; any other status is one that goes on."""


def answer_in(told: Mapping[str, Any], session_id: str) -> str:
    """Give the answer of a request that has ended."""
    reason = told.get("reason")
    match told.get("status"):
        case "completed":
            return str(told.get("text", ""))
        case "aborted" if told.get("stop_reason") == "superseded":
            return str(told.get("text", ""))  # to its own caller it is the answer that it had by then
        case "aborted" | "dropped":
            raise CycleAborted(reason)
        case "failed":
            raise error_of_failure(told)
        case "refused":
            raise PromptRefused(str(reason or "it gives no reason"))
        case "shutdown":
            raise SessionDown(session_id, "its server went down")
        case status:
            message = f"the request ended as {status!r}, which this client does not know"
            raise RemoteRefused(message, code="request_over", more=told)
