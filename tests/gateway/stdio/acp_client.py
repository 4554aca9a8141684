"""An editor for tests: it speaks ACP over pipes with a server in this process."""

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

from agentrail.gateway.stdio.acp_agent import AcpAgent, EditorPlaces
from agentrail.gateway.stdio.acp_connection import AcpConnection
from agentrail.gateway.stdio.line_stream import LineStream
from agentrail.host import AgentProfile, open_host
from agentrail.runtime.session_options import SessionOptions
from agentrail.testing.models import ScriptedModel

FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}
Answer = Callable[[dict[str, Any]], Any]


class Editor:
    """The client's side. Everything received is in `log`, in order."""

    def __init__(self, to_us: int, from_us: int) -> None:
        self.log: list[dict[str, Any]] = []
        self.answers: dict[str, Answer] = {}
        self.session_id = ""
        self.ended = trio.Event()
        self._to_us, self._from_us = to_us, from_us
        self._news = trio.Event()
        self._last = 0
        self._is_closed = False

    def write(self, data: bytes) -> None:
        if not self._is_closed:
            os.write(self._to_us, data)

    def send(self, **message: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def request(self, method: str, **params: Any) -> int:
        self._last += 1
        self.send(id=self._last, method=method, params=params)
        return self._last

    async def answer_to(self, rpc_id: object) -> dict[str, Any]:
        return await self.wait_for(lambda one: one.get("id") == rpc_id and "method" not in one)

    async def call(self, method: str, **params: Any) -> Any:
        answer = await self.answer_to(self.request(method, **params))
        return answer.get("result", answer.get("error"))

    async def wait_for(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        seen = 0
        while True:
            for one in self.log[seen:]:
                if is_it(one):
                    return one
            seen = len(self.log)
            await self._news.wait()

    async def asked(self, method: str) -> dict[str, Any]:
        return await self.wait_for(lambda one: one.get("method") == method)

    def updates(self, *kinds: str) -> list[dict[str, Any]]:
        shown = [one["params"]["update"] for one in self.log if one.get("method") == "session/update"]
        return [one for one in shown if not kinds or one["sessionUpdate"] in kinds]

    def prompt(self, text: str) -> int:
        blocks = [{"type": "text", "text": text}]
        return self.request("session/prompt", sessionId=self.session_id, prompt=blocks)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            os.close(self._to_us)

    async def read(self) -> None:
        left = b""
        while True:
            await trio.lowlevel.wait_readable(self._from_us)
            data = os.read(self._from_us, 65_536)
            if not data:
                return
            *lines, left = (left + data).split(b"\n")
            for line in lines:
                self._take(json.loads(line))

    def _take(self, message: dict[str, Any]) -> None:
        self.log.append(message)
        answer = self.answers.get(message.get("method", ""))
        if answer is not None and "id" in message:
            self.send(id=message["id"], **answer(message["params"]))
        news, self._news = self._news, trio.Event()
        news.set()


def choosing(option: str) -> Answer:
    return lambda _: {"result": {"outcome": {"outcome": "selected", "optionId": option}}}


@asynccontextmanager
async def agent_of(options: SessionOptions, given: Any, connection: AcpConnection) -> AsyncIterator[AcpAgent]:
    given = dict(given)
    places = EditorPlaces(client_terminal=given.pop("client_terminal", False))

    async def options_for(context: Any) -> SessionOptions:
        return places.arrange(options, context, ())

    profile = AgentProfile(id="default", name="Default", options=options_for)
    usual = {
        "shutdown_timeout": 4.0,
        "drain_timeout": 0.0,
        "idle_after": None,
        "shell_fallback": "unconfined",
    }
    async with open_host(profiles=[profile], **{**usual, **given}) as host:
        yield AcpAgent(connection, host, places)


@asynccontextmanager
async def open_editor(
    *script: Any,
    capabilities: Any = None,
    cwd: Any = None,
    host: Any = None,
    max_bytes: int = 16 << 20,
    **options: Any,
) -> AsyncIterator[Editor]:
    """An editor that has a session open, if `cwd` is given. Leaving the block closes its end, and waits for the server."""
    source, to_us = os.pipe()
    from_us, target = os.pipe()
    made = SessionOptions(**{"model": ScriptedModel([*script]), **options})
    editor, stream = Editor(to_us, from_us), LineStream(source, target, max_bytes=max_bytes)
    server = AcpConnection(stream, partial(agent_of, made, host or {}), version="1")
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(editor.read)

            async def serve() -> None:
                await server.serve()
                os.close(target)
                editor.ended.set()

            nursery.start_soon(serve)
            if cwd is not None:
                await editor.call("initialize", protocolVersion=1, clientCapabilities=capabilities or {})
                made_session = await editor.call("session/new", cwd=str(cwd), mcpServers=[])
                editor.session_id = made_session["sessionId"]
            yield editor
            editor.close()
    os.close(source)
    os.close(from_us)
