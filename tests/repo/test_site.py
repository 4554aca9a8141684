"""The site: what is true of its pages without building it. `make docs-site` builds it, and judges what came of that."""

import ast
import json
import re

import pytest

from agentrail import errors
from scripts import error_cures, names_pages
from scripts.docsite import check, pages
from scripts.docsite.llms import ListedPage, list_pages
from scripts.docsite.nav import ROOT, read_nav

DOCS = ROOT / "docs"


def test_the_list_for_models_has_each_page():
    """In order, under its part, with its first sentence: https://llmstxt.org."""
    page = ListedPage(part="Start", title="Install", said="It needs Python.", place="tutorial/install.md")
    other = ListedPage(part="Build", title="Tools", said="", place="tools.md")
    assert list_pages("agentrail", "Agents.", [page, other]).splitlines() == [
        *("# agentrail", "", "> Agents.", "", "## Start", ""),
        *("- [Install](tutorial/install.md): It needs Python.", "", "## Build", "", "- [Tools](tools.md)"),
    ]


@pytest.mark.experience("X-013")
def test_every_public_name_has_a_page():
    """Each name of the façade and of every public module is linked to on the list, and described where that leads."""
    listed = names_pages.names_page()
    described = {}
    for one in names_pages.public_names():
        target = names_pages.link_from(one.home, "README")
        assert f"[`{one.name}`]({target})" in listed, one
        page = (DOCS / "reference" / one.home.partition("#")[0]).resolve()
        text = described.setdefault(str(page), page.read_text(encoding="utf-8"))
        assert f"`{one.name}`" in text, one
        if one.own:
            assert f"::: {one.module}.{one.name}\n" in text, one


def imported_by_pages() -> set[tuple[str, str]]:
    """What pages and programs import of ours: modules, and names of them."""
    found = set()
    for page in [ROOT / "README.md", *DOCS.rglob("*.md"), *(DOCS / "examples").rglob("*.py")]:
        text = page.read_text(encoding="utf-8")
        for code in (
            [text]
            if page.suffix == ".py"
            else re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        ):
            for node in ast.walk(ast.parse(code)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "agentrail":
                    found |= {(str(node.module), one.name) for one in node.names}
    return found


@pytest.mark.experience("X-013")
def test_every_name_that_a_page_imports_is_public():
    """Its module has a page; or its room has, and the name is on it."""
    public = {module for _, modules in names_pages.MODULES.values() for module in modules.split()}
    public |= names_pages.ELSEWHERE.keys()
    known = {one.name for one in names_pages.public_names()}
    imported = {(module, name) for module, name in imported_by_pages() if f"{module}.{name}" not in public}
    assert len(imported) > 100
    unknown = {f"{module}.{name}" for module, name in imported if module not in public and name not in known}
    assert sorted(unknown - {"agentrail.testing.stacks"}) == []


CARRIES_A_CODE = {"ErrorInfo", "Refusal", "PathRefused", "ProcessRefused"}


def codes_in_the_package() -> set[str]:
    """The codes that are written where an error is made, but for those of the test kit."""
    found = set()
    for path in (ROOT / "agentrail").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "testing" in path.parts or not any(f"{name}(" in text for name in CARRIES_A_CODE):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) in CARRIES_A_CODE:
                values = [one.value for one in node.keywords if one.arg == "code"]
                found |= {str(one.value) for one in values if isinstance(one, ast.Constant)}
    return found


@pytest.mark.experience("X-013")
def test_every_code_of_an_error_has_an_entry():
    """With what happened, and what to do about it: those of classes, and those that only events and results carry."""
    classes = [
        one
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, errors.AgentrailError)
    ]
    of_classes = {one.code for one in classes}
    assert error_cures.CURES.keys() == of_classes
    others = error_cures.IN_EVENTS.keys() | error_cures.IN_RESULTS.keys()
    assert codes_in_the_package() - of_classes <= others
    page = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    entries = re.findall(r"^\| `([a-z_]+)` \| .+ \| \S.+ \|$", page, re.MULTILINE)
    assert sorted(entries) == sorted([*of_classes, *error_cures.IN_EVENTS, *error_cures.IN_RESULTS])


# --- what is put differently on the site


@pytest.mark.parametrize(
    ("file", "said", "shown"),
    [
        ("README.md", "[a](docs/a.md#b) [c](CONTRIBUTING.md)", "[a](a.md#b) [c](contributing.md)"),
        ("docs/how-to/x.md", "[a](../../README.md) [b](y.md) [c](#d)", "[a](../index.md) [b](y.md) [c](#d)"),
        ("docs/how-to/x.md", "[a](../examples/p/p.py)", "[a](../source/docs/examples/p/p.py.md)"),
        ("docs/explanation/x.md", "[a](../../tests/t.py)", "[a](../source/tests/t.py.md)"),
        ("docs/x.md", "[a](events.json) [b](https://x.y/z)", "[a](events.json) [b](https://x.y/z)"),
        ("docs/x.md", f"Said.\n\n{pages.NEXT}\n\n**Next:** [a](b.md)\n", "Said.\n"),
        (
            "docs/x.md",
            "`[a](b.py)` <!-- skip: next -->\n```\n[a](b.py) <!-- c -->\n```",
            "`[a](b.py)` ```\n[a](b.py) <!-- c -->\n```",
        ),
    ],
)
def test_links_lead_to_the_same_on_the_site(file, said, shown):
    """Pages to pages, files to what shows them; code stays as it is."""
    assert pages.for_site(said, file) == shown


def test_pictures_and_files_on_the_site():
    """A picture in two colours follows the site's switch; a file is shown whole, fences in it included."""
    said = '<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="a-dark.svg">\n  <img alt="A" src="a-light.svg">\n</picture>'
    assert pages.for_site(said, "docs/x.md") == "![A](a-light.svg#only-light)\n![A](a-dark.svg#only-dark)"
    shown = pages.source_page("a/b.md", "```\nx\n```\n")
    assert shown.endswith("# `a/b.md`\n\n````markdown\n```\nx\n```\n````\n")


# --- the judge of what was built


@pytest.mark.parametrize(
    ("html", "fetched"),
    [
        ('<link rel="stylesheet" href="https://fonts.x/css">', ["fetches https://fonts.x/css"]),
        ('<link rel="canonical" href="https://x/"><a href="https://x/">x</a><img src="a.png">', []),
        ("<script src='//cdn.x/a.js'></script>", ["fetches //cdn.x/a.js"]),
        ("<style>a{background:url(https://x/y.png)}</style>", ["fetches https://x/y.png"]),
        ('<p style="background: url(//x/y)">', ["fetches //x/y"]),
        ('<pre class="mermaid">', ["fetches //a library for diagrams"]),
    ],
)
def test_what_a_page_would_fetch_from_elsewhere_is_seen(html, fetched):
    """Fonts, scripts, pictures and styles; a link that a reader may follow is none."""
    assert list(check.fetched_elsewhere(check.read_html(html))) == fetched


def test_a_site_with_faults_is_seen(tmp_path, monkeypatch, capsys):
    """A link to nowhere, an anchor that is none, a page that leads to the wrong one, one that the search and the list lack."""
    order = read_nav()[:2]
    monkeypatch.setattr(check, "read_nav", lambda: order)
    first, second = (tmp_path / check.html_of(page.path) for page in order)
    second.parent.mkdir()
    (tmp_path / "search").mkdir()
    first.write_text(
        '<a class="md-footer__link--next" href="tutorial/install.html#here">Next</a><a href="no.html">x</a>'
    )
    second.write_text('<h1 id="there">Install</h1>')
    docs = [{"location": "index.html"}]
    (tmp_path / "search" / "search_index.js").write_text(f"var __index = {json.dumps({'docs': docs})}")
    (tmp_path / "llms.txt").write_text(f"- [a]({order[0].path})\n")
    assert check.main([str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "index.html: links to tutorial/install.html#here: there is no such place on that page",
        "index.html: links to no.html, which is not there",
        "index.html: leads to ['tutorial/install.html#here'], and the order says tutorial/install.html",
        "tutorial/install.md: the search does not find it",
        "llms.txt: lists other pages than the order has",
        "llms.txt: lists index.md, which is not there",
    ]
