"""The transcripts under `tests/wire`, and how a test reads one without a network."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import trio

from agentrail.core.protocol.request import Chunk, Completed, EffectId, ModelRequest
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.messages import (
    AssistantMessage,
    CallId,
    JsonObject,
    Message,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.providers.anthropic_format import MessagesStream
from agentrail.providers.failures import Vendor
from agentrail.providers.gemini_format import GeminiStream
from agentrail.providers.http import HttpClients
from agentrail.providers.openai_chat_format import ChatStream
from agentrail.providers.openai_responses_format import ResponsesStream
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import AnthropicMessages, Gemini, OpenAIChat, OpenAIResponses
from agentrail.providers.wire_format import Reader
from agentrail.testing.check_provider import Served, ServedReply, open_server

WIRE: Final = Path(__file__).parent.parent / "wire"
KEY: Final = "sk-test-0123456789abcdef"
VENDOR: Final = Vendor(name="the vendor", key_help="set THE_KEY", secrets=(KEY,))
CERTIFICATE: Final = Path(__file__).parent.parent / "gateway" / "tls" / "certificate.pem"
REQUEST_BYTES: Final = 400
READERS: Final[dict[str, type[ChatStream | GeminiStream | MessagesStream | ResponsesStream]]] = {
    "gemini": GeminiStream,
    "openai_chat": ChatStream,
    "openai_responses": ResponsesStream,
    "anthropic": MessagesStream,
}
WIRES: Final[dict[type[Any], str]] = {
    OpenAIChat: "openai_chat",
    OpenAIResponses: "openai_responses",
    AnthropicMessages: "anthropic",
    Gemini: "gemini",
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
    return READERS[wire](model="x:y", attempt=EffectId("e1"), vendor=VENDOR, request_bytes=REQUEST_BYTES)


def read(path: Path) -> list[Chunk]:
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
    return UserMessage(content=(Text(text=text),))


def request_of(*messages: Message | str, model: str = "x:some-model", **fields: object) -> ModelRequest:
    """Make a request; texts are the user's."""
    every = tuple(said(message) if isinstance(message, str) else message for message in messages)
    values: dict[str, object] = {"system": None, "tools": Toolbox(), **fields}
    return ModelRequest(attempt=EffectId("e1"), model=model, messages=every, **values)  # type: ignore[arg-type]


def assistant(*blocks: Any, model: str = "x:some-model") -> AssistantMessage:
    return AssistantMessage(content=blocks, model=model)


def call_of(call_id: str = "c1", **fields: Any) -> ToolCall:
    values: dict[str, Any] = {"name": "get_weather", "arguments": {"city": "Lisbon"}, **fields}
    return ToolCall(call_id=CallId(call_id), **values)


def results_of(*call_ids: str, **fields: Any) -> ToolMessage:
    return ToolMessage(
        results=tuple(
            ToolResult(call_id=CallId(i), name="get_weather", text=f"r-{i}", **fields) for i in call_ids
        )
    )


def transcript(kind: type[Any], name: str = "text") -> bytes:
    (path,) = (WIRE / WIRES[kind]).glob(f"**/{name}.sse")
    return path.read_bytes()


def transcript_events(kind: type[Any], name: str = "text") -> list[bytes]:
    text = transcript(kind, name).replace(b"\r\n", b"\n")
    return [event + b"\n\n" for event in text.split(b"\n\n") if event.strip()]


def tls() -> ssl.SSLContext:
    """Make what a server shows to be `localhost`, with a certificate that no authority has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, CERTIFICATE.with_name("key.pem"))
    return context


def provider_at(url: str, kind: type[Any], http: HttpClients, **options: object) -> Any:
    return kind(ProviderOptions.parse({"base_url": url, "api_key": KEY, **options}), http)


async def ask(provider: Any, *, seen: list[Chunk] | None = None, model: str = "x:some-model") -> list[Chunk]:
    """Read a response to its end; `seen` gets what came before an error."""
    seen = [] if seen is None else seen
    async with provider.open_stream(request_of("Hi", model=model)) as chunks:
        async for chunk in chunks:
            seen.append(chunk)
    return seen


async def ask_once(
    kind: type[Any], *replies: ServedReply, seen: list[Chunk] | None = None, **options: object
) -> tuple[list[Chunk], Served, HttpClients]:
    """Ask a server of these replies once; no response may stay open."""
    with trio.fail_after(60):
        async with open_server(*replies) as server, HttpClients() as http:
            try:
                chunks = await ask(provider_at(server.url, kind, http, **options), seen=seen)
            finally:
                assert http.statistics().open_responses == 0
            return chunks, server, http
