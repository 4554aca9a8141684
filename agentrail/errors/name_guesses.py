"""Hints for unknown names in messages."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Final

_MAX_NAME_COMPARED: Final = 200
"""The time of a comparison grows with the name, which may be a megabyte long."""


def near_name(
    name: str, known: Iterable[str], guess: str, otherwise: str = "", *, cutoff: float = 0.6
) -> str:
    """Return the guess, with the nearest known name in place of `{}`, or another text if none is near."""
    near = get_close_matches(name[:_MAX_NAME_COMPARED], known, n=1, cutoff=cutoff)
    return guess.format(near[0]) if near else otherwise


def guess_name(name: str, known: Collection[str], *, mark: str = "") -> str:
    """Return a question for the nearest known name, which ends in the mark, or a list of all known names."""
    return near_name(name, known, f"did you mean {{!r}}{mark}", f"expected one of {', '.join(known)}")
