"""One command, from its start until all its processes have ended: its output, its end, and the end of its processes."""

import errno
import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from typing import Final, Literal, Protocol, Self, TypeAlias

import trio
from attrs import define, evolve, field, frozen

from agentrail import outside
from agentrail.abc import ExecuteResult
from agentrail.core.values.terminal_text import PrintedText
from agentrail.orphaned_processes import MARKER, current_list, own_pid
from agentrail.process_account import note_started, note_stopped
from agentrail.sandboxes.bubblewrap import CALL_FILTER, Confining
from agentrail.sandboxes.process_tree import GRACE_SECONDS, KILL_SECONDS, ProcessTree, StoppedTree

# The first and last part of a long output, cleaned for a model.
#
# Bytes in, text out, without reading or awaiting.

MAX_SHOWN_LINES: Final = 2_000
MAX_SHOWN_BYTES: Final = 50_000
MAX_OUTPUT_BYTES: Final = 64_000_000
"""Output limit, after which the command is stopped."""

_HEAD_SHARE: Final = 0.2  # the end shows the outcome, and the beginning the subject
_HEAD_LINES: Final = int(MAX_SHOWN_LINES * _HEAD_SHARE)
_HEAD_BYTES: Final = int(MAX_SHOWN_BYTES * _HEAD_SHARE)
_TAIL_LINES: Final = MAX_SHOWN_LINES - _HEAD_LINES
_TAIL_BYTES: Final = MAX_SHOWN_BYTES - _HEAD_BYTES
_KEPT_BYTES: Final = 4 * MAX_SHOWN_BYTES


class OutputWindow:
    """Collects the output of a command in pieces. Holds a few hundred kilobytes at most."""

    def __init__(self) -> None:
        self._text = PrintedText()
        self._head = b""
        self._tail = bytearray()
        self._dropped_lines = 0
        self._dropped_bytes = 0
        self._is_closed = False
        self.received_bytes: int = 0

    @property
    def is_over(self) -> bool:
        return self.received_bytes > MAX_OUTPUT_BYTES

    def feed(self, piece: bytes) -> bytes:
        """Add the next bytes. Ignored after `close`."""
        if self._is_closed:
            return b""
        self.received_bytes += len(piece)
        return self._keep(self._text.read(piece))

    def close(self) -> None:
        """Discard further output. It is still read, so that no process blocks on a full pipe."""
        self._is_closed = True

    def finish(self, path: str | None = None) -> tuple[str, int]:
        """Return the text and its counts. Call this after the end of the output."""
        self._keep(self._text.finish())
        kept = self._head + self._tail
        lines = kept.count(b"\n") + (not kept.endswith(b"\n"))
        if not self._dropped_bytes and len(kept) <= MAX_SHOWN_BYTES and lines <= MAX_SHOWN_LINES:
            return kept.decode(), 0
        # If nothing has been dropped yet, `_head` may be empty, and the beginning is in `_tail`.
        head = first_part(self._head or bytes(self._tail))
        tail = last_part(bytes(self._tail))
        left_out_bytes = len(kept) + self._dropped_bytes - len(head) - len(tail)
        left_out_lines = kept.count(b"\n") + self._dropped_lines - head.count(b"\n") - tail.count(b"\n")
        left_out = f"{left_out_lines:,} lines" if left_out_lines else f"{left_out_bytes:,} bytes"
        before = head.decode(errors="ignore")  # a cut in the middle of a character leaves half of it
        after = tail.decode(errors="ignore")
        seam = "" if before.endswith("\n") else "\n"
        where = f"; full output in {path}, read it with read_file" if path else ""
        return f"{before}{seam}[… {left_out} left out{where} …]\n{after}", left_out_bytes

    def _keep(self, text: str) -> bytes:
        data = text.encode()
        self._tail += data
        if len(self._tail) > _KEPT_BYTES:
            if not self._head:
                self._head = first_part(bytes(self._tail))
                del self._tail[: len(self._head)]
            surplus = len(self._tail) - 2 * MAX_SHOWN_BYTES
            self._dropped_lines += self._tail.count(b"\n", 0, surplus)
            self._dropped_bytes += surplus
            del self._tail[:surplus]
        return data


def first_part(data: bytes) -> bytes:
    """Return the beginning, up to 20 % of the shown size: whole lines, or part of one that is longer."""
    end = 0
    for _ in range(_HEAD_LINES):
        end = data.find(b"\n", end) + 1
        if end == 0 or end > _HEAD_BYTES:
            return data[: data.rfind(b"\n", 0, _HEAD_BYTES) + 1 or _HEAD_BYTES]
    return data[:end]


def last_part(data: bytes) -> bytes:
    """Return the end, up to 80 % of the shown size: whole lines, or part of one that is longer."""
    earliest = max(len(data) - _TAIL_BYTES, 0)
    start = len(data) - data.endswith(b"\n")
    for _ in range(_TAIL_LINES):
        start = data.rfind(b"\n", earliest, start)
        if start < 0:
            # The limit is in bytes. One byte earlier, because a line may start exactly there.
            begin = data.find(b"\n", earliest - 1, -1) + 1 if earliest else 0
            return data[begin or earliest :]
    return data[start + 1 :]


# The whole output, in a file once it is too long to be shown.


class Spool:
    """Takes text in pieces, and creates a file if there is more than can be shown."""

    def __init__(self, open_file: Callable[[], int]) -> None:
        self._open_file = open_file
        self._waiting: list[bytes] = []
        self._bytes = self._lines = 0
        self._descriptor: int | None = None
        self._is_broken = False
        self._writing = trio.Lock()

    @property
    def has_all(self) -> bool:
        return self._descriptor is not None and not self._is_broken

    async def take(self, text: bytes) -> None:
        """Add the next piece.

        Cancellation: Takes effect when the piece is written, or before it is started.
        """
        if self._is_broken or not text:
            return
        self._waiting.append(text)
        self._bytes += len(text)
        self._lines += text.count(b"\n")
        if self._bytes > MAX_SHOWN_BYTES or self._lines > MAX_SHOWN_LINES:
            async with self._writing:
                waiting, self._waiting = self._waiting, []
                await outside.offload(self._write, b"".join(waiting))

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def _write(self, text: bytes) -> None:
        try:
            if self._descriptor is None:
                self._descriptor = self._open_file()
            left = memoryview(text)
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:  # no space or no permission: then there is no file, and the answer names none
            self._is_broken = True


# The command.

_PIECE_BYTES: Final = 65_536
_MAX_PIPE_BYTES: Final = 1 << 20  # the largest pipe that Linux allows an ordinary user
_STOP_SECONDS: Final = GRACE_SECONDS + KILL_SECONDS + 1.0


@frozen(kw_only=True)
class Program:
    """A program to start.

    Attributes:
        confine: The call of bubblewrap that confines it. None without.
        environment: All its variables, except the marker of its processes.
        prepare_seconds: Time limit for bubblewrap to start it. It needs two milliseconds, and more on a machine at its
            limits.
    """

    argv: tuple[str, ...]
    confine: Confining | None
    directory: str
    environment: Mapping[str, str]
    prepare_seconds: float = 10.0


@frozen(kw_only=True)
class CommandRun:
    """A command to run to its end.

    Attributes:
        open_output: Creates that file. Called at most once.
    """

    program: Program
    timeout_seconds: float
    output_path: str
    open_output: Callable[[], int]


ErrorOutput: TypeAlias = Literal["merged", "dropped", "apart"]
"""Destination of a process's standard error: its output, nothing, or a pipe of its own."""


class _Process(Protocol):
    async def wait(self) -> int: ...
    def kill(self) -> None: ...


@frozen(kw_only=True)
class _Running:
    process: _Process
    tree: ProcessTree

    async def stop(self) -> StoppedTree:
        """End all its processes. With a time limit, because a process in an uninterruptible system call outlives even SIGKILL."""
        stopped = StoppedTree()
        with trio.move_on_after(_STOP_SECONDS, shield=True):
            # Reaped meanwhile: without /proc, an unreaped shell looks alive.
            async with trio.open_nursery() as reaping:
                reaping.start_soon(self.process.wait)
                stopped = await self.tree.stop()
                ended = len(stopped.found) - len(stopped.found & stopped.left)
                note_stopped(self.tree.group, ended=ended, left=stopped.left)
                if (of_run := current_list()) is not None and not stopped.left:
                    of_run.ended(self.tree.group, self.tree.token)
                self.process.kill()
        return stopped


@frozen
class _Ends:
    """A program's standard streams: descriptors that we also hold until it has started, and the end where we read its output."""

    stdin: int
    output: int
    errors: int
    reading: int


async def run_command(command: CommandRun) -> ExecuteResult:
    """Run a command until its end or its time limit, and stop all processes that it leaves behind.

    Cancellation: Stops the whole tree first, which takes about two seconds if `SIGTERM` is ignored.
    """
    spool = Spool(command.open_output)
    # One pipe for both streams, to keep their order. Not subprocess.PIPE: a background process may hold the other end open, so
    # we must be able to read the available bytes without waiting for more.
    with _Pipe() as output, _Ending() as ending:
        is_confined = command.program.confine is not None
        stdin = ending.theirs.fileno() if is_confined else subprocess.DEVNULL
        ends = _Ends(stdin, output.writing, output.writing, output.reading)
        try:
            async with _start(command.program, ends) as running:
                _note_started(running.tree)
                output.close_writing()
                ending.theirs.close()
                outlets = _Outlets(output.reading, ending if is_confined else None, spool)
                return await _follow(running, command, outlets)
        finally:
            spool.close()


@asynccontextmanager
async def open_process(program: Program, *, errors: ErrorOutput) -> AsyncIterator["OpenedProcess"]:
    """Open a process with a pipe in each direction. Leaving the block stops it and all its descendants."""
    with _Pipe() as to_it, _Pipe() as from_it, _Pipe() as errors_of_it:
        places = {
            "merged": from_it.writing,
            "dropped": subprocess.DEVNULL,
            "apart": errors_of_it.writing,
        }
        ends = _Ends(to_it.reading, from_it.writing, places[errors], from_it.reading)
        stdin, stdout, stderr = (
            trio.lowlevel.FdStream(to_it.give_writing()),
            trio.lowlevel.FdStream(from_it.give_reading()),
            trio.lowlevel.FdStream(errors_of_it.give_reading()),
        )
        try:
            async with _start(program, ends) as running:
                _note_started(running.tree)
                to_it.close_reading()
                from_it.close_writing()
                errors_of_it.close_writing()
                opened = OpenedProcess(running, stdin, stdout, stderr)
                try:
                    yield opened
                finally:
                    await opened.stop()  # noqa: ASYNC102 - shielded and bounded inside
        finally:
            await close_all(stdin, stdout, stderr)  # noqa: ASYNC102 - closed on cancellation too


async def close_all(*streams: trio.lowlevel.FdStream) -> None:
    """Close our ends. Idempotent."""
    with trio.CancelScope(shield=True):  # a checkpoint each, without any wait
        for stream in streams:
            await stream.aclose()


@define(eq=False)
class OpenedProcess:
    """An open process.

    Attributes:
        stderr: Standard error, at its end at once unless the process was opened with `apart`.
    """

    _running: _Running
    stdin: trio.lowlevel.FdStream
    stdout: trio.lowlevel.FdStream
    stderr: trio.lowlevel.FdStream
    _stopping: trio.Lock = field(init=False, factory=trio.Lock)
    _is_stopped: bool = field(init=False, default=False)

    @property
    def pid(self) -> int:
        """The first process of its tree."""
        return self._running.tree.group

    async def wait(self) -> int:
        """Wait for its end, and return its exit code.

        Cancellation: Only the wait ends.
        """
        return await self._running.process.wait()

    async def ask_to_leave(self) -> None:
        """Close its input, and wait up to two seconds for its end.

        Its output is read meanwhile: a process that is stuck in a write reads no end of file. No other task may read it.

        Cancellation: Shielded, with a time limit.
        """
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as reading:
                reading.start_soon(_read_off, self.stdout)
                reading.start_soon(_read_off, self.stderr)
                async with outside.process_turns("leaving"):
                    await self.stdin.aclose()
                    with trio.move_on_after(_TURN_SECONDS):
                        await self._running.process.wait()
                with trio.move_on_after(GRACE_SECONDS - _TURN_SECONDS):
                    await self._running.process.wait()
                reading.cancel_scope.cancel(reason="the process has ended, or is stopped now")

    async def stop(self) -> None:
        """End it and all its descendants.

        Cancellation: Shielded, with a time limit.
        """
        with trio.CancelScope(shield=True):  # `_Running.stop` has the limit
            async with self._stopping:
                if not self._is_stopped:
                    self._is_stopped = True
                    await self._running.stop()
            await close_all(self.stdin, self.stdout, self.stderr)


_TURN_SECONDS: Final = 0.05
"""Time after which a process that has not left yet lets the next one leave."""


async def _read_off(stream: trio.lowlevel.FdStream) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while await stream.receive_some(_PIECE_BYTES):
            pass


class NotBegun(OSError):
    """Bubblewrap ended before the program started.

    Attributes:
        code: Its exit code. None if it was ended because it took too long.
    """

    def __init__(self, code: int | None, said: str) -> None:
        super().__init__(errno.EIO, said.strip() or "bubblewrap ended before it started the command")
        self.code: int | None = code
        self.said: str = said


async def try_program(program: Program) -> tuple[int, str]:
    """Start a confined program, and return its exit code and output.

    Cancellation: All processes are ended first. If killed a moment too early, bubblewrap would leave a process that waits
        indefinitely.
    """
    with _Pipe() as output:
        ends = _Ends(subprocess.DEVNULL, output.writing, output.writing, output.reading)
        async with _start(program, ends) as running:
            code = await running.process.wait()
        return code, _drain(output.reading).decode(errors="replace")


class _Pipe:
    """A pipe whose ends are closed at the end of the block."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_writing()
        self.close_reading()

    def give_reading(self) -> int:
        """Hand over our end. Only for a pipe from a program."""
        given, self.reading = self.reading, -1
        return given

    def give_writing(self) -> int:
        """Hand over our end. Only for a pipe to a program, whose own end is blocking, as it expects."""
        os.set_blocking(self.reading, True)
        os.set_blocking(self.writing, False)
        given, self.writing = self.writing, -1
        return given

    def close_reading(self) -> None:
        if self.reading >= 0:
            os.close(self.reading)
        self.reading = -1

    def close_writing(self) -> None:
        if self.writing >= 0:
            os.close(self.writing)
        self.writing = -1


def _note_started(tree: ProcessTree) -> None:
    note_started(tree.group)
    if (of_run := current_list()) is not None:
        of_run.started(tree.group, tree.token)


@contextmanager
def _noting(mark: str) -> Iterator[None]:
    """Record a mark before a process with it exists: a crash right after the start must leave none behind."""
    of_run = current_list()
    if of_run is not None:
        of_run.started(own_pid(), mark)
    try:
        yield
    finally:
        if of_run is not None:
            of_run.ended(own_pid(), mark)


def _start(program: Program, ends: _Ends) -> AbstractAsyncContextManager[_Running]:
    if program.confine is None:
        return _start_unconfined(program, ends)
    return _start_confined(program, program.confine, ends)


@asynccontextmanager
async def _start_unconfined(program: Program, ends: _Ends) -> AsyncIterator[_Running]:
    token = outside.ids(16)
    with _noting(token):
        process = await outside.processes().open(
            program.argv,
            stdin=ends.stdin,
            stdout=ends.output,
            stderr=ends.errors,
            cwd=program.directory,
            env={**program.environment, MARKER: token},
            start_new_session=True,
        )
    yield _Running(process=process, tree=ProcessTree(group=process.pid, token=token))


@asynccontextmanager
async def _start_confined(program: Program, confine: Confining, ends: _Ends) -> AsyncIterator[_Running]:
    token = outside.ids(16)
    own = f"{token}-bubblewrap"  # apart from the command's: to end bubblewrap with SIGTERM would kill the command at once
    with _Pipe() as info, ExitStack() as files, _noting(own):
        passed = [info.writing, *confine.descriptors]
        options = [*confine.options, "--info-fd", str(info.writing)]
        if confine.call_filter is not None:
            passed.append(files.enter_context(_in_memory(confine.call_filter)))
            options += [CALL_FILTER, str(passed[-1])]
        for name, value in {**program.environment, MARKER: token}.items():
            options += ["--setenv", name, value]
        # In a file rather than arguments, which every user of the machine may read: variables may contain keys.
        passed.append(files.enter_context(_in_memory(_join_options(options))))
        # Not trio.lowlevel.open_process, which starts it from a worker thread. --die-with-parent refers to that thread, and worker
        # threads end after ten idle seconds. The event loop's thread lives long enough, and the start takes two milliseconds.
        process = _Child(
            outside.processes().start(
                (confine.program, "--args", str(passed[-1]), "--", *program.argv),
                stdin=ends.stdin,
                stdout=ends.output,
                stderr=ends.errors,
                pass_fds=passed,
                env={MARKER: own},  # no other variable can influence bubblewrap, which runs outside
                start_new_session=True,
            )
        )
        info.close_writing()
        try:
            # Shielded: before this is known there is no process to kill. `--die-with-parent` applies only after bubblewrap's
            # preparations. Its first process would finish them and start the command even if its parent was killed.
            first = None
            with trio.move_on_after(program.prepare_seconds, shield=True) as preparing:
                first = await _read_first_pid(info.reading)
            if first is None:
                # Also its first process, which would wait indefinitely, or start the command.
                with trio.CancelScope(shield=True):
                    await ProcessTree(group=process.pid, token=own).stop()
                    code = await process.wait()
                said = _drain(ends.reading).decode(errors="replace")
                raise NotBegun(None if preparing.cancelled_caught else code, said)
            namespace = os.pidfd_open(first)
            try:
                # The first process leads its own session, in which the command starts.
                tree = ProcessTree(group=first, token=token)
                yield _Running(process=process, tree=tree)
            finally:
                # Ends every process of the namespace, whatever it has done to itself.
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(namespace, signal.SIGKILL)
                # Its first process ends only after all others have ended. With a time limit, like any stop.
                with trio.move_on_after(KILL_SECONDS, shield=True):
                    await trio.lowlevel.wait_readable(namespace)
                os.close(namespace)
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


class _Ending:
    """The channel on which a confined command's shell reports the end of the command, and waits for permission to end.

    A socket pair, because every process that may inspect the shell in `/proc` can open a pipe, but not a socket.
    """

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair()
        self._ours.setblocking(False)  # noqa: FBT003 - its one argument

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.close()
        self.theirs.close()

    async def wait(self) -> None:
        await trio.lowlevel.wait_readable(self._ours)

    def give_leave(self) -> None:
        """Let the shell end. Idempotent."""
        with suppress(OSError):
            self._ours.shutdown(socket.SHUT_WR)


@contextmanager
def _in_memory(content: bytes) -> Iterator[int]:
    descriptor = os.memfd_create("agentrail")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def _join_options(options: Iterable[str]) -> bytes:
    encoded = [os.fsencode(option) for option in options]
    if any(b"\0" in option for option in encoded):
        message = "embedded null byte"  # the message of subprocess
        raise ValueError(message)
    return b"".join(option + b"\0" for option in encoded)


class _Child:
    """A process that was not started by Trio."""

    def __init__(self, popen: outside.ChildProcess) -> None:
        self._popen, self.pid = popen, popen.pid

    async def wait(self) -> int:
        descriptor = os.pidfd_open(self._popen.pid) if self._popen.poll() is None else -1
        if descriptor >= 0:
            try:
                await trio.lowlevel.wait_readable(descriptor)
            finally:
                os.close(descriptor)
        return self._popen.wait()

    def kill(self) -> None:
        self._popen.kill()


async def _read_first_pid(reading: int) -> int | None:
    """Read bubblewrap's report. None if it ended without one."""
    report = b""
    while piece := await _read_piece(reading):
        report += piece
    try:
        return int(json.loads(report)["child-pid"])
    except ValueError:
        return None


async def _read_piece(reading: int) -> bytes:
    while True:
        await trio.lowlevel.wait_readable(reading)
        with suppress(BlockingIOError):
            return os.read(reading, _PIECE_BYTES)


@frozen
class _Outlets:
    """The outputs of a command.

    Attributes:
        ending: The channel on which a confined command's shell reports the end of the command, otherwise None.
    """

    output: int
    ending: "_Ending | None"
    spool: Spool


async def _follow(running: _Running, command: CommandRun, outlets: _Outlets) -> ExecuteResult:
    started_at = trio.current_time()
    window, spool = OutputWindow(), outlets.spool
    code: int | None = None
    left = 0
    stopped = StoppedTree()
    async with trio.open_nursery() as nursery:
        try:
            with trio.move_on_after(command.timeout_seconds) as scope:
                nursery.start_soon(_read, outlets.output, window, spool, scope)
                if outlets.ending is None:
                    code = await running.process.wait()
                else:
                    await outlets.ending.wait()
                # The output of the shell and the processes it waited for. Background processes are stopped now, and their last output
                # ("Killed") is not part of the answer.
                await spool.take(window.feed(_drain(outlets.output)))
                window.close()
                if outlets.ending is not None:
                    # Counted from here, while the shell waits: a number from the shell itself could be forged.
                    left = max(await running.tree.count_below() - 1, 0)
                    outlets.ending.give_leave()
                    code = await running.process.wait()
        finally:
            if outlets.ending is not None:
                outlets.ending.give_leave()
            stopped = await running.stop()  # noqa: ASYNC102 - shielded and bounded inside
        nursery.cancel_scope.cancel()
    await spool.take(window.feed(_drain(outlets.output)))
    output, left_out_bytes = window.finish(command.output_path if spool.has_all else None)
    result = ExecuteResult(
        output=output,
        duration_ms=round((trio.current_time() - started_at) * 1000),
        truncated=left_out_bytes > 0,
        output_path=command.output_path if spool.has_all else None,
    )
    if scope.cancelled_caught or code is None:
        return _describe_stopped(result, window)
    return evolve(
        result,
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,  # the same as in subprocess
        stopped_processes=len(stopped.found) if outlets.ending is None else left,
    )


def _describe_stopped(result: ExecuteResult, window: OutputWindow) -> ExecuteResult:
    if not window.is_over:
        return evolve(result, timed_out=True)
    megabytes = MAX_OUTPUT_BYTES // 1_000_000
    note = f"\n[The command was stopped: it had printed more than {megabytes} MB. Print less, or redirect it into a file.]"
    return evolve(result, output=result.output + note)


async def _read(reading: int, window: OutputWindow, spool: Spool, running: trio.CancelScope) -> None:
    """Read until the end of the pipe, or until the output limit. Then the task that waits for the command stops it."""
    while not window.is_over:
        piece = await _read_piece(reading)
        if not piece:
            return
        await spool.take(window.feed(piece))
    running.cancel(reason="too much output")


def _drain(reading: int) -> bytes:
    """Read the bytes still in a pipe, at most its capacity: a process that was not found may continue writing."""
    taken = b""
    with suppress(BlockingIOError):
        while len(taken) < _MAX_PIPE_BYTES and (piece := os.read(reading, _PIECE_BYTES)):
            taken += piece
    return taken
