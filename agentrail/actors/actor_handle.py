"""One instance of an actor: the public handle, and the cell, which is private to this package."""

import math
import weakref
from abc import abstractmethod
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, overload

import trio
from attrs import define, evolve, field, frozen

from agentrail.actors.mailbox import Mailbox, MailboxStatistics
from agentrail.actors.reply_slots import ReplyTo, down
from agentrail.actors.trio_check import need_trio
from agentrail.errors import CallingSelf, CallTimeout, NoMailbox
from agentrail.logs import Logger
from agentrail.otp.child_specs import is_amount
from agentrail.otp.exits import Crashed, ExitReason, Killed, NoProcess, Normal, Shutdown, check_reason
from agentrail.otp.guarded_calls import call_guarded, repr_of, show
from agentrail.otp.statem import Call, Cast, Info, RequestFor
from agentrail.otp.supervision_types import Report, StopSummary, Token
from agentrail.otp.tracebacks import print_exception
from agentrail.otp.unique import Unique
from agentrail.outside import current_run

R = TypeVar("R")

LOGGER: Final = Logger("agentrail.actors")


@frozen
class ExitSignal:
    """Notice of an exit signal, for actors that trap exits: a linked actor has ended, or another actor called `exit`.

    Attributes:
        sender: The actor that sent the signal. `None` if no sender was named.
        reason: The exit reason.
    """

    sender: "ActorHandle | None"
    reason: ExitReason


class ChildOwner(Protocol):
    @property
    def cell(self) -> "ActorCell": ...

    def child_ended(self, cell: "ActorCell", reason: ExitReason) -> None: ...

    def child_stuck(self, cell: "ActorCell") -> None: ...

    def report(self, report: Report) -> None: ...

    def redact(self, text: str, /) -> str: ...


class ActorContext:
    """The running actor's view of itself, returned by `current_actor()`."""

    __slots__ = ("_cell",)

    def __init__(self, cell: "ActorCell") -> None:
        self._cell = cell

    @property
    def handle(self) -> "ActorHandle":
        """Handle of this actor."""
        return self._cell.handle

    @property
    def supervisor(self) -> "ActorHandle | None":
        """Handle of its supervisor. `None` at the root."""
        owner = self._cell.owner
        return None if owner is None else owner.cell.handle

    @property
    def stop_reason(self) -> ExitReason | None:
        """Why the actor must stop. `None` if no stop was requested."""
        return self._cell.stop_reason


_NORMAL: Final = Normal()
_current: Final[ContextVar["ActorCell | None"]] = ContextVar("current_actor", default=None)


def current_actor() -> ActorContext | None:
    """Return the context of the running actor, also in tasks that it started. `None` outside of an actor."""
    cell = _current.get()
    return None if cell is None else ActorContext(cell)


def current_cell() -> "ActorCell | None":
    return _current.get()


@define(eq=False, repr=False, weakref_slot=False)
class ActorCell:
    """The internal state of one instance.

    Attributes:
        owner: Its supervisor. `None` at the root.
        mailbox: `None` for a worker.
        is_laddered: Whether the stopper kills it when its shutdown time is over.
        killed: Whether it was killed, without any grace time.
    """

    id: Hashable
    incarnation: int
    owner: ChildOwner | None
    token: Token | None
    mailbox: Mailbox[object] | None = None
    trap_exits: bool = field(init=False, default=False)
    exit_reason: ExitReason | None = field(init=False, default=None)
    stop_reason: ExitReason | None = field(init=False, default=None)
    is_laddered: bool = field(init=False, default=False)
    killed: bool = field(init=False, default=False)
    run: trio.lowlevel.TrioToken | None = field(init=False, factory=current_run)
    scope: trio.CancelScope = field(init=False, factory=trio.CancelScope)
    task: trio.lowlevel.Task | None = field(init=False, default=None)
    handle: "ActorHandle" = field(init=False)
    _known_as: "weakref.ref[ActorHandle]" = field(init=False)  # in place of the handle, once it has ended
    # Dicts keep the order of insertion: watchers are notified in the order in which they registered. Created on first use,
    # like the shields: most actors need none, and ten thousand actors would hold fifty thousand empty ones.
    _debts: dict[ReplyTo, None] | None = field(init=False, default=None)
    _links: "dict[ActorCell, None] | None" = field(init=False, default=None)
    _releases: dict[object, Callable[[], None]] | None = field(init=False, default=None)
    _shields: dict[trio.CancelScope, None] | None = field(init=False, default=None)
    _watchers: dict[object, Callable[[ExitReason], None]] | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.handle = ActorHandle(self)

    # --- stopping

    @abstractmethod
    def ask(self, reason: ExitReason) -> None: ...

    @abstractmethod
    def kill(self) -> None: ...

    def need_run(self) -> None:
        if self.run is not None and current_run() is not self.run:  # `None`: it has ended
            need_trio(self.run)

    def refuse_messages(self) -> NoMailbox:
        message = f"actor {show(self.id)} is a worker; use machine() for an actor that reads messages"
        return NoMailbox(message)

    def counts(self) -> tuple[int, int]:
        return 0, 0

    def cut(self) -> None:
        """Cancel the instance, including its shields."""
        self.killed = True
        self.scope.cancel(reason="killed")
        for shield in self._shields or ():
            shield.deadline = -math.inf

    def add_shield(self, shield: trio.CancelScope) -> None:
        self._shields = self._shields or {}
        self._shields[shield] = None

    def drop_shield(self, shield: trio.CancelScope) -> None:
        if self._shields is not None:
            self._shields.pop(shield, None)

    def receive_exit(self, reason: ExitReason, sender: "ActorHandle | None") -> None:
        if self.exit_reason is not None:
            return
        if self.trap_exits and self.mailbox is not None:
            self.mailbox.put_notice(Info(ExitSignal(sender, reason)))
        elif isinstance(reason, NoProcess):  # never the actor's own end
            self.ask(Crashed.of_rule("NoProcess", "it was linked to an actor that had already ended"))
        elif not isinstance(reason, Normal):
            self.ask(reason)

    # --- calls, watchers and links

    def owe(self, to: ReplyTo) -> None:
        self._debts = self._debts or {}
        self._debts[to] = None

    def settle(self, to: ReplyTo) -> None:
        if self._debts is not None:
            self._debts.pop(to, None)

    def answered_twice(self, to: ReplyTo) -> None:
        self.report("duplicate_reply")

    def report(self, kind: "str", reason: ExitReason | None = None) -> None:
        if self.owner is not None:
            self.owner.report(self.make_report(kind, reason))

    def make_report(self, kind: str, reason: ExitReason | None = None) -> Report:
        assert self.owner is not None  # noqa: S101 - only an actor with a supervisor is reported
        return Report(
            kind=kind,  # type: ignore[arg-type]  # one of the kinds, as all callers write them
            supervisor=self.owner.cell.id,
            child_id=self.id,
            incarnation=self.incarnation,
            reason=reason,
            at_seconds=trio.current_time(),
        )

    def watch(self, key: object, tell: Callable[[ExitReason], None]) -> None:
        """Call `tell` once at the end, unless `unwatch(key)` is called first."""
        self._watchers = self._watchers or {}
        self._watchers[key] = tell

    def unwatch(self, key: object) -> None:
        if self._watchers is not None:
            self._watchers.pop(key, None)

    def on_release(self, key: object, release: Callable[[], None] | None) -> None:
        """Call `release` at the end, before any watcher is notified. `None` cancels it."""
        if release is not None:
            self._releases = self._releases or {}
            self._releases[key] = release
        elif self._releases is not None:
            self._releases.pop(key, None)

    def link(self, other: "ActorCell") -> None:
        if self.exit_reason is not None:
            other.receive_exit(NoProcess(), self.handle)
        elif other.exit_reason is not None:
            self.receive_exit(NoProcess(), other.handle)
        elif other is not self:
            self._join(other)
            other._join(self)  # noqa: SLF001 - another instance of this class

    def unlink(self, other: "ActorCell") -> None:
        self._part(other)
        other._part(self)  # noqa: SLF001 - another instance of this class

    def _join(self, other: "ActorCell") -> None:
        self._links = self._links or {}
        self._links[other] = None

    def _part(self, other: "ActorCell") -> None:
        if self._links is not None:
            self._links.pop(other, None)

    def give_up(self, reason: ExitReason) -> None:
        """Answer its callers on its behalf: it does not obey, and when it will end is unknown."""
        if self.mailbox is not None:
            self.mailbox.close(reason)
        for to in tuple(self._debts or ()):
            to.fail_down(reason)

    # --- life cycle

    def enter(self) -> None:
        self.task = trio.lowlevel.current_task()
        _current.set(self)

    def finish(self, reason: ExitReason) -> None:
        """End the instance in a single step. All of its code has stopped."""
        self.exit_reason = reason
        self.task = self.run = None
        self.give_up(reason)
        releases, self._releases = self._releases, None
        # One failing callback must not affect the others: a caller that is not notified of an end waits indefinitely.
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
        if type(self.handle) is ActorHandle:  # a supervisor's is made by its tree
            # Each knows the other, and the collector of a process with many sessions looks at old objects hourly.
            self._known_as = weakref.ref(self.handle)
            del self.handle

    if not TYPE_CHECKING:  # a property would cost each start a call, and type checkers would allow every name

        def __getattr__(self, name: str) -> "ActorHandle":
            """Return the handle of an ended actor: one object for as long as it is held."""
            if name != "handle":
                raise AttributeError(name)
            handle = self._known_as()
            if handle is None:
                handle = ActorHandle(self)
                self._known_as = weakref.ref(handle)
            return handle


class ActorHandle(Unique):
    """One instance (incarnation) of an actor, equal only to itself.

    A restarted child has another handle. To reach the current instance, hold an `Address`.
    """

    __slots__ = ("__weakref__", "_cell")

    def __init__(self, cell: ActorCell) -> None:
        """Created by the library."""
        self._cell = cell

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {show(self._cell.id)} #{self._cell.incarnation}>"

    @property
    def id(self) -> Hashable:
        """Id from the child spec."""
        return self._cell.id

    @property
    def incarnation(self) -> int:
        """1 for the first instance of a child, incremented by each restart."""
        return self._cell.incarnation

    @property
    def exit_reason(self) -> ExitReason | None:
        """Why it ended. `None` while it lives."""
        return self._cell.exit_reason

    def cast(self, message: object) -> None:
        """Send a message without waiting. A message to a dead actor becomes a dead letter.

        Raises:
            MailboxFull: Your move: the mailbox is full, and its policy is `reject` or `block`.
            NoMailbox: Your move: the actor is a worker.
        """
        mailbox_of(self._cell).put_nowait(Cast(message))

    def info(self, message: object) -> None:
        """Send a message like `cast`, for notifications that are not requests. A machine receives an `Info`."""
        mailbox_of(self._cell).put_nowait(Info(message))

    async def send(self, message: object) -> None:
        """Send a message like `cast`, but wait for room if the policy is `block`.

        Raises:
            MailboxFull: Your move: the mailbox is full, and its policy is `reject`.
            NoMailbox: Your move: the actor is a worker.

        Cancellation: Always a checkpoint. If cancelled, no message was sent.
        """
        await mailbox_of(self._cell).put(Cast(message))

    @overload
    async def call(self, request: RequestFor[R], *, timeout_seconds: float | None = ...) -> R: ...

    @overload
    async def call(self, request: object, *, timeout_seconds: float | None = ...) -> object: ...

    async def call(self, request: object, *, timeout_seconds: float | None = 5.0) -> object:
        """Send a request and wait for its answer, or for the end of the actor.

        Args:
            request: A machine receives it as `Call(to, request)`. A request whose class is a `RequestFor[int]` is answered
                with an `int`, for type checkers.
            timeout_seconds: Time limit for the answer. `None` waits indefinitely.

        Raises:
            CallTimeout: No answer arrived in time. The work continues.
            ActorDown: The actor ended without an answer. `reason` is its exit reason, `NoProcess()` if it had ended before.
            CallingSelf: Your move: the caller is the actor itself, in its own task.
            MailboxFull: Your move: too many messages wait already.
            NoMailbox: Your move: the actor is a worker.
            ValueError: Your move: the timeout is negative or not a number.

        Cancellation: Always a checkpoint. If cancelled, the work continues and its answer is dropped.
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
        """Stop this instance through its `terminate` and wait for its end. Its supervisor judges the reason.

        Args:
            reason: Its exit reason.
            timeout_seconds: Time limit for the wait. `None` waits indefinitely.

        Raises:
            ActorDown: It had already ended. `reason` is `NoProcess()`.
            CallTimeout: It did not end in time. The stop continues.
            CallingSelf: Your move: called from the actor's own task.
            TypeError: Your move: `reason` is not an exit reason.
            ValueError: Your move: the timeout is negative or not a number.

        Cancellation: Always a checkpoint. If cancelled, the stop continues.
        """
        check_timeout(timeout_seconds)
        check_reason(reason)
        refuse_self(self._cell, "stop")
        if self.exit_reason is not None:
            await trio.lowlevel.checkpoint()
            raise down(self)
        since_seconds = trio.current_time()
        cell_of(self).ask(reason)
        try:
            with trio.fail_after(math.inf if timeout_seconds is None else timeout_seconds):
                ended = await self.wait()
        except trio.TooSlowError:
            raise late(self, "stop", timeout_seconds) from None
        killed = isinstance(ended, Killed)
        return StopSummary(ended, int(not killed), int(killed), 0, trio.current_time() - since_seconds)

    def exit(self, reason: ExitReason, *, sender: "ActorHandle | None" = None) -> None:
        """Send an exit signal, as a linked actor does: it ends the actor unless the actor traps exits.

        Raises:
            TypeError: Your move: `reason` is not an exit reason.
        """
        check_reason(reason)
        cell_of(self).receive_exit(reason, sender)

    def kill(self) -> None:
        """Cancel the actor at once, without calling `terminate`. A kill cannot be trapped."""
        if self._cell.exit_reason is None:
            cell_of(self).kill()

    async def wait(self) -> ExitReason:
        """Wait for the actor's end and return its exit reason.

        Cancellation: Always a checkpoint.
        """
        if cell_of(self).exit_reason is None:
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
        """Return the statistics of its mailbox. All zero for a worker."""
        mailbox = self._cell.mailbox
        if mailbox is None:
            return MailboxStatistics(waiting=0, high_water=0, accepted=0, rejected=0)
        postponed, timers = self._cell.counts()
        return evolve(mailbox.statistics(), postponed=postponed, timers=timers)


def log_bug(error: BaseException) -> None:
    LOGGER.error(
        "a callback of an actor or its supervisor raised; please report it", exception=print_exception(error)
    )


def cell_of(handle: object) -> ActorCell:
    if not isinstance(handle, ActorHandle):
        message = f"{show(handle)} is not an ActorHandle: pass the handle of an actor, as supervisor.handle(…) returns it"
        raise TypeError(message)
    cell = handle._cell  # noqa: SLF001 - a handle hides its cell from users
    cell.need_run()
    return cell


def mailbox_of(cell: ActorCell) -> Mailbox[object]:
    if cell.mailbox is None:
        raise cell.refuse_messages()
    cell.need_run()
    return cell.mailbox


def check_timeout(seconds: object) -> None:
    if seconds is not None and not (is_amount(seconds) or seconds == math.inf):
        message = f"timeout_seconds is {repr_of(seconds)}: expected seconds >= 0, or None for no limit"
        raise ValueError(message)


def refuse_self(cell: ActorCell, what: str) -> None:
    if cell.task is not None and cell.task is trio.lowlevel.current_task():
        message = f"actor {cell.id!r} would {what} itself and wait forever: use cast, Send(SELF, …) or Stop()"
        raise CallingSelf(message)


def late(handle: ActorHandle, what: str, seconds: float | None) -> CallTimeout:
    message = f"{what} of {handle!r} was not answered within {seconds} s; the work continues"
    return CallTimeout(message)
