"""An error that is raised only after other work is finished."""

from types import TracebackType
from typing import Self


class Kept:
    """A block whose error `release` raises later, after the necessary clean-up.

    `finally` would suffice if only a `raise` followed. Here a nursery follows: an error that passed through its end would
    cancel the actors that must stop in order, and would come out in a group.

    Attributes:
        error: The error of the block, of any class. `None` if there is none.
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
        if self.error is not None:
            raise self.error
