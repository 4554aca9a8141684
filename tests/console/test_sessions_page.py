"""The page of sessions in a browser: what waits on top, what changes before one's eyes, filters in the address, and its states."""

import time
from typing import Any

import pytest

from agentrail.host import Principal
from agentrail.plugins import HumanApproval
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.console.browsing import axe_faults, is_quiet, shows, until
from tests.console.story import Story
from tests.host.hosting import profile

pytestmark = pytest.mark.check

LOCAL = Principal(tenant_id="local", user_id="local")
NOW = int(time.time() * 1_000)
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "\u202egnp.exe",
    "a\u0000b\u200bc",
    "{{7*7}} ${7*7}",
    "x" * 5_000,
)


def row(name: str, **more: Any) -> dict[str, Any]:
    """The row of a session."""
    return {
        "session_id": name,
        "title": None,
        "first_words": None,
        "agent_id": "desk",
        "phase": "idle",
        "suspended": False,
        "tearing_down": False,
        "tool": None,
        "running": 0,
        "waiting": {"approvals": 0, "questions": 0},
        "queued": 0,
        "model": "demo:",
        "turn": 0,
        "tokens": 1_200,
        "cost_usd": 0.04,
        "created_at_ms": NOW,
        "changed_at_ms": NOW,
        "outcome": None,
        "restarts": 0,
        "parent": None,
        "ended": False,
        "user": "local",
        **more,
    }


def waits(name: str, session_id: str, **more: Any) -> dict[str, Any]:
    """The row of an approval."""
    return {
        "key": name,
        "kind": "approval",
        "session_id": session_id,
        "title": None,
        "agent_id": "desk",
        "path": [{"session_id": session_id, "title": None}],
        "at_ms": NOW,
        "expires_at_ms": None,
        "tool": "shell",
        "summary": "rm -r build",
        "approval_id": f"ap-{name}",
        "ref": None,
        "arguments_hash": "ab" * 32,
        **more,
    }


def lines(page: Any) -> list[str]:
    """What the list shows, heading by heading and row by row."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll(".window-row")]
          .sort((a, b) => a.dataset.index - b.dataset.index)
          .map((one) => one.querySelector("h2")?.innerText.replace(/\\s+/g, " ") ?? one.innerText.split("\\n")[0])"""
    )
    return found


def keys(page: Any) -> list[str]:
    """The keys of the rows that exist, in order."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll(".window-row")].sort((a, b) => a.dataset.index - b.dataset.index).map((one) => one.dataset.key)"""
    )
    return found


def watch_of(server: Any, what: str) -> Any:
    """The id of the watch that the page began last."""
    return [one for one in server.received if one["type"] == "watch" and one["what"] == what][-1]["id"]


def change(server: Any, what: str, *rows: dict[str, Any], gone: tuple[str, ...] = (), total: int = 9) -> None:
    """Tell the page of a change."""
    told = {"type": "changed", "id": watch_of(server, what), "rows": [*rows], "gone": [*gone], "total": total}
    server.send(told)


def test_what_waits_stands_on_top_and_in_the_title_and_goes_when_it_is_decided(pages, scripted_server):
    """Oldest first; then working, idle and ended, each counted; a row that changes moves to its group."""
    scripted_server.rows = {
        "sessions": [
            row("done", phase="ended", ended=True),
            row("rests", title="Import Q3"),
            row(
                "works",
                title="Refund 4411",
                phase="executing_tools",
                running=2,
                tool={"name": "shell", "since_ms": NOW - 5_000},
            ),
        ],
        "waiting": [waits("young", "rests", at_ms=NOW), waits("old", "works", at_ms=NOW - 60_000)],
    }
    page = pages.open(scripted_server.link("#/"))
    until(page, "() => document.title === '(2) Sessions · agentrail'")
    assert keys(page) == [
        *("group waiting", "waiting old", "waiting young", "group working", "session works"),
        *("group idle", "session rests", "group ended"),
    ]
    shows(page, "shell +1")
    change(scripted_server, "waiting", gone=("old",))
    change(
        scripted_server, "sessions", row("works", title="Refund 4411", outcome="completed"), gone=("done",)
    )
    until(page, "() => document.title === '(1) Sessions · agentrail'")
    until(page, "() => !document.querySelector('[data-key=\"group working\"]')")
    assert keys(page) == [
        *("group waiting", "waiting young", "group idle", "session rests", "session works"),
    ]
    change(scripted_server, "waiting", gone=("young",))
    until(page, "() => document.title === 'Sessions · agentrail'")


def test_filters_stand_in_the_address_and_survive_a_reload(pages, scripted_server):
    """Words, phase, profile, outcome and sort; back out of them by one button."""
    scripted_server.rows["sessions"] = [
        row("a", title="Refund 4411", agent_id="support", outcome="failed"),
        row("b", title="Import Q3", agent_id="eval", phase="running"),
        row("c", first_words="refund it please", agent_id="support", outcome="completed"),
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
    page.reload()
    until(page, "() => document.querySelectorAll('.session-line').length === 1")
    assert page.evaluate("() => location.hash") == wanted
    assert page.input_value("input[type=search]") == "refund"
    assert page.input_value("select[aria-label='Profile']") == "support"
    assert keys(page)[-1] == "session a"
    page.select_option("select[aria-label='Phase']", "ended")
    shows(page, "No session matches these filters.")
    page.get_by_role("button", name="Clear filters").last.click()
    until(page, "() => document.querySelectorAll('.session-line').length === 3")
    assert page.evaluate("() => location.hash") == "#/?sort=title"


def test_five_hundred_rows_scroll_and_are_gone_through_by_keys(pages, scripted_server):
    """Only rows near the window exist; j, k, w and Enter; what has the focus stays where it is."""
    scripted_server.rows = {
        "sessions": [
            row(f"s-{number:03}", title=f"Session {number:03}", changed_at_ms=NOW - number)
            for number in range(500)
        ],
        "waiting": [waits("w", "s-007")],
    }
    page = pages.open(scripted_server.link("#/"))
    until(page, "() => document.querySelector('.session-line')")
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


def test_an_empty_list_says_what_to_do(pages, scripted_server):
    """One sentence, and the one thing to do."""
    page = pages.open(scripted_server.link("#/"))
    shows(page, "There are no sessions yet.")
    page.get_by_role("button", name="New session").last.click()
    until(page, "() => document.querySelector('dialog[open]')")
    assert axe_faults(page) == []
    page.keyboard.press("Escape")
    until(page, "() => !document.querySelector('dialog')")


def test_a_lost_connection_leaves_the_list_readable_and_it_comes_back_as_it_is(pages, scripted_server):
    """The rows stay; what went meanwhile goes with the first frame behind the return."""
    scripted_server.rows["sessions"] = [row("a", title="Stays"), row("b", title="Goes")]
    page = pages.open(scripted_server.link("#/"))
    shows(page, "Goes")
    welcome, scripted_server.welcome = scripted_server.welcome, None
    scripted_server.rows["sessions"] = [row("a", title="Stays")]
    scripted_server.close(1001)
    until(page, "() => document.querySelector('.connection-bar.lost')")
    assert page.evaluate("() => document.querySelectorAll('.session-line').length") == 2
    scripted_server.welcome = welcome
    scripted_server.close(1001)
    page.evaluate("() => dispatchEvent(new Event('online'))")
    until(page, "() => document.querySelectorAll('.session-line').length === 1")


@pytest.mark.c(8)
def test_a_server_without_watches_still_shows_its_list(pages, scripted_server):
    """As it was when it was asked, and says that it is not live."""
    scripted_server.info["features"] = []
    listed = {"session_id": "a", "agent_id": "desk", "phase": "idle", "title": "From a list", "waits_for": 0}
    scripted_server.answers["GET sessions"] = {
        "sessions": [{**listed, "created_at_ms": NOW}],
        "next_cursor": None,
    }
    page = pages.open(scripted_server.link("#/"))
    shows(page, "From a list")
    shows(page, "the list is not live")
    assert not [one for one in scripted_server.received if one["type"] == "watch"]


def test_beside_an_open_session_the_list_is_there_from_1100_pixels(pages, scripted_server):
    """With the open one marked, and without keys of its own."""
    scripted_server.rows["sessions"] = [row("a", title="Refund 4411"), row("b", title="Import Q3")]
    page = pages.open(scripted_server.link("#/s/a"), width=1200)
    until(
        page, "() => document.querySelector('.beside .line[aria-current]')?.innerText.includes('Refund 4411')"
    )
    page.set_viewport_size({"width": 1_000, "height": 800})
    until(page, "() => !document.querySelector('.beside')")


@pytest.mark.c(19)
def test_hostile_words_are_shown_and_are_nothing_else(pages, scripted_server):
    """As titles, first words, tools, profiles and summaries: no element, no request."""
    scripted_server.rows = {
        "sessions": [
            row(
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
            waits(f"w-{place}", f"s-{place}", title=text, tool=text, summary=text[:200])
            for place, text in enumerate(HOSTILE)
        ],
    }
    page = pages.open(scripted_server.link("#/"))
    until(page, "() => document.querySelectorAll('.session-line').length === 6")
    shows(page, "<img src=x onerror=alert(1)>")
    assert page.evaluate("() => document.querySelectorAll('.sessions img, .sessions script').length") == 0
    wide = "() => document.documentElement.scrollWidth <= innerWidth && document.querySelector('.sessions-list').scrollWidth <= document.querySelector('.sessions-list').clientWidth"
    assert page.evaluate(wide)


def test_hidden_characters_are_marked_in_what_waits_and_in_what_is_listed(pages, scripted_server):
    """A user decides there: tools, summaries, sessions and agents show what turns or hides text, also in hints and labels."""
    turned = "rm \u202etxt.exe"
    path = [{"session_id": "s-1", "title": turned}, {"session_id": "s-2", "title": turned}]
    tool = {"name": turned, "since_ms": NOW}
    scripted_server.rows = {
        "sessions": [
            row("s-1", title=turned, suspended=True),
            row("s-2", title=None, first_words=turned, agent_id=turned, user=turned, tool=tool, running=1),
        ],
        "waiting": [waits("w", "s-1", title=turned, tool=turned, summary=turned, path=path)],
    }
    page = pages.open(scripted_server.link("#/"))
    until(page, "() => document.querySelectorAll('.session-line').length === 2")
    assert page.locator(".waiting-line .hidden-mark").count() == 4
    assert page.locator(".session-line .hidden-mark").count() == 5
    assert "\u202e" not in page.locator(".sessions-list").evaluate("(list) => list.outerHTML")


def test_what_waits_is_named_by_words_and_found_by_them(pages, scripted_server):
    """Of a session that is not in the list too, and of the agent below it that asks; the id stands only where there are no words."""
    path = [
        {"session_id": "s-1", "title": None},
        {"session_id": "s-2", "title": None, "first_words": "Look for it"},
    ]
    plain = [{"session_id": "s-3", "title": None}]
    scripted_server.rows = {
        "sessions": [],
        "waiting": [
            waits("w", "s-1", title=None, first_words="Refund 4411", path=path),
            waits("v", "s-3", title=None, first_words=None, path=plain),
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


@pytest.mark.c(36)
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (360, False), (360, True)])
def test_the_list_has_no_fault_that_axe_finds(pages, scripted_server, width, dark):
    """With all groups, light and dark, wide and narrow; nothing scrolls sideways."""
    scripted_server.rows = {
        "sessions": [
            row("a", title="Refund 4411 " * 9, phase="running", queued=2, restarts=1),
            row("b", title="ملف الطلب", outcome="failed"),
            row("c", suspended=True, waiting={"approvals": 1, "questions": 2}),
            row("d", phase="ended", ended=True, cost_usd=None),
        ],
        "waiting": [waits("w", "c", expires_at_ms=NOW + 60_000), waits("q", "c", kind="question", tool=None)],
    }
    page = pages.open(scripted_server.link("#/"), width=width, dark=dark)
    until(page, "() => document.querySelectorAll('.waiting-line').length === 2")
    is_quiet(page)
    assert axe_faults(page) == []
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_a_real_session_is_created_works_waits_and_is_seen_all_along(pages, console_server):
    """By the dialogue, with a profile; its approval stands on top, and is decided there."""
    model = ScriptedModel([calls(("shell", {"command": "rm -r build"})), says("Done")])
    options = {"tools": [RecordingTool(name="shell")], "plugins": [HumanApproval]}
    console_server.start(profiles=[profile(model, "support", **options), profile("demo:", "eval")])
    page = pages.open(console_server.link("#/"), width=1_000)
    shows(page, "There are no sessions yet.")
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
    assert lines(page)[0] == "Waiting 1"

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
    """A question, as a status tells it."""
    usual = {"question": "Which account?", "options": ["Main", "Savings"], "requested_at_ms": NOW}
    return {"ref": ref, "call_id": "c-1", "path": ["a"], **usual, **more}


def asking(server: Any, *found: dict[str, Any], below: tuple[dict[str, Any], ...] = ()) -> None:
    """Let a session `a` wait for answers, itself and by one that works for it."""
    status = {
        "questions": list(found),
        "children": [{"session_id": "a.b", "status": {"questions": list(below)}}],
    }
    server.answers["GET sessions/a"] = {"seq": 1, "status": status}
    server.rows["sessions"] = [row("a", title="Import Q3")]
    server.rows["waiting"] = [
        waits(
            one["ref"],
            "a",
            kind="question",
            tool=None,
            approval_id=None,
            ref=one["ref"],
            summary=one["question"],
        )
        for one in (*found, *below)
    ]


def test_how_long_something_waits_is_said_as_that_and_not_as_what_is_left(pages, scripted_server):
    """Equal things look equal: `1:02 left` beside `for 0:19`, never a bare time."""
    scripted_server.rows = {
        "sessions": [row("a"), row("b")],
        "waiting": [
            waits("limited", "a", at_ms=NOW, expires_at_ms=int(time.time() * 1_000) + 62_900),
            waits("unlimited", "b", at_ms=int(time.time() * 1_000) - 19_000),
        ],
    }
    page = pages.open(scripted_server.link("#/"))
    until(page, "() => document.querySelectorAll('.waiting-line').length === 2")
    told = page.evaluate(
        "() => [...document.querySelectorAll('.waiting-line > .time')].map((one) => one.innerText)"
    )
    assert sorted("left" if one.endswith(" left") else one.split()[0] for one in told) == ["for", "left"]


def test_a_question_is_answered_in_the_row_that_says_it_waits(pages, scripted_server):
    """It opens by a person, its first field has the focus, what is sent is what was chosen, and the row says what became of it."""
    asking(scripted_server, question())
    scripted_server.replies["respond"] = {}
    page = pages.open(scripted_server.link("#/"))
    page.get_by_role("button", name="Answer “Which account?” in Import Q3").click()
    until(
        page,
        "() => document.activeElement.type === 'radio' && document.activeElement.closest('.waiting-row')",
    )
    assert axe_faults(page) == []
    page.keyboard.press("ArrowDown")
    page.wait_for_timeout(550)  # its buttons take nothing for half a second
    page.get_by_role("button", name="Answer", exact=True).click()
    sent = scripted_server.wait_for("respond", wait=lambda seconds: page.wait_for_timeout(seconds * 1_000))
    assert (sent["session_id"], sent["ref"], sent["response"]) == ("a", "q-1", 1)
    change(scripted_server, "waiting", gone=("q-1",))
    shows(page, "You answered.")
    page.get_by_role("button", name="Answer “Which account?” in Import Q3").click()
    until(page, "() => !document.querySelector('.waiting-row')")


def test_a_question_of_an_agent_below_is_answered_through_the_session_above_it(pages, scripted_server):
    """Its row names the root: there it is found, however deep it stands."""
    asking(scripted_server, below=(question("q-2", question="How many?", options=[]),))
    scripted_server.replies["respond"] = {}
    page = pages.open(scripted_server.link("#/"))
    page.get_by_role("button", name="Answer “How many?” in Import Q3").click()
    until(page, "() => document.activeElement.tagName === 'TEXTAREA'")
    page.keyboard.type("Three")
    page.wait_for_timeout(550)
    page.get_by_role("button", name="Answer", exact=True).click()
    sent = scripted_server.wait_for("respond", wait=lambda seconds: page.wait_for_timeout(seconds * 1_000))
    assert (sent["session_id"], sent["ref"], sent["response"]) == ("a", "q-2", "Three")


def test_a_question_that_is_gone_says_so_and_one_that_cannot_be_read_is_tried_again(pages, scripted_server):
    """The row was there a moment ago; the answer of the server decides."""
    asking(scripted_server, question())
    scripted_server.answers["GET sessions/a"] = (
        503,
        {"error": {"code": "busy", "message": "ask again", "hint": None}},
    )
    page = pages.open(scripted_server.link("#/"))
    pages.of(page).expects.append("503")
    page.get_by_role("button", name="Answer “Which account?”").click()
    shows(page, "ask again")
    scripted_server.answers["GET sessions/a"] = {"seq": 1, "status": {"questions": [], "children": []}}
    page.locator(".waiting-row .state button").click()
    shows(page, "This request is no longer pending.")


@pytest.mark.parametrize("width", [1_000, 1_200])
def test_the_row_of_a_question_leads_to_its_field_and_again_when_it_is_pressed_again(
    pages, scripted_server, width
):
    """Alone or beside the session: the link of a row that waits goes to the card, with the focus where one begins."""
    story = Story(scripted_server, session_id="a")
    story.begins()
    story.tell("ask_user", ref="q-1", question="Which account?", options=[])
    story.status["questions"] = [question(options=[])]
    scripted_server.rows = {
        "sessions": [row("a", title="Import Q3")],
        "waiting": [
            waits(
                "q-1", "a", kind="question", tool=None, approval_id=None, ref="q-1", summary="Which account?"
            )
        ],
    }
    page = pages.open(scripted_server.link("#/"), width=width)
    page.locator(".waiting-line").click()
    at_field = "() => document.activeElement.matches('.feed .question textarea') && location.hash === '#/s/a'"
    until(page, at_field)
    if width > 1_100:
        page.keyboard.press("Escape")
        page.evaluate("() => document.activeElement.blur()")
        page.locator(".beside .waiting-line").click()
        until(page, at_field)


def test_five_thousand_sessions_that_change_a_hundred_times_a_second_stay_smooth(pages, scripted_server):
    """What a change costs, and what scrolling costs, is a few milliseconds of the processor: 15.9 with room for one that is four times slower.

    Its own time is counted and not frames, which say as much of what else runs on this machine.
    """
    scripted_server.rows["sessions"] = [
        row(
            f"s-{number:04}",
            title=f"Session {number}",
            changed_at_ms=NOW - number,
            phase="idle" if number % 9 else "running",
        )
        for number in range(5_000)
    ]
    page = pages.open(scripted_server.link("#/"))
    until(page, "() => document.querySelector('.session-line')")
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
            row(
                f"s-{(turn * 25 + number) * 37 % 5_000:04}", title=f"Changed {turn}", changed_at_ms=NOW + turn
            )
            for number in range(25)
        ]
        change(scripted_server, "sessions", *changed, total=5_000)
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
