"""A secret that is not printed by accident."""

import hmac

from agentrail.otp.unique import Unique


class Secret(Unique):
    """A key or password, shown only by `reveal`.

    Printing, formatting and logging show `Secret(…)`. Pickling and JSON encoding fail. Accepted wherever a provider takes a key.

    >>> key = Secret("sk-live-1234")
    >>> print(f"{key} {key!r}")
    Secret(…) Secret(…)
    >>> key.reveal()
    'sk-live-1234'
    """

    __slots__ = ("_value",)

    _INSTEAD = "reveal() it where it is sent"

    def __init__(self, value: object) -> None:
        """Store a string.

        Raises:
            TypeError: Your move: the value is not a string.
        """
        if not isinstance(value, str):
            message = f"a secret must be a str, got {type(value).__name__}: decode bytes first, or call the function first"
            raise TypeError(message)
        self._value = str(value)

    def reveal(self) -> str:
        """Return the value, only where it is sent."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def __format__(self, _spec: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        """Compare in constant time."""
        if not isinstance(other, Secret):
            return NotImplemented
        mine, its = (one.encode("utf-8", "surrogatepass") for one in (self._value, other._value))
        return bool(hmac.compare_digest(mine, its))

    def __hash__(self) -> int:
        return hash((Secret, self._value))
