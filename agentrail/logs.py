"""The log of agentrail: through structlog if the program configured it, otherwise through `logging`.

Without handlers, warnings and errors go to stderr. A crash has its redacted, bounded traceback in the field `exception`.

An error while logging never reaches the calling code.
"""

import logging
import sys
import weakref
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import cache, partial
from typing import Any, Final, Protocol

from attrs import frozen

from agentrail.otp.guarded_calls import call_guarded

_standard: Final = cache(logging.getLogger)
"""The logger of a name, cached: the library takes a lock on each lookup."""


class Withholding(Protocol):
    def replaced(self, text: str) -> str: ...


_WITHHELD: Final[weakref.WeakKeyDictionary[Withholding, None]] = weakref.WeakKeyDictionary()


def withhold_from_logs(known: Withholding) -> None:
    """Remove secrets from all records of the process while `known` is alive."""
    _WITHHELD[known] = None


CALL_TRACE: Final[ContextVar[Callable[[], str]]] = ContextVar("agentrail_call_trace")
"""Returns the `traceparent` of the tool call that the current task runs."""


def add_trace_ids(_logger: object, _method: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Add `trace_id` and `span_id` of the running tool call to a log record. A processor for structlog."""
    find = CALL_TRACE.get(None)
    parts = [] if find is None else find().split("-")
    return {**fields, "trace_id": parts[1], "span_id": parts[2]} if len(parts) > 1 else fields


@frozen
class Logger:
    """A logger, with the name of the standard library's."""

    name: str

    def error(self, event: str, *args: object, exception: str | None = None) -> None:
        self._tell("error", event, args, {} if exception is None else {"exception": exception})

    def warning(self, event: str, *args: object, **fields: object) -> None:
        self._tell("warning", event, args, fields)

    def info(self, event: str, *args: object) -> None:
        self._tell("info", event, args, {})

    def debug(self, event: str, *args: object) -> None:
        self._tell("debug", event, args, {})

    def hears_debug(self) -> bool:
        return _structlog_set_up() is not None or _standard(self.name).isEnabledFor(logging.DEBUG)

    def _tell(self, level: str, event: str, args: tuple[object, ...], fields: Mapping[str, object]) -> None:
        said = event % args if args else event
        for known in tuple(_WITHHELD):  # records are few
            said = known.replaced(said)
            fields = {name: _withheld(value, known) for name, value in fields.items()}
        call_guarded(partial(self._tell_plainly, said, fields), self._send, level, said, fields)

    def _send(self, level: str, said: str, fields: Mapping[str, object]) -> None:
        structlog = _structlog_set_up()  # each time: a program may configure it later
        if structlog is not None:
            getattr(structlog.get_logger(self.name), level)(said, **fields)
        else:
            getattr(_standard(self.name), level)("%s", _as_text(said, {**_bound_fields(), **fields}))

    def _tell_plainly(self, said: str, fields: Mapping[str, object], error: BaseException) -> None:
        broken = f"{_as_text(said, fields)}\n(structlog could not take this: {type(error).__name__})"
        _standard(self.name).error("%s", broken)


def _withheld(value: object, known: Withholding) -> object:
    shown = value if isinstance(value, str) else call_guarded(lambda _: "", repr, value)
    said = known.replaced(shown)
    return value if said == shown else said


def _structlog_set_up() -> Any:
    # Not imported: a program without it has not configured it, and the import takes longer than all of `agentrail.actors`.
    structlog: Any = sys.modules.get("structlog")
    return structlog if structlog is not None and structlog.is_configured() else None


def _bound_fields() -> Mapping[str, object]:
    structlog: Any = sys.modules.get("structlog")
    return {} if structlog is None else structlog.contextvars.get_contextvars()


def _as_text(said: str, fields: Mapping[str, object]) -> str:
    line = " ".join([said, *(f"{name}={value!r}" for name, value in fields.items() if name != "exception")])
    return f"{line}\n{fields['exception']}" if "exception" in fields else line
