"""Hook events for the conversation so far: the dry run that new plugin code has to pass before it is loaded."""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias, assert_never

from msgspec.structs import replace

from agentrail.core.protocol.hooks import (
    AfterResponse,
    AfterTool,
    AfterToolBatch,
    BeforeFinish,
    BeforePrompt,
    BeforeRequest,
    BeforeSteering,
    BeforeTool,
    HookEvent,
)
from agentrail.core.stack.plugin import Context
from agentrail.messages import AssistantMessage, Message, Text, ToolMessage, UserMessage

MAX_REHEARSED: Final = 40
"""Number of the last messages that are repeated."""

Moment: TypeAlias = tuple[HookEvent, Context]


def rehearsal_of(messages: Sequence[Message], ctx: Context) -> Iterator[Moment]:
    """Yield the hook events of the last messages, in order, each with the conversation as it was."""
    for position in range(max(0, len(messages) - MAX_REHEARSED), len(messages)):
        known = tuple(messages[:position])
        is_last = position + 1 == len(messages) or isinstance(messages[position + 1], UserMessage)
        for event in _events_of(messages[position], known, is_last=is_last):
            # A response is in the history when plugins see it. A prompt, a steer and a result are not yet.
            seen = (*known, messages[position]) if isinstance(messages[position], AssistantMessage) else known
            is_request = isinstance(event, BeforeRequest)
            yield event, replace(ctx, messages=known if is_request else seen)


def _events_of(message: Message, known: tuple[Message, ...], *, is_last: bool) -> Iterator[HookEvent]:
    match message:
        case UserMessage(origin="prompt", content=content):
            text = "\n".join(block.text for block in content if isinstance(block, Text))
            yield BeforePrompt(text=text, content=content)
        case UserMessage(origin="steer", content=content):
            yield BeforeSteering(text="\n".join(block.text for block in content if isinstance(block, Text)))
        case UserMessage():  # plugins are not asked about texts of plugins and of the session
            pass
        case AssistantMessage(cut=True):  # it was stopped before it was complete
            yield BeforeRequest(messages=known)
        case AssistantMessage(calls=calls):
            yield BeforeRequest(messages=known)
            yield AfterResponse(message=message)
            for call in calls:
                yield BeforeTool(name=call.name, arguments=call.arguments or {}, call_id=call.call_id)
            if is_last and not calls:
                yield BeforeFinish()
        case ToolMessage(results=results):
            for result in results:
                yield AfterTool(name=result.name, call_id=result.call_id, result=result)
            yield AfterToolBatch(results=results)
        case _ as never:
            assert_never(never)
