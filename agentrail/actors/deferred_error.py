"""Errors of blocks: one that is raised only after other work is finished, and one in place of a group."""

from types import TracebackType
from typing import Self

from attrs import define, field

from agentrail.otp.guarded_calls import decide_first


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


class ungrouped:  # noqa: N801 - used as a function, as `suppress` is
    """Raise the first error of a nursery in place of its group, cancellations last. A group of the block stays as it is.

    Around the nursery. Its tasks are cancelled together with its block, and hide no error of the block.
    """

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, BaseExceptionGroup):
            return
        first = decide_first(error)
        context = first.__context__
        try:
            raise first
        finally:
            first.__context__ = context  # not the group: it refers to this error, as its traceback does
            del error, traceback, first, context
