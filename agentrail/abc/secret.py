"""A secret that does not show itself. What is done with one stands where it is used."""

import hmac
from typing import NoReturn


class Secret:
    """A key or a password that shows itself only to code that asks by name.

    Printing, formatting and logging give `Secret(…)`; pickling and copying into JSON fail, so that no cache and no report
    holds it by accident. Taken wherever a provider takes a key.

    >>> key = Secret("sk-live-1234")
    >>> print(f"{key} {key!r}")
    Secret(…) Secret(…)
    >>> key.reveal()
    'sk-live-1234'
    """

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        """Take the value, a text.

        Raises:
            TypeError: Your move: this is no text. The message does not repeat it.
        """
        if not isinstance(value, str):
            message = (
                f"a secret is a text, got {type(value).__name__}: decode bytes first, call a function first"
            )
            raise TypeError(message)
        self._value = str(value)

    def reveal(self) -> str:
        """Give the value: where it is sent, and nowhere else."""
        return self._value

    def __repr__(self) -> str:
        """Show that there is one."""
        return "Secret(…)"

    __str__ = __repr__

    def __format__(self, _spec: str) -> str:
        """Show that there is one, whatever the format."""
        return repr(self)

    def __eq__(self, other: object) -> bool:
        """Two secrets are equal when their values are; how long the comparison takes says nothing about them."""
        if not isinstance(other, Secret):
            return NotImplemented
        mine, its = (one.encode("utf-8", "surrogatepass") for one in (self._value, other._value))
        return bool(hmac.compare_digest(mine, its))

    def __hash__(self) -> int:
        """Hash by the value."""
        return hash((Secret, self._value))

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled.

        Raises:
            TypeError: Always.
        """
        message = "a secret is not pickled: reveal() it where it is sent"
        raise TypeError(message)

    def __copy__(self) -> "Secret":
        """Give itself: it never changes."""
        return self

    def __deepcopy__(self, _memo: object) -> "Secret":
        """Give itself."""
        return self
