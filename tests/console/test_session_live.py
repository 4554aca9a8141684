"""The page of a session against a real gateway: prompt, stream, approve, abort, receipt; steer and queue; another model, a fork, a way back."""

import json
import urllib.request

import pytest
import trio
from attrs import define, field

from agentrail.abc import Ok
from agentrail.plugins import HumanApproval
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, Turn, calls, says
from agentrail.testing.tools import HangingTool, RecordingTool
from tests.console.browsing import reload, shows, until
from tests.thinned import nightly

pytestmark = pytest.mark.check

FIELD = "textarea.composer-field"


@define(eq=False)
class HeldModel:
    """A model that says what a test gives it, when the test gives it.

    Attributes:
        model: What a profile is given.
    """

    _given: list[Turn] = field(factory=list)
    _came: trio.Event = field(factory=trio.Event)
    model: FunctionModel = field(init=False)

    def __attrs_post_init__(self):
        self.model = FunctionModel(self._next)

    async def _next(self, _request):
        while not self._given:
            await self._came.wait()
        return self._given.pop(0)

    def give(self, server, *turns):
        """Let it say these, one for each request."""

        def give():
            self._given.extend(turns)
            self._came.set()
            self._came = trio.Event()

        server.thread.call(give)


def post(server, path, body):
    """Call a route, and give what it answers."""
    asked = urllib.request.Request(  # noqa: S310 - our own server
        f"{server.base}/{path}", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310 - our own server
        return json.loads(answer.read())


def active(page):
    """Give the words of what has the focus."""
    return page.evaluate(
        "() => document.activeElement.innerText || document.activeElement.getAttribute('aria-label') || ''"
    )


def tab_to(page, words, *, most=40):
    for _ in range(most):
        page.keyboard.press("Tab")
        if active(page).startswith(words):
            return
    message = f"no control that begins with {words!r} takes the focus; last was {active(page)!r}"
    raise AssertionError(message)


def served(server, model, **options):
    """Begin a gateway whose one session may call a tool that asks, and one that hangs."""
    tools = [RecordingTool(name="shell"), HangingTool(name="deploy")]
    plugins = [(HumanApproval, {"require_approval_for": ["shell"]})]
    server.start(model.model, session_tools=tools, session_plugins=plugins, **options)
    post(server, "sessions", {"session_id": "main"})


def streams(page, server, model):
    """Watch text arrive, up to the call that waits for a person."""
    model.give(
        server,
        Turn(text=("I look ", "at it ", "first."), calls=calls(("shell", {"command": "make all"})).calls),
    )
    shows(page, "I look at it first.")
    until(page, "() => document.querySelector('.item-decision')")
    shows(page, "Waiting for you")


def aborts(page, server, model):
    """Let the next call begin that has to be aborted."""
    model.give(server, calls(("deploy", {"path": "site"})))
    until(page, "() => document.querySelector('.call-running .call-name')?.innerText === 'deploy'")


def receipt_of(page):
    """Wait for the receipt, and give its words."""
    return page.locator(".item-receipt", has_text="Outcome unknown").inner_text()


@pytest.mark.c(11)
@pytest.mark.host("H-089")
def test_a_cycle_by_keyboard_alone(pages, console_server):
    """H-089: prompt, watch text arrive, approve a call, abort another, see the receipt, without a mouse."""
    model = HeldModel()
    served(console_server, model)
    page = pages.open(console_server.link("#/s/main"), showing="No messages yet.")
    page.keyboard.press("i")
    page.keyboard.type("Make it.")
    page.keyboard.press("Enter")
    until(page, "() => document.querySelector('.prompt .words')?.innerText === 'Make it.'")
    streams(page, console_server, model)
    page.keyboard.press("Escape")
    page.locator("body").press("Tab")  # out of the composer: single letters are dead in fields
    page.keyboard.press("w")
    until(page, "() => document.activeElement.dataset?.key?.startsWith('approval:')")
    tab_to(page, "Review")
    page.keyboard.press("Enter")
    shows(page, "make all")
    page.wait_for_timeout(600)  # the guard of 500 ms, which is the thing itself
    tab_to(page, "Allow once")
    page.keyboard.press("Enter")
    shows(page, "Approval of shell")
    aborts(page, console_server, model)
    page.keyboard.press("Control+.")
    page.get_by_role("dialog", name="Abort?").wait_for()
    tab_to(page, "Abort anyway")
    page.keyboard.press("Enter")
    told = receipt_of(page)
    assert "deploy" in told
    assert "site" in told
    shows(page, "Idle")


@nightly
@pytest.mark.c(11)
@pytest.mark.host("H-089")
def test_a_cycle_with_the_finger_on_a_phone(pages, console_server):
    """The same on 360 px; nothing scrolls sideways, and the composer takes at most two fifths of the height."""
    model = HeldModel()
    served(console_server, model)
    page = pages.open(console_server.link("#/s/main"), width=360, height=740, has_touch=True)
    shows(page, "No messages yet.")
    page.locator(FIELD).fill("Make it.\n" * 40)
    assert page.locator(".composer").bounding_box()["height"] <= 0.41 * 740
    page.locator(FIELD).fill("Make it.")
    page.get_by_role("button", name="Send").tap()
    streams(page, console_server, model)
    page.locator(".item-decision").get_by_role("button", name="Review").tap()
    page.wait_for_timeout(600)
    page.get_by_role("button", name="Allow once").tap()
    aborts(page, console_server, model)
    page.get_by_role("button", name="Abort").tap()
    page.get_by_role("button", name="Abort anyway").tap()
    assert "deploy" in receipt_of(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
    assert page.evaluate(
        "() => document.querySelector('.feed').scrollWidth <= document.querySelector('.feed').clientWidth"
    )


def test_an_abort_asks_only_when_something_runs_that_runs_once(pages, console_server):
    """A tool that may run again is stopped without a question; a question closes by itself when its calls have ended, and nothing is aborted."""
    model, held = HeldModel(), trio.Event()

    class HeldTool(HangingTool):
        async def execute(self, _arguments, _ctx):
            await held.wait()
            return Ok(text="published")

    tools = [
        HangingTool(name="look", effect_class="pure"),
        HangingTool(name="deploy"),
        HeldTool(name="publish"),
    ]
    console_server.start(model.model, session_tools=tools)
    post(console_server, "sessions", {"session_id": "main"})
    page = pages.open(console_server.link("#/s/main"), showing="No messages yet.")

    def begins(call):
        post(console_server, "sessions/main/prompt", {"message": f"Go, {call}."})
        model.give(console_server, calls((call, {"path": "site"})))
        until(page, f"() => document.querySelector('.call-running .call-name')?.innerText === '{call}'")
        page.keyboard.press("Control+.")

    for number, call in enumerate(("look", "deploy"), 1):
        begins(call)
        if call == "deploy":
            page.get_by_role("dialog", name="Abort?").wait_for()
            page.get_by_role("button", name="Abort anyway").click()
        until(page, f"() => document.querySelectorAll('.item-receipt').length === {number}")
        until(page, "() => !document.querySelector('.abort')")

    begins("publish")
    page.get_by_role("dialog", name="Abort?").wait_for()
    model.give(console_server, says("It is published."))
    console_server.thread.call(held.set)
    shows(page, "It is published.")
    until(page, "() => !document.querySelector('dialog')")
    assert page.locator(".item-receipt").count() == 2


@nightly
def test_long_words_are_shown_whole_after_a_reload(pages, console_server):
    """A page of events cuts a text of more than 16 KiB; the console fetches it, and never shows the mark of a cut."""
    model = HeldModel()
    console_server.start(model.model, store=MemoryStore())
    post(console_server, "sessions", {"session_id": "main"})
    paragraph = f"{'It is long. ' * 100}\n\n"
    model.give(console_server, says(f"{paragraph * 15}My last words."))
    post(console_server, "sessions/main/prompt", {"message": f"{'Read this. ' * 1_700}Your last words."})
    page = pages.open(console_server.link("#/s/main"), showing="Done")
    reload(page, showing="My last words.")
    assert "$cut" not in page.inner_text(".conversation")
    until(
        page,
        "() => { const feed = document.querySelector('.feed'); feed.scrollTop = 0; return feed.innerText.includes('Your last words.'); }",
    )
    assert "$cut" not in page.inner_text(".conversation")


@pytest.mark.c(12)
def test_while_it_works_enter_steers_and_alt_enter_queues(pages, console_server):
    """The button named it before; a queued prompt is removed; each receipt is shown."""
    model = HeldModel()
    served(console_server, model)
    page = pages.open(console_server.link("#/s/main"))
    send = page.locator(".composer-send")
    page.locator(FIELD).fill("First.")
    assert send.inner_text() == "Send"
    page.keyboard.press("Enter")
    until(page, "() => document.querySelector('.composer-send').innerText === 'Steer'")
    page.locator(FIELD).fill("Look left.")
    page.keyboard.press("Enter")
    shows(page, "Queued steers", "Look left.")
    page.locator(FIELD).fill("And then this.")
    page.keyboard.down("Alt")
    until(page, "() => document.querySelector('.composer-send').innerText === 'Queue'")
    page.keyboard.press("Enter")
    page.keyboard.up("Alt")
    page.get_by_role("button", name="Remove “And then this.” from the queue").click()
    until(page, "() => !document.querySelector('.now').innerText.includes('And then this.')")
    row = page.locator(".feed .prompt", has_text="And then this.")
    assert "removed from the queue" in row.inner_text()
    page.locator(FIELD).fill("One more.")
    page.keyboard.press("Alt+Enter")
    page.get_by_role(
        "button", name="Remove “One more.” from the queue"
    ).wait_for()  # shown earlier than it is queued
    page.locator(FIELD).focus()
    page.keyboard.press("ArrowUp")
    until(page, "() => document.querySelector('textarea.composer-field').value === 'One more.'")
    until(page, "() => !document.querySelector('.now').innerText.includes('One more.')")
    model.give(console_server, says("Left, it is."), says("Done with all."))
    shows(page, "Left, it is.")
    until(page, "() => document.querySelector('.prompt-steer')?.innerText.includes('Look left.')")
