"""Event streams over HTTP, which always end with one `done` frame. Connections that accept no writes are cut."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

import trio
from attrs import frozen

from agentrail.gateway.error_responses import answer_to
from agentrail.gateway.path_endpoint import RouteCall
from agentrail.gateway.request_parser import CallerLeft
from agentrail.gateway.sse_frames import CONTENT_TYPE, STREAM_HEADERS
from agentrail.gateway.stream_reader import StreamReader
from agentrail.gateway.stream_watchdog import FrameStream
from agentrail.gateway.token_watcher import OpenStream
from agentrail.gateway.whole_answer import start_of
from agentrail.logs import Logger
from agentrail.otp.exits import keep
from agentrail.runtime.crashes import log_crash, raise_what_travels, what_travels
from agentrail.runtime.session_handle import Session

LOGGER: Final = Logger("agentrail.gateway")


@frozen(kw_only=True)
class EventStream:
    """A stream of a session's events.

    Attributes:
        after: Event number after which it continues; None for a snapshot first.
        follow: Runs alongside the stream, and ends it with `StreamReader.finish`. None: the session ends it.
    """

    session: Session
    after: int | None
    follow: Callable[[StreamReader], Awaitable[None]] | None = None
    headers: Mapping[str, str] = MappingProxyType({})

    async def write(self, call: RouteCall) -> None:
        hubs = call.gateway.opened()[1]
        async with hubs.open_reader(self.session, after=self.after, on_cut=call.cut) as reader:
            if reader.has_nothing_more and "last-event-id" in call.head.headers:
                await write_no_more(call)
                return
            reader.is_followed = self.follow is not None
            with call.gateway.open_calls.watched(OpenStream(call.head, call.principal, reader)):
                await call.while_there(partial(self._write_events, call, reader))
        if reader.reason is None:  # it was cut
            raise CallerLeft

    async def _write_events(self, call: RouteCall, reader: StreamReader) -> None:
        headers, name = {**call.more_headers, **self.headers}, f"a stream of session {reader.hub.session_id}"
        write = partial(write_frames, call, reader, headers, name)
        if self.follow is None:
            await write()
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_follow, self.follow, reader)
            await write()
            nursery.cancel_scope.cancel(reason="the stream has ended")


async def write_no_more(call: RouteCall) -> None:
    """Answer 204, the only status after which a browser's `EventSource` stops."""
    await call.write(start_of(204, {"cache-control": "no-store", **call.more_headers}))
    await call.write({"type": "http.response.body", "body": b"", "more_body": False})


async def write_frames(call: RouteCall, stream: FrameStream, headers: Mapping[str, str], name: str) -> None:
    """Write the head of a stream, and its frames to the last one. The log has the name of one that fails."""
    usual = {**STREAM_HEADERS, "content-type": CONTENT_TYPE}
    await call.write(start_of(200, {**usual, **headers}))
    try:
        async for piece in stream:
            await _send(call, stream, piece)
    except BaseException as raised:  # noqa: ASYNC103 - cancellation is raised again
        if what_travels(raised) is not None or stream.reason is not None:
            raise
        # The response has started, so it cannot become an error. It ends as failed, between two frames.
        log_crash(f"{name} failed", raised, keep)
        await _send(call, stream, stream.fail())  # noqa: ASYNC102 - not cancelled: that was raised above


async def _send(call: RouteCall, stream: FrameStream, piece: bytes) -> None:
    await call.write({"type": "http.response.body", "body": piece, "more_body": stream.reason is None})


async def _follow(follow: Callable[[StreamReader], Awaitable[None]], reader: StreamReader) -> None:
    try:
        await follow(reader)
    except BaseException as raised:  # noqa: ASYNC103, BLE001 - cancellation is raised again
        raise_what_travels(raised)
        LOGGER.warning(
            "the end of a stream of session %s cannot be determined: %s",
            reader.hub.session_id,
            answer_to(raised).code,
        )
        reader.finish("failed")
