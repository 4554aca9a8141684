"""What a session has for the files above its working directory: the port, carried to where it may block. Nothing is decided here."""

from attrs import frozen

from agentrail.abc import InstructionFiles
from agentrail.core.protocol.hooks import InstructionsFound
from agentrail.outside import Outside


@frozen(kw_only=True, eq=False)
class InstructionsAbove:
    """What reads the files above a working directory.

    Attributes:
        files: They.
        outside: Where functions that block are run.
    """

    files: InstructionFiles
    outside: Outside

    async def read(self, names: tuple[str, ...]) -> InstructionsFound:
        """Read them.

        Cancellation: They are not waited for any more.
        """
        return await self.outside.offload(self.files.read, names, abandon_on_cancel=True)
