"""ACP as one of the wires: an editor over pipes, with the host of a server of tests behind it."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import trio
from attrs import define

from agentrail.errors import AlreadyExists
from agentrail.gateway.stdio.acp_agent import EDITOR, AcpAgent, EditorPlaces
from agentrail.gateway.stdio.acp_connection import AcpConnection
from agentrail.gateway.stdio.line_stream import LineStream
from agentrail.host import Host
from tests.gateway.stdio.acp_client import Editor


@asynccontextmanager
async def open_prompt(host: Host, session_id: str, words: str) -> AsyncIterator[AsyncIterator[str]]:
    """Send a prompt in a session, and give each message up to its answer. Leaving the block closes the editor."""
    with suppress(AlreadyExists):
        await host.create(EDITOR, session_id=session_id)
    source, to_us = os.pipe()
    from_us, target = os.pipe()
    editor, stream = Editor(to_us, from_us), LineStream(source, target, max_bytes=1 << 20)

    @asynccontextmanager
    async def agent_of(connection: AcpConnection) -> AsyncIterator[AcpAgent]:
        yield AcpAgent(connection, host, EditorPlaces())

    async def serve() -> None:
        await AcpConnection(stream, agent_of, version="1").serve()
        os.close(target)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(editor.read)
        nursery.start_soon(serve)
        await editor.call("initialize", protocolVersion=1)
        editor.session_id = session_id
        await editor.call("session/resume", sessionId=session_id, cwd="/", mcpServers=[])
        try:
            yield _Messages(editor, editor.prompt(words))
        finally:
            editor.close()
    os.close(source)
    os.close(from_us)


@define
class _Messages:
    """What the editor receives, up to the answer to its prompt. Not a generator, which no one may leave unread."""

    editor: Editor
    prompt: int
    seen: int = 0
    is_answered: bool = False

    def __aiter__(self) -> "_Messages":
        return self

    async def __anext__(self) -> str:
        if self.is_answered:
            raise StopAsyncIteration
        await self.editor.wait_for(lambda _: len(self.editor.log) > self.seen)
        one = self.editor.log[self.seen]
        self.seen += 1
        self.is_answered = one.get("id") == self.prompt and "method" not in one
        return f"{json.dumps(one)}\n\n"


def read_messages(stream: str) -> tuple[str, list[dict[str, Any]], bool]:
    """Return the text of the assistant, the answers, and whether the last message is one."""
    messages = [json.loads(one) for one in stream.split("\n\n") if one]
    updates = [one["params"]["update"] for one in messages if one.get("method") == "session/update"]
    said = [one["content"]["text"] for one in updates if one["sessionUpdate"] == "agent_message_chunk"]
    answers = [one for one in messages if "method" not in one and ("result" in one or "error" in one)]
    own = [one for one in answers if "stopReason" in one.get("result", {"stopReason": ""})]
    return "".join(said), own, bool(own) and own[-1] is messages[-1]
