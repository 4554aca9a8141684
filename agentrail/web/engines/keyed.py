"""Common part of the adapters: a service and its key."""

from typing import ClassVar

from attrs import field, frozen

from agentrail.abc.secret import Secret


@frozen(kw_only=True)
class KeyedEngine:
    """Base class of the adapters. Subclasses build the request and read the answer.

    Attributes:
        name: Name of the engine.
        key: Key of the account. None if the service needs none.
        origin: Origin of the service.
    """

    name: ClassVar[str]
    key: Secret | None = field(default=None, repr=False)
    origin: str

    def key_header(self, header: str, prefix: str = "") -> dict[str, str]:
        """Return the header that carries the key, or none without a key."""
        return {} if self.key is None else {header: f"{prefix}{self.key.reveal()}"}
