"""The page *Tree* in a browser: restarts as they happen, what wants to be looked at first, and two thousand nodes."""

import time

import pytest

from agentrail.gateway.authorization import ANYONE_HERE as LOCAL
from agentrail.testing.cancelling import crash
from tests.console.browsing import axe_faults, in_each_look, reload, shows, until
from tests.console.rows import tree_row
from tests.thinned import nightly

pytestmark = pytest.mark.check

LOOK = "() => document.querySelector('.look-first')?.innerText ?? ''"
NAMES = "() => [...document.querySelectorAll('.tree-body .node-name .cut')].map((one) => one.innerText.trim().replace(/\\s+/g, ' '))"
IS_UP = """(name) => [...document.querySelectorAll('.tree-body .tree-row')]
  .some((one) => one.innerText.includes(name) && /\\bup\\b/.test(one.innerText))"""
WIDE = "() => document.scrollingElement.scrollWidth - innerWidth"


def crashed(ago_ms, *reasons):
    now = int(time.time() * 1000)
    return [
        {"reason": reason, "at_ms": now - ago_ms - 1_000 * back}
        for back, reason in reversed([*enumerate(reversed(reasons))])
    ]


ROOT = tree_row("0", None, name="sessions", strategy="dynamic")


@pytest.mark.c(31)
def test_a_child_that_crashes_is_seen_within_a_second_each_time_and_then_parked(pages, console_server):
    """Four times, without a reload: three are forgiven, each with how much of the budget is used, and the fourth is not."""
    console_server.start(store=None)
    host = console_server.host
    session = console_server.thread.run(lambda: host.create(LOCAL, session_id="s-crash"))
    page = pages.open(console_server.link("#/tree"), showing="s-crash")
    shows(page, "no restarts in the last minute")
    page.evaluate("() => { globalThis.isTheSamePage = true; }")

    async def hit(words):
        crash(session, words)

    def is_shown(number, used):
        shows(page, f"ray {number}", seconds=1.0)
        until(page, f"() => ({LOOK})().includes('{used} of 2 in 5 s')", seconds=1.0)
        until(page, IS_UP, "s-crash", seconds=1.0)

    console_server.thread.run(hit, "ray 1")
    is_shown(1, used=1)
    console_server.thread.jump(5.1)  # the budget is two within five seconds: the first counts no more
    for number, used in ((2, 1), (3, 2)):
        console_server.thread.run(hit, f"ray {number}")
        is_shown(number, used)
    console_server.thread.run(hit, "ray 4")
    until(page, f"() => ({LOOK})().includes('parked')", seconds=1.0)
    shows(page, "ray 4", seconds=1.0)
    assert "s-crash" in page.locator(".tree-body .tree-row", has_text="parked").inner_text()
    assert page.evaluate("() => globalThis.isTheSamePage")
    reload(page, showing="parked")


@nightly
def test_what_matters_stands_first_and_a_minute_later_no_more(pages, scripted_server):
    """The stuck, the parked, the restarted, those with letters; a restart is told by words and colour, and its time runs."""
    scripted_server.rows["tree"] = [
        ROOT,
        tree_row("0.1", name="calm"),
        tree_row("0.2", name="busy", mailbox=7),
        tree_row(
            "0.3", name="restless", exits=crashed(20_000, "crashed: KeyError: 'x'"), restarts=1, incarnation=2
        ),
        tree_row("0.4", name="deaf", status="stuck", stuck=True),
        tree_row(
            "parked:gone",
            name="gone",
            status="parked",
            phase=None,
            exits=crashed(300_000, "crashed: ValueError"),
        ),
    ]
    page = pages.open(scripted_server.link("#/tree"), clock=True, showing="restless")
    names = page.evaluate("() => [...document.querySelectorAll('.look-name')].map((one) => one.innerText)")
    assert names == ["deaf", "gone", "restless", "busy"]
    said = page.evaluate(LOOK)
    for words in ("does not stop", "parked 5 m ago", "0 of 3 in 5 s", "KeyError", "7 queued messages"):
        assert words in said
    scripted_server.change("tree", tree_row("0.2", name="busy"), gone=("0.4",), total=5)
    until(page, "() => !document.querySelector('.look-first').innerText.includes('deaf')")
    assert "busy" not in page.evaluate(LOOK)
    page.clock.fast_forward(41_000)
    until(page, "() => !document.querySelector('.look-first').innerText.includes('restless')", seconds=5)


def test_it_is_sorted_folded_searched_and_opened_by_keyboard(pages, scripted_server):
    """Keys of a treegrid; a third press on a column gives the order of the tree back; a node tells its last exits and leads to its session."""
    scripted_server.rows["tree"] = [
        ROOT,
        tree_row("0.10", name="ten", restarts=1, exits=crashed(90_000, "first words", "second words")),
        tree_row("0.2", name="two", restarts=5),
        tree_row("0.2.0", "0.2", name="worker", kind="actor", phase=None, session_id=None, mailbox=None),
    ]
    page = pages.open(scripted_server.link("#/tree"))
    until(page, "() => document.querySelectorAll('.tree-body .tree-row').length === 4")
    assert page.evaluate(NAMES) == ["sessions", "two", "worker", "ten"]
    heading = page.get_by_role("button", name="Restarts")
    for expected in (
        ["sessions", "two", "worker", "ten"],
        ["sessions", "ten", "two", "worker"],
        ["sessions", "two", "worker", "ten"],
    ):
        heading.click()
        assert page.evaluate(NAMES) == expected
    page.get_by_role("treegrid").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(NAMES) == ["sessions", "two", "ten"]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    text = dialog.inner_text()
    assert text.index("second words") < text.index("first words")
    assert dialog.get_by_role("link", name="Open the session").get_attribute("href") == "#/s/ten"
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("work")
    assert page.evaluate(NAMES) == ["sessions", "two"]
    page.keyboard.press("Backspace")
    page.get_by_role("searchbox").fill("nothing of this name")
    shows(page, "No node matches.")


@pytest.mark.protocol(61)
def test_a_parked_server_is_restarted_by_a_button(pages, scripted_server):
    """P-061: with the session that it belongs to, if any. A refusal is shown, and the button can be pressed again."""
    gone = {"kind": "source", "status": "parked", "phase": None, "session_id": None}
    scripted_server.rows["tree"] = [
        ROOT,
        tree_row("0.1", name="main"),
        tree_row("0.2", name="mcp files", kind="source", phase=None, session_id=None),
        tree_row("parked:0:mcp tracker", name="mcp tracker", exits=crashed(1_000, "exit code 7"), **gone),
        tree_row("parked:0.1:mcp own", "0.1", name="mcp own", exits=crashed(1_000, "exit code 7"), **gone),
    ]
    page = pages.open(scripted_server.link("#/tree"), showing="mcp tracker")
    pages.of(page).expects.append("status of 403")
    asked, statuses = [], [403, 204, 204]

    def answer(route):
        asked.append(route.request.post_data_json)
        status = statuses.pop(0)
        refusal = {
            "error": {"code": "forbidden", "message": "the token lacks the scope decide", "hint": None}
        }
        route.fulfill(status=status, **({"json": refusal} if status == 403 else {}))

    page.route("**/inspect/sources/restart", answer)
    for name in ("mcp tracker", "mcp own"):
        page.locator(".tree-body .tree-row", has_text=name).click()
        page.get_by_role("dialog").get_by_role("button", name="Restart the server").click()
        if name == "mcp tracker":
            shows(page, "lacks the scope")
            page.get_by_role("dialog").get_by_role("button", name="Restart the server").click()
        until(page, "() => !document.querySelector('[role=dialog]')")
    assert asked == [
        *[{"source": "mcp tracker", "session_id": None}] * 2,
        {"source": "mcp own", "session_id": "main"},
    ]


@nightly
def test_a_session_is_named_by_what_it_is_about_and_its_id_is_seen_too(pages, scripted_server):
    """The title first, else its first words, with the id dim behind it or below it: neither pushes the other out of sight. All are found, and a title is text."""
    scripted_server.rows["tree"] = [
        ROOT,
        tree_row("0.1", name="s-1", title="Refund 4411", first_words="Where is my money?", mailbox=2),
        tree_row("0.2", name="s-2", first_words="Find the invoice"),
        tree_row("0.3", name="s-3", title="<img src=x onerror=alert(1)>"),
        tree_row("0.4", name="s-4"),
    ]
    page = pages.open(scripted_server.link("#/tree"))
    until(page, "() => document.querySelectorAll('.tree-body .tree-row').length === 5")
    named = ["Refund 4411 s-1", "Find the invoice s-2", "<img src=x onerror=alert(1)> s-3", "s-4"]
    assert page.evaluate(NAMES) == ["sessions", *named]
    assert page.locator(".look-name").inner_text().split() == ["Refund", "4411", "s-1"]
    page.get_by_role("searchbox").fill("invoice")
    until(page, "() => document.querySelectorAll('.tree-body .tree-row').length === 2")
    assert page.evaluate(NAMES) == ["sessions", named[1]]

    for title in ("Refund 4411", "A title that is much longer than any column of this table " * 3):
        of_it = tree_row("0.1", name="s-0b1e6a7c-0123-4567-89ab", title=title, stuck=True)
        scripted_server.rows["tree"] = [ROOT, of_it]
        reload(page, once="() => document.querySelector('.tree-body .node-id')")
        for width in (1280, 360):
            page.set_viewport_size({"width": width, "height": 800})
            page.wait_for_timeout(60)
            for place in (".tree-body .node-name:has(.node-title)", ".look-name"):
                title_box, id_box, around = (
                    page.locator(f"{place} {part}".strip()).bounding_box()
                    for part in (".node-title", ".node-id", "")
                )
                assert title_box["width"] >= 60
                assert id_box["width"] >= 40
                assert id_box["x"] + id_box["width"] <= around["x"] + around["width"] + 1
                is_right = (id_box["x"], id_box["y"]) > (title_box["x"], title_box["y"])
                assert is_right or id_box["y"] > title_box["y"]
        page.locator(".look").click()
        dialog = page.locator("dialog[open]")
        assert dialog.get_by_role("heading").first.inner_text().split() == f"Node {title}".split()
        assert "s-0b1e6a7c-0123-4567-89ab" in dialog.inner_text()


@nightly
def test_its_states_say_what_is_missing(pages, scripted_server):
    """An older server, a refused watch, a tree without sessions."""
    scripted_server.info["features"] = ["watch"]
    page = pages.open(scripted_server.link("#/tree"), showing="Tree needs a newer server")
    assert not [frame for frame in scripted_server.received if frame["type"] == "watch"]
    scripted_server.info["features"] = ["watch", "tree"]
    error = {"code": "store_unavailable", "message": "not now", "hint": "later", "status": 503}
    scripted_server.replies["watch"] = lambda frame: [
        {"type": "reply", "id": frame["id"], "ok": False, "error": error}
    ]
    reload(page, showing="not now")
    del scripted_server.replies["watch"]
    scripted_server.rows["tree"] = [ROOT]
    reload(page, showing="No active sessions.")


@nightly
def test_two_thousand_nodes_are_few_elements_and_scroll(pages, scripted_server):
    """15.9: rows near the window alone exist; jumping to the end and a hundred changes a second leave it so."""
    many = [
        ROOT,
        *(tree_row(f"0.{place}", name=f"session-{place}", mailbox=place % 3) for place in range(2_000)),
    ]
    scripted_server.rows["tree"] = many
    page = pages.open(scripted_server.link("#/tree"), showing="2,001 nodes")
    assert page.evaluate("() => document.querySelectorAll('*').length") < 1_500
    page.evaluate(
        "() => { globalThis.tasks = []; new PerformanceObserver((list) => globalThis.tasks.push(...list.getEntries().map((one) => one.duration))).observe({ entryTypes: ['longtask'] }); }"
    )
    for turn in range(8):
        rows = [{**one, "mailbox": turn} for one in many[1 + turn * 25 : 26 + turn * 25]]
        scripted_server.change("tree", *rows, total=2_001)
        page.evaluate(
            "(turn) => { const box = document.querySelector('.tree-body'); box.scrollTop = (box.scrollHeight / 8) * (turn + 1); }",
            turn,
        )
        page.wait_for_timeout(120)
    until(
        page,
        """() => {
          const box = document.querySelector(".tree-body");
          box.scrollTop = box.scrollHeight;
          return box.innerText.includes("session-1999");
        }""",
    )
    assert page.evaluate("() => document.querySelectorAll('*').length") < 1_500
    assert max(page.evaluate("() => globalThis.tasks"), default=0) < 200


@nightly
@pytest.mark.c(36)
def test_axe_finds_nothing_and_nothing_scrolls_sideways(pages, scripted_server):
    """With long names, a dialogue, and all that can stand first."""
    long_name, reason = "a-session-with-a-name-that-is-far-too-long-for-any-column-" * 2, "x" * 200
    exits = crashed(5_000, f"crashed: KeyError: {reason}")
    scripted_server.rows["tree"] = [
        ROOT,
        tree_row("0.1", name=long_name, title="🚀 عنوان طويل جدا"),
        tree_row("0.2", name="busy", mailbox=12_345),
        tree_row("0.3", name="restless", exits=exits, restarts=12_345, incarnation=2),
        tree_row("0.4", name="deaf", status="stuck", stuck=True),
    ]
    page = pages.open(scripted_server.link("#/tree"), showing="restless")
    for _ in in_each_look(page):
        assert page.evaluate(WIDE) <= 0
        assert axe_faults(page) == []
        page.locator(".look").first.click()
        assert page.get_by_role("dialog").is_visible()
        assert axe_faults(page) == []
        page.keyboard.press("Escape")
