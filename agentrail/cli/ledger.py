"""Unfinished prompts of a chat, tracked by events."""

from collections.abc import Awaitable, Callable, Iterable

import trio

from agentrail.events import (
    TERMINAL,
    AgentResumed,
    AgentStart,
    ApprovalRequired,
    AskUser,
    Event,
    PromptDropped,
    PromptRejected,
    PromptTaken,
)
from agentrail.messages import PromptRef


class ChatLedger:
    """The accepted prompts that have not ended."""

    def __init__(self) -> None:
        """Start with no prompts."""
        self._outstanding: set[PromptRef] = set()
        self._ended: set[PromptRef] = set()  # ended before their acceptance was known
        self._current: PromptRef | None = None
        self._begun: PromptRef | None = None  # started before its acceptance was known, or by another client
        self._idle = trio.Event()
        self._idle.set()
        self._asked = trio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether no prompt is unfinished."""
        return self._idle.is_set()

    def come_back(self, running: PromptRef | None, queued: Iterable[PromptRef]) -> None:
        """Record the pending work of a resumed session, before any of its events."""
        self._current = running
        for ref in (*(() if running is None else (running,)), *queued):
            self.accept(ref)

    def accept(self, ref: PromptRef) -> None:
        """Record an accepted prompt."""
        if ref in self._ended:
            self._ended.remove(ref)
            return
        if ref == self._begun and ref in self._outstanding:
            self._begun = None
        self._outstanding.add(ref)
        if self._idle.is_set():
            self._idle = trio.Event()

    def note(self, event: Event) -> None:
        """Update the state from an event."""
        if isinstance(event, AgentStart):
            self._current = event.ref
            # Includes a cycle started by another client of the session or by a background task: it keeps the session
            # busy too.
            self._begun = event.ref if event.ref not in self._outstanding else None
            self.accept(event.ref)
        elif isinstance(event, PromptDropped | PromptRejected | PromptTaken):
            self._end(event.ref)
        elif isinstance(event, ApprovalRequired | AskUser):
            self._asked.set()
        elif isinstance(event, AgentResumed):
            self.decided()
        elif type(event) in TERMINAL and self._current is not None:
            self._end(self._current)
            self._current = None
            self.decided()

    def decided(self) -> None:
        """Record that no decision of the user is pending."""
        if self._asked.is_set():  # otherwise a task may be waiting on this very event
            self._asked = trio.Event()

    async def wait_for_line(self) -> None:
        """Wait until no prompt is unfinished, or one needs the user."""
        async with trio.open_nursery() as nursery:
            for wait in (self.wait_idle, self._asked.wait):
                nursery.start_soon(_race, wait, nursery.cancel_scope)

    async def wait_idle(self) -> None:
        """Wait until no prompt is unfinished."""
        while not self._idle.is_set():
            await self._idle.wait()
        await trio.lowlevel.checkpoint()

    def _end(self, ref: PromptRef) -> None:
        if ref not in self._outstanding or ref == self._begun:
            self._ended.add(ref)  # it may still turn out to be ours
        self._outstanding.discard(ref)
        if not self._outstanding:
            self._idle.set()


async def _race(wait: Callable[[], Awaitable[object]], scope: trio.CancelScope) -> None:
    await wait()
    scope.cancel(reason="the other came first")
