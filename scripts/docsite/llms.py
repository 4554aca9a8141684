"""`llms.txt`: the pages in reading order, for programs that read for others; https://llmstxt.org. Plain functions."""

from collections.abc import Sequence
from itertools import groupby

from attrs import frozen


@frozen(kw_only=True)
class ListedPage:
    """A page in the list.

    Attributes:
        part: What it stands under.
        title: Its heading.
        said: Its first sentence.
        place: Where its Markdown is, from the root of the site.
    """

    part: str
    title: str
    said: str
    place: str


def list_pages(name: str, said: str, pages: Sequence[ListedPage]) -> str:
    """Write the list: what it is about, then a heading for each part of the site, and a line for each page."""
    lines = [f"# {name}", "", f"> {said}", ""]
    for part, below in groupby(pages, key=lambda page: page.part):
        lines += [f"## {part}", ""]
        lines += [f"- [{page.title}]({page.place}){f': {page.said}' if page.said else ''}" for page in below]
        lines.append("")
    return "\n".join(lines)


def join_pages(texts: Sequence[str]) -> str:
    """Write all pages as one text, for who wants to read it at once (`llms-full.txt`)."""
    return "\n\n---\n\n".join(text.strip() for text in texts) + "\n"
