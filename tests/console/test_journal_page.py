"""The journal page in a browser: time travel, why a record came to what it came to, states and what changed, and journals that are not or not all there."""

import re
from collections.abc import Iterable
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse

from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.testing.tools import RecordingTool
from tests.console.browsing import axe_faults, is_quiet, reload, shows, until
from tests.host.hosting import profile
from tests.thinned import nightly

pytestmark = pytest.mark.check

HOSTILE = "\u202egpj.exe</td><img src=x onerror=alert(1)>"
LONG = 100_000

SLIDE = """([from, to]) => {
  const range = document.querySelector(".slider-range");
  for (let number = from; number !== to; number += Math.sign(to - from)) {
    range.value = number;
    range.dispatchEvent(new Event("input", { bubbles: true }));
  }
  range.value = to;
  range.dispatchEvent(new Event("input", { bubbles: true }));
}"""
SEEN = """(number) => document.querySelector(`.past-conversation[data-number="${number}"]`)
  && document.querySelector(".why h2")?.innerText === `Record ${number}` && document.querySelector(".why-facts") !== null
  && { you: [...document.querySelectorAll(".item-spoken.prompt .words")].map((one) => one.innerText),
       it: [...document.querySelectorAll(".item-spoken.answer .markdown")].map((one) => one.innerText.trim()).filter(Boolean) }"""


def puppet(name: str, priority: int, rule: str, action: str) -> PuppetPlugin:
    return PuppetPlugin((read_rule(rule, action),), name=name, priority=priority)


@pytest.fixture
def journal(console_server):
    """A session `main` that was blocked, rewritten, went back, and went on; with calls of its routes."""
    plugins = [
        puppet("early", 400, "BeforeTool.book", 'args:{"day": "mon"}'),
        puppet("late", 410, "BeforeTool.book", 'args:{"day": "tue"}'),
        puppet("guard", 420, "BeforeTool.shred", f"block:not today {HOSTILE}"),
        puppet("broken", 430, "AfterResponse", "raise:a fuse blew"),
        puppet("audit", 900, "BeforeTool", "emit:seen"),
    ]
    asks = calls(("book", {"day": "sun"}), ("shred", {}))
    model = ScriptedModel([asks, *(says(words) for words in ("Booked.", "Welcome.", "Elsewhere.", "Bye."))])
    tools = [RecordingTool(name="book"), RecordingTool(name="shred")]
    console_server.start(profiles=[profile(model, tools=tools, plugins=plugins)], store="memory:")
    return Journal(console_server)


class Journal:
    def __init__(self, server: Any) -> None:
        self.server = server
        for message in ("Book it.", "Thanks."):
            self.call("POST", "chat", {"session_id": "main", "message": message})
        end = self.look("trace", limit=1_000)["last"]
        self.call("POST", "sessions/main/rewind", {"to": end - 3})
        self.call("POST", "chat", {"session_id": "main", "message": "Once more."})
        self.records = self.look("trace", limit=1_000)["entries"]
        self.last = self.records[-1]["number"]

    def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = httpx.request(method, f"{self.server.base}/{path}", json=body, timeout=20)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def look(self, what: str, **query: Any) -> Any:
        asked = "&".join(f"{name.rstrip('_')}={value}" for name, value in query.items())
        return self.call("GET", f"inspect/sessions/main/{what}?{asked}")

    def link(self, at: int | None = None) -> str:
        found: str = self.server.link("#/s/main/journal" + ("" if at is None else f"?at={at}"))
        return found


def asked_for(pages, page, what):
    """Which numbers a route was asked for, in order."""
    urls = [url for url in pages.of(page).requests if f"/{what}?" in url]
    return [int(url.split("at=")[1].split("&")[0]) for url in urls]


def said_by(messages, role):
    texts = [
        "".join(block.get("text", "") for block in one["content"]) for one in messages if one["role"] == role
    ]
    return [text for text in texts if text]


@pytest.mark.c(27)
def test_time_travel_shows_the_conversation_of_each_record(pages, journal):
    """What is drawn is what `state_at` says; two fast drags end at the last number, with one request at a time. At every record of more journals: `test_fold`."""
    page = pages.open(journal.link(), showing="End of the journal")
    until(page, SEEN, journal.last)
    # In one call: between two of them the page may have the time to ask for what is passed by.
    page.evaluate(f"(drags) => drags.forEach({SLIDE})", [[2, journal.last - 1], [journal.last - 1, 5]])
    assert page.evaluate("() => document.querySelector('.slider-range').value") == "5"
    until(page, SEEN, 5)
    shows(page, "You are viewing the past")
    assert asked_for(pages, page, "state") == [journal.last, 5]
    assert asked_for(pages, page, "explain") == [journal.last, 5]
    until(page, "() => location.hash === '#/s/main/journal?at=5'")
    value = page.get_attribute(".slider-range", "aria-valuetext")
    assert value.startswith(f"record 5 of {journal.last}, ResponseCompleted, ")
    assert page.evaluate("() => document.querySelectorAll('textarea').length") == 0
    page.reload()
    until(page, SEEN, 5)

    turning = {"prompt", "response_completed", "rewound"}
    turns = [one["number"] for one in journal.records if one["kind"] in turning]
    for number in turns:
        page.evaluate(SLIDE, [number, number])
        messages = journal.look("state", at=number)["state"]["messages"]
        expected = {"you": said_by(messages, "user"), "it": said_by(messages, "assistant")}
        until(
            page,
            f"([number, expected]) => JSON.stringify(({SEEN})(number)) === JSON.stringify(expected)",
            [number, expected],
        )
    assert expected["you"] == ["Book it.", "Once more."]


@pytest.mark.c(28)
def test_why_is_drawn_as_columns_beside_the_state_and_what_changed_since_another(pages, journal):
    """Who was asked, what won and why, for a block, a rewrite that lost and a plugin that failed; the state by name, each change with what stood there before; nothing is markup."""
    number = next(one["number"] for one in journal.records if one["kind"] == "response_completed")
    page = pages.open(journal.link(number))
    until(page, SEEN, number)
    cells = "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText))"
    rows = page.locator(".why-link").evaluate_all(cells)
    told = journal.look("explain", at=number)
    verdicts = {"lost": "✕ lost to late", "won": "✓ wins", "silent": "· no answer", "kept": "✓ counts"}
    verdicts["failed"] = "! failed: the others were asked"
    expected = []
    for run in told["runs"]:
        expected += [
            [str(one["priority"]), one["plugin"], one["action"] or "failed", verdicts[one["verdict"]]]
            for one in run["links"]
        ]
        expected += [["", name, "", "not asked"] for name in run["not_asked"]]
    assert rows == expected
    shows(page, "BlockTool, by guard", "not today ⟦U+202E⟧gpj.exe</td><img src=x onerror=alert(1)>")
    assert page.evaluate("() => document.querySelectorAll('.journal img').length") == 0
    page.click("text=record 3")
    until(page, SEEN, 3)

    page.evaluate(SLIDE, [journal.last, journal.last])
    page.click("#journal-tab-state")
    shows(page, f"State after record {journal.last}")
    page.click(".state-head:has-text('messages')")
    shows(page, '"role": "assistant"')
    shows(page, "guard")
    page.fill(".state-since input", "3")
    page.click("text=Compare >> nth=-1")
    shows(page, f"changes from 3 to {journal.last}")
    patch = journal.look("state", at=journal.last, from_=3)["patch"]
    assert page.evaluate("() => document.querySelectorAll('.patch li').length") == len(patch)
    phase = page.locator(".patch li", has_text="/phase").first.inner_text()
    assert all(word in phase for word in ("running", "idle"))
    page.click("text=Show the state")
    shows(page, "Full state")


@nightly
def test_records_are_looked_for_by_kind_plugin_and_text_and_gone_through_by_keys(pages, journal):
    """What is found is listed, a click goes there; one record, ten, a cycle, both ends; the list by its arrows; `f` asks about a fork from here; focus stays."""
    page = pages.open(journal.link(5))
    until(page, SEEN, 5)
    page.focus(".slider-range")
    cycles = [one["number"] for one in journal.records if one["kind"] == "prompt"]
    behind = next(one for one in cycles if one > 5)
    at_number = "(number) => document.querySelector('.slider-range').value === String(number)"
    for key, number in (
        ("ArrowRight", 6),
        ("ArrowLeft", 5),
        ("Shift+ArrowLeft", 1),
        ("Shift+ArrowRight", 11),
        ("Home", 1),
        ("PageDown", cycles[0]),
        ("PageUp", 1),
        ("End", journal.last),
        ("PageUp", cycles[-1]),
    ):
        page.keyboard.press(key)
        until(page, at_number, number)
    assert page.evaluate("() => document.activeElement.className") == "slider-range"
    page.focus(".record-row[tabindex='0']")
    page.keyboard.press("Home")
    until(page, "() => document.activeElement?.innerText.startsWith('1\\n')")
    page.keyboard.press("ArrowDown")
    until(page, "() => document.activeElement?.innerText.startsWith('2\\n')")
    page.keyboard.press("j")
    page.keyboard.press("]")
    until(page, at_number, behind if cycles[0] == 3 else cycles[0])
    page.keyboard.press("f")
    until(page, "() => document.querySelector('dialog[open]')")
    page.keyboard.press("Escape")
    until(page, "() => !document.querySelector('dialog[open]')")

    rows = "() => [...document.querySelectorAll('.record-row')].map((row) => row.innerText.split('\\n')[1])"
    page.select_option(".records-filter select >> nth=0", "tool_finished")
    until(page, "() => document.querySelectorAll('.record-row').length === 1")
    assert page.evaluate(rows) == ["ToolFinished"]
    page.click(".record-row")
    shows(page, ", ToolFinished, ")
    page.click("text=Show all")
    page.select_option(".records-filter select >> nth=1", "guard")
    until(page, "() => document.querySelectorAll('.record-row').length === 1")
    assert page.evaluate(rows) == ["ResponseCompleted"]
    page.click("text=Show all")
    page.fill(".records-filter input", "no such words")
    page.press(".records-filter input", "Enter")
    shows(page, "No record matches.")
    page.click("text=Show all")
    until(page, f"() => document.querySelectorAll('.record-row').length === {journal.last}")


@nightly
def test_a_journal_that_is_not_there_or_begins_late_says_so(pages, scripted_server):
    """How there is one, without asking for what would be refused; of an older server; of an unknown session. A number before the first record is moved there, with words."""
    scripted_server.info["journal"] = False
    page = pages.open(scripted_server.link("#/s/a/journal"), showing="This server keeps no journals.")
    shows(page, "agentrail serve --store sqlite:")
    assert not [one for one in scripted_server.asked if "inspect" in one]
    scripted_server.info["journal"] = True
    scripted_server.info["features"].remove("state_at")
    reload(page, showing="The journal needs a newer server.")
    scripted_server.info["features"].append("state_at")
    scripted_server.answers["GET inspect/sessions/a/trace"] = (
        404,
        {"error": {"code": "session_unknown", "message": "there is none", "hint": None}},
    )
    pages.of(page).expects.append("404")
    reload(page, showing="This session does not exist (any more).")

    long_journal(scripted_server, first=900, last=1_200)
    page = pages.open_beside(page.context, scripted_server.link("#/s/a/journal?at=7"))
    shows(page, "Records before 900 are no longer stored.")
    ends = "() => { const one = document.querySelector('.slider-range'); return `${one.min} ${one.max} ${one.value}`; }"
    assert page.evaluate(ends) == "900 1200 900"
    assert asked_for(pages, page, "state") in ([], [900])
    # What is kept has become less since: the state of 950 is refused with where it begins now, and one is taken there.
    refused = {"error": {"code": "trimmed", "message": "it was dropped", "hint": None, "first": 1_000}}
    scripted_server.answers["GET inspect/sessions/a/state"] = (410, refused)
    pages.of(page).expects.append("410")
    page.evaluate(SLIDE, [950, 950])
    shows(page, "Records before 1000 are no longer stored.")
    until(page, f"() => ({ends})() === '1000 1200 1000'")


@nightly
def test_a_hundred_thousand_records_are_a_list_like_any_other(pages, scripted_server):
    """Few rows exist, few pages are asked for, and each key is painted at once, wherever one is."""
    long_journal(scripted_server, first=1, last=LONG)
    page = pages.open(scripted_server.link("#/s/a/journal?at=50000"))
    page.locator(".record-row", has_text=re.compile(r"^50000\s*TimerFired")).wait_for()
    assert page.evaluate("() => document.querySelectorAll('*').length") < 1_500
    # Painted in the very next frame, also where no page of that place is loaded yet. How long a frame is, the benchmarks say.
    unpainted = page.evaluate(
        """async () => {
          const range = document.querySelector(".slider-range"), told = document.querySelector(".slider-told");
          const frame = () => new Promise((done) => requestAnimationFrame(done));
          const missed = [];
          for (let step = 0; step < 120; step += 1) {
            const wanted = 1 + ((step * 7919) % 99999);
            range.value = wanted;
            range.dispatchEvent(new Event("input", { bubbles: true }));
            await frame();
            const shown = told.textContent.replace(/[^0-9 ]/g, "").split(" ");
            if (!shown.includes(String(wanted))) missed.push([wanted, told.textContent]);
          }
          return missed;
        }"""
    )
    assert unpainted == []
    last = int(page.evaluate("() => document.querySelector('.slider-range').value"))
    page.locator(".record-row.is-chosen", has_text=re.compile(rf"^{last}\s*TimerFired")).wait_for()
    traced = [one for one in scripted_server.asked if one.endswith("/trace")]
    assert len(traced) < 200, len(traced)


@nightly
@pytest.mark.c(36)
def test_axe_finds_nothing_on_it(pages, journal):
    """Light and dark, wide and on the phone's width, with each of its tabs."""
    page = pages.open(journal.link(5), once="() => document.querySelector('.slider-range')")
    for width, scheme, tabs in ((1280, "light", ("state",)), (360, "dark", ("records", "why"))):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        for tab in tabs:
            page.click(f"#journal-tab-{tab}")
            is_quiet(page)
            assert axe_faults(page) == [], (width, tab)
            assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def long_journal(server: Any, *, first: int, last: int) -> None:
    """Let a scripted server have a journal of timers."""

    def record(number: int) -> dict[str, Any]:
        what = {"kind": "timer_fired", "body": {}, "does": [], "events": 0}
        return {"number": number, "at_ms": 1_795_341_600_000 + number, **what, "epoch": 1, "hash": ""}

    def traced(numbers: Iterable[int]) -> Any:
        ends = {"next": None, "previous": None, "first": first, "last": last}
        return JSONResponse({"entries": [record(number) for number in numbers], **ends})

    async def trace(request: Any) -> Any:
        query = request.query_params
        limit = int(query.get("limit", 100))
        if "kinds" in query:
            return traced(())
        if "before" in query:
            end = min(last, int(query["before"]) - 1)
            return traced(range(max(first, end - limit + 1), end + 1))
        after = int(query.get("after", 0))
        assert after >= first - 1, "what was dropped is asked for"
        return traced(range(after + 1, min(last, after + limit) + 1))

    async def explain(request: Any) -> Any:
        at = int(request.query_params["at"])
        signal = {"kind": "timer_fired", "at_ms": 1_795_341_600_000 + at, "effect_id": None, "begun_by": None}
        nothing = {"phase": ["idle", "idle"], "runs": [], "effects": [], "events": None, "drift": None}
        return JSONResponse({"at": at, "signal": signal, **nothing})

    async def state(request: Any) -> Any:
        told = {"phase": "idle", "suspended": False, "ended": False, "messages": [], "plugins": {}}
        return JSONResponse({"at": int(request.query_params["at"]), "state": told, "patch": None})

    server.answers |= {
        "GET inspect/sessions/a/trace": trace,
        "GET inspect/sessions/a/explain": explain,
        "GET inspect/sessions/a/state": state,
        "GET sessions/a": {"seq": 0, "title": "A long one", "status": {}, "messages": [], "before": 0},
        "GET sessions/a/events": {"events": [], "first": 1, "last": 0, "more": False},
    }
