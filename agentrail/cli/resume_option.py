"""`--resume`, with or without an id. Imports nothing, because every command loads this module."""

from collections.abc import Sequence
from typing import Final

LATEST: Final = "latest"
"""The value of `--resume` without an id: the most recently active session."""

_OPTION: Final = "--resume"


def fill_in_latest(arguments: Sequence[str]) -> list[str]:
    """Complete a `chat --resume` without an id. An option after it is not an id."""
    filled = list(arguments)
    if filled[:1] != ["chat"] or _OPTION not in filled:
        return filled
    place = filled.index(_OPTION) + 1
    if place == len(filled) or filled[place].startswith("-"):
        filled.insert(place, LATEST)
    return filled
