"""The edge of ports that await: what a tool, a provider or a sandbox raises that it may not raise becomes data about a crash.

What it may raise, Trio's own cancellation, and what is no bug (a `KeyboardInterrupt`) travel on as they are. Each
crash is written to the log once, with its traceback; callers read what it was and where.
"""

import math
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Any, Final, Literal

import msgspec
import trio
from attrs import frozen

from agentrail.actors.mailbox import Mailbox
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
    """Raise what of a caught exception goes on from here; return when all of it is a bug."""
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
        """Take what is known of the port."""
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


# The tasks of one incarnation of a session, in a nursery that outlives it.
#
# In a nursery of its own, a crashed session would restart only after its last tool ended, and a tool that shields itself may never
# end. The group is cancelled, awaited for a bounded time and then abandoned.


class Control:
    """A control message to a session, of which the type of its mailbox says nothing."""

    __slots__ = ()


@frozen
class TaskCrashed(Control):
    """A control message to the session: one of its tasks failed in a way that is no outcome, and the session with it.

    Attributes:
        error: What it raised; raised again in the actor's own task, and kept nowhere.
    """

    error: BaseException


# One for all groups that have none, and never written to: an empty table of its own, or one that was emptied, would weigh in ten
# thousand idle sessions.
_NO_TASKS: Final[dict[trio.CancelScope, str]] = {}


class TaskGroup:
    """The tasks of one incarnation.

    Attributes:
        scrub: Takes the secrets of the session out of what goes to the log.
    """

    __slots__ = ("_gone", "_mailbox", "_nursery", "_working", "scrub")

    def __init__(self, nursery: trio.Nursery, mailbox: Mailbox[Any], scrub: Scrub = keep) -> None:
        """Begin without tasks."""
        self.scrub: Scrub = scrub
        self._nursery = nursery
        self._mailbox = mailbox
        self._working = _NO_TASKS
        self._gone: trio.Event | None = None

    def deliver(self, item: object) -> None:
        """Tell the actor what came of its work; what a dismissed group says is not heard by the next incarnation."""
        if self._gone is None:
            self._mailbox.put_notice(item)

    def deliver_first(self, item: object) -> None:
        """Tell the actor before all that waits in its mailbox: what it decided last came to nothing."""
        if self._gone is None:
            self._mailbox.put_control(item)

    def start_soon(
        self, function: Callable[..., Awaitable[object]], *args: Any, scope: trio.CancelScope, name: str
    ) -> None:
        """Start a task, as a nursery does; in a dismissed group nothing is started."""
        if self._gone is None:
            if not self._working:
                self._working = {}
            self._working[scope] = name
            self._nursery.start_soon(self._work, scope, function, args, name=name)

    async def dismiss(self) -> None:
        """Cancel all tasks, and wait until they are gone.

        Cancellation: Cancelled here, it leaves behind what is named in `working`.
        """
        self._gone = trio.Event()
        for scope in tuple(self._working):
            scope.cancel(reason="the session has ended, or crashed")
        if self._working:
            await self._gone.wait()

    @property
    def is_dismissed(self) -> bool:
        """Whether nothing is started any more."""
        return self._gone is not None

    @property
    def working(self) -> tuple[str, ...]:
        """The names of the tasks that have not ended."""
        return tuple(self._working.values())

    async def _work(
        self, scope: trio.CancelScope, function: Callable[..., Awaitable[object]], args: tuple[Any, ...]
    ) -> None:
        try:
            # Dismissed before its first step, it would still get as far as its first checkpoint.
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
                    f"{self._working[scope]!r} was left behind of a session and crashed", error, self.scrub
                )
            else:
                raise leaving from None  # noqa: ASYNC104 - what travels was asked
        finally:
            del self._working[scope]
            if not self._working:
                self._working = _NO_TASKS
                if self._gone is not None:
                    self._gone.set()
