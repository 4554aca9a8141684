"""A session for one call of a tool, that no model asks for: the call passes what each call of a session passes.

For callers from outside who have a name and arguments and want what the tool says. It is a session like any other, so gates, plugins,
approvals, budget and events are those of one; only its model is built in, and asks for this call and nothing else.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

import trio
from attrs import evolve

from agentrail.abc import Capabilities, Error, Ok
from agentrail.core.policy.budget import Price
from agentrail.core.protocol.request import Chunk, Completed, ModelRequest
from agentrail.errors import BadRequest, CycleAborted, CycleFailed, ErrorInfo, OptionError, SessionDown
from agentrail.events import AgentAbort, AgentEnd, AgentError, Event, ToolExecutionEnd
from agentrail.frozen import frozen_json, not_json
from agentrail.messages import AssistantMessage, CallId, JsonObject, TokenUsage, ToolCall, ToolResult
from agentrail.runtime.arguments import fault_of_text
from agentrail.runtime.handle import Session
from agentrail.runtime.session_options import SessionOptions, decide_options

CALL_ID: Final = CallId("call")
"""That of the only call."""

_FREE: Final = Price(input=0.0, output=0.0, cache_read=0.0, cache_write=0.0)


class OneCallModel:
    """The built-in provider of such a session."""

    name = "one-call"

    def __init__(self, tool: str, arguments: JsonObject) -> None:
        """Take what to call, with what."""
        self._tool = tool
        self._arguments = arguments
        self._has_asked = False

    def capabilities(self, model: str) -> Capabilities:
        """Say that it costs nothing and says little, so that a budget keeps nothing back for it."""
        return Capabilities(price=_FREE, max_output_tokens=1)

    def encode(self, request: ModelRequest) -> bytes:
        """Make nothing: nothing is sent."""
        return b""

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Ask for the call, once.

        Raises:
            BadRequest: A model is wanted: by a plugin, or by a session that works for the call. There is none, and an answer that
                means nothing would be taken for one.
        """
        await trio.lowlevel.checkpoint()
        if self._has_asked or self._tool not in request.tools.names:
            message = f"there is no model to ask: this session was started for one call of {self._tool!r}"
            raise BadRequest(message)
        self._has_asked = True
        call = ToolCall(call_id=CALL_ID, name=self._tool, arguments=self._arguments)
        said = AssistantMessage(content=(call,), model=request.model, stop_reason="tool_use")
        async with aclosing(_only(Completed("tool_use", said, TokenUsage()))) as chunks:
            yield chunks


async def _only(chunk: Chunk) -> AsyncGenerator[Chunk, None]:
    await trio.lowlevel.checkpoint()
    yield chunk


def decide_call(name: object, arguments: object, options: object, given: Mapping[str, Any]) -> SessionOptions:
    """Make the options of the session for a call: as given, but for what asks models.

    Raises:
        OptionError: Your move: a name that is no text, arguments that are no JSON object, or options that cannot be. All faults
            of the call at once.
    """
    faults = [
        fault for fault in (fault_of_text("name", name), _fault_of_arguments(arguments)) if fault is not None
    ]
    if faults:
        raise OptionError(faults)
    said: Any = {} if arguments is None else arguments
    model = OneCallModel(str(name), frozen_json(said))
    chosen = decide_options(options, given if options is not None else {**given, "model": model})
    return evolve(
        chosen,
        model=model,
        provider_opts={},  # of the model that is not asked
        fallback_models=(),
        response_format=None,
        max_turns=1,
        on_max_turns="stop",
        restart="temporary",  # a call is made once
    )


def _fault_of_arguments(arguments: object) -> str | None:
    if arguments is None:
        return None
    if not isinstance(arguments, Mapping):
        return f"arguments is {arguments!r:.200}: expected a mapping, such as {{'path': 'a.txt'}}"
    fault = not_json(dict(arguments), "arguments")
    return None if fault is None else f"{fault}: expected what JSON has"


async def run_call(session: Session, name: str) -> Ok | Error:
    """Let a session make its call, and give what came of it.

    Args:
        session: It has just begun.
        name: Of the tool.

    Raises:
        CycleAborted, CycleFailed, SessionDown: It ended without a result of the call.

    Cancellation: The session goes on; the caller stops it.
    """
    result: ToolResult | None = None
    async with session.subscribe(kinds=[ToolExecutionEnd, AgentEnd, AgentAbort, AgentError]) as events:
        await session.prompt(f"Call the tool {name}.")
        async for event in events:
            if isinstance(event, ToolExecutionEnd):
                result = event.result if event.call_id == CALL_ID else result
            else:
                return decide_call_outcome(event, result, name)
    raise SessionDown(session.session_id, "it ended before the call did")


def decide_call_outcome(end: Event, result: ToolResult | None, name: str) -> Ok | Error:
    """Say what came of a call, from how its cycle ended and what was published as its result.

    Raises:
        CycleAborted, CycleFailed: There is no result.
    """
    if result is not None:  # also of a call that was stopped: its result says so
        if result.is_error:
            return Error(text=result.text, details=result.details)
        return Ok(text=result.text, details=result.details, images=result.images)
    match end:
        case AgentAbort(reason=reason):
            raise CycleAborted(reason)
        case AgentError(error=error):
            raise CycleFailed(error)
        case _:
            message = f"{name!r} was never called: a plugin has switched the model, or answered in its place"
            raise CycleFailed(ErrorInfo(code="not_called", message=message))
