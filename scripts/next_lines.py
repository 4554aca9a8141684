"""The last line of a page: what comes next in the order of the site, for those who read in the repository. Plain functions of texts.

The site has it in its footer, so `scripts/docsite/pages.py` leaves it out there.
"""

import posixpath
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from scripts.docsite import pages
from scripts.docsite.nav import FROM_THE_ROOT, ROOT, NavPage, read_nav

LOOKED_UP: Final = frozenset({"Reference", "Decisions"})
"""Parts that are looked things up in, and not read from one page to the next."""


def pages_with_next() -> Mapping[str, tuple[NavPage, NavPage]]:
    """Give the pages that lead on, by where the repository has them: each with the one that comes next."""
    return {
        page.file: (page, following)
        for page, following in pairwise(read_nav())
        if LOOKED_UP.isdisjoint(page.parts) and page.path not in FROM_THE_ROOT
    }


def with_next(file: str) -> str:
    """Write a page with its last line as the order has it now."""
    page, following = pages_with_next()[file]
    text = (ROOT / file).read_text(encoding="utf-8")
    title = pages.title_of((ROOT / following.file).read_text(encoding="utf-8"))
    return f"{pages.without_next(text).rstrip()}\n\n{pages.NEXT}\n\n{next_line(page, following, title)}\n"


def next_line(page: NavPage, following: NavPage, title: str) -> str:
    """Write the line; where another part of the site begins it says which."""
    begins = "" if page.parts[0] == following.parts[0] else f", where *{following.parts[0]}* begins"
    link = posixpath.relpath(following.file, posixpath.dirname(page.file))
    return f"**Next:** [{title}]({link}){begins}"
