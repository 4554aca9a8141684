"""The panels *Timeline* and *Context* in a browser: against a real gateway, and against a server that says what a test wrote."""

import pytest
import trio

from agentrail.host import Principal
from agentrail.plugins import HumanApproval
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.console.browsing import axe_faults, is_quiet, reload, shows, until
from tests.console.story import BEGAN_MS, USAGE
from tests.core.journal.timelines import timeline_of
from tests.host.hosting import say
from tests.thinned import nightly

LOCAL = Principal(tenant_id="local", user_id="local")

pytestmark = pytest.mark.check

ROWS = "() => [...document.querySelectorAll('.timeline .tree-body [role=row]')].map((row) => row.innerText.replaceAll('\\n', ' '))"
DRAWN = "(name) => [...document.querySelectorAll(`.timeline ${name}`)].map((one) => [one.innerText, one.title, one.getBoundingClientRect().width])"
ASK_FOR_EARLIER = """() => {
    const button = [...document.querySelectorAll('.timeline button')].find((one) => one.innerText.match(/earlier events/i));
    button?.click();
    return Boolean(button);
}"""
ERROR = {"code": "overloaded", "message": "the vendor is overloaded"}


def result(call_id, name, text, *, is_error=False):
    return {"call_id": call_id, "name": name, "text": text, "is_error": is_error, "details": None}


def lived(story):
    """A cycle with a retry, a gate, idle time, a plugin that acted, an agent below, and a call that fails."""

    def tell(kind, at, **fields):
        story.tell(kind, at_ms=BEGAN_MS + at, **fields)

    def says(role, **more):
        return {"role": role, "model": "demo:", "cut": False, **more}

    def asked(words):
        return [{"kind": "text", "text": words}]

    end = {"usage": USAGE, "stop_reason": "end"}
    answer = says("assistant", content=asked("Forty-two."), stop_reason="end")
    request = {"model": "demo:", "messages": 1}
    tell("prompt_received", -9_000_000, ref="p-0", content=asked("An earlier question"))
    tell("agent_start", -9_000_000, ref="p-0")
    tell("request_start", -8_999_000, **request, attempt=1)
    tell("response_complete", -8_998_000, message=answer, attempt=1, **end)
    tell("agent_end", -8_997_900, messages=[], ref="p-0", turns=1, **end)

    tell("prompt_received", 0, ref="p-1", content=asked("refund order 4411"))
    tell("agent_start", 0, ref="p-1")
    tell("request_start", 20, **request, attempt=1)
    tell("plugin_slow", 340, plugin="audit", hook="RequestPrepared", milliseconds=320)
    tell("stream_error", 600, error=ERROR, attempt=1, discarded=True)
    tell("retry", 600, attempt=2, delay_ms=4_000, error=ERROR)
    tell("request_start", 4_600, **request, attempt=2)
    tell("message_start", 4_900, attempt=2)
    wanted = {"lookup": {"order": 4411}, "shell": {"command": "rm -r build"}, "agent": {}}
    blocks = [
        {"kind": "tool_call", "call_id": f"c-{number}", "name": name, "arguments": arguments}
        for number, (name, arguments) in enumerate(wanted.items(), 1)
    ]
    said, stop = says("assistant", content=blocks, stop_reason="tool_use"), {"stop_reason": "tool_use"}
    tell("response_complete", 6_100, message=said, usage=USAGE, attempt=2, **stop)
    lookup, shell, agent = ({"name": name, "call_id": f"c-{number}"} for number, name in enumerate(wanted, 1))
    tell("tool_execution_start", 6_110, **lookup, arguments=wanted["lookup"])
    tell("tool_execution_end", 6_150, **lookup, result=result("c-1", "lookup", "x", is_error=True))
    approval = story.approval("c-2", "shell", **wanted["shell"]) | {"requested_at_ms": BEGAN_MS + 6_160}
    tell("approval_required", 6_160, approval=approval)
    tell("approval_resolved", 250_000, approval=approval, status="approved", by="user")
    tell("tool_execution_start", 250_010, **shell, arguments=wanted["shell"])
    tell("tool_execution_end", 251_500, **shell, result=result("c-2", "shell", "ok"))
    tell("tool_execution_start", 251_510, **agent, arguments={})
    below = {"child_id": "s-2", "call_id": "c-3"}
    tell("subagent_start", 251_520, **below, description="Look the order up in the archive")
    for seq, (kind, at, more) in enumerate(
        (
            ("agent_start", 251_530, {"ref": "q"}),
            ("request_start", 251_540, {"model": "demo:small", "messages": 1, "attempt": 1}),
            ("response_complete", 252_800, {"message": answer, "attempt": 1, **end}),
            ("agent_end", 252_810, {"messages": [], "ref": "q", "turns": 1, **end}),
        ),
        1,
    ):
        inner = {"kind": kind, "seq": seq, "at_ms": BEGAN_MS + at, "session_id": "s-2", **more}
        tell("subagent_event", at, **below, depth=1, event={**inner, "session_path": ["s-1", "s-2"]})
    tell("subagent_end", 252_820, **below, result=result("c-3", "agent", "found"))
    tell("tool_execution_end", 252_830, **agent, result=result("c-3", "agent", "found"))
    tell("request_start", 252_840, model="demo:", messages=5, attempt=1)
    tell("intervention", 252_850, prompt="Be brief.", by=["quota"])
    tell("response_complete", 254_000, message=answer, attempt=1, **end)
    tell("agent_end", 254_010, messages=[], ref="p-1", turns=2, **end)


def shown(pages, story, tab="timeline", **given):
    """The page of a session with a panel open."""
    page = pages.open(story.link(), **given)
    until(page, "() => document.querySelector('.feed, .conversation-state .state')")
    if not page.is_visible(f"[data-tab={tab}]"):
        page.click(".panel-button")
    page.click(f"[data-tab={tab}]")
    return page


# --- the timeline


@pytest.mark.c(29)
def test_a_cycle_is_the_same_live_behind_a_reload_and_from_the_journal(pages, console_server):
    """The same rows as they happen and as they are read again; and the server's own fold gives the same spans of the journal."""
    tool = RecordingTool(name="shell", answer="done it")
    model = ScriptedModel([calls(("shell", {"command": "ls"}), text="I look."), says("Nothing ", "is left.")])
    console_server.start(model, store="memory:", session_tools=[tool], session_plugins=[HumanApproval])
    host = console_server.host

    async def prompt():
        request = await host.submit(say("refund order 4411", by=LOCAL), LOCAL)
        return request.session.session_id

    session_id = console_server.thread.run(prompt)
    page = pages.open(console_server.link(f"#/s/{session_id}"))
    until(page, "() => document.querySelector('[data-tab=timeline]')")
    page.click("[data-tab=timeline]")
    until(page, f"() => ({ROWS})().some((row) => row.includes('Approval') && row.includes('waits'))")

    async def approve():
        session = host.supervisor.session(session_id, scope=LOCAL.tenant_id)
        (asked,) = (await session.status()).approvals
        await session.approve(asked.id)
        with trio.fail_after(60):
            while (await session.status()).phase != "idle":  # noqa: ASYNC110 - a session that is idle is no event
                await trio.sleep(0.02)

    console_server.thread.run(approve)
    until(page, f"() => ({ROWS})().filter((row) => /demo|scripted|shell/.test(row)).length >= 2")
    until(page, "() => !document.querySelector('.timeline .span-note.accent')")
    live = keys_of(page)
    reload(page, once="() => document.querySelector('[data-tab=timeline]')")
    page.click("[data-tab=timeline]")
    until(page, f"() => ({ROWS})().length >= 5")
    assert keys_of(page) == live

    async def journal():
        read = await host.supervisor.events_page(session_id, after=0, limit=1_000, scope=LOCAL.tenant_id)
        return {one.key for one in timeline_of(read.events)}

    assert set(live) == console_server.thread.run(journal)


def keys_of(page):
    return page.evaluate(
        "() => [...document.querySelectorAll('.timeline .tree-body [data-key]')].map((row) => row.dataset.key)"
    )


@nightly
def test_attempts_share_a_row_idle_is_folded_and_a_row_that_is_selected_selects_its_item(pages, story):
    """A retry is two bars of one row, idle minutes are 24 px with their length, marks have words; by mouse and keys a row tells what is known; own and Σ side by side."""
    lived(story)
    page = shown(pages, story)
    rows = until(page, f"() => {{ const rows = ({ROWS})(); return rows.length > 8 && rows; }}")
    assert "refund order 4411" in rows[1]
    assert "2 attempts" in rows[2]
    assert "failed" in rows[3]
    assert min(width for _, _, width in page.evaluate(DRAWN, ".span-bar")) >= 2
    idle = page.evaluate(DRAWN, ".span-idle")
    assert [one[:2] for one in idle] == [["4s", "idle for 4.0 s"], ["4m", "idle for 4:04"]]
    assert all(abs(width - 24) < 1 for _, _, width in idle)
    marks = {title for _, title, _ in page.evaluate(DRAWN, ".span-tick")}
    assert marks >= {"audit was slow · RequestPrepared (320 ms)", "quota intervened"}
    assert not page.evaluate("() => document.querySelector('.timeline svg, .timeline canvas')")

    page.click(".timeline .tree-body [role=row]:has-text('lookup')")
    shows(page, "lookup")
    told = page.inner_text(".span-details")
    assert "failed" in told
    assert "40 ms" in told
    # The focus goes to the item, two frames behind the row: what is pressed before would be pressed there.
    until(page, "() => document.activeElement.matches(\".feed [data-key='call:c-1']\")")
    page.focus(".timeline .tree-grid")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    until(page, "() => document.querySelector('.span-details').innerText.includes('300, 60')")
    until(page, "() => document.activeElement.matches('.feed [data-key]')")
    page.focus(".timeline .tree-grid")
    page.keyboard.press("ArrowLeft")
    until(page, f"() => ({ROWS})().length === 2")
    page.click("text=Enlarge")
    page.locator(".timeline-dialog [role=columnheader]").first.wait_for()
    heads = page.locator(".timeline-dialog [role=columnheader]").all_inner_texts()
    assert heads == ["Step", "Time", "Duration", "Tokens", "Σ tokens", "Cost", "Σ cost"]
    row = page.inner_text(".timeline-dialog .tree-body [data-key='cycle:7']").split("\n")
    assert row[-2:] == ["360", "$0.03"]


@pytest.mark.c(42)
def test_five_thousand_spans_are_as_many_rows_as_fit(pages, story):
    """Only rows near the window exist, also while one scrolls; and a page at rest draws nothing."""
    story.begins("A long night")
    for number in range(2_500):
        story.tell("request_start", model="demo:", messages=1, attempt=1)
        story.tell("tool_execution_start", name="shell", call_id=f"c-{number}", arguments={})
    page = shown(pages, story)
    until(page, f"() => ({ROWS})().length > 5")
    while page.evaluate(ASK_FOR_EARLIER):  # in one call, as the button disappears once all are there
        page.wait_for_timeout(30)
    assert int(page.get_attribute(".timeline .tree-grid", "aria-rowcount")) > 4_500
    body = "document.querySelector('.timeline .tree-body')"
    rows = page.evaluate(
        f"""async () => {{
          const seen = [];
          for (let step = 0; step < 20; step += 1) {{
            {body}.scrollTop = step * 5000;
            await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0)));
            seen.push(document.querySelectorAll('.timeline .tree-body [role=row]').length);
          }}
          return seen;
        }}"""
    )
    assert max(rows) < 150
    assert page.evaluate("() => document.querySelectorAll('*').length") < 3_000


@nightly
@pytest.mark.c(36)
def test_axe_finds_nothing_in_the_panels(pages, story):
    """Dark and narrow."""
    lived(story)
    answers_context(story)
    page = shown(pages, story, width=1100, dark=True)
    for tab in ("timeline", "context"):
        page.click(f"[data-tab={tab}]")
        until(page, f"() => document.querySelectorAll('.{tab} .tree-body [role=row]').length > 2")
        is_quiet(page)
        # Of the conversation beside it: the heading inside of a call that stands open.
        assert axe_faults(page, allowed=("heading-order",)) == []


# --- the context

PARTS = [
    ("system_prompt", "system", None, 900, "You are the desk of a shop.", [], None),
    ("lookup", "tools", None, 300, "Looks an order up.", [], None),
    ("note", "summary", "user", 2_400, "Summary of before", [], None),
    ("prompt", "message", "user", 12, "refund order 4411", [], "p-1"),
    ("answer", "message", "assistant", 60, "lookup(…)", ["c-1"], None),
    ("results", "message", "tool", 6_878, "lookup: <b>x</b>", ["c-1"], None),
]


def answers_context(story, **more):
    """What the server says of the next request."""
    names = ("name", "kind", "role", "tokens", "text_head", "call_ids", "ref")
    parts = [{**dict(zip(names, part, strict=True)), "seq": None} for part in PARTS]
    told = {
        "model": "demo:", "window": 12_000, "tokens": 10_550, "counted_tokens": 10_600, "digest": "ab" * 32, "parts": parts,
        **more,
    }  # fmt: skip

    async def context(_request):
        return told

    story.server.answers[f"GET sessions/{story.session_id}/context"] = context


@nightly
def test_the_context_is_told_part_by_part(pages, story):
    """Tokens of each kind and part, how full the window is, and a digest; what is selected is shown and found; an unknown window is said to be that."""
    lived(story)
    answers_context(story)
    page = shown(pages, story, tab="context")
    shows(page, "10.6k of 12k tokens", "The window is nearly full")
    rows = [
        row.replace("\n", " ") for row in page.locator(".context .tree-body [role=row]").all_inner_texts()
    ]
    assert rows[0].startswith("▸ System prompt 1")
    assert any(row.startswith("results lookup: <b>x</b>") for row in rows)
    assert page.inner_text(".context").count("abababababab") == 1
    page.click("text=results")
    until(page, "() => document.querySelector('.context-text')?.innerText === 'lookup: <b>x</b>'")
    until(page, "() => document.querySelector(\".feed [data-key='call:c-1']\")")

    answers_context(story, window=None)
    page.reload()
    page.click("[data-tab=context]")

    shows(page, "The size of its context window is unknown.", "10.6k tokens")
