"""Judges the site that was built: `python -m scripts.docsite.check build/site`. Exits with 1, and says what is wrong.

Links and anchors lead somewhere, each page leads to the next one, nothing is fetched from elsewhere, and what is for programs is there.
MkDocs looks at Markdown; this looks at what came of it, docstrings and the theme included.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Final
from urllib.parse import unquote

from attrs import define, field, frozen

from scripts.docsite.nav import ROOT, NavPage, read_nav

FETCHED: Final[Mapping[str, tuple[str, ...]]] = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "object": ("data",),
    "embed": ("src",),
    "link": ("href",),
    "use": ("href",),
}
"""What a browser fetches by itself, by element and attribute."""

NOT_FETCHED: Final = frozenset({"canonical", "next", "prev", "alternate"})
"""Relations of `link` that name a page and fetch none."""

ELSEWHERE: Final = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)
_IN_STYLE: Final = re.compile(r"(?:url\(|@import)\s*[\"']?\s*((?:https?:)?//[^\"')\s]+)", re.IGNORECASE)
DIAGRAM: Final = "mermaid"
"""A class for which the theme fetches a library: diagrams are drawn by us, as SVG or as a table."""


@frozen
class Link:
    """A link of a page: where it leads, and whether it is the one to the next page."""

    href: str
    is_next: bool = False


@define
class Read(HTMLParser):
    """What the HTML of a page holds.

    Attributes:
        anchors: What can be linked to.
        links: What it links to.
        fetched: What a browser would fetch for it.
        styles: What stands in `style`, as element or attribute.
    """

    anchors: set[str] = field(factory=set)
    links: list[Link] = field(factory=list)
    fetched: list[str] = field(factory=list)
    styles: list[str] = field(factory=list)
    _in_style: bool = False

    def __attrs_pre_init__(self) -> None:
        """Let the parser make itself ready."""
        HTMLParser.__init__(self)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element says."""
        said = {name: value or "" for name, value in attrs}
        classes = said.get("class", "").split()
        self._in_style = tag == "style"
        self.styles.append(said.get("style", ""))
        self.anchors.update(said[name] for name in ("id", "name") if name in said)
        if tag == "a" and "href" in said:
            self.links.append(Link(said["href"], is_next="md-footer__link--next" in classes))
        if not (tag == "link" and NOT_FETCHED & set(said.get("rel", "").split())):
            self.fetched += [said[name] for name in FETCHED.get(tag, ()) if name in said]
        if DIAGRAM in classes:
            self.fetched.append("//a library for diagrams")

    def handle_endtag(self, tag: str) -> None:
        """Leave an element."""
        self._in_style = self._in_style and tag != "style"

    def handle_data(self, data: str) -> None:
        """Note what a style says."""
        if self._in_style:
            self.styles.append(data)


def read_html(text: str) -> Read:
    """Read a page."""
    read = Read()
    read.feed(text)
    read.close()
    return read


def fetched_elsewhere(read: Read) -> Iterator[str]:
    """Name what a page would fetch from other machines."""
    for address in read.fetched:
        if ELSEWHERE.match(address):
            yield f"fetches {address}"
    for style in read.styles:
        yield from (f"fetches {address}" for address in _IN_STYLE.findall(style))


def broken_links(place: str, read: Read, pages: Mapping[str, Read], files: frozenset[str]) -> Iterator[str]:
    """Name the links of a page that lead nowhere on the site."""
    for link in read.links:
        path, _, anchor = unquote(link.href).partition("#")
        if ELSEWHERE.match(path) or path.startswith(("mailto:", "javascript:")):
            continue
        target = normpath(join(dirname(place), path)) if path else place
        target = (
            f"{target}/index.html".removeprefix("./")
            if not Path(target).suffix and target not in files
            else target
        )
        if target not in files:
            yield f"links to {link.href}, which is not there"
        elif anchor and target in pages and anchor not in pages[target].anchors and anchor != "__top":
            yield f"links to {link.href}: there is no such place on that page"


def wrong_order(order: tuple[NavPage, ...], pages: Mapping[str, Read]) -> Iterator[str]:
    """Name the pages whose link to the next one is not that of the reader's order."""
    places = [html_of(page.path) for page in order]
    for place, following in zip(places, [*places[1:], None], strict=True):
        if place not in pages:
            yield f"{place}: is in the order, and was not built"
            continue
        said = [normpath(join(dirname(place), link.href)) for link in pages[place].links if link.is_next]
        if said != ([following] if following else []):
            yield f"{place}: leads to {said or 'nothing'}, and the order says {following}"


def html_of(path: str) -> str:
    """Say where a page is built to."""
    if Path(path).name == "README.md":
        return str(Path(path).with_name("index.html"))
    return str(Path(path).with_suffix(".html"))


def faults_of(site: Path) -> Iterator[str]:
    """Name all that is wrong with a site."""
    files = frozenset(one.relative_to(site).as_posix() for one in site.rglob("*") if one.is_file())
    pages = {
        place: read_html((site / place).read_text(encoding="utf-8"))
        for place in sorted(files)
        if place.endswith(".html")
    }
    for place, read in pages.items():
        yield from (f"{place}: {fault}" for fault in fetched_elsewhere(read))
        if place != "404.html":  # its links begin at the root of wherever the site is put
            yield from (f"{place}: {fault}" for fault in broken_links(place, read, pages, files))
    for place in files:
        if place.endswith((".css", ".svg")):
            text = (site / place).read_text(encoding="utf-8")
            yield from (f"{place}: fetches {address}" for address in _IN_STYLE.findall(text))
    order = read_nav()
    yield from wrong_order(order, pages)
    yield from _faults_for_programs(site, order, files)


def _faults_for_programs(site: Path, order: tuple[NavPage, ...], files: frozenset[str]) -> Iterator[str]:
    """Look at what is not for eyes: the index of the search, and the lists for models."""
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8").removeprefix("var __index = ")
    found = {entry["location"].partition("#")[0] or "index.html" for entry in json.loads(index)["docs"]}
    yield from (
        f"{page.path}: the search does not find it" for page in order if html_of(page.path) not in found
    )
    listed = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text(encoding="utf-8"))
    if listed != [page.path for page in order]:
        yield "llms.txt: lists other pages than the order has"
    yield from (f"llms.txt: lists {place}, which is not there" for place in listed if place not in files)


def main(arguments: list[str]) -> int:
    """Judge the site in a folder, and say so."""
    site = Path(arguments[0]) if arguments else ROOT / "build" / "site"
    faults = list(faults_of(site))
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{site}: {len(read_nav())} pages in order, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
