"""`CassetteModel`: replays recorded responses of a real model without a network.

    model = CassetteModel("tests/cassettes/weather.jsonl", record=provider)

If the file does not exist, requests go to `record`, and the responses are written down. From then on the file answers, and
`record` is not called. A cassette works at the port rather than the wire: it holds requests and chunks, so it never contains
headers or keys, and texts that look like a key are scrubbed.
"""

import json
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import trio
from attrs import evolve, frozen
from msgspec.structs import replace

from agentrail.abc import Capabilities, Provider
from agentrail.core.protocol.request import Chunk, Completed, EffectId, ModelRequest
from agentrail.core.protocol.signals import ChunksArrived
from agentrail.core.wire.codec import decode_signal, encode_event, encode_signal
from agentrail.errors import BadRequest, CodecError, ErrorInfo, OptionError, ProviderError
from agentrail.events import AgentEnd
from agentrail.file_systems import read_regular
from agentrail.messages import TokenUsage, UserMessage
from agentrail.otp.field_rules import checks_arguments
from agentrail.structs import converter_of, picked_fields
from agentrail.testing.differences import first_difference

SCRUBBED: Final = "[scrubbed]"

MAX_CASSETTE_BYTES: Final = 256 << 20

_LOOKS_LIKE_A_KEY: Final = re.compile(
    r"\b(?:sk|pk|rk|key|ghp|gho|xox[abp])[-_][A-Za-z0-9_-]{16,}|\bAIza[A-Za-z0-9_-]{30,}|(?<=Bearer )[\w.~+/-]{8,}=*"
)
_NAMES_A_KEY: Final = re.compile(r".*(_KEY|_TOKEN|_SECRET|_PASSWORD)")
_MIN_SECRET_LENGTH: Final = 8  # shorter values occur in texts by chance
_KINDS: Final[tuple[type[ProviderError], ...]] = (ProviderError, *ProviderError.__subclasses__())
_ERRORS: Final = {kind.code: kind for kind in _KINDS}


@frozen(kw_only=True)
class _Exchange:
    request: dict[str, Any]
    chunks: tuple[Any, ...]  # `Chunk`, once decoded
    error: ErrorInfo | None
    capabilities: Capabilities


class CassetteModel:
    """A provider that replays the responses of another one.

    Requests are answered in order. A request that was already replayed is answered again in the same way, so that a test may
    repeat it. A request that differs from the next one is `BadRequest`, and the error names the first difference.

    Attributes:
        requests: All requests, in order.
    """

    name = "cassette"

    @checks_arguments
    def __init__(
        self, path: str | os.PathLike[str], *, record: Provider | None = None, secrets: Iterable[str] = ()
    ) -> None:
        """Open a cassette, or start one.

        Args:
            path: The file, JSON lines.
            record: Provider to record if there is no file. Otherwise unused.
            secrets: Texts to scrub, in addition to texts that look like a key and the values of environment variables
                whose names end in `_KEY`, `_TOKEN`, `_SECRET` or `_PASSWORD`.

        Raises:
            OptionError: Your move: there is neither a file nor a provider to record, or a line of the file is damaged.
        """
        self._path = Path(path)
        self._secrets = tuple(sorted(_secrets_in(secrets), key=len, reverse=True))
        self._recorded = record if not self._path.exists() else None
        if self._recorded is None and not self._path.exists():
            fault = f"there is no cassette {str(path)!r}: pass record=provider once, with a key, to record it"
            raise OptionError([fault])
        lines = [] if self._recorded is not None else _bytes_of(self._path).split(b"\n")
        self._tape = [_read(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line]
        self._next = 0
        self.requests: list[ModelRequest] = []

    def capabilities(self, model: str) -> Capabilities:
        """Return the recorded capabilities of the model of its first request with this name."""
        if self._recorded is not None:
            return self._recorded.capabilities(model)
        known = (one for one in self._tape if str(one.request.get("model")).endswith(f":{model}"))
        return next((one.capabilities for one in known), Capabilities())

    def encode(self, request: ModelRequest) -> bytes:
        """Encode a request in the form of the file: complete, in JSON, scrubbed, without the id of the attempt."""
        return self._scrub(json.dumps(_plain(request), ensure_ascii=False, sort_keys=True)).encode()

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Stream the recorded response, or record it.

        Raises:
            BadRequest: Your move: the cassette has no such request. The message names the first difference.
        """
        self.requests.append(request)
        if self._recorded is not None:
            async with (
                self._recorded.open_stream(request) as heard,
                aclosing(self._record(self._recorded, request, heard)) as chunks,
            ):
                yield chunks
        else:
            async with aclosing(_play(self._find(request))) as chunks:
                yield chunks

    async def _record(
        self, provider: Provider, request: ModelRequest, heard: AsyncIterator[Chunk]
    ) -> AsyncGenerator[Chunk, None]:
        """Pass on the chunks, and write them down at the end. An incomplete answer is not kept."""
        chunks: list[Chunk] = []
        try:
            async for chunk in heard:
                chunks.append(chunk)
                yield chunk
        except ProviderError as error:
            self._write(provider, request, chunks, ErrorInfo.of(error))
            raise
        if chunks and isinstance(chunks[-1], Completed):
            self._write(provider, request, chunks, None)

    def _write(
        self, provider: Provider, request: ModelRequest, chunks: Sequence[Chunk], error: ErrorInfo | None
    ) -> None:
        line = encode_exchange(request, chunks, error, provider.capabilities(request.model_name))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(self._scrub(line) + "\n")

    def _find(self, request: ModelRequest) -> _Exchange:
        asked = json.loads(self.encode(request))
        if self._next < len(self._tape) and self._tape[self._next].request == asked:
            self._next += 1
            return self._tape[self._next - 1]
        again = [one for one in self._tape[: self._next] if one.request == asked]
        if again:
            return again[-1]
        # After the end, compare with the last request: any difference tells more than none.
        if not self._tape:
            message = f"the cassette {str(self._path)!r} is empty: delete it, and record it again"
            raise BadRequest(message)
        expected = self._tape[min(self._next, len(self._tape) - 1)].request
        difference = _difference(expected, asked)
        where = f"request {self._next + 1} of {len(self._tape)} in {str(self._path)!r}"
        message = f"{where} differs: {difference}. If that is intended, delete the file and record it again"
        raise BadRequest(message)

    def _scrub(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, SCRUBBED)
        return without_keys(text)


def _bytes_of(path: Path) -> bytes:
    try:
        return read_regular(path, MAX_CASSETTE_BYTES)
    except OSError as error:
        raise OptionError([f"the cassette {str(path)!r} cannot be read: {error.strerror}"]) from error


def encode_exchange(
    request: ModelRequest, chunks: Sequence[Chunk], error: ErrorInfo | None, capabilities: Capabilities
) -> str:
    """Encode a request and its response as a line of a cassette, not yet scrubbed."""
    line = {
        "request": _plain(request),
        "chunks": json.loads(encode_signal(_arrived(chunks)))["chunks"],
        "error": msgspec.structs.asdict(error) if error is not None else None,
        "capabilities": msgspec.to_builtins(capabilities),
    }
    return json.dumps(line, ensure_ascii=False, sort_keys=True)


def without_keys(text: str) -> str:
    """Return a text without what looks like a key."""
    return _LOOKS_LIKE_A_KEY.sub(SCRUBBED, text)


async def _play(exchange: _Exchange) -> AsyncGenerator[Chunk, None]:
    for chunk in exchange.chunks:
        await trio.lowlevel.checkpoint()
        yield chunk
    await trio.lowlevel.checkpoint()
    error = exchange.error
    if error is not None:
        kind = _ERRORS.get(error.code, ProviderError)
        raise kind(error.message, retryable=error.retryable, retry_after_seconds=error.retry_after_seconds)


def _arrived(chunks: Sequence[Chunk]) -> ChunksArrived:
    # A signal, because signals, including their chunks, have a stable form on disk.
    return ChunksArrived(at_ms=0, effect_id=EffectId(""), chunks=tuple(chunks))


_TO_EXCHANGE: Final = converter_of(_Exchange)


def _read(line: bytes, place: str) -> _Exchange:
    try:
        exchange = _TO_EXCHANGE(json.loads(line))
        signal = {**json.loads(encode_signal(_arrived(()))), "chunks": exchange.chunks}
        arrived = decode_signal(json.dumps(signal))
    except (ValueError, RecursionError, CodecError) as error:
        fault = f"{place} is not a line of a cassette: {error}; restore the file, or delete it and record it again"
        raise OptionError([fault]) from error
    assert isinstance(arrived, ChunksArrived)
    return evolve(exchange, chunks=arrived.chunks)


def _plain(request: ModelRequest) -> dict[str, Any]:
    # In the stable form of messages in events, without the ids of this particular session.
    messages = tuple(
        replace(message, ref=None) if isinstance(message, UserMessage) else message
        for message in request.messages
    )
    said = AgentEnd(messages=messages, usage=TokenUsage(), stop_reason="end")
    tools = [picked_fields(tool, "name", "description", "parameters") for tool in request.tools]
    return {
        **picked_fields(request, "model", "system", "tool_choice", "max_output_tokens", "response_format"),
        "messages": json.loads(encode_event(said))["messages"],
        "tools": msgspec.to_builtins(tools),
        # Only if there are any, so that recordings older than settings can still be replayed.
        **({} if request.settings is None else {"settings": msgspec.to_builtins(request.settings)}),
    }


def _difference(recorded: Any, asked: Any) -> str:
    path, one, other = first_difference(recorded, asked, "request")
    if isinstance(one, list) and isinstance(other, list):
        return f"{path} has {len(one)} entries in the cassette and {len(other)} now"
    return f"{path} is {one!r} in the cassette and {other!r} now"


def _secrets_in(given: Iterable[str]) -> set[str]:
    known = {value for name, value in os.environ.items() if _NAMES_A_KEY.fullmatch(name)}
    return {*given, *(value for value in known if len(value) >= _MIN_SECRET_LENGTH)}
