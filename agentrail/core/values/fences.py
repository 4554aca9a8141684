"""Marks between which a model reads what strangers wrote: no text may end them, or begin others. Pure.

Every place that puts foreign text between marks asks here, so that there is one answer to what a reader could take for a mark.
"""

import re
from functools import lru_cache
from typing import Final

_MASKED: Final = "&lt;"


def fenced_in(text: str, *names: str) -> str:
    """Give a text as it stands between marks: what could be taken for one of them begins with `&lt;` in place of `<`."""
    return _mark_of(names).sub(_MASKED, text)


@lru_cache(maxsize=64)
def _mark_of(names: tuple[str, ...]) -> re.Pattern[str]:
    # What was read once is not given back: a page with fifty thousand blanks behind a `<` would hold the loop for minutes.
    return re.compile(rf"<(?=[^\w<]*+(?:{'|'.join(map(re.escape, names))}))", re.IGNORECASE)
