"""A stored plugin: its name, its version, the origin of its code, and its options, without the code."""

from msgspec.structs import force_setattr

from agentrail.frozen import frozen_or_none
from agentrail.messages import JsonObject
from agentrail.structs import Value


class PluginRecord(Value, frozen=True, kw_only=True):
    """The stored form of a plugin.

    Attributes:
        name: Unique in its stack.
        version: Version of the code that made its state, or of code to be loaded.
        origin: Where its class was defined, `package.module:NAME`. For users and resolvers. It is not imported
            here.
        options: Its options. None if it was given none: code to be loaded then keeps the previous ones.
    """

    name: str
    version: str
    origin: str
    options: JsonObject | None

    def __post_init__(self) -> None:
        force_setattr(self, "options", frozen_or_none(self.options))
