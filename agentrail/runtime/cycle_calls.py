"""The typed calls that wait for a cycle: the same for a session of this process and a session on a server.

They check the arguments and read an answer as its type. How a cycle is waited for is in `prompting` and in `agentrail.remote.session`.
"""

from collections.abc import Callable
from typing import Any, TypeVar, overload

from attrs import evolve, frozen

from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.events import Event
from agentrail.messages import Content
from agentrail.runtime.answers import CycleReply, read_answer
from agentrail.runtime.arguments import decide_client_id, fault_of_wait, refuse
from agentrail.typed import TypedValue, typed

T = TypeVar("T")
E = TypeVar("E", bound=Event)


@frozen(kw_only=True)
class CycleQuestion:
    """A prompt whose answer is waited for.

    Attributes:
        client_id: The caller's name of it; None for none.
        reader: Reads the answer as its type; None for text.
        timeout_seconds: How long to wait; None for as long as it takes.
        waits_for_people: Whether to wait also while only users can let the cycle continue.
    """

    content: Content
    client_id: str | None
    reader: TypedValue[Any] | None
    timeout_seconds: float | None
    waits_for_people: bool

    @property
    def settings(self) -> PromptSettings | None:
        """What the model is told of the type of the answer; None for text."""
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
    @overload  # of a union, which no type checker knows as a type of values yet
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
        """Prompt, wait for the cycle of this very prompt, and return its last answer.

        Args:
            content: As of `prompt`.
            output: The type of the answer: a msgspec Struct, a class of attrs, a dataclass, a `TypedDict`, a pydantic model, a
                builtin or container, a union of them; None for text. The model is told its JSON Schema, and gets one turn to
                put a wrong answer right. On a server only the schema is checked in that turn: an answer that the code of the type
                refuses is `CycleFailed` at once.
            client_id: Your own name of this message; on a server one is made where none is given. Asked again with the same name and content, after `ReplyTimeout`,
                `StoreUnavailable` or a restart, it sends nothing and waits for the same answer. Names are remembered as of `prompt`.
            timeout_seconds: How long to wait; None for as long as it takes.
            wait_for_people: Whether to wait also while only users can let the cycle continue and no one listens; another task of yours
                answers. A session on a server has a host, so users are always waited for.

        Returns:
            What the model said aloud in its last response; of a session with `response_format` the JSON document. With `output`
            the value.

        Raises:
            CycleAborted: The cycle was aborted.
            CycleFailed: The cycle failed; `error` says why. Its code is `response_format` where the second answer was wrong too;
                `text` is that answer.
            CycleWaiting: The cycle waits for users, without a deadline, and no user can answer: neither did the program subscribe, nor has
                a host the session. `pending` has what waits. The cycle stays as it is: answer, then call `collect_reply`.
            ReplyTimeout: The time was up. The cycle goes on; `collect_reply` waits for its answer, as does the same `client_id`.
            EventMissed: This `client_id` was answered, and its events are kept no longer.
            StoreUnavailable: The store takes no records for longer than its patience. What was taken continues when it is back.
            OptionError: Your move: a time that cannot be.
            TypeFault: Your move: no JSON Schema describes `output`; the message names the field, and what to write instead.
            CallingSelf: Your move: a tool of this session asked it.
            ClientIdReused: Your move: the name was used for another message.
            PromptError, PromptQueueFull, MailboxFull, SessionDown: As of `prompt`.

        Cancellation: Only the reply is lost; the cycle goes on.
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
        """Prompt, wait for the cycle of this very prompt, and return all that came of it.

        Args:
            content: As of `prompt`.
            output: As of `ask`.
            client_id: As of `ask`.
            timeout_seconds: As of `ask`.
            wait_for_people: As of `ask`.

        Returns:
            The answer as text and as a value, all that was said, the messages, what was used, and the numbers of the events.

        Raises:
            CycleAborted, CycleFailed, CycleWaiting, ReplyTimeout, EventMissed, StoreUnavailable, OptionError, TypeFault, CallingSelf: As of `ask`.
            ClientIdReused, PromptError, PromptQueueFull, MailboxFull, SessionDown: As of `prompt`.

        Cancellation: Only the reply is lost; the cycle goes on.
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
        """Wait for the first event of the running cycle that is meant, also if it was published before this call.

        In idle the cycle that ended last is looked at, and nothing is waited for. For what belongs to no cycle, `subscribe`.

        Args:
            what: The class of an event, or a function that is told each and says which.
            timeout_seconds: How long to wait; None for as long as the cycle lasts.
            wait_for_people: As of `ask`.

        Returns:
            The event.

        Raises:
            CycleFailed, CycleAborted: The cycle ended so, before any such event.
            EventMissed: It finished before any; or there was no cycle: prompt first.
            CycleWaiting: As of `ask`.
            ReplyTimeout: The time was up. The cycle goes on.
            StoreUnavailable: The store takes no records for now, so that nothing is published.
            OptionError: Your move: an argument that cannot be.
            SessionDown: The session has ended.

        Cancellation: Always a checkpoint; nothing is lost by it.
        """
        refuse(fault_of_wait(timeout_seconds))
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
    refuse(fault_of_wait(timeout_seconds))
    return CycleQuestion(
        content=content,
        client_id=decide_client_id(client_id),
        reader=None if output is None else typed(output),
        timeout_seconds=timeout_seconds,
        waits_for_people=wait_for_people or timeout_seconds is not None,
    )
