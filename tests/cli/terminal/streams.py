"""A model server of our own that streams fast, or hangs: what a chat has to be seen to stand."""

import json
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial

import trio

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def chunk(text: str | None) -> bytes:
    """An event of `chat/completions`; None ends the answer."""
    delta = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": "stop" if text is None else None}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def _is_whole(request: bytes) -> bool:
    head, end, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return bool(end) and length is not None and len(body) >= int(length[1])


async def _answer(deltas: Iterable[str] | None, per_second: int, stream: trio.SocketStream) -> None:
    async with stream:
        data = b""
        while not _is_whole(
            data
        ):  # what is left unread makes the kernel reset the connection when it is closed
            data += await stream.receive_some()
        if deltas is None:
            await trio.sleep_forever()
        await stream.send_all(HEAD)
        began = trio.current_time()
        for number, delta in enumerate(deltas or ()):
            await trio.sleep_until(began + number / per_second)
            await stream.send_all(chunk(delta))
        await stream.send_all(chunk(None) + b"data: [DONE]\n\n")


@asynccontextmanager
async def open_model(
    deltas: Iterable[str] | None, *, per_second: int = 2_000
) -> AsyncIterator[tuple[str, ...]]:
    """Serve one answer, or none and hang; gives the options of the command that ask it."""
    async with trio.open_nursery() as nursery:
        serve = partial(_answer, deltas, per_second)
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        yield ("--model", "openai-chat:busy", "--base-url", f"http://127.0.0.1:{port}/v1", "--tools", "none")
        nursery.cancel_scope.cancel()
