"""The wires as one table: how a client of each sends words, reads a response, and goes on after a restart.

A new wire is one entry of `WIRES`; the cases that hold for all of them are in `test_all_wires`.
"""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from attrs import frozen

from tests.gateway.protocols import (
    acp_wire,
    ag_ui_scenarios,
    test_a2a_calls,
    test_openai_chat_calls,
    test_openai_response_calls,
    ui_scenarios,
)
from tests.gateway.web import Web
from tests.protocols.ag_ui_client import LAST as AG_UI_LAST, AgUiClient
from tests.protocols.test_openai_responses import LASTS as RESPONSES_LAST
from tests.protocols.ui_client import LAST as UI_LAST, UiClient

Frames: TypeAlias = list[dict[str, Any]]


@frozen(kw_only=True)
class Told:
    """A response as a client has it in the end.

    Attributes:
        text: Text of the assistant that the client shows as said.
        ends: Number of terminal frames, and `is_last` whether the last frame is one.
        code: Error code of the terminal frame, or None.
        response_id: Name of the response on its wire.
    """

    text: str
    ends: int
    is_last: bool
    code: str | None = None
    response_id: str = ""


@frozen(kw_only=True, eq=False)
class Wire:
    """A wire as its clients use it.

    Attributes:
        path: Path of requests, and `body` returns the body of one with words for a session.
        read: Returns what the client has of a whole stream.
        via: Channel of its messages.
        code_of: Returns our code of an error, which has the wire's shape.
        has_sessions: Whether its clients create a session before they say anything.
        has_codes: Whether its terminal frame has our code. That of `ai-ui` has only a text, and that of ACP a reason.
        again: Reads the response after a restart, given its name. None if the wire has no call for that: its client
            asks again in the same session.
    """

    name: str
    path: str
    body: Callable[[str, str], dict[str, Any]]
    read: Callable[[str], Told]
    via: str
    code_of: Callable[[dict[str, Any]], Any] = lambda error: error["code"]
    has_codes: bool = True
    has_sessions: bool = False
    headers: Mapping[str, str] = MappingProxyType({})
    again: Callable[[Web, str, str], Awaitable[Told]] | None = None

    @asynccontextmanager
    async def opened(self, web: Web, session: str, words: str) -> AsyncIterator[AsyncIterator[str]]:
        """Send words and open the response; leaving the block closes its connection."""
        async with web.client.stream("POST", self.path, **self._request(session, words)) as response:
            assert response.status_code == 200, await response.aread()
            yield response.aiter_text()

    async def ask(self, web: Web, session: str, words: str = "Hi") -> Told:
        """Send words, and read the response to its end."""
        async with self.opened(web, session, words) as pieces:
            return self.read("".join([piece async for piece in pieces]))

    async def refused(self, web: Web, session: str, words: str = "Hi") -> Any:
        """Send words that are refused, and return our code of the error."""
        response = await web.client.post(self.path, **self._request(session, words))
        return self.code_of(response.json()["error"])

    def tells_end(self, told: Told, code: str) -> bool:
        """Whether a terminal frame says that this ended the stream."""
        return told.code == code if self.has_codes else bool(told.code)

    def _request(self, session: str, words: str) -> dict[str, Any]:
        headers = {"x-session-id": session, **self.headers}
        return {"json": self.body(session, words), "headers": headers}


class AcpWire(Wire):
    """ACP. It has pipes instead of requests, and a session before the first prompt."""

    @asynccontextmanager
    async def opened(self, web: Web, session: str, words: str) -> AsyncIterator[AsyncIterator[str]]:
        """Send words, and give messages up to their answer; leaving the block closes the editor's end."""
        async with acp_wire.open_prompt(web.host, session, words) as pieces:
            yield pieces

    async def refused(self, web: Web, session: str, words: str = "Hi") -> Any:
        """Send words that are refused, and return our code of the error."""
        return (await self.ask(web, session, words)).code


class McpWire(Wire):
    """MCP, in the current revision. It continues sessions that there are, and answers errors with a result."""

    @asynccontextmanager
    async def opened(self, web: Web, session: str, words: str) -> AsyncIterator[AsyncIterator[str]]:
        """Send words with a progress token, and open the response; leaving the block closes its connection."""
        await web.post("/sessions", {"session_id": session})
        async with super().opened(web, session, words) as pieces:
            yield pieces

    async def refused(self, web: Web, session: str, words: str = "Hi") -> Any:
        """Send words that are refused, and return our code of the error."""
        return (await self.ask(web, session, words)).code


def _read_mcp(stream: str) -> Told:
    lines = [line[6:] for line in stream.splitlines() if line.startswith("data: ")] or [stream]
    frames = [json.loads(line) for line in lines]
    ends = ["result" in frame or "error" in frame for frame in frames]
    told = frames[-1].get("result", {}).get("structuredContent", {})
    return Told(text=told.get("text", ""), ends=ends.count(True), is_last=ends[-1], code=told.get("code"))


def _code_of_json_rpc(error: dict[str, Any]) -> Any:
    return error.get("data", {}).get("code", error["code"])


def _mcp_body(session: str, words: str) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": "p1",
    }
    given = {"prompt": words, "session_id": session}
    params = {"name": "desk", "arguments": given, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


def _read_ui(stream: str) -> Told:
    frames, client = ui_scenarios.parts_of(stream), UiClient()
    last = client.read(frames)
    text = "".join([one[1] for one in client.told() if one[0] == "text"]) if client.messages else ""
    return _told(text, frames, UI_LAST, code=last.get("errorText"))


def _read_ag_ui(stream: str) -> Told:
    frames, client = ag_ui_scenarios.frames_of(stream), AgUiClient()
    last = client.read(frames)
    text = "".join([one["content"] for one in client.messages if one["role"] == "assistant"])
    return _told(text, frames, AG_UI_LAST, code=last.get("code"), response_id=frames[0].get("runId", ""))


def _read_chat(stream: str) -> Told:
    frames = test_openai_chat_calls.frames_of(stream)
    ends = [
        frame for frame in frames if "error" in frame or any(one["finish_reason"] for one in frame["choices"])
    ]
    said = "".join([one["delta"].get("content", "") for frame in frames for one in frame.get("choices", ())])
    text = said.rpartition(f"{AGAIN}\n\n")[2]
    code = ends[-1]["error"]["code"] if "error" in ends[-1] else None
    return Told(text=text, ends=len(ends), is_last=ends[-1] is frames[-1], code=code)


def _read_responses(stream: str) -> Told:
    frames = test_openai_response_calls.events_of(stream)
    last = frames[-1]["response"]
    text = test_openai_response_calls.text_of(last)
    code = None if last["error"] is None else last["error"]["type"]
    return _told(text, frames, RESPONSES_LAST, code=code, response_id=frames[0]["response"]["id"])


def _told(text: str, frames: Frames, lasts: tuple[str, ...], **more: Any) -> Told:
    ends = [frame["type"] in lasts for frame in frames]
    return Told(text=text, ends=ends.count(True), is_last=ends[-1], **more)


def _read_a2a(stream: str) -> Told:
    frames = test_a2a_calls.frames_of(stream)
    text = test_a2a_calls.text_of(frames[0]["task"])  # what was there when the stream began
    for frame in frames:
        update = frame.get("artifactUpdate") or {}
        said = "".join([part["text"] for part in update.get("artifact", {}).get("parts", ())])
        text = text + said if update.get("append", True) else said
    states = [frame.get("statusUpdate", {}).get("status", {}).get("state", "") for frame in frames]
    ends = ["error" in frame or state in A2A_LAST for frame, state in zip(frames, states, strict=True)]
    code = _code_of_a2a(frames[-1]["error"]) if "error" in frames[-1] else None
    task = frames[0]["task"]["id"]
    return Told(text=text, ends=ends.count(True), is_last=ends[-1], code=code, response_id=task)


def _code_of_a2a(error: dict[str, Any]) -> Any:
    assert {"code", "message", "data"} <= {*error}
    return error["data"][0]["metadata"]["code"]


def _read_acp(stream: str) -> Told:
    said, answers, is_last = acp_wire.read_messages(stream)
    text = re.split(r"\[The answer begins again: .*\]\n\n", said)[-1]
    reason = answers[-1].get("result", {}).get("stopReason")
    code = answers[-1]["error"]["data"]["code"] if reason is None else reason
    return Told(text=text, ends=len(answers), is_last=is_last, code=None if code == "end_turn" else code)


def _code_of_openai(error: dict[str, Any]) -> Any:
    assert {"message", "type", "param", "code"} <= {*error}
    return error["code"]


# --- after a restart


async def _ui_again(web: Web, session: str, _: str) -> Told:
    return _read_ui((await web.client.get(f"/ai-ui/desk/{session}/stream")).text)


async def _run_again(web: Web, session: str, run: str) -> Told:
    body = _ag_ui_body(session, "Hi") | {"runId": run}
    return _read_ag_ui((await web.post("/ag-ui/desk", body)).text)


async def _response_again(web: Web, _: str, response: str) -> Told:
    return _read_responses(
        (await web.client.get(f"/v1/responses/{response}", params={"stream": "true"})).text
    )


async def _task_again(web: Web, _: str, task: str) -> Told:
    body = {"jsonrpc": "2.0", "id": 7, "method": "SubscribeToTask", "params": {"id": task}}
    response = await web.client.post(test_a2a_calls.RPC, json=body, headers=test_a2a_calls.VERSION)
    return _read_a2a(response.text)


def _a2a_body(session: str, words: str) -> dict[str, Any]:
    params = test_a2a_calls.message(words, name=f"u-{_name(words)}", contextId=session)
    return {"jsonrpc": "2.0", "id": 7, "method": "SendStreamingMessage", "params": params}


def _name(words: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", words).strip("-")


def _ag_ui_body(session: str, words: str) -> dict[str, Any]:
    said = {"id": f"u-{_name(words)}", "role": "user", "content": words}
    more: dict[str, Any] = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
    return {"threadId": session, "runId": f"run-{_name(words)}", "messages": [said], **more}


A2A_LAST: Final = tuple(
    [f"TASK_STATE_{one}" for one in ("COMPLETED", "INPUT_REQUIRED", "CANCELED", "FAILED", "REJECTED")]
)
AGAIN: Final = "[The answer broke off here and begins again.]"

WIRES: Final = (
    Wire(
        name="ai-ui",
        via="ai-ui",
        has_codes=False,
        path="/ai-ui/desk",
        body=lambda session, words: {
            "id": session,
            "messages": [ui_scenarios.user(words, f"u-{_name(words)}")],
            "trigger": "submit-message",
        },
        read=_read_ui,
        again=_ui_again,
    ),
    Wire(name="ag-ui", via="ag-ui", path="/ag-ui/desk", body=_ag_ui_body, read=_read_ag_ui, again=_run_again),
    Wire(
        name="chat",
        via="openai",
        code_of=_code_of_openai,
        path="/v1/chat/completions",
        body=lambda _, words: {
            "model": "desk",
            "stream": True,
            "messages": [{"role": "user", "content": words}],
        },
        read=_read_chat,
    ),
    Wire(
        name="responses",
        via="openai",
        code_of=_code_of_openai,
        path="/v1/responses",
        body=lambda session, words: {
            "model": "desk",
            "stream": True,
            "input": words,
            "conversation": session,
        },
        read=_read_responses,
        again=_response_again,
    ),
    Wire(
        name="a2a",
        via="a2a",
        path=test_a2a_calls.RPC,
        headers=test_a2a_calls.VERSION,
        body=_a2a_body,
        read=_read_a2a,
        code_of=_code_of_a2a,
        again=_task_again,
    ),
    McpWire(
        name="mcp",
        via="mcp",
        has_sessions=True,
        path="/mcp",
        headers={
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": "desk",
        },
        body=_mcp_body,
        read=_read_mcp,
        code_of=_code_of_json_rpc,
    ),
    AcpWire(
        name="acp", via="acp", has_sessions=True, has_codes=False, path="", body=lambda *_: {}, read=_read_acp
    ),
)

PROTOCOLS: Final = ("ai-ui", "ag-ui", "openai", "a2a", "mcp")
"""All of them, as options of an application."""
