"""What a prompt says to a server, and the name that it is sent under."""

from typing import Any

from agentrail import outside
from agentrail.messages import Content, Text
from agentrail.runtime.arguments import decide_blocks


def new_name() -> str:
    """Make a client id that no other message has."""
    return f"r-{outside.ids(12)}"


def prompt_body(content: Content) -> dict[str, Any]:
    """Return the fields of a prompt: one text as the message that it is over HTTP, all else as blocks."""
    blocks = decide_blocks(content)
    match blocks:
        case (Text(text=text),):
            return {"message": text}
        case _:
            return {"content": blocks}
