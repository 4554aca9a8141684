"""The site: what is true of its pages without building it. `make docs-site` builds it, and judges what came of that."""

import ast
import json
import re
from collections import defaultdict
from importlib import import_module
from itertools import groupby, pairwise
from pathlib import Path

import pytest

from agentrail import errors
from scripts import error_cures, names_pages
from scripts.docsite import check, pages
from scripts.docsite.llms import ListedPage, list_pages
from scripts.docsite.nav import ROOT, read_nav

DOCS = ROOT / "docs"
PARTS = ["Start", "Build", "Serve", "Operate", "Test", "Understand", "Reference"]
READ_BY_PROGRAMS = re.compile(r"docs/examples/[^/]+/[^/]+/")
MIN_CHARACTERS = 60


def pages_of_the_repository() -> list[str]:
    """All Markdown that is for readers, from the root."""
    found = [one.relative_to(ROOT).as_posix() for one in DOCS.rglob("*.md") if one != DOCS / "README.md"]
    return [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "CODE_OF_CONDUCT.md",
        *(one for one in found if not READ_BY_PROGRAMS.match(one)),
    ]


# --- the order


def test_each_page_stands_once_in_the_readers_order():
    """A new page gets a line under `nav` in mkdocs.yml, where a reader comes to it (14.4)."""
    assert sorted(page.file for page in read_nav()) == sorted(pages_of_the_repository())


def test_the_parts_stand_in_the_readers_order():
    """From the first command to the reference (14.4)."""
    assert [part for part, _ in groupby(page.parts[0] for page in read_nav())] == PARTS


def test_the_list_for_models_has_each_page():
    """In order, under its part, with its first sentence: https://llmstxt.org."""
    page = ListedPage(part="Start", title="Install", said="It needs Python.", place="tutorial/install.md")
    other = ListedPage(part="Build", title="Tools", said="", place="tools.md")
    assert list_pages("agentrail", "Agents.", [page, other]).splitlines() == [
        *("# agentrail", "", "> Agents.", "", "## Start", ""),
        *("- [Install](tutorial/install.md): It needs Python.", "", "## Build", "", "- [Tools](tools.md)"),
    ]


def test_each_page_has_a_title_and_says_what_it_is():
    """In its first sentence, which the list for models and the search show."""
    texts = {page.path: (ROOT / page.file).read_text(encoding="utf-8") for page in read_nav()}
    assert [
        name for name, text in texts.items() if not (pages.title_of(text) and pages.first_sentence(text))
    ] == []


LOOKED_UP = {"Reference", "Decisions"}


def leads_to(file: str) -> str:
    """Where the last line of a page leads, from the root; nowhere where it says nothing of that."""
    found = re.search(
        r"\n\*\*Next:\*\* \[[^\]]+\]\(([^)]+)\)[^\n]*\n\Z", (ROOT / file).read_text(encoding="utf-8")
    )
    return "" if found is None else pages.target_of(found[1], file)


def test_each_page_leads_to_the_one_that_comes_next():
    """In the repository too, where the footer of the site is not seen; reference and records are looked things up in (14.4)."""
    order = [page for page in read_nav() if LOOKED_UP.isdisjoint(page.parts)]
    wanted = {page.file: following.file for page, following in pairwise(read_nav()) if page in order}
    wrong = {
        file: leads_to(file) for file in wanted if file.startswith("docs/") and leads_to(file) != wanted[file]
    }
    assert len(wanted) > 80
    assert wrong == {}
    readme = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Next steps")[2]
    assert pages.target_of(next(pages.links_in(readme)), "README.md") == wanted["README.md"]


# --- nothing is said twice


def paragraphs_of(text: str) -> list[str]:
    """What a page says in sentences: no code, no tables, no headings."""
    text = re.sub(r"^ *```.*?^ *```$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    found = (" ".join(one.split()) for one in re.split(r"\n\s*\n|\n(?=- )", text))
    return [one for one in found if len(one) >= MIN_CHARACTERS and one[0] not in "|#<"]


def said_twice(texts: dict[str, str]) -> dict[str, list[str]]:
    """Paragraphs that stand in two places, and where."""
    places = defaultdict(list)
    for name, text in texts.items():
        for paragraph in paragraphs_of(text):
            places[paragraph].append(name)
    return {one: where for one, where in places.items() if len(where) > 1}


def test_no_paragraph_stands_twice():
    """A page links to what another one says. Drawn pages tell the same of two things where their docstrings do (14.4)."""
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in pages_of_the_repository()}
    assert said_twice({name: text for name, text in texts.items() if "<!-- Drawn from" not in text}) == {}


def test_a_paragraph_that_stands_twice_is_seen():
    """Whatever its lines, on two pages or on one; not in code, and not where it is short."""
    said = "A session is an actor, and it owns its mailbox; nobody else reads it."
    texts = {
        "a": f"# A\n\n{said}\n",
        "b": f"- x\n- {said[:20]}\n  {said[20:]}\n\n```\n\n{said}\n\n```\n\nShort.\n\nShort.\n",
    }
    assert said_twice(texts) == {}
    assert said_twice(texts | {"c": said.replace(", ", ",\n")}) == {said: ["a", "c"]}


MOST_WORDS_IN_A_ROW = 14


def runs_of_words(text: str) -> set[str]:
    """All runs of so many words of what a page says; not of its code, its pictures and its links."""
    text = re.sub(r"^ *```.*?^ *```$|<[^>]+>|\]\([^)]*\)", "", text, flags=re.MULTILINE | re.DOTALL)
    words = re.findall(r"[\w']+", text.lower())
    return {
        " ".join(words[at : at + MOST_WORDS_IN_A_ROW]) for at in range(len(words) - MOST_WORDS_IN_A_ROW + 1)
    }


def near_twins(texts: dict[str, str]) -> set[tuple[str, str]]:
    """Pages that say the same for a whole row of words."""
    places: dict[str, str] = {}
    found = set()
    for name, text in texts.items():
        for run in runs_of_words(text):
            if places.setdefault(run, name) != name:
                found.add((places[run], name))
    return found


def test_no_two_pages_say_the_same_for_long():
    """Also within paragraphs that differ; records of decisions and drawn pages repeat names and signatures."""
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in pages_of_the_repository()}
    read = {
        name: text
        for name, text in texts.items()
        if "<!-- Drawn from" not in text and "/decisions/" not in name
    }
    assert len(read) > 90
    assert near_twins(read) == set()


def test_two_pages_that_say_the_same_for_long_are_seen():
    """However their lines are broken, and whatever stands around it."""
    said = "what runs behind a call that was answered early goes on until it ends or is stopped"
    texts = {
        "a": f"Here, {said}.",
        "b": f"There,\n{said.replace('early', chr(10) + 'early')}!",
        "c": f"```\n{said}\n```\n",
    }
    assert near_twins(texts) == {("a", "b")}


# --- names and codes


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


# --- programs and promises


def test_the_gallery_shows_each_program():
    """Each directory of docs/examples is in it, with its tests; `make examples` runs all that there are."""
    text = (DOCS / "examples" / "README.md").read_text(encoding="utf-8")
    programs = sorted(one.name for one in (DOCS / "examples").iterdir() if (one / "pyproject.toml").is_file())
    assert len(programs) >= 8
    for name in programs:
        assert re.search(
            rf"^\| .*\]\({name}/.*\[tests\]\({name}/tests/test_{name}\.py\) \|$", text, re.MULTILINE
        ), name
    said = re.findall(r"\]\((\w+/\w+\.py|\w+/README\.md)\), (\d+) lines", text)
    for page, lines in said:
        program = DOCS / "examples" / page.replace("README.md", f"{page.partition('/')[0]}.py")
        assert int(lines) == len(program.read_text(encoding="utf-8").splitlines()), page


def test_each_promise_names_a_test_that_shows_it():
    """Seven promises, and under each a file whose tests are there."""
    text = (DOCS / "explanation" / "promises.md").read_text(encoding="utf-8")
    promises = re.split(r"^## (?=\d\. )", text, flags=re.MULTILINE)[1:]
    assert [one[0] for one in promises] == list("1234567")
    for promise in promises:
        shown = re.findall(r"\]\(\.\./\.\./((?:property_)?tests/\S+\.py)\)", promise)
        assert any("def test_" in (ROOT / one).read_text(encoding="utf-8") for one in shown), promise[:40]


# --- what is put differently on the site


@pytest.mark.parametrize(
    ("file", "said", "shown"),
    [
        (
            "README.md",
            "[a](docs/how-to/x.md#b) [c](CONTRIBUTING.md)",
            "[a](how-to/x.md#b) [c](contributing.md)",
        ),
        ("docs/how-to/x.md", "[a](../../README.md) [b](y.md) [c](#d)", "[a](../index.md) [b](y.md) [c](#d)"),
        ("docs/how-to/x.md", "[a](../examples/p/p.py)", "[a](../source/docs/examples/p/p.py.md)"),
        ("docs/explanation/x.md", "[a](../../tests/t.py)", "[a](../source/tests/t.py.md)"),
        (
            "docs/reference/x.md",
            "[a](events.json) [b](https://x.y/z.py)",
            "[a](events.json) [b](https://x.y/z.py)",
        ),
        (
            "docs/x.md",
            f"Said.\n\n{pages.NEXT}\n\n**Next:** [a](b.md)\n",
            "Said.\n",
        ),
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


def test_a_picture_in_two_colours_follows_the_switch():
    """The site's, and not the system's alone."""
    said = '<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="a-dark.svg">\n  <img alt="A" src="a-light.svg">\n</picture>'
    assert pages.for_site(said, "docs/x.md") == "![A](a-light.svg#only-light)\n![A](a-dark.svg#only-dark)"


def test_a_file_is_shown_whole():
    """Fences in it included."""
    assert pages.source_page("a/b.md", "```\nx\n```\n").endswith(
        "# `a/b.md`\n\n````markdown\n```\nx\n```\n````\n"
    )


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


@pytest.mark.check  # `make docs-check` compares all that is drawn
def test_the_picture_of_a_cycle_is_drawn_from_its_events():
    """Each bar begins and ends with an event of the run, and each event has its dot."""
    picture = import_module("scripts.timeline_picture")
    events = picture.live_through()
    zero = events[0].meta.at_ms
    times = {event.meta.at_ms - zero for event in events}
    bars = picture.bars_of(events)
    assert all({bar.begins_ms, bar.ends_ms} <= times for bar in bars)
    assert [bar.kind for bar in bars].count("model") == 3
    assert picture.draw_timeline("dark").count("<circle") == len(events)
    assert (
        Path(DOCS / "pictures" / "cycle-light.svg").read_text(encoding="utf-8")
        == f"{picture.draw_timeline('light')}\n"
    )
