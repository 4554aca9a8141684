"""Crash edges of async ports: an unexpected exception from a tool, a provider or a sandbox becomes crash data."""

import math
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Any, Final, Literal

import trio
from attrs import define, field, frozen
from msgspec.structs import replace

from agentrail.actors.mailbox import Mailbox
from agentrail.errors import ErrorInfo, OptionError, ProviderError
from agentrail.logs import Logger
from agentrail.otp.crash_text import describe_bug, traceback_of
from agentrail.otp.exits import keep
from agentrail.otp.guarded_calls import FOR_THE_PROCESS, call_guarded, what_leaves
from agentrail.runtime.error_scrubber import Scrub

LOGGER: Final = Logger("agentrail.runtime")

MAX_CRASH_MESSAGE: Final = 2_000
"""Maximum length of a crash message, in characters."""

TRAVELS: Final[tuple[type[BaseException], ...]] = (*FOR_THE_PROCESS, trio.Cancelled)
"""Exceptions that leave the edge of any port."""

TRAVELS_FROM_A_TOOL: Final[tuple[type[BaseException], ...]] = (KeyboardInterrupt, trio.Cancelled)
"""Without `SystemExit`: argparse and click raise it for wrong input, and here the input is the model's."""


def what_travels(
    error: BaseException, kinds: tuple[type[BaseException], ...] = TRAVELS
) -> BaseException | None:
    """Return the part of a caught exception that must propagate, or None if all of it is a bug.

    A stored `Cancelled` that is raised again outside a cancelled scope does not count as a cancellation. No scope would
    catch it, and it would end the program.
    """
    leaving = what_leaves(error, kinds)
    if isinstance(leaving, trio.Cancelled) and trio.current_effective_deadline() != -math.inf:
        return None
    return leaving


def raise_what_travels(error: BaseException) -> None:
    """Raise the part of a caught exception that must propagate. Return if all of it is a bug."""
    leaving = what_travels(error)
    try:
        if leaving is error:
            raise leaving
        if leaving is not None:
            raise leaving from None
    finally:
        del error, leaving  # whose traceback refers to this frame: a cycle, freed by the collector only


class PortCrashed(Exception):
    def __init__(self, error: ErrorInfo) -> None:
        super().__init__(error.message)
        self.error = error


class crash_edge:  # noqa: N801 - used as a function, as `suppress` is
    __slots__ = ("_about", "_decide", "_known", "_scrub")

    def __init__(
        self,
        decide: Callable[..., ErrorInfo],
        *known: type[Exception],
        scrub: Scrub = keep,
        about: str | None = None,
    ) -> None:
        self._decide = decide
        self._known = known
        self._scrub = scrub
        self._about = about

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
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
    made = decide(error)
    told = replace(made, message=scrub(made.message)[:MAX_CRASH_MESSAGE])
    log_crash(told.message, error, scrub)
    return told


def log_crash(what: str, error: BaseException, scrub: Scrub) -> None:
    LOGGER.error(_harmless(what), exception=_harmless(traceback_of(error, scrub)))


def _harmless(text: str) -> str:
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def info_of(error: ProviderError) -> ErrorInfo:
    """Describe a provider's error as data. A custom error class may fail even at describing itself."""
    return call_guarded(lambda bug: decide_provider_crash("this session", bug), ErrorInfo.of, error)


def decide_provider_crash(model: str, error: BaseException) -> ErrorInfo:
    if isinstance(error, OptionError):  # a plugin switched to it with these options
        return ErrorInfo(code=error.code, message=f"{model} cannot be used: {error}")
    return ErrorInfo(code="provider_crashed", message=_bug_in("provider", f"of {model} crashed", error))


def decide_sandbox_crash(path: str, error: BaseException) -> ErrorInfo:
    return ErrorInfo(code="sandbox_crashed", message=_bug_in("sandbox", f"crashed on {path!r}", error))


def decide_store_crash(kept: str, error: BaseException) -> ErrorInfo:
    return ErrorInfo(code="store_crashed", message=_bug_in("store", f"of {kept} crashed", error))


def _bug_in(part: str, happened: str, error: BaseException) -> str:
    return f"the {part} {happened} ({describe_bug(error)}): this is a bug in the {part}, please report it"


def decide_child_crash(name: str, error: BaseException) -> ErrorInfo:
    message = f"{name!r} could not run a session ({describe_bug(error)})"
    return ErrorInfo(code="child_crashed", message=message)


def decide_close_crash(error: BaseException) -> ErrorInfo:
    return ErrorInfo(
        code="sandbox_crashed", message=f"the sandbox could not be closed ({describe_bug(error)})"
    )


# The tasks of one incarnation of a session, in a nursery that outlives it.
#
# With its own nursery, a crashed session could restart only after its last tool has ended, and a shielded tool may
# never end. The group is cancelled, awaited for a bounded time and then abandoned.


class Control:
    __slots__ = ()


@frozen
class TaskCrashed(Control):
    error: BaseException


# Shared by all groups without tasks, and never written to: an empty or emptied dict per group would add up in ten
# thousand idle sessions.
_NO_TASKS: Final[dict[trio.CancelScope, str]] = {}


@define(eq=False)
class TaskGroup:
    _nursery: trio.Nursery
    _mailbox: Mailbox[Any]
    scrub: Scrub = keep
    _working: dict[trio.CancelScope, str] = field(init=False, default=_NO_TASKS)
    _gone: trio.Event | None = field(init=False, default=None)

    def deliver(self, item: object) -> None:
        if self._gone is None:
            self._mailbox.put_notice(item)

    def deliver_first(self, item: object) -> None:
        if self._gone is None:
            self._mailbox.put_control(item)

    def start_soon(
        self, function: Callable[..., Awaitable[object]], *args: Any, scope: trio.CancelScope, name: str
    ) -> None:
        if self._gone is None:
            if not self._working:
                self._working = {}
            self._working[scope] = name
            self._nursery.start_soon(self._work, scope, function, args, name=name)

    async def dismiss(self) -> None:
        self._gone = trio.Event()
        for scope in tuple(self._working):
            scope.cancel(reason="the session has ended, or crashed")
        if self._working:
            await self._gone.wait()

    @property
    def is_dismissed(self) -> bool:
        return self._gone is not None

    @property
    def working(self) -> tuple[str, ...]:
        return tuple(self._working.values())

    async def _work(
        self, scope: trio.CancelScope, function: Callable[..., Awaitable[object]], args: tuple[Any, ...]
    ) -> None:
        try:
            # A task dismissed before its first step would otherwise run to its first checkpoint.
            if self._gone is None:
                await function(*args)
        except BaseException as error:  # noqa: ASYNC103, BLE001 - the edge of a session's work: it is the actor that crashes
            leaving = what_travels(error)
            if isinstance(leaving, trio.Cancelled):  # not ours: the supervisor is being closed
                raise leaving from None  # noqa: ASYNC104 - what travels was asked
            if self._gone is None:
                self._mailbox.put_control(TaskCrashed(error if leaving is None else leaving))
            elif leaving is None:
                log_crash(
                    f"{self._working[scope]!r} was left behind by a session and crashed", error, self.scrub
                )
            else:
                raise leaving from None  # noqa: ASYNC104 - what travels was asked
        finally:
            del self._working[scope]
            if not self._working:
                self._working = _NO_TASKS
                if self._gone is not None:
                    self._gone.set()
