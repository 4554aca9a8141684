"""Exceptions from a server's replies: by its code, each becomes the class that a local session would raise. Pure."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

from agentrail import errors
from agentrail.errors import AgentrailError, ErrorInfo, ProviderError, RemoteRefused

T = TypeVar("T")


def _all_classes() -> dict[str, type[AgentrailError]]:
    classes = [one for one in vars(errors).values() if isinstance(one, type)]
    return {one.code: one for one in classes if issubclass(one, AgentrailError) and one is not AgentrailError}


CLASS_OF_CODE: Final[Mapping[str, type[AgentrailError]]] = MappingProxyType(_all_classes())
"""Exception class for each code."""

Told: TypeAlias = Mapping[str, Any]
"""The `error` of a reply, or the status of a request."""


def error_of_reply(told: Told, session_id: str | None) -> AgentrailError:
    code, message = str(told.get("code", "internal")), str(told.get("message", "the server refused it"))
    make = _MAKERS.get(code)
    if make is not None:
        return make(message, told, session_id or "")
    if code == "provider_failed":
        cause = CLASS_OF_CODE.get(str(told.get("cause")))
        if cause is not None and issubclass(cause, ProviderError):
            return cause(message)
    kind = CLASS_OF_CODE.get(code)
    if kind is not None and (issubclass(kind, ProviderError) or kind.__init__ is AgentrailError.__init__):
        return kind(message)
    return RemoteRefused(message, code=code, more=told)


def error_of_failure(told: Told) -> errors.CycleFailed:
    error = told.get("error") or {}
    info = ErrorInfo(
        code=str(error.get("code", "cycle_failed")),
        message=str(error.get("message") or told.get("reason") or "its session was abandoned"),
        retryable=bool(error.get("retryable", False)),
        retry_after_seconds=error.get("retry_after_seconds"),
    )
    return errors.CycleFailed(info, text=str(told.get("text", "")))


def _reason_in(message: str) -> str:
    _, parted, reason = message.partition(": ")
    return reason if parted and message.startswith("session ") else message


def _cursor_ahead(message: str, told: Told, session_id: str) -> AgentrailError:
    return errors.CursorAhead([message], positions={session_id: _typed(told, "last_seq", int) or 0})


def _budget_spent(message: str, told: Told, _: str) -> AgentrailError:
    wait = str(told.get("retry_after", ""))
    return errors.DayBudgetSpent(message, retry_after_seconds=float(wait) if wait.isdecimal() else 0.0)


def _resolved(message: str, told: Told, _: str) -> AgentrailError:
    return errors.AlreadyResolved(
        message,
        status=str(told.get("status")),
        by=str(told.get("by")),
        at_ms=_typed(told.get("decided"), "at_ms", int),
        user=_typed(told.get("decided"), "user", str),
    )


def _expired(message: str, told: Told, _: str) -> AgentrailError:
    return errors.ApprovalExpired(message, at_ms=_typed(told.get("decided"), "at_ms", int))


def _typed(told: object, name: str, kind: type[T]) -> T | None:
    found = told.get(name) if isinstance(told, Mapping) else None
    return found if type(found) is kind else None


_MAKERS: Final[Mapping[str, Callable[[str, Told, str], AgentrailError]]] = MappingProxyType(
    {
        "already_resolved": _resolved,
        "approval_expired": _expired,
        "already_started": lambda message, _, __: errors.AlreadyStarted(message, handle=None),
        "budget": _budget_spent,
        "cursor_ahead": _cursor_ahead,
        "id_invalid": lambda message, _, __: errors.IdInvalid([message]),
        "option_error": lambda message, _, __: errors.OptionError([message]),
        "profile_mismatch": lambda message, told, _: errors.ProfileMismatch(
            message, agent_id=str(told.get("agent_id", ""))
        ),
        "prompt_rejected": lambda message, _, __: errors.PromptRefused(message.partition(": ")[2] or message),
        "session_ended": lambda message, _, session_id: errors.SessionDown(session_id, _reason_in(message)),
        "session_is_child": lambda message, told, _: errors.SessionIsChild(
            message, root_id=str(told.get("root_id", ""))
        ),
        "session_refused": lambda message, _, session_id: errors.SessionRefused(
            session_id, _reason_in(message)
        ),
        "session_rested": lambda message, _, session_id: errors.SessionRested(session_id, message),
        "session_unknown": lambda message, told, _: errors.SessionUnknown(message, hint=told.get("hint")),
        "trimmed": lambda _, told, session_id: errors.Trimmed(
            session_id, first=_typed(told, "first", int) or 0
        ),
        "command_unknown": lambda message, told, _: errors.UnknownCommand(
            message, name=str(told.get("name", "")), near=told.get("near")
        ),
        "unknown_tool": lambda message, told, _: errors.UnknownTool(message, names=told.get("names", ())),
    }
)
