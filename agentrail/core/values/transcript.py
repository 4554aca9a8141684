"""A conversation as text for users and for files: its complete content, independent of formats."""

import json
from collections.abc import Iterable
from typing import assert_never

from agentrail.messages import (
    AssistantBlock,
    AssistantMessage,
    FileRef,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserBlock,
    UserMessage,
)


def transcript_of(messages: Iterable[Message]) -> str:
    """Format messages in order, each under a heading with its speaker. Ends with a line break, unless empty."""
    return "".join(f"{_rendered(message)}\n\n" for message in messages).removesuffix("\n")


def _rendered(message: Message) -> str:
    match message:
        case UserMessage(content=content, origin=origin):
            who = "User" if origin in {"prompt", "steer"} else "Note"
            return "\n\n".join([f"## {who}", *(_block(block) for block in content)])
        case AssistantMessage(content=content, cut=cut):
            who = "Assistant (cut off)" if cut else "Assistant"
            return "\n\n".join([f"## {who}", *(_block(block) for block in content)])
        case ToolMessage(results=results):
            return "\n\n".join(["## Results", *(_result(result) for result in results)])
        case _ as never:
            assert_never(never)


def _block(block: UserBlock | AssistantBlock) -> str:
    match block:
        case Text(text=text):
            return text
        case Thinking(text=text):
            return f"[thinking] {text}"
        case ToolCall(call_id=call_id, name=name, arguments=arguments, malformed=malformed):
            sent = malformed if arguments is None else json.dumps(arguments, ensure_ascii=False, indent=2)
            return f"### Call {call_id}: {name}\n\n{sent}"
        case Opaque(provider=provider):
            return f"[something that only {provider} understands]"
        case Image(name=name, media_type=media_type):
            return f"[image: {name}, {media_type}]"
        case FileRef(path=path):
            return f"[file: {path}]"
        case _ as never:
            assert_never(never)


def _result(result: ToolResult) -> str:
    failed = " (failed)" if result.is_error else ""
    return f"### Result of {result.call_id}: {result.name}{failed}\n\n{result.words}"
