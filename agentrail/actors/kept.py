"""An error that has to wait until something is put in order, and is raised then."""

from types import TracebackType
from typing import Self


class Kept:
    """A block whose error is raised by `release`, behind what has to happen first.

    `finally` would do where nothing but a `raise` follows. Here a nursery stands in between: an error that went through
    its end would cancel what is to stop in order, and come out in a group.

    Attributes:
        error: What the block raised, of any kind; `None` while it has raised nothing.
    """

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self.error = error
        return error is not None

    def release(self) -> None:
        """Raise what was kept, if there is something."""
        if self.error is not None:
            raise self.error
