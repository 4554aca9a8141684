"""Calls of foreign code: its exceptions become data of the core."""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from agentrail.errors import ErrorInfo, OptionError
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.guarded_calls import call_guarded

MAX_FOREIGN_MESSAGE: Final = 2_000
"""Maximum length of an error message made from an exception, in characters: it goes into events and journals."""

# As in the repr of an object, of which the end may have been cut off. A short number in other words stays.
_ADDRESS: Final = re.compile(r" at 0x(?:[0-9a-f]{9,}|[0-9a-f]+(?=>))")

WRONG_OPTIONS: Final = OptionError.code
"""The code of an error about the options given to foreign code."""


class Raised(msgspec.Struct, frozen=True, gc=False):
    """The data of an exception.

    Attributes:
        error: `plugin_raised`, with the class and the text of the exception, and the place where it was raised.
            `option_error`, with the faults of the options, if it is the caller's move.
    """

    error: ErrorInfo


def attempt(function: Callable[..., Any], *args: Any) -> Any:
    return call_guarded(_as_data, function, *args)


def attempt_with_options(function: Callable[..., Any], *args: Any) -> Any:
    """Call foreign code with options of a caller. An `OptionError` reports faults of the options, and is not a crash."""
    return call_guarded(_as_refusal, function, *args)


def foreign_message(text: str) -> str:
    """Return a message about foreign code without addresses, which would differ in a replay."""
    return _ADDRESS.sub("", text)[:MAX_FOREIGN_MESSAGE]


def _as_refusal(error: BaseException) -> Raised:
    if not isinstance(error, OptionError):
        return _as_data(error)
    return Raised(ErrorInfo(code=WRONG_OPTIONS, message=foreign_message(str(error))))


def _as_data(error: BaseException) -> Raised:
    return Raised(ErrorInfo(code="plugin_raised", message=foreign_message(describe_bug(error))))
