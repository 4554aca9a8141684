"""Event streams over HTTP, which always end with one `done` frame. Connections that accept no writes are cut."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import trio

from agentrail.gateway.error_responses import answer_to
from agentrail.gateway.path_endpoint import RouteCall, StreamAnswer
from agentrail.gateway.request_parser import CallerLeft
from agentrail.gateway.sse_frames import (
    CONTENT_TYPE,
    STREAM_HEADERS,
    StreamEnd,
    done_frame,
)
from agentrail.gateway.stream_reader import StreamReader
from agentrail.gateway.token_watcher import OpenStream
from agentrail.gateway.whole_answer import start_of
from agentrail.logs import Logger
from agentrail.otp.exits import keep
from agentrail.runtime.crashes import log_crash, raise_what_travels, what_travels

LOGGER: Final = Logger("agentrail.gateway")


async def write_stream(call: RouteCall, answer: StreamAnswer) -> None:
    hubs = call.gateway.opened()[1]
    async with hubs.open_reader(answer.session, after=answer.after, on_cut=call.cut) as reader:
        if reader.has_nothing_more and "last-event-id" in call.head.headers:
            await write_no_more(call)
            return
        reader.is_followed = answer.follow is not None
        with call.gateway.open_calls.watched(OpenStream(call.head, call.principal, reader)):
            await call.while_there(partial(_write, call, answer, reader))
    if reader.reason is None:  # it was cut
        raise CallerLeft


async def write_no_more(call: RouteCall) -> None:
    """Answer 204, the only status after which a browser's `EventSource` stops."""
    await call.write(start_of(204, {"cache-control": "no-store", **call.more_headers}))
    await call.write({"type": "http.response.body", "body": b"", "more_body": False})


async def _write(call: RouteCall, answer: StreamAnswer, reader: StreamReader) -> None:
    headers = {**dict(STREAM_HEADERS), "content-type": CONTENT_TYPE, **call.more_headers, **answer.headers}
    await call.write(start_of(200, headers))
    if answer.follow is None:
        await _write_pieces(call, reader)
        return
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_follow, answer.follow, reader)
        await _write_pieces(call, reader)
        nursery.cancel_scope.cancel(reason="the stream has ended")


async def _write_pieces(call: RouteCall, reader: StreamReader) -> None:
    try:
        async for piece in reader:
            await _send(call, reader, piece)
    except BaseException as raised:  # noqa: ASYNC103 - cancellation is raised again
        if what_travels(raised) is not None or reader.reason is not None:
            raise
        # The response has started, so it cannot become an error. It ends as failed, between two frames.
        log_crash(f"a stream of session {reader.hub.session_id} failed", raised, keep)
        reader.reason = "failed"
        await _send(  # noqa: ASYNC102 - not cancelled: that was raised above
            call,
            reader,
            done_frame(StreamEnd(reason="failed", session_id=reader.hub.session_id, seq=reader.seq)),
        )


async def _send(call: RouteCall, reader: StreamReader, piece: bytes) -> None:
    await call.write({"type": "http.response.body", "body": piece, "more_body": reader.reason is None})


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
