"""ACP over a stream of lines: JSON-RPC in both directions. Imports little, because editors wait for its first answer."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import trio

from agentrail.gateway.stdio.line_stream import LineStream
from agentrail.protocols import acp
from agentrail.protocols.error_shapes import INVALID_REQUEST
from agentrail.protocols.response_changes import Frame
from agentrail.wire.byte_lines import LineTooLong
from agentrail.wire.plain import encode_plain

_ANSWER_SECONDS: Final = 2.0
AcpMethod: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Frame]]
TakeAnswer: TypeAlias = Callable[[acp.RpcMessage], Awaitable[None]]


class EditorMethods(Protocol):
    """The methods that need sessions. `handler` is called in the order of requests."""

    def handler(self, said: acp.RpcMessage) -> AcpMethod: ...
    async def announce(self, method: str, answer: Frame) -> None: ...
    def cancel(self, session_id: str) -> None: ...
    async def leave(self) -> None: ...


OpenEditorAgent: TypeAlias = Callable[["AcpConnection"], AbstractAsyncContextManager[EditorMethods]]


class AcpConnection:
    """The connection with an editor. The agent is opened by the first call that needs it."""

    def __init__(self, stream: LineStream, open_agent: OpenEditorAgent, *, version: str) -> None:
        self._stream = stream
        self._open_agent = open_agent
        self._version = version
        self._capabilities: Mapping[str, Any] | None = None
        self._open: set[str | int | None] = set()
        self._expected: dict[str, TakeAnswer] = {}
        self._asked = 0
        self._agent: EditorMethods | None = None
        self._opening = trio.Lock()
        self._has_answered = trio.lowlevel.ParkingLot()

    async def serve(self) -> bool:
        """Answer the editor until its input ends. Then all work is aborted, and the sessions are suspended. Return whether there was an editor."""
        async with trio.open_nursery() as nursery:
            self.nursery: trio.Nursery = nursery
            try:
                async for line in self._stream.lines():
                    await self._take(line)
            except LineTooLong as error:
                await self._refuse(None, acp.AcpFault(INVALID_REQUEST, f"{error}"))
            if self._agent is not None:
                await self._agent.leave()
            with trio.move_on_after(_ANSWER_SECONDS):
                while self._open:
                    await self._has_answered.park()
            self.nursery.cancel_scope.cancel(reason="the editor has left")
        return self._capabilities is not None

    async def opened(self) -> EditorMethods:
        """Return the agent. A failure is the next call's to try again."""
        async with self._opening:
            if self._agent is None:
                self._agent = await self.nursery.start(self._hold_agent)
            return self._agent

    async def _hold_agent(self, *, task_status: trio.TaskStatus[EditorMethods]) -> None:
        async with self._open_agent(self) as agent:
            task_status.started(agent)
            await trio.sleep_forever()

    # --- to the editor

    async def send(self, frame: Frame) -> None:
        await self._stream.send(encode_plain(frame))

    async def request(self, frame: Frame, answered: TakeAnswer) -> None:
        """Send a request. `answered` is called with its answer, if one comes."""
        self._expected[frame["id"]] = answered
        await self.send(frame)

    async def ask(
        self, method: str, params: Mapping[str, Any], late: TakeAnswer | None = None
    ) -> acp.RpcMessage:
        """Send a request, and wait for its answer. If that is cancelled, `late` is called with the answer."""
        self._asked += 1
        name, sender, receiver = f"agent-{self._asked}", *trio.open_memory_channel[acp.RpcMessage](1)
        try:
            await self.request({**acp.RPC, "id": name, "method": method, "params": params}, sender.send)
            return await receiver.receive()
        finally:
            if self._expected.pop(name, None) is not None and late is not None:
                self._expected[name] = late

    def has(self, group: str, name: str = "") -> bool:
        found = (self._capabilities or {}).get(group)
        if not name:
            return found is True
        return isinstance(found, dict) and found.get(name) not in (None, False)

    # --- from the editor

    async def _refuse(self, rpc_id: str | int | None, fault: acp.AcpFault) -> None:
        await self.send({**acp.RPC, "id": rpc_id, "error": fault.shown()})

    async def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            said = acp.read_rpc(line)
        except acp.AcpFault as fault:
            await self._refuse(None, fault)
            return
        agent = self._agent
        if said.method is None:
            answered = self._expected.pop(f"{said.id}", None)
            if answered is not None:
                self.nursery.start_soon(answered, said)
        elif said.id is None:
            if said.method == "session/cancel" and agent is not None:
                agent.cancel(f"{said.params.get('sessionId')}")
        elif said.id in self._open:
            await self._refuse(None, acp.AcpFault(INVALID_REQUEST, f"the id {said.id!r} is in use"))
        else:
            self._open.add(said.id)
            if said.method == "initialize":
                await self._answer(said, self._initialize)
            elif self._capabilities is None:
                await self._answer(said, _not_initialized)
            else:
                method = partial(self._open_first, said) if agent is None else agent.handler(said)
                self.nursery.start_soon(self._answer, said, method)

    async def _open_first(self, said: acp.RpcMessage, params: Mapping[str, Any]) -> Frame:
        return await (await self.opened()).handler(said)(params)

    async def _answer(self, said: acp.RpcMessage, method: AcpMethod) -> None:
        answer: Frame = {}
        try:
            answer = await method(said.params)
            await self.send({**acp.RPC, "id": said.id, "result": answer})
        except acp.AcpFault as fault:
            await self._refuse(said.id, fault)
        self._open.discard(said.id)
        self._has_answered.unpark_all()
        if self._agent is not None:
            await self._agent.announce(f"{said.method}", {**said.params, **answer})

    async def _initialize(self, params: Mapping[str, Any]) -> Frame:
        await trio.lowlevel.checkpoint()
        given = params.get("clientCapabilities")
        self._capabilities = given if isinstance(given, dict) else {}
        return acp.initialize_result(self._version, has_terminal=self.has("auth", "terminal"))


async def _not_initialized(_: Mapping[str, Any]) -> Frame:
    await trio.lowlevel.checkpoint()
    raise acp.AcpFault(INVALID_REQUEST, "call initialize first")
