"""A process of a workspace with one WebSocket as its pipes: bytes in, bytes out, control messages as text."""

from typing import Any, Final

import trio

from agentrail.abc import ProcessOptions, ProcessSandbox, ToolProcess
from agentrail.core.values.port_members import offers
from agentrail.errors import ProcessRefused
from agentrail.gateway.error_responses import CallRefused
from agentrail.gateway.request_parser import AsgiReceive, AsgiSend
from agentrail.gateway.sandboxes.leases import Lease, OpenOperation
from agentrail.otp.exits import keep
from agentrail.runtime.crashes import log_crash, raise_what_travels
from agentrail.sandboxes.remote.operations import (
    WIRE_PIECE_BYTES,
    Exited,
    FromProcess,
    InputEnd,
    OpenRequest,
    OutputEnd,
    ProcessOpened,
    ProcessRefusal,
    UnreadableWire,
    decode_as,
    encode_said,
)

FIRST_FRAME_SECONDS: Final = 10.0
"""Time limit for the client's first message."""


async def serve_process(lease: Lease, number: int, receive: AsgiReceive, send: AsgiSend) -> None:
    """Connect a process to a WebSocket until one of them ends. Cancellation stops the process first."""
    await receive()
    await send({"type": "websocket.accept"})
    try:
        request = await _read_request(receive)
        operation, is_new = lease.arrive(number, b"")
    except (UnreadableWire, CallRefused):
        await send({"type": "websocket.close", "code": 1008})
        return
    if not is_new or lease.nursery is None or lease.scope.cancel_called:
        await send({"type": "websocket.close", "code": 1008})
        return
    talk = _Talk(receive, send)
    lease.nursery.start_soon(_run, lease, operation, request, talk)
    try:
        await operation.is_over.wait()
    finally:
        operation.scope.cancel(reason="its connection ended")
    await talk.close()


async def _read_request(receive: AsgiReceive) -> OpenRequest:
    with trio.move_on_after(FIRST_FRAME_SECONDS):
        text = (await receive()).get("text")
        if text is not None:
            return decode_as(OpenRequest, text.encode("utf-8", "replace"))
    message = "expected a description of the process to open"
    raise UnreadableWire(message)


class _Talk:
    """The two directions of a WebSocket."""

    def __init__(self, receive: AsgiReceive, send: AsgiSend) -> None:
        self.receive = receive
        self._send = send
        self._sending = trio.Lock()
        self._has_left = False

    async def say(self, said: FromProcess) -> None:
        await self._give({"type": "websocket.send", "text": encode_said(said).decode()})

    async def pass_on(self, output: bytes) -> None:
        await self._give({"type": "websocket.send", "bytes": output})

    async def next_message(self) -> dict[str, Any] | None:
        message = await self.receive()
        if message["type"] != "websocket.receive":
            self._has_left = True
            return None
        return dict(message)

    async def close(self) -> None:
        if not self._has_left:
            await self._give({"type": "websocket.close", "code": 1000})

    async def _give(self, message: dict[str, Any]) -> None:
        async with self._sending:
            await self._send(message)


async def _run(lease: Lease, operation: OpenOperation, request: OpenRequest, talk: _Talk) -> None:
    options = ProcessOptions(
        workdir=request.workdir,
        env=request.env,
        errors=request.errors,
        timeout_seconds=request.timeout_seconds,
    )
    refusal: ProcessRefusal | None = None
    try:
        with operation.scope:
            sandbox: object = lease.sandbox
            if not offers(sandbox, ProcessSandbox):
                refusal = ProcessRefusal(code="unsupported", message="This sandbox cannot open processes.")
            else:
                async with sandbox.open_process(request.argv, options) as process:
                    await _talk_with(process, talk)
    except ProcessRefused as refused:
        refusal = ProcessRefusal(code=refused.code, message=str(refused))
    except BaseException as raised:  # noqa: ASYNC103, BLE001 - the edge of a sandbox; cancellation is raised again
        raise_what_travels(raised)
        log_crash("the sandbox crashed in open_process", raised, keep)
    try:
        if refusal is not None:
            with trio.move_on_after(FIRST_FRAME_SECONDS):
                await talk.say(refusal)
    finally:
        operation.is_over.set()


async def _talk_with(process: ToolProcess, talk: _Talk) -> None:
    await talk.say(ProcessOpened(pid=process.pid))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_pass_out, process, talk)
        nursery.start_soon(_tell_end, process, talk)
        await _pass_in(process, talk)
        nursery.cancel_scope.cancel(reason="its client has disconnected")


async def _pass_in(process: ToolProcess, talk: _Talk) -> None:
    while (message := await talk.next_message()) is not None:
        try:
            if message.get("bytes") is not None:
                await process.stdin.send_all(message["bytes"])
            elif _is_end(message.get("text") or ""):
                await process.stdin.aclose()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # it no longer reads, which the client notices at its end


def _is_end(text: str) -> bool:
    try:
        decode_as(InputEnd, text.encode("utf-8", "replace"))
    except UnreadableWire:
        return False
    return True


async def _pass_out(process: ToolProcess, talk: _Talk) -> None:
    while output := await process.stdout.receive_some(WIRE_PIECE_BYTES):
        await talk.pass_on(bytes(output))
    await talk.say(OutputEnd())


async def _tell_end(process: ToolProcess, talk: _Talk) -> None:
    await talk.say(Exited(code=await process.wait()))
