"""Log output of commands: warnings and errors on stderr, one line each. `--debug` adds the tracebacks."""

import logging
import os
import sys
from typing import Annotated, Any, Final, TypeAlias

from cyclopts import Parameter

Debug: TypeAlias = Annotated[
    bool, Parameter(help="Show a crash, of agentrail or of a plugin, with its traceback.")
]
OPTION: Final = "--debug"


def send_logs_to_stderr(*, debug: bool = False) -> None:
    """Keep log lines out of stdout, where structlog would print them."""
    import structlog

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.dev.set_exc_info,
            *(() if debug else (without_traceback,)),
            structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False),
            structlog.dev.ConsoleRenderer(
                colors=os.isatty(2) and not os.environ.get("NO_COLOR"),
                exception_formatter=structlog.dev.plain_traceback,
            ),
        ],
        # Each task start is a record of level debug, and not a crash.
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(_StderrNow()),  # type: ignore[arg-type]  # it is written to, and flushed
    )


class _StderrNow:
    """Writes to the current `sys.stderr`, which is held back while a chat has its screen open."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def without_traceback(_logger: object, _level: str, record: Any) -> Any:
    """Reduce a record with a traceback to one line, with a hint how to show it."""
    has_traceback = bool(record.pop("exception", None)) | bool(record.pop("exc_info", None))
    if has_traceback:
        record["event"] = f"{' '.join(str(record['event']).split())} ({OPTION} shows the traceback)"
    return record


def tell_crash(error: BaseException, *, debug: bool) -> None:
    from agentrail.otp.crash_text import describe_bug
    from agentrail.otp.exits import keep
    from agentrail.runtime.crashes import log_crash

    send_logs_to_stderr(debug=debug)
    log_crash(f"agentrail has a bug, please report it: {describe_bug(error)}", error, keep)
