"""`check_provider`: tests your provider against the requirements of a session.

    async def test_my_provider():
        await check_provider(ProviderCase(open_provider=open_mine, request=ask("mine:model"), answer=RECORDED))

or one demand at a time, for a report with a line for each:

    @pytest.mark.parametrize("demand", demands_of(CASE), ids=demand_name)
    async def test_my_provider(demand):
        await demand(CASE)

Source: docs/how-to/write-a-provider.md.
"""

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Final, TypeAlias

import trio
from attrs import define, field, frozen
from trio.testing import wait_all_tasks_blocked

from agentrail.abc import Provider
from agentrail.actors.deferred_error import ungrouped
from agentrail.core.protocol.request import (
    ArgumentsDelta,
    Chunk,
    Completed,
    EffectId,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCallStarted,
    UsageUpdate,
)
from agentrail.core.values.toolbox import Toolbox, ToolSpec, read_call
from agentrail.errors import ProviderError, Transport
from agentrail.messages import AssistantMessage, JsonObject, Opaque, Text, Thinking, ToolCall, UserMessage
from agentrail.testing.orphans import no_orphans
from agentrail.testing.rule_failures import require_assertions

# Chunks of a response: one end, sums, order.
#
# Pure: no provider is called here.


def check_terminal(chunks: Sequence[Chunk], error: ProviderError | None, rule: str) -> None:
    """Check that a response ended once."""
    positions = [n for n, chunk in enumerate(chunks) if isinstance(chunk, Completed)]
    expected = "expected one Completed as the last chunk, or one ProviderError"
    came = f"{len(chunks)} chunks, Completed at {positions}, error {error!r}"
    fits = positions == ([] if error is not None else [len(chunks) - 1])
    assert fits, broken(rule, expected, came)


def check_message(chunks: Sequence[Chunk], end: Completed) -> None:
    """Check that a message equals the sum of its deltas."""
    rule = "the message equals the sum of the deltas"
    added, said = added_up(chunks), said_in(end.message)
    assert added == said, broken(rule, f"expected {added}", said)
    reasons = (end.stop_reason, end.message.stop_reason)
    assert reasons[0] == reasons[1], broken(rule, "expected one stop reason in chunk and message", reasons)


def check_same(came: Sequence[object], expected: Sequence[object], rule: str) -> None:
    """Check that two lists of chunks or messages are equal, and name the first difference."""
    for position, (one, other) in enumerate(zip(came, expected, strict=False)):
        assert one == other, broken(rule, f"expected {other!r} as chunk {position}", one)
    sizes = f"expected {len(expected)} chunks, as for the whole answer"
    assert len(came) == len(expected), broken(rule, sizes, len(came))


def added_up(chunks: Sequence[Chunk]) -> list[object]:
    """Return the sum of the deltas: texts and thoughts, neighbours joined, and calls. A call must start before its arguments."""
    said: list[object] = []
    pieces: dict[int, list[str]] = {}
    places: dict[int, int] = {}
    for chunk in chunks:
        match chunk:
            case TextDelta(text=text):
                _join(said, "text", text)
            case ReasoningDelta(text=text):
                _join(said, "thinking", text)
            case ToolCallStarted(index=index):
                pieces[index], places[index] = [], len(said)
                said.append(chunk)
            case ArgumentsDelta(index=index, text=text):
                pieces[index].append(text)
            case UsageUpdate() | Completed():
                pass
    for index, place in places.items():
        started = said[place]
        if isinstance(started, ToolCallStarted):
            said[place] = read_call(started.id, started.name, "".join(pieces[index]))
    return said


def said_in(message: AssistantMessage) -> list[object]:
    """Return the content of a message, in the same shape. Unknown content has no deltas."""
    said: list[object] = []
    for block in message.content:
        match block:
            case Text(text=text):
                _join(said, "text", text)
            case Thinking(text=text):
                _join(said, "thinking", text)
            case ToolCall():
                said.append(block)
            case Opaque():
                pass
    return said


def _join(said: list[object], kind: str, text: str) -> None:
    last = said[-1] if said else None
    if isinstance(last, tuple) and last[0] == kind:
        said[-1] = (kind, last[1] + text)
    elif text:
        said.append((kind, text))


def origin_of(chunk: Chunk, events: Sequence[bytes]) -> int | None:
    """Return the index of the event that brought a delta: the only event with its exact text as a value. None if ambiguous."""
    text = chunk.text if isinstance(chunk, TextDelta | ReasoningDelta | ArgumentsDelta) else ""
    holders = [number for number, event in enumerate(events) if text in _texts(event)]
    return holders[0] if text and len(holders) == 1 else None


def _texts(event: bytes) -> set[str]:
    """Return every text in the JSON of an event. Empty for an event that is not JSON."""
    try:
        found: list[object] = [
            json.loads(line[5:]) for line in event.decode().split("\n") if line.startswith("data:")
        ]
    except ValueError:
        return set()
    texts: set[str] = set()
    while found:
        match found.pop():
            case str() as text:
                texts.add(text)
            case list() as items:
                found += items
            case dict() as members:
                found += members.values()
            case _:
                pass  # numbers and similar values
    return texts


def deltas_of(chunks: Sequence[Chunk]) -> tuple[Chunk, ...]:
    """Return the chunks without the terminal."""
    return tuple(chunk for chunk in chunks if not isinstance(chunk, Completed))


def final_messages(chunks: Sequence[Chunk]) -> list[AssistantMessage]:
    """Return the messages of all terminals. A good response has one."""
    return [chunk.message for chunk in chunks if isinstance(chunk, Completed)]


def broken(rule: str, expected: str, came: object) -> str:
    """Return a message with the broken rule, the expectation and the result."""
    return f"{rule}: {expected}, got {came if isinstance(came, str) else repr(came)}"


# An HTTP server on a free port that answers with the bytes of a test.
#
# It can cut an answer at any byte, send it in pieces of any size, or pause in the middle, and reports a client that has
# disconnected. No wire format is used here.


@frozen(kw_only=True)
class ServedReply:
    """The reply to one request.

    Attributes:
        pieces: Sent one after the other, each in its own write.
        stays: Whether the connection then stays open until the client closes it.
        pause_seconds: Pause before each piece except the first.
    """

    pieces: tuple[bytes, ...]
    stays: bool = False
    pause_seconds: float = 0.0


@define
class Served:
    """The observations of a server.

    Attributes:
        url: Its address.
        requests: Head and body of each request, oldest first.
        connections: Number of accepted connections.
        left: Set when a client closed a connection on which a reply stayed open.
        replied: Set when a whole reply was written.
    """

    url: str
    requests: list[tuple[bytes, bytes]] = field(factory=list)
    connections: int = 0
    left: trio.Event = field(factory=trio.Event)
    replied: trio.Event = field(factory=trio.Event)
    _open: int = field(default=0, init=False)
    _deserted: trio.Event = field(factory=trio.Event, init=False)

    def headers(self, number: int = -1) -> dict[str, str]:
        """Parse the headers of a request."""
        lines = self.requests[number][0].decode("ascii").split("\r\n")[1:]
        return {name.lower(): text.strip() for name, _, text in (line.partition(":") for line in lines)}

    async def wait_deserted(self) -> None:
        """Wait until no connection is open. Returns at once if there is none.

        Cancellation: No state is lost. Call it again.
        """
        if self._open:
            await self._deserted.wait()
        else:
            await trio.lowlevel.checkpoint()

    def _enter(self) -> None:
        self.connections += 1
        self._open += 1

    def _leave(self) -> None:
        self._open -= 1
        if not self._open:
            self._deserted.set()
            self._deserted = trio.Event()


def reply(
    body: str | bytes, *, status: str = "200 OK", kind: str = "text/event-stream", **headers: str
) -> ServedReply:
    """Create a whole reply with a length, after which the connection can be reused."""
    content = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", f"content-length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
    return ServedReply(pieces=("\r\n".join(lines).encode() + b"\r\n\r\n" + content,), stays=True)


def stream(*pieces: bytes, chunked: bool = True, ends: bool = False, stays: bool = False) -> ServedReply:
    """Create an event stream, in chunks or until the connection closes. `ends` terminates it properly."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    if not chunked:
        return ServedReply(pieces=(head + b"connection: close\r\n\r\n", *pieces), stays=stays)
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece]
    tail = [b"0\r\n\r\n"] if ends else []
    return ServedReply(pieces=(head + b"transfer-encoding: chunked\r\n\r\n", *chunks, *tail), stays=stays)


@asynccontextmanager
async def open_server(*replies: ServedReply, tls: ssl.SSLContext | None = None) -> AsyncIterator[Served]:
    """Serve on a free port. The n-th request gets the n-th reply, later requests the last one.

    Args:
        replies: At least one.
        tls: Serve HTTPS, with this certificate.

    Yields:
        The server's observations.

    Raises:
        BaseException: An exception from the body, unwrapped.

    Cancellation: Closes every connection.
    """
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    served = Served(url=f"http{'s' if tls else ''}://127.0.0.1:{port}")
    with ungrouped():
        async with trio.open_nursery() as nursery:
            await nursery.start(
                partial(trio.serve_listeners, partial(_serve, served, replies, tls), [listener])
            )
            yield served
            nursery.cancel_scope.cancel()


async def _serve(
    served: Served, replies: tuple[ServedReply, ...], tls: ssl.SSLContext | None, plain: trio.SocketStream
) -> None:
    served._enter()  # noqa: SLF001 - read by everyone, and written only here
    connection: trio.abc.Stream = trio.SSLStream(plain, tls, server_side=True) if tls else plain
    try:
        async with connection:
            while await _answer(served, replies, connection):
                pass
    except trio.BrokenResourceError:
        served.left.set()
    finally:
        served._leave()  # noqa: SLF001 - see above


async def _answer(served: Served, replies: tuple[ServedReply, ...], connection: trio.abc.Stream) -> bool:
    """Answer one request. Return whether the connection can take another."""
    data = head = body = b""
    missing = 1
    while missing > 0:
        received = await connection.receive_some()
        if not received:
            served.left.set()
            return False
        data += received
        head, end, body = data.partition(b"\r\n\r\n")
        missing = _length(head) - len(body) if end else 1
    chosen = replies[min(len(served.requests), len(replies) - 1)]
    served.requests.append((head, body))
    for place, piece in enumerate(chosen.pieces):
        if place and chosen.pause_seconds:
            await trio.sleep(chosen.pause_seconds)
        await connection.send_all(piece)
    served.replied.set()
    return chosen.stays


def _length(head: bytes) -> int:
    lengths = (line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return int(next(lengths, b"0"))


_PATIENCE_SECONDS: Final = 10.0
"""Time without any output after which a provider counts as hanging. Not a limit for its total time."""

_UNHEARD_OF: Final = b'data: {"type": "an_event_of_next_year", "news": [1, {"b": null}]}\n\n'


@frozen(kw_only=True)
class ProviderCase:
    """A provider to check, and the answer of its vendor.

    Attributes:
        open_provider: Opens a new provider that sends its requests to the given address, and closes it at the end of the
            block. A provider without a server ignores the address.
        request: The request for each test. `request_for` creates one.
        answer: Body of a complete answer of the vendor, as server-sent events. More kinds of deltas check more. None for a
            provider without a server: then only demands without a server are checked.
        unheard_of: An event of an unknown kind, which the vendor may add one day.
        closes_within_seconds: Time limit for the vendor's side to see the end after a cancellation. The demand is 100 ms. On a
            busy machine, set a higher limit.
    """

    open_provider: Callable[[str], AbstractAsyncContextManager[Provider]]
    request: ModelRequest
    answer: bytes | None = None
    unheard_of: bytes = _UNHEARD_OF
    closes_within_seconds: float = 0.1

    @property
    def events(self) -> tuple[bytes, ...]:
        """The answer cut at its borders: each event with the blank line that ends it."""
        tidy = (self.answer or b"").replace(b"\r\n", b"\n")
        return tuple(event + b"\n\n" for event in tidy.split(b"\n\n") if event.strip())


Demand: TypeAlias = Callable[[ProviderCase], Awaitable[None]]


def request_for(model: str, prompt: str = "What is the weather in Lisbon?") -> ModelRequest:
    """Create a request with a prompt and one tool.

    Args:
        model: The whole model string, `provider:name`.
        prompt: Text of the user.
    """
    city: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    weather = ToolSpec(name="get_weather", description="Say how the weather is.", parameters=city)
    message = UserMessage(content=(Text(text=prompt),))
    return ModelRequest(
        attempt=EffectId("attempt-1"), model=model, system=None, messages=(message,), tools=Toolbox([weather])
    )


async def check_provider(case: ProviderCase) -> None:
    """Test every demand on a provider, one after the other.

    Args:
        case: The provider, and the answer of its vendor.

    Raises:
        AssertionError: A mistake of the provider's author. The message names the demand, the expectation and the result.

    Cancellation: Closes provider and server.
    Source: 7-providers.md, 7.3: what `check_provider` demands.
    """
    require_assertions()
    for demand in demands_of(case):
        await demand(case)


def demands_of(case: ProviderCase) -> tuple[Demand, ...]:
    """Return the demands that apply: all, or those that need no server."""
    return _EVERYWHERE if case.answer is None else (*_EVERYWHERE, *_ON_A_WIRE)


def demand_name(demand: Demand) -> str:
    """Return a demand's name, for a report."""
    return getattr(demand, "__name__", repr(demand)).replace("_", " ")


# --- demands on every provider


async def exactly_one_terminal(case: ProviderCase) -> None:
    """A response ends with one `Completed` as its last chunk, or with one `ProviderError`: never both, never neither."""
    heard = await _hear_whole(case)
    check_terminal(heard.chunks, heard.error, "exactly one terminal")


async def the_message_is_what_the_deltas_add_up_to(case: ProviderCase) -> None:
    """The message of `Completed` holds the text, the thinking and the calls of the deltas, in their order."""
    heard = await _hear_whole(case)
    for end in (chunk for chunk in heard.chunks if isinstance(chunk, Completed)):
        check_message(heard.chunks, end)


async def calls_begin_before_their_arguments(case: ProviderCase) -> None:
    """`ToolCallStarted` comes before its arguments, indexes are dense from 0, and id and name are always set."""
    begun: list[str] = []
    for chunk in (await _hear_whole(case)).chunks:
        if isinstance(chunk, ToolCallStarted):
            expected = f"expected index {len(begun)}, an id of its own and a name"
            fits = chunk.index == len(begun) and chunk.id and chunk.name and chunk.id not in begun
            assert fits, broken("calls begin before their arguments", expected, chunk)
            begun.append(chunk.id)
        elif isinstance(chunk, ArgumentsDelta):
            expected = f"expected one of the {len(begun)} calls that have begun"
            assert 0 <= chunk.index < len(begun), broken(
                "calls begin before their arguments", expected, chunk
            )


async def usage_is_a_total(case: ProviderCase) -> None:
    """`UsageUpdate` has the total of the response so far, and `Completed` the last total: no sum is necessary."""
    totals = [chunk.usage for chunk in (await _hear_whole(case)).chunks if isinstance(chunk, UsageUpdate)]
    ends = [chunk.usage for chunk in (await _hear_whole(case)).chunks if isinstance(chunk, Completed)]
    if totals and ends:
        expected = f"expected `Completed` to have the last total, {totals[-1]}"
        assert ends[0] == totals[-1], broken("usage is a total", expected, ends[0])


async def no_scope_is_held_between_chunks(case: ProviderCase) -> None:
    """The iterator holds no nursery and no cancel scope across a `yield`: its caller may have scopes of its own."""
    rule = "no scope is held between chunks"
    async with _open(case, _whole(case)) as (provider, _):
        try:
            async with provider.open_stream(case.request) as chunks:
                with _patience(rule):
                    more = True
                    while more:
                        # Starts before a chunk and ends after it: a scope of the provider would break it.
                        with trio.CancelScope():
                            more = await anext(chunks, None) is not None
        except ProviderError:
            return  # an answer that fails is an answer
        except RuntimeError as error:
            expected = "expected to leave a cancel scope around one `anext`"
            raise AssertionError(broken(rule, expected, error)) from error


async def cancelled_behind_every_chunk_nothing_stays(case: ProviderCase) -> None:
    """Cancelled after its n-th chunk, for every n, a request ends as cancelled and leaves no task and no socket."""
    count = len((await _hear_whole(case)).chunks)
    # Its body never ends: a provider may keep the connection of a finished body for the next request.
    async with _open(case, stream(*case.events, stays=True)) as (provider, server):
        for taken in range(count):
            rule = f"cancelled after chunk {taken} of {count}, nothing is left open"
            with _patience(rule):
                async with no_orphans():
                    await _cancel_behind(provider, case, taken, rule)
                    await _check_closed(server, case, rule)


# --- demands that need a server


async def an_end_without_a_terminal_is_transport(case: ProviderCase) -> None:
    """A connection that ends before the format's own terminal is `Transport`, at any point, and never a success."""
    whole = await _hear_whole(case)
    for position, cut in _cuts(case):
        heard = await _hear_from(case, cut)
        rule = f"an end without a terminal is Transport ({position})"
        check_terminal(heard.chunks, heard.error, rule)
        if heard.error is None:  # after the terminal, where some formats have more events
            check_same(final_messages(heard.chunks), final_messages(whole.chunks), rule)
        else:
            assert isinstance(heard.error, Transport), broken(rule, "expected Transport", heard.error)


async def nothing_is_held_back(case: ProviderCase) -> None:
    """All content before a failure or a silence is yielded, in order, and without fragments."""
    whole = deltas_of((await _hear_whole(case)).chunks)
    origins = [origin_of(chunk, case.events) for chunk in whole]
    for before, event in enumerate(case.events):
        rule = f"nothing is held back (event {before} of {len(case.events)})"
        came = case.events[:before]
        heard = [
            deltas_of((await _hear_from(case, cut)).chunks)
            for cut in (
                stream(*came, chunked=False),
                stream(*came),
                stream(*came, event[: len(event) // 2], chunked=False),
            )
        ]
        for chunks in heard:
            check_same(chunks, whole[: len(heard[0])], rule)
        for chunk, origin in zip(whole[len(heard[0]) :], origins[len(heard[0]) :], strict=True):
            late = origin is not None and origin < before
            assert not late, broken(rule, f"expected {chunk!r}, which came in event {origin}", "nothing")
        await _check_yielded_in_silence(case, came, len(heard[0]), rule)


async def the_size_of_the_pieces_does_not_matter(case: ProviderCase) -> None:
    """Byte by byte, event by event or in one piece: the chunks are the same."""
    whole = await _hear_whole(case)
    answer = b"".join(case.events)
    single = [answer[n : n + 1] for n in range(len(answer))]
    for rule, pieces in (("byte by byte", single), ("in one piece", [answer])):
        heard = await _hear_from(case, stream(*pieces, ends=True, stays=True))
        check_same(heard.chunks, whole.chunks, f"the size of the pieces does not matter ({rule})")


async def unknown_events_are_tolerated(case: ProviderCase) -> None:
    """An event of an unknown kind, and comment lines, change nothing, at any position."""
    whole = await _hear_whole(case)
    foreign = [piece for event in case.events for piece in (b": a comment\n\n", case.unheard_of, event)]
    heard = await _hear_from(case, stream(*foreign, ends=True, stays=True))
    check_same(heard.chunks, whole.chunks, "unknown events are tolerated")


async def cancelled_in_every_silence_nothing_stays(case: ProviderCase) -> None:
    """Cancelled while it waits for the n-th event, for every n, a request closes its connection and leaves no task."""
    for count in range(len(case.events) + 1):
        rule = f"cancelled in the silence after event {count} of {len(case.events)}, nothing is left open"
        silent = stream(*case.events[:count], stays=True)
        async with _open(case, silent) as (provider, server):
            with _patience(rule):
                async with no_orphans():
                    async with _reading(provider, case, rule) as scope:
                        await server.replied.wait()
                        await wait_all_tasks_blocked(0.001)
                        scope.cancel(reason="check_provider")
                    await _check_closed(server, case, rule)


async def nothing_is_retried_inside(case: ProviderCase) -> None:
    """A refusal, a broken connection and a cut answer are each one request and one error: the session decides about retries."""
    refused = reply('{"error": {"message": "busy"}}', status="503 Busy", kind="application/json")
    hung_up = ServedReply(pieces=())
    for rule, answer in (("a refusal", refused), ("a connection lost", hung_up), ("a cut", stream())):
        async with _open(case, answer) as (provider, server):
            with _patience(f"nothing is retried inside ({rule})"):
                heard = await _hear(provider, case.request)
            came = f"{len(server.requests)} requests, ending in {heard.error!r}"
            fits = len(server.requests) == 1 and heard.error is not None
            assert fits, broken(f"nothing is retried inside ({rule})", "expected one, and its error", came)


async def redirects_are_not_followed(case: ProviderCase) -> None:
    """A redirect is an error: the key must not travel to another host."""
    rule = "redirects are not followed"
    async with open_server(_whole(case)) as elsewhere:
        for status in ("302 Found", "307 Temporary Redirect", "308 Permanent Redirect"):
            moved = reply("", status=status, location=f"{elsewhere.url}/")
            async with _open(case, moved) as (provider, _):
                with _patience(rule):
                    heard = await _hear(provider, case.request)
                assert heard.error is not None, broken(rule, f"expected an error for {status}", heard.chunks)
        assert not elsewhere.requests, broken(rule, "expected no request", elsewhere.requests)


_EVERYWHERE: Final[tuple[Demand, ...]] = (
    exactly_one_terminal,
    calls_begin_before_their_arguments,  # before the next one, which sums up the parts of each call
    the_message_is_what_the_deltas_add_up_to,
    usage_is_a_total,
    no_scope_is_held_between_chunks,
    cancelled_behind_every_chunk_nothing_stays,
)
_ON_A_WIRE: Final[tuple[Demand, ...]] = (
    an_end_without_a_terminal_is_transport,
    nothing_is_held_back,
    the_size_of_the_pieces_does_not_matter,
    unknown_events_are_tolerated,
    cancelled_in_every_silence_nothing_stays,
    nothing_is_retried_inside,
    redirects_are_not_followed,
)


# --- listening


@frozen(kw_only=True)
class _Heard:
    chunks: tuple[Chunk, ...]
    error: ProviderError | None


@asynccontextmanager
async def _open(case: ProviderCase, answer: ServedReply) -> AsyncIterator[tuple[Provider, Served]]:
    async with open_server(answer) as server, case.open_provider(server.url) as provider:
        yield provider, server


async def _hear_whole(case: ProviderCase) -> _Heard:
    return await _hear_from(case, _whole(case))


async def _hear_from(case: ProviderCase, answer: ServedReply) -> _Heard:
    async with _open(case, answer) as (provider, _):
        with _patience("a stream ends"):
            return await _hear(provider, case.request)


async def _hear(provider: Provider, request: ModelRequest) -> _Heard:
    chunks: list[Chunk] = []
    try:
        async with provider.open_stream(request) as stream_of_chunks:
            async for chunk in stream_of_chunks:
                chunks.append(chunk)  # noqa: PERF401 - chunks before an error count
    except ProviderError as error:
        return _Heard(chunks=tuple(chunks), error=error)
    return _Heard(chunks=tuple(chunks), error=None)


def _whole(case: ProviderCase) -> ServedReply:
    return stream(*case.events, ends=True, stays=True)


def _cuts(case: ProviderCase) -> Iterator[tuple[str, ServedReply]]:
    """Yield the answer cut at each border and within each event, with both ways for a connection to end."""
    for count, event in enumerate(case.events):
        before = case.events[:count]
        yield f"closed before event {count}", stream(*before, chunked=False)
        yield f"broken before event {count}", stream(*before)
        yield (
            f"closed inside event {count}",
            stream(*before, event[: len(event) // 2].rstrip(b"\n"), chunked=False),
        )


async def _cancel_behind(provider: Provider, case: ProviderCase, taken: int, rule: str) -> None:
    """Take a number of chunks of a response, then cancel."""
    with trio.CancelScope() as scope:
        try:
            async with provider.open_stream(case.request) as chunks:
                for _ in range(taken):
                    await anext(chunks)
                scope.cancel(reason="check_provider")
                await anext(chunks, None)
                await trio.lowlevel.checkpoint()  # a chunk that is already available may come without waiting
        except ProviderError as error:
            raise AssertionError(broken(rule, "expected the cancellation itself", error)) from error
    assert scope.cancelled_caught, broken(rule, "expected the cancellation to propagate", "nothing")


@asynccontextmanager
async def _reading(provider: Provider, case: ProviderCase, rule: str) -> AsyncIterator[trio.CancelScope]:
    """Read a response in the background. The block cancels the scope that it receives."""
    heard: list[_Heard] = []

    async def read(scope: trio.CancelScope) -> None:
        with scope:
            heard.append(await _hear(provider, case.request))

    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()
        nursery.start_soon(read, scope)
        yield scope
    errors = [one.error for one in heard if one.error is not None]
    assert not errors, broken(rule, "expected the cancellation itself", errors)


async def _check_closed(server: Served, case: ProviderCase, rule: str) -> None:
    with trio.move_on_after(case.closes_within_seconds) as scope:
        await server.wait_deserted()
    expected = f"expected the connection to be closed within {case.closes_within_seconds:g} s"
    assert not scope.cancelled_caught, broken(rule, expected, "it is still open")


async def _check_yielded_in_silence(case: ProviderCase, came: Sequence[bytes], count: int, rule: str) -> None:
    """Check that this many chunks arrive while the connection stays open and silent."""
    async with _open(case, stream(*came, stays=True)) as (provider, _):
        seen = 0
        with trio.move_on_after(_PATIENCE_SECONDS):
            async with provider.open_stream(case.request) as chunks:
                while seen < count:
                    await anext(chunks)
                    seen += 1
        assert seen == count, broken(rule, f"expected {count} chunks before the silence", seen)


@contextmanager
def _patience(rule: str) -> Iterator[None]:
    try:
        with trio.fail_after(_PATIENCE_SECONDS):
            yield
    except trio.TooSlowError:
        raise AssertionError(
            broken(rule, "expected an end", f"nothing for {_PATIENCE_SECONDS:g} s")
        ) from None
