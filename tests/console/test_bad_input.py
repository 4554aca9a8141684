"""What no page may be thrown by, row by row as 15.10 has it: tokens, sessions of others, numbers that are not kept, what a server lacks, events and frames that are wrong, and what a browser lacks.

Rows that have a test elsewhere are not here: a wrong token, an older server and a component that throws are in `test_shell`, decisions that came too late in
`test_approvals`, a trimmed or missing journal in `test_journal_page`, five megabytes in `test_hostile`.
"""

import httpx
import pytest
from starlette.responses import JSONResponse

from agentrail.gateway.console_files import ROOT
from agentrail.host import Principal
from agentrail.stores.memory import MemoryStore
from tests.console.browsing import is_quiet, reload, shows, until
from tests.host.hosting import answering
from tests.thinned import nightly, sample

pytestmark = pytest.mark.check

LIVE = "() => document.querySelector('.connection-button.live')"
FIELD = "textarea.composer-field"
COUNTED = """(name) => Number([...document.querySelectorAll('dialog dl div')].find((one) => one.innerText.includes(name))?.querySelector('dd').innerText)"""


# --- tokens


def test_a_token_that_expires_is_asked_for_and_what_was_typed_stays(pages, story):
    """The address bar holds none, the conversation stays readable, and with another token the page goes on where it was, behind a reload or at once."""
    story.server.token = "agt_morning"  # noqa: S105 - of a test
    story.begins("Still readable")
    page = pages.open(story.server.link("#token=agt_morning&to=/s/s-1"))
    pages.of(page).expects.append("401")
    shows(page, "Still readable")
    page.locator(FIELD).fill("half of a sen")
    for token in ("agt_evening", "agt_night"):
        story.server.token = token
        story.server.close(4401)
        shows(page, "Your token expired or was revoked: log in again")
        assert "agt_" not in page.url
        if token == "agt_evening":  # noqa: S105 - of a test
            page.keyboard.press("Escape")
            shows(page, "Still readable")
            assert page.locator(FIELD).input_value() == "half of a sen"
            page.reload()  # nothing can be read by it any more, and it is asked for again
        page.locator("input[type=password]").fill(token)
        page.keyboard.press("Enter")
        until(page, LIVE)
        until(page, "() => !document.querySelector('dialog')")
        shows(page, "Still readable")
        assert page.locator(FIELD).input_value() == "half of a sen"
        assert "agt_" not in page.url


# --- sessions that are not there


USERS = {
    "ann": Principal(tenant_id="acme", user_id="ann"),
    "bob": Principal(tenant_id="acme", user_id="bob"),
    "ops": Principal(tenant_id="acme", user_id="ops", scopes={"use", "inspect"}),
}


def test_a_session_that_never_was_one_of_others_and_one_that_is_deleted_are_told_alike(pages, console_server):
    """By a real server: what is foreign is as if it were not there; what is deleted while it is open stays readable, and takes no more words. Whoever may inspect is led to the journal."""
    known = {"authorization": "Bearer ann"}
    console_server.start(
        answering("Hello, Ann."),
        store=MemoryStore(),
        auth=lambda headers: USERS.get(headers.get("authorization", "").removeprefix("Bearer ")),
    )
    said = {"session_id": "of-ann", "message": "Good morning."}
    httpx.post(f"{console_server.base}/chat", json=said, headers=known).raise_for_status()
    foreign = pages.open(console_server.link("#token=bob&to=/s/of-ann"))
    pages.of(foreign).expects.append("404")
    shows(foreign, "Session not found")
    told = foreign.inner_text("#content").replace("of-ann", "ID")
    foreign.evaluate("() => { location.hash = '#/s/of-none'; }")
    until(foreign, "() => location.hash === '#/s/of-none'")
    shows(foreign, "Session not found")
    assert foreign.inner_text("#content").replace("of-none", "ID") == told
    assert "Good morning" not in told
    operator = pages.open(console_server.link("#token=ops&to=/s/of-ann"))
    pages.of(operator).expects.append("404")
    shows(operator, "Session not found")  # in its place
    operator.get_by_role("link", name="Journal").click()
    shows(operator, "Good morning.")
    foreign.get_by_role("link", name="Go to the sessions").click()
    until(foreign, "() => location.hash === '#/'")
    page = pages.open(console_server.link("#token=ann&to=/s/of-ann"))
    pages.of(page).expects.append("404")
    shows(page, "Hello, Ann.")
    page.locator(FIELD).fill("And now")
    httpx.delete(f"{console_server.base}/sessions/of-ann?purge=true", headers=known).raise_for_status()
    until(page, f"() => document.querySelector('{FIELD}').disabled")
    assert "Hello, Ann." in page.inner_text(".feed")
    reload(page, showing="Session not found")


# --- numbers that are not kept


@nightly
def test_a_number_that_is_not_kept_is_told_with_where_it_begins(pages, story):
    """A fork, or a way back, to what was dropped meanwhile: "Records before 900 are no longer stored"."""
    refused = {"code": "trimmed", "message": "record 3 was dropped", "hint": None, "first": 900}
    story.server.answers["POST sessions/s-1/rewind"] = (410, {"error": refused})
    story.begins("Long ago")
    story.done()
    page = pages.open(story.link(), width=1440)
    pages.of(page).expects.append("410")
    prompt = page.locator(".feed [data-key^='prompt:']").first
    for button in ("Fork here", "Rewind to here"):
        prompt.click()
        prompt.get_by_role("button", name=button).click()
        page.locator("dialog", has_text="Records before 900 are no longer stored.").wait_for()
        page.keyboard.press("Escape")
        until(page, "() => !document.querySelector('dialog')")
        shows(page, "Long ago")


# --- a server with newer code


@nightly
def test_a_session_that_is_parked_because_its_code_changed_is_continued_by_a_button(pages, story):
    """When it is opened or while it is shown; what differs is told before: record, operation, plugin. A refusal is told, and the button is there again."""
    drift = {"seq": 41, "operation": "run_tool t7 pay args=1f", "plugin": "budget_guard"}
    error = {"code": "journal_drifted", "message": "it is parked", "hint": None, "status": 503, **drift}
    asked: list[dict] = []
    parked = [True]
    subscribed = story.server.replies["subscribe"]

    def read(frame):
        refusal = {"type": "reply", "id": frame["id"], "ok": False, "error": error}
        return [refusal] if parked[0] else subscribed(frame)

    async def resumed(request):
        asked.append(await request.json())
        parked[0] = len(asked) % 2 == 1
        return (
            JSONResponse({"error": {**error, "message": "not yet"}}, 503) if parked[0] else JSONResponse({})
        )

    story.server.replies["subscribe"] = read
    story.server.answers["POST sessions/s-1/resume"] = resumed
    story.begins("Pay it.")
    page = pages.open(story.link())
    pages.of(page).expects.append("503")
    for tries in (2, 4):
        for said in ("First record that differs: 41", "run_tool t7 pay args=1f", "budget_guard"):
            shows(page, said)
        page.get_by_role("button", name="Continue").click()
        shows(page, "not yet")
        page.get_by_role("button", name="Continue").click()
        shows(page, "Pay it.")
        until(page, "() => !document.body.innerText.includes('First record that differs')")
        assert asked == [{"on_drift": "go_on"}] * tries
        parked[0] = True
        story.server.close()


# --- what a server lacks


@nightly
def test_a_session_without_spans_context_or_inspect_has_no_empty_panels(pages, story):
    """What is not served is not there, nothing of it is asked for, and all else works."""
    story.server.info["features"] = ["events", "watch"]
    story.server.info["principal"]["scopes"] = ["use"]
    story.server.info["journal"] = False
    story.begins("Do it.")
    page = pages.open(story.link(), width=1440, showing="Do it.")
    assert page.locator(".session-panel [role=tab]").all_inner_texts() == ["Now", "Plugins"]
    assert page.get_by_role("link", name="Journal").count() == 0
    story.done()
    shows(page, "Done")
    assert not [one for one in story.server.asked if "inspect" in one or "context" in one]


# --- events and frames that are wrong


def test_events_that_come_twice_too_early_or_alone_and_frames_that_are_none_lose_nothing(pages, story):
    """Twice: ignored. A gap: it subscribes again from its last number. The end of a call that never began: a card. No JSON, no frame, an unknown kind: counted."""
    page = pages.open(story.link(), once="() => document.querySelector('.feed, .conversation-state .state')")
    story.begins("First words")
    again = story.told[-2:]
    story.resend(*again, *reversed(again))
    shows(page, "First words")
    last = story.seq
    for words in ("Second words", "Third words"):  # kept, and not sent: the socket lost them
        for kind, fields in (
            ("prompt_received", {"content": [{"kind": "text", "text": words}]}),
            ("agent_start", {}),
        ):
            story.seq += 1
            story.told.append(story.event(kind, ref=words, **fields))
    story.ends("c-404", "orphan", "what it came to")
    shows(page, "Third words")
    until(page, "() => document.querySelector(\".feed [data-key='call:c-404']\")")
    asked = [one for one in story.server.received if one["type"] == "subscribe"]
    assert [one.get("after") for one in asked] == [None, last]
    feed = page.inner_text(".feed")
    places = [feed.index(words) for words in ("First words", "Second words", "Third words", "orphan")]
    assert places == sorted(places)
    assert [feed.count(words) for words in ("First words", "Second words", "Third words")] == [1, 1, 1]
    page.locator("[data-key='call:c-404'] .call-head").click()
    shows(page, "what it came to")

    story.server.send(
        "{", "[1]", "null", '"x"', {"type": 7}, {"type": "wonder"}, {"type": "event"}, {"type": "events"}
    )
    story.begins("It goes on", ref="p-2")
    shows(page, "It goes on")
    page.get_by_role("button", name="Live").click()
    until(page, f"() => ({COUNTED})('could not be read') === 5")
    until(page, f"() => ({COUNTED})('unknown kind') === 1")


@nightly
def test_ten_thousand_calls_of_one_answer_are_groups_of_which_few_rows_exist(pages, story):
    """A hundred groups of a hundred; the nodes stay few, and a search opens what it finds."""
    story.begins()
    story.asks()
    story.answers("", *((f"c-{number}", "read", {"path": f"file-{number}"}) for number in range(10_000)))
    page = pages.open(story.link())
    shows(page, "file-9999", seconds=20)
    assert "Calls 9,801 to 9,900" in page.inner_text(".feed") or page.evaluate(
        "() => { document.querySelector('.feed').scrollTop = 0; return true; }"
    )
    shows(page, "Calls 1 to 100")
    assert page.evaluate("() => document.querySelectorAll('.feed *').length") < 1_500
    page.keyboard.press("/")
    until(page, "() => document.activeElement.matches('.session-search input')")
    page.keyboard.type("file-4321")
    page.keyboard.press("Enter")
    until(page, "() => document.querySelector('.is-current')?.innerText.includes('file-4321')")
    shows(page, "1 of 1")
    assert page.evaluate("() => document.querySelectorAll('.feed *').length") < 1_500


# --- what a browser lacks

WITHOUT = {
    "storage": """for (const name of ["sessionStorage", "localStorage"])
        Object.defineProperty(globalThis, name, { get() { throw new DOMException("not here", "SecurityError"); } });""",
    "full storage": """Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError"); };""",
    "highlights and observers": """delete CSS.highlights; delete globalThis.Highlight; delete Object.getPrototypeOf(CSS).highlights;
        delete globalThis.ResizeObserver; delete globalThis.IntersectionObserver; delete globalThis.requestIdleCallback;""",
}

IS_WITHOUT = {
    "storage": "() => { try { return !sessionStorage; } catch { return true; } }",
    "full storage": "() => { try { sessionStorage.setItem('a', 'b'); return false; } catch { return true; } }",
    "highlights and observers": "() => !('highlights' in CSS) && typeof ResizeObserver === 'undefined'",
}


@pytest.mark.parametrize("missing", sample([*WITHOUT], 1))
def test_it_works_in_a_browser_that_lacks(pages, story, missing):
    """Storage that is forbidden or full, highlights, observers of sizes: text streams, code is shown, what is typed stays while the page does, and the end is stuck to."""
    for number in range(40):
        story.begins(f"Question {number} " + "word " * 60, ref=f"p-{number}")
        story.done(ref=f"p-{number}")
    page = pages.open(story.server.link("#/nowhere"), width=1440)
    page.add_init_script(WITHOUT[missing])  # in front of all that the page has, once it is loaded again
    page.goto(story.link())
    reload(page, showing="Question 39")
    assert page.evaluate(IS_WITHOUT[missing])
    story.begins("Show me code.", ref="p-40")
    story.asks()
    story.says("```python\nprint(", "'streams')\n```\n")
    shows(page, "print('streams')")
    story.answers(
        "```python\nprint('streams')\n```\n" + "\n\n".join(f"Line {number}" for number in range(60))
    )
    shows(page, "Line 59")
    bottom = "() => { const box = document.querySelector('.feed'); return box.scrollHeight - box.scrollTop - box.clientHeight < 40; }"
    until(page, bottom)
    page.locator(FIELD).fill("half of a sen")
    page.evaluate("() => { location.hash = '#/'; }")
    until(page, "() => document.querySelector('.sessions')")
    page.evaluate("() => { location.hash = '#/s/s-1'; }")
    until(page, f"() => document.querySelector('{FIELD}')?.value === 'half of a sen'")
    page.evaluate("() => { document.querySelector('.feed').scrollTop = 0; }")
    shows(page, "Question 0")
    assert page.locator(".not-drawn").count() == 0


@nightly
def test_a_browser_without_modules_sees_one_sentence(pages, scripted_server):
    """Which modules hide: the file that such a browser runs, and no other does, is written for it, and shows the sentence."""
    page = pages.open(scripted_server.link("#/nowhere"))
    is_quiet(page)
    shown = "() => [...document.body.children].filter((one) => one.checkVisibility() && one.innerText.trim()).map((one) => one.innerText.trim())"
    sentence = "This console needs a browser that knows JavaScript modules."
    assert sentence not in page.evaluate(shown)
    assert page.get_attribute("script[nomodule]", "src") == "no_modules.js"
    page.evaluate("() => document.querySelector('#app').replaceChildren()")  # no module has drawn it
    source = (ROOT / "no_modules.js").read_text()
    assert not any(word in source for word in ("=>", "const ", "let ", "import ", "`", "?."))
    page.evaluate(source)
    assert page.evaluate(shown) == [sentence]
