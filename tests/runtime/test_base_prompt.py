"""What a session tells its model where its caller tells it nothing, and who is not told it."""

import pytest

from agentrail.errors import OptionError
from agentrail.runtime.agent import Agent
from agentrail.runtime.base_prompt import BASE_PROMPT
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.tools import builtin
from tests.runtime.rig import on_virtual_time


async def system_of(supervisor, **options) -> str | None:
    """Ask a session once, and give the system prompt that its model was sent."""
    model = ScriptedModel([says("Hello.")])
    session = await supervisor.start_session(model=model, **options)
    await session.ask("Hi")
    return model.requests[0].system


@on_virtual_time
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, BASE_PROMPT),
        ({"prompt_mode": "full", "base_prompt": True}, BASE_PROMPT),
        ({"base_prompt": False}, None),
        ({"prompt_mode": "task"}, None),
        ({"prompt_mode": "minimal"}, "Tools: none"),
        ({"prompt_mode": "none"}, None),
        ({"system_prompt": "You look."}, "You look."),
    ],
    ids=str,
)
async def test_who_is_told_it(supervisor, options, wanted):
    """A session in the mode `full` that has no prompt of its own, unless it is switched off."""
    assert await system_of(supervisor, **options) == wanted


@on_virtual_time
async def test_an_empty_prompt_is_a_prompt(supervisor):
    """A caller that says the empty text wants nothing there."""
    assert not await system_of(supervisor, system_prompt="")


@on_virtual_time
async def test_who_works_for_a_session_is_not_told_it(supervisor):
    """A child of a call has its task, and what its agent or the session above was given; the base prompt is neither."""
    model = ScriptedModel(
        [
            calls(("task", {"description": "Look."})),
            says("Looked."),
            says("Done."),
            calls(("task", {"description": "Look.", "subagent_type": "scout"})),
            says("Looked."),
            says("Done."),
        ]
    )
    scout = Agent(name="scout", description="Finds files.", system_prompt="You look.")
    session = await supervisor.start_session(model=model, tools=builtin("task"), agents=[scout])
    await session.ask("1")
    await session.ask("2")
    assert [request.system for request in model.requests] == [
        BASE_PROMPT,
        None,
        BASE_PROMPT,
        BASE_PROMPT,
        "You look.",
        BASE_PROMPT,
    ]


@on_virtual_time
async def test_it_comes_before_the_sections(supervisor):
    """What plugins add stands behind it."""
    plugin = PuppetPlugin((read_rule("BeforeRequest", "section:Today is Friday."),), name="days")
    told = await system_of(supervisor, plugins=[plugin])
    assert told is not None
    assert told.startswith(BASE_PROMPT)
    assert told.endswith("Today is Friday.")


@on_virtual_time
async def test_it_is_yes_or_no(supervisor):
    """A text for it is a `system_prompt`."""
    with pytest.raises(OptionError, match="base_prompt"):
        await supervisor.start_session(model=FunctionModel(lambda _: says("x")), base_prompt="Be nice.")
