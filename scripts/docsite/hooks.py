"""What MkDocs calls while it builds the site: it reads files and hands them to `pages` and `llms`, which decide.

`mkdocs.yml` names this file. `python -m mkdocs` puts the working directory on the path, so `scripts` can be imported.
"""

import atexit
import gc
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from scripts.docsite import pages
from scripts.docsite.llms import ListedPage, join_pages, list_pages
from scripts.docsite.nav import FROM_THE_ROOT, ROOT, read_nav

ASSETS: Final = Path(__file__).parent / "assets"
_MARKDOWN: Final[dict[str, str]] = {}
"""The Markdown of each page of this build, by its place on the site."""

BOOSTS: Final = {"how-to/": 4, "tutorial/": 4, "explanation/decisions": 0.25, "reference/": 0.5}
"""Weight of a page in the search, by the start of its place: tasks come before the API and the decisions."""


def on_startup(command: str, **_: Any) -> None:
    """Keep the collector from the trees of all modules, which stay until the end, and are not freed then."""
    if command == "build":
        gc.disable()
        atexit.register(gc.freeze)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let anchors be those that links in the repository name."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = pages.github_anchor
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand at the root of the repository, the files that pages link to, and what the theme would fetch."""
    for place, home in FROM_THE_ROOT.items():
        files.append(File.generated(config, place, content=(ROOT / home).read_text(encoding="utf-8")))
    homes = {
        one.src_uri: FROM_THE_ROOT.get(one.src_uri, f"docs/{one.src_uri}")
        for one in files.documentation_pages()
    }
    linked = {
        pages.target_of(link, home)
        for home in homes.values()
        for link in pages.links_in((ROOT / home).read_text(encoding="utf-8"))
    }
    for file in sorted(linked):
        place = pages.place_on_site(file)
        if place.startswith(f"{pages.SOURCE}/") and (ROOT / file).is_file():
            text = pages.source_page(file, (ROOT / file).read_text(encoding="utf-8"))
            files.append(File.generated(config, place, content=text))
    for asset in sorted(ASSETS.iterdir()):
        files.append(File.generated(config, f"assets/{asset.name}", abs_src_path=str(asset)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put differently what means something else on the site, and keep what a page says for `llms.txt`."""
    del config, files
    place = page.file.src_uri
    if place.startswith(f"{pages.SOURCE}/"):
        return markdown
    said = pages.for_site(markdown, FROM_THE_ROOT.get(place, f"docs/{place}"))
    _MARKDOWN[place] = said
    page.meta.setdefault("description", pages.first_sentence(said))
    for start, boost in BOOSTS.items():
        if place.startswith(start):
            page.meta.setdefault("search", {})["boost"] = boost
    return said


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """Write the pages as Markdown, and the lists of them."""
    site = Path(config.site_dir)
    order = read_nav()
    listed = []
    for page in order:
        text = _MARKDOWN[page.path]
        target = site / page.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        listed.append(
            ListedPage(
                part=page.parts[0],
                title=pages.title_of(text),
                said=pages.first_sentence(text),
                place=page.path,
            )
        )
    said = config.site_description or ""
    (site / "llms.txt").write_text(list_pages(config.site_name, said, listed), encoding="utf-8")
    full = join_pages([_MARKDOWN[page.path] for page in order])
    (site / "llms-full.txt").write_text(full, encoding="utf-8")
