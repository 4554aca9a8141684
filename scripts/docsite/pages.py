"""What the site does to a page of the repository before it is rendered. Plain functions of texts.

The Markdown is that of the repository. Only what means one thing where the repository is read and another one on the site is put
differently: links to files that are no pages, pictures in two colours.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from scripts.docsite.nav import FROM_THE_ROOT

SHOWN_AS: Final[Mapping[str, str]] = {
    ".py": "python",
    ".toml": "toml",
    ".txt": "text",
    ".md": "markdown",
    ".sh": "bash",
    ".conf": "nginx",
    ".service": "ini",
    "Caddyfile": "text",
    "Containerfile": "docker",
    ".Containerfile": "docker",
    ".yaml": "yaml",
    ".yml": "yaml",
    "Makefile": "make",
    "grafana-dashboard.json": "json",
}
"""Files that get a page of their own where a page links to them, by suffix or name, and the language that they are coloured as."""

SOURCE: Final = "source"
"""The folder of the site in which those pages are."""

_CODE: Final = re.compile(r"^ *```.*?^ *```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(\]\()([^)\s]+)(\))")
_PICTURE: Final = re.compile(
    r'<picture>\s*<source [^>]*srcset="([^"]+)"[^>]*>\s*<img alt="([^"]*)" src="([^"]+)"[^>]*>\s*</picture>'
)
_FACTS: Final = re.compile(r"^Priority \d+, on [^.]*\.\s*")
"""How the page of a plugin begins; what the plugin does comes behind it."""
_HTML_COMMENT: Final = re.compile(r"<!--.*?-->\n?", re.DOTALL)

NEXT: Final = "<!-- Next, drawn from mkdocs.yml by make docs -->"
"""What stands above the last line of a page, which says what comes next; `scripts/next_lines.py` writes it."""


def github_anchor(heading: str, separator: str = "-") -> str:
    """Make the anchor of a heading as the hosts of repositories do, so that a link holds in both places."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def outside_of_code(text: str, change: Callable[[str], str]) -> str:
    """Change what is prose, and leave fences and code spans as they are."""
    done, parts = 0, []
    for code in _CODE.finditer(text):
        parts += [change(text[done : code.start()]), code[0]]
        done = code.end()
    return "".join([*parts, change(text[done:])])


def without_next(text: str) -> str:
    """Leave out what says where to read on: the site says it in its footer."""
    return text.partition(f"\n{NEXT}\n")[0]


def links_in(text: str) -> Iterator[str]:
    """Give the targets of links within the repository, without those in code."""
    for _, target, _ in _LINK.findall(_CODE.sub("x", text)):
        if not re.match(r"[a-z]+:", target):
            yield target


def language_of(file: str) -> str | None:
    """Say as what a file is coloured; None for one that gets no page."""
    path = PurePosixPath(file)
    return SHOWN_AS.get(path.name, SHOWN_AS.get(path.suffix))


def place_on_site(file: str) -> str:
    """Say where the site has a file of the repository, from the root of each.

    A page stays where it is below `docs/`. Another file that can be shown gets a page of its own, and anything else is copied as it is.
    """
    if file == "docs/README.md":  # the list of pages, which the site has at its side
        return "index.md"
    for page, home in FROM_THE_ROOT.items():
        if file == home:
            return page
    inside = file.removeprefix("docs/")
    is_read_by_example = re.match(r"docs/examples/[^/]+/[^/]+/", file) is not None
    if inside != file and not is_read_by_example and (inside.endswith(".md") or language_of(file) is None):
        return inside
    return f"{SOURCE}/{file}.md"


def target_of(link: str, file: str) -> str:
    """Say which file of the repository a link in another one leads to, without its anchor."""
    path = link.partition("#")[0]
    return posixpath.normpath(posixpath.join(posixpath.dirname(file), path)) if path else file


def for_site(text: str, file: str) -> str:
    """Make of a page of the repository one of the site.

    Args:
        text: Its Markdown.
        file: Where the repository has it, from the root.
    """
    here = posixpath.dirname(place_on_site(file))

    def moved(link: str) -> str:
        if re.match(r"[a-z]+:|#", link):
            return link
        place = posixpath.relpath(place_on_site(target_of(link, file)), here or ".")
        return f"{place}#{link.partition('#')[2]}" if "#" in link else place

    def relinked(prose: str) -> str:
        prose = _PICTURE.sub(two_pictures, _HTML_COMMENT.sub("", prose))
        return _LINK.sub(lambda link: f"{link[1]}{moved(link[2])}{link[3]}", prose)

    return outside_of_code(without_next(text), relinked)


def two_pictures(picture: re.Match[str]) -> str:
    """Make of a picture that follows the reader's system two that follow the switch of the site."""
    dark, said, light = picture.groups()
    return f"![{said}]({light}#only-light)\n![{said}]({dark}#only-dark)"


def source_page(file: str, text: str) -> str:
    """Show a file as a page that the search leaves out: what is found should be what explains it."""
    language = language_of(file) or "text"
    marks = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    head = "---\nsearch:\n  exclude: true\nhide:\n  - toc\n---\n\n"
    return f"{head}# `{file}`\n\n{marks}{language}\n{text.rstrip()}\n{marks}\n"


def first_sentence(text: str) -> str:
    """Give the first sentence of a page, as plain text: what an overview says of it."""
    body = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    body = _HTML_COMMENT.sub("", re.sub(r"^ *```.*?^ *```$", "", body, flags=re.MULTILINE | re.DOTALL))
    for paragraph in re.split(r"\n\s*\n", body):
        said = _FACTS.sub("", " ".join(paragraph.split()))
        if said and said[0] not in "#|<!-":
            said = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", said).replace("**", "").replace("`", "")
            return re.split(r"(?<=[.!?])\s", said, maxsplit=1)[0]
    return ""


def title_of(text: str) -> str:
    """Give the first heading of a page, as plain text."""
    found = re.search(
        r"^# (.+)$", re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    return found[1].replace("`", "") if found else ""
