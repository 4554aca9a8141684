"""`Reflection(reviewer_agent=…)` in a session: a review is a call of `task`, with its loan, its approvals, its abort and its recovery (12.2.1)."""

import pytest
import trio

from agentrail.core.policy.budget import Budget
from agentrail.events import SubagentEvent, SubagentStart, ToolExecutionStart
from agentrail.messages import ToolMessage, UserMessage
from agentrail.plugins import Reflection
from agentrail.runtime.agent import Agent
from agentrail.testing.cancelling import check_history
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import HangingTool
from agentrail.tools.task import TaskTool
from tests.runtime.test_resumed_sessions import Process, fresh, open_again

CRITIC = Agent(name="critic", description="Reviews.", system_prompt="You review.")
REVIEW = ("task", {"description": "My answer.", "subagent_type": "critic"})
REVIEWED = (Reflection, {"reviewer_agent": "critic"})


def reviewed(*reviews):
    """A model that lets its answers be reviewed, and an agent that says one thing after the other about them."""
    said = iter(reviews)
    answers = iter(("A long answer.", "Short."))

    def answer(request):
        if request.system == "You review.":
            return next(said)
        last = request.messages[-1]
        if isinstance(last, UserMessage) and last.origin == "intervention":
            return calls(REVIEW)
        if isinstance(last, ToolMessage) and (last.results[0].is_error or "APPROVED" in last.results[0].text):
            return says("APPROVED")
        return says(next(answers))

    return FunctionModel(answer)


@pytest.mark.parametrize(
    ("shape", "approval"), [(None, "APPROVED"), ({"type": "object"}, '{"verdict":"APPROVED"}')]
)
async def test_an_answer_is_reviewed_by_an_agent_until_it_passes(supervisor, shape, approval):
    """Two children review two answers; what they used is the session's, their loans are back, and the approved answer is returned."""
    points = '{"verdict":"no"}' if shape else "It is too long."
    critic = Agent(name="critic", description="Reviews.", system_prompt="You review.", result=shape)
    session = await supervisor.start_session(
        model=reviewed(says(points), says(approval)),
        tools=[TaskTool()],
        agents=[critic],
        plugins=[REVIEWED],
        budget=Budget(max_total_tokens=100_000),
        max_output_tokens=100,
    )
    kinds = [SubagentStart, ToolExecutionStart]
    async with session.subscribe(kinds=kinds) as events:
        assert await session.ask("Why?") == "Short."
        status, messages = await session.status(), await session.messages()
        await session.stop()
        seen = [event async for event in events]
    started = [event for event in seen if isinstance(event, SubagentStart)]
    assert [one.description.rpartition("\n")[2] for one in started] == ["A long answer.", "Short."]
    assert sum(isinstance(event, ToolExecutionStart) for event in seen) == 2
    # Five responses here and one in each child, of 15 tokens each: what was lent is back, and what was used is booked once.
    assert status.budget_left.tokens == 100_000 - (5 + 2) * 15
    check_history(messages)
    assert messages[-1].text == "Short."


@pytest.mark.check
async def test_a_review_survives_a_restart_of_the_process():
    """The reviewer goes on, the plugin knows its call and its answer again, and what it approves is returned (9.3)."""
    inner, hanging = fresh(), HangingTool(name="hang")
    options = {
        "model": reviewed(calls(("hang", {})), says("APPROVED")),
        "tools": [TaskTool(), hanging],
        "agents": [CRITIC],
        "plugins": [REVIEWED],
    }
    async with Process(inner) as supervisor:
        session = await supervisor.start_session(session_id="boss", **options)
        async with session.subscribe(kinds=[SubagentEvent]) as events:
            await session.prompt("Why?")
            with trio.fail_after(60):
                async for event in events:  # what is published is in the store
                    if isinstance(event.event, ToolExecutionStart):
                        break
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session("boss", **options)
        with trio.fail_after(60):
            assert await session.collect_reply() == "A long answer."
        check_history(await session.messages())
