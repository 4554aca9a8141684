"""What a session has for the files above its working directory: the port, carried to where it may block. Nothing is decided here."""

from pathlib import Path

import msgspec

from agentrail.abc import FindInstructions
from agentrail.core.protocol.hooks import InstructionsFound
from agentrail.outside import Outside


class InstructionsAbove(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What reads the files above a working directory. The port is found when it is asked, as it is in few sessions.

    Attributes:
        find: Gives the port for a working directory.
        working_dir: Which.
        outside: Where functions that block are run.
    """

    find: FindInstructions
    working_dir: str
    outside: Outside

    async def read(self, names: tuple[str, ...]) -> InstructionsFound:
        """Read them.

        Cancellation: They are not waited for any more.
        """
        files = self.find(Path(self.working_dir))
        return await self.outside.offload(files.read, names, abandon_on_cancel=True)
