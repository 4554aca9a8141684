"""The events of one cycle of a session on a server, and its end, as the caller reads them, and where the last cycle began. Trio."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, Self

import trio

from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.policy.tags import rest_of
from agentrail.core.session.receipts import PromptReceipt
from agentrail.core.session.views import Snapshot, Status
from agentrail.errors import AgentrailError, CursorAhead, SessionDown, SessionRested, YourMove
from agentrail.events import (
    AgentEnd,
    AgentStart,
    Event,
    EventsLost,
    MessageDelta,
    PromptDropped,
    PromptQueued,
    PromptReceived,
    PromptRejected,
    PromptTaken,
    ResponseComplete,
    SessionEnd,
    SessionRestarted,
    StreamError,
)
from agentrail.messages import AssistantMessage, Content, PromptRef
from agentrail.remote.command_results import answer_in
from agentrail.remote.remote_subscription import Subscribing
from agentrail.runtime.cycle_reply import CycleReply, TurnsApart, reply_of_cycle
from agentrail.runtime.cycle_stream import CYCLE_ENDS, ENDS, OnLeave
from agentrail.runtime.event_subscription import number_of
from agentrail.runtime.event_waits import MeantEvent, decide_beginning, decide_wait
from agentrail.runtime.session_monitor import SessionGone
from agentrail.wire.server_frames import MAX_CURSOR

_OF_PROMPTS: Final = (PromptReceived, PromptQueued, AgentStart, PromptTaken, PromptRejected, PromptDropped)
_LEAVE_SECONDS: Final = 5.0
"""Time limit for telling the server to abort, when a cycle is left, in seconds."""


class CycleSource(Subscribing, Protocol):
    async def status(self) -> Status: ...

    async def snapshot(self) -> Snapshot: ...

    async def prompt(
        self, content: Content, *, client_id: str | None = None, settings: PromptSettings | None = None
    ) -> PromptReceipt: ...

    async def wait_for_request(self, request_id: str) -> dict[str, Any]: ...

    async def cancel_request(self, request_id: str, reason: str) -> None: ...


class RemoteCycle:
    """The events of one cycle: an async context manager that sends the prompt, and an iterator that ends with the cycle.

    It is entered once and read by one task. `reply` is available after the iteration.
    """

    def __init__(  # noqa: PLR0913 - as of `Session.stream`
        self,
        session: CycleSource,
        content: Content,
        *,
        kinds: frozenset[type[Event]] | None,
        deltas: bool,
        raise_on_failure: bool,
        on_leave: OnLeave,
        buffer: int,
        client_id: str | None = None,
        settings: PromptSettings | None = None,
    ) -> None:
        self._session = session
        self._client_id = client_id
        self._content = content
        self._settings = settings
        self._kinds = kinds
        self._raises = raise_on_failure
        self._on_leave = on_leave
        heard: frozenset[type[Event]] | None = (
            None if kinds is None else kinds | frozenset[type[Event]]((*ENDS, *_OF_PROMPTS))
        )
        self._subscribe = partial(session.subscribe, kinds=heard, deltas=deltas, buffer=buffer)
        self._events = self._subscribe()
        self._receipt: PromptReceipt | None = None
        self._is_begun = False
        self._is_taken = False
        self._is_over = False
        self._end: AgentEnd | None = None
        self._reply: CycleReply[str] | AgentrailError | None = None

    @property
    def ref(self) -> PromptRef:
        """The prompt's reference, same as in `AgentStart`."""
        return self._sent().ref

    @property
    def reply(self) -> CycleReply[str]:
        if self._reply is None:
            message = "this cycle has not been read to its end: iterate until the loop ends first"
            raise YourMove(message)
        if isinstance(self._reply, AgentrailError):
            raise self._reply
        return self._reply

    async def __aenter__(self) -> Self:
        """Subscribe, send the prompt, and wait until it is accepted.

        Cancellation: Once the message is sent, the cycle continues.
        """
        if self._client_id is not None:  # it may have been sent long ago: its outcome is read from there
            self._receipt = await self._prompt()
            self._events = self._subscribe(after=max(self._receipt.seq - 1, 0))
            await self._events.__aenter__()
            return self
        await self._events.__aenter__()
        try:
            self._receipt = await self._prompt()
        except BaseException:
            await self._events.__aexit__(None, None, None)  # noqa: ASYNC102 - waits for nothing
            raise
        return self

    async def _prompt(self) -> PromptReceipt:
        return await self._session.prompt(self._content, client_id=self._client_id, settings=self._settings)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._events.__aexit__(kind, error, traceback)  # noqa: ASYNC102 - waits for nothing
        if self._on_leave == "abort" and not self._is_over and self._receipt is not None:
            # Shielded, with a time limit: a caller that leaves because of a cancellation wants the cycle aborted too.
            with trio.move_on_after(_LEAVE_SECONDS, shield=True), suppress(AgentrailError):
                await self._session.cancel_request(str(self._receipt.request_id), "the caller left the block")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Return the next event of the cycle.

        Cancellation: Always a checkpoint for cancellation. No event is lost.
        """
        self._sent()
        while not self._is_over:
            try:
                event = await anext(self._events)
            except StopAsyncIteration:
                self._is_over = True
                break
            if self._is_shown(event):
                return event
        await self._settle()
        if self._raises and isinstance(self._reply, AgentrailError):
            raise self._reply
        raise StopAsyncIteration

    async def text(self) -> AsyncIterator[str]:
        """Iterate over the model's visible text as it arrives, or without deltas, one response at a time."""
        apart, streamed = TurnsApart(), list[str]()
        async for event in self:
            if isinstance(event, MessageDelta):
                streamed.append(event.delta)
                yield apart.take(event.delta)
            elif isinstance(event, ResponseComplete | StreamError):
                # All of it without deltas, or the end that was missed while the connection was down.
                if isinstance(event, ResponseComplete) and (
                    rest := rest_of(event.message.text, "".join(streamed))
                ):
                    yield apart.take(rest)
                streamed.clear()
                apart.end()
        if isinstance(self._reply, AgentrailError):
            raise self._reply

    def _sent(self) -> PromptReceipt:
        if self._receipt is None:
            message = "this cycle was not started: read it inside `async with session.stream(…) as events:`"
            raise YourMove(message)
        return self._receipt

    def _is_shown(self, event: Event) -> bool:
        own = self._sent().ref
        is_wanted = self._kinds is None or type(event) in self._kinds
        if isinstance(event, _OF_PROMPTS) and event.ref == own:
            if isinstance(event, PromptQueued):
                return is_wanted
            self._is_begun = True
            self._is_taken = self._is_taken or isinstance(event, PromptTaken)
            self._is_over = isinstance(event, PromptRejected | PromptDropped)
            return is_wanted
        if isinstance(event, SessionEnd):
            self._is_over = True
            return True
        if not self._is_begun:  # from earlier cycles
            return False
        if isinstance(event, CYCLE_ENDS):
            # A prompt supersedes a cycle that waits for a user. The end of that cycle comes after the start of this
            # one.
            if not (self._is_taken or event.ref in (None, own)):
                return False
            self._is_over = True
            self._end = event if isinstance(event, AgentEnd) else None
            return True
        return is_wanted

    async def _settle(self) -> None:
        if self._reply is not None:
            return
        receipt = self._sent()
        try:
            text = await answer_to_request(self._session, receipt.request_id)
        except AgentrailError as error:
            self._reply = error
            return
        end = self._end
        if end is None or end.meta is None:
            self._reply = SessionDown(self._session.session_id, "its last events did not arrive")
            return
        said = [one.text for one in end.messages if isinstance(one, AssistantMessage) and one.text.strip()]
        self._reply = reply_of_cycle(end, text, said, receipt.seq)


async def answer_to_request(session: CycleSource, request_id: str | None) -> str:
    told = await session.wait_for_request(str(request_id))
    if told.get("status") == "dropped":
        await session.status()  # raises if its session has ended: a local caller is told that
    return answer_in(told, session.session_id)


async def read_to_end(cycle: RemoteCycle) -> CycleReply[str]:
    async with cycle:
        async for _ in cycle:
            pass
    return cycle.reply


class RemoteMonitor:
    """Watches one session. The end is returned on every call."""

    __slots__ = ("_session",)

    def __init__(self, session: CycleSource) -> None:
        self._session = session

    async def wait(self) -> SessionGone:
        """Wait for the session's end, or return at once if it has ended.

        Cancellation: The end is not lost. Call it again.
        """
        incarnation, reason = 1, "ended"
        heard = partial(self._session.subscribe, kinds=[SessionRestarted, SessionEnd], deltas=False)
        for after in (None, 0):  # one that had ended before is read from its first event on
            try:
                async with heard(after=after) as events:
                    async for event in events:
                        if events.snapshot is not None:
                            incarnation = max(incarnation, events.snapshot.status.restarts + 1)
                        if isinstance(event, SessionRestarted):
                            incarnation = event.incarnation
                        elif isinstance(event, SessionEnd):
                            reason = event.reason
                            break
                    else:
                        await self._session.status()  # raises: its end was among the events that were lost
                break
            except SessionDown as down:
                reason = down.reason
        return SessionGone(session_id=self._session.session_id, reason=reason, incarnation=incarnation)


# --- the beginning of the running or last cycle

_LOOKED_AT_FIRST: Final = 256
"""Number of last events to read first in search of the cycle's start, then four times as many."""


async def find_event(session: CycleSource, meant: MeantEvent) -> Event:
    try:
        status = await session.status()
    except SessionRested:
        raise
    except SessionDown:  # its events can still be read
        kept = await _read_back(session, await _last_seq_of_ended(session))
        start = decide_beginning(kept)[0]
        of_cycle = [] if start is None else [one for one in kept if number_of(one) > start]
        for event in of_cycle:
            if meant.found(event):
                return event
        raise
    is_coming = _is_coming(status)
    after = status.last_seq if is_coming else decide_beginning(await _read_back(session, status.last_seq))[0]
    if after is None:
        after = status.last_seq
        if _is_idle(status):
            meant.refuse("there has been no cycle yet")
    async with session.subscribe(after=after) as events:
        async for event in events:
            if meant.found(event):
                return event
            if isinstance(event, EventsLost) and _is_idle(await session.status()):
                meant.refuse("the events of the cycle are no longer kept")
    await session.status()  # raises, with the reason of the end
    raise SessionDown(session.session_id, "ended")


async def _last_seq_of_ended(session: CycleSource) -> int:
    """Return the number of the last event of a session without a status, which the refusal of a later number names."""
    try:
        async with session.subscribe(after=MAX_CURSOR):
            return MAX_CURSOR
    except CursorAhead as ahead:
        return ahead.positions[session.session_id]


async def collect_answer(session: CycleSource) -> str:
    """Wait for the running or next cycle, or take the last one. A fork without a cycle has the answer that it was forked after."""
    snapshot = await session.snapshot()
    status = snapshot.status
    if _is_coming(status) and not status.tearing_down:  # else the queue waits for the end of an abort
        events: Sequence[Event] = [await find_event(session, decide_wait(AgentStart))]
    else:
        events = await _read_back(session, snapshot.last_seq)
    messages = snapshot.last_messages if len(events) < snapshot.last_seq else ()  # all of them: no cycle yet
    start = next((event for event in reversed(events) if isinstance(event, AgentStart)), None)
    if start is not None and start.request_id is not None:
        return await answer_to_request(session, start.request_id)
    if start is not None:  # by no request, such as a cycle of `go_on`
        end = await find_event(session, decide_wait(AgentEnd))
        assert isinstance(end, AgentEnd)  # noqa: S101 - as wanted
        messages = end.messages
    return next((one.text for one in reversed(messages) if isinstance(one, AssistantMessage)), "")


async def _read_back(session: CycleSource, last: int) -> Sequence[Event]:
    width = _LOOKED_AT_FIRST
    while True:
        events = await _read_between(session, max(0, last - width), last)
        if decide_beginning(events)[1] or width >= last or len(events) < width:
            return events
        width *= 4


async def _read_between(session: CycleSource, after: int, last: int) -> list[Event]:
    found: list[Event] = []
    if after >= last:
        return found
    async with session.subscribe(after=after, deltas=False) as events:
        async for event in events:
            if isinstance(event, EventsLost) or event.meta is None:
                found.clear()
                if events.snapshot is not None and events.snapshot.last_seq >= last:
                    break
                continue
            found.append(event)
            if event.meta.seq >= last:
                break
    return found


def _is_coming(status: Status) -> bool:
    return status.turn == 0 and bool(status.queued)


def _is_idle(status: Status) -> bool:
    return status.phase == "idle" and not status.suspended and not status.queued
