"""The order in which the site is read: what `mkdocs.yml` says under `nav`, as a list. Pure.

Nothing of MkDocs enters this file, so that the tests read the order where it is not installed.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from attrs import frozen

ROOT: Final = Path(__file__).parents[2]
SETTINGS: Final = ROOT / "mkdocs.yml"

FROM_THE_ROOT: Final[Mapping[str, str]] = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
    "code-of-conduct.md": "CODE_OF_CONDUCT.md",
}
"""Pages of the site that stand outside of `docs/` in the repository."""


@frozen(kw_only=True)
class NavPage:
    """A page in the reader's order.

    Attributes:
        path: Where the site has it, from `docs/`.
        parts: The headings that it stands under, outermost first.
    """

    path: str
    parts: tuple[str, ...]

    @property
    def file(self) -> str:
        """Where the repository has it, from its root."""
        return FROM_THE_ROOT.get(self.path, f"docs/{self.path}")


def read_nav(settings: Path = SETTINGS) -> tuple[NavPage, ...]:
    """Read the pages of the site in order."""
    text = settings.read_text(encoding="utf-8")
    return tuple(_pages_in(yaml.safe_load(text)["nav"], ()))


def _pages_in(entries: Sequence[Any], parts: tuple[str, ...]) -> Iterator[NavPage]:
    for entry in entries:
        if isinstance(entry, str):
            yield NavPage(path=entry, parts=parts)
            continue
        for title, below in entry.items():
            if isinstance(below, str):
                yield NavPage(path=below, parts=parts)
            else:
                yield from _pages_in(below, (*parts, title))
