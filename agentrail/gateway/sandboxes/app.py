"""A sandbox as an ASGI application.

A failure in the sandbox is a result, and other statuses concern the connection or lease.
"""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any, Final, TypeVar

import trio
from attrs import define, field

from agentrail.abc import ProcessOptions, ProcessSandbox, ToolProcess
from agentrail.actors.deferred_error import ungrouped
from agentrail.core.values.port_members import offers
from agentrail.errors import ProcessRefused, SandboxError
from agentrail.gateway.authorization import UNAUTHORIZED, CallHead, head_of, send_refusal
from agentrail.gateway.error_responses import CallRefused, ErrorAnswer, refuse_call
from agentrail.gateway.followed_files import follow_token_file
from agentrail.gateway.request_parser import (
    AsgiReceive,
    AsgiSend,
    BodyReader,
    CallerLeft,
    judge_headers,
    wait_left,
)
from agentrail.gateway.sandboxes.lease_directories import OpenWorkspace
from agentrail.gateway.sandboxes.lease_operations import (
    AskedOperation,
    carry_out_operation,
    facts_of_sandbox,
    read_asked,
)
from agentrail.gateway.sandboxes.leases import Lease, Leases, OpenOperation, refuse_unknown
from agentrail.gateway.tokens import Tokens
from agentrail.gateway.whole_answer import WholeAnswer, send_whole
from agentrail.host.hook_payloads import Principal
from agentrail.otp.exits import keep
from agentrail.runtime.crashes import log_crash, raise_what_travels
from agentrail.sandboxes.remote.operations import (
    MAX_NUMBER,
    MAX_SANDBOX_BODY_BYTES,
    SANDBOX_OPERATIONS,
    SETTLED_HEADER,
    STOP_SECONDS,
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
    encode_answer,
    encode_said,
)

T = TypeVar("T")

_WAIT_GONE_SECONDS: Final = STOP_SECONDS - 0.3
"""Time limit for a stop to complete, slightly below the client's own limit."""

_LEASE_PATH: Final = re.compile(
    r"/leases/([0-9a-f]{32})(?:/(beat)|/operations/([1-9][0-9]{0,15})/([a-z_]{1,20}))?"
)
_SETTLED: Final = re.compile(r"[0-9]{1,16}")
_NOTHING: Final = WholeAnswer(body=b"{}")
_CRASHED: Final = ErrorAnswer(status=500, code="internal", message="an internal error occurred")


@define(eq=False, repr=False)
class SandboxApp:
    """The application: workspaces for clients with a token."""

    _tokens: Tokens
    _open_workspace: OpenWorkspace
    _is_for_one: bool = field(default=False, kw_only=True)
    _idle_seconds: float | None = field(default=None, kw_only=True)
    _bodies: BodyReader = field(init=False, factory=BodyReader)
    _leases: Leases | None = field(init=False, default=None)
    _nursery: trio.Nursery | None = field(init=False, default=None)
    _is_done: trio.Event = field(init=False, factory=trio.Event)

    async def wait_done(self) -> None:
        """Wait until no client needs it any more; indefinitely without a configured idle time."""
        await self._is_done.wait()

    async def __call__(self, scope: MutableMapping[str, Any], receive: AsgiReceive, send: AsgiSend) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        reply: WholeAnswer | ErrorAnswer
        try:
            if scope["type"] == "websocket":
                lease, number = self._process_of(scope)
                await serve_process(lease, number, receive, send)
                return
            reply = await self._answer(scope, receive)
        except CallerLeft:
            return
        except CallRefused as refused:
            reply = refused.answer
        if isinstance(reply, ErrorAnswer):
            await send_refusal(scope, send, reply)
            return
        await send_whole(send, reply)

    # --- lifecycle

    async def _live(self, receive: AsgiReceive, send: AsgiSend) -> None:
        await receive()
        self._leases = Leases()
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(follow_token_file, self._tokens, name="follow the token file")
            if self._idle_seconds is not None:
                self._nursery.start_soon(self._watch_idle, self._leases, self._idle_seconds)
            await send({"type": "lifespan.startup.complete"})
            await receive()
            self._nursery.cancel_scope.cancel(reason="the server stops")
        await send({"type": "lifespan.shutdown.complete"})

    async def _watch_idle(self, leases: Leases, seconds: float) -> None:
        while True:
            await trio.sleep_until(leases.last_used_at + seconds)
            if leases.is_busy:
                leases.last_used_at = trio.current_time()
            elif trio.current_time() >= leases.last_used_at + seconds:
                self._is_done.set()
                return

    async def _live_lease(self, lease_id: str, lease: Lease) -> None:
        try:
            with lease.scope:
                async with self._open_workspace() as lease.sandbox, trio.open_nursery() as lease.nursery:
                    lease.is_ready.set()
                    await trio.sleep_forever()
        except BaseException as raised:  # noqa: ASYNC103, BLE001 - an edge; cancellation is raised again
            raise_what_travels(raised)
            lease.failure = True
            is_usual = isinstance(raised, OSError | SandboxError)  # no space, or no permission
            what = "could not be created or removed" if is_usual else "crashed"
            log_crash(f"a workspace {what}", raised, keep)
        finally:
            if self._leases is not None:
                self._leases.by_id.pop(lease_id, None)
            lease.is_ready.set()
            lease.is_gone.set()
            if self._is_for_one:
                self._is_done.set()

    # --- one call

    def _admit(self, scope: MutableMapping[str, Any]) -> tuple[CallHead, Principal, re.Match[str], Leases]:
        """Authenticate the caller and parse the path, before anything else."""
        too_many = judge_headers(scope)  # before any code iterates over them
        if too_many is not None:
            raise CallRefused(too_many)
        head = head_of(scope)
        owner = self._tokens(head.headers)
        if owner is None:
            raise CallRefused(UNAUTHORIZED)
        found = _LEASE_PATH.fullmatch(head.path)
        if found is None or self._leases is None:
            raise unknown_path()
        return head, owner, found, self._leases

    def _process_of(self, scope: MutableMapping[str, Any]) -> tuple[Lease, int]:
        head, owner, found, leases = self._admit(scope)
        lease_id, _, number, name = found.groups()
        if name != "open_process":
            raise unknown_path()
        lease = self._lease_of(lease_id, owner, leases)
        _settle(lease, head, int(number))
        return lease, int(number)

    async def _answer(
        self, scope: MutableMapping[str, Any], receive: AsgiReceive
    ) -> WholeAnswer | ErrorAnswer:
        head, owner, found, leases = self._admit(scope)
        if self._nursery is None:
            raise unknown_path()
        lease_id, beat, number, name = found.groups()
        match head.method, beat, name:
            case "PUT", None, None:
                return await self._begin(lease_id, owner, leases, self._nursery)
            case "DELETE", None, None:
                return await self._end(lease_id, owner, leases)
            case "POST", "beat", None:
                leases.find(lease_id, owner, trio.current_time())
                return _NOTHING
            case "POST", None, str():
                lease = self._lease_of(lease_id, owner, leases)
                _settle(lease, head, int(number))
                if name == "stop":
                    return await self._stop(lease, int(number))
                return await self._operate(lease, int(number), name, head.headers, receive)
            case _:
                raise unknown_path()

    async def _begin(
        self, lease_id: str, owner: Principal, leases: Leases, nursery: trio.Nursery
    ) -> WholeAnswer:
        lease, is_new = leases.begin(lease_id, owner, trio.current_time())
        if is_new:
            nursery.start_soon(self._live_lease, lease_id, lease)
        leases.last_used_at = trio.current_time()
        await lease.is_ready.wait()
        if lease.sandbox is None or lease.failure:
            refuse_call("server_full", "a workspace cannot be created")
        leases.find(lease_id, owner, trio.current_time())  # raises if another client began before
        return WholeAnswer(body=encode_answer(facts_of_sandbox(lease.sandbox), None))

    async def _end(self, lease_id: str, owner: Principal, leases: Leases) -> WholeAnswer:
        lease = leases.by_id.get(lease_id)
        if lease is not None and lease.owner == owner:
            lease.scope.cancel(reason="its client closed it")
            with trio.move_on_after(_WAIT_GONE_SECONDS):
                await lease.is_gone.wait()
        return _NOTHING

    def _lease_of(self, lease_id: str, owner: Principal, leases: Leases) -> Lease:
        lease = leases.find(lease_id, owner, trio.current_time())
        if lease.sandbox is None or lease.nursery is None or lease.failure:
            raise refuse_unknown()
        leases.last_used_at = trio.current_time()
        return lease

    async def _stop(self, lease: Lease, number: int) -> WholeAnswer:
        operation = lease.stop(number)
        with trio.move_on_after(_WAIT_GONE_SECONDS):
            await operation.is_over.wait()
        return WholeAnswer(body=b'{"is_gone":true}' if operation.is_over.is_set() else b'{"is_gone":false}')

    async def _operate(
        self,
        lease: Lease,
        number: int,
        name: str,
        headers: Any,
        receive: AsgiReceive,
    ) -> WholeAnswer | ErrorAnswer:
        kind = SANDBOX_OPERATIONS.get(name)
        if kind is None:
            raise unknown_path()
        body = await self._bodies.read(receive, headers, MAX_SANDBOX_BODY_BYTES, caller=lease.owner)
        asked = await read_asked(name, headers.get("content-type", ""), body)
        del body
        if lease.scope.cancel_called or lease.nursery is None:
            raise refuse_unknown()
        if not kind.changes:
            return await _until_left(receive, partial(self._look, lease, lease.nursery, asked))
        operation, is_new = lease.arrive(number, asked.digest)
        if is_new:
            lease.nursery.start_soon(self._run, lease, operation, asked)
        await _until_left(receive, operation.is_over.wait)
        if operation.reply is None:
            raise CallRefused(ErrorAnswer(status=409, code="operation_refused", message="it was stopped"))
        return operation.reply

    async def _look(
        self, lease: Lease, nursery: trio.Nursery, asked: AskedOperation
    ) -> WholeAnswer | ErrorAnswer:
        operation = OpenOperation(asked.digest)
        lease.reading += 1
        nursery.start_soon(self._run, lease, operation, asked)
        try:
            await operation.is_over.wait()
        finally:
            operation.scope.cancel(reason="the caller no longer waits for it")
            lease.reading -= 1
        if operation.reply is None:
            raise refuse_unknown()
        return operation.reply

    async def _run(self, lease: Lease, operation: OpenOperation, asked: AskedOperation) -> None:
        try:
            with operation.scope:
                if lease.sandbox is not None:
                    operation.reply = await carry_out_operation(lease.sandbox, asked)
        except CallRefused as refused:
            operation.reply = refused.answer
        except BaseException as raised:  # noqa: ASYNC103, BLE001 - the edge of a sandbox; cancellation is raised again
            raise_what_travels(raised)
            log_crash(f"the sandbox crashed in {asked.name}", raised, keep)
            operation.reply = _CRASHED
        finally:
            operation.is_over.set()


async def _until_left(receive: AsgiReceive, work: Callable[[], Awaitable[T]]) -> T:
    results: list[T] = []

    async def watch(scope: trio.CancelScope) -> None:
        await wait_left(receive)
        scope.cancel(reason="the caller has disconnected")

    with ungrouped():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, nursery.cancel_scope)
            results.append(await work())
            nursery.cancel_scope.cancel(reason="it is answered")
    if not results:
        raise CallerLeft
    return results[0]


def _settle(lease: Lease, head: CallHead, number: int) -> None:
    settled = head.headers.get(SETTLED_HEADER, "0")
    if not _SETTLED.fullmatch(settled) or number > MAX_NUMBER:
        refuse_call("bad_json", f"{SETTLED_HEADER}, or the operation, is not a number")
    lease.settle(int(settled))


def unknown_path() -> CallRefused:
    message = "there is no such path: this is a sandbox server for agentrail clients"
    return CallRefused(ErrorAnswer(status=405, code="route_unknown", message=message))


# --- a process with one WebSocket as its pipes: bytes in, bytes out, control messages as text

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
    lease.nursery.start_soon(_run_process, lease, operation, request, talk)
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


async def _run_process(lease: Lease, operation: OpenOperation, request: OpenRequest, talk: _Talk) -> None:
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
                    await talk.say(ProcessOpened(pid=process.pid))
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(_pass_out, process, talk)
                        nursery.start_soon(_tell_end, process, talk)
                        await _pass_in(process, talk)
                        nursery.cancel_scope.cancel(reason="its client has disconnected")
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
