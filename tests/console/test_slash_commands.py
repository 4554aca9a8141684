"""Slash commands in the composer: those that `GET /commands` lists, run there, and what they tell (12.10, G-021)."""

import pytest

from agentrail.commands import CommandAnswer, CommandDesk, CommandRegistry, SlashCommand
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, says
from tests.console.browsing import shows, until
from tests.console.test_session_live import FIELD, post
from tests.host.hosting import profile

pytestmark = pytest.mark.check

OFFERED = (
    "() => [...document.querySelectorAll('.slash-list code')].map((one) => one.innerText.slice(1).trim())"
)


@pytest.mark.blueprint("G-021")
def test_the_composer_offers_what_the_server_lists_and_runs_it(pages, console_server):
    """By the beginning of a name; what a command tells is shown, what it says is sent, and other words go as they are."""

    async def greet(call):
        return CommandAnswer(prompt=f"Say hello to {call.text}.")

    mine = SlashCommand(
        name="greet",
        description="Says hello.",
        arguments="name",
        run=greet,
        in_history=True,
        source="project",
    )
    registry = CommandRegistry().with_commands(mine)
    model = ScriptedModel([says("First."), says("Hello Ada."), says("A path.")])
    console_server.start(profiles=[profile(model)], store=MemoryStore(), commands=registry)
    post(console_server, "chat", {"message": "Hi", "session_id": "main"})
    page = pages.open(console_server.link("#/s/main"), showing="First.")
    page.fill(FIELD, "/st")
    assert until(page, "() => document.querySelectorAll('.slash-list li').length === 2")
    assert page.evaluate(OFFERED) == ["status", "steer words"]
    assert page.locator(".slash-row").nth(1).is_disabled()
    page.locator(".slash-row").first.click()
    assert page.input_value(FIELD) == "/status"
    page.press(FIELD, "Enter")
    told = until(page, "() => document.querySelector('.slash-told pre')?.innerText")
    assert told.startswith("idle · ")
    page.fill(FIELD, "/greet Ada")
    page.press(FIELD, "Enter")
    shows(page, "Hello Ada.")
    page.fill(FIELD, "/etc/hosts is wrong")
    page.press(FIELD, "Enter")
    shows(page, "A path.")
    assert "/etc/hosts is wrong" in page.inner_text(".feed")
    listed = [row.name for row in registry.rows(CommandDesk())]
    seen = set()
    for letter in sorted({name[0] for name in listed}):
        page.fill(FIELD, f"/{letter}")
        shows(page, f"/{letter}")
        page.locator(".slash-list code", has_text=f"/{letter}").first.wait_for()
        seen |= {one.split()[0] for one in page.evaluate(OFFERED)}
    assert seen == set(listed)
