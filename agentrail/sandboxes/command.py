"""One command, from its start until nothing of it is left: its output, its end, and the end of all that it started."""

import os
import secrets
import subprocess
from collections.abc import Mapping
from typing import Final

import trio
from attrs import frozen

from agentrail.abc import ExecuteResult
from agentrail.sandboxes.output import MAX_OUTPUT_BYTES, OutputWindow
from agentrail.sandboxes.process_tree import GRACE_SECONDS, KILL_SECONDS, MARKER, ProcessTree

_PIECE_BYTES: Final = 65_536
_MAX_PIPE_BYTES: Final = 1 << 20  # the most that Linux lets a pipe of an ordinary user hold
_STOP_SECONDS: Final = GRACE_SECONDS + KILL_SECONDS + 1.0


@frozen(kw_only=True)
class Command:
    """What to run.

    Attributes:
        argv: The program and its arguments.
        directory: Where.
        environment: All variables that it sees, but for the marker of its processes.
        within_seconds: After this time it is stopped.
    """

    argv: tuple[str, ...]
    directory: str
    environment: Mapping[str, str]
    within_seconds: float


async def run_command(command: Command) -> ExecuteResult:
    """Run a command to its end, or to the end of its time, and stop whatever it leaves behind.

    Raises:
        OSError: The program could not be started.

    Cancellation: Stops the whole tree first, which takes about two seconds where `SIGTERM` is ignored.
    """
    # One pipe for both streams, so that their order is real. Not subprocess.PIPE: a process in the background may hold
    # the other end open, so we must be able to read what is there without waiting for more.
    reading, writing = os.pipe()
    try:
        os.set_blocking(reading, False)
        token = secrets.token_hex(16)
        try:
            process = await trio.lowlevel.open_process(
                command.argv,
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                cwd=command.directory,
                env={**command.environment, MARKER: token},
                start_new_session=True,
            )
        finally:
            os.close(writing)
        tree = ProcessTree(group=process.pid, token=token)
        return await _follow(process, tree, reading, within_seconds=command.within_seconds)
    finally:
        os.close(reading)


async def _follow(
    process: trio.Process, tree: ProcessTree, reading: int, *, within_seconds: float
) -> ExecuteResult:
    started_at = trio.current_time()
    window = OutputWindow()
    stopped: frozenset[int] = frozenset()
    async with trio.open_nursery() as nursery:
        try:
            with trio.move_on_after(within_seconds) as running:
                nursery.start_soon(_read, reading, window, running)
                code = await process.wait()
                # All that the shell and those it waited for have printed. What it left running is stopped now, and its
                # last words ("Killed") are no part of the answer.
                _drain(reading, window)
                window.close()
        finally:
            # Bounded, because a process in an uninterruptible system call outlives even SIGKILL.
            with trio.move_on_after(_STOP_SECONDS, shield=True):
                # Reaped meanwhile: where there is no /proc, a shell that is not reaped looks alive.
                async with trio.open_nursery() as reaping:
                    reaping.start_soon(process.wait)
                    stopped = await tree.stop()
        nursery.cancel_scope.cancel()
    _drain(reading, window)
    duration_ms = round((trio.current_time() - started_at) * 1000)
    if running.cancelled_caught:
        return _describe_stopped(window, duration_ms=duration_ms)
    return _describe_ended(window, code, stopped, duration_ms=duration_ms)


def _describe_stopped(window: OutputWindow, *, duration_ms: int) -> ExecuteResult:
    output, left_out_bytes = window.finish()
    if window.is_over:
        megabytes = MAX_OUTPUT_BYTES // 1_000_000
        output += f"\n[The command was stopped: it had printed more than {megabytes} MB. Print less, or into a file.]"
    return ExecuteResult(
        output=output,
        exit_code=None,
        duration_ms=duration_ms,
        truncated=left_out_bytes > 0,
        timed_out=not window.is_over,
    )


def _describe_ended(
    window: OutputWindow, code: int, stopped: frozenset[int], *, duration_ms: int
) -> ExecuteResult:
    output, left_out_bytes = window.finish()
    return ExecuteResult(
        output=output,
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,  # as subprocess has it
        duration_ms=duration_ms,
        truncated=left_out_bytes > 0,
        stopped_processes=len(stopped),
    )


async def _read(reading: int, window: OutputWindow, running: trio.CancelScope) -> None:
    """Read until the end of the pipe, or until more came than may; then whoever waits for the command stops it."""
    while not window.is_over:
        await trio.lowlevel.wait_readable(reading)
        try:
            piece = os.read(reading, _PIECE_BYTES)
        except BlockingIOError:
            continue
        if not piece:
            return
        window.feed(piece)
    running.cancel(reason="too much output")


def _drain(reading: int, window: OutputWindow) -> None:
    """Take what the pipe still holds, and no more than a pipe can hold: a process that was not found may go on."""
    for _ in range(_MAX_PIPE_BYTES // _PIECE_BYTES):
        try:
            piece = os.read(reading, _PIECE_BYTES)
        except BlockingIOError:
            return
        if not piece:
            return
        window.feed(piece)
