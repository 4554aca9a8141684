"""Files that come with a message (being written)."""

import hashlib
from functools import cached_property

from attrs import field, frozen


@frozen(kw_only=True)
class Attachment:
    """A file that came with a message, as it came.

    Attributes:
        name: As the caller says; it is cleaned before it becomes a path.
        mime_type: As the caller says; it is held against nothing.
        content: All of it.
    """

    name: str
    mime_type: str
    content: bytes = field(repr=False)

    @cached_property
    def identity(self) -> tuple[str, str, str]:
        """Name, type and the SHA-256 of the content: what tells this file from another one."""
        return (self.name, self.mime_type, hashlib.sha256(self.content).hexdigest())
