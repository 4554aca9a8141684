"""Structured answers of models that take no schema: the answer as a call of a tool that is never run. Pure.

The request has one more tool, whose parameters are the schema; a call of it comes back as text, so that the session, its history and its
subscribers see an answer like any other. The road not taken is the schema in the prompt: such models follow tools better.
"""

import json
from collections.abc import AsyncIterator
from typing import Final

import msgspec
from attrs import define, field

from agentrail.core.protocol.request import (
    ArgumentsDelta,
    Chunk,
    Completed,
    ModelRequest,
    TextDelta,
    ToolCallStarted,
)
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.messages import AssistantBlock, AssistantMessage, Text, ToolCall

ANSWER_TOOL: Final = "final_answer"
_DESCRIPTION: Final = "Give your final answer by calling this tool, once, when you are done: its arguments are the answer. Say it in no other way."


def with_answer_tool(request: ModelRequest) -> tuple[ModelRequest, str | None]:
    """Put the tool into a request whose answer is to have a shape.

    Returns:
        The request without its schema, and what the tool is called in it; the request as it is, and None, where no shape is wanted,
        or one that is no object, which no tool could take.
    """
    schema = request.response_format
    if schema is None or schema.get("type") != "object":
        return request, None
    # On the last turn the others are withheld, and this one may be called all the same.
    specs = request.tools.specs if request.tool_choice == "auto" else ()
    name = ANSWER_TOOL
    while any(spec.name == name for spec in specs):
        name += "_"
    tools = Toolbox((*specs, ToolSpec(name=name, description=_DESCRIPTION, parameters=schema)))
    return msgspec.structs.replace(request, tools=tools, tool_choice="auto", response_format=None), name


@define
class AnswerChunks:
    """The chunks of a response in which a call of the tool is text."""

    chunks: AsyncIterator[Chunk]
    name: str
    _said: dict[int, str] = field(factory=dict, init=False)

    @property
    def pinged_at(self) -> float | None:
        """When the server last gave a sign of life; as of the port."""
        pinged_at: float | None = getattr(self.chunks, "pinged_at", None)
        return pinged_at

    def __aiter__(self) -> "AnswerChunks":
        """Iterate over oneself."""
        return self

    async def __anext__(self) -> Chunk:
        """Give the next chunk, as a session that knows no such tool is to read it."""
        while True:
            chunk = self._read(await anext(self.chunks))
            if chunk is not None:
                return chunk

    def _read(self, chunk: Chunk) -> Chunk | None:
        match chunk:
            case ToolCallStarted(index=index, name=self.name):
                self._said[index] = ""
                return None
            case ArgumentsDelta(index=index, text=text) if index in self._said:
                self._said[index] += text
                return TextDelta(text) if text else None
            case Completed(message=message):
                return self._with_answer(chunk, message)
            case _:
                return chunk

    def _with_answer(self, chunk: Completed, message: AssistantMessage) -> Completed:
        # What came in pieces is what the message says, to the letter: subscribers have read it.
        said = iter(self._said.values())
        content: list[AssistantBlock] = []
        for block in message.content:
            if isinstance(block, ToolCall) and block.name == self.name:
                content.append(Text(text=next(said, "") or _written(block)))
            else:
                content.append(block)
        is_last = not any(isinstance(block, ToolCall) for block in content)
        stop_reason = "end" if is_last and chunk.stop_reason == "tool_use" else chunk.stop_reason
        answered = msgspec.structs.replace(message, content=tuple(content), stop_reason=stop_reason)
        return Completed(stop_reason, answered, chunk.usage)


def _written(call: ToolCall) -> str:
    return call.malformed or json.dumps(call.arguments, ensure_ascii=False)
