"""Nothing waits silently where no user can answer: `CycleWaiting` says what waits and how to answer, and the cycle stays as it is."""

import pytest
import trio

from agentrail import Agent, open_supervisor
from agentrail.abc import HostHooks
from agentrail.errors import CycleWaiting, ReplyTimeout
from agentrail.events import AgentEnd, AgentSuspended
from agentrail.plugins import HumanApproval, Permissions
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools import builtin

PAYS = ("shell", {"command": "pay 100"})
WAYS = ("ask", "run", "collect_reply", "wait_for")


@pytest.fixture
async def supervisor():
    """A supervisor, with the time that a test may take."""
    with trio.fail_after(60):
        async with open_supervisor() as opened:
            yield opened


async def asking(supervisor, *turns, plugins=(HumanApproval,), **options):
    model = ScriptedModel([*(turns or (calls(PAYS), says("paid")))])
    tools = [RecordingTool(name="shell")]
    return await supervisor.start_session(model=model, tools=tools, plugins=[*plugins], **options)


async def wait_by(session, way, **how):
    """Wait for the end of a cycle, in one of the ways."""
    if way in ("ask", "run"):
        reply = await getattr(session, way)("Pay", **how)
        return reply if way == "ask" else reply.text
    await session.prompt("Pay")
    if way == "wait_for":
        end = await session.wait_for(AgentEnd, **how)
        return end.messages[-1].text
    return await session.collect_reply(**how)


@pytest.mark.parametrize("plugin", [HumanApproval, Permissions])
@pytest.mark.parametrize("way", WAYS)
async def test_a_cycle_that_waits_where_nobody_listens_says_so(supervisor, way, plugin):
    """What waits, and the calls that answer; then the answer, and the reply."""
    session = await asking(supervisor, plugins=[plugin])
    with pytest.raises(CycleWaiting) as caught:
        await wait_by(session, way)
    (pending,) = caught.value.pending
    assert (pending.tool, pending.arguments) == PAYS
    for said in (
        f"approve({pending.id!r})",
        "collect_reply()",
        "subscribe",
        "wait_for_people=True",
        "timeout_seconds",
    ):
        assert said in str(caught.value)
    assert (await session.status()).approvals == (pending,)
    await session.approve(pending.id)
    assert await session.collect_reply() == "paid"


class Host(HostHooks):
    """A host that asks nothing."""


@pytest.mark.parametrize("way", [*WAYS, "in a host"])
async def test_a_caller_that_waits_for_people_waits(supervisor, way):
    """Another task decides; in a host its users do, and calls of a program in it wait."""
    how = {"wait_for_people": True}
    if way == "in a host":
        supervisor.ask_host(Host())
        way, how = "ask", {}
    session = await asking(supervisor)
    answers = []

    async def wait():
        answers.append(await wait_by(session, way, **how))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        while not (waiting := (await session.status()).approvals):
            await trio.lowlevel.checkpoint()
        await session.approve(waiting[0].id)
    assert answers == ["paid"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_deadline_is_waited_for(supervisor, way, autojump_clock):
    """That of the caller with `ReplyTimeout`, as ever; at that of the approval the clock decides, and the cycle goes on."""
    session = await asking(supervisor)
    with pytest.raises(ReplyTimeout):
        await wait_by(session, way, timeout_seconds=3)
    session = await asking(supervisor, approval_timeout_seconds=3)
    assert await wait_by(session, way) == "paid"


async def test_what_a_child_waits_for_is_named_at_its_root(supervisor):
    """The root runs the call of its child, and waits for people all the same."""

    def answer(request):
        is_child = "You pay." in request.system
        is_first = len(request.messages) == 1
        if is_child:
            return calls(PAYS) if is_first else says("child paid")
        task = ("task", {"description": "Pay", "subagent_type": "payer"})
        return calls(task) if is_first else says("paid")

    payer = Agent(
        name="payer",
        description="Pays.",
        system_prompt="You pay.",
        tools=[RecordingTool(name="shell")],
    )
    session = await supervisor.start_session(
        model=FunctionModel(answer), tools=builtin("task"), agents=[payer], plugins=[HumanApproval]
    )
    with pytest.raises(CycleWaiting) as caught:
        await session.ask("Pay")
    (pending,) = caught.value.pending
    assert len(pending.path) == 2
    await session.approve(pending.id)
    assert await session.collect_reply() == "paid"


async def test_the_event_itself_is_given_to_who_waits_for_it(supervisor):
    """`wait_for(AgentSuspended)` is a program that listens."""
    session = await asking(supervisor)
    await session.prompt("Pay")
    assert len((await session.wait_for(AgentSuspended)).waiting) == 1


async def test_another_prompt_supersedes_what_waits_and_is_answered(supervisor):
    """`ask` in a session that waits looks at its own cycle."""
    session = await asking(supervisor, calls(PAYS), says("something else"))
    with pytest.raises(CycleWaiting):
        await session.ask("Pay")
    assert await session.ask("Never mind") == "something else"


async def test_asked_again_under_its_name_it_says_so_again(supervisor):
    """The same `client_id` waits for the same cycle, which still waits for people."""
    session = await asking(supervisor)
    for _ in range(2):
        with pytest.raises(CycleWaiting) as caught:
            await session.ask("Pay", client_id="pay-1")
    await session.approve(caught.value.pending[0].id)
    assert await session.ask("Pay", client_id="pay-1") == "paid"
