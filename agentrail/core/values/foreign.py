"""Calling code that is not ours: what it raises becomes data of the core.

A plugin is foreign code inside `step`. What it raises must not be taken for a bug of the core, and an error as
data is all that may remain of it: events and journals hold no exception objects.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from agentrail.errors import ErrorInfo, OptionError
from agentrail.otp.edges import call_guarded
from agentrail.otp.leaving import describe_bug

MAX_FOREIGN_MESSAGE: Final = 2_000
"""The longest message of an error that is made of an exception, in characters: it goes into events and journals."""


WRONG_OPTIONS: Final = OptionError.code
"""The code of what foreign code says of the options that it was given."""


class Raised(msgspec.Struct, frozen=True, gc=False):
    """What remains of an exception.

    Attributes:
        error: `plugin_raised`, with the class and the text of the exception, and the place where it was raised; `option_error`, with what is
            wrong with them, where it is the caller's move.
    """

    error: ErrorInfo


def attempt(function: Callable[..., Any], *args: Any) -> Any:
    """Call foreign code."""
    return call_guarded(_as_data, function, *args)


def attempt_with_options(function: Callable[..., Any], *args: Any) -> Any:
    """Call foreign code that takes options of a caller: an `OptionError` says what is wrong with those, and is no crash of it."""
    return call_guarded(_as_refusal, function, *args)


def _as_refusal(error: BaseException) -> Raised:
    if not isinstance(error, OptionError):
        return _as_data(error)
    return Raised(ErrorInfo(code=WRONG_OPTIONS, message=str(error)[:MAX_FOREIGN_MESSAGE]))


def _as_data(error: BaseException) -> Raised:
    return Raised(ErrorInfo(code="plugin_raised", message=describe_bug(error)[:MAX_FOREIGN_MESSAGE]))
