"""A secret that is never printed by accident."""

import hmac
from typing import NoReturn


class Secret:
    """A key or a password that is shown only by an explicit call of `reveal`.

    Printing, formatting and logging show `Secret(…)`. Pickling and JSON encoding fail, so that no cache or report
    contains the value by accident. Accepted wherever a provider takes a key.

    >>> key = Secret("sk-live-1234")
    >>> print(f"{key} {key!r}")
    Secret(…) Secret(…)
    >>> key.reveal()
    'sk-live-1234'
    """

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        """Store the value, a string.

        Raises:
            TypeError: Your move: the value is not a string. The message does not repeat it.
        """
        if not isinstance(value, str):
            message = (
                f"a secret is a text, got {type(value).__name__}: decode bytes first, call a function first"
            )
            raise TypeError(message)
        self._value = str(value)

    def reveal(self) -> str:
        """Return the value. Call this only where the value is sent."""
        return self._value

    def __repr__(self) -> str:
        """Return `Secret(…)`."""
        return "Secret(…)"

    __str__ = __repr__

    def __format__(self, _spec: str) -> str:
        """Return `Secret(…)`, whatever the format."""
        return repr(self)

    def __eq__(self, other: object) -> bool:
        """Compare by value, in constant time."""
        if not isinstance(other, Secret):
            return NotImplemented
        mine, its = (one.encode("utf-8", "surrogatepass") for one in (self._value, other._value))
        return bool(hmac.compare_digest(mine, its))

    def __hash__(self) -> int:
        """Hash by the value."""
        return hash((Secret, self._value))

    def __reduce__(self) -> NoReturn:
        """Refuse pickling.

        Raises:
            TypeError: Always.
        """
        message = "a secret is not pickled: reveal() it where it is sent"
        raise TypeError(message)

    def __copy__(self) -> "Secret":
        """Return itself, because a secret is immutable."""
        return self

    def __deepcopy__(self, _memo: object) -> "Secret":
        """Return itself."""
        return self
