"""The life of a machine actor: init, one step per message, terminate."""

import math
from collections.abc import Callable, Hashable
from enum import Enum
from typing import Any, Final

import trio
from attrs import asdict, frozen
from msgspec import structs

from agentrail.actors.actor_handle import ActorCell, ActorContext, ActorHandle, ChildOwner
from agentrail.actors.actor_types import Behaviour, Ignore, InitStop, MachineStatus, Options, without_contents
from agentrail.actors.dead_letters import LOGGER, bury
from agentrail.actors.deadlines import MachineTimers, take_in_turn
from agentrail.actors.mailbox import Mailbox
from agentrail.actors.message_origins import PASSIVATED, Origins
from agentrail.actors.monitor import Monitor, Notice, link, monitor, unlink
from agentrail.actors.reply_slots import ReplyTo, down
from agentrail.errors import MailboxFull, NotSuspended
from agentrail.otp import statem
from agentrail.otp.exits import (
    ActorExit,
    Crashed,
    ExitReason,
    Killed,
    Redact,
    chosen_reason,
    describe,
    is_clean,
)
from agentrail.otp.guarded_calls import call_guarded, leaves, show
from agentrail.otp.statem import (
    ArmTimer,
    Call,
    Cast,
    DeadLetter,
    DisarmTimer,
    Engine,
    EngineEffect,
    Info,
    Init,
    Note,
    Perform,
    RefuseCall,
    SendReply,
    Terminate,
    TimerDue,
)
from agentrail.otp.supervision_types import Report, Token

# Exceptions of an actor, as its exit reason.


def reason_of_raised(
    error: BaseException, redact: Redact, interrupt: Callable[[BaseException], None]
) -> tuple[ExitReason | None, trio.Cancelled | None]:
    parts = leaves(error)
    for part in parts:
        if isinstance(part, KeyboardInterrupt | SystemExit):
            interrupt(part)
    cancelled = next((part for part in parts if isinstance(part, trio.Cancelled)), None)
    if cancelled is not None:
        parts = tuple(part for part in parts if not isinstance(part, trio.Cancelled))
        if not parts:
            return None, cancelled
        error = parts[0] if len(parts) == 1 else BaseExceptionGroup("beside a cancellation", parts)
    first = parts[0]
    if isinstance(first, ActorExit) and all(isinstance(part, ActorExit) for part in parts):
        return chosen_reason(first), cancelled
    return Crashed.from_exception(error, redact=redact), cancelled


UNASKED_SECONDS: Final = 5.0
"""Time limit for `terminate` if no caller requested the stop."""


_PASSING: Final = (trio.Cancelled, KeyboardInterrupt, SystemExit)


class _Self(Enum):
    SELF = "the machine that says so"


SELF: Final = _Self.SELF
"""In `Send`: the machine itself."""


@frozen
class Send:
    """Effect: cast a message. If there is no room, it becomes a dead letter, because a machine cannot catch.

    Attributes:
        to: A handle, an address, or `SELF`.
        message: The message.
    """

    to: Any
    message: object


@frozen
class Watch:
    """Effect: monitor an actor. Its end arrives as `Info(Down(…))`."""

    handle: ActorHandle


@frozen
class Unwatch:
    """Effect: cancel all monitors of this machine on an actor."""

    handle: ActorHandle


@frozen
class Link:
    """Effect: link this machine to an actor."""

    handle: ActorHandle


@frozen
class Unlink:
    """Effect: undo `Link`."""

    handle: ActorHandle


@frozen(kw_only=True)
class CrashReport(Report):
    """Report: a machine ended abnormally.

    Attributes:
        status: Its status, as shown by its `format_status`.
    """

    status: MachineStatus


@frozen(eq=False)
class StopOrder:
    """A control message: end with this reason, after the current step."""

    reason: ExitReason


@frozen(eq=False)
class Inspection:
    """A control message: inspect or change the machine between two steps."""

    to: ReplyTo
    look: "Callable[[MachineLoop], object]"


class MachineCell(ActorCell):
    __slots__ = ("loop",)

    def __init__(
        self, child_id: Hashable, incarnation: int, owner: ChildOwner, token: Token, options: Options
    ) -> None:
        mailbox = Mailbox[object](capacity=options.capacity, overflow=options.overflow)
        super().__init__(child_id, incarnation, owner, token, mailbox)
        self.trap_exits: bool = options.trap_exits
        self.loop: MachineLoop | None = None

    def ask(self, reason: ExitReason) -> None:
        if self.stop_reason is None:
            self.stop_reason: ExitReason | None = reason
            if self.loop is None:  # it is in its init, which reads no messages
                self.scope.cancel(reason="the start was cancelled")
            elif self.mailbox is not None:
                self.mailbox.put_control(StopOrder(reason))

    def kill(self) -> None:
        self.cut()

    def finish(self, reason: ExitReason) -> None:
        """End. A passivated machine hands back the unhandled events that it accepted through an address."""
        if reason == PASSIVATED and self.loop is not None and self.mailbox is not None:
            engine = self.loop.engine
            self.loop.origins.hand_back((*engine.queue, *engine.postponed), self.mailbox.drain())
        super().finish(reason)
        self.loop = None

    def counts(self) -> tuple[int, int]:
        engine = None if self.loop is None else self.loop.engine
        return (0, 0) if engine is None else (len(engine.postponed), engine.timers.count)


class MachineLoop:
    def __init__(
        self, cell: MachineCell, behaviour: Behaviour[Any, Any], init: Init[Any, Any], options: Options
    ) -> None:
        self.cell = cell
        self.behaviour: Behaviour[Any, Any] = behaviour
        self.engine: Engine[Any, Any] = Engine(init.state, init.data, options.limits)
        self.is_suspended: bool = False
        self.origins: Origins = Origins()
        self._init: Init[Any, Any] | None = init
        self._limits = options.limits
        self._mailbox: Mailbox[object] = cell.mailbox or Mailbox()
        self._timers: MachineTimers | None = None  # created on first use: most machines need none
        self._monitors: dict[ActorHandle, dict[Monitor, None]] = {}
        self._nursery: trio.Nursery | None = None
        self._redact: Redact = cell.owner.redact if cell.owner is not None else str

    def take_info(self) -> object:
        init = self._init
        if init is None:
            return None
        self._init = structs.replace(init, info=None)
        return init.info

    async def run(self) -> ExitReason:
        if not _performs(self.behaviour):  # without tasks of its own it needs no nursery
            reason = await self._loop()
            if reason is not None:
                return reason
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            reason = await self._loop()
            assert reason is not None  # noqa: S101 - it has its nursery
            self._mailbox.shut(reason)
            nursery.cancel_scope.cancel(reason="the actor ends")
        return reason

    async def _loop(self) -> ExitReason | None:
        """Handle events until the machine ends. `None`: it needs a nursery and has none; start again with one."""
        init, self._init = self._init, None
        if init is not None:
            clock, limits, redact = trio.current_time, self._limits, self._redact
            self._take(
                statem.start_statem(
                    self.behaviour, init, now=clock(), limits=limits, redact=redact, clock=clock
                )
            )
        while self.engine.stopped is None:
            item = await take_in_turn(self._mailbox, self._timers, suspended=self.is_suspended)
            if isinstance(item, (Cast, Call, Info)):
                self._step(item)
                if self._mailbox.via is not None or self.origins.came is not None:
                    self.origins.note(item, self._mailbox.via, self.engine)
            elif isinstance(item, TimerDue):
                self._step(item)
            elif isinstance(item, Notice):
                if not item.monitor.is_cancelled:
                    self._forget(item.monitor)
                    self._step(Info(item.down))
            elif isinstance(item, StopOrder):
                self._take(statem.stop_statem(self.engine, item.reason))
            elif isinstance(item, Inspection):
                self._inspect(item)
                if self._nursery is None and _performs(self.behaviour):
                    return None
        return self.engine.stopped

    def _step(self, event: statem.Incoming) -> None:
        clock = trio.current_time
        self._take(
            statem.step_statem(
                self.behaviour, self.engine, event, now=clock(), redact=self._redact, clock=clock
            )
        )

    def _take(self, result: tuple[Engine[Any, Any], tuple[EngineEffect, ...]]) -> None:
        self.engine, effects = result
        for effect in effects:
            self._carry_out(effect)

    # --- effects

    def _carry_out(self, effect: EngineEffect) -> None:
        match effect:
            case SendReply(to, value):
                if isinstance(to, ReplyTo):
                    to.reply(value)
            case Perform(wanted, tag):
                call_guarded(self._fall, self._perform, wanted, tag)
            case ArmTimer(key, epoch, due_seconds):
                if self._timers is None:
                    self._timers = MachineTimers(self._mailbox)
                self._timers.arm(key, epoch, due_seconds)
            case DisarmTimer(key):
                if self._timers is not None:  # always true: a disarmed timer was armed before
                    self._timers.disarm(key)
            case RefuseCall(to, why):
                if isinstance(to, ReplyTo):
                    to.fail(
                        down(to.handle)
                        if why == "stopped"
                        else MailboxFull(f"no room left in the {why}: try again later")
                    )
            case DeadLetter(event, why):
                bury(event, why)
            case Note(kind):
                self.cell.report(kind)
            case Terminate():
                pass  # `terminate` and the end of the cell do the rest

    def _perform(self, effect: object, tag: Hashable) -> None:
        handle = self.cell.handle
        match effect:
            case Send(to, message):
                try:
                    (handle if to is SELF else to).cast(message)
                except MailboxFull:
                    bury(Cast(message), "the mailbox was full")
            case Watch(other):
                self._monitors.setdefault(other, {})[monitor(other, deliver_to=handle)] = None
            case Unwatch(other):
                for each in self._monitors.pop(other, {}):
                    each.cancel()
            case Link(other):
                link(handle, other)
            case Unlink(other):
                unlink(handle, other)
            case _ if self._nursery is not None:
                self._nursery.start_soon(self._do, effect, tag)
            case _:
                name = type(self.behaviour).__name__
                text = f"{name} has no perform, but must carry out a {type(effect).__name__}"
                self._mailbox.put_control(StopOrder(Crashed.of_rule("NoPerform", text, redact=self._redact)))

    def _forget(self, fired: Monitor) -> None:
        own = self._monitors.get(fired.handle, {})
        own.pop(fired, None)
        if not own:
            self._monitors.pop(fired.handle, None)

    async def _do(self, effect: object, tag: Hashable) -> None:
        try:
            result = await self.behaviour.perform(effect, ActorContext(self.cell))
        except BaseException as error:  # noqa: ASYNC103 - the edge of the actor: an error of its effect is its exit reason
            passing = self._fall(error)
            if passing is error:
                raise
            if passing is not None:
                raise passing from None  # noqa: ASYNC104 - the part of the group that may pass
        else:
            if isinstance(result, Info):
                self._mailbox.put_notice(result if tag is None else structs.replace(result, tag=tag))
            elif result is not None or tag is not None:
                self._mailbox.put_notice(Info(result, tag))

    def _fall(self, error: BaseException) -> BaseException | None:
        """End because an effect raised, and return the part that must not be caught: a cancellation or an interrupt."""
        passing, ours = _split(error)
        if ours is not None:
            parts = leaves(ours)
            if all(isinstance(part, ActorExit) for part in parts):
                reason = next(chosen_reason(part) for part in parts if isinstance(part, ActorExit))
            else:
                reason = Crashed.from_exception(ours, redact=self._redact)
            if self._mailbox.is_closed or self.engine.stopped:  # it is already ending, with its own reason
                if not is_clean(reason):
                    trace = reason.traceback if isinstance(reason, Crashed) else None
                    LOGGER.error(
                        "an effect of %r failed while cleaning up: %s",
                        self.cell.handle,
                        describe(reason),
                        exception=trace,
                    )
            else:
                self._mailbox.put_control(StopOrder(reason))
        return passing

    # --- introspection

    def suspend(self) -> None:
        self.is_suspended = True
        if self._timers is not None:
            self._timers.is_suspended = True

    def resume(self) -> None:
        self.is_suspended = False
        if self._timers is not None:
            self._timers.resume()

    def _inspect(self, asked: Inspection) -> None:
        def look() -> None:
            asked.to.reply(asked.look(self))

        # The function and the error belong to the caller.
        call_guarded(lambda error: asked.to.fail(error.with_traceback(None)), look)

    def status(self, *, last: bool = False) -> MachineStatus:
        engine = self.engine
        status = MachineStatus(
            reason=engine.stopped,
            event=engine.last if last else None,
            state=engine.state,
            data=engine.data,
            queue=engine.queue,
            postponed=engine.postponed,
            timers=tuple(engine.timers.items()),
        )
        # A report must not cause a crash, and no unformatted content may leak.
        return call_guarded(lambda _: without_contents(status), self.behaviour.format_status, status)

    def replace(self, state: object, data: object) -> None:
        self.engine = structs.replace(self.engine, state=state, data=data)

    def change_code(self, behaviour: Behaviour[Any, Any], old_version: object) -> None:
        if not self.is_suspended:
            message = f"actor {show(self.cell.id)} is running: suspend it before its code changes"
            raise NotSuspended(message)
        state, data = behaviour.code_change(old_version, self.engine.state, self.engine.data)
        self.behaviour = behaviour
        self.replace(state, data)

    # --- the end

    async def terminate(self, reason: ExitReason, seconds: float) -> ExitReason:
        cell = self.cell
        limit = math.inf if cell.is_laddered else min(seconds, UNASKED_SECONDS)
        fault: ExitReason | None = None
        with trio.CancelScope(shield=True, deadline=trio.current_time() + limit) as shield:
            cell.add_shield(shield)
            if cell.killed:
                shield.deadline = -math.inf
            cancelled: trio.Cancelled | None = None
            try:
                await self.behaviour.terminate(reason, self.engine.state, self.engine.data)
            except BaseException as error:  # noqa: ASYNC103 - the edge of the actor: the error is the exit reason
                if any(isinstance(part, KeyboardInterrupt | SystemExit) for part in leaves(error)):
                    raise
                fault, cancelled = reason_of_raised(error, self._redact, lambda _: None)
            finally:
                cell.drop_shield(shield)
            if cancelled is not None:
                try:
                    raise cancelled
                finally:
                    del cancelled
        return fault or (Killed() if shield.cancelled_caught else reason)

    def report_crash(self, reason: ExitReason) -> None:
        if is_clean(reason) or self.cell.owner is None:
            return
        self.engine = structs.replace(self.engine, stopped=reason)
        status = self.status(last=True)
        made = self.cell.make_report("crash", status.reason)
        self.cell.owner.report(CrashReport(**asdict(made, recurse=False), status=status))


def _split(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Separate the exceptions that only Trio and the operator may catch from bugs."""
    parts = leaves(error)
    passing = [part for part in parts if isinstance(part, _PASSING)]
    if not passing or len(passing) == len(parts):
        return (error, None) if passing else (None, error)
    # Flat, without `split`, which recurses as deep as the group does.
    ours = [part for part in parts if not isinstance(part, _PASSING)]
    bug = ours[0] if len(ours) == 1 else BaseExceptionGroup("in an effect", ours)
    return BaseExceptionGroup("not to be caught", passing), bug


def _performs(behaviour: Behaviour[Any, Any]) -> bool:
    return type(behaviour).perform is not Behaviour.perform


async def begin_machine(
    cell: MachineCell, behaviour: Behaviour[Any, Any], options: Options
) -> MachineLoop | Ignore | InitStop:
    """Call `init` and create the loop that continues from its state; or return its `Ignore` or `InitStop`."""
    answer: object = await behaviour.init()
    match answer:
        case Init():
            cell.loop = MachineLoop(cell, behaviour, answer, options)
            return cell.loop
        case Ignore() | InitStop():
            return answer
        case _:
            message = f"init returned {type(answer).__name__}, expected Init, IGNORE or InitStop: return one of them"
            raise TypeError(message)
