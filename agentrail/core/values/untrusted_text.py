"""Marks around foreign text that a model reads: no text may close them, or open others. Pure."""

import re
from functools import lru_cache
from typing import Final

_MASKED: Final = "&lt;"


def fenced_in(text: str, *names: str) -> str:
    """Return a text for use between marks: anything that looks like one of them starts with `&lt;` in place of `<`."""
    return _mark_of(names).sub(_MASKED, text)


@lru_cache(maxsize=64)
def _mark_of(names: tuple[str, ...]) -> re.Pattern[str]:
    # Possessive: with backtracking, a page with fifty thousand blanks after a `<` would block the event loop
    # for minutes.
    return re.compile(rf"<(?=[^\w<]*+(?:{'|'.join(map(re.escape, names))}))", re.IGNORECASE)
