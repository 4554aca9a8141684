"""The page of sessions in a browser: what waits on top, what changes before one's eyes, filters in the address, and its states."""

import time
from typing import Any

import pytest

from agentrail.host import Principal
from agentrail.plugins import HumanApproval
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.console.browsing import axe_faults, in_each_look, reload, shows, until
from tests.console.rows import NOW, question_row, session_row, waiting_row
from tests.console.story import Story
from tests.host.hosting import profile
from tests.thinned import nightly

pytestmark = pytest.mark.check

LOCAL = Principal(tenant_id="local", user_id="local")
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "\u202egnp.exe",
    "a\u0000b\u200bc",
    "{{7*7}} ${7*7}",
    "x" * 5_000,
)


def keys(page: Any) -> list[str]:
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll(".window-row")].sort((a, b) => a.dataset.index - b.dataset.index).map((one) => one.dataset.key)"""
    )
    return found


def test_what_waits_stands_on_top_and_in_the_title_and_goes_when_it_is_decided(pages, scripted_server):
    """Oldest first; then working, idle and ended, each counted; a row that changes moves to its group."""
    scripted_server.rows = {
        "sessions": [
            session_row("done", phase="ended", ended=True),
            session_row("rests", title="Import Q3"),
            session_row(
                "works",
                title="Refund 4411",
                phase="executing_tools",
                running=2,
                tool={"name": "shell", "since_ms": NOW - 5_000},
            ),
        ],
        "waiting": [
            waiting_row("young", "rests", at_ms=NOW),
            waiting_row("old", "works", at_ms=NOW - 60_000),
        ],
    }
    page = pages.open(scripted_server.link("#/"), once="() => document.title === '(2) Sessions · agentrail'")
    assert keys(page) == [
        *("group waiting", "waiting old", "waiting young", "group working", "session works"),
        *("group idle", "session rests", "group ended"),
    ]
    shows(page, "shell +1")
    scripted_server.change("waiting", gone=("old",))
    scripted_server.change(
        "sessions",
        session_row("works", title="Refund 4411", outcome="completed"),
        gone=("done",),
    )
    until(page, "() => document.title === '(1) Sessions · agentrail'")
    until(page, "() => !document.querySelector('[data-key=\"group working\"]')")
    assert keys(page) == [
        *("group waiting", "waiting young", "group idle", "session rests", "session works"),
    ]
    scripted_server.change("waiting", gone=("young",))
    until(page, "() => document.title === 'Sessions · agentrail'")


@nightly
def test_filters_stand_in_the_address_and_survive_a_reload(pages, scripted_server):
    """Words, phase, profile, outcome and sort; back out of them by one button."""
    scripted_server.rows["sessions"] = [
        session_row("a", title="Refund 4411", agent_id="support", outcome="failed"),
        session_row("b", title="Import Q3", agent_id="eval", phase="running"),
        session_row("c", first_words="refund it please", agent_id="support", outcome="completed"),
    ]
    page = pages.open(scripted_server.link("#/"))
    until(page, "() => document.querySelectorAll('.session-line').length === 3")
    page.fill("input[type=search]", "refund")
    until(page, "() => location.hash === '#/?q=refund'")
    page.select_option("select[aria-label='Last cycle']", "failed")
    page.select_option("select[aria-label='Sort']", "title")
    page.select_option("select[aria-label='Profile']", "support")
    until(page, "() => document.querySelectorAll('.session-line').length === 1")
    wanted = page.evaluate("() => location.hash")
    reload(page, once="() => document.querySelectorAll('.session-line').length === 1")
    assert page.evaluate("() => location.hash") == wanted
    assert page.input_value("input[type=search]") == "refund"
    assert page.input_value("select[aria-label='Profile']") == "support"
    assert keys(page)[-1] == "session a"
    page.select_option("select[aria-label='Phase']", "ended")
    shows(page, "No session matches these filters.")
    page.get_by_role("button", name="Clear filters").last.click()
    until(page, "() => document.querySelectorAll('.session-line').length === 3")
    assert page.evaluate("() => location.hash") == "#/?sort=title"


@nightly
def test_five_hundred_rows_scroll_and_are_gone_through_by_keys(pages, scripted_server):
    """Only rows near the window exist; j, k, w and Enter; what has the focus stays where it is."""
    scripted_server.rows = {
        "sessions": [
            session_row(f"s-{number:03}", title=f"Session {number:03}", changed_at_ms=NOW - number)
            for number in range(500)
        ],
        "waiting": [waiting_row("w", "s-007")],
    }
    page = pages.open(scripted_server.link("#/"), once="() => document.querySelector('.session-line')")
    assert page.evaluate("() => document.querySelectorAll('.session-line').length") < 80
    until(page, "() => document.querySelector('.group-head.idle')?.innerText.includes('500')")
    for _ in range(3):
        page.keyboard.press("j")
        page.wait_for_timeout(40)
    focused = "() => document.activeElement.closest('[data-key]')?.dataset.key"
    assert until(page, focused) == "session s-001"
    page.keyboard.press("k")
    until(page, f"() => ({focused})() === 'session s-000'")
    page.keyboard.press("w")
    until(page, f"() => ({focused})() === 'waiting w'")
    page.evaluate("() => { document.querySelector('.sessions-list').scrollTop = 1e9; }")
    until(page, "() => document.querySelector('[data-key=\"session s-499\"]')")
    assert page.evaluate("() => document.querySelectorAll('*').length") < 1_500
    page.keyboard.press("/")
    assert page.evaluate("() => document.activeElement.type") == "search"
    page.keyboard.type("Session 123")
    until(page, "() => document.querySelectorAll('.session-line').length === 1")
    page.keyboard.press("Escape")
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press("j")
    page.wait_for_timeout(40)
    page.keyboard.press("Enter")
    until(page, "() => location.hash.startsWith('#/s/s-')")


@pytest.mark.c(8)
def test_a_list_says_that_it_is_empty_that_its_connection_is_lost_and_that_it_is_not_live(
    pages, scripted_server
):
    """Empty, it says what to do; without a connection it stays readable, and comes back as it is; without watches it is that of its loading."""
    page = pages.open(scripted_server.link("#/"), showing="There are no sessions yet.")
    page.get_by_role("button", name="New session").last.click()
    until(page, "() => document.querySelector('dialog[open]')")
    assert axe_faults(page) == []
    page.keyboard.press("Escape")
    until(page, "() => !document.querySelector('dialog')")

    scripted_server.change("sessions", session_row("a", title="Stays"), session_row("b", title="Goes"))
    shows(page, "Goes")
    welcome, scripted_server.welcome = scripted_server.welcome, None
    scripted_server.rows["sessions"] = [session_row("a", title="Stays")]
    scripted_server.close(1001)
    until(page, "() => document.querySelector('.connection-bar.lost')")
    assert page.evaluate("() => document.querySelectorAll('.session-line').length") == 2
    scripted_server.welcome = welcome
    scripted_server.close(1001)
    page.evaluate("() => dispatchEvent(new Event('online'))")
    until(page, "() => document.querySelectorAll('.session-line').length === 1")

    scripted_server.info["features"] = []
    listed = {"session_id": "a", "agent_id": "desk", "phase": "idle", "title": "From a list", "waits_for": 0}
    scripted_server.answers["GET sessions"] = {
        "sessions": [{**listed, "created_at_ms": NOW}],
        "next_cursor": None,
    }
    scripted_server.received.clear()
    reload(page, showing="From a list")
    shows(page, "the list is not live")
    assert not [one for one in scripted_server.received if one["type"] == "watch"]


@nightly
@pytest.mark.c(19)
def test_hostile_and_hidden_words_are_shown_as_text_and_nothing_else(pages, scripted_server):
    """As titles, first words, tools, profiles and summaries: no element, no request; hidden characters are marked, in hints and labels too."""
    scripted_server.rows = {
        "sessions": [
            session_row(
                f"s-{place}",
                title=text,
                agent_id=text,
                phase="executing_tools",
                tool={"name": text, "since_ms": NOW},
                running=1,
                user=text,
            )
            for place, text in enumerate(HOSTILE)
        ],
        "waiting": [
            waiting_row(f"w-{place}", f"s-{place}", title=text, tool=text, summary=text[:200])
            for place, text in enumerate(HOSTILE)
        ],
    }
    page = pages.open(scripted_server.link("#/"))
    until(page, "() => document.querySelectorAll('.session-line').length === 6")
    shows(page, "<img src=x onerror=alert(1)>")
    assert page.evaluate("() => document.querySelectorAll('.sessions img, .sessions script').length") == 0
    wide = "() => document.documentElement.scrollWidth <= innerWidth && document.querySelector('.sessions-list').scrollWidth <= document.querySelector('.sessions-list').clientWidth"
    assert page.evaluate(wide)

    turned = "rm \u202etxt.exe"
    path = [{"session_id": "s-1", "title": turned}, {"session_id": "s-2", "title": turned}]
    tool = {"name": turned, "since_ms": NOW}
    scripted_server.rows = {
        "sessions": [
            session_row("s-1", title=turned, suspended=True),
            session_row(
                "s-2", title=None, first_words=turned, agent_id=turned, user=turned, tool=tool, running=1
            ),
        ],
        "waiting": [waiting_row("w", "s-1", title=turned, tool=turned, summary=turned, path=path)],
    }
    reload(page, once="() => document.querySelectorAll('.session-line').length === 2")
    assert page.locator(".waiting-line .hidden-mark").count() == 4
    assert page.locator(".session-line .hidden-mark").count() == 5
    assert "\u202e" not in page.locator(".sessions-list").evaluate("(list) => list.outerHTML")


@nightly
def test_what_waits_is_named_and_found_by_words_and_tells_for_how_long(pages, scripted_server):
    """Of a session that is not listed too, and of the agent below it; equal times look equal: `1:02 left` beside `for 0:19`, never a bare time."""
    path = [
        {"session_id": "s-1", "title": None},
        {"session_id": "s-2", "title": None, "first_words": "Look for it"},
    ]
    plain = [{"session_id": "s-3", "title": None}]
    scripted_server.rows = {
        "sessions": [],
        "waiting": [
            waiting_row("w", "s-1", title=None, first_words="Refund 4411", path=path),
            waiting_row("v", "s-3", title=None, first_words=None, path=plain),
        ],
    }
    page = pages.open(scripted_server.link("#/"))
    until(page, "() => document.querySelectorAll('.waiting-line').length === 2")
    where = page.locator(".waiting-line .where").all_inner_texts()
    assert sorted(where) == ["Refund 4411 \u203a Look for it", "s-3"]
    for sought in ("refund", "LOOK for"):
        page.fill("input[type=search]", sought)
        until(page, "() => document.querySelectorAll('.waiting-line').length === 1")
        shows(page, "Look for it")
    page.fill("input[type=search]", "")
    until(page, "() => location.hash === '#/'")

    scripted_server.rows = {
        "sessions": [session_row("a"), session_row("b")],
        "waiting": [
            waiting_row("limited", "a", at_ms=NOW, expires_at_ms=int(time.time() * 1_000) + 62_900),
            waiting_row("unlimited", "b", at_ms=int(time.time() * 1_000) - 19_000),
        ],
    }
    reload(page, once="() => document.querySelectorAll('.waiting-line').length === 2")
    told = page.locator(".waiting-line > .time").all_inner_texts()
    assert sorted("left" if one.endswith(" left") else one.split()[0] for one in told) == ["for", "left"]


@nightly
@pytest.mark.c(36)
def test_the_list_has_no_fault_that_axe_finds(pages, scripted_server):
    """With all groups, light and dark, wide and narrow; nothing scrolls sideways."""
    scripted_server.rows = {
        "sessions": [
            session_row("a", title="Refund 4411 " * 9, phase="running", queued=2, restarts=1),
            session_row("b", title="ملف الطلب", outcome="failed"),
            session_row("c", suspended=True, waiting={"approvals": 1, "questions": 2}),
            session_row("d", phase="ended", ended=True, cost_usd=None),
        ],
        "waiting": [waiting_row("w", "c", expires_at_ms=NOW + 60_000), question_row("q", "c")],
    }
    page = pages.open(scripted_server.link("#/"))
    until(page, "() => document.querySelectorAll('.waiting-line').length === 2")
    for width in in_each_look(page):
        assert axe_faults(page) == []
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_a_real_session_is_created_works_waits_and_is_seen_all_along(pages, console_server):
    """By the dialogue, with a profile; its approval stands on top, and is decided there."""
    model = ScriptedModel([calls(("shell", {"command": "rm -r build"})), says("Done")])
    options = {"tools": [RecordingTool(name="shell")], "plugins": [HumanApproval]}
    console_server.start(profiles=[profile(model, "support", **options), profile("demo:", "eval")])
    page = pages.open(console_server.link("#/"), width=1_000, showing="There are no sessions yet.")
    page.keyboard.press("n")
    page.get_by_role("button", name="Create").click()
    session_id = until(page, "() => location.hash.match(/^#\\/s\\/(.+)$/)?.[1]")
    page.evaluate("() => { location.hash = '#/'; }")
    until(page, "() => document.querySelector('.session-line')")

    async def prompt() -> Any:
        session = await console_server.host.session(session_id, LOCAL)
        await session.prompt("Clean up")
        return session

    session = console_server.run(prompt)
    until(page, "() => document.title.startsWith('(1) ')")
    shows(page, "rm -r build")
    assert page.locator(".window-row h2").first.inner_text().split() == ["Waiting", "1"]

    page.get_by_role("button", name="Decide on shell").click()
    until(page, "() => document.querySelector('.waiting-row .approval')?.innerText.includes('rm -r build')")
    assert axe_faults(page) == []
    assert console_server.run(session.status).approvals
    page.wait_for_timeout(600)  # its buttons take nothing for half a second
    page.get_by_role("button", name="Allow once").click()
    until(page, "() => document.querySelector('.waiting-row .approval')")  # it stays, and says how it ended
    page.get_by_role("button", name="Decide on shell").click()
    until(page, "() => document.title === 'Sessions · agentrail'")
    until(page, "() => document.querySelector('.session-line')?.innerText.includes('Clean up')")


def question(ref: str = "q-1", **more: Any) -> dict[str, Any]:
    usual = {"question": "Which account?", "options": ["Main", "Savings"], "requested_at_ms": NOW}
    return {"ref": ref, "call_id": "c-1", "path": ["a"], **usual, **more}


def asking(server: Any, *found: dict[str, Any], below: tuple[dict[str, Any], ...] = ()) -> None:
    """Let a session `a` wait for answers, itself and by one that works for it."""
    children = [{"session_id": "a.b", "status": {"questions": list(below)}}]
    server.answers["GET sessions/a"] = {"seq": 1, "status": {"questions": list(found), "children": children}}
    server.rows["sessions"] = [session_row("a", title="Import Q3")]
    server.rows["waiting"] = [question_row(one["ref"], "a", one["question"]) for one in (*found, *below)]


def test_a_question_is_answered_in_the_row_that_says_it_waits(pages, scripted_server):
    """Of the session, or of an agent below it; one that is gone says so, and one that cannot be read is tried again."""
    asking(scripted_server, question(), below=(question("q-2", question="How many?", options=[]),))
    scripted_server.replies["respond"] = {}
    page = pages.open(scripted_server.link("#/"))
    page.get_by_role("button", name="Answer “Which account?” in Import Q3").click()
    until(page, "() => document.activeElement.matches('.waiting-row [type=radio]')")
    assert axe_faults(page) == []
    page.keyboard.press("ArrowDown")
    page.wait_for_timeout(550)  # its buttons take nothing for half a second
    page.get_by_role("button", name="Answer", exact=True).click()
    sent = scripted_server.wait_for("respond", wait=lambda seconds: page.wait_for_timeout(seconds * 1_000))
    assert (sent["session_id"], sent["ref"], sent["response"]) == ("a", "q-1", 1)
    scripted_server.change("waiting", gone=("q-1",))
    shows(page, "You answered.")
    answered = page.get_by_role("button", name="Answer “Which account?” in Import Q3")
    answered.click()
    answered.wait_for(state="detached")

    page.get_by_role("button", name="Answer “How many?” in Import Q3").click()
    until(page, "() => document.activeElement.tagName === 'TEXTAREA'")
    page.keyboard.type("Three")
    page.wait_for_timeout(550)
    page.get_by_role("button", name="Answer", exact=True).click()
    sent = scripted_server.wait_for(
        "respond", count=2, wait=lambda seconds: page.wait_for_timeout(seconds * 1_000)
    )
    assert (sent["session_id"], sent["ref"], sent["response"]) == ("a", "q-2", "Three")

    asking(scripted_server, question())
    scripted_server.answers["GET sessions/a"] = (
        503,
        {"error": {"code": "busy", "message": "ask again", "hint": None}},
    )
    page.reload()
    pages.of(page).expects.append("503")
    page.get_by_role("button", name="Answer “Which account?”").click()
    shows(page, "ask again")
    scripted_server.answers["GET sessions/a"] = {"seq": 1, "status": {"questions": [], "children": []}}
    page.locator(".waiting-row .state button").click()
    shows(page, "This request is no longer pending.")


@nightly
def test_the_row_of_a_question_leads_to_its_field_alone_or_beside_the_session(pages, scripted_server):
    """From 1100 pixels on the list stands beside an open session, with that one marked; a link leads to the card each time that it is pressed."""
    story = Story(scripted_server, session_id="a")
    story.begins()
    story.tell("ask_user", ref="q-1", question="Which account?", options=[])
    story.status["questions"] = [question(options=[])]
    scripted_server.rows = {
        "sessions": [session_row("a", title="Import Q3"), session_row("b", title="Refund 4411")],
        "waiting": [question_row("q-1", "a", "Which account?")],
    }
    page = pages.open(scripted_server.link("#/"), width=1_200)
    page.locator(".waiting-line").click()
    at_field = "() => document.activeElement.matches('.feed .question textarea') && location.hash === '#/s/a'"
    until(page, at_field)
    page.locator(".beside .line[aria-current]", has_text="Import Q3").first.wait_for()
    page.keyboard.press("Escape")
    page.evaluate("() => document.activeElement.blur()")
    page.locator(".beside .waiting-line").click()
    until(page, at_field)

    page.set_viewport_size({"width": 1_000, "height": 800})
    until(page, "() => !document.querySelector('.beside')")
    page.evaluate("() => { location.hash = '#/'; }")
    page.locator(".waiting-line").click()
    until(page, at_field)


@nightly
def test_five_thousand_sessions_that_change_a_hundred_times_a_second_stay_smooth(pages, scripted_server):
    """What a change costs, and what scrolling costs, is a few milliseconds of the processor: 15.9 with room for one that is four times slower.

    Its own time is counted and not frames, which say as much of what else runs on this machine.
    """
    scripted_server.rows["sessions"] = [
        session_row(
            f"s-{number:04}",
            title=f"Session {number}",
            changed_at_ms=NOW - number,
            phase="idle" if number % 9 else "running",
        )
        for number in range(5_000)
    ]
    page = pages.open(scripted_server.link("#/"), once="() => document.querySelector('.session-line')")
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable", {"timeDomain": "threadTicks"})

    def worked() -> float:
        """How long the page's own thread has worked, in seconds."""
        metrics = client.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))

    page.wait_for_timeout(300)
    before, changes = worked(), 8
    for turn in range(changes):
        changed = [
            session_row(
                f"s-{(turn * 25 + number) * 37 % 5_000:04}", title=f"Changed {turn}", changed_at_ms=NOW + turn
            )
            for number in range(25)
        ]
        scripted_server.change("sessions", *changed, total=5_000)
        page.wait_for_timeout(250)
    of_change = (worked() - before) / changes
    before = worked()
    frames = page.evaluate(
        """() => new Promise((resolve) => {
          const box = document.querySelector(".sessions-list"); let at = 0;
          const step = () => { at += 1; box.scrollTop = at * 40; if (at < 60) requestAnimationFrame(step); else resolve(at); };
          requestAnimationFrame(step);
        })"""
    )
    of_frame = (worked() - before) / frames
    assert of_change < 0.05, of_change
    assert of_frame < 0.0125, of_frame
    assert page.evaluate("() => document.querySelectorAll('*').length") < 1_500
    print(f"{1_000 * of_change:.1f} ms of a change, {1_000 * of_frame:.1f} ms of a frame")  # noqa: T201 - with -s
