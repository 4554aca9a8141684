"""Forms through the doors: a tool asks with one, a person fills it in or declines, and what cannot be is refused where it came."""

from typing import Any

import pytest

import agentrail
from agentrail.errors import AlreadyResolved, InvalidResponse, QuestionDeclined
from agentrail.events import AgentEnd, AskUser, ToolExecutionEnd, ToolRetry, UserDeclined, UserResponded
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.strategies import FORM
from tests.runtime.rig import until

ANSWER = {"name": "Ada", "age": 36.0}
COUNTS = {"name": "Ada", "age": 36, "side": "left"}


def calling(name: str) -> ScriptedModel:
    return ScriptedModel([calls((name, {})), says("done")])


async def test_a_tool_is_given_what_was_filled_in(supervisor):
    """The object, as it counts, and a copy of its own; who listens sees the form, the address, and the answer."""
    got: list[Any] = []

    @agentrail.tool
    async def who(*, ctx: agentrail.ToolContext) -> str:
        """Ask who it is."""
        answer = await ctx.ask_user("Who?", schema=FORM, url="https://example.org/who")
        assert answer is not None
        got.append(answer)
        answer["seen"] = True  # type: ignore[index]  # at run time it is a dict of the tool's
        return "asked"

    session = await supervisor.start_session(model=calling("who"), tools=[who])
    async with session.subscribe() as events:
        await session.prompt("Go")
        asked = (await until(events, AskUser))[-1]
        assert isinstance(asked, AskUser)
        assert (asked.schema, asked.url) == (FORM, "https://example.org/who")
        with pytest.raises(InvalidResponse, match="this is a form: expected an object with name"):
            await session.respond(asked.ref, "Ada")
        with pytest.raises(InvalidResponse, match="'street' is not a field of this form; 'name' is missing"):
            await session.respond(asked.ref, {"street": "x"})
        (waiting,) = (await session.status()).questions
        assert waiting.schema == FORM
        await session.respond(asked.ref, ANSWER)
        seen = await until(events, AgentEnd)
    assert got == [COUNTS | {"seen": True}]
    assert [one.response for one in seen if isinstance(one, UserResponded)] == [COUNTS]


async def test_a_tool_hears_that_the_user_declines(supervisor):
    """As an error that it can catch; one that it lets travel is its result, and it is not called again."""
    heard: list[str | None] = []

    @agentrail.tool(effect_class="pure")
    async def who(*, ctx: agentrail.ToolContext) -> str:
        """Ask who it is."""
        try:
            await ctx.ask_user("Who?")
        except QuestionDeclined as error:
            heard.append(error.reason)
            raise
        return "asked"

    session = await supervisor.start_session(model=calling("who"), tools=[who])
    async with session.subscribe() as events:
        await session.prompt("Go")
        asked = (await until(events, AskUser))[-1]
        assert isinstance(asked, AskUser)
        await session.decline(asked.ref, "not your business")
        seen = await until(events, AgentEnd)
    assert heard == ["not your business"]
    (declined,) = [one for one in seen if isinstance(one, UserDeclined)]
    assert (declined.ref, declined.reason) == (asked.ref, "not your business")
    assert not [one for one in seen if isinstance(one, ToolRetry)]
    (end,) = [one for one in seen if isinstance(one, ToolExecutionEnd)]
    assert (end.result.text, end.result.is_error) == ("The user declined to answer: not your business", True)
    with pytest.raises(AlreadyResolved, match="rejected, by user"):
        await session.decline(asked.ref)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"schema": {"type": "object"}}, "ask_user: schema has no properties"),
        ({"schema": 7}, "ask_user: schema is 7: expected a JSON Schema"),
        ({"schema": {"a": {1, 2}}}, "ask_user: schema has type None: expected 'object'"),
        ({"url": "javascript:alert(1)"}, "ask_user: url is 'javascript:alert(1)': expected one that begins"),
        ({"schema": FORM, "options": ["a"]}, "ask_user: takes either options or a schema"),
    ],
)
async def test_a_form_that_cannot_be_is_the_tools_author_s_error(supervisor, options, words):
    """Refused in the tool, and nobody is asked."""

    @agentrail.tool
    async def who(*, ctx: agentrail.ToolContext) -> str:
        """Ask who it is."""
        await ctx.ask_user("Who?", **options)
        return "asked"

    session = await supervisor.start_session(model=calling("who"), tools=[who])
    async with session.subscribe() as events:
        await session.prompt("Go")
        seen = await until(events, AgentEnd)
    assert not [one for one in seen if isinstance(one, AskUser)]
    (end,) = [one for one in seen if isinstance(one, ToolExecutionEnd)]
    assert words in end.result.text
