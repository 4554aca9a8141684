"""Typed calls that wait for a cycle, for local and remote sessions alike."""

from collections.abc import Callable
from typing import Any, TypeVar, overload

from attrs import evolve, frozen

from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.events import Event
from agentrail.messages import Content
from agentrail.runtime.arguments import decide_client_id, fault_of_wait, refuse
from agentrail.runtime.cycle_reply import CycleReply, read_answer
from agentrail.typed import TypedValue, typed

T = TypeVar("T")
E = TypeVar("E", bound=Event)


@frozen(kw_only=True)
class CycleQuestion:
    """A prompt whose caller waits for the answer.

    Attributes:
        client_id: The caller's name for it, or None.
        reader: Converts the answer to its type. None: text.
        timeout_seconds: How long to wait, in seconds. None: no limit.
        waits_for_people: Whether to keep waiting while only users can let the cycle continue.
    """

    content: Content
    client_id: str | None
    reader: TypedValue[Any] | None
    timeout_seconds: float | None
    waits_for_people: bool

    @property
    def settings(self) -> PromptSettings | None:
        """Model settings that require the format of the answer. None: text."""
        return None if self.reader is None else PromptSettings(response_format=self.reader.wire_schema)


class CycleCalls:
    """The calls of a session that wait for a cycle."""

    __slots__ = ()

    @overload
    async def ask(
        self,
        content: Content,
        *,
        client_id: str | None = None,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> str: ...
    @overload
    async def ask(
        self,
        content: Content,
        *,
        output: type[T],
        client_id: str | None = None,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> T: ...
    @overload  # for unions, which type checkers do not accept as `type[T]` yet
    async def ask(
        self,
        content: Content,
        *,
        output: Any,
        client_id: str | None = None,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> Any: ...
    async def ask(
        self,
        content: Content,
        *,
        output: Any = None,
        client_id: str | None = None,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> Any:
        """Prompt, wait for this prompt's cycle, and return its last answer.

        Args:
            content: See `prompt`.
            output: The type of the answer: a msgspec Struct, an attrs class, a dataclass, a `TypedDict`, a pydantic
                model, a builtin or container, or a union of them. None: text. The model gets its JSON Schema, and one
                turn to correct a wrong answer. On a server, that turn checks only the schema: an answer that the type's
                own code refuses raises `CycleFailed` immediately.
            client_id: Your own name for this message. On a server, one is generated if missing. Calling again with
                the same name and content sends nothing and waits for the same answer.
            timeout_seconds: How long to wait, in seconds. None: no limit.
            wait_for_people: Whether to keep waiting while only users can let the cycle continue and no subscriber is
                listening. Another task must then answer. A session on a server always waits for users.

        Returns:
            The visible text of the model's last response, or, in a session with `response_format`, the JSON document.
            With `output`, the value.

        Raises:
            CycleAborted: The cycle was aborted.
            CycleFailed: The cycle failed. `error` has the cause. Its code is `response_format` if the second answer was
                wrong too. `text` is that answer.
            CycleWaiting: The cycle waits for users, without a deadline, and no user can answer: the program has not
                subscribed, and the session has no host. Answer those in `pending`, then call `collect_reply`.
            ReplyTimeout: The time limit expired. The cycle continues.
            EventMissed: This `client_id` was answered, and its events are no longer kept.
            StoreUnavailable: The store has accepted no records for longer than its patience.
            OptionError: Your move: the time is out of range.
            TypeFault: Your move: no JSON Schema describes `output`.
            CallingSelf: Your move: a tool of this session, or of one that it waits for, made the call.
            ClientIdReused: Your move: the name was used for another message.
            PromptError, PromptQueueFull, MailboxFull, SessionDown: See `prompt`.

        Cancellation: Only the reply is lost. The cycle continues.
        """
        asked = _decide(content, output, client_id, timeout_seconds, wait_for_people=wait_for_people)
        text = await self._answer(asked)
        return text if asked.reader is None else read_answer(text, asked.reader)

    @overload
    async def run(
        self,
        content: Content,
        *,
        client_id: str | None = None,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> CycleReply[str]: ...
    @overload
    async def run(
        self,
        content: Content,
        *,
        output: type[T],
        client_id: str | None = None,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> CycleReply[T]: ...
    @overload
    async def run(
        self,
        content: Content,
        *,
        output: Any,
        client_id: str | None = None,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> CycleReply[Any]: ...
    async def run(
        self,
        content: Content,
        *,
        output: Any = None,
        client_id: str | None = None,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> CycleReply[Any]:
        """Prompt, wait for this prompt's cycle, and return its full reply.

        Args:
            content: See `prompt`.
            output: See `ask`.
            client_id: See `ask`.
            timeout_seconds: See `ask`.
            wait_for_people: See `ask`.

        Returns:
            The answer as text and as a value, all visible text, the messages, the usage, and the event numbers.

        Raises:
            CycleAborted, CycleFailed, CycleWaiting, ReplyTimeout, EventMissed: See `ask`.
            StoreUnavailable, OptionError, TypeFault, CallingSelf: See `ask`.
            ClientIdReused, PromptError, PromptQueueFull, MailboxFull, SessionDown: See `prompt`.

        Cancellation: Only the reply is lost. The cycle continues.
        """
        asked = _decide(content, output, client_id, timeout_seconds, wait_for_people=wait_for_people)
        reply = await self._reply(asked)
        return reply if asked.reader is None else evolve(reply, output=read_answer(reply.text, asked.reader))

    @overload
    async def wait_for(
        self, what: type[E], *, timeout_seconds: float | None = None, wait_for_people: bool = False
    ) -> E: ...
    @overload
    async def wait_for(
        self,
        what: Callable[[Event], bool],
        *,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> Event: ...
    async def wait_for(
        self, what: Any, *, timeout_seconds: float | None = None, wait_for_people: bool = False
    ) -> Any:
        """Wait for the first matching event of the running cycle, even if it was published before this call.

        In idle, search the events of the last cycle without waiting.

        Args:
            what: An event class, or a function that takes an event and returns whether it matches.
            timeout_seconds: How long to wait, in seconds. None: until the cycle ends.
            wait_for_people: See `ask`.

        Returns:
            The event.

        Raises:
            CycleFailed, CycleAborted: The cycle failed or was aborted before a matching event.
            EventMissed: The cycle finished without a matching event, or there was no cycle: prompt first.
            CycleWaiting: See `ask`.
            ReplyTimeout: The time limit expired. The cycle continues.
            StoreUnavailable: The store does not accept records for now, so nothing is published.
            OptionError: Your move: an argument is out of range.
            CallingSelf: Your move: a tool of this session, or of one that it waits for, waits for the end of its cycle.
            SessionDown: The session has ended.

        Cancellation: Always a checkpoint. Nothing is lost.
        """
        refuse(fault_of_wait(timeout_seconds, wait_for_people=wait_for_people))
        return await self._event(what, timeout_seconds, wait_for_people=wait_for_people)

    async def _answer(self, asked: CycleQuestion) -> str:
        raise NotImplementedError

    async def _reply(self, asked: CycleQuestion) -> CycleReply[Any]:
        raise NotImplementedError

    async def _event(self, what: Any, timeout_seconds: float | None, *, wait_for_people: bool) -> Any:
        raise NotImplementedError


def _decide(
    content: Content,
    output: Any,
    client_id: str | None,
    timeout_seconds: float | None,
    *,
    wait_for_people: bool,
) -> CycleQuestion:
    refuse(fault_of_wait(timeout_seconds, wait_for_people=wait_for_people))
    return CycleQuestion(
        content=content,
        client_id=decide_client_id(client_id),
        reader=None if output is None else typed(output),
        timeout_seconds=timeout_seconds,
        waits_for_people=wait_for_people or timeout_seconds is not None,
    )
