"""Objects of which there is one."""

from typing import ClassVar, NoReturn, Self


class Unique:
    """Its own copy, also a deep one such as `dataclasses.asdict` makes, and never pickled."""

    __slots__ = ()

    _INSTEAD: ClassVar[str] = "keep its id, and look it up where it is needed"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        message = f"{self!r:.200} cannot be pickled: {self._INSTEAD}"
        raise TypeError(message)
