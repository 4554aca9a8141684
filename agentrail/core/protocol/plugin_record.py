"""What stands for a plugin where no code can: its name, its version, where its code is, its options. Data, and no plugin.

Signals and stored states hold this. The code itself stays in the shell, which finds it again; no plugin enters this file.
"""

from msgspec.structs import force_setattr

from agentrail.frozen import frozen_or_none
from agentrail.messages import JsonObject
from agentrail.structs import Value


class PluginRecord(Value, frozen=True, kw_only=True):
    """What is stored of a plugin.

    Attributes:
        name: Unique in its stack.
        version: Of the code: of that which made its state, or of that which is to come.
        origin: Where its class was defined, `package.module:NAME`; for people and resolvers, nothing is imported by it here.
        options: What it was given; None where it was given none: of code that waits to be taken in, which keeps the old ones.
    """

    name: str
    version: str
    origin: str
    options: JsonObject | None

    def __post_init__(self) -> None:
        """Freeze the options: the caller goes on with theirs."""
        force_setattr(self, "options", frozen_or_none(self.options))
