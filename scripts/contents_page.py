"""`docs/README.md`: all pages in the order of the site, for those who read them in the repository."""

import posixpath
from typing import Final

from scripts.docsite import pages
from scripts.docsite.nav import ROOT, read_nav

DRAWN: Final = "<!-- Drawn from mkdocs.yml by `make docs`; edit that. -->"


def contents_page() -> str:
    """Write the page: a heading for each part, a line for each page."""
    lines = [
        "# All pages, in order",
        "",
        DRAWN,
        "",
        "Read from the top, each page leads to the next one. `make docs-serve` shows them as a site, with a search.",
    ]
    above: tuple[str, ...] = ()
    for page in read_nav():
        for level, part in enumerate(page.parts, start=2):
            if page.parts[: level - 1] != above[: level - 1]:
                lines += ["", f"{'#' * level} {part}"]
        if page.parts != above:
            lines.append("")
        above = page.parts
        title = pages.title_of((ROOT / page.file).read_text(encoding="utf-8"))
        lines.append(f"- [{title}]({posixpath.relpath(page.file, 'docs')})")
    return "\n".join([*lines, ""])
