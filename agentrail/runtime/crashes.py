"""The edge of ports that await: what a tool, a provider or a sandbox raises that it may not raise becomes data about a crash.

What it may raise, Trio's own cancellation, and what is no bug (a `KeyboardInterrupt`) travel on as they are. Each
crash is written to the log once, with its traceback; callers read what it was and where.
"""

import math
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Final, Literal

import msgspec
import trio

from agentrail.errors import ErrorInfo, ProviderError
from agentrail.logs import Logger
from agentrail.otp.edges import FOR_THE_PROCESS, call_guarded, what_leaves
from agentrail.otp.exits import keep
from agentrail.otp.leaving import describe_bug, traceback_of
from agentrail.runtime.scrubbing import Scrub

LOGGER: Final = Logger("agentrail.runtime")

MAX_CRASH_MESSAGE: Final = 2_000
"""The longest message that is made of a crash, in characters."""

TRAVELS: Final[tuple[type[BaseException], ...]] = (*FOR_THE_PROCESS, trio.Cancelled)
"""What leaves the edge of any port."""

TRAVELS_FROM_A_TOOL: Final[tuple[type[BaseException], ...]] = (KeyboardInterrupt, trio.Cancelled)
"""Not `SystemExit`: argparse and click raise it for wrong input, and the input is the model's."""


def what_travels(
    error: BaseException, kinds: tuple[type[BaseException], ...] = TRAVELS
) -> BaseException | None:
    """Say what of a caught exception goes on from here; None when all of it is a bug.

    A `Cancelled` that was kept and raised again where no scope was cancelled is no cancellation: no scope would ever
    catch it, and it would end the program.
    """
    leaving = what_leaves(error, kinds)
    if isinstance(leaving, trio.Cancelled) and trio.current_effective_deadline() != -math.inf:
        return None
    return leaving


def raise_what_travels(error: BaseException) -> None:
    """Raise what of a caught exception goes on from here; return when all of it is a bug.

    Raises:
        BaseException: As `what_travels` says: the caught one itself, or what travels out of a group.
    """
    leaving = what_travels(error)
    if leaving is error:
        raise leaving
    if leaving is not None:
        raise leaving from None


class PortCrashed(Exception):
    """A port raised what it may not raise.

    Attributes:
        error: What it was, as data; no exception is kept.
    """

    def __init__(self, error: ErrorInfo) -> None:
        """Take what is known."""
        super().__init__(error.message)
        self.error = error


class crash_edge:  # noqa: N801 - used as a function, as `suppress` is
    """Stand around code of a port: what it may not raise becomes `PortCrashed`.

    A class, and no generator: each request and each call goes through one, and a generator costs ten times as much.

    Raises:
        Crashed: The port's author's move.
    """

    __slots__ = ("_about", "_decide", "_known", "_scrub")

    def __init__(
        self,
        decide: Callable[..., ErrorInfo],
        *known: type[Exception],
        scrub: Scrub = keep,
        about: str | None = None,
    ) -> None:
        """Take what is known of the port.

        Args:
            decide: Says what a crash means.
            *known: What the port may raise; it passes.
            scrub: Takes secrets out of what is said of a crash.
            about: What `decide` is given in front of the exception; None for nothing. So no function is made for each request.
        """
        self._decide = decide
        self._known = known
        self._scrub = scrub
        self._about = about

    def __enter__(self) -> None:
        """Do nothing yet."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        """Let through what travels and what is known; raise `PortCrashed` in place of all else."""
        if error is None or isinstance(error, self._known):
            return False
        leaving = what_travels(error)
        if leaving is error:
            return False
        if leaving is not None:
            raise leaving from None
        decide = self._decide if self._about is None else partial(self._decide, self._about)
        raise PortCrashed(told(error, decide, self._scrub)) from None


def told(error: BaseException, decide: Callable[[BaseException], ErrorInfo], scrub: Scrub) -> ErrorInfo:
    """Make data of a crash, and tell the log of it."""
    made = decide(error)
    told = msgspec.structs.replace(made, message=scrub(made.message)[:MAX_CRASH_MESSAGE])
    log_crash(told.message, error, scrub)
    return told


def log_crash(what: str, error: BaseException, scrub: Scrub) -> None:
    """Write one record with a traceback, which no model reads; a log is a terminal as well, so nothing in it may act."""
    LOGGER.error(_harmless(what), exception=_harmless(traceback_of(error, scrub)))


def _harmless(text: str) -> str:
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def info_of(error: ProviderError) -> ErrorInfo:
    """Make data of a provider's error; one whose class is its author's may not even be able to say what it is."""
    return call_guarded(lambda bug: decide_provider_crash("this session", bug), ErrorInfo.of, error)


def decide_provider_crash(model: str, error: BaseException) -> ErrorInfo:
    """Say what a provider raised that it may not raise: text only, and whose bug it is."""
    message = (
        f"the provider of {model} crashed ({describe_bug(error)}): "
        "this is a bug in the provider, please report it"
    )
    return ErrorInfo(code="provider_crashed", message=message)


def decide_sandbox_crash(path: str, error: BaseException) -> ErrorInfo:
    """Say what a sandbox raised over a file: its refusals are values, so this is its bug."""
    message = (
        f"the sandbox crashed over {path!r} ({describe_bug(error)}): "
        "this is a bug in the sandbox, please report it"
    )
    return ErrorInfo(code="sandbox_crashed", message=message)


def decide_child_crash(name: str, error: BaseException) -> ErrorInfo:
    """Say what went wrong with a session that was to work for a call, before it could answer."""
    message = f"{name!r} could not let a session work ({describe_bug(error)})"
    return ErrorInfo(code="child_crashed", message=message)


def decide_close_crash(error: BaseException) -> ErrorInfo:
    """Say what went wrong when a sandbox was closed."""
    return ErrorInfo(
        code="sandbox_crashed", message=f"the sandbox could not be closed ({describe_bug(error)})"
    )
