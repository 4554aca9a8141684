"""Instruction files above a session's working directory, read through a port in a thread."""

from pathlib import Path

import msgspec

from agentrail.abc import FindInstructions
from agentrail.core.protocol.hooks import InstructionsFound
from agentrail.outside import Outside


class InstructionsAbove(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Reads the instruction files above a working directory. The port is created on demand."""

    find: FindInstructions
    working_dir: str
    outside: Outside

    async def read(self, names: tuple[str, ...]) -> InstructionsFound:
        files = self.find(Path(self.working_dir))
        return await self.outside.offload(files.read, names, abandon_on_cancel=True)
