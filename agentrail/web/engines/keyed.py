"""Common part of the adapters: a service, its key, and the names of what it finds."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from attrs import field, frozen

from agentrail.abc.secret import Secret


@frozen(kw_only=True)
class KeyedEngine:
    """Base class of the adapters. Subclasses build the request, and read an answer of another shape.

    Attributes:
        name: Name of the engine.
        names: Its names of the list of hits, and of the excerpt and the date of each.
        key: Key of the account. None if the service needs none.
        origin: Origin of the service.
    """

    name: ClassVar[str]
    names: ClassVar[tuple[str, str, str]] = ("results", "content", "published_date")
    key: Secret | None = field(default=None, repr=False)
    origin: str

    def key_header(self, header: str, prefix: str = "") -> dict[str, str]:
        """Return the header that carries the key, or none without a key."""
        return {} if self.key is None else {header: f"{prefix}{self.key.reveal()}"}

    def read(self, answer: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        """Yield the hits. See `SearchEngine.read`."""
        hits, snippet, published = self.names
        for one in answer[hits]:
            yield {**one, "snippet": one.get(snippet), "published": one.get(published)}
