"""Which prompts of a chat were accepted and have not come to their end, by the events that say so."""

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
    """Which prompts were accepted and have not come to their end."""

    def __init__(self) -> None:
        """Begin with none."""
        self._outstanding: set[PromptRef] = set()
        self._ended: set[PromptRef] = set()  # before we heard that they were accepted
        self._current: PromptRef | None = None
        self._begun: PromptRef | None = None  # before we heard that it was accepted, or by someone else
        self._idle = trio.Event()
        self._idle.set()
        self._asked = trio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether there are none."""
        return self._idle.is_set()

    def come_back(self, running: PromptRef | None, queued: Iterable[PromptRef]) -> None:
        """Note what a session that came back had to do; before any of its events."""
        self._current = running
        for ref in (*(() if running is None else (running,)), *queued):
            self.accept(ref)

    def accept(self, ref: PromptRef) -> None:
        """Note a prompt."""
        if ref in self._ended:
            self._ended.remove(ref)
            return
        if ref == self._begun and ref in self._outstanding:
            self._begun = None
        self._outstanding.add(ref)
        if self._idle.is_set():
            self._idle = trio.Event()

    def note(self, event: Event) -> None:
        """Note an event."""
        if isinstance(event, AgentStart):
            self._current = event.ref
            # Also one that was begun elsewhere, by who shares the session, or by a task in the background: it is at work all the same.
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
        """Note that nothing waits for a person any more."""
        if self._asked.is_set():  # else a task may be waiting for this very event
            self._asked = trio.Event()

    async def wait_for_line(self) -> None:
        """Wait until there are none, or one of them cannot go on without a person."""
        async with trio.open_nursery() as nursery:
            for wait in (self.wait_idle, self._asked.wait):
                nursery.start_soon(_race, wait, nursery.cancel_scope)

    async def wait_idle(self) -> None:
        """Wait until there are none."""
        while not self._idle.is_set():
            await self._idle.wait()
        await trio.lowlevel.checkpoint()

    def _end(self, ref: PromptRef) -> None:
        if ref not in self._outstanding or ref == self._begun:
            self._ended.add(ref)  # we may hear yet that it was ours
        self._outstanding.discard(ref)
        if not self._outstanding:
            self._idle.set()


async def _race(wait: Callable[[], Awaitable[object]], scope: trio.CancelScope) -> None:
    await wait()
    scope.cancel(reason="the other came first")
