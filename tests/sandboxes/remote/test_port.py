"""A sandbox elsewhere keeps to the port, unchanged; and so does a process in it that is talked to while it runs."""

import json
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from agentrail.abc import ExecuteOptions, ProcessOptions
from agentrail.errors import ProcessRefused
from agentrail.gateway.sandboxes.lease_directories import open_local_workspace
from agentrail.process_account import ProcessAccount, keep_account
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.sandboxes.remote.client import RemoteSandbox
from agentrail.sandboxes.remote.connection import Connection, SandboxReply
from agentrail.testing.check_sandbox import check_sandbox
from agentrail.testing.orphans import no_orphans
from tests.sandboxes.remote.rig import OTHER_TOKEN, serving


@pytest.mark.check
async def test_a_directory_elsewhere_keeps_to_the_port():
    """`check_sandbox` passes as it stands, over a connection, commands included."""
    async with serving(partial(open_local_workspace, shell_fallback="unconfined")) as served:
        await check_sandbox(served.make)
        assert not served.leases


async def test_memory_elsewhere_keeps_to_the_port():
    """With snapshots, and without commands, as its address says."""
    async with serving() as served:
        await check_sandbox(lambda: served.make("?can=snapshot"))


unconfined = partial(open_local_workspace, shell_fallback="unconfined")
TALKS = ProcessOptions(env={"GREETING": "hello"})


@pytest.mark.check
async def test_a_process_elsewhere_waits_for_the_reader_of_its_output():
    """As at a full pipe: what no one reads is not collected without a bound, and is read later."""
    size = 20_000_000
    async with no_orphans(), serving(unconfined) as served:
        sandbox = served.make()
        async with sandbox.open_process(["head", "-c", f"{size}", "/dev/zero"], TALKS) as process:
            with trio.move_on_after(3) as scope:
                await process.wait()
            assert scope.cancelled_caught
            assert sum([len(piece) async for piece in process.stdout]) == size
            assert await process.wait() == 0
        await sandbox.aclose()


@pytest.mark.check
async def test_a_process_elsewhere_is_talked_to_while_it_runs():
    """It reads, prints, ends with its code, and does not outlive its block; where there are none, and where it cannot be started, that is said."""
    async with no_orphans():
        async with serving(unconfined) as served:
            sandbox = served.make()
            script = 'echo "$GREETING"; while read line; do echo "<$line>"; done; exit 7'
            async with sandbox.open_process(["sh", "-c", script], TALKS) as process:
                assert process.pid > 0
                await process.stdin.send_all(b"one\n" + b"x" * 100_000 + b"\n")
                await process.stdin.aclose()
                said = b"".join([piece async for piece in process.stdout])
                assert said == b"hello\n<one>\n<" + b"x" * 100_000 + b">\n"
                assert await process.wait() == 7
                with pytest.raises(trio.ClosedResourceError):
                    await process.stdin.send_all(b"more")
                await process.stop()
            (lease,) = served.leases.values()

            async def fail():
                async with sandbox.open_process(["sh", "-c", "sleep 1000 & sleep 1000"], TALKS):
                    assert lease.is_busy
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):  # of the block, and in no group
                await fail()
            assert not lease.is_busy
            with trio.move_on_after(0.2) as scope:
                async with sandbox.open_process(["cat"], TALKS) as process:
                    await process.stdout.receive_some()
            assert scope.cancelled_caught
            assert not lease.is_busy
            for options, code in ((ProcessOptions(workdir="../x"), "invalid_path"), (TALKS, "not_started")):
                with pytest.raises(ProcessRefused) as caught:
                    async with sandbox.open_process(
                        ["x" * 300_000 if code == "not_started" else "cat"], options
                    ):
                        pytest.fail("it was opened")
                assert caught.value.code in {code, "io_error"}
            await sandbox.aclose()
        with pytest.raises(ProcessRefused, match="did not answer"):
            async with served.make().open_process(["cat"], TALKS):
                pytest.fail("it was opened")


class SlowToOpen(MemorySandbox):
    """A process that does not come to its start, and takes a moment to end."""

    def __init__(self):
        super().__init__()
        self.is_opening, self.has_ended = trio.Event(), trio.Event()

    @asynccontextmanager
    async def open_process(self, argv, options):
        self.is_opening.set()
        try:
            await trio.sleep_forever()
            yield
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.05)
                self.has_ended.set()


async def test_a_process_is_ended_if_its_caller_is_cancelled_before_it_is_open():
    """The cancellation propagates only after the server has confirmed its end, as for one that is open."""
    slow, had_ended = SlowToOpen(), []

    @asynccontextmanager
    async def make():
        yield slow

    with trio.fail_after(60):
        async with serving(make) as served, trio.open_nursery() as nursery:

            async def open_one():
                try:
                    async with served.make().open_process(["cat"], TALKS):
                        pytest.fail("it was opened")
                finally:
                    had_ended.append(slow.has_ended.is_set())

            nursery.start_soon(open_one)
            await slow.is_opening.wait()
            nursery.cancel_scope.cancel()
        assert had_ended == [True]


async def test_a_process_of_nobody_is_not_opened():
    """Without the token, in another client's workspace, or where no processes are; and one whose server ends is over, as if it had been killed."""
    with trio.fail_after(60):
        async with serving() as served:
            memory, stranger = served.make(), served.make(token=OTHER_TOKEN)
            with pytest.raises(ProcessRefused, match="This sandbox cannot open processes") as caught:
                async with memory.open_process(["cat"], TALKS):
                    pytest.fail("it was opened")
            assert caught.value.code == "unsupported"
            await stranger.connect()
            stranger._lease = memory._lease  # noqa: SLF001 - stolen
            with pytest.raises(ProcessRefused, match="it refuses to open a process"):
                async with stranger.open_process(["cat"], TALKS):
                    pytest.fail("it was opened")
        async with serving(unconfined) as served, served.make().open_process(["cat"], TALKS) as process:
            served.stop.set()
            assert await process.wait() != 0
            assert await process.stdout.receive_some() == b""


@pytest.mark.parametrize("call", ["read", "execute"])
async def test_a_sandbox_that_is_closed_while_a_call_waits_stays_closed(call):
    """Its first calls, and those that wait for them, are refused; nothing is opened again, and nothing is left there."""
    begun, go_on, refused = trio.Event(), trio.Event(), []

    class Held(MemorySandbox):
        async def execute(self, *_given):
            begun.set()
            await trio.sleep_forever()

        capabilities = frozenset({"execute"})

    @asynccontextmanager
    async def make():
        if call == "read":  # the workspace is being made
            begun.set()
            await go_on.wait()
        yield Held()

    account = ProcessAccount()
    keep_account(account)
    with trio.fail_after(60):
        async with no_orphans(), serving(make) as served:
            sandbox = served.make()

            async def ask(given):
                found = await (sandbox.read("a") if call == "read" else sandbox.execute("ls", given))
                refused.append(found.error.code)

            async with trio.open_nursery() as nursery:
                for _ in range(2):
                    nursery.start_soon(ask, ExecuteOptions())
                await begun.wait()
                await sandbox.aclose()
                go_on.set()
            assert refused == ["io_error"] * 2
            assert (await sandbox.read("a")).error.message.endswith("it was closed here.")
            assert not served.leases
    assert not account.left_at


@pytest.mark.parametrize("number", [10**400, 2**53, -1])
async def test_a_count_that_cannot_be_is_no_answer_of_a_server(monkeypatch, number):
    """The tool that shows it would fail, and blame itself."""
    answer = {"facts": {}, "result": {"output": "x", "exit_code": 0, "duration_ms": number}}

    async def say(_connection, _method, path, **_options):  # noqa: RUF029 - in place of a connection
        told = answer if path.endswith("/execute") else {**answer, "result": None}
        return SandboxReply(content_type="application/json", body=json.dumps(told).encode())

    sandbox = RemoteSandbox("http://127.0.0.1:1", token=OTHER_TOKEN)
    monkeypatch.setattr(Connection, "send", say)  # no server of ours lies
    found = await sandbox.execute("ls", ExecuteOptions())
    await sandbox.aclose()
    assert found.error is not None
    assert found.error.code == "io_error"
    assert "duration_ms" in found.error.message
