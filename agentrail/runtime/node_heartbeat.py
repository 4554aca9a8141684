"""The heartbeats of a node over a shared store. They date its trust in its own ownership, hold or stop work without it, and set the signal clock."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import trio
from attrs import define, field
from msgspec.structs import replace

from agentrail.abc.store import Beat, Node, Store
from agentrail.errors import AgentrailError, StoreUnavailable
from agentrail.logs import Logger
from agentrail.outside import Outside
from agentrail.runtime.session_clock import follow_store
from agentrail.runtime.session_journal import SessionJournal
from agentrail.runtime.store_writer import LONGEST_PAUSE_SECONDS, Writer
from agentrail.runtime.trust import Trust, after_beat, beat_seconds, decide_work, stops_at

LOGGER: Final = Logger("agentrail.runtime")

MAX_CLOCK_DIFFERENCE_SECONDS: Final = 1.0
"""A larger difference between the clock of this machine and that of the store is logged once."""

_FAILED: Final = LONGEST_PAUSE_SECONDS
"""Seconds before the next heartbeat after one that failed."""

_STOP_SECONDS: Final = 1.0


class _OwnedSession(Protocol):
    """A live session of this node."""

    @property
    def journal(self) -> SessionJournal | None: ...

    def stop_untrusted(self) -> None:
        """Stop streams, and tools that must not run twice: another node may own the session by now."""


def fault_of_address(own: Node, others: Iterable[Node], now_ms: int) -> str | None:
    """Return why living nodes could not call a node at its address, or None."""
    living = [
        one
        for one in others
        if one.id != own.id and not one.gone_at_ms and now_ms - one.seen_at_ms < own.lease_ms
    ]
    far = next((one for one in living if one.address and not _is_loopback(one.address)), None)
    if own.address and _is_loopback(own.address) and far is not None:
        return f"advertise is {own.address!r}, which only this machine reaches, but node {far.id} at {far.address} is elsewhere: give an address that it reaches"
    return None


def _is_loopback(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


@define(eq=False)
class NodeHeartbeat:
    """Heartbeats of one node.

    Attributes:
        node: This node, with its current load.
        trust: Its trust in its own ownership.
        sessions: Returns its live sessions.
        clock_difference_seconds: How far the store's clock is ahead of this machine's. None before the first heartbeat.
        failure: Error of the last heartbeat that failed.
    """

    node: Node
    _store: Store
    _writer: Writer
    _read: Callable[[Callable[[], Any]], Awaitable[Any]]
    _outside: Outside
    trust: Trust = field(init=False)
    sessions: Callable[[], Iterable[_OwnedSession]] = field(init=False, default=tuple)
    clock_difference_seconds: float | None = field(init=False, default=None)
    failure: StoreUnavailable | None = field(init=False, default=None)
    # A thread of its own: others may all wait for locks.
    _limiter: trio.CapacityLimiter = field(init=False, factory=partial(trio.CapacityLimiter, 1))
    _held: dict[SessionJournal, None] = field(init=False, factory=dict)
    _changed: trio.Event = field(init=False, factory=trio.Event)
    _running: trio.CancelScope = field(init=False, factory=trio.CancelScope)

    def __attrs_post_init__(self) -> None:
        self.trust = Trust(lease_seconds=self.node.lease_ms / 1000)

    def may_begin(self, journal: SessionJournal) -> bool:
        if decide_work(self.trust, journal.confirmed, trio.current_time()) == "begin":
            return True
        self._held[journal] = None
        return False

    def may_answer(self, journal: SessionJournal) -> bool:
        """Whether no other node can have taken a session yet, so that reads may be answered from memory."""
        return trio.current_time() < stops_at(self.trust) and journal.confirmed >= self.trust.doubts

    @property
    def is_trusted(self) -> bool:
        """Whether sessions whose owner is confirmed may begin work now."""
        return decide_work(self.trust, self.trust.doubts, trio.current_time()) == "begin"

    def describe(self, *, digest: str) -> None:
        """Set the fingerprint of the profiles that the next heartbeat reports to other nodes."""
        self.node = replace(self.node, digest=digest)

    def check(self) -> None:
        """Raise if no recent heartbeat has reached the store.

        Raises:
            StoreUnavailable: Nothing may begin on this node now.
        """
        if not self.is_trusted:
            message = "no recent heartbeat of this node has reached the store"
            raise self.failure or StoreUnavailable(message)

    async def beat(self) -> bool:
        """Send a heartbeat, and return whether it succeeded.

        Cancellation: It may still reach the store.
        """
        self.node = replace(self.node, load=sum(1 for _ in self.sessions()))
        function = partial(self._store.beat, self.node)
        sent_at = trio.current_time()
        try:
            if self._store.is_immediate:
                answer = function()
            else:
                answer = await self._outside.offload(function, abandon_on_cancel=True, limiter=self._limiter)
        except StoreUnavailable as error:
            self.failure = error
            return False
        self._follow_clock(answer, sent_at)
        self.trust = after_beat(self.trust, sent_at, answer)
        self._writer.doubts = self.trust.doubts
        self._changed.set()
        self._changed = trio.Event()
        self._let_begin()
        return True

    def _follow_clock(self, answer: Beat, sent_at: float) -> None:
        ahead = follow_store(self._outside, answer.at_ms / 1000, sent_at) - self._outside.wall()
        is_first = self.clock_difference_seconds is None
        was_far = abs(self.clock_difference_seconds or 0.0) > MAX_CLOCK_DIFFERENCE_SECONDS
        self.clock_difference_seconds = ahead
        if abs(ahead) > MAX_CLOCK_DIFFERENCE_SECONDS and (is_first or not was_far):
            LOGGER.warning(
                "the clock of this machine differs from that of the store by %.1f s: deadlines follow the store; set this machine's clock",
                -ahead,
            )

    def _let_begin(self) -> None:
        held, self._held = self._held, {}
        for journal in held:
            journal.let_begin()

    async def stop(self) -> None:
        """End `run`, and wait for a heartbeat under way: it would bring back a node that is reported gone.

        Cancellation: The heartbeat may still reach the store.
        """
        self._running.cancel()
        with trio.move_on_after(_STOP_SECONDS):
            async with self._limiter:
                pass

    async def run(self) -> None:
        """Send heartbeats, and stop or confirm work, until `stop`."""
        with self._running:
            await self._run()

    async def _run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._beat_on, name="beats of the node")
            nursery.start_soon(self._watch_lease, name="lease of the node")
            doubts = self.trust.doubts
            while True:
                if doubts < self.trust.doubts:
                    doubts = await self._confirm()
                else:
                    await self._changed.wait()

    async def _beat_on(self) -> None:
        interval = beat_seconds(self.trust.lease_seconds)
        at = trio.current_time() + interval
        while True:
            await trio.sleep_until(at)
            begun_at = trio.current_time()
            at = begun_at + interval if await self.beat() else trio.current_time() + _FAILED

    async def _watch_lease(self) -> None:
        while True:
            at = stops_at(self.trust)
            await trio.sleep_until(at)
            if stops_at(self.trust) > at:
                continue
            LOGGER.warning(
                "no heartbeat of this node has reached the store for %g s: tools that must not run twice are stopped, and nothing begins",
                self.trust.lease_seconds,
            )
            for session in tuple(self.sessions()):
                session.stop_untrusted()
            while stops_at(self.trust) <= trio.current_time():  # an answer may come after a whole lease
                await self._changed.wait()

    async def _confirm(self) -> int:
        """Look at the owners of all sessions of this node. Return the doubts that this settles."""
        doubts = self.trust.doubts
        # Only sessions that were live before the look, and still are: others have begun or left since.
        before = {session.journal for session in self.sessions()}
        try:
            owned = await self._read(partial(self._store.owned, self.node.id))
        except AgentrailError as error:
            LOGGER.warning("the owners of sessions cannot be read now: %s", error)
            await trio.sleep(_FAILED)
            return -1
        for session in tuple(self.sessions()):
            journal = session.journal
            if journal is not None and journal in before and journal.confirmed < doubts:
                journal.note_owner(owned.get(journal.key), doubts)
        self._let_begin()
        return doubts
