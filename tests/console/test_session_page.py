"""The page of a session against a server that says what a test wrote: retries, receipts, agents below, reloads, gaps, and what cannot be drawn."""

from itertools import pairwise

import pytest

from tests.console.browsing import is_quiet, reload, shows, until
from tests.console.story import BEGAN_MS
from tests.thinned import nightly

pytestmark = pytest.mark.check

READS = "() => document.querySelector('.feed, .conversation-state .state')"


def opened(pages, story, **given):
    return pages.open(story.link(), **given, once=READS)


def row_with(page, text):
    """Wait for the row that shows a text, and give all that it shows."""
    return page.locator(".feed [data-key]", has_text=text).first.inner_text()


@pytest.mark.c(13)
def test_a_retry_in_mid_stream_leaves_nothing_of_the_discarded_text_and_a_session_has_a_name(pages, story):
    """Called by what was said to it first, then by its title; the discarded text goes, the attempt is named, nothing is doubled."""
    page = opened(pages, story)
    assert page.locator("h1.session-title").inner_text() == "Untitled session"
    story.begins("Refund order \u202e4411,\nplease.")
    page.locator("h1.session-title", has_text="Refund order ⟦U+202E⟧4411, please.").wait_for()
    until(page, "() => document.title.includes('Refund order ⟦U+202E⟧4411, please.')")
    story.tell("title_generated", title="Refund 4411")
    until(page, "() => document.querySelector('h1.session-title').innerText === 'Refund 4411'")

    story.asks()
    story.says("Half of a ", "sentence that breaks")
    shows(page, "Half of a sentence that breaks")
    error = {"code": "overloaded", "message": "the vendor is overloaded"}
    story.tell("stream_error", error=error, attempt=1, discarded=True)
    story.tell("retry", attempt=2, delay_ms=60_000, error=error)
    told = row_with(page, "Attempt 1 failed")
    assert "the vendor is overloaded" in told
    assert "Its partial answer was discarded." in told
    assert "Half of a sentence" not in page.inner_text(".feed")
    story.asks(attempt=2)
    story.says("A whole ", "answer.", attempt=2)
    story.answers("A whole answer.", attempt=2)
    story.done()
    shows(page, "Done")
    feed = page.inner_text(".feed")
    assert feed.count("A whole answer.") == 1
    assert "attempt 2" in feed
    assert "Half of a sentence" not in feed


@pytest.mark.c(14)
def test_a_receipt_names_what_may_have_happened_and_what_runs_on(pages, story):
    """Both calls are named, with their arguments, in words that a person can act on; what runs on can be stopped alone."""
    page = opened(pages, story)
    story.begins()
    story.asks()
    wanted = [
        ("c-1", "shell", {"command": "rm -r build"}),
        ("c-2", "deploy", {"path": "site"}),
        ("c-3", "read", {}),
    ]
    story.answers("", *wanted)
    for call in wanted:
        story.starts(*call)
    story.ends("c-3", "read")
    story.tell("agent_abort", reason="wrong folder", ref="p-1")
    shows(page, "Stopping…")
    left = {"name": "fetch", "age_ms": 12_000, "pid": 4411}
    ended = {"settled": True, "tasks_ended": 2, "processes_reaped": 1, "milliseconds": 320}
    left_over = {"stuck": [left], "abandoned": [], "unknown": ["c-1"], "survivors": ["c-2"]}
    story.tell("abort_settled", receipt={**ended, "committed": ["c-3"], **left_over})
    told = row_with(page, "after 320 ms")
    for words in ("Outcome unknown", "rm -r build", "Check before you repeat it.", "wrong folder"):
        assert words in told
    for words in ("Still running", "deploy", "site", "process 4411", "for 12"):
        assert words in told
    story.server.replies["abort_tool"] = {}
    page.get_by_role("button", name="Stop deploy").first.click()
    assert story.server.wait_for("abort_tool")["call_id"] == "c-2"


@pytest.mark.c(16)
def test_agents_two_levels_deep_stream_in_their_cards_and_the_search_finds_what_is_on_the_screen(
    pages, story
):
    """A child's child stands in the card of the child's card; its approval is there once. Found are Markdown, text that streams, arguments, notices and agents."""
    page = opened(pages, story, width=1050)
    story.begins("Tell me\nof it.")
    story.asks()
    story.answers("See **the** `bold`\nword.", ("c-1", "task", {"description": 'say "outer"'}))
    story.starts("c-1", "task", {"description": 'say "outer"'})
    story.tell("skill_opened", name="plans")
    story.tell("subagent_start", child_id="s-1.a", call_id="c-1", description="outer work")
    call = {"kind": "tool_call", "call_id": "c-9", "name": "look", "arguments": {}}
    Inside(story, "s-1.a", "c-1").complete("the child says so", call)
    shows(page, "the child says so")
    story.ends("c-1", "task", "found")
    story.asks()
    story.says("And it ", "**streams**")
    shows(page, "streams")
    page.locator(".feed").focus()
    page.keyboard.press("/")
    field = page.locator(".session-search input")
    shown = ("tell me of it", "See the bold word.", 'say "outer"', "skill plans opened")
    for one in (*shown, "the child says so", "outer work", "And it streams"):
        field.fill(one)
        until(page, "() => document.querySelector('.search-place').innerText.startsWith('0 of ')")
    field.fill("what nobody said")
    until(page, "() => document.querySelector('.search-place').innerText === 'Nothing found'")

    page.keyboard.press("Escape")
    story.answers("", ("c-2", "task", {"description": "outer work"}))
    story.starts("c-2", "task", {"description": "outer work"})
    story.tell("subagent_start", child_id="s-1.b", call_id="c-2", description="outer work")
    outer = Inside(story, "s-1.b", "c-2")
    outer.tell("agent_start", ref="p-a")
    call = {"kind": "tool_call", "call_id": "c-9", "name": "task", "arguments": {"description": "inner work"}}
    outer.complete("outer says so", call)
    outer.tell("tool_execution_start", name="task", call_id="c-9", arguments={"description": "inner work"})
    outer.tell("subagent_start", child_id="s-1.b.c", call_id="c-9", description="inner work")
    inner = Inside(story, "s-1.b.c", "c-9", above=outer)
    inner.tell("agent_start", ref="p-b")
    inner.tell("request_start", model="demo:", messages=1, attempt=1)
    inner.tell("message_start", attempt=1)
    inner.whisper("message_delta", delta="inner ", attempt=1)
    inner.whisper("message_delta", delta="streams", attempt=1)
    shows(page, "inner streams")
    assert page.locator(".child .child").count() == 1
    assert "inner streams" in page.locator(".child .child").inner_text()
    inner.complete(
        "", {"kind": "tool_call", "call_id": "c-b", "name": "shell", "arguments": {"command": "make all"}}
    )
    approval = story.approval("c-b", "shell", "s-1.b", "s-1.b.c", command="make all")
    inner.tell("approval_required", approval=approval)
    until(page, "() => document.querySelector('.child .child .item-decision')")
    assert page.locator(".item-decision").count() == 1
    shows(page, "Waiting for you")
    until(page, "() => document.title.startsWith('(1) ')")


class Inside:
    """A session below another, whose events come within those of the one above."""

    def __init__(self, story, session_id, call_id, above=None):
        self.story, self.session_id, self.call_id, self.above, self.seq = story, session_id, call_id, above, 0

    def tell(self, kind, **fields):
        self.seq += 1
        self._publish({**self._head(kind), **fields})

    def whisper(self, kind, **fields):
        self._publish({**self._head(kind), **fields, "ephemeral": True})

    def complete(self, words, call):
        content = [{"kind": "text", "text": words}, call] if words else [call]
        stop = {"stop_reason": "tool_use"}
        message = {"role": "assistant", "content": content, "model": "demo:", "cut": False, **stop}
        usage = {"input": 1, "output": 1, "cost_usd": 0.0}
        self.tell("response_complete", message=message, usage=usage, attempt=1, **stop)

    def _head(self, kind):
        return {"kind": kind, "seq": self.seq, "session_id": self.session_id, "at_ms": BEGAN_MS}

    def _publish(self, event):
        wrapped = {"call_id": self.call_id, "child_id": self.session_id, "depth": 1, "event": event}
        told = self.above or self.story
        (told.whisper if event.get("ephemeral") else told.tell)("subagent_event", **wrapped)


@pytest.mark.c(18)
def test_the_place_of_a_reader_is_kept_when_words_arrive_and_by_a_reload(pages, story):
    """What was typed, opened and looked at is there again; the end is stuck to again by `.`."""
    for number in range(60):
        story.begins(f"Question {number}", ref=f"p-{number}")
        story.asks()
        story.answers(f"Answer {number}", (f"c-{number}", "read", {"path": f"file-{number}"}))
        story.starts(f"c-{number}", "read", {"path": f"file-{number}"})
        story.ends(f"c-{number}", "read", f"content of {number}")
        story.done(ref=f"p-{number}")
    page = opened(pages, story)
    shows(page, "Answer 59")
    page.get_by_label("Message", exact=True).fill("half of a sen")
    page.locator("[data-key='call:c-58'] .call-head").click()
    shows(page, "content of 58")
    page.evaluate("() => { document.querySelector('.feed').scrollTop -= 1500; }")
    place = "() => { const top = document.querySelector('.feed').getBoundingClientRect().top; return [...document.querySelectorAll('.feed [data-key]')].find((row) => row.getBoundingClientRect().bottom > top + 1)?.dataset.key; }"
    until(page, "() => !document.body.innerText.includes('Answer 59')")
    is_quiet(page)
    before = page.evaluate(place)
    reload(page, once="() => document.querySelector('.feed [data-key]')")
    until(page, f"(before) => ({place})() === before", before)
    assert page.get_by_label("Message", exact=True).input_value() == "half of a sen"
    page.keyboard.press("End")
    page.evaluate("() => { document.querySelector('.feed').scrollTop = 1e9; }")
    shows(page, "content of 58")

    # Something is drawn between the scroll and its event, as a hover does: that must not take the reader back.
    page.evaluate(
        """() => {
          const feed = document.querySelector('.feed');
          feed.scrollTop -= 900;
          feed.querySelector('[data-key]').dispatchEvent(new PointerEvent('pointerenter'));
        }"""
    )
    until(page, "() => document.querySelector('.to-end')")
    before = page.evaluate("() => document.querySelector('.feed').scrollTop")
    for number in range(60, 64):
        story.begins(f"Question {number}", ref=f"p-{number}")
        story.done(ref=f"p-{number}")
    shows(page, "new items below")
    assert abs(page.evaluate("() => document.querySelector('.feed').scrollTop") - before) < 2
    page.keyboard.press(".")
    shows(page, "Question 63")
    story.begins("Question 64", ref="p-64")
    shows(page, "Question 64")
    assert page.locator(".to-end").count() == 0


def test_older_items_that_are_loaded_are_not_counted_as_new(pages, story):
    """The button to the end counts what came while the reader was away from it, and no page of history."""
    for number in range(60):
        story.begins(f"Question {number}", ref=f"p-{number}")
        story.asks()
        story.answers(f"Answer {number}")
        story.done(ref=f"p-{number}")
    page = opened(pages, story)
    shows(page, "Answer 59")
    page.evaluate("() => { document.querySelector('.feed').scrollTop = 0; }")
    until(
        page,
        "() => { const box = document.querySelector('.feed'); box.scrollTop = 0; return box.innerText.includes('Question 0'); }",
    )
    assert page.inner_text(".to-end").strip() == "To the end"
    story.begins("Question 60", ref="p-60")
    shows(page, "1 new item below")


def test_a_question_shows_how_long_it_can_be_answered(pages, story):
    """Its event has no deadline: the card reads it from the status of the session, and shows nothing where that has none."""
    story.status["questions"] = [
        {"ref": "q-1", "expires_at_ms": 4_102_444_800_000},
        {"ref": "q-2", "expires_at_ms": None},
    ]
    page = opened(pages, story)
    story.begins()
    story.asks()
    story.answers("", *[(f"c-{number}", "book", {}) for number in (1, 2, 3)])
    for number in (1, 2, 3):
        story.starts(f"c-{number}", "book", {})
        story.tell("ask_user", ref=f"q-{number}", question=f"Which, {number}?", call_id=f"c-{number}")
    shows(page, " left", "no time limit")
    heads = page.locator(".question .approval-head").all_inner_texts()
    assert [" left" in one for one in heads] == [True, False, False]
    assert ["no time limit" in one for one in heads] == [False, True, False]


def test_the_panel_over_the_conversation_has_the_focus_until_it_is_closed(pages, story):
    """On a phone, or with 400 % zoom: the keyboard reaches the panel at once, Escape closes it, and the focus returns to its button."""
    page = opened(pages, story, width=360)
    page.locator(".panel-button").press("Enter")
    until(page, "() => document.activeElement.matches('.session-panel [role=tab]')")
    page.keyboard.press("ArrowRight")
    until(page, "() => document.activeElement.matches('[data-tab=timeline], [data-tab=context]')")
    page.keyboard.press("Escape")
    until(page, "() => document.activeElement.matches('.panel-button')")
    assert not page.locator(".session-panel").is_visible()


@pytest.mark.c(6)
def test_what_is_not_kept_and_what_cannot_be_drawn_is_one_line_and_the_rest_goes_on(pages, story):
    """A gap is told with its numbers, and scrolling back ends with words; an event of another form or an unknown kind is a raw notice, and twice is ignored."""
    story.seq = 899
    for number in range(3):
        story.begins(f"Late question {number}", ref=f"p-{number}")
        story.done(ref=f"p-{number}")
    page = opened(pages, story)
    shows(page, "Events before 900 are no longer stored.")
    lost = story.event("events_lost", from_seq=story.seq + 1, to_seq=story.seq + 40)
    story.resend({**lost, "ephemeral": True})
    story.seq += 40
    subscribed = [one for one in story.server.received if one["type"] == "subscribe"][-1]
    head = {"type": "subscribed", "id": subscribed["id"], "session_id": story.session_id}
    story.server.send({**head, "seq": story.seq, "snapshot": story.snapshot()})
    story.begins("After the gap", ref="p-9")
    shows(page, "Events 909–948 are no longer stored", "After the gap")

    story.begins("Before")
    again = story.tell("brand_new_thing", amount=3)
    story.tell(
        "tool_execution_end",
        name="x",
        call_id="c-404",
        result={"call_id": "c-404", "name": "x", "text": "of nothing"},
    )
    story.tell("abort_settled", receipt=None)
    story.resend(again, again)
    story.done()
    shows(page, "Done")
    told = row_with(page, "Unknown event")
    assert "brand_new_thing" in told
    assert page.inner_text(".feed").count("brand_new_thing") == 1
    page.get_by_role("button", name="Show JSON").first.click()
    shows(page, '"amount": 3')
    assert row_with(page, "x")


@pytest.mark.c(37)
def test_a_streamed_cycle_is_announced_in_whole_sentences(pages, story):
    """At most one announcement in two seconds, each complete, and never what streams."""
    page = opened(pages, story)
    page.evaluate(
        """() => {
          globalThis.__said = [];
          const node = document.querySelector("[role=status][aria-live]");
          new MutationObserver(() => __said.push([performance.now(), node.textContent])).observe(node, { subtree: true, childList: true, characterData: true });
        }"""
    )
    story.begins()
    story.asks()
    story.says(*[f"word{number} " for number in range(200)])
    story.answers("The end.", ("c-1", "shell", {"command": "ls"}))
    approval = story.approval("c-1", "shell", command="ls")
    story.tell("approval_required", approval=approval)
    story.tell("approval_resolved", approval=approval, status="approved", by="user")
    story.starts("c-1", "shell", {"command": "ls"})
    story.ends("c-1", "shell")
    story.done()
    said = until(
        page, "() => __said.some(([, text]) => text.startsWith('Answer complete')) && __said", seconds=8
    )
    assert {text for _, text in said} <= {"Approval needed: shell", "Answer complete, 1 call", ""}
    times = [at for at, text in said if text]
    assert all(later - earlier > 1_900 for earlier, later in pairwise(times))


@nightly
def test_a_session_that_is_not_there_goes_away_or_ends_says_so(pages, story):
    """Unknown: words and a way back. Deleted while open, parked and ended: what was shown stays, the composer is off."""
    page = pages.open(story.server.link("#/s/other"))
    pages.of(page).expects.append("404")
    shows(page, "Session not found")
    page.get_by_role("link", name="Go to the sessions").wait_for()
    page.evaluate("(path) => { location.hash = path; }", "/s/s-1")
    until(page, READS)  # what is told now reaches it
    story.begins("Still readable")
    shows(page, "Still readable")
    subscribed = [one for one in story.server.received if one["type"] == "subscribe"][-1]
    story.server.send({"type": "reply", "id": subscribed["id"], "ok": True, "result": None})
    shows(page, "This session no longer exists", "Still readable")
    assert page.get_by_label("Message", exact=True).is_disabled()

    reload(page, once=READS)

    story.begins("Before the end", ref="p-2")
    story.tell("session_parked", reason="KeyError: 'x'")
    story.tell("session_end", reason="parked")
    shows(page, "This session crashed too often and is parked. Resume or fork it to continue.")
    assert page.get_by_label("Message", exact=True).is_disabled()
    shows(page, "Before the end")


@nightly
def test_a_session_that_waits_says_for_what_and_leads_there(pages, story):
    """What it said that it does is told when it goes on; a question names the tool that asks, where that is not the model's own; the panel leads to each."""
    page = opened(pages, story)
    facts = "() => document.querySelector('.session-facts').innerText"
    story.begins()
    story.asks()
    story.tell("status_update", text="reading the orders")
    shows(page, "reading the orders")
    story.answers("", ("c-0", "ask_user", {"question": "Which?"}))
    story.starts("c-0", "ask_user", {"question": "Which?"})
    story.tell("ask_user", ref="q-0", question="Which?")
    story.tell("agent_suspended", waiting=[{"kind": "question", "id": "q-0", "call_id": "c-0"}])
    until(page, f"() => ({facts})().includes('Waiting for you')")
    assert "reading the orders" not in page.evaluate(facts)
    story.tell("user_responded", ref="q-0", response="This one")
    story.tell("agent_resumed")
    until(page, f"() => ({facts})().includes('reading the orders')")

    story.ends("c-0", "ask_user")
    story.asks()
    wanted = [("c-1", "shell", {}), ("c-2", "book", {}), ("c-3", "ask_user", {"question": "Sure?"})]
    story.answers("", *wanted)
    for call in wanted:
        story.starts(*call)
    for ref, named in (("q-1", {"call_id": "c-2"}), ("q-2", {"call_id": "c-3"}), ("q-3", {})):
        story.tell("ask_user", ref=ref, question=f"Which, {ref}?", **named)
    until(page, "() => document.querySelectorAll('.question').length === 3")
    titles = page.locator(".question .approval-title").all_inner_texts()
    assert [" ".join(one.split()) for one in titles] == ["A question by book", "A question", "A question"]

    approval = story.approval("c-1", "shell", command="ls")
    asked = {"approval_id": "a-1", "by": "guard", "reason": None, "effect": "once", "schema": {}}
    shown = {"always": None, "preview": None, "arguments_text": '{"command":"ls"}'}
    story.server.answers["GET sessions/s-1/approvals/a-1"] = {**approval, **asked, **shown}
    story.tell("approval_required", approval=approval)
    panel = page.locator(".session-panel")
    panel.get_by_role("button", name="Answer").first.click()
    until(page, "() => document.activeElement.matches('.feed .question textarea')")
    panel.get_by_role("button", name="Review").click()
    until(page, "() => document.querySelector('.feed .approval.open .approval-arguments')")
    until(page, "() => document.activeElement.matches('.approval-title')")


@nightly
def test_what_was_cut_for_the_wire_is_loaded_in_ranges(pages, story):
    """The card says how much is not shown, until all of it is."""
    page = opened(pages, story)
    story.begins()
    story.asks()
    story.answers("", ("c-1", "read", {"path": "log"}))
    story.starts("c-1", "read", {"path": "log"})
    story.ends("c-1", "read", {"$cut": 41_000})
    story.done()

    async def told(request):
        start = int(request.query_params.get("result_from", 0))
        content, end = ("first part ", 11) if start == 0 else ("second part", 41_000)
        result = {"content": content, "error": False, "size": 41_000, "from_bytes": start, "to_bytes": end}
        arguments = {"path": "log"}
        asked = {"call_id": "c-1", "arguments": arguments, "effective_arguments": arguments}
        return {**asked, "gates": [], "result": result}

    story.server.answers["GET sessions/s-1/calls/c-1"] = told
    page.locator("[data-key='call:c-1'] .call-head").click()
    page.get_by_role("button", name="Load all (40 KB not shown)").click()
    shows(page, "first part")
    page.get_by_role("button", name="not shown").click()
    shows(page, "first part second part")
    until(page, "() => !document.querySelector('.call-body').innerText.includes('not shown')")
