"""A conversation as text: what was removed from a history can be read in a file."""

from agentrail import messages as m
from agentrail.core.values.transcript import transcript_of

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
        m.Text(text="Look at this."),
        m.Image(media_type="image/png", data="A", name="shot"),
        m.FileRef(path="a.py"),
    )
    messages = [
        m.UserMessage(content=looked),
        m.UserMessage(content=(m.Text(text="[You were stopped.]"),), origin="intervention"),
        m.AssistantMessage(
            content=(
                m.Thinking(text="Hm.", provider="p"),
                m.Opaque(provider="p", payload={}),
                m.Text(text="I read it."),
                m.ToolCall(call_id=m.CallId("c1"), name="read", arguments={"path": "é.py"}),
                m.ToolCall(call_id=m.CallId("c2"), name="read", arguments=None, malformed='{"path":'),
            ),
            model="m",
        ),
        m.ToolMessage(
            results=(
                m.ToolResult(call_id=m.CallId("c1"), name="read", text="x = 1"),
                m.ToolResult(call_id=m.CallId("c2"), name="read", text="Malformed arguments.", is_error=True),
            )
        ),
        m.AssistantMessage(content=(m.Text(text="It is"),), model="m", cut=True),
    ]
    assert transcript_of(messages) == EXPECTED
