"""An error that is raised only after other work is finished."""

from types import TracebackType
from typing import Self

from attrs import define, field


@define(eq=False)
class Kept:
    error: BaseException | None = field(init=False, default=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self.error = error
        return error is not None

    def release(self) -> None:
        """Raise the error and forget it. Its traceback refers to the frame that holds this object: a cycle."""
        error, self.error = self.error, None
        try:
            if error is not None:
                raise error
        finally:
            del error
