"""Exceptions from a server's replies: by its code, each becomes the class that a local session would raise. Pure."""

import inspect
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec

from agentrail import errors
from agentrail.errors import AgentrailError, ErrorInfo, ProviderError, RemoteRefused
from agentrail.errors.remote import seconds_in
from agentrail.structs import converter_of


def _all_classes() -> dict[str, type[AgentrailError]]:
    classes = [one for one in vars(errors).values() if isinstance(one, type)]
    found = {one.code: one for one in classes if issubclass(one, AgentrailError)}
    del found[AgentrailError.code], found[RemoteRefused.code]
    return {**found, "not_owner": errors.HeldBy}


CLASS_OF_CODE: Final[Mapping[str, type[AgentrailError]]] = MappingProxyType(_all_classes())
"""Exception class for each code."""

Told: TypeAlias = Mapping[str, Any]
"""The `error` of a reply, or the status of a request."""

_EMPTY: Final[tuple[object, ...]] = (None, "", 0, (), {})
"""Values of an attribute that the server did not state: the first that fits its type."""


def stated_object(said: object) -> Told:
    """Return an error as a server states it. Anything but an object states nothing."""
    return said if isinstance(said, Mapping) else {}


def error_of_reply(told: Told, session_id: str | None) -> AgentrailError:
    """Return the error as its class, with the server's remedy as a note. An unknown code is a `RemoteRefused`."""
    code, message = str(told.get("code", "internal")), str(told.get("message", "the server refused it"))
    refused = RemoteRefused(message, code=code, more=told)
    is_provider = code == "provider_failed"
    named = str(told.get("cause")) if is_provider else code
    kind = errors.CycleFailed if is_provider and "text" in told else CLASS_OF_CODE.get(named)
    # Only a `RemoteRefused` carries the body that a host plugin answered with.
    if (
        kind is None
        or "body" in told
        or (is_provider and not issubclass(kind, ProviderError | errors.CycleFailed))
    ):
        return refused
    try:
        error = _error_of(kind, message, refused, session_id or "")
    except TypeError:  # of an actor, whose exit reason stays in its process
        return refused
    if refused.hint is not None:
        error.add_note(refused.hint)
    return error


def _error_of(
    kind: type[AgentrailError], message: str, refused: RemoteRefused, session_id: str
) -> AgentrailError:
    """Make an error with the parameters of its class: named in the reply, known from it, or else empty."""
    told, wait = refused.more, refused.retry_after_seconds
    own, place = message.partition(": ")[2] or None, told.get("last_seq", told.get("resume_after"))
    known: dict[str, tuple[object, ...]] = {
        "error": (
            ErrorInfo(code=str(told.get("cause", kind.code)), message=message, retry_after_seconds=wait),
        ),
        "faults": ([message],),
        "message": (message,),
        "positions": ({session_id: place}, {session_id: 0}),
        "reason": (own, message),
        "retry_after_seconds": (wait,),
        "session_id": (session_id,),
    }
    if issubclass(kind, ProviderError):
        known["status"] = ()  # the server's own is not the vendor's
    decided = told.get("decided")
    said = {**(decided if isinstance(decided, Mapping) else {}), **told}
    given = {
        name: _first_fit(
            one.annotation, (*known.get(name, [said[name]] if name in said else ()), *_left_out(one))
        )
        for name, one in _parameters(kind).items()
    }
    error = kind(**given) if given else kind(message)
    if message not in str(error):
        error.args = (message,)
    return error


def _parameters(kind: type[AgentrailError]) -> Mapping[str, inspect.Parameter]:
    is_plain = kind.__init__ is AgentrailError.__init__
    return MappingProxyType({}) if is_plain else inspect.signature(kind).parameters


def _left_out(one: inspect.Parameter) -> tuple[object, ...]:
    return _EMPTY if one.default is one.empty else (one.default,)


def _first_fit(annotation: Any, candidates: Iterable[object]) -> object:
    for one in candidates:
        try:
            return converter_of(annotation)(one)
        except msgspec.ValidationError:
            continue
    raise AssertionError(annotation)


def error_of_failure(told: Told) -> errors.CycleFailed:
    error = stated_object(told.get("error"))
    info = ErrorInfo(
        code=str(error.get("code", "cycle_failed")),
        message=str(error.get("message") or told.get("reason") or "its session was abandoned"),
        retryable=bool(error.get("retryable", False)),
        retry_after_seconds=seconds_in(error.get("retry_after_seconds")),
    )
    return errors.CycleFailed(info, text=str(told.get("text", "")))
