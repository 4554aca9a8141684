"""What waits for a person, in a browser against a real server: what is shown is what would run, nothing is decided by chance, and what came too late is told."""

import hashlib
import json
import re
import time

import httpx
import pytest

from agentrail.frozen import canonical_json
from agentrail.host import Allow, BeforeToolCall, HostPlugin
from agentrail.plugins import HumanApproval
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.console.browsing import axe_faults, is_quiet, reload, shows, until
from tests.console.serving import PATIENCE_SECONDS
from tests.thinned import nightly

pytestmark = pytest.mark.check

ANYTHING = {"type": "object"}
ASKS = (HumanApproval, {"require_approval_for": ["*"], "timeout_seconds": 600})
OPEN = ".approval.open"
ALLOW = "Allow once"
PLACE = "([open, words]) => document.querySelector(`${open} .approval-place`)?.innerText.trim() === words"


class Desk:
    """A server whose tools all ask, and what calls it from outside of the page."""

    def __init__(self, server, *turns, schema=ANYTHING, name="record", guard=ASKS, tools=(), **options):
        self.tool = RecordingTool(name=name, parameters=schema)
        self.server = server.start(
            ScriptedModel(list(turns)),
            session_tools=[self.tool, *tools],
            session_plugins=[guard],
            store=MemoryStore(),
            **options,
        )
        self.http = httpx.Client(base_url=server.base, timeout=10)

    def chat(self, session="main", message="go"):
        """Send a message, and come back when its cycle waits or has ended."""
        self.http.post("/chat", json={"message": message, "session_id": session}).raise_for_status()

    def status(self, session="main"):
        return self.http.get(f"/sessions/{session}").json()["status"]

    def asked(self, session="main"):
        return self.status(session)["approvals"]

    def post(self, path, said):
        return self.http.post(path, json=said)

    def jump(self, seconds):
        """Put the server's clock forward. It gives up connections that are idle for so long, so we begin a new one."""
        self.http.close()
        self.server.thread.jump(seconds)
        self.http = httpx.Client(base_url=self.server.base, timeout=10)

    def until(self, look):
        ends = time.monotonic() + PATIENCE_SECONDS
        while not (found := look()):
            assert time.monotonic() < ends
            time.sleep(0.1)  # calls of a caller are counted
        return found


@pytest.fixture
def desk(console_server):
    """Begin a desk, with a chat whose calls wait; its client is closed behind the test."""
    made = []

    def begin(*turns, chats=True, **options):
        made.append(Desk(console_server, *turns, **options))
        if chats:
            made[-1].chat()
        return made[-1]

    yield begin
    for one in made:
        one.http.close()


def on_session(pages, desk, session="main", **given):
    page = pages.open(desk.server.link(f"#/s/{session}"), **given)
    until(page, "() => document.querySelector('.feed .approval')")
    return page


def reviewing(pages, desk):
    """Open the page of a session, and the first of its cards."""
    page = on_session(pages, desk)
    review(page)
    return page


def review(page, at=0):
    """Open a card as a person does, and wait until its buttons take something."""
    page.locator(".feed .approval").nth(at).get_by_role("button", name="Review…").click()
    until(page, "(open) => document.querySelector(`${open} .approval-arguments`)", OPEN)
    ready(page)


def ready(page):
    """Wait until the half second is over in which buttons take nothing."""
    until(page, "(open) => !document.querySelector(`${open} [aria-disabled='true']`)", OPEN)


def press(page, name):
    ready(page)
    page.locator(OPEN).get_by_role("button", name=name, exact=True).click()


def switch_to_json(page):
    page.locator(OPEN).locator(".switch-part", has_text="JSON").click()


SHOWN = """() => {
  const shown = document.querySelector('.approval.open .approval-json').cloneNode(true);
  for (const spaces of shown.querySelectorAll('.many-spaces')) spaces.nextElementSibling.remove();
  for (const button of shown.querySelectorAll('button')) button.remove();
  return shown.textContent;
}"""


def shown_arguments(page):
    """All arguments as they stand on the screen, with what is not seen put back in place of its mark."""
    switch_to_json(page)
    more = page.locator(f"{OPEN} .approval-json button")
    while more.count():
        more.first.click()
    marks = re.compile(r"⟦U\+([0-9A-F]{4,6})⟧")
    return json.loads(marks.sub(lambda found: chr(int(found[1], 16)), page.evaluate(SHOWN)))


@pytest.mark.c(21)
def test_the_arguments_on_screen_hash_to_what_would_run(pages, desk):
    """60 KB, deep, with characters that are not seen, JSON in a text, numbers that no float holds: all of it is there."""
    deep = {"end": "\u202eevil\u200b"}
    for _ in range(50):
        deep = {"in": [deep]}
    wanted = [
        {"long": "aé\u2028" + "aé" * 20_000},
        deep,
        {
            "json": json.dumps({"a": ["\n", {"b": "\\"}]}),
            "spaces": "a" + " " * 60 + "b",
            "p\u0430y": "\ufeff",
        },
        {
            "big": [2**63 - 1, -(2**63), 10**20, 0.1, 1.0, 1e300, -0.0],
            "": None,
            "__proto__": {"constructor": 1},
        },
    ]
    kit = desk(calls(*(("record", one) for one in wanted)), says("done"))
    page = on_session(pages, kit)
    for at, one in enumerate(kit.asked()):
        review(page, at)
        told = page.locator(f"{OPEN} .approval-sub [title]").first.get_attribute("title")
        shown = shown_arguments(page)
        assert shown == wanted[at]
        assert hashlib.sha256(canonical_json(shown)).hexdigest() == one["arguments_hash"] == told
        shows(page, f"SHA-256 {told[:8]}…")
        said = page.inner_text(OPEN)
        assert ("invisible" in said) == (at < 3)
        assert ("More than 40 spaces" in said) == (at == 2)
        assert ("p\u0430y" in said and "mix look-alike letters" in said) == (at == 2)
        if at == 3:
            assert "9223372036854775807" in said
            assert "but not edit it here" in said
            assert page.locator(OPEN).get_by_role("button", name="Edit", exact=True).count() == 0
            press(page, ALLOW)
            kit.until(lambda: kit.tool.calls)
        else:
            page.locator(OPEN).get_by_role("button", name="Fold").click()
    assert kit.tool.calls == [wanted[3]]


@pytest.mark.c(22)
def test_edited_arguments_run_exactly_as_they_are_shown(pages, desk):
    """By the form and by JSON; what the tool does not take is named before it is sent, and by the server where only that knows."""
    count = {"type": "integer", "minimum": 1}
    properties = {"path": {"type": "string"}, "count": count, "rate": {"type": "number"}}
    named = {"required": ["path"], "propertyNames": {"maxLength": 8}}
    schema = {"type": "object", "properties": properties, **named}
    asked = {"path": "a.txt", "count": 3, "rate": 1.0}
    kit = desk(calls(("record", asked)), calls(("record", asked)), says("done"), schema=schema)
    page = reviewing(pages, kit)
    press(page, "Edit")
    ready(page)
    page.get_by_label("path").fill("b.txt")
    page.get_by_label("count").fill("0")
    shows(page, "$.count expected at least 1")
    allow = page.locator(OPEN).get_by_role("button", name="Allow with these changes")
    assert allow.is_disabled()
    page.get_by_label("count").fill("5")
    until(page, "() => !document.querySelector('.approval.open .button.primary').disabled")
    page.get_by_label("count").fill("1.")
    shows(page, "count is not JSON")
    assert allow.is_disabled()
    page.get_by_label("count").fill("12")
    until(page, "() => document.querySelectorAll('.approval.open .diff-added').length === 2")
    added = [line.strip() for line in page.locator(f"{OPEN} .diff-added .diff-text").all_inner_texts()]
    assert added == ['"path": "b.txt",', '"count": 12,']
    press(page, "Allow with these changes")
    ran = kit.until(lambda: kit.tool.calls)[0]
    assert (ran, type(ran["rate"])) == ({"path": "b.txt", "count": 12, "rate": 1.0}, float)
    kit.until(kit.asked)
    until(page, "() => document.querySelector('.feed .approval:not(.open)')")
    review(page)
    press(page, "Edit")
    switch_to_json(page)
    source = page.get_by_label("Arguments as JSON")
    for wrong, told in (
        ('{"path": "a" "count": 3}', "Line 1, column 14: a comma, or the end, is expected here"),
        ('{"path": "a", "path": "b"}', "duplicate name"),
        ('{"path": 9007199254740993}', "cannot represent that number exactly"),
        ('{"count": 1}', "$.path is required"),
    ):
        source.fill(wrong)
        shows(page, told)
        assert page.locator(OPEN).get_by_role("button", name="Allow with these changes").is_disabled()
    source.fill('{"path": "a", "much_too_long": 1}')
    press(page, "Allow with these changes")
    shows(page, "much_too_long")
    assert len(kit.tool.calls) == 1
    source.fill('{"rate": 1.0, "count": 3, "path": "a.txt"}')
    shows(page, "No changes: the call runs as requested.")
    sent = []
    page.on("websocket", lambda socket: socket.on("framesent", sent.append))
    press(page, ALLOW)
    kit.until(lambda: len(kit.tool.calls) == 2)
    assert kit.tool.calls[1] == asked


CARD = """async ([approval, session]) => {
  const base = new URL(".", document.baseURI).href;
  const from = (name) => import(new URL(name, base).href);
  const [{ h, render }, { ApprovalCard }, { Api }] = await Promise.all([from("ui.js"), from("parts/approval_card.js"), from("wire/api.js")]);
  const api = new Api(new URL("../", base).href, null);
  // A card that no event tells of what became of its call.
  const connection = { command: (name, id, fields) => api.post(`sessions/${id}/${name}`, fields) };
  const place = document.createElement("main");
  document.body.replaceChildren(place);
  render(h(ApprovalCard, { approval, session, api, connection }), place);
}"""


def alone(page, approval, session="main"):
    """Draw one card on a page that hears of nothing, and open it."""
    page.evaluate(CARD, [approval, session])
    page.get_by_role("button", name="Review…").click()
    until(page, "(open) => document.querySelector(`${open} .approval-actions`)", OPEN)


def nowhere(pages, desk, *expected):
    page = pages.open(desk.server.link("#/nowhere"), once="() => document.querySelector('#content')")
    pages.of(page).expects += expected
    return page


@pytest.mark.c(23)
def test_who_comes_too_late_is_told_who_decided_how_and_when(pages, desk):
    """Another tab allowed it, or denied it, or its time ran out before the button was pressed: a sentence each, and nothing runs twice."""
    wanted = calls(*(("record", {"n": n}) for n in (1, 2, 3)))
    guard = (HumanApproval, {"require_approval_for": ["*"], "timeout_seconds": 25})
    kit = desk(wanted, says("done"), guard=guard)
    allowed, denied, expired = kit.asked()
    page = nowhere(pages, kit, "409", "410")
    for asked, how, told in (
        (allowed, "approve", "Already allowed at "),
        (denied, "reject", "Already denied at "),
        (expired, None, "The approval expired at "),
    ):
        alone(page, asked)
        if how is None:
            kit.jump(25)
            kit.until(lambda: not kit.asked())
        else:
            kit.post(f"/sessions/main/{how}", {"approval_id": asked["id"]}).raise_for_status()
        press(page, ALLOW)
        shows(page, told)
    assert kit.tool.calls == [{"n": 1}]


class Travel(HostPlugin):
    name = "travel"

    async def on_before_tool_call(self, event: BeforeToolCall) -> Allow:
        return Allow({"to": "Porto"}) if event.input["to"] == "Faro" else Allow()


@nightly
@pytest.mark.c(23)
def test_arguments_that_a_plugin_rewrites_behind_an_edit_are_shown_and_asked_again(pages, desk):
    """Another tab wrote Faro, and a plugin makes Porto of that: the tab that showed Lisbon is told what changed, and nothing runs until Porto is allowed, and then once."""
    kit = desk(calls(("record", {"to": "Lisbon"})), says("done"), plugins=[Travel()])
    (first,) = kit.asked()
    late = nowhere(pages, kit, "409")
    alone(late, first)
    here = on_session(pages, kit)
    review(here)
    press(here, "Edit")
    switch_to_json(here)
    here.get_by_label("Arguments as JSON").fill('{"to": "Faro"}')
    press(here, "Allow with these changes")
    (second,) = kit.until(lambda: [one for one in kit.asked() if one["id"] != first["id"]])
    assert (second["arguments"], kit.tool.calls) == ({"to": "Porto"}, [])
    until(here, "(id) => document.querySelector(`.feed [data-key='approval:${id}'] .approval`)", second["id"])
    assert here.locator(".own-draft").count() == 0  # what it wrote was taken, and is no draft any more
    review(here)
    shows(here, "travel changed what you wrote")
    press(late, ALLOW)
    shows(late, "The arguments have changed since they were shown. Nothing ran.")
    assert late.locator(f"{OPEN} .approval-changed .diff-removed").inner_text().endswith('"to": "Lisbon"')
    assert late.locator(f"{OPEN} .approval-changed .diff-added").inner_text().endswith('"to": "Porto"')
    assert kit.tool.calls == []
    press(late, ALLOW)
    shows(late, "You allowed this call.")
    kit.until(lambda: kit.status()["phase"] == "idle")
    until(here, "() => !document.querySelector('.feed .approval')")
    assert kit.tool.calls == [{"to": "Porto"}]


@nightly
@pytest.mark.c(23)
@pytest.mark.parametrize("hears", [True, False])
def test_what_the_user_wrote_can_be_copied_where_somebody_else_has_decided(pages, desk, hears):
    """15.10: the card becomes that decision, with who, when and how; edited arguments are still there. On the page that hears of it, and on a card that does not."""
    kit = desk(calls(("record", {"to": "Lisbon"})), says("done"))
    (asked,) = kit.asked()
    if hears:
        page = reviewing(pages, kit)
    else:
        page = nowhere(pages, kit, "409")
        alone(page, asked)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    press(page, "Edit")
    switch_to_json(page)
    wrote = '{"to": "Faro", "why": "\u202esun"}'
    page.get_by_label("Arguments as JSON").fill(wrote)
    kit.post("/sessions/main/reject", {"approval_id": asked["id"]}).raise_for_status()
    if hears:
        until(page, "() => !document.querySelector('.feed .approval')")
        line = page.locator(".feed .item-notice", has_text="Approval of record")
        assert re.search(r"denied.*by .*\d\d:\d\d", line.inner_text().replace("\n", " "), re.IGNORECASE)
        page.locator(".decided-head[aria-expanded=true]").wait_for()
        assert '{"to": "Faro", ' in page.locator(".decided-body .approval-value").inner_text()
    else:
        press(page, "Allow with these changes")
        shows(page, "Already denied at ")
    page.get_by_role("button", name="Copy the edited arguments").click()
    assert until(page, "() => navigator.clipboard.readText()") == wrote
    assert kit.tool.calls == []


@pytest.mark.c(23)
def test_only_arguments_that_were_shown_are_allowed(pages, desk):
    """A server, or what stands between, shows others than those of its hash: nothing can be allowed. The server has another hash: what changed is shown, and asked again."""
    kit = desk(calls(("record", {"to": "Faro"})), says("done"))
    (asked,) = kit.asked()
    page = nowhere(pages, kit, "409")
    page.route(
        "**/approvals/**",
        lambda route: route.fulfill(json={**route.fetch().json(), "arguments_text": '{"to":"Lagos"}'}),
    )
    alone(page, asked)
    shows(page, "The call has changed since it was shown")
    ready(page)  # until then all of them look as if they took nothing
    for name in (ALLOW, "Always…"):
        assert page.locator(OPEN).get_by_role("button", name=name).is_disabled()
    page.unroute("**/approvals/**")

    def other(route):
        text = '{"to":"Porto"}'
        told = {"arguments": {"to": "Porto"}, "arguments_text": text}
        told["arguments_hash"] = hashlib.sha256(text.encode()).hexdigest()
        route.fulfill(json=route.fetch().json() | told)

    page.route("**/approvals/**", other)
    alone(page, asked)
    page.unroute("**/approvals/**")
    press(page, ALLOW)
    shows(page, "The arguments have changed since they were shown. Nothing ran.")
    assert page.locator(f"{OPEN} .approval-changed .diff-removed").inner_text().endswith('"to": "Porto"')
    assert page.locator(f"{OPEN} .approval-changed .diff-added").inner_text().endswith('"to": "Faro"')
    assert kit.tool.calls == []
    press(page, ALLOW)
    shows(page, "You allowed this call.")
    kit.until(lambda: kit.tool.calls == [{"to": "Faro"}])


@pytest.mark.c(24)
def test_always_says_what_it_allows_before_the_click_and_can_be_revoked(pages, desk):
    """Tool, family and reach; the rule is listed, it lets the next call run, it is revoked, and the one behind asks."""
    schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    one = calls(("shell", {"command": "git status -s"}))
    turns = (one, one, says("first"), one, says("second"), one, says("third"))
    kit = desk(*turns, schema=schema, name="shell")
    kit.post("/sessions/main/approve", {"approval_id": kit.asked()[0]["id"]}).raise_for_status()
    kit.until(kit.asked)
    page = reviewing(pages, kit)
    press(page, "Always…")
    told = page.inner_text(f"{OPEN} .approval-always")
    assert "shell: exactly this command: “git status -s”" in told
    assert "In this session only. Its sub-agents ask separately." in told
    assert page.locator(f"{OPEN} .approval-allowed li").all_inner_texts() == ["git status -s"]
    assert kit.http.get("/sessions/main/rules").json()["rules"] == []
    assert not axe_faults(page)
    press(page, "Allow, now and from now on")
    kit.until(lambda: len(kit.tool.calls) == 2)
    until(page, "() => document.querySelector('.rule-row')")
    assert "exactly this command: “git status -s”" in page.inner_text(".rules")
    kit.until(lambda: kit.status()["phase"] == "idle")
    kit.chat()
    assert [call["command"] for call in kit.tool.calls] == ["git status -s"] * 3
    page.get_by_role("button", name="Revoke: shell: exactly this command: “git status -s”").click()
    shows(page, "Revoked. The next matching call asks.", "No rules. Each call that needs an approval asks")
    kit.chat()
    assert [one["arguments"]["command"] for one in kit.asked()] == ["git status -s"]
    assert len(kit.tool.calls) == 3


@pytest.mark.c(26)
def test_keys_typed_before_a_card_opened_decide_nothing(pages, desk):
    """Enter held down, keys typed into what was there, and a second click in the same place; then the person decides by keyboard alone."""
    kit = desk(calls(("record", {"n": 1}), ("record", {"n": 2})), says("done"))
    page = on_session(pages, kit)
    # Time stands still for the page, so that the half second is not over by the time a slow machine has pressed all keys.
    page.evaluate(
        "() => { const real = performance.now.bind(performance), at = real(); performance.now = () => globalThis.__goes ? real() : at; }"
    )
    page.locator(".feed .approval").first.get_by_role("button", name="Review…").focus()
    for _ in range(12):
        page.keyboard.down("Enter")  # the first one opens; what follows is a key held down
    until(page, "(open) => document.querySelector(`${open} .approval-actions`)", OPEN)
    allow = page.locator(OPEN).get_by_role("button", name=ALLOW, exact=True)
    allow.focus()
    page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    page.keyboard.press("Enter")
    page.keyboard.press(" ")
    allow.click(force=True)
    allow.dblclick(force=True)
    page.evaluate("() => { globalThis.__goes = true; }")
    assert (kit.tool.calls, len(kit.asked())) == ([], 2)
    ready(page)
    page.locator(f"{OPEN} .approval-title").focus()
    page.keyboard.down("Enter")  # held from here on, also when the focus comes to the button
    allow.focus()
    for _ in range(20):
        page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    assert (kit.tool.calls, len(kit.asked())) == ([], 2)
    assert page.locator(OPEN).count() == 1
    page.keyboard.press("Enter")
    kit.until(lambda: kit.tool.calls == [{"n": 1}])
    # Where the first card was stands the next one by now, closed: what is pressed again decides nothing.
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    until(page, "() => document.querySelectorAll('.feed .approval').length === 1")
    assert (kit.tool.calls, len(kit.asked())) == ([{"n": 1}], 1)


@nightly
def test_several_calls_are_decided_one_at_a_time(pages, desk):
    """One card is open at most; ways lead to those beside it, and behind a decision to the next. No button is for all of them."""
    kit = desk(calls(*(("record", {"n": n}) for n in (1, 2, 3))), says("done"))
    page = on_session(pages, kit)
    until(page, "() => document.querySelectorAll('.feed .approval').length === 3")
    assert page.locator(".feed .approval .badge.number").all_inner_texts() == ["1 of 3", "2 of 3", "3 of 3"]
    review(page, 2)
    assert page.locator(OPEN).get_by_role("button", name="Next request").is_disabled()
    page.locator(OPEN).get_by_role("button", name="Previous request").click()
    until(page, PLACE, [OPEN, "2 of 3"])
    assert page.locator(OPEN).count() == 1
    until(page, "(open) => document.activeElement.matches(`${open} .approval-title`)", OPEN)
    assert not axe_faults(page)
    press(page, ALLOW)
    kit.until(lambda: kit.tool.calls == [{"n": 2}])
    page.get_by_role("button", name="Next of 2 pending requests").click()
    until(page, PLACE, [OPEN, "1 files instead of 2"])
    press(page, ALLOW)
    kit.until(lambda: kit.tool.calls == [{"n": 2}, {"n": 1}])
    page.get_by_role("button", name="Review the last pending request").click()
    until(page, "(open) => document.querySelector(`${open} .approval-arguments`)", OPEN)
    assert page.locator(".approval-place, .feed .approval .badge.number").count() == 0
    assert [one["n"] for one in kit.tool.calls] == [2, 1]


@nightly
def test_what_is_decided_is_one_line_that_opens(pages, desk):
    """Who, how and when on the line; behind it what was asked and why. The focus goes on where the card was."""
    kit = desk(calls(("record", {"to": "Faro"})), says("done"))
    page = reviewing(pages, kit)
    press(page, ALLOW)
    head = page.locator(".feed .decided-head")
    head.wait_for()
    assert " ".join(head.inner_text().split()) == "▸ Approval of record Faro Allowed by local"
    assert page.locator(".feed .item-decided time").count() == 1
    until(page, "() => document.activeElement.classList.contains('decided-head')")
    assert head.get_attribute("aria-expanded") == "false"
    page.keyboard.press("Enter")
    until(page, "() => document.querySelector('.decided-body')")
    told = page.inner_text(".decided-body")
    assert "Reason for the approval: each call needs an approval" in told
    assert '"to": "Faro"' in told
    assert re.search(r"Requested at \S+( [AP]M)?, decided at \S+( [AP]M)?, .+ later\.", told)
    assert not axe_faults(page)
    kit.until(lambda: kit.tool.calls)
    reload(page, once="() => document.querySelector('.decided-head[aria-expanded=true]')")


@pytest.mark.c(9)
def test_each_card_decides_in_its_own_session(pages, desk):
    """Three sessions, opened in turn while approvals arrive in all: the journals say which call each decision was of."""
    names = ("one", "two", "three")
    turns = [calls(("record", {"of": name})) for name in names] + [says("done")] * 3
    kit = desk(*turns, chats=False)
    for name in names:
        kit.chat(name)
    wanted = {name: kit.asked(name)[0] for name in names}
    page = on_session(pages, kit, "one")
    review(page)
    for name in ("two", "three", "one"):
        page.evaluate("(name) => { location.hash = `#/s/${name}`; }", name)
        until(page, "(name) => document.querySelector('.session') && location.hash.endsWith(name)", name)
        own = wanted[name]["arguments"]["of"]
        page.locator(f".feed [data-key='approval:{wanted[name]['id']}'] .approval").wait_for()
        shows(page, "Start of the session.")  # what comes in front may move a card from under the pointer
        assert page.locator(OPEN).count() == 0
        review(page)
        assert own in page.inner_text(OPEN)
        press(page, ALLOW)
        kit.until(lambda own=own: {"of": own} in kit.tool.calls)
    assert [one["of"] for one in kit.tool.calls] == ["two", "three", "one"]
    for name in names:
        kit.until(lambda name=name: kit.status(name)["phase"] == "idle")
        entries = kit.http.get(f"/inspect/sessions/{name}/trace?limit=1000").json()["entries"]
        decided = [one["body"]["approval_id"] for one in entries if one["kind"] == "approve"]
        assert decided == [wanted[name]["id"]]


@pytest.mark.c(17)
def test_a_fork_and_a_rewind_tell_what_stays_done_outside(pages, desk):
    """The model is switched, a fork is begun at a message and opens, and a rewind with a `once` call behind it lists that call first."""
    turns = (says("Hello"), calls(("record", {"order": 4411})), says("Paid"), says("more"))
    kit = desk(*turns, chats=False)
    kit.chat(message="First")
    kit.chat(message="Pay it")
    kit.post("/sessions/main/approve", {"approval_id": kit.asked()[0]["id"]}).raise_for_status()
    kit.until(lambda: kit.status()["phase"] == "idle")
    page = pages.open(kit.server.link("#/s/main"), showing="Paid")
    answer = page.locator(".feed [data-key]", has_text="Hello").first
    answer.click()  # its tools stay; those of a row that one points at go when the rows move
    answer.get_by_role("button", name="Fork here").click()
    dialog = page.locator("dialog[open]")
    shows(page, "One call is not undone:")
    assert '{"order":4411}' in dialog.inner_text()
    assert "runs once" in dialog.inner_text()
    assert not axe_faults(page)
    until(page, "() => !document.querySelector('dialog[open] [aria-disabled=true]')")
    dialog.get_by_role("button", name="Fork", exact=True).click()
    until(page, "() => /#.s.(?!main)/.test(location.hash)")
    fork = page.evaluate("() => location.hash.slice(4)")
    shows(page, "Hello")
    said = [
        block["text"]
        for one in kit.http.get(f"/sessions/{fork}/messages").json()["messages"]
        for block in one["content"]
    ]
    assert said == ["First", "Hello"]
    page.evaluate("() => { location.hash = '#/s/main'; }")
    shows(page, "Paid")
    answer.click()
    answer.get_by_role("button", name="Rewind to here").click()
    shows(page, "One call is not undone:")
    assert len(kit.http.get("/sessions/main/messages").json()["messages"]) == 6
    until(page, "() => !document.querySelector('dialog[open] [aria-disabled=true]')")
    dialog.get_by_role("button", name="Rewind", exact=True).click()
    shows(page, "The session was rewound.")
    assert len(kit.http.get("/sessions/main/messages").json()["messages"]) == 2
    dialog.get_by_role("button", name="Close").last.click()
    until(page, "() => !document.querySelector('dialog[open]') && !document.body.innerText.includes('Paid')")


@nightly
def test_a_question_is_answered_by_an_option_by_words_or_by_a_form(pages, scripted_server):
    """Three cards: what is sent is what was chosen, written or filled in; a no is a no."""
    days, how = {"type": "integer", "minimum": 1}, {"type": "string", "enum": ["air", "sea"]}
    via = {
        "type": "array",
        "items": {"anyOf": [{"const": "x", "title": "Cairo"}, {"const": "y", "title": "Oslo"}]},
    }
    properties = {"days": days, "express": {"type": "boolean"}, "how": how, "via": via, "not": via}
    form = {"type": "object", "properties": properties, "required": ["days"]}
    asked = {
        "option": {"ref": "s/a1", "question": "Which account?", "options": ["Main", "Savings"]},
        "words": {"ref": "s/a2", "question": "Why?", "options": []},
        "form": {"ref": "s/a3", "question": "Details?", "schema": form},
        "no": {"ref": "s/a4", "question": "Tell me a secret"},
    }
    page = pages.open(scripted_server.link("#/nowhere"), once="() => document.querySelector('#content')")
    page.evaluate(
        """async (asked) => {
          const base = new URL(".", document.baseURI).href;
          const from = (name) => import(new URL(name, base).href);
          const [{ h, render }, { QuestionCard }] = await Promise.all([from("ui.js"), from("parts/question_card.js")]);
          globalThis.sent = [];
          const connection = { command: async (...said) => { globalThis.sent.push(said); } };
          const place = document.createElement("main");
          document.body.replaceChildren(place);
          render(h("div", null, Object.entries(asked).map(([id, question]) => h("div", { id }, h(QuestionCard, { question, session: "s", connection })))), place);
        }""",
        asked,
    )
    until(page, "() => document.querySelectorAll('.question').length === 4")
    assert not axe_faults(
        page, allowed=("page-has-heading-one", "region", "heading-order", "landmark-one-main")
    )
    page.wait_for_timeout(550)
    page.locator("#option").get_by_label("Savings").check()
    page.locator("#option").get_by_role("button", name="Answer").click()
    assert page.locator("#words").get_by_role("button", name="Answer").is_disabled()
    page.locator("#words textarea").fill("Because.")
    page.locator("#words").get_by_role("button", name="Answer").click()
    form = page.locator("#form")
    form.get_by_label("days").fill("0")
    assert form.get_by_role("button", name="Answer").is_disabled()
    form.get_by_label("days").fill("3")
    form.get_by_label("how").select_option("sea")
    form.get_by_label("via").select_option(label=["Cairo", "Oslo"])
    form.get_by_role("button", name="Answer").click()
    page.locator("#no").get_by_role("button", name="Decline").click()
    until(page, "() => globalThis.sent.length === 4")
    assert page.evaluate("() => globalThis.sent") == [
        ["respond", "s", {"ref": "s/a1", "response": 1}],
        ["respond", "s", {"ref": "s/a2", "response": "Because."}],
        [
            "respond",
            "s",
            {"ref": "s/a3", "response": {"days": 3, "express": False, "how": "sea", "via": ["x", "y"]}},
        ],
        ["decline", "s", {"ref": "s/a4"}],
    ]
    assert page.locator(".question .approval-actions").count() == 0


def test_the_card_fits_a_phone_in_the_pseudo_locale_and_has_no_faults(pages, desk):
    """360 px: nothing scrolls sideways; axe finds nothing in any of its steps, light and dark."""
    kit = desk(calls(("record", {"name": "x" * 300, "list": [1, 2, {"a": "b" * 200}]})), says("done"))
    page = on_session(pages, kit, width=360, height=800)
    review(page)
    for dark in (False, True):
        page.emulate_media(color_scheme="dark" if dark else "light")
        for step in ("Edit", "Discard the changes", "Always…", "Back", "Deny…", "Back"):
            press(page, step)
            assert page.evaluate("() => document.documentElement.scrollWidth") <= 360, step
            if step == "Edit" or (step in {"Always…", "Deny…"} and not dark):
                assert not axe_faults(page), step
    page = pages.open(kit.server.link("#/s/main", query="?pseudo"), width=360, height=800)
    until(page, "() => document.querySelector('.feed .approval')")
    page.locator(".feed .approval button").first.click()
    until(page, "(open) => document.querySelector(`${open} .approval-actions`)", OPEN)
    is_quiet(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
