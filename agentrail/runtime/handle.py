"""The handle that one holds to a session. Its methods send one message and wait for the reply."""

from collections.abc import Iterable
from typing import TypeAlias, cast

import trio

from agentrail.core.cycle import PromptReceipt
from agentrail.core.projection import Status
from agentrail.core.signals import (
    Abort,
    Asked,
    KillTools,
    MessagesQuery,
    Prompt,
    ReplyQuery,
    StatusQuery,
    Stop,
)
from agentrail.errors import OptionError, PromptError, ReplyTimeout
from agentrail.events import AbortReceipt, Event
from agentrail.messages import (
    MAX_PROMPT_BYTES,
    Content,
    FileRef,
    Image,
    Message,
    PromptRef,
    SessionId,
    Text,
    UserBlock,
)
from agentrail.runtime.event_bus import Subscription
from agentrail.runtime.interpreter import now_ms
from agentrail.runtime.session import SessionCell

Blocks: TypeAlias = tuple[UserBlock, ...]


class Session:
    """A session, from outside. It stays good when the session crashes and comes back."""

    __slots__ = ("_cell",)

    def __init__(self, cell: SessionCell) -> None:
        """Made by the supervisor; use `start_session` or `supervisor.session(id)`."""
        self._cell = cell

    @property
    def session_id(self) -> SessionId:
        """Which session this is."""
        return self._cell.ports.session_id

    def __repr__(self) -> str:
        """Show id and phase."""
        phase = "ended" if self._cell.state.ended else self._cell.state.phase.value
        return f"<Session {self.session_id} {phase}>"

    async def prompt(self, content: Content) -> PromptReceipt:
        """Put a prompt at the end of the session's queue; in idle it starts at once.

        Args:
            content: Text, or content blocks; 1 byte to 1 MB of UTF-8 in all.

        Returns:
            `ref`, which `AgentStart` carries too; `queued`; `position` in the queue, 0 is next.

        Raises:
            PromptError: Your move: empty, too long, or a block of unknown type. The message names the limit.
            PromptQueueFull: Your move: `max_prompt_queue` wait already. Try again after the next end of a cycle.
            MailboxFull: Your move: the session has not caught up with what was sent. Try again later.
            SessionDown: The session has ended; `reason` says how.

        Cancellation: Always a checkpoint. Once the message is on its way, only the receipt is lost.
        """
        return cast("PromptReceipt", await self._ask(self._prompt(decide_blocks(content), reply="receipt")))

    async def ask(self, content: Content, *, timeout_seconds: float | None = None) -> str:
        """Prompt, wait for the cycle of this very prompt, and return all that the model said aloud in it.

        Args:
            content: As of `prompt`.
            timeout_seconds: How long to wait; None for as long as it takes.

        Returns:
            The text of all responses of the cycle, joined.

        Raises:
            CycleAborted: The cycle was aborted.
            CycleFailed: The cycle failed; `error` says why.
            ReplyTimeout: The time was up. The cycle goes on.
            CallingSelf: Your move: a tool of this session asked it.
            PromptError, PromptQueueFull, MailboxFull, SessionDown: As of `prompt`.

        Cancellation: Only the reply is lost; the cycle goes on.
        """
        self._cell.slots.refuse_self("ask")
        signal = self._prompt(decide_blocks(content), reply="text")
        return cast("str", await self._ask_within(signal, timeout_seconds))

    async def collect_reply(self, *, timeout_seconds: float | None = None) -> str:
        """Wait for the running cycle, and return all that the model said aloud in it.

        In idle the answer is that of the last cycle, at once; the empty text when there was none yet.

        Args:
            timeout_seconds: How long to wait; None for as long as it takes.

        Raises:
            CycleAborted: The cycle was aborted.
            CycleFailed: The cycle failed; `error` says why.
            ReplyTimeout: The time was up. The cycle goes on.
            CallingSelf: Your move: a tool of this session asked it.
            SessionDown: The session has ended.

        Cancellation: Only the reply is lost; the cycle goes on.
        """
        self._cell.slots.refuse_self("collect_reply")
        signal = ReplyQuery(at_ms=now_ms(), signal_id=self._cell.slots.mint())
        return cast("str", await self._ask_within(signal, timeout_seconds))

    async def abort(
        self,
        reason: str | None = None,
        *,
        kill_tools: KillTools = "killable",
        clear_queue: bool = False,
        wait: bool = True,
    ) -> AbortReceipt:
        """Stop the cycle, now, in every phase. Idempotent; in idle it finds nothing to stop and says so.

        Args:
            reason: For people; it is in `AgentAbort` and in the results of the calls that were stopped.
            kill_tools: `killable` stops all but immune tools, `all` every one, `none` no one.
            clear_queue: Whether the prompts that wait are thrown away, or go on by themselves.
            wait: Whether to wait until what was stopped is gone, at most five seconds.

        Returns:
            What was stopped, what would not stop, what runs on. `settled` is false when `wait` was.

        Raises:
            OptionError: Your move: `kill_tools` is none of the three.
            SessionDown: The session has ended.

        Cancellation: Only the receipt is lost; the abort goes on.
        """
        if kill_tools not in ("killable", "all", "none"):
            raise OptionError([f"kill_tools is {kill_tools!r}: expected 'killable', 'all' or 'none'"])
        signal = Abort(
            at_ms=now_ms(),
            signal_id=self._cell.slots.mint(),
            reason=reason,
            kill_tools=kill_tools,
            clear_queue=clear_queue,
            wait=wait,
        )
        return cast("AbortReceipt", await self._ask(signal))

    async def status(self) -> Status:
        """Say how the session stands.

        Raises:
            SessionDown: The session has ended.
        """
        return cast("Status", await self._ask(StatusQuery(at_ms=now_ms(), signal_id=self._cell.slots.mint())))

    async def messages(self) -> tuple[Message, ...]:
        """Give the conversation so far.

        Raises:
            SessionDown: The session has ended.
        """
        signal = MessagesQuery(at_ms=now_ms(), signal_id=self._cell.slots.mint())
        return cast("tuple[Message, ...]", await self._ask(signal))

    def subscribe(
        self, *, kinds: Iterable[type[Event]] | None = None, deltas: bool = True, buffer: int = 1024
    ) -> Subscription:
        """Subscribe to what the session publishes, from the moment the block is entered.

        Args:
            kinds: Only events of these classes; None for all.
            deltas: Whether ephemeral events come too.
            buffer: How many events may wait for the reader. When it is full deltas go first; then the subscriber is
                cut off with `SubscriberTooSlow`. The session never waits.

        Returns:
            An async context manager to iterate over; iteration ends when the session ends.

        Raises:
            OptionError: Your move: a buffer below 1.
        """
        if buffer < 1:
            raise OptionError([f"buffer is {buffer!r}: expected a whole number from 1"])
        return self._cell.bus.subscribe(kinds=kinds, deltas=deltas, buffer=buffer)

    async def stop(self, reason: str = "stopped", *, timeout_seconds: float | None = None) -> None:
        """Abort what runs, survivors of earlier aborts too, and end the session.

        Args:
            reason: For people; it is in `SessionEnd` and in every later `SessionDown`.
            timeout_seconds: How long to wait; None for as long as it takes.

        Raises:
            ReplyTimeout: The time was up; it is still ending.
            CallingSelf: Your move: a tool of this session stopped it.
            SessionDown: It had ended already.

        Cancellation: The session ends all the same.
        """
        self._cell.slots.refuse_self("stop")
        signal = Stop(at_ms=now_ms(), signal_id=self._cell.slots.mint(), reason=reason)
        await self._ask_within(signal, timeout_seconds)

    def _prompt(self, blocks: Blocks, *, reply: str) -> Prompt:
        signal_id = self._cell.slots.mint()
        # One name for both: a prompt is known by the call that brought it.
        ref = PromptRef(signal_id)
        return Prompt(
            at_ms=now_ms(),
            signal_id=signal_id,
            ref=ref,
            content=blocks,
            reply="text" if reply == "text" else "receipt",
        )

    async def _ask(self, signal: Asked) -> object:
        await trio.lowlevel.checkpoint_if_cancelled()
        return await self._cell.slots.ask(signal, self._send)

    async def _ask_within(self, signal: Asked, timeout_seconds: float | None) -> object:
        if timeout_seconds is None:
            return await self._ask(signal)
        if not timeout_seconds >= 0:  # NaN is not, either
            raise OptionError([f"timeout_seconds is {timeout_seconds!r}: expected a number from 0, or None"])
        # Before the clock runs: a call without time to wait is still made.
        await trio.lowlevel.checkpoint_if_cancelled()
        with trio.move_on_after(timeout_seconds):
            return await self._cell.slots.ask(signal, self._send)
        message = f"no answer within {timeout_seconds:g} s; the session goes on, ask again"
        raise ReplyTimeout(message)

    def _send(self, signal: Asked) -> None:
        self._cell.mailbox.put_nowait(signal)  # type: ignore[arg-type]  # Asked is the base of these members of Signal


def decide_blocks(content: Content) -> Blocks:
    """Make blocks of what a user gave.

    Raises:
        PromptError: Your move: empty, over 1 MB, or with a block of unknown type.
    """
    given: tuple[object, ...] = (Text(text=content),) if isinstance(content, str) else tuple(content)
    blocks = tuple(block for block in given if isinstance(block, Text | Image | FileRef))
    if len(blocks) < len(given):
        strange = next(block for block in given if not isinstance(block, Text | Image | FileRef))
        message = f"a prompt has {strange!r}: expected text, or Text, Image and FileRef blocks"
        raise PromptError(message)
    size = sum(len(_words(block).encode("utf-8", "surrogatepass")) for block in blocks)
    if not any(_words(block).strip() for block in blocks):
        message = "the prompt is empty: say something, 1 byte to 1 MB of text"
        raise PromptError(message)
    if size > MAX_PROMPT_BYTES:
        message = (
            f"the prompt has {size} bytes, at most {MAX_PROMPT_BYTES} are taken: put the rest into a file"
        )
        raise PromptError(message)
    return blocks


def _words(block: UserBlock) -> str:
    match block:
        case Text(text=text):
            return text
        case Image(data=data):
            return data
        case FileRef(path=path):
            return path
