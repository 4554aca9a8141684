"""Hints for unknown names in messages."""

from collections.abc import Collection
from difflib import get_close_matches


def guess_name(name: str, known: Collection[str], *, mark: str = "") -> str:
    """Return a question for the nearest known name, which ends in the mark, or a list of all known names."""
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}{mark}" if near else f"expected one of {', '.join(known)}"
