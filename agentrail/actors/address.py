"""Addresses: each send finds the current instance. Messages are held while a restart is expected."""

import math
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Final, TypeAlias, TypeVar, overload

import trio
from attrs import frozen

from agentrail.actors.actor_handle import ActorCell, check_timeout, mailbox_of, refuse_self
from agentrail.actors.dead_letters import bury
from agentrail.actors.reply_slots import ReplyTo, down
from agentrail.errors import CallTimeout, MailboxFull
from agentrail.otp.statem import Call, Cast, RequestFor
from agentrail.otp.statem_types import check_bound
from agentrail.otp.unique import Unique

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
W = TypeVar("W")

OnChange: TypeAlias = Callable[[], None]


@frozen(eq=False)
class Wait:
    """No instance exists now, and one is expected.

    Attributes:
        subscribe: Registers a callback for every possible change, under a key, so that it is idempotent.
    """

    subscribe: Callable[[object, OnChange], None]
    unsubscribe: Callable[[object], None]
    ending: ActorCell | None = None


Lookup: TypeAlias = ActorCell | Wait | None
Sent: TypeAlias = Cast | Call

_NO_RECIPIENT: Final = "no actor is registered, and none is expected"


class Address(Unique):
    """Reaches a child or a name across all its instances. Created by `supervisor.address` and `registry.address`."""

    __slots__ = ("_find", "_held", "_hold_limit", "_name", "_waiting")

    def __init__(self, name: str, find: Callable[[], Lookup], hold_limit: int) -> None:
        """Create an address that holds no messages."""
        check_bound("hold_limit", hold_limit)
        self._name = name
        self._find = find
        self._hold_limit = hold_limit
        # Each event, and whether an instance had accepted it: the next instance must not refuse such an event.
        self._held: deque[tuple[Sent, bool]] = deque()
        self._waiting: Wait | None = None

    def __repr__(self) -> str:
        return f"<Address of {self._name}>"

    def cast(self, message: object) -> None:
        """Send a message to the current or the next instance. If none is expected, it becomes a dead letter.

        Raises:
            MailboxFull: Your move: the mailbox is full, as in `ActorHandle.cast`.
            NoMailbox: Your move: the actor is a worker.
        """
        self._send(Cast(message))

    async def send(self, message: object) -> None:
        """Send a message like `cast`, but wait for room if the policy of the mailbox is `block`.

        Raises:
            MailboxFull: Your move: the mailbox is full, as in `ActorHandle.send`.
            NoMailbox: Your move: the actor is a worker.

        Cancellation: Always a checkpoint. If cancelled, no message was sent.
        """
        await trio.lowlevel.checkpoint()
        await self._wait_for_room()
        self._send(Cast(message))

    @overload
    async def call(self, request: RequestFor[R], *, timeout_seconds: float | None = ...) -> R: ...

    @overload
    async def call(self, request: object, *, timeout_seconds: float | None = ...) -> object: ...

    async def call(self, request: object, *, timeout_seconds: float | None = 5.0) -> object:
        """Call the current or the next instance. The time limit includes the time while the call is held or waits for room.

        Raises:
            ActorDown: No instance exists or is expected, or it ended without an answer.
            CallTimeout: No answer arrived in time.
            CallingSelf: Your move: the caller is the actor itself, in its own task.
            MailboxFull: Your move: too many messages wait already, and the policy is not `block`.
            NoMailbox: Your move: the actor is a worker.

        Cancellation: Always a checkpoint. If cancelled, the work continues and its answer is dropped. A call that was held, or
            waited for room, is no longer sent.
        """
        check_timeout(timeout_seconds)
        found = self._find()
        cell = found.ending if isinstance(found, Wait) else found
        if cell is not None:
            refuse_self(cell, "call")
        to = ReplyTo(None, self)
        event = Call(to, request)
        try:
            with trio.fail_after(math.inf if timeout_seconds is None else timeout_seconds):
                await self._wait_for_room()
                self._send(event)
                return await to.wait()
        except trio.TooSlowError:
            message = f"call of {self!r} was not answered within {timeout_seconds} s; the work continues"
            raise CallTimeout(message) from None
        finally:
            if to.is_open:
                to.abandon()
            self._withdraw(event)

    async def _wait_for_room(self) -> None:
        while not self._held and isinstance(found := self._find(), ActorCell) and mailbox_of(found).must_wait:
            await mailbox_of(found).wait_for_room()

    def _withdraw(self, event: Sent) -> None:
        for place, (held, is_owed) in enumerate(self._held):
            if held is event and not is_owed:
                del self._held[place]
                if not self._held:
                    self.look()  # it stops waiting for an instance
                return

    def take_back(self, events: Iterable[Sent]) -> None:
        """Take back unhandled messages that an instance had accepted through this address. They are delivered first."""
        for event in reversed([*events]):
            if isinstance(event, Call) and isinstance(event.to, ReplyTo):
                event.to.move(None, self)
            self._held.appendleft((event, True))
        if self._waiting is None:
            self.look()

    def look(self) -> None:
        """Look up the instance: deliver the held messages, keep waiting, or give up."""
        if self._waiting is not None:
            self._waiting.unsubscribe(self)
            self._waiting = None
        if not self._held:
            return
        found = self._find()
        if isinstance(found, ActorCell):
            self._flush(found)
        elif found is None:
            self.give_up()
        else:
            self._waiting = found
            found.subscribe(self, self.look)

    def give_up(self) -> None:
        """Give up: casts become dead letters, and calls raise `ActorDown`."""
        while self._held:
            event, _ = self._held.popleft()
            self._bury(event)

    def _send(self, event: Sent) -> None:
        if not self._held:
            found = self._find()
            if isinstance(found, ActorCell):
                mailbox = mailbox_of(found)
                _move(event, found)
                mailbox.put_nowait(event, via=self)
                return
            if found is None:
                self._bury(event)
                return
        if len(self._held) >= self._hold_limit:
            message = f"{len(self._held)} messages are already held for the next instance, which is the limit: try again later"
            _refuse(event, MailboxFull(message), "the limit of held messages is reached")
            return
        self._held.append((event, False))
        self.look()

    def _flush(self, cell: ActorCell) -> None:
        mailbox = cell.mailbox
        while self._held:
            event, is_owed = self._held.popleft()
            # Called by the code that announces the new instance, which must not see an exception.
            if mailbox is None:
                _refuse(event, cell.refuse_messages(), "it is a worker, which does not read messages")
                continue
            try:
                _move(event, cell)
                # A sender that could wait for room was released when its message was held.
                mailbox.put_nowait(event, via=self, bounded=not is_owed and not mailbox.lets_wait)
            except MailboxFull as full:
                _refuse(event, full.with_traceback(None), "the mailbox was full")

    def _bury(self, event: Sent) -> None:
        _refuse(event, down(self), _NO_RECIPIENT)


def _refuse(event: Sent, error: Exception, why: str) -> None:
    if isinstance(event, Call) and isinstance(event.to, ReplyTo):
        event.to.fail(error)
    else:
        bury(event, why)


def _move(event: Sent, cell: ActorCell) -> None:
    if isinstance(event, Call) and isinstance(event.to, ReplyTo):
        event.to.move(cell, cell.handle)


def is_open(cell: ActorCell) -> bool:
    """Return whether an instance lives and was not asked to stop: a message to a stopping instance would be lost."""
    if cell.exit_reason is not None or cell.stop_reason is not None or cell.killed:
        return False
    return cell.mailbox is None or not cell.mailbox.is_closed


def wait_for_end(cell: ActorCell) -> Wait:
    def subscribe(key: object, look: OnChange) -> None:
        cell.watch(key, lambda _: look())

    return Wait(subscribe, cell.unwatch, cell)


def forget_waiter(waiting: dict[K, dict[object, W]], key: K, who: object) -> None:
    """Remove one of those that wait for a key. The last one leaves nothing behind."""
    of_key = waiting.get(key, {})
    of_key.pop(who, None)
    if not of_key:
        waiting.pop(key, None)
