"""The log of agentrail: one record goes through structlog, to where the program has set that up to bring it.

structlog that was not set up writes to stdout, which belongs to the words of the program. So then the record goes to the standard
library's logger of the same name: to its handlers, or, where there are none, warnings and errors to stderr. Either way there
is one record. A crash has its traceback in the field `exception`, as text: redacted and bounded by the code that made it.

What a log is told never becomes an error of the code that tells it. Nothing is configured in here.
"""

import logging
import sys
import weakref
from collections.abc import Mapping
from functools import cache, partial
from typing import Any, Final, Protocol

from attrs import frozen

from agentrail.otp.edges import call_guarded

_standard: Final = cache(logging.getLogger)
"""The logger of a name, which is the same for ever; the library takes a lock each time it is asked."""


class Withholding(Protocol):
    """What takes secrets out of texts."""

    def replaced(self, text: str) -> str:
        """Give a text without them."""


_WITHHELD: Final[weakref.WeakKeyDictionary[Withholding, None]] = weakref.WeakKeyDictionary()


def withhold_from_logs(known: Withholding) -> None:
    """Take secrets out of all that is told to the log from here on, by whatever part of agentrail, for as long as `known` is kept.

    Of the process, as the log is: a record does not say which session knew what stands in it.
    """
    _WITHHELD[known] = None


@frozen
class Logger:
    """One logger.

    Attributes:
        name: Such as `agentrail.runtime`; the standard library's logger has the same.
    """

    name: str

    def error(self, event: str, *args: object, exception: str | None = None) -> None:
        """Say what went wrong."""
        self._tell("error", event, args, {} if exception is None else {"exception": exception})

    def warning(self, event: str, *args: object, **fields: object) -> None:
        """Say what may go wrong; `fields` stand beside the event."""
        self._tell("warning", event, args, fields)

    def info(self, event: str, *args: object) -> None:
        """Say what was done that nothing has to be done about."""
        self._tell("info", event, args, {})

    def debug(self, event: str, *args: object) -> None:
        """Say what is only of interest while a bug is looked for."""
        self._tell("debug", event, args, {})

    def hears_debug(self) -> bool:
        """Tell whether it is worth the while to make a record of that level; a program that set structlog up judges itself."""
        return _structlog_set_up() is not None or _standard(self.name).isEnabledFor(logging.DEBUG)

    def _tell(self, level: str, event: str, args: tuple[object, ...], fields: Mapping[str, object]) -> None:
        said = event % args if args else event
        for known in tuple(_WITHHELD):  # records are few
            said = known.replaced(said)
            fields = {name: _withheld(value, known) for name, value in fields.items()}
        call_guarded(partial(self._tell_plainly, said, fields), self._send, level, said, fields)

    def _send(self, level: str, said: str, fields: Mapping[str, object]) -> None:
        structlog = _structlog_set_up()  # asked each time: a program may do it later than it imports us
        if structlog is not None:
            getattr(structlog.get_logger(self.name), level)(said, **fields)
        else:
            getattr(_standard(self.name), level)("%s", _as_text(said, {**_bound_fields(), **fields}))

    def _tell_plainly(self, said: str, fields: Mapping[str, object], error: BaseException) -> None:
        """Tell `logging` in place of a processor of the program's own that raised."""
        broken = f"{_as_text(said, fields)}\n(structlog could not take this: {type(error).__name__})"
        _standard(self.name).error("%s", broken)


def _withheld(value: object, known: Withholding) -> object:
    """Give what stands beside an event without secrets: as it is, or as the text that would be shown of it."""
    shown = value if isinstance(value, str) else call_guarded(lambda _: "", repr, value)
    said = known.replaced(shown)
    return value if said == shown else said


def _structlog_set_up() -> Any:
    """Give structlog where the program has set it up; else None."""
    # Not imported: who has not done so has not set it up, and it takes longer than all of `agentrail.actors`.
    structlog: Any = sys.modules.get("structlog")
    return structlog if structlog is not None and structlog.is_configured() else None


def _bound_fields() -> Mapping[str, object]:
    """Give what the program bound to its context, such as the id of a request."""
    structlog: Any = sys.modules.get("structlog")
    return {} if structlog is None else structlog.contextvars.get_contextvars()


def _as_text(said: str, fields: Mapping[str, object]) -> str:
    """Write a record as one text: the event, what stands beside it, and the traceback below."""
    line = " ".join([said, *(f"{name}={value!r}" for name, value in fields.items() if name != "exception")])
    return f"{line}\n{fields['exception']}" if "exception" in fields else line
