"""Execution of `ReadInstructions`: through the port above the working directory, and through the sandbox from there on."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import trio

from agentrail.abc import Sandbox
from agentrail.core.protocol.actions import ReadInstructions
from agentrail.core.protocol.hooks import InstructionsFound, UnreadInstructions
from agentrail.core.values.instruction_order import MAX_READ_CHARACTERS, InstructionFile
from agentrail.errors import AgentrailError, ErrorInfo
from agentrail.otp.crash_text import describe_bug, words_of
from agentrail.runtime.crashes import PortCrashed, crash_edge, decide_sandbox_crash
from agentrail.runtime.error_scrubber import Scrub
from agentrail.runtime.parent_instructions import InstructionsAbove

# A path through a file, or out of the workspace, leads to no directory of it.
_ABSENT: Final = frozenset({"file_not_found", "invalid_path"})
_WORKING_DIRECTORY: Final = ("",)


async def read_instructions(
    wanted: ReadInstructions,
    sandbox: Callable[[], Sandbox],
    above: InstructionsAbove | None,
    scrub: Scrub,
) -> InstructionsFound:
    if not wanted.below and above is not None:
        with crash_edge(_decide_port_crash, scrub=scrub):
            return await above.read(wanted.names)
    directories = wanted.below or _WORKING_DIRECTORY
    with crash_edge(partial(decide_sandbox_crash, directories[0] or "."), AgentrailError, scrub=scrub):
        opened = sandbox()
    paths = [[f"{one}/{name}" if one else name for name in wanted.names] for one in directories]
    reads: dict[str, _Read] = {}
    async with trio.open_nursery() as nursery:
        for path in [path for of_one in paths for path in of_one]:
            nursery.start_soon(_read_into, reads, path, opened, scrub)
    return decide_found(paths, reads)


_Read = InstructionFile | UnreadInstructions | None


async def _read_into(reads: "dict[str, _Read]", path: str, sandbox: Sandbox, scrub: Scrub) -> None:
    try:
        with crash_edge(partial(decide_sandbox_crash, path), AgentrailError, scrub=scrub):
            read = await sandbox.read(path)
            refusal, text = read.error, read.text[:MAX_READ_CHARACTERS]
    except PortCrashed as crashed:
        reads[path] = UnreadInstructions(path=path, reason=crashed.error.message)
    except AgentrailError as error:
        reads[path] = UnreadInstructions(path=path, reason=words_of(error))
    else:
        if refusal is None:
            reads[path] = InstructionFile(path=path, text=text) if text.strip() else None
        elif refusal.code not in _ABSENT:
            reads[path] = UnreadInstructions(path=path, reason=refusal.message)


def decide_found(paths: Sequence[Sequence[str]], reads: "dict[str, _Read]") -> InstructionsFound:
    files: list[InstructionFile] = []
    unread: list[UnreadInstructions] = []
    for of_one in paths:
        for read in map(reads.get, of_one):
            if isinstance(read, InstructionFile):
                files.append(read)
                break
            if read is not None:
                unread.append(read)
    return InstructionsFound(files=tuple(files), unread=tuple(unread))


def _decide_port_crash(error: BaseException) -> ErrorInfo:
    message = f"the files above the working directory could not be read ({describe_bug(error)}): this is a bug, please report it"
    return ErrorInfo(code="instructions_crashed", message=message)
