"""`RemoteSandbox`: the files and commands of another place, as a local `Sandbox`."""

import contextvars
import ssl
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Final, TypeVar, cast

import trio
from attrs import define

from agentrail import outside
from agentrail.abc import (
    EditResult,
    ExecuteOptions,
    ExecuteResult,
    FileBytes,
    GlobResult,
    GrepOptions,
    GrepResult,
    ListResult,
    ProcessOptions,
    ReadResult,
    Refusal,
    Secret,
    ToolProcess,
    Transfer,
    WriteResult,
)
from agentrail.actors.keyed_locks import KeyedLocks
from agentrail.errors import OptionError, ProcessRefused
from agentrail.otp.field_rules import checks_arguments
from agentrail.process_account import note_left_elsewhere
from agentrail.sandboxes.command_runner import check_command
from agentrail.sandboxes.paths import decide_names, escape
from agentrail.sandboxes.refusals import PathRefused, encode_text
from agentrail.sandboxes.remote.connection import (
    CLOSED_HERE,
    Connection,
    NoAnswer,
    RemoteProcess,
    SandboxReply,
    begin_process,
    dialed,
    holding,
    refuse_connection,
)
from agentrail.sandboxes.remote.multipart import (
    boundary_of,
    content_type_of,
    decode_parts,
    encode_parts,
    size_of_part,
)
from agentrail.sandboxes.remote.operations import (
    ANSWER_SECONDS,
    BEAT_SECONDS,
    JSON_TYPE,
    MAX_FILES_AT_ONCE,
    MAX_NUMBER,
    MAX_SANDBOX_BODY_BYTES,
    SANDBOX_OPERATIONS,
    SANDBOX_TOKEN_VARIABLE,
    SETTLED_HEADER,
    SPARE_SECONDS,
    STOP_SECONDS,
    TOKEN,
    TOKEN_WORDS,
    DownloadRequest,
    EditRequest,
    ExecuteRequest,
    Facts,
    FileHead,
    GlobRequest,
    GrepRequest,
    OpenRequest,
    PathRequest,
    ProcessRefusal,
    ReadRequest,
    RestoreRequest,
    SnapshotRequest,
    StoppedOperation,
    UnreadableWire,
    UploadRequest,
    WireAnswer,
    WireRequest,
    WriteRequest,
    decode_as,
    encode_request,
)
from agentrail.websockets import need_websockets
from agentrail.wire.sandbox_address import NoAddress, RemoteAddress, read_sandbox_address

T = TypeVar("T")

_DECODED_HERE_BYTES: Final = 1 << 20
_ROOM_FOR_HEADS: Final = 1 << 20
_CLOSE_SECONDS: Final = 3.0
_ASSUMED: Final = frozenset({"execute"})


@define(eq=False)
class _Operation:
    path: str
    is_over: bool


class RemoteSandbox:
    """A workspace on another machine, or in a container, kept by `agentrail sandbox serve` for this object only.

    It is new and empty, and is created with the first call. It is removed when this is closed, or thirty seconds after the last
    contact. If the server cannot be reached, or no longer knows the workspace, results have an error with the code `io_error`
    that names its address. It has no `versions`: a session cannot restore its files.

    Use it in one Trio run.
    """

    @checks_arguments
    def __init__(
        self, address: str | RemoteAddress, *, token: str | Secret, tls: ssl.SSLContext | None = None
    ) -> None:
        """Create the sandbox without contacting the server.

        Args:
            address: `http://host:port` or `https://host:port`. After a question mark, `can=execute,snapshot` lists the server's
                capabilities, and `insecure=true` allows another machine without TLS. Without `can`, `execute` is assumed until it
                has answered.
            token: The server's token. It appears in no address, path or log.
            tls: Trusted certificates. None for those of this machine, and of `SSL_CERT_FILE`.

        Raises:
            OptionError: Your move: an invalid address or token.
        """
        self._token = token if isinstance(token, Secret) else Secret(token)
        if not TOKEN.fullmatch(self._token.reveal()):
            message = f"a remote sandbox needs the token of its server, {TOKEN_WORDS}: set {SANDBOX_TOKEN_VARIABLE}, or give token="
            raise OptionError([message])
        try:
            self._address = address if isinstance(address, RemoteAddress) else read_sandbox_address(address)
        except NoAddress as error:
            raise OptionError([f"the address of a sandbox cannot be used: {error}"]) from None
        self._tls = tls
        self._connection = Connection(self._address, self._token, tls)
        self._lease = outside.ids(16)
        self._opening = trio.Lock()
        self._facts: Facts | None = None
        self._was_asked = False
        self._gone: NoAnswer | None = None
        self._beating = trio.CancelScope()
        self._last_number = 0
        self._open_numbers: set[int] = set()
        # One write of a file is finished before the next is sent: two requests may overtake each other in transit.
        self._locks = KeyedLocks()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.shown!r})"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The token, which records omit."""
        return (self._token.reveal(),)

    @property
    def capabilities(self) -> frozenset[str]:
        """Capabilities from the address, otherwise from the server. `execute` before its first answer."""
        if self._address.can is not None:
            return self._address.can
        return _ASSUMED if self._facts is None else frozenset(self._facts.can)

    @property
    def is_unconfined(self) -> bool:
        """Whether commands are known to run with the rights of the server's user."""
        return self._facts is not None and self._facts.is_unconfined

    async def connect(self) -> Refusal | None:
        """Create the workspace now rather than with the first call. Then `capabilities` and `is_unconfined` are the server's answers.

        Returns:
            None, or the reason of a failure.

        Cancellation: A checkpoint. The workspace may have been created. Closing this removes it.
        """
        await trio.lowlevel.checkpoint()
        try:
            await self._open()
        except NoAnswer as none:
            return none.refusal
        return None

    async def aclose(self) -> None:
        """Remove the workspace. Idempotent. If the server cannot be reached, it does so at the end of the lease.

        Cancellation: The connection is closed nevertheless. The lease ends without us.
        """
        self._beating.cancel(reason="the sandbox is closed")
        is_kept = self._was_asked and self._gone is None
        self._gone = self._gone or refuse_connection(self._address, CLOSED_HERE)
        try:
            if is_kept:
                with suppress(NoAnswer):  # the server removes it without us
                    await self._connection.send(
                        "DELETE", f"/leases/{self._lease}", within_seconds=_CLOSE_SECONDS, again=False
                    )
                    self._gone.is_lost = True
        finally:
            with trio.CancelScope(shield=True):  # it does not wait for the server
                await self._connection.aclose()
        await trio.lowlevel.checkpoint()

    # --- files

    async def read(self, path: str, *, offset: int = 1, limit: int | None = None) -> ReadResult:
        """Read a text file; see the port.

        Cancellation: Takes effect at once, without any change.
        """
        bound = None if limit is None else min(limit, MAX_NUMBER)
        request = ReadRequest(path=path, offset=min(offset, MAX_NUMBER), limit=bound)
        found = await self._ask("read", request, ReadResult, lambda: _fault_of_path(path))
        return ReadResult(error=found) if isinstance(found, Refusal) else found

    async def write(self, path: str, content: str) -> WriteResult:
        """Replace a file or create it; see the port. Writes of one file are made in the order of their calls.

        Cancellation: Takes effect when the server has confirmed the end, after at most three seconds. The file is the old one or
            the new one.
        """
        request = WriteRequest(path=path, content=content)
        async with self._locks.hold(path):
            found = await self._ask("write", request, WriteResult, lambda: _fault_of_text(path, content))
        return WriteResult(error=found) if isinstance(found, Refusal) else found

    async def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> EditResult:
        """Replace a text in a file; see the port.

        Cancellation: The same as in `write`.
        """
        request = EditRequest(path=path, old=old, new=new, replace_all=replace_all)
        async with self._locks.hold(path):
            found = await self._ask("edit", request, EditResult, lambda: _fault_of_text(path, new, old))
        return EditResult(error=found) if isinstance(found, Refusal) else found

    async def exists(self, path: str) -> bool:
        """Return whether a file or directory exists. False too if the server cannot be reached."""
        found = await self._ask("exists", PathRequest(path=path), bool, lambda: _fault_of_path(path))
        return found is True

    async def leads_to(self, path: str) -> str | None:
        """Return the target of a path with links, as the server sees it. None without links, or if it is refused."""
        request = PathRequest(path=path)
        found = await self._ask(
            "leads_to", request, cast("type[str]", str | None), lambda: _fault_of_path(path)
        )
        return found if isinstance(found, str) else None

    async def list_dir(self, path: str) -> ListResult:
        """List a directory; see the port."""
        found = await self._ask("list_dir", PathRequest(path=path), ListResult, lambda: _fault_of_path(path))
        return ListResult(error=found) if isinstance(found, Refusal) else found

    # --- searching

    async def grep(self, pattern: str, path: str, options: GrepOptions) -> GrepResult:
        """Search text files; see the port.

        Cancellation: The connection is closed, and the server ends the search.
        """
        request = GrepRequest(pattern=pattern, path=path, options=options)
        found = await self._ask("grep", request, GrepResult, lambda: _fault_of_pattern(path))
        return GrepResult(error=found) if isinstance(found, Refusal) else found

    async def glob(self, pattern: str, path: str) -> GlobResult:
        """Find files and directories; see the port."""
        request = GlobRequest(pattern=pattern, path=path)
        found = await self._ask("glob", request, GlobResult, lambda: _fault_of_pattern(path))
        return GlobResult(error=found) if isinstance(found, Refusal) else found

    # --- bytes

    async def upload(self, files: Sequence[FileBytes]) -> tuple[Transfer, ...]:
        """Write files as bytes, in requests of at most 64 MiB, each with its own answer, in order.

        Cancellation: Files already written stay, the rest are not written. Waits for the server's confirmation, at most three seconds.
        """
        await trio.lowlevel.checkpoint()
        moved: dict[int, Transfer] = {}
        waiting: list[tuple[int, FileBytes]] = []
        for number, file in enumerate(files):
            fault = _fault_of_upload(file)
            if fault is None:
                waiting.append((number, file))
            else:
                moved[number] = Transfer(path=file.path, error=fault)
        async with AsyncExitStack() as stack:
            for path in sorted({file.path for _, file in waiting}):
                await stack.enter_async_context(self._locks.hold(path))
            for batch in _batches(waiting):
                moved.update(await self._upload(batch))
        return tuple([moved[number] for number in range(len(files))])

    async def _upload(self, batch: Sequence[tuple[int, FileBytes]]) -> dict[int, Transfer]:
        files = [file for _, file in batch]
        head = encode_request(UploadRequest(paths=tuple([file.path for file in files])))
        boundary = outside.ids(16)
        body = encode_parts(head, [file.content for file in files], boundary)
        try:
            reply = await self._operate("upload", body, ANSWER_SECONDS, content_type_of(boundary))
            heads = (await self._decode(WireAnswer[tuple[FileHead, ...]], reply.body)).result
            if len(heads) != len(files):
                raise refuse_connection(self._address, "it answered for different files than were sent")
        except NoAnswer as none:
            return {number: Transfer(path=file.path, error=none.refusal) for number, file in batch}
        return {
            number: Transfer(
                path=file.path, size_bytes=0 if head.error else len(file.content), error=head.error
            )
            for (number, file), head in zip(batch, heads, strict=True)
        }

    async def download(self, paths: Sequence[str]) -> tuple[Transfer, ...]:
        """Read files as bytes, in as many requests as necessary, each with its own answer, in order.

        Cancellation: Takes effect at once, without any change.
        """
        await trio.lowlevel.checkpoint()
        moved: dict[int, Transfer] = {}
        waiting: list[int] = []
        for number, path in enumerate(paths):
            fault = None if _is_unicode(path) else _fault_of_path(path)
            if fault is None:
                waiting.append(number)
            else:
                moved[number] = Transfer(path=path, error=fault)
        while waiting:
            batch = waiting[:MAX_FILES_AT_ONCE]
            try:
                came = await self._download([paths[number] for number in batch])
            except NoAnswer as none:
                came = [Transfer(path=paths[number], error=none.refusal) for number in waiting]
                batch = waiting
            moved.update(zip(batch, came, strict=False))
            waiting = waiting[len(came) :]
        return tuple([moved[number] for number in range(len(paths))])

    async def _download(self, paths: Sequence[str]) -> list[Transfer]:
        """Return as many of the first files as fit into one answer, at least one."""
        body = encode_request(DownloadRequest(paths=tuple(paths)))
        reply = await self._operate("download", body, ANSWER_SECONDS)
        boundary = boundary_of(reply.content_type)
        try:
            if boundary is None:
                raise UnreadableWire  # noqa: TRY301 - one answer to every fault of it
            head, contents = decode_parts(reply.body, boundary, max_parts=len(paths))
            heads = (await self._decode(WireAnswer[tuple[FileHead, ...]], head)).result
            if not 0 < len(heads) <= len(paths) or sum(one.has_content for one in heads) != len(contents):
                raise UnreadableWire  # noqa: TRY301 - see above
        except UnreadableWire:
            raise refuse_connection(self._address, "it returned different files than requested") from None
        left = iter(contents)
        given = [next(left) if one.has_content else None for one in heads]
        return [
            Transfer(path=path, content=content, size_bytes=len(content or b""), error=head.error)
            for path, head, content in zip(paths, heads, given, strict=False)
        ]

    # --- commands, and states

    async def execute(self, command: str, options: ExecuteOptions) -> ExecuteResult:
        """Run a command there; see the port. The server measures its time, and the client waits five seconds longer for the answer.

        Cancellation: The server ends the command and all its descendants, and confirms it. After at most three seconds the
            cancellation propagates. Remaining processes end with the lease, and the receipt of the abort names them, with the
            address.
        """
        request = ExecuteRequest(command=command, options=options)
        within = min(options.timeout_seconds, float(MAX_NUMBER)) + SPARE_SECONDS
        found = await self._ask(
            "execute",
            request,
            ExecuteResult,
            lambda: check_command(command) or _fault_of_path(options.workdir),
            within_seconds=within,
        )
        return ExecuteResult(error=found) if isinstance(found, Refusal) else found

    @asynccontextmanager
    async def open_process(self, argv: Sequence[str], options: ProcessOptions) -> AsyncIterator[ToolProcess]:
        """Open an interactive process there, over a separate WebSocket. Leaving the block stops it.

        Raises:
            ProcessRefused: The server does not start it, or cannot be reached: then with the code `io_error` and the address. Or the
                extra `connect` is not installed here: `unsupported`.

        Cancellation: The same as in `execute`.
        """
        try:
            need_websockets("an interactive process of a remote sandbox")
        except OptionError as missing:
            raise ProcessRefused(str(missing), code="unsupported") from missing
        request = OpenRequest(
            argv=tuple(argv),
            workdir=options.workdir,
            env=dict(options.env),
            errors=options.errors,
            timeout_seconds=options.timeout_seconds,
        )
        try:
            async with self._operation() as operation:
                path = f"{operation.path}/open_process"
                async with dialed(self._address, path, self._headers(), self._tls) as connection:
                    said = await begin_process(self._address, connection, request)
                    operation.is_over = True  # or `process` ends it
                    if isinstance(said, ProcessRefusal):
                        raise ProcessRefused(said.message, code=said.code)
                    process = RemoteProcess(connection, said.pid, partial(self._stop, operation.path))
                    async with holding(process):
                        yield process
        except NoAnswer as none:
            raise ProcessRefused(none.refusal.message, code=none.refusal.code) from None

    def _headers(self) -> list[tuple[bytes, bytes]]:
        settled = min(self._open_numbers, default=0)
        return [
            (b"authorization", f"Bearer {self._token.reveal()}".encode()),
            (SETTLED_HEADER.encode(), str(settled).encode()),
        ]

    async def snapshot(self) -> str:
        """Keep the current state of all files, if the server can.

        Returns:
            The id of the snapshot. Empty if the server gave no answer, which is not a valid id.
        """
        found = await self._ask("snapshot", SnapshotRequest(), str, lambda: None)
        return "" if isinstance(found, Refusal) else found

    async def restore(self, snapshot_id: str) -> Refusal | None:
        """Restore all files; see the port."""
        request = RestoreRequest(snapshot_id=snapshot_id)
        return await self._ask("restore", request, cast("type[Refusal]", Refusal | None), lambda: None)

    # --- operations

    async def _ask(
        self,
        name: str,
        request: WireRequest,
        kind: type[T],
        fault: Callable[[], Refusal | None],
        *,
        within_seconds: float = ANSWER_SECONDS,
    ) -> T | Refusal:
        """Request one operation and return its result, or a refusal if there is none."""
        await trio.lowlevel.checkpoint()
        try:
            body = encode_request(request)
        except UnicodeEncodeError:
            return fault() or Refusal(
                code="not_text", message="The text contains a lone surrogate, which is not valid text."
            )
        if len(body) > MAX_SANDBOX_BODY_BYTES:
            return refuse_size(len(body))
        try:
            reply = await self._operate(name, body, within_seconds)
            return (await self._decode(WireAnswer[kind], reply.body)).result  # type: ignore[valid-type]
        except NoAnswer as none:
            return none.refusal

    async def _operate(
        self, name: str, body: bytes, within_seconds: float, content_type: str = JSON_TYPE
    ) -> SandboxReply:
        """Send an operation under its own number, and wait for its end, even on cancellation."""
        async with self._operation(is_over=not SANDBOX_OPERATIONS[name].changes) as operation:
            reply = await self._connection.send(
                "POST",
                f"{operation.path}/{name}",
                body=body,
                content_type=content_type,
                headers={SETTLED_HEADER: str(min(self._open_numbers))},
                within_seconds=within_seconds,
            )
            operation.is_over = True
            return reply

    @asynccontextmanager
    async def _operation(self, *, is_over: bool = False) -> AsyncIterator[_Operation]:
        """Number an operation for a block, and stop it there unless it is over at the end of the block."""
        await self._open()
        self._last_number = number = self._last_number + 1
        self._open_numbers.add(number)
        operation = _Operation(f"/leases/{self._lease}/operations/{number}", is_over)
        try:
            yield operation
        except NoAnswer as none:
            self._note_loss(none)
            operation.is_over = operation.is_over or none.is_lost
            raise
        finally:
            if not operation.is_over:
                await self._stop(operation.path)  # noqa: ASYNC102 - shielded and bounded inside
            self._open_numbers.discard(number)

    async def _stop(self, path: str) -> None:
        """Stop an operation whose result is no longer wanted, or prevent its start.

        Cancellation: Shielded, with a time limit.
        """
        headers = {SETTLED_HEADER: str(min(self._open_numbers, default=0))}
        try:
            with trio.CancelScope(shield=True):
                reply = await self._connection.send(
                    "POST", f"{path}/stop", headers=headers, within_seconds=STOP_SECONDS
                )
            is_gone: bool = decode_as(StoppedOperation, reply.body).is_gone
        except (NoAnswer, UnreadableWire) as none:
            is_gone = isinstance(none, NoAnswer) and (self._gone or none).is_lost
        if not is_gone:
            note_left_elsewhere(self._address.shown)

    # --- the lease

    async def _open(self) -> None:
        if self._is_unopened():
            async with self._opening:
                if self._is_unopened():
                    await self._begin()
        if self._gone is not None:  # it may have been closed meanwhile
            raise self._gone

    def _is_unopened(self) -> bool:
        return self._gone is None and self._facts is None

    async def _begin(self) -> None:
        await self._prepare()
        self._was_asked = True
        reply = await self._connection.send("PUT", f"/leases/{self._lease}", within_seconds=ANSWER_SECONDS)
        facts = (await self._decode(WireAnswer[None], reply.body)).facts
        can = frozenset(facts.can)
        if self._address.can is not None and can != self._address.can:
            raise NoAnswer(_refuse_difference(self._address, can))
        self._facts = facts
        # A task of the run: a sandbox is created without a nursery, and may be idle while a model thinks.
        trio.lowlevel.spawn_system_task(
            _beat,
            weakref.ref(self),
            self._beating,
            name=f"beat of {self!r}",
            context=contextvars.copy_context(),
        )

    async def _prepare(self) -> None:
        """Provide a server. This one already exists."""

    async def beat(self) -> None:
        """Renew the lease, like every request. If the server no longer knows the workspace, the next call reports it."""
        try:
            await self._connection.send(
                "POST", f"/leases/{self._lease}/beat", within_seconds=BEAT_SECONDS, again=False
            )
        except NoAnswer as none:
            self._note_loss(none)

    def _note_loss(self, none: NoAnswer) -> None:
        if none.is_lost:
            self._gone = none

    async def _decode(self, kind: type[WireAnswer[T]], body: bytes) -> WireAnswer[T]:
        try:
            answer: WireAnswer[T]
            if len(body) > _DECODED_HERE_BYTES:
                answer = await outside.offload(decode_as, kind, body)
            else:
                answer = decode_as(kind, body)
        except UnreadableWire as error:
            raise refuse_connection(self._address, f"its answer cannot be read: {error}") from None
        if self._facts is not None:
            self._facts = answer.facts
        return answer


async def _beat(reference: "weakref.ref[RemoteSandbox]", scope: trio.CancelScope) -> None:
    with scope:
        while True:
            await trio.sleep(BEAT_SECONDS)
            sandbox = reference()
            if sandbox is None:
                return
            await sandbox.beat()
            del sandbox


def refuse_size(size_bytes: int) -> Refusal:
    """Refuse content that does not fit into one request."""
    message = f"It is {size_bytes:,} bytes, and at most {MAX_SANDBOX_BODY_BYTES:,} can be sent to a remote sandbox at a time. Send less."
    return Refusal(code="too_large", message=message)


def _refuse_difference(address: RemoteAddress, can: frozenset[str]) -> Refusal:
    said, is_so = (", ".join(sorted(one)) or "nothing" for one in (address.can or frozenset(), can))
    message = (
        f"The sandbox at {address.shown} is configured with can={said}, but its server reports {escape(is_so)}: "
        "correct the address, or the server."
    )
    return Refusal(code="unsupported", message=message)


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _fault_of_path(path: str) -> Refusal | None:
    """Return the server's refusal for a path that cannot be sent."""
    decided = None if _is_unicode(path) else decide_names(path, ())
    return decided if isinstance(decided, Refusal) else None


def _fault_of_text(path: str, content: str, looked_for: str = "") -> Refusal | None:
    fault = _fault_of_path(path)
    if fault is not None:
        return fault
    try:
        encode_text(content, escape(path))
    except PathRefused as refused:
        return refused.refusal
    if not _is_unicode(looked_for):
        return Refusal(
            code="old_not_found", message=f"The old text is not in {escape(path)}: it is not text."
        )
    return None


def _fault_of_pattern(path: str) -> Refusal:
    message = "The pattern contains a lone surrogate, which is not text."
    return _fault_of_path(path) or Refusal(code="invalid_pattern", message=message)


def _fault_of_upload(file: FileBytes) -> Refusal | None:
    if not _is_unicode(file.path):
        return _fault_of_path(file.path)
    size = len(file.content)
    return refuse_size(size) if size_of_part(size) > MAX_SANDBOX_BODY_BYTES - _ROOM_FOR_HEADS else None


def _batches(files: Sequence[tuple[int, FileBytes]]) -> list[list[tuple[int, FileBytes]]]:
    batches: list[list[tuple[int, FileBytes]]] = []
    size = 0
    for number, file in files:
        # JSON may take six bytes for one character of a path.
        own = size_of_part(len(file.content)) + 6 * len(file.path) + 3
        if (
            not batches
            or size + own > MAX_SANDBOX_BODY_BYTES - _ROOM_FOR_HEADS
            or len(batches[-1]) == MAX_FILES_AT_ONCE
        ):
            batches.append([])
            size = 0
        batches[-1].append((number, file))
        size += own
    return batches
