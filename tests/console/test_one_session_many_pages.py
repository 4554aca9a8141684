"""One session on several pages, and a page whose connection is lost while a person writes: real server, real pages."""

import time

import pytest
import trio
import trio.lowlevel

from agentrail import tool
from agentrail.gateway.authorization import ANYONE_HERE
from agentrail.messages import UserMessage
from agentrail.plugins import HumanApproval
from agentrail.testing.models import ScriptedModel, calls, says
from tests.console.browsing import is_quiet, shows, until
from tests.console.serving import PATIENCE_SECONDS

pytestmark = pytest.mark.check

IDLE = "() => !document.querySelector('.abort, .loading') && document.querySelector('.composer-field')"
ITEMS = """
() => [...document.querySelectorAll('.feed [data-key]')].map((row) => [row.dataset.key, row.textContent.replace(/\\d+(\\.\\d+)? (ms|s|min)\\b|\\d+:\\d\\d/g, 'T')])
"""


@tool
async def build(target: str) -> str:
    """Build something, which takes long."""
    await trio.sleep(60)
    return f"built {target}"


@tool
async def look(path: str) -> str:
    """Look at something."""
    await trio.lowlevel.checkpoint()
    return f"{path} is empty"


async def begin(host, session_id):
    await host.create(ANYONE_HERE, session_id=session_id)


async def prompts_of(host, session_id):
    session = await host.session_to_read(session_id, ANYONE_HERE)
    return [message for message in await session.messages() if isinstance(message, UserMessage)]


@pytest.mark.c(4)
def test_a_prompt_sent_while_the_connection_is_lost_is_sent_once(pages, console_server):
    """After it is back; a second Enter sends nothing more, and meanwhile the page says that it is on its way."""
    console_server.start(ScriptedModel([says("Hello there.")]))
    console_server.run(begin, console_server.host, "s-1")
    page = pages.open(console_server.link("#/s/s-1"))
    pages.of(page).expects += ["ERR_INTERNET_DISCONNECTED", "WebSocket"]
    until(page, IDLE)
    is_quiet(page)
    page.context.set_offline(True)
    console_server.cut_sockets()
    until(page, "() => document.querySelector('.connection-button.lost')")
    page.locator(".composer-field").fill("Say hello.")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    shows(page, "Say hello.")
    assert page.locator(".composer-field").input_value() == ""
    page.wait_for_timeout(100)
    assert "Hello there." not in page.inner_text(".feed")
    page.context.set_offline(False)
    page.evaluate("() => { dispatchEvent(new Event('online')); }")
    shows(page, "Hello there.")
    console_server.cut_sockets()
    until(page, "() => document.querySelector('.connection-button.live')")
    is_quiet(page)
    assert page.inner_text(".feed").count("Say hello.") == 1
    assert len(console_server.run(prompts_of, console_server.host, "s-1")) == 1


@pytest.mark.c(46)
def test_two_tabs_and_a_phone_show_one_session_alike(pages, console_server):
    """For a cycle with steer, approval and abort: equal items in all three, whoever did it."""
    model = ScriptedModel(
        [
            calls(("look", {"path": "src"}), text="I look first."),
            calls(("build", {"target": "all"}), text="Now the build."),
            says("Never", " said.", pause_seconds=60.0),
        ]
    )
    console_server.start(
        model, session_tools=[look, build], session_plugins=[(HumanApproval, {"require_approval_for": ["*"]})]
    )
    console_server.run(begin, console_server.host, "s-1")
    one = pages.open(console_server.link("#/s/s-1"))
    two = pages.open_beside(one.context, console_server.link("#/s/s-1"))
    phone = pages.open(console_server.link("#/s/s-1"), width=360, height=740, has_touch=True, is_mobile=True)
    for page in (one, two, phone):
        until(page, IDLE)
    one.locator(".composer-field").fill("Build it.")
    one.keyboard.press("Enter")
    for page in (one, two, phone):
        until(page, "() => document.querySelector('.feed .item-decision')")
    approve(phone, "look")
    approve(two, "build")
    two.locator(".feed", has_text="build").wait_for()
    two.locator(".abort").wait_for()
    two.locator(".composer-field").fill("Only the tests.")
    two.keyboard.press("Enter")
    for page in (one, two, phone):
        shows(page, "Only the tests.")
        shows(page, "skipped")  # an abort that asks about a call which has ended since aborts nothing
    one.keyboard.press("Control+.")
    for page in (one, two, phone):
        shows(page, "2 calls")  # the line under the cycle
        until(page, IDLE)
    ends = time.monotonic() + PATIENCE_SECONDS
    while True:  # what they show last comes to each in its own time
        drawn = drawn_alike(one, two, phone)
        if drawn[0] == drawn[1] == drawn[2] or time.monotonic() > ends:
            break
        is_quiet(one)
    assert drawn[0] == drawn[1] == drawn[2]
    assert len(drawn[0]) >= 8
    assert not any("Stopping" in text for _, text in drawn[0])


def drawn_alike(*pages):
    """The rows of each page that all of them draw: of a long list a phone has fewer, as a page draws what is near its window."""
    items = [page.evaluate(ITEMS) for page in pages]
    everywhere = set.intersection(*({key for key, _ in rows} for rows in items))
    return [[row for row in rows if row[0] in everywhere] for rows in items]


def approve(page, tool):
    """Allow the call of a tool that waits on a page."""
    card = page.locator(".feed .approval", has_text=tool).last
    card.get_by_role("button", name="Review").click()
    button = card.get_by_role("button", name="Allow once")
    button.wait_for()
    page.wait_for_timeout(550)  # the card takes no key and no click for its first half second
    button.click()
