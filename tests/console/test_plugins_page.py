"""The page *Plugins* and the panel of a session in a browser: what failed or is stuck stands first, and what each hook takes."""

import time

import pytest
import trio

from agentrail.gateway.authorization import ANYONE_HERE as LOCAL
from agentrail.host import HostPlugin, RequestContext
from agentrail.plugins import Action, BeforePrompt, Context, Continue, Plugin, on
from tests.console.browsing import SIDEWAYS, axe_faults, in_each_look, reload, shows, until
from tests.console.rows import plugin_row
from tests.host.hosting import answering, profile, say
from tests.thinned import nightly

pytestmark = pytest.mark.check

SECTIONS = "() => [...document.querySelectorAll('.plugins-page section')].map((one) => one.innerText)"


class Nursing(HostPlugin):
    """Does not come back, and holds on."""

    name = "nursing"
    version = "1.0"
    timeouts = {"on_request_start": 0.05}  # noqa: RUF012 - as a plugin author writes it

    def __init__(self) -> None:
        self.done = trio.Event()

    async def on_request_start(self, ctx: RequestContext) -> None:
        with trio.CancelScope(shield=True):
            await self.done.wait()


class Clumsy(Plugin[int]):
    on_error = "open"

    def init(self) -> int:
        return 0

    @on(BeforePrompt)
    def look(self, event: BeforePrompt, state: int, ctx: Context) -> Action[int]:
        if "stumble" in event.text:
            message = "the rug <img src=x onerror=alert(1)>"
            raise ValueError(message)
        return Continue(state)


@pytest.mark.c(33)
def test_what_is_stuck_and_what_failed_stand_on_top(pages, console_server):
    """Live: the stuck hook first, then the plugin of a session that failed, with what it failed with; and no more when it came back."""
    nursing = Nursing()
    desk = profile(answering("a", "b"), plugins=[Clumsy])
    console_server.start(profiles=[desk], plugins=[nursing])
    page = pages.open(console_server.link("#/plugins"), showing="No plugin failed or is stuck.")

    async def ask():
        await console_server.host.submit(say("stumble", by=LOCAL, session_id="s-1"), LOCAL)

    console_server.run(ask)
    until(page, "() => document.querySelectorAll('.trouble li').length === 2")
    first, second = page.locator(".trouble li").all_inner_texts()
    assert all(words in first for words in ("nursing", "on_request_start has not returned for 0:0"))
    assert all(words in second for words in ("Clumsy", "the rug <img src=x onerror=alert(1)>"))
    top, host, session = page.evaluate(SECTIONS)
    assert ("nursing" in host, "Clumsy" in host) == (True, False)
    assert all(words in session for words in ("Clumsy", "in 1 session", "BeforePrompt"))
    assert top.startswith("Failed or stuck")

    async def let_go():
        nursing.done.set()

    console_server.run(let_go)
    until(
        page,
        "() => !document.querySelector('.plugins-page').innerText.includes('stuck') || !document.querySelector('.trouble').innerText.includes('has not returned')",
    )
    assert "failed once" in page.evaluate(SECTIONS)[0]


@nightly
def test_its_states_say_what_is_missing(pages, scripted_server):
    """No plugins, an older server, and one of each kind that have the same name."""
    page = pages.open(scripted_server.link("#/plugins"), showing="The host has no plugins.")
    shows(page, "No session has used a plugin since the server started.")
    scripted_server.rows["plugins"] = [plugin_row("audit"), plugin_row("audit", "session")]
    reload(page, once="() => document.querySelectorAll('.plugin-card').length === 2")
    said = page.evaluate(SECTIONS)[1]
    for words in ("12,345", "12 µs", "13 ms", "1. audit 1.0"):
        assert words in said
    scripted_server.info["features"] = ["watch"]
    reload(page, showing="Plugins needs a newer server")


@nightly
@pytest.mark.c(36)
def test_axe_finds_nothing_and_nothing_scrolls_sideways(pages, scripted_server):
    """With long names and long errors."""
    now = int(time.time() * 1000)
    failure = {"hook": "on_request_start", "words": "ValueError: " + "x" * 280, "at_ms": now - 5_000}
    long_name = "a-plugin-with-a-name-that-is-too-long-for-its-card-and-more"
    scripted_server.rows["plugins"] = [
        plugin_row(long_name, failures=12, last_failure=failure),
        plugin_row("stuck", order=2, stuck_hook="on_request_start", stuck_at_ms=now - 61_000),
        plugin_row("AnotherOne", "session"),
    ]
    page = pages.open(scripted_server.link("#/plugins"), showing="has not returned for 1:0")
    for _ in in_each_look(page):
        assert page.evaluate(SIDEWAYS) <= 0
        assert axe_faults(page) == []


@pytest.mark.c(34)
def test_the_panel_of_a_session_tells_what_its_plugins_did(pages, console_server):
    """In their order, with the notices that lead to the conversation; over all sessions for who may inspect."""
    desk = profile(answering("a", "b"), plugins=[Clumsy])
    console_server.start(profiles=[desk])

    async def ask():
        request = await console_server.host.submit(say("stumble", by=LOCAL, session_id="s-1"), LOCAL)
        await request.outcome()

    console_server.run(ask)
    page = pages.open(console_server.link("#/s/s-1"), width=1440)
    page.get_by_role("tab", name="Plugins").click()
    shows(page, "Plugins")
    until(page, "() => document.querySelector('.one-plugin')?.innerText.includes('failed once')")
    until(page, "() => document.querySelector('.over-all')?.innerText.includes('BeforePrompt')")
    assert axe_faults(page) == []
