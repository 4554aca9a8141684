"""The rule of `check_sandbox` for a sandbox that opens processes which are talked to while they run."""

import trio

from agentrail.abc import ProcessOptions, ProcessSandbox, Sandbox, ToolProcess
from agentrail.core.values.offered import offers
from agentrail.errors import ProcessRefused


async def opens_processes(sandbox: Sandbox) -> None:
    """A process is talked to while it runs, ends with its code, and is gone with its block; where none may run, that is refused."""
    if not offers(sandbox, ProcessSandbox):
        return
    await sandbox.write("d/a", "words")
    if "execute" not in sandbox.capabilities or not await _opens_any(sandbox):
        return
    script = 'read line; echo "$line"; cat a; echo "$WORD"; exit 3'
    options = ProcessOptions(workdir="d", env={"WORD": "there"})
    async with sandbox.open_process(("sh", "-c", script), options) as process:
        await process.stdin.send_all(b"hello\n")
        said = await _read_to_end(process)
        assert (said, await process.wait()) == (b"hello\nwordsthere\n", 3), said
    async with sandbox.open_process(("sh", "-c", "echo begun; sleep 1000 & sleep 1000"), options) as process:
        assert await process.stdout.receive_some() == b"begun\n"
        await process.stop()
        await process.stop()
        assert await process.wait() != 0, "a process that was stopped ended as if it had not been"
    for workdir, code in (("..", "invalid_path"), ("d/a", "invalid_path"), ("missing", "file_not_found")):
        found = await _refusal_of(sandbox, ProcessOptions(workdir=workdir))
        assert found == code, f"workdir {workdir}: expected {code}, got {found}"


async def _opens_any(sandbox: ProcessSandbox) -> bool:
    """Try one: some find out only then that nothing may run."""
    refused = await _refusal_of(sandbox, ProcessOptions())
    assert refused in {None, "unsupported"}, refused
    return refused is None


async def _refusal_of(sandbox: ProcessSandbox, options: ProcessOptions) -> str | None:
    try:
        async with sandbox.open_process(("sh", "-c", "exit 0"), options):
            return None
    except ProcessRefused as refused:
        return refused.code


async def _read_to_end(process: ToolProcess) -> bytes:
    with trio.fail_after(30):
        return b"".join([piece async for piece in process.stdout])
