"""`--resume`, which stands with an id or alone. Imports nothing, because every command begins here."""

from collections.abc import Sequence
from typing import Final

LATEST: Final = "latest"
"""What `--resume` means without an id: the session that was at work last."""

_OPTION: Final = "--resume"


def fill_in_latest(arguments: Sequence[str]) -> list[str]:
    """Let `chat --resume` stand without an id: an option that follows is none."""
    filled = list(arguments)
    if filled[:1] != ["chat"] or _OPTION not in filled:
        return filled
    place = filled.index(_OPTION) + 1
    if place == len(filled) or filled[place].startswith("-"):
        filled.insert(place, LATEST)
    return filled
