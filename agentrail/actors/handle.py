"""One instance of an actor: its handle, which everybody may hold, and its cell, which only this room sees.

An instance ends in one go, without a checkpoint: calls answered, names freed, watchers and links told, and last its
supervisor. So an observer that hears of an end finds nothing of it left.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import Final, Protocol, TypeVar, overload

import trio
from attrs import evolve, frozen

from agentrail.actors.dead_letters import bury
from agentrail.actors.mailbox import Mailbox, MailboxStatistics
from agentrail.actors.replies import ReplyTo, down
from agentrail.errors import CallingSelf, CallTimeout, NoMailbox
from agentrail.logs import Logger
from agentrail.otp.edges import call_guarded
from agentrail.otp.exits import Crashed, ExitReason, Killed, NoProcess, Normal, Shutdown, check_reason
from agentrail.otp.statem import Call, Cast, Info, RequestFor
from agentrail.otp.supervision_types import Report, StopSummary, Token
from agentrail.otp.tracebacks import print_exception

R = TypeVar("R")

LOGGER: Final = Logger("agentrail.actors")


@frozen
class ExitSignal:
    """A linked actor has ended, or another actor wants this one to; a notice, for those who trap exits.

    Attributes:
        sender: Who; `None` if no sender was named.
        reason: Why.
    """

    sender: "ActorHandle | None"
    reason: ExitReason


class ChildOwner(Protocol):
    """The supervisor of an instance."""

    @property
    def cell(self) -> "ActorCell":
        """Its own cell."""
        ...

    def child_ended(self, cell: "ActorCell", reason: ExitReason) -> None:
        """Hear of the end of a child."""
        ...

    def child_stuck(self, cell: "ActorCell") -> None:
        """Hear that a child did not obey its kill."""
        ...

    def report(self, report: Report) -> None:
        """Give a report to the observers."""
        ...

    def redact(self, text: str, /) -> str:
        """Take secrets out of a text."""
        ...


class ActorContext:
    """What an actor knows of itself: `current_actor()`."""

    __slots__ = ("_cell",)

    def __init__(self, cell: "ActorCell") -> None:
        self._cell = cell

    @property
    def handle(self) -> "ActorHandle":
        """Its own."""
        return self._cell.handle

    @property
    def supervisor(self) -> "ActorHandle | None":
        """Of its supervisor; `None` at the root."""
        owner = self._cell.owner
        return None if owner is None else owner.cell.handle

    @property
    def stop_reason(self) -> ExitReason | None:
        """Why it has to go; `None` while it may stay."""
        return self._cell.stop_reason


_NORMAL: Final = Normal()
_current: Final[ContextVar["ActorCell | None"]] = ContextVar("current_actor", default=None)


def current_actor() -> ActorContext | None:
    """Say which actor this code runs in, tasks that it started included; `None` outside of all."""
    cell = _current.get()
    return None if cell is None else ActorContext(cell)


def current_cell() -> "ActorCell | None":
    """Return the cell of the actor that this code runs in."""
    return _current.get()


class ActorCell:
    """All that the room knows of one instance.

    Attributes:
        id: As in its child spec.
        incarnation: The number of this instance.
        handle: The one handle of it.
        owner: Its supervisor; `None` at the root.
        token: What its supervisor calls it.
        mailbox: `None` of a worker.
        trap_exits: Exit signals are notices.
        exit_reason: Once it has ended.
        stop_reason: Why it has to go.
        is_laddered: Who stops it, its supervisor or `TaskHandle.shutdown`, kills it when its time is over.
        killed: It has no time any more.
        scope: Cancels it.
        task: The one that it runs in.
    """

    __slots__ = (
        "_debts",
        "_links",
        "_releases",
        "_shields",
        "_watchers",
        "exit_reason",
        "handle",
        "id",
        "incarnation",
        "is_laddered",
        "killed",
        "mailbox",
        "owner",
        "scope",
        "stop_reason",
        "task",
        "token",
        "trap_exits",
    )

    def __init__(
        self,
        child_id: Hashable,
        incarnation: int,
        owner: ChildOwner | None,
        token: Token | None,
        mailbox: Mailbox[object] | None = None,
    ) -> None:
        self.id: Hashable = child_id
        self.incarnation: int = incarnation
        self.owner: ChildOwner | None = owner
        self.token: Token | None = token
        self.mailbox: Mailbox[object] | None = mailbox
        self.trap_exits: bool = False
        self.exit_reason: ExitReason | None = None
        self.stop_reason: ExitReason | None = None
        self.is_laddered: bool = False
        self.killed: bool = False
        self.scope: trio.CancelScope = trio.CancelScope()
        self._shields: dict[trio.CancelScope, None] | None = None
        self.task: trio.lowlevel.Task | None = None
        self.handle: ActorHandle = ActorHandle(self)
        # Dicts for their order: an end is told in the order in which people asked for it. Made when they are needed,
        # like the shields: most actors live without, and ten thousand of them would hold fifty thousand empty ones.
        self._debts: dict[ReplyTo, None] | None = None
        self._links: dict[ActorCell, None] | None = None
        self._releases: dict[object, Callable[[], None]] | None = None
        self._watchers: dict[object, Callable[[ExitReason], None]] | None = None

    # --- being stopped

    @abstractmethod
    def ask(self, reason: ExitReason) -> None:
        """Let it end in good order."""

    @abstractmethod
    def kill(self) -> None:
        """Let it end now."""

    def refuse_messages(self) -> NoMailbox:
        """Make the error for the sender of a message to it."""
        message = f"actor {self.id!r} is a worker; use machine() for an actor that reads messages"
        return NoMailbox(message)

    def counts(self) -> tuple[int, int]:
        """Say how many events are postponed, and how many timers run."""
        return 0, 0

    def cut(self) -> None:
        """Cancel it, shields included."""
        self.killed = True
        self.scope.cancel(reason="killed")
        for shield in self._shields or ():
            shield.deadline = -math.inf

    def add_shield(self, shield: trio.CancelScope) -> None:
        """Note a shield of the library that it is in now; a kill cuts it."""
        if self._shields is None:
            self._shields = {}
        self._shields[shield] = None

    def drop_shield(self, shield: trio.CancelScope) -> None:
        """Forget a shield that it has left."""
        if self._shields is not None:
            self._shields.pop(shield, None)

    def receive_exit(self, reason: ExitReason, sender: "ActorHandle | None") -> None:
        """Take an exit signal: of a linked actor, or of the caller of `exit`."""
        if self.exit_reason is not None:
            return
        if self.trap_exits and self.mailbox is not None:
            self.mailbox.put_notice(Info(ExitSignal(sender, reason)))
        elif isinstance(reason, NoProcess):  # never an actor's own end
            self.ask(Crashed.of_rule("NoProcess", "it was linked to an actor that had ended"))
        elif not isinstance(reason, Normal):
            self.ask(reason)

    # --- what others have to do with it

    def owe(self, to: ReplyTo) -> None:
        """Note a call that waits for an answer."""
        if self._debts is None:
            self._debts = {}
        self._debts[to] = None

    def settle(self, to: ReplyTo) -> None:
        """Forget a call."""
        if self._debts is not None:
            self._debts.pop(to, None)

    def answered_twice(self, to: ReplyTo) -> None:
        """Report a second answer."""
        self.report("duplicate_reply")

    def report(self, kind: "str", reason: ExitReason | None = None) -> None:
        """Report something of this instance."""
        if self.owner is not None:
            self.owner.report(self.make_report(kind, reason))

    def make_report(self, kind: str, reason: ExitReason | None = None) -> Report:
        """Make a report of this instance."""
        assert self.owner is not None  # noqa: S101 - only what has a supervisor is reported
        return Report(
            kind=kind,  # type: ignore[arg-type]  # one of the kinds, as all callers write them
            supervisor=self.owner.cell.id,
            child_id=self.id,
            incarnation=self.incarnation,
            reason=reason,
            at_seconds=trio.current_time(),
        )

    def watch(self, key: object, tell: Callable[[ExitReason], None]) -> None:
        """Call `tell` at the end, once, unless `unwatch(key)` comes first."""
        if self._watchers is None:
            self._watchers = {}
        self._watchers[key] = tell

    def unwatch(self, key: object) -> None:
        """Do not tell."""
        if self._watchers is not None:
            self._watchers.pop(key, None)

    def on_release(self, key: object, release: Callable[[], None] | None) -> None:
        """Call `release` at the end, before anybody is told; `None` takes that back."""
        if release is not None:
            self._releases = self._releases or {}
            self._releases[key] = release
        elif self._releases is not None:
            self._releases.pop(key, None)

    def link(self, other: "ActorCell") -> None:
        """Let either end with the other."""
        if self.exit_reason is not None:
            other.receive_exit(NoProcess(), self.handle)
        elif other.exit_reason is not None:
            self.receive_exit(NoProcess(), other.handle)
        elif other is not self:
            self._join(other)
            other._join(self)  # noqa: SLF001 - another one of this class

    def unlink(self, other: "ActorCell") -> None:
        """Undo `link`."""
        self._part(other)
        other._part(self)  # noqa: SLF001 - another one of this class

    def _join(self, other: "ActorCell") -> None:
        if self._links is None:
            self._links = {}
        self._links[other] = None

    def _part(self, other: "ActorCell") -> None:
        if self._links is not None:
            self._links.pop(other, None)

    def give_up(self, reason: ExitReason) -> None:
        """Answer its callers in its place: it does not obey, and when it will end is unknown."""
        if self.mailbox is not None:
            self.mailbox.close(reason)
        for to in tuple(self._debts or ()):
            to.fail_down(reason)

    # --- its life

    def enter(self) -> None:
        """Make the running task the one of this instance."""
        self.task = trio.lowlevel.current_task()
        _current.set(self)

    def finish(self, reason: ExitReason) -> None:
        """End, in one go. Nothing of this instance runs any more."""
        self.exit_reason = reason
        self.task = None
        self.give_up(reason)
        releases, self._releases = self._releases, None
        # What one of them raises is no matter of the others: a caller that is not told of an end waits for it for ever.
        for release in (releases or {}).values():
            call_guarded(log_bug, release)
        watchers, self._watchers = self._watchers, None
        for tell in (watchers or {}).values():
            call_guarded(log_bug, tell, reason)
        links, self._links = self._links, None
        for other in links or ():
            other.unlink(self)
            other.receive_exit(reason, self.handle)
        if self.owner is not None:
            self.owner.child_ended(self, reason)


class ActorHandle:
    """One instance of an actor, one incarnation; equal only to itself.

    A restarted child has another handle. To reach the instance that lives now, hold an `Address`.
    """

    __slots__ = ("__weakref__", "_cell")

    def __init__(self, cell: ActorCell) -> None:
        """Made by the library."""
        self._cell = cell

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._cell.id!r} #{self._cell.incarnation}>"

    @property
    def id(self) -> Hashable:
        """As in the child spec."""
        return self._cell.id

    @property
    def incarnation(self) -> int:
        """1 for the first instance of a child, one more with each restart."""
        return self._cell.incarnation

    @property
    def exit_reason(self) -> ExitReason | None:
        """Why it ended; `None` while it lives."""
        return self._cell.exit_reason

    def cast(self, message: object) -> None:
        """Say something, and do not wait. To a dead actor: a dead letter.

        Raises:
            MailboxFull: Your move: too many wait already, and its policy says `reject` or `block`.
            NoMailbox: Your move: it is a worker.
        """
        self._put(Cast(message))

    def info(self, message: object) -> None:
        """As `cast`, for what is no request; a machine sees an `Info`."""
        self._put(Info(message))

    async def send(self, message: object) -> None:
        """As `cast`, but wait for room if the policy is `block`.

        Raises:
            MailboxFull: Your move: too many wait already, and its policy says `reject`.
            NoMailbox: Your move: it is a worker.

        Cancellation: Always a checkpoint; cancelled here nothing was sent.
        """
        mailbox = mailbox_of(self._cell)
        await mailbox.put(Cast(message))

    @overload
    async def call(self, request: RequestFor[R], *, timeout_seconds: float | None = ...) -> R: ...

    @overload
    async def call(self, request: object, *, timeout_seconds: float | None = ...) -> object: ...

    async def call(self, request: object, *, timeout_seconds: float | None = 5.0) -> object:
        """Ask, and wait for the answer or the end of the actor.

        Args:
            request: What a machine sees as `Call(to, request)`; one whose class is a `RequestFor[int]` is answered with an
                `int`, for type checkers.
            timeout_seconds: How long to wait; `None` for ever.

        Raises:
            CallTimeout: There was no answer in time. The work goes on.
            ActorDown: It has ended, or ended without an answer; `reason` says why, `NoProcess()` if before.
            CallingSelf: Your move: it is the caller itself, from its own task.
            MailboxFull: Your move: too many messages wait already.
            NoMailbox: Your move: it is a worker.
            ValueError: Your move: a timeout that is negative or NaN.

        Cancellation: Always a checkpoint; cancelled here the work goes on, and its answer is dropped.
        """
        check_timeout(timeout_seconds)
        cell = self._cell
        refuse_self(cell, "call")
        mailbox = mailbox_of(cell)
        if cell.exit_reason is not None:
            await trio.lowlevel.checkpoint()
            raise down(self)
        to = ReplyTo(cell, self)
        try:
            with trio.fail_after(math.inf if timeout_seconds is None else timeout_seconds):
                if mailbox.must_wait:
                    await mailbox.put(Call(to, request))
                else:
                    mailbox.put_nowait(Call(to, request))
                return await to.wait()
        except trio.TooSlowError:
            raise late(self, "call", timeout_seconds) from None
        finally:
            if to.is_open:
                to.abandon()

    async def stop(
        self,
        reason: ExitReason = _NORMAL,
        *,
        timeout_seconds: float | None = None,
    ) -> StopSummary:
        """End this instance through its `terminate`, and wait until it is gone. Its supervisor judges the reason.

        Args:
            reason: What it will end with.
            timeout_seconds: How long to wait; `None` for ever.

        Raises:
            ActorDown: It had ended before; `reason` is `NoProcess()`.
            CallTimeout: It takes too long, and goes on with it.
            CallingSelf: Your move: from its own task.
            TypeError: Your move: that is no exit reason.
            ValueError: Your move: a timeout that is negative or NaN.

        Cancellation: Always a checkpoint; cancelled here the stop goes on.
        """
        check_timeout(timeout_seconds)
        check_reason(reason)
        refuse_self(self._cell, "stop")
        if self.exit_reason is not None:
            await trio.lowlevel.checkpoint()
            raise down(self)
        since_seconds = trio.current_time()
        self._cell.ask(reason)
        try:
            with trio.fail_after(math.inf if timeout_seconds is None else timeout_seconds):
                ended = await self.wait()
        except trio.TooSlowError:
            raise late(self, "stop", timeout_seconds) from None
        killed = isinstance(ended, Killed)
        return StopSummary(ended, int(not killed), int(killed), 0, trio.current_time() - since_seconds)

    def exit(self, reason: ExitReason, *, sender: "ActorHandle | None" = None) -> None:
        """Send an exit signal, as from a linked actor: it ends the actor unless that traps exits.

        Raises:
            TypeError: Your move: that is no exit reason.
        """
        check_reason(reason)
        self._cell.receive_exit(reason, sender)

    def kill(self) -> None:
        """End it without grace: cancelled now, `terminate` is not called. It cannot be trapped."""
        if self._cell.exit_reason is None:
            self._cell.kill()

    async def wait(self) -> ExitReason:
        """Wait for its end, and say why it ended.

        Cancellation: Always a checkpoint.
        """
        if self._cell.exit_reason is None:
            gone = trio.Event()
            self._cell.watch(gone, lambda _: gone.set())
            try:
                await gone.wait()
            finally:
                self._cell.unwatch(gone)
        else:
            await trio.lowlevel.checkpoint()
        return self._cell.exit_reason or Shutdown()

    def statistics(self) -> MailboxStatistics:
        """Say what its mailbox has seen; of a worker nothing."""
        mailbox = self._cell.mailbox
        if mailbox is None:
            return MailboxStatistics(waiting=0, high_water=0, accepted=0, rejected=0)
        postponed, timers = self._cell.counts()
        return evolve(mailbox.statistics(), postponed=postponed, timers=timers)

    def _put(self, event: Cast | Info) -> None:
        mailbox = mailbox_of(self._cell)
        if self._cell.exit_reason is not None:
            bury(event, "the actor has ended")
        else:
            mailbox.put_nowait(event)


def log_bug(error: BaseException) -> None:
    """Write down what a callback raised that may not raise."""
    LOGGER.error(
        "a callback of an actor or its supervisor raised; please report it", exception=print_exception(error)
    )


def cell_of(handle: ActorHandle) -> ActorCell:
    """Return what lies behind a handle; only this room asks."""
    return handle._cell  # noqa: SLF001 - the door between a handle and its cell


def mailbox_of(cell: ActorCell) -> Mailbox[object]:
    """Return the mailbox of an actor that has one."""
    if cell.mailbox is None:
        raise cell.refuse_messages()
    return cell.mailbox


def check_timeout(seconds: float | None) -> None:
    """Refuse a time that is none."""
    if seconds is not None and not seconds >= 0:
        message = f"timeout_seconds is {seconds!r}, allowed are seconds from 0, or None for ever"
        raise ValueError(message)


def refuse_self(cell: ActorCell, what: str) -> None:
    """Refuse what an actor can only wait for in vain."""
    if cell.task is not None and cell.task is trio.lowlevel.current_task():
        message = (
            f"actor {cell.id!r} would {what} itself and wait for ever: use cast, Send(SELF, …) or Stop()"
        )
        raise CallingSelf(message)


def late(handle: ActorHandle, what: str, seconds: float | None) -> CallTimeout:
    """Make the error for a caller that waited too long."""
    message = f"{what} of {handle!r} was not answered within {seconds} s; the work goes on"
    return CallTimeout(message)
