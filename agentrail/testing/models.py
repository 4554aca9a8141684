"""Models for tests: `ScriptedModel` answers from a script, `FunctionModel` from a function. No network, and only Trio's clock."""

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Final, TypeAlias

import msgspec
import trio
from attrs import frozen

from agentrail.abc import Capabilities
from agentrail.core.policy.budget import Price
from agentrail.core.protocol.request import (
    ArgumentsDelta,
    Chunk,
    Completed,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCallStarted,
    UsageUpdate,
)
from agentrail.core.values.toolbox import read_call
from agentrail.errors import OptionError, ProviderError
from agentrail.messages import (
    AssistantBlock,
    AssistantMessage,
    JsonValue,
    StopReason,
    Text,
    Thinking,
    TokenUsage,
)

_USAGE: Final = TokenUsage(input=10, output=5)


@frozen(kw_only=True)
class ScriptedCall:
    """A tool call of a script.

    Attributes:
        name: Name of the tool.
        arguments: As text, exactly as the model would write it.
        call_id: The vendor's id. If empty, one is derived from the request's id.
    """

    name: str
    arguments: str
    call_id: str


@frozen(kw_only=True)
class Turn:
    """One response of a script.

    Attributes:
        text: The visible text, in the pieces in which it is streamed.
        thinking: Thinking before it.
        calls: The calls after it.
        usage: The reported usage.
        stop_reason: The stop reason. By default derived from the calls.
        error: Raised instead of the terminal chunk, after all earlier chunks.
        pause_seconds: Pause before each piece of text, and before the end.
    """

    text: tuple[str, ...] = ()
    thinking: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    usage: TokenUsage = _USAGE
    stop_reason: StopReason | None = None
    error: ProviderError | None = None
    pause_seconds: float = 0.0


def says(*pieces: str, pause_seconds: float = 0.0) -> Turn:
    """Return a turn with text, one delta per piece."""
    return Turn(text=pieces, pause_seconds=pause_seconds)


def calls(*wanted: tuple[str, Mapping[str, JsonValue] | str], text: str = "") -> Turn:
    """Return a turn that calls tools: pairs of a name and arguments, which may be text that is not JSON."""
    faults = [
        f"a call is {one!r:.200}: expected a pair, such as ('read_file', {{'path': 'a'}})"
        for one in list[object](wanted)
        if not isinstance(one, tuple | list)
    ]
    OptionError.raise_for(faults)
    made = tuple(
        ScriptedCall(
            name=name,
            arguments=arguments
            if isinstance(arguments, str)
            else msgspec.json.encode(dict(arguments)).decode(),
            call_id="",
        )
        for name, arguments in wanted
    )
    return Turn(text=(text,) if text else (), calls=made)


def fails(error: ProviderError, *, after: str = "") -> Turn:
    """Return a turn that fails, after some text or at once."""
    return Turn(text=(after,) if after else (), error=error)


_EXPECTED: Final = "expected turns, such as says('Hello.') or calls(('read_file', {'path': 'a'}))"

ScriptedAnswer: TypeAlias = Callable[[ModelRequest], Turn | Awaitable[Turn]]


class FunctionModel:
    """A model whose responses come from a function.

    Attributes:
        requests: All requests, in order.
    """

    name = "scripted"

    def __init__(self, answer: ScriptedAnswer) -> None:
        """Store the function: from a request to a `Turn`, sync or async."""
        given: object = answer
        if not callable(given):
            message = (
                f"answer is {given!r:.200}: expected a function from a ModelRequest to a Turn, sync or async"
            )
            raise OptionError([message])
        self._answer = answer
        self.requests: list[ModelRequest] = []

    def capabilities(self, model: str) -> Capabilities:
        """Return full capabilities, free of charge, with a window of 128,000 tokens."""
        free = Price(input=0, output=0)
        return Capabilities(context_window=128_000, images=True, reasoning=True, price=free)

    def encode(self, request: ModelRequest) -> bytes:
        """Return an empty body: there is no wire format."""
        return b""

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Stream the turn that the function returns."""
        self.requests.append(request)
        answered = self._answer(request)
        turn: object = await answered if inspect.isawaitable(answered) else answered
        if not isinstance(turn, Turn):
            message = f"the function gave {turn!r:.200}: {_EXPECTED}, one for each request"
            raise OptionError([message])
        await trio.lowlevel.checkpoint()
        async with aclosing(stream_of(turn, request)) as chunks:
            yield chunks


class ScriptedModel(FunctionModel):
    """A model that answers from a script, one turn per request. A request beyond the script fails."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        """Store the turns, in order.

        Raises:
            OptionError: Your move: not a sequence of turns, for example a nested list.
        """
        super().__init__(self._next)
        given: object = turns
        if isinstance(given, str) or not isinstance(given, Collection):
            raise OptionError([f"turns is {given!r:.200}: {_EXPECTED}, in a list"])
        faults = [
            f"turns[{position}] is {turn!r:.200}: {_EXPECTED}, in a flat list"
            for position, turn in enumerate(given)
            if not isinstance(turn, Turn)
        ]
        OptionError.raise_for(faults)
        self._turns = tuple(turns)

    def _next(self, request: ModelRequest) -> Turn:
        position = len(self.requests) - 1
        if position >= len(self._turns):
            message = f"the script has {len(self._turns)} turns, and this is request {position + 1}: write another turn"
            return fails(ProviderError(message))
        return self._turns[position]

    def assert_exhausted(self) -> None:
        """Check that every turn of the script was used.

        Raises:
            AssertionError: Some turns were not used.
        """
        left = len(self._turns) - len(self.requests)
        assert left <= 0, f"{left} of {len(self._turns)} turns of the script were never asked for"


async def stream_of(turn: Turn, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
    """Convert a turn into chunks, ending with its terminal chunk or its error."""
    blocks: list[AssistantBlock] = []
    if turn.thinking:
        blocks.append(Thinking(text=turn.thinking, provider="scripted"))
        yield ReasoningDelta(turn.thinking)
    for piece in turn.text:
        await _pause(turn)
        yield TextDelta(piece)
    if any(turn.text):
        blocks.append(Text(text="".join(turn.text)))
    for index, call in enumerate(turn.calls):
        call_id = call.call_id or f"call_{request.attempt}_{index}"
        yield ToolCallStarted(index, call_id, call.name)
        yield ArgumentsDelta(index, call.arguments)
        blocks.append(read_call(call_id, call.name, call.arguments))
    await _pause(turn)
    if turn.error is not None:
        raise turn.error
    yield UsageUpdate(turn.usage)
    stop_reason: StopReason = turn.stop_reason or ("tool_use" if turn.calls else "end")
    message = AssistantMessage(content=tuple(blocks), model=request.model, stop_reason=stop_reason)
    yield Completed(stop_reason, message, turn.usage)


async def _pause(turn: Turn) -> None:
    if turn.pause_seconds:
        await trio.sleep(turn.pause_seconds)
