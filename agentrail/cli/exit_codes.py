"""Exit codes of the command, and errors as sentences for the user. Plain functions."""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from agentrail.cli.stdio import end_sentence, write_error
from agentrail.errors import AgentrailError, ErrorInfo, RemoteRefused
from agentrail.errors.advice import WHAT_TO_DO
from agentrail.events import AbortSettled, AgentEnd, AgentError, Event

E = TypeVar("E", bound=BaseException)


class Exit(enum.IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2  # nothing was started: the command line or the environment must change
    NOTHING_LEFT = 3  # everything that was chosen had to be left out
    INTERRUPTED = 130  # the code that a shell reports after Ctrl-C


ADVICE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "rate_limited": "try again later",
        "overloaded": "try again in a minute, or name another --model",
        "transport": "look at the network and at --base-url, then try again",
        "timeout": "try again; if it stays so, look at --base-url",
        "stream_stalled": "try again",
        "protocol_error": "look at --base-url: it must lead to a server of this provider's format",
        "authentication": "correct the key, or try --model demo: which needs none",
        "model_not_found": "name another --model",
        "context_overflow": "ask for less at a time, or name a --model with a larger window",
        "content_refused": "say it in other words, or name another --model",
        "bad_request": "look at --model and the other options; the same request would be refused again",
        "provider_crashed": "run it with --debug, and report what that shows",
        "provider_error": "try again, or name another --model",
    }
)
"""Advice for each kind of failure, unless its message already has some."""


def exit_of(event: Event) -> Exit | None:
    """Return the exit code of a run that ends with this event, or None if it does not end it."""
    match event:
        case AgentEnd():
            return Exit.DONE
        case AgentError() | AbortSettled():
            return Exit.FAILED
        case _:
            return None


def describe_failure(error: ErrorInfo) -> str:
    message = error.message.rstrip(".")
    if WHAT_TO_DO in message:  # more specific than the advice for its kind
        return f"{message}."
    advice = ADVICE.get(error.code)
    if error.retry_after_seconds is not None:
        advice = f"try again in {error.retry_after_seconds:g} s"
    return f"{message}. {WHAT_TO_DO}{advice}." if advice else f"{message}."


def describe_error(error: AgentrailError) -> str:
    """Describe an error of a request. The message contains the advice, except for errors of a server."""
    said, advice = str(error).rstrip("."), "; ".join(getattr(error, "__notes__", ()))
    if isinstance(error, RemoteRefused):
        advice = error.hint or ""
        if error.retry_after_seconds is not None:
            advice = f"try again in {error.retry_after_seconds:g} s"
    return end_sentence(f"{said}. {WHAT_TO_DO}{advice.rstrip('.')}." if advice else f"{said}.")


def write_faults(error: AgentrailError) -> None:
    """Describe an error on stderr. An error of several faults has a line for each."""
    faults = getattr(error, "faults", ())
    for said in [f"{fault.rstrip('.')}." for fault in faults] if len(faults) > 1 else [describe_error(error)]:
        write_error(said)


def first_error(group: BaseExceptionGroup[E]) -> E:
    """Return the first error of a group, at any depth. A group's own message does not help users."""
    first = group.exceptions[0]
    return first_error(first) if isinstance(first, BaseExceptionGroup) else first
