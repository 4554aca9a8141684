"""The transcripts under `tests/wire`, and how a test reads one without a network."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agentrail.core.protocol.request import Chunk, Completed, EffectId, ModelRequest
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.messages import JsonObject, Message, Text, UserMessage
from agentrail.providers.anthropic_format import MessagesStream
from agentrail.providers.failures import Vendor
from agentrail.providers.gemini_format import GeminiStream
from agentrail.providers.openai_chat_format import ChatStream
from agentrail.providers.openai_responses_format import ResponsesStream
from agentrail.providers.wire_format import Reader

WIRE: Final = Path(__file__).parent.parent / "wire"
KEY: Final = "sk-test-0123456789abcdef"
VENDOR: Final = Vendor(name="the vendor", key_help="set THE_KEY", secrets=(KEY,))
REQUEST_BYTES: Final = 400
READERS: Final[dict[str, type[ChatStream | GeminiStream | MessagesStream | ResponsesStream]]] = {
    "gemini": GeminiStream,
    "openai_chat": ChatStream,
    "openai_responses": ResponsesStream,
    "anthropic": MessagesStream,
}


def transcripts(wire: str, *, conforming: bool = False) -> list[Path]:
    """Name the transcripts of a format, with or without those that deviate from it."""
    return sorted((WIRE / wire).glob("*.sse" if conforming else "**/*.sse"))


def events_of(text: str) -> Iterator[str]:
    """Split a transcript into the data of its complete events; a second implementation, so that one judges the other."""
    *complete, _ = text.replace("\r\n", "\n").split("\n\n")
    for block in complete:
        data = [line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:")]
        if data:
            yield "\n".join(data)


def reader_of(wire: str) -> Reader:
    """Make a fresh reader."""
    return READERS[wire](model="x:y", attempt=EffectId("e1"), vendor=VENDOR, request_bytes=REQUEST_BYTES)


def read(path: Path) -> list[Chunk]:
    """Read a transcript to its end."""
    reader = reader_of(path.relative_to(WIRE).parts[0])
    chunks = [chunk for data in events_of(path.read_bytes().decode()) for chunk in reader.feed(data)]
    return [*chunks, *reader.close()]


def completed(chunks: list[Chunk]) -> Completed:
    """Return the terminal chunk, which is the last one and the only one."""
    terminals = [chunk for chunk in chunks if isinstance(chunk, Completed)]
    assert terminals == chunks[-1:]
    return terminals[0]


def tools() -> Toolbox:
    """Make two tools, as a session would offer them; a fresh box, because it remembers its encoded form."""
    path: JsonObject = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    city: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return Toolbox(
        [
            ToolSpec(name="read_file", description="Read a file.", parameters=path),
            ToolSpec(name="get_weather", description="Say how the weather is.", parameters=city),
        ]
    )


def said(text: str) -> UserMessage:
    """Make a user's message."""
    return UserMessage(content=(Text(text=text),))


def request_of(*messages: Message | str, model: str = "x:some-model", **fields: object) -> ModelRequest:
    """Make a request; texts are the user's."""
    every = tuple(said(message) if isinstance(message, str) else message for message in messages)
    values: dict[str, object] = {"system": None, "tools": Toolbox(), **fields}
    return ModelRequest(attempt=EffectId("e1"), model=model, messages=every, **values)  # type: ignore[arg-type]
