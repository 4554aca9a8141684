"""`agentrail serve --nodes`: starts the processes of `node_processes.py`, starts those again that end, and ends all of them with itself."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

import trio
from attrs import define, field

from agentrail import outside
from agentrail.actors.deferred_error import Kept
from agentrail.cli.ctrl_c import stop_signals
from agentrail.cli.exit_codes import Exit
from agentrail.cli.node_processes import (
    NodeProcess,
    ProcessHistory,
    decide_restart,
    describe_end,
    settings_of_server,
)
from agentrail.cli.stdio import DESCRIPTORS, write_all, write_error
from agentrail.stores.postgres_private import PrivatePostgres, open_private_postgres

NODE_VARIABLE: Final = "AGENTRAIL_NODE_OF"
"""Variable of a node's process: the URL of the private PostgreSQL, or nothing if the store is named otherwise."""

NODE_STOP_SECONDS: Final = 40.0
"""Time limit for the stop of a node. A server needs 10 s to drain and 30 s to close."""

_LOOK_SECONDS: Final = 0.2
_LAST_OUTPUT_SECONDS: Final = 0.5
_POLITE_SECONDS: Final = 2.0
_ORPHAN_SECONDS: Final = 20.0


@define(eq=False, repr=False)
class ServedNodes:
    """The processes of one command.

    Attributes:
        code: Exit code of the command.
    """

    _processes: tuple[NodeProcess, ...]
    _private: Path | None
    _environ: Mapping[str, str]
    code: Exit = field(init=False, default=Exit.DONE)
    _starting: trio.CancelScope = field(init=False, factory=trio.CancelScope)
    _stopped: trio.Event = field(init=False, factory=trio.Event)
    _running: dict[int, trio.Process] = field(init=False, factory=dict)
    _addresses: dict[str, str] = field(init=False, factory=dict)
    _is_told: bool = field(init=False, default=False)
    _output: Kept = field(init=False, factory=Kept)

    async def run(self) -> Exit:
        """Serve until a signal, or until a process ends too often.

        Raises:
            OptionError, StoreInUse, StoreUnavailable: The private PostgreSQL cannot be started.
            OutputClosed, OutputFailed: The addresses cannot be printed.
        """
        failure = Kept()
        with trio.open_signal_receiver(signal.SIGINT, *stop_signals()) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._obey, signals)
                nursery.start_soon(self._kill_late)
                with failure:
                    await self._serve()
                nursery.cancel_scope.cancel(reason="the nodes have ended")
        failure.release()
        self._output.release()
        write_error("stopped.")
        return self.code

    async def _obey(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            name = signal.Signals(number).name
            write_error(f"{name}: stopping all nodes. A second signal does not wait for running calls.")
            self._end_all(Exit.DONE)

    async def _kill_late(self) -> None:
        await self._stopped.wait()
        await trio.sleep(NODE_STOP_SECONDS)
        for process in self._running.values():
            process.kill()

    def _end_all(self, code: Exit) -> None:
        if not self._stopped.is_set():
            self.code = code
            self._stopped.set()
            self._starting.cancel(reason="told to stop")
        for process in self._running.values():
            process.terminate()

    async def _serve(self) -> None:
        async with AsyncExitStack() as stack:
            server = None
            with self._starting:
                if self._private is not None:
                    server = await self._open_server(self._private, stack)
            if self._stopped.is_set():
                return
            async with trio.open_nursery() as nursery:
                if server is not None:
                    nursery.start_soon(self._keep_server, server)
                for one in self._processes:
                    nursery.start_soon(self._keep, one, "" if server is None else server.url_of())

    async def _open_server(self, directory: Path, stack: AsyncExitStack) -> PrivatePostgres:
        from agentrail.stores.postgres_schema import migrate

        settings = settings_of_server(len(self._processes))
        server = await stack.enter_async_context(
            open_private_postgres(directory, self._environ, settings=settings)
        )
        await outside.offload(migrate, server.url_of())
        write_error(f"PostgreSQL runs in {directory}, for --store {server.url_of()!r}.")
        return server

    async def _keep_server(self, server: PrivatePostgres) -> None:
        """Start PostgreSQL again if it ends. The nodes wait for it meanwhile."""
        history, started = ProcessHistory(), trio.current_time()
        while not await self._stops_within(_LOOK_SECONDS):
            if (code := server.exit_code) is not None:
                history, decision = self._decide("PostgreSQL", history, started, code=code)
                if isinstance(decision, Exit) or await self._stops_within(decision):
                    return
                server.start()
                started = trio.current_time()

    async def _keep(self, one: NodeProcess, url: str) -> None:
        history = ProcessHistory()
        while not self._stopped.is_set():
            started = trio.current_time()
            code = await self._run_once(one, url)
            if self._stopped.is_set():
                return
            history, decision = self._decide(one.name, history, started, code=code)
            if isinstance(decision, Exit) or await self._stops_within(decision):
                return

    def _decide(
        self, name: str, history: ProcessHistory, started: float, *, code: int
    ) -> tuple[ProcessHistory, float | Exit]:
        now = trio.current_time()
        after, decision = decide_restart(
            history,
            code=code,
            has_served=name in self._addresses,
            ran_seconds=now - started,
            now=now,
            draw=outside.jitter(),
        )
        write_error(f"{describe_end(name, code, decision)}.")
        if isinstance(decision, Exit):
            self._end_all(decision)
        return after, decision

    async def _stops_within(self, seconds: float) -> bool:
        with trio.move_on_after(seconds):
            await self._stopped.wait()
        return self._stopped.is_set()

    async def _run_once(self, one: NodeProcess, url: str) -> int:
        # In a session of its own: Ctrl-C reaches only this process, which passes it on. A pipe as stdin ends when this process does, even by SIGKILL.
        process = await outside.processes().open(
            [sys.executable, "-P", "-m", "agentrail", *one.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**self._environ, NODE_VARIABLE: url},
            start_new_session=True,
        )
        self._running[one.number] = process
        try:
            if self._stopped.is_set():  # while it was started
                process.terminate()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._hear, one, process)
                nursery.start_soon(_pass_on, one.name, process)
                code = await process.wait()
                # What it left behind may have its output open.
                nursery.cancel_scope.deadline = trio.current_time() + _LAST_OUTPUT_SECONDS
        finally:
            process.kill()
            del self._running[one.number]
        return code

    async def _hear(self, one: NodeProcess, process: trio.Process) -> None:
        assert process.stdout is not None  # noqa: S101 - a pipe was requested
        async for said in process.stdout:
            address = self._addresses[one.name] = said.decode()
            write_error(f"{one.name} answers at {address.strip()}, process {process.pid}.")
            if len(self._addresses) == len(self._processes) and not self._is_told:
                self._is_told = True
                with self._output:
                    write_all(
                        DESCRIPTORS["out"],
                        "".join(self._addresses[one.name] for one in self._processes).encode(),
                    )
                if self._output.error is not None:
                    self._end_all(Exit.FAILED)


async def _pass_on(name: str, process: trio.Process) -> None:
    """Copy the stderr of a node, with its name before each line."""
    assert process.stderr is not None  # noqa: S101 - a pipe was requested
    line = b""
    async for piece in process.stderr:
        *lines, line = (line + piece).split(b"\n")
        write_all(DESCRIPTORS["err"], b"".join(f"{name}: ".encode() + one + b"\n" for one in lines))
    if line:
        write_all(DESCRIPTORS["err"], f"{name}: ".encode() + line + b"\n")


async def end_with_parent() -> None:
    """Stop this process, which is a node, when the one that started it ends, even by SIGKILL: stdin is a pipe from it."""
    await trio.lowlevel.wait_readable(0)
    outside.watchdog(_ORPHAN_SECONDS, partial(os.kill, os.getpid(), signal.SIGKILL))
    signal.raise_signal(signal.SIGTERM)
    await trio.sleep(_POLITE_SECONDS)
    signal.raise_signal(signal.SIGTERM)
