"""`chatty_model`: a model that is a function of the conversation and of the tape, with all failures that a provider may have."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from random import Random
from typing import ClassVar, Final

import msgspec
import trio

from agentrail import errors
from agentrail.abc import Capabilities
from agentrail.core.policy.model_policy import ModelPolicy
from agentrail.core.protocol.request import Chunk, ModelRequest, ReasoningDelta
from agentrail.core.values.sample_values import SampleValues
from agentrail.core.values.toolbox import ToolSpec
from agentrail.errors import OptionError, Overloaded, ProviderError, RateLimited, StreamTimeout, Transport
from agentrail.messages import AssistantMessage, Text, UserMessage
from agentrail.testing.models import FunctionModel, ScriptedCall, Turn, stream_of
from agentrail.testing.simulation.faults import MODEL_TROUBLE
from agentrail.testing.simulation.inhabited_world import InhabitedWorld

_FINAL_ERRORS: Final = (errors.Authentication, errors.ModelNotFound, errors.ContentRefused, errors.BadRequest)
_ERRORS: Final = {
    one.code: one
    for one in (
        *(RateLimited, Overloaded, Transport, errors.Timeout, StreamTimeout, errors.ProtocolError),
        *(errors.ContextWindowExceeded, *_FINAL_ERRORS, ProviderError),
    )
}
_CALLS: Final = {"call": 1, "two calls": 2, "three calls": 3}
_TROUBLES: Final = (
    *_ERRORS,
    *("crash", "break off", "half a call", "stall", "think", "repeat", "unknown tool", "long answer"),
)
_MAX_REPEATS: Final = 20


def chatty_model(*, calls: int = 8, trouble: int = 1) -> "ChattyModel":
    """Return a model that talks and calls tools, and fails at times. In the calm end of a life it only answers.

    Args:
        calls: Weight of calls of tools, with arguments that fit their schemas, except for patterns. That of an answer is 8.
        trouble: Weight of failures.
    """
    called = ("call", "call", "call", "two calls", "three calls") * calls
    return ChattyModel(("answer",) * 40 + called + _TROUBLES * trouble)


class ChattyModel:
    """See `chatty_model`. A request that is sent again has other draws, as real models do not repeat themselves either."""

    name: str = "chatty"
    model_policy: ModelPolicy = ModelPolicy(timeout_seconds=15.0, stall_seconds=8.0, stall_policy="retry")
    capabilities: ClassVar[Callable[..., Capabilities]] = FunctionModel.capabilities
    encode: ClassVar[Callable[..., bytes]] = FunctionModel.encode

    def __init__(self, plans: tuple[str, ...]) -> None:
        """Store its plans, by weight. The first is the calm one."""
        self._plans = plans
        self._world: InhabitedWorld | None = None

    def join(self, world: InhabitedWorld) -> None:
        """Take the draws from this world."""
        self._world = world

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Stream a response."""
        await trio.lowlevel.checkpoint()
        async with aclosing(self._stream(request)) as chunks:
            yield chunks

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        world = self._world
        if world is None:
            raise OptionError(["a chatty model belongs to no world: pass it to world.profile"])
        said, turns = _last_prompt(request)
        name = f"model[{said}+{turns}]"
        plan = "answer" if world.is_calm else world.tape.choice(name, self._plans)
        if _is_repeating(request) and turns < _MAX_REPEATS:
            plan = "repeat"
        if plan in _TROUBLES and (world.is_calm or not world.allows(MODEL_TROUBLE)):
            plan = "answer"
        if plan == "crash":
            message = "a bug of the provider"
            raise ValueError(message)
        if plan in _ERRORS:
            message = "the model failed"
            raise _ERRORS[plan](message, retry_after_seconds=2.0 if plan == "rate_limited" else None)
        if plan == "stall":
            await trio.sleep(20)
        if plan == "think":
            for _ in range(40):
                await trio.sleep(0.5)
                yield ReasoningDelta("hm ")
            message = "it thought for too long"
            raise StreamTimeout(message)
        specs = () if request.tool_choice == "none" else request.tools.specs
        wanted = [world.tape.choice(f"{name}.tool", specs) for _ in range(_CALLS.get(plan, 0)) if specs]
        chance = world.tape.generator(name)
        broken = Transport("the connection broke")
        turn = Turn(text=(f"{turns}: {said}", " and", " more"), pause_seconds=0.2)
        match plan:
            case "break off":
                turn = Turn(text=("I was", " about to"), error=broken)
            case "half a call" if specs:
                turn = Turn(
                    calls=(ScriptedCall(name=specs[0].name, arguments='{"am', call_id=""),), error=broken
                )
            case "unknown tool":
                turn = Turn(calls=(ScriptedCall(name="fly", arguments="{}", call_id=""),))
            case "long answer":
                turn = Turn(text=("and so on, " * 2_000,), stop_reason="max_tokens")
            case "repeat" if specs:
                turn = Turn(text=("again",), calls=(_call(specs[0], Random(0)),))  # noqa: S311 - always the same
            case _ if wanted:
                turn = Turn(text=(f"{turns}: {said}",), calls=tuple(_call(spec, chance) for spec in wanted))
            case _:
                pass
        async with aclosing(stream_of(turn, request)) as chunks:
            async for chunk in chunks:
                yield chunk  # noqa: ASYNC119 - its only caller closes this generator


def _last_prompt(request: ModelRequest) -> tuple[str, int]:
    """Return the first word of the user's last message, and the number of messages since."""
    for turns, message in enumerate(reversed(request.messages)):
        if isinstance(message, UserMessage):
            texts = [block.text for block in message.content if isinstance(block, Text)]
            return "".join(texts).partition(" ")[0][:40], turns
    return "", len(request.messages)


def _is_repeating(request: ModelRequest) -> bool:
    before = request.messages[-2] if len(request.messages) > 1 else None
    return isinstance(before, AssistantMessage) and before.content[:1] == (Text(text="again"),)


def _call(spec: ToolSpec, chance: Random) -> ScriptedCall:
    words, numbers = (f"word-{chance.randrange(1_000)}",), (chance.randrange(1_000),)
    samples = SampleValues(root=spec.parameters, choose=chance.choice, words=words, numbers=numbers)
    arguments = msgspec.json.encode(samples.of(spec.parameters)).decode()
    return ScriptedCall(name=spec.name, arguments=arguments, call_id="")
