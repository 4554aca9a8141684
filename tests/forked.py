"""Modules and tests that run in a process of their own, without the half second that a fresh interpreter takes to import them.

`warm.py` is the interpreter that is forked; a process of tests starts one for each `Warm` that it uses.
"""

import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import trio
from attrs import define, frozen

from tests.warm import MAX_REQUEST_BYTES

ROOT: Final = Path(__file__).parents[1]
PATIENCE_SECONDS: Final = 30.0


@frozen(kw_only=True)
class Ran:
    code: int
    out: str
    err: str


@frozen(kw_only=True)
class Warm:
    """An interpreter that is forked for each run."""

    module: str
    imports: tuple[str, ...]
    frozen: bool = True
    patience_seconds: float = PATIENCE_SECONDS


def environment(**variables: str) -> dict[str, str]:
    """What a process sees: none of the variables of whoever runs the tests, but for where programs are."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", **variables}


async def run_forked(
    warm: Warm,
    *arguments: str,
    stdin: bytes = b"",
    variables: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
) -> Ran:
    """Run the module of this interpreter to its end, in a process that is forked off it."""
    inputs, outputs, errors = os.pipe(), os.pipe(), os.pipe()
    async with trio.open_nursery() as nursery:
        forked = _fork(warm, _request(warm, arguments, variables, cwd), (inputs[0], outputs[1], errors[1]))
        for theirs in (inputs[0], outputs[1], errors[1]):
            os.close(theirs)
        try:
            with trio.fail_after(warm.patience_seconds):
                nursery.start_soon(_feed, inputs[1], stdin)
                out, err = await _read_both(outputs[0], errors[0])
                code = await forked.wait()
        finally:
            forked.end()
    return Ran(code=code, out=out.decode(), err=err.decode())


@asynccontextmanager
async def open_forked(
    warm: Warm,
    *arguments: str,
    descriptors: tuple[int, int, int],
    session: bool = False,
    variables: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
) -> AsyncIterator["Forked"]:
    """Run the module and leave it to the test; it is gone at the end. Its interpreter is taken apart like any other."""
    request = _request(warm, arguments, variables, cwd) | {"session": session, "to_the_end": True}
    forked = _fork(warm, request, descriptors)
    try:
        with trio.fail_after(warm.patience_seconds):
            yield forked
    finally:
        forked.end()


@define
class Forked:
    """A process that was forked, as far as a test needs one: it has the names of `trio.Process`."""

    pid: int
    _forks: socket.socket
    stdout: trio.lowlevel.FdStream | None = None
    stderr: trio.lowlevel.FdStream | None = None
    returncode: int | None = None

    async def wait(self) -> int:
        if self.returncode is None:
            await trio.lowlevel.wait_readable(self._forks)
            self._hear()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def end(self) -> None:
        """Kill it if it runs, and hear that it ended, so that the next run is not told of it."""
        if self.returncode is None:
            self.send_signal(signal.SIGKILL)
            self._hear()

    def _hear(self) -> None:
        self.returncode = int(self._forks.recv(MAX_REQUEST_BYTES))


def _request(
    warm: Warm, arguments: Sequence[str], variables: Mapping[str, str] | None, cwd: Path
) -> dict[str, Any]:
    return {
        "module": warm.module,
        "arguments": arguments,
        "cwd": str(cwd),
        "environment": environment(**(variables or {})),
        "session": False,
        "to_the_end": False,
    }


def _fork(warm: Warm, request: Mapping[str, Any], descriptors: tuple[int, int, int]) -> Forked:
    packed = json.dumps(request).encode()
    assert len(packed) <= MAX_REQUEST_BYTES
    forks = _start(warm.imports, is_frozen=warm.frozen)
    socket.send_fds(forks, [packed], list(descriptors))
    return Forked(pid=int(forks.recv(MAX_REQUEST_BYTES)), forks=forks)


def in_a_process(test: Callable[..., None]) -> Callable[..., Coroutine[Any, Any, None]]:
    """Let a test run in a process that has imported its file, and nothing of the other tests; its parameters are literals."""
    warm = Warm(module="tests.call", imports=(test.__module__,), frozen=False)

    @functools.wraps(test)
    async def run(**arguments: Any) -> None:
        ran = await run_forked(warm, test.__module__, test.__name__, repr(arguments))
        assert ran.code == 0, ran.err

    return run


async def _feed(descriptor: int, data: bytes) -> None:
    async with trio.lowlevel.FdStream(descriptor) as stream:
        with suppress(trio.BrokenResourceError):  # it does not read what it is given
            await stream.send_all(data)


async def _read_both(*descriptors: int) -> list[bytes]:
    read = [b""] * len(descriptors)

    async def drain(place: int, descriptor: int) -> None:
        async with trio.lowlevel.FdStream(descriptor) as stream:
            read[place] = b"".join([piece async for piece in stream])

    async with trio.open_nursery() as nursery:
        for place, descriptor in enumerate(descriptors):
            nursery.start_soon(drain, place, descriptor)
    return read


@functools.cache
def _start(imports: tuple[str, ...], *, is_frozen: bool) -> socket.socket:
    """Start the interpreter that forks, once for all runs; it ends when this process closes its end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.warm", str(theirs.fileno())),
                *("frozen" if is_frozen else "as it is", *imports),
            ],
            cwd=ROOT,
            env=environment(),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
    atexit.register(process.wait)  # called last: what is registered behind it is called before it
    atexit.register(ours.close)
    return ours
