"""What a caller of a session is told in the end is the same in this process and over a network."""

from contextlib import nullcontext

import pytest
import trio

from agentrail import events
from agentrail.errors import AgentrailError
from agentrail.stores.memory import MemoryStore
from agentrail.testing import supervisors
from agentrail.testing.models import FunctionModel, says
from tests.remote.over_a_network import every_supervisor_remote
from tests.runtime.rig import NoSandbox


async def told(call):
    """Return the result of a call, or its error with all that it carries."""
    try:
        found = await call()
    except AgentrailError as error:
        carried = {name: value for name, value in vars(error).items() if name != "__notes__"}
        return type(error), str(error), carried
    return type(found) if isinstance(found, events.EventBase) else found


async def same_outcomes(scenario, new_store=lambda: None):
    """Return the outcomes of a scenario with a session in this process, and require the same ones over a network."""
    found = []
    for around in (nullcontext, every_supervisor_remote):
        with around():
            async with supervisors.open_nameless(
                lambda _name, _root: NoSandbox(), store=new_store()
            ) as supervisor:
                model = FunctionModel(lambda _: says("One.", pause_seconds=5))
                found.append(await scenario(await supervisor.start_session(model=model, session_id="s-1")))
    assert found[1] == found[0]
    return found[0]


async def streamed(session):
    async with session.stream("two", raise_on_failure=True) as cycle:
        async for _ in cycle:
            pass


CALLS = {
    "ask": lambda session: session.ask("two"),
    "ask again": lambda session: session.ask("two", client_id="m-2"),
    "run": lambda session: session.run("two"),
    "stream": streamed,
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("end", ["stop", "abort"])
async def test_a_queued_prompt_is_told_how_it_ended(call, end, autojump_clock):
    """Of a stop that its session is down, and of an abort that clears the queue its reason."""

    async def scenario(session):
        found = []

        async def ask():
            found.append(await told(lambda: CALLS[call](session)))

        async with trio.open_nursery() as nursery:
            await session.prompt("one")
            nursery.start_soon(ask)
            await trio.sleep(1)
            await (session.stop("enough") if end == "stop" else session.abort("enough", clear_queue=True))
        return found

    [(kind, message, _)] = await same_outcomes(scenario)
    assert (kind.__name__, message) == {
        "stop": ("SessionDown", "session 's-1' is down: enough"),
        "abort": ("CycleAborted", "the cycle was aborted: enough"),
    }[end]


async def test_a_session_that_has_stopped_still_has_the_events_of_its_last_cycle(autojump_clock):
    """As long as they are kept: an event of it is found, and one that never came is missed."""

    async def scenario(session):
        before = await told(lambda: session.wait_for(events.AgentEnd))
        await session.ask("one")
        await session.ask("two")
        await session.stop("enough")
        kinds = (events.AgentStart, events.AgentEnd, events.SessionEnd)
        return [before, *[await told(lambda kind=kind: session.wait_for(kind)) for kind in kinds]]

    before, *after = await same_outcomes(scenario)
    assert "there has been no cycle yet, and no AgentEnd came" in before[1]
    assert after[:2] == [events.AgentStart, events.AgentEnd]
    assert "the cycle finished, and no SessionEnd came" in after[2][1]


async def test_a_fork_without_a_cycle_has_the_answer_that_it_was_forked_after(autojump_clock):
    """It has the conversation up to there, and no cycle of its own yet."""

    async def scenario(session):
        answers = [await session.collect_reply()]
        await session.ask("one")
        fork = await session.fork(session_id="s-2")
        return [*answers, await fork.collect_reply(), await fork.ask("two"), await fork.collect_reply()]

    assert await same_outcomes(scenario, MemoryStore) == ["", "One.", "One.", "One."]


async def test_a_wait_that_takes_too_long_names_the_event(autojump_clock):
    """The same sentence as of every call with a time limit."""

    async def scenario(session):
        await session.prompt("one")
        return await told(lambda: session.wait_for(events.AgentEnd, timeout_seconds=1))

    _, message, _ = await same_outcomes(scenario)
    assert message == "no AgentEnd within 1 s; the session continues: call this again to wait for longer"
