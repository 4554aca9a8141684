"""Sessions whose tools wait for each other: the call that would close the ring is refused at once."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from agentrail import Agent, AgentEnd, tool
from agentrail.errors import CallingSelf
from agentrail.runtime.session_handle import Session
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.tools.task import TaskTool
from tests.runtime.rig import calling, on_virtual_time, saying

Work = Callable[[], Awaitable[Any]]


async def start(supervisor: SessionSupervisor, name: str, work: Work, **options: Any) -> Session:
    """Start a session whose only tool does this, and returns its value or the refusal."""

    @tool
    async def ask() -> str:
        """Ask."""
        try:
            return str(await work())
        except CallingSelf as error:
            return f"refused: {error}"

    return await supervisor.start_session(model=calling("ask"), tools=[ask], session_id=name, **options)


async def result_of(session: Session) -> str:
    """Return the result of the first call."""
    return next(one for one in await session.messages() if hasattr(one, "results")).results[0].text


async def streamed(session: Session) -> str:
    async with session.stream("Hi") as events:
        return "".join([text async for text in events.text()])


async def run(session: Session) -> str:
    return (await session.run("Hi")).text


async def prompted(session: Session) -> str:
    await session.prompt("Hi", client_id="x")
    return await session.collect_reply()


async def awaited(session: Session) -> str:
    await session.prompt("Hi")
    return type(await session.wait_for(AgentEnd)).__name__


WAITS = {
    "ask": lambda session: session.ask("Hi"),
    "named": lambda session: session.ask("Hi", client_id="x"),
    "run": run,
    "named run": lambda session: session.run("Hi", client_id="x"),
    "stream": streamed,
    "collect_reply": prompted,
    "wait_for": awaited,
}


@on_virtual_time
@pytest.mark.parametrize("last", WAITS)
@pytest.mark.parametrize("first", WAITS)
async def test_the_call_that_closes_a_ring_is_refused(supervisor, first, last):
    """It waited until a tool's time was over. The others go on, and get their answers."""
    b = await start(supervisor, "b", lambda: WAITS[last](a))
    a = await start(supervisor, "a", lambda: WAITS[first](b))
    with trio.fail_after(5):
        assert await a.ask("go") == "done"
    call = "stream" if last == "stream" else last.split()[-1].replace("named", "ask")
    assert (await result_of(b)).startswith(
        f"refused: {call} from inside a tool of session 'b' would wait for itself, in the ring b → a → b: call it after"
    )
    assert "refused" not in await result_of(a)
    assert {one._cell.pending_calls.waiters for one in (a, b)} == {()}  # noqa: SLF001 - a table that must not grow


@on_virtual_time
async def test_a_longer_ring_is_named_whole(supervisor):
    """From the session whose tool calls, through all that wait for it, back to it."""
    c = await start(supervisor, "c", lambda: a.ask("Hi"))
    b = await start(supervisor, "b", lambda: c.ask("Hi"))
    a = await start(supervisor, "a", lambda: b.ask("Hi"))
    with trio.fail_after(5):
        assert await a.ask("go") == "done"
    assert "in the ring c → a → b → c:" in await result_of(c)


def boss(request: Any) -> Any:
    if len(request.messages) > 1:
        return says("done")
    if (request.system or "").startswith("You look."):
        return calls(("ask", {}))
    return calls(("task", {"description": "Look.", "subagent_type": "scout"}))


@on_virtual_time
async def test_a_child_waits_for_its_parent_through_another_session(supervisor):
    """The parent waits for its child, so a session that the child asks cannot ask the parent."""

    @tool
    async def ask() -> str:
        """Ask."""
        return str(await other.ask("Hi"))

    other = await start(supervisor, "other", lambda: parent.ask("Hi"))
    scout = Agent(name="scout", description="Finds files.", system_prompt="You look.", tools=[ask])
    parent = await supervisor.start_session(
        model=FunctionModel(boss), agents=[scout], tools=[TaskTool(), ask], session_id="parent"
    )
    with trio.fail_after(5):
        assert await parent.ask("go") == "done"
    assert "in the ring other → parent → parent.call_r1_0 → other:" in await result_of(other)


@on_virtual_time
async def test_a_child_cannot_ask_its_parent(supervisor):
    """The parent waits for it, also after a tool of the parent started it."""
    refused = []

    @tool
    async def ask() -> str:
        """Ask."""
        try:
            return str(await parent.ask("Hi"))
        except CallingSelf as error:
            refused.append(str(error))
            return "refused"

    scout = Agent(name="scout", description="Finds files.", system_prompt="You look.", tools=[ask])
    parent = await supervisor.start_session(
        model=FunctionModel(boss), agents=[scout], tools=[TaskTool()], session_id="parent"
    )
    with trio.fail_after(5):
        assert await parent.ask("go") == "done"
    assert "in the ring parent.call_r1_0 → parent → parent.call_r1_0:" in refused[0]


@on_virtual_time
async def test_calls_that_do_not_wait_for_a_cycle_are_served(supervisor):
    """A message, a query and the wait for an event are answered while a tool is running."""

    async def look() -> str:
        await a.prompt("later")
        return f"{(await a.status()).phase} {len(await a.messages())}"

    b = await start(supervisor, "b", look)
    a = await start(supervisor, "a", lambda: b.ask("Hi"))
    with trio.fail_after(5):
        assert await a.ask("go") == "done"
    assert "refused" not in await result_of(b)


@on_virtual_time
async def test_who_no_longer_waits_is_in_no_ring(supervisor):
    """The call was cancelled, or answered, or its tool only left a message."""
    freed = trio.Event()

    async def give_up() -> str:
        with trio.move_on_after(1):
            await b.ask("Hi")
        freed.set()
        return "gave up"

    async def ask_later() -> str:
        await freed.wait()
        return str(await a.ask("Hi"))

    b = await start(supervisor, "b", ask_later)
    a = await start(supervisor, "a", give_up)
    with trio.fail_after(9):
        await a.ask("go")
        await b.collect_reply()
    assert "refused" not in await result_of(b)
    assert {one._cell.pending_calls.waiters for one in (a, b)} == {()}  # noqa: SLF001 - a table that must not grow


@on_virtual_time
async def test_two_tools_of_one_session_may_wait_for_another(supervisor):
    """They are no ring, and each wait ends for itself."""
    b = await supervisor.start_session(model=saying("1", "2", "3"), session_id="b")

    @tool
    async def ask() -> str:
        """Ask."""
        return str(await b.ask("Hi"))

    a = await supervisor.start_session(model=calling("ask", "ask", "ask"), tools=[ask])
    assert await a.ask("go") == "done"
    results = next(one for one in await a.messages() if hasattr(one, "results")).results
    assert sorted(one.text for one in results) == ["1", "2", "3"]


@on_virtual_time
@pytest.mark.parametrize("sleeps", [False, True])
async def test_a_session_that_a_tool_only_wakes_or_starts_may_ask_it(supervisor, sleeps):
    """The tool does not wait for it, so it is served when the tool has returned."""

    async def wake() -> str:
        b = await start(supervisor, "b", lambda: a.ask("Hi")) if not sleeps else supervisor.session("b")
        await b.prompt("go")
        await trio.sleep(1)
        return "woken"

    if sleeps:
        b = await start(supervisor, "b", lambda: a.ask("Hi"))
        await b.status()
    a = await start(supervisor, "a", wake)
    assert await a.ask("go") == "done"
    b = supervisor.session("b")
    with trio.fail_after(9):
        assert await b.collect_reply() == "done"
    assert "refused" not in await result_of(b)
