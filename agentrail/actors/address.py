"""Addresses: they find whoever lives now at each send, and hold messages while nobody does but somebody is to come."""

import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import trio
from attrs import frozen

from agentrail.actors.dead_letters import bury
from agentrail.actors.handle import Cell, check_timeout, mailbox_of, refuse_self
from agentrail.actors.replies import ReplyTo, down
from agentrail.actors.traced import Addressed, AddressedCall, AddressedCast
from agentrail.errors import CallTimeout, MailboxFull, NoMailbox
from agentrail.otp.statem_types import check_bound

Look: TypeAlias = Callable[[], None]


@frozen(eq=False)
class Wait:
    """There is nobody now, and somebody is to come.

    Attributes:
        subscribe: Lets a look be called whenever that may have changed; under a key, so that twice is as once.
        unsubscribe: Ends that.
    """

    subscribe: Callable[[object, Look], None]
    unsubscribe: Callable[[object], None]


Found: TypeAlias = Cell | Wait | None

_NOBODY: Final = "nobody is there, and nobody is to come"


class Address:
    """Reaches a child, or a name, over all its instances. Made by `supervisor.address` and `registry.address`."""

    __slots__ = ("_find", "_held", "_hold_limit", "_name", "_waiting")

    def __init__(self, name: str, find: Callable[[], Found], hold_limit: int) -> None:
        """Make one that holds nothing."""
        check_bound("hold_limit", hold_limit)
        self._name = name
        self._find = find
        self._hold_limit = hold_limit
        self._held: deque[Addressed] = deque()
        self._waiting: Wait | None = None

    def __repr__(self) -> str:
        return f"<Address of {self._name}>"

    def cast(self, message: object) -> None:
        """Say something to whoever lives now, or comes next. To nobody: a dead letter.

        Raises:
            MailboxFull: Your move: as of `ActorHandle.cast`.
            NoMailbox: Your move: it is a worker.
        """
        self._send(AddressedCast(message, self))

    async def send(self, message: object) -> None:
        """As `cast`, but wait for room if the policy of its mailbox is `block`.

        Cancellation: Always a checkpoint; cancelled here nothing was sent.
        """
        found = None if self._held else self._find()
        if isinstance(found, Cell):
            await mailbox_of(found).put(AddressedCast(message, self))
        else:
            await trio.lowlevel.checkpoint()
            self.cast(message)

    async def call(self, request: object, *, timeout_seconds: float | None = 5.0) -> object:
        """Ask whoever lives now, or comes next; the time runs while the call is held.

        Raises:
            ActorDown: Nobody is there and nobody is to come, or it ended without an answer.
            CallTimeout: There was no answer in time.
            CallingSelf: Your move: it is the caller itself, from its own task.
            MailboxFull: Your move: too many messages wait already.

        Cancellation: Always a checkpoint; cancelled here the work goes on, and its answer is dropped.
        """
        check_timeout(timeout_seconds)
        found = self._find()
        if isinstance(found, Cell):
            refuse_self(found, "call")
        to = ReplyTo(None, self)
        try:
            with trio.fail_after(math.inf if timeout_seconds is None else timeout_seconds):
                self._send(AddressedCall(to, request, self))
                return await to.wait()
        except trio.TooSlowError:
            message = f"call of {self!r} was not answered within {timeout_seconds} s; the work goes on"
            raise CallTimeout(message) from None
        finally:
            if to.is_open:
                to.abandon()

    def take_back(self, events: Iterable[Addressed]) -> None:
        """Take messages back that an instance had accepted through this address and not handled."""
        for event in reversed([*events]):
            if isinstance(event, AddressedCall) and isinstance(event.to, ReplyTo):
                event.to.move(None, self)
            self._held.appendleft(event)
        if self._waiting is None:
            self.look()

    def look(self) -> None:
        """See who is there: give what is held to them, or go on waiting, or give it up."""
        if self._waiting is not None:
            self._waiting.unsubscribe(self)
            self._waiting = None
        if not self._held:
            return
        found = self._find()
        if isinstance(found, Cell):
            self._flush(found)
        elif found is None:
            self.give_up()
        else:
            self._waiting = found
            found.subscribe(self, self.look)

    def give_up(self) -> None:
        """Nobody comes: casts are dead letters, calls raise `ActorDown`."""
        while self._held:
            self._bury(self._held.popleft())

    def _send(self, event: Addressed) -> None:
        if not self._held:
            found = self._find()
            if isinstance(found, Cell):
                mailbox = mailbox_of(found)
                _move(event, found)
                mailbox.put_nowait(event)
                return
            if found is None:
                self._bury(event)
                return
        if len(self._held) >= self._hold_limit:
            if isinstance(event, AddressedCall) and isinstance(event.to, ReplyTo):
                message = f"{len(self._held)} messages are held for the next instance, at most that many may: try later"
                event.to.fail(MailboxFull(message))
            else:
                bury(event, "as many messages as are allowed are held already")
            return
        self._held.append(event)
        self.look()

    def _flush(self, cell: Cell) -> None:
        mailbox = cell.mailbox
        if (
            mailbox is None
        ):  # whoever sent to a worker that was restarting cannot be told any more, but a caller can
            while self._held:
                self._refuse(self._held.popleft(), cell.refuse_messages())
            return
        while self._held:
            event = self._held.popleft()
            try:
                _move(event, cell)
                mailbox.put_nowait(event)
            except MailboxFull as full:
                self._refuse(event, full.with_traceback(None))

    @staticmethod
    def _refuse(event: Addressed, why: MailboxFull | NoMailbox) -> None:
        if isinstance(event, AddressedCall) and isinstance(event.to, ReplyTo):
            event.to.fail(why)
        else:
            bury(event, "the mailbox was full" if isinstance(why, MailboxFull) else "it reads no messages")

    def _bury(self, event: Addressed) -> None:
        if isinstance(event, AddressedCall) and isinstance(event.to, ReplyTo):
            event.to.fail(down(self))
        else:
            bury(event, _NOBODY)


def _move(event: Addressed, cell: Cell) -> None:
    if isinstance(event, AddressedCall) and isinstance(event.to, ReplyTo):
        event.to.move(cell, cell.handle)


def is_open(cell: Cell) -> bool:
    """Tell whether an instance lives and may go on: what one that has to go is sent would be lost with it."""
    if cell.exit_reason is not None or cell.stop_reason is not None or cell.killed:
        return False
    return cell.mailbox is None or not cell.mailbox.is_closed


def wait_for_end(cell: Cell) -> Wait:
    """Wait for the end of an instance that takes no messages any more."""

    def subscribe(key: object, look: Look) -> None:
        cell.watch(key, lambda _: look())

    return Wait(subscribe, cell.unwatch)
