"""A conversation as text: what was removed from a history can be read in a file."""

from agentrail.core.values.transcript import transcript_of
from agentrail.messages import (
    AssistantMessage,
    CallId,
    FileRef,
    Image,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)

EXPECTED = """\
## User

Look at this.

[image: shot, image/png]

[file: a.py]

## Note

[You were stopped.]

## Assistant

[thinking] Hm.

[something that only p understands]

I read it.

### Call c1: read

{
  "path": "é.py"
}

### Call c2: read

{"path":

## Results

### Result of c1: read

x = 1

### Result of c2: read (failed)

Malformed arguments.

## Assistant (cut off)

It is
"""


def test_everything_that_was_said_stands_in_it():
    """Who spoke, thoughts, calls with their arguments, results with their failures, cut answers."""
    looked = (
        Text(text="Look at this."),
        Image(media_type="image/png", data="A", name="shot"),
        FileRef(path="a.py"),
    )
    messages = [
        UserMessage(content=looked),
        UserMessage(content=(Text(text="[You were stopped.]"),), origin="intervention"),
        AssistantMessage(
            content=(
                Thinking(text="Hm.", provider="p"),
                Opaque(provider="p", payload={}),
                Text(text="I read it."),
                ToolCall(call_id=CallId("c1"), name="read", arguments={"path": "é.py"}),
                ToolCall(call_id=CallId("c2"), name="read", arguments=None, malformed='{"path":'),
            ),
            model="m",
        ),
        ToolMessage(
            results=(
                ToolResult(call_id=CallId("c1"), name="read", text="x = 1"),
                ToolResult(call_id=CallId("c2"), name="read", text="Malformed arguments.", is_error=True),
            )
        ),
        AssistantMessage(content=(Text(text="It is"),), model="m", cut=True),
    ]
    assert transcript_of(messages) == EXPECTED
