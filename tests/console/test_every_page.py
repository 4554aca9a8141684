"""What holds on every page of the console: access as axe judges it, no motion where none is wanted, no width beyond the window, all words from `text/`."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agentrail.cli.demo_server import make_demo_application
from tests.console.browsing import axe_faults, in_each_look, is_quiet, until
from tests.console.greek import ID, greek
from tests.console.serving import AppThread
from tests.thinned import nightly, sample

pytestmark = pytest.mark.check

PLACES = {
    "sessions": "#/",
    "session": "#/s/refund-4411",
    "tree": "#/tree",
    "journal": "#/s/refund-4411/journal",
    "cost": "#/cost",
    "plugins": "#/plugins",
}
CORES = {
    "sessions": ".sessions-list",
    "session": ".feed",
    "tree": ".tree-body",
    "journal": ".journal-panes",
    "cost": ".cost-table",
    "plugins": ".plugins-page",
}
"""What of a page one came for."""

WIDER = """
() => [...document.querySelectorAll("body *")].filter((one) => {
  const box = one.getBoundingClientRect();
  if (box.width === 0 || box.right <= innerWidth + 1) return false;
  for (let above = one; above !== null; above = above.parentElement) {
    const style = getComputedStyle(above);
    if (style.overflowX !== "visible" || style.position === "fixed" || style.clipPath !== "none") return false;
  }
  return true;
}).map((one) => `${one.tagName}.${one.className} to ${Math.round(one.getBoundingClientRect().right)}`)
"""

SIDEWAYS = """
() => [...document.querySelectorAll("html, body, #app, main, main *")].filter((one) => {
  const style = getComputedStyle(one);
  return one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0 && ["auto", "scroll"].includes(style.overflowX)
    && !one.closest("pre, [data-sideways], .bar-pages, [role=tablist], textarea");
}).map((one) => `${one.tagName}.${one.className} ${one.scrollWidth} in ${one.clientWidth}`)
"""


SMALL = """
() => [...document.querySelectorAll("button, a[href], select, input, textarea, summary")].filter((one) => {
  const box = one.getBoundingClientRect();
  const isInline = getComputedStyle(one).display === "inline";
  const label = one.closest("label");
  return box.width > 0 && !isInline && !one.closest(".skip, .sr-only") && !one.classList.contains("skip")
    && (box.height < 23.5 || box.width < 23.5) && !(label && label.getBoundingClientRect().height >= 23.5);
}).map((one) => `${one.outerHTML.slice(0, 160)} ${one.getBoundingClientRect().width} × ${one.getBoundingClientRect().height}`)
"""

# Two pages in CI, as all have the same frame and parts; each page in `make nightly`.
every_page = pytest.mark.parametrize("name", sample([*PLACES], 2))


class Demo:
    """The application of `serve --demo`, served."""

    def __init__(self, directory):
        app = make_demo_application(Path(directory))
        self.thread = AppThread(app, drain=app.state.drain)

    def link(self, fragment="#/", query=""):
        """Give the address of a page of the console."""
        return f"http://127.0.0.1:{self.thread.port}/console/{query}{fragment}"


@pytest.fixture(scope="module")
def demo_server():
    """One demo for all tests of this file: they look, and change nothing."""
    with TemporaryDirectory() as directory:
        demo = Demo(directory)
        yield demo
        demo.thread.stop()


def opened(pages, server, name, **given):
    """Open a page, and wait until it shows what it is for."""
    page = pages.open(server.link(PLACES[name]), **given)
    until(page, "() => document.querySelector('.connection-button.live') && document.querySelector('h1')")
    until(page, "() => !document.querySelector('.loading')")
    return page


@every_page
@pytest.mark.c(36)
@pytest.mark.services("axe-core")
def test_axe_finds_nothing_and_each_control_has_a_name_and_is_large_enough(pages, demo_server, name):
    """Nothing in light and dark, wide and narrow; targets have 24 px, or lie in a sentence."""
    page = opened(pages, demo_server, name)
    for width in in_each_look(page):
        assert axe_faults(page) == [], width
        assert page.evaluate(SMALL) == [], width


@pytest.mark.c(36)
@pytest.mark.services("axe-core")
def test_axe_finds_nothing_in_a_dialogue(pages, demo_server):
    """The same for what opens above a page."""
    page = opened(pages, demo_server, "sessions")
    for name in ("Keys", "Find a session, a page or a command", "Live"):
        page.get_by_role("button", name=name, exact=True).click()
        page.locator("dialog[open]").wait_for()
        for width in in_each_look(page):
            assert axe_faults(page) == [], (name, width)
        page.set_viewport_size({"width": 1280, "height": 800})
        page.keyboard.press("Escape")
        until(page, "() => !document.querySelector('dialog')")


@every_page
@pytest.mark.c(41)
def test_nothing_moves_unasked_is_wider_than_the_window_or_out_of_reach(pages, demo_server, name):
    """Nothing lies beyond the edge, and at 400 % (WCAG 1.4.10) what a page is for is reached; with `prefers-reduced-motion` no animation runs."""
    page = opened(pages, demo_server, name, reduced_motion="reduce")
    for _ in range(5):
        assert (
            page.evaluate("() => document.getAnimations().map((one) => one.effect?.target?.className)") == []
        )
        page.wait_for_timeout(60)

    for width in (1440, 1024, 360, 320):
        page.set_viewport_size({"width": width, "height": 740})
        page.wait_for_timeout(80)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        assert page.evaluate(WIDER) == [], width
        assert page.evaluate(SIDEWAYS) == [], width

    page.set_viewport_size({"width": 320, "height": 256})  # a window of 1280 × 1024 at 400 %
    page.reload()
    until(page, "(core) => document.querySelector(core)", CORES[name])
    page.wait_for_timeout(80)
    page.locator(CORES[name]).first.scroll_into_view_if_needed()
    height = page.evaluate(
        """(core) => { const box = document.querySelector(core).getBoundingClientRect(); return Math.min(box.bottom, innerHeight) - Math.max(box.top, 0); }""",
        CORES[name],
    )
    assert height >= 100, height
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 320
    assert page.evaluate(WIDER) == []


CHOSEN = {
    "sessions": (".bar-pages a[aria-current]", ".bar-pages a:not([aria-current])"),
    "session": (".tab[aria-selected=true]", ".tab[aria-selected=false]"),
    "journal": (".record-row.is-chosen", ".record-row:not(.is-chosen)"),
}

LINE = """(selector) => { const style = getComputedStyle(document.querySelector(selector)); return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0; }"""


@nightly
def test_in_forced_colours_what_is_chosen_is_told_by_a_line_and_bars_are_seen(pages, demo_server):
    """Grounds and shadows are not there then: what is chosen has a line, the others have none, and the bars of days have another ground than the page."""
    page = opened(pages, demo_server, "cost", forced_colors="active")
    ground = "(selector) => getComputedStyle(document.querySelector(selector)).backgroundColor"
    until(page, "() => document.querySelector('.bar-whole')")
    assert page.evaluate(ground, ".bar-whole") != page.evaluate(ground, "body")
    for name, (chosen, other) in CHOSEN.items():
        page.evaluate("(place) => { location.hash = place; }", PLACES[name])
        for selector in (chosen, other):
            until(page, "(selector) => document.querySelector(selector)", selector)
        assert page.evaluate(LINE, chosen)
        assert not page.evaluate(LINE, other)


PLAIN = """
() => {
  const found = new Set();
  const strip = (text) => {
    let depth = 0, rest = "";
    for (const letter of text) {
      if (letter === "[") depth += 1;
      else if (letter === "]") depth = Math.max(0, depth - 1);
      else if (depth === 0) rest += letter;
    }
    return rest;
  };
  const KEYS = /\\b(Ctrl|Alt|Shift|Enter|Esc|Escape|Tab|Home|End|PgUp|PgDn|Arrow\\w+)\\b/g; // of a keyboard, and in no language
  const UNITS = /\\d ?(ms|s|m|h|d|k|M|KB|MB|GB|KiB|MiB)(?![A-Za-z])/g; // signs of the SI and near it, in no language either
  const look = (text, where) => {
    if (/[A-Za-z]{2,}/.test(strip(text).replace(KEYS, "").replace(UNITS, ""))) found.add(`${where}: ${text.trim().slice(0, 80)}`);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const above = node.parentElement;
    if (!above.closest("script, noscript, #no-modules, kbd, [translate=no], code, pre, .mono")) look(node.data, above.tagName + "." + above.className);
  }
  for (const one of document.querySelectorAll("[aria-label], [title], [placeholder], [aria-valuetext], [alt]")) {
    if (one.closest("[translate=no]")) continue;
    for (const name of ["aria-label", "title", "placeholder", "aria-valuetext", "alt"]) if (one.hasAttribute(name)) look(one.getAttribute(name), name);
  }
  look(document.title, "title");
  return [...found];
}
"""


@every_page
@pytest.mark.c(39)
def test_the_pseudo_locale_leaves_no_english_word(pages, scripted_server, name):
    """All that a person reads comes from `text/`: with words in brackets and longer, no other Latin letters stand on a page of Greek data, and nothing breaks at 360 px."""
    greek(scripted_server)
    place = PLACES[name].replace("refund-4411", ID)
    page = pages.open(scripted_server.link(place, query="?pseudo"), locale="el-GR")
    pages.of(page).expects.append("404")  # what this world has no answer for is asked for all the same
    until(page, "() => document.querySelector('.connection-button.live') && document.querySelector('h1')")
    is_quiet(page)
    plain = page.evaluate(PLAIN)
    assert plain == [], "\n".join(plain)
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 740})
        page.wait_for_timeout(80)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        assert page.evaluate(WIDER) == [], width
        assert page.evaluate(SIDEWAYS) == [], width


@nightly
@pytest.mark.c(39)
def test_the_pseudo_locale_leaves_no_english_word_in_a_dialogue(pages, scripted_server):
    """The same for what opens above a page."""
    greek(scripted_server)
    page = pages.open(scripted_server.link("#/", query="?pseudo"), locale="el-GR", width=360, height=740)
    until(page, "() => document.querySelector('.connection-button.live')")
    for key in ("?", "Control+k"):
        is_quiet(page)
        page.keyboard.press(key)
        page.locator("dialog[open]").wait_for()
        is_quiet(page)
        assert page.evaluate(PLAIN) == []
        assert page.evaluate(WIDER) == []
        page.keyboard.press("Escape")
        until(page, "() => !document.querySelector('dialog')")
