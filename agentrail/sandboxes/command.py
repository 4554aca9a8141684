"""One command, from its start until nothing of it is left: its output, its end, and the end of all that it started."""

import errno
import json
import os
import secrets
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol, Self

import trio
from attrs import evolve, frozen

from agentrail.abc import ExecuteResult
from agentrail.sandboxes.limits import OWN_PROCESSES
from agentrail.sandboxes.output import MAX_OUTPUT_BYTES, OutputWindow
from agentrail.sandboxes.process_tree import GRACE_SECONDS, KILL_SECONDS, MARKER, ProcessTree
from agentrail.sandboxes.spool import Spool

_PIECE_BYTES: Final = 65_536
_MAX_PIPE_BYTES: Final = 1 << 20  # the most that Linux lets a pipe of an ordinary user hold
_STOP_SECONDS: Final = GRACE_SECONDS + KILL_SECONDS + 1.0
_PREPARE_SECONDS: Final = 10.0  # bubblewrap needs two milliseconds, and more where a machine is at its limits


@frozen(kw_only=True)
class Command:
    """What to run.

    Attributes:
        argv: The program and its arguments.
        confine: Gives the call of bubblewrap that confines it, for a descriptor to which that reports; None without.
        directory: Where.
        environment: All variables that it sees, but for the marker of its processes.
        timeout_seconds: After this time it is stopped.
        output_path: What the file with the whole output is called.
        open_output: Makes that file; called at most once.
    """

    argv: tuple[str, ...]
    confine: Callable[[int], tuple[str, ...]] | None
    directory: str
    environment: Mapping[str, str]
    timeout_seconds: float
    output_path: str
    open_output: Callable[[], int]


class _Process(Protocol):
    async def wait(self) -> int: ...
    def kill(self) -> None: ...


@frozen(kw_only=True)
class _Running:
    """A command that has been started.

    Attributes:
        process: What was started by us.
        tree: All that belongs to it.
        output: Where its output is read.
        left: Where a confined command's shell says how many processes there are at the end, else None.
    """

    process: _Process
    tree: ProcessTree
    output: int
    left: int | None = None


async def run_command(command: Command) -> ExecuteResult:
    """Run a command to its end, or to the end of its time, and stop whatever it leaves behind.

    Raises:
        OSError: The program could not be started.

    Cancellation: Stops the whole tree first, which takes about two seconds where `SIGTERM` is ignored.
    """
    spool = Spool(command.open_output)
    started = _start(command) if command.confine is None else _start_confined(command, command.confine)
    try:
        async with started as running:
            return await _follow(running, command, spool)
    finally:
        spool.close()


class _Pipe:
    """A pipe whose ends are closed at the end of the block."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_writing()
        os.close(self.reading)

    def close_writing(self) -> None:
        if self.writing >= 0:
            os.close(self.writing)
        self.writing = -1


@asynccontextmanager
async def _start(command: Command) -> AsyncIterator[_Running]:
    # One pipe for both streams, so that their order is real. Not subprocess.PIPE: a process in the background may hold
    # the other end open, so we must be able to read what is there without waiting for more.
    with _Pipe() as output:
        token = secrets.token_hex(16)
        process = await trio.lowlevel.open_process(
            command.argv,
            stdin=subprocess.DEVNULL,
            stdout=output.writing,
            stderr=output.writing,
            cwd=command.directory,
            env={**command.environment, MARKER: token},
            start_new_session=True,
        )
        output.close_writing()
        yield _Running(
            process=process, tree=ProcessTree(group=process.pid, token=token), output=output.reading
        )


@asynccontextmanager
async def _start_confined(
    command: Command, confine: Callable[[int], tuple[str, ...]]
) -> AsyncIterator[_Running]:
    with _Pipe() as output, _Pipe() as info, _Pipe() as left:
        token = secrets.token_hex(16)
        # Not trio.lowlevel.open_process, which starts it from a worker thread: --die-with-parent means the thread, and
        # those end after ten idle seconds. This one runs as long as the event loop, and the start takes two milliseconds.
        process = _Child(
            subprocess.Popen(  # noqa: ASYNC220 - see above; what runs is bubblewrap
                (*confine(info.writing), "--setenv", MARKER, token, "--", *command.argv),
                stdin=left.writing,
                stdout=output.writing,
                stderr=output.writing,
                pass_fds=(info.writing,),
                env=command.environment,  # without the marker: bubblewrap itself must not be stopped gently
                start_new_session=True,
            )
        )
        for pipe in (output, info, left):
            pipe.close_writing()
        try:
            # Shielded: until this is known there is nobody to kill. `--die-with-parent` holds from the end of bubblewrap's
            # preparations on; its first process, killed parent or not, would finish them and begin the command.
            first = None
            with trio.move_on_after(_PREPARE_SECONDS, shield=True):
                first = await _read_first_pid(info.reading)
            if first is None:
                process.kill()  # unless it has ended by itself
                await process.wait()
                raise OSError(errno.EIO, _drain(output.reading).decode(errors="replace").strip())
            namespace = os.pidfd_open(first)
            try:
                # The first process leads a session of its own, in which the command begins.
                tree = ProcessTree(group=first, token=token)
                yield _Running(process=process, tree=tree, output=output.reading, left=left.reading)
            finally:
                # Ends every process of the namespace, whatever it has done to itself.
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(namespace, signal.SIGKILL)
                # Its first process has ended when all others have, and not before. Bounded like any stop.
                with trio.move_on_after(KILL_SECONDS, shield=True):
                    await trio.lowlevel.wait_readable(namespace)
                os.close(namespace)
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


class _Child:
    """A process that was not started by Trio."""

    def __init__(self, popen: "subprocess.Popen[bytes]") -> None:
        self._popen = popen

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
    """Read bubblewrap's report; None when it ended without one."""
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


async def _follow(running: _Running, command: Command, spool: Spool) -> ExecuteResult:
    started_at = trio.current_time()
    window = OutputWindow()
    code: int | None = None
    stopped: frozenset[int] = frozenset()
    async with trio.open_nursery() as nursery:
        try:
            with trio.move_on_after(command.timeout_seconds) as scope:
                nursery.start_soon(_read, running.output, window, spool, scope)
                code = await running.process.wait()
                # All that the shell and those it waited for have printed. What it left running is stopped now, and its
                # last words ("Killed") are no part of the answer.
                await spool.take(window.feed(_drain(running.output)))
                window.close()
        finally:
            # Bounded, because a process in an uninterruptible system call outlives even SIGKILL.
            with trio.move_on_after(_STOP_SECONDS, shield=True):
                # Reaped meanwhile: where there is no /proc, a shell that is not reaped looks alive.
                async with trio.open_nursery() as reaping:
                    reaping.start_soon(running.process.wait)
                    stopped = await running.tree.stop()
                    running.process.kill()
        nursery.cancel_scope.cancel()
    await spool.take(window.feed(_drain(running.output)))
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
        signal=-code if code < 0 else None,  # as subprocess has it
        stopped_processes=len(stopped) if running.left is None else _count_left(running.left),
    )


def _describe_stopped(result: ExecuteResult, window: OutputWindow) -> ExecuteResult:
    if not window.is_over:
        return evolve(result, timed_out=True)
    megabytes = MAX_OUTPUT_BYTES // 1_000_000
    note = (
        f"\n[The command was stopped: it had printed more than {megabytes} MB. Print less, or into a file.]"
    )
    return evolve(result, output=result.output + note)


def _count_left(reading: int) -> int:
    """Read how many processes there were at the end; nothing was written when the shell that counts was killed."""
    counted = _drain(reading).strip()
    return max(int(counted) - OWN_PROCESSES, 0) if counted else 0


async def _read(reading: int, window: OutputWindow, spool: Spool, running: trio.CancelScope) -> None:
    """Read until the end of the pipe, or until more came than may; then whoever waits for the command stops it."""
    while not window.is_over:
        piece = await _read_piece(reading)
        if not piece:
            return
        await spool.take(window.feed(piece))
    running.cancel(reason="too much output")


def _drain(reading: int) -> bytes:
    """Take what a pipe still holds, and no more than a pipe can hold: a process that was not found may go on."""
    taken = b""
    with suppress(BlockingIOError):
        while len(taken) < _MAX_PIPE_BYTES and (piece := os.read(reading, _PIECE_BYTES)):
            taken += piece
    return taken
