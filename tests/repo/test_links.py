"""What pages link to is there: the file, and in it the heading."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOT_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
PAGES = [*(ROOT / name for name in ROOT_PAGES), *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^)\s]+)\)")


@cache
def headings_of(page: Path) -> frozenset[str]:
    """What the headings of a page are linked by."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return frozenset(anchor_of(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE))


def anchor_of(heading: str) -> str:
    """As where pages are shown: lower case, hyphens for blanks, and no marks."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def links_in(page: Path) -> Iterator[str]:
    """What a page links to within the repository."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in LINK.findall(SPAN.sub("x", text)):
        if not target.startswith(("http:", "https:", "mailto:")):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_links_to_is_there(page):
    """Files and headings."""
    wrong = []
    for target in links_in(page):
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if not found.exists() or (anchor and found.suffix == ".md" and anchor not in headings_of(found)):
            wrong.append(target)
    assert wrong == []


def test_a_link_that_leads_nowhere_is_seen(tmp_path):
    """The reading above is not blind: not to files, not to headings, and it takes no code for a link."""
    page = tmp_path / "page.md"
    page.write_text(
        "# One `two`, three\n[a](#one-two-three) `[b](none.md)`\n```text\n[c](no.md)\n```\n[d](https://x)\n"
    )
    assert list(links_in(page)) == ["#one-two-three"]
    assert headings_of(page) == {"one-two-three"}
