"""Waiting for the same answer again: a caller that names its prompt never sends it twice, whatever became of its first call."""

import pytest
import trio

import agentrail
from agentrail import open_supervisor
from agentrail.errors import (
    ClientIdReused,
    CycleAborted,
    CycleFailed,
    EventMissed,
    ReplyTimeout,
    StoreUnavailable,
)
from agentrail.events import AgentEnd
from agentrail.messages import UserMessage
from agentrail.stores.memory import MemoryStore
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, fails, says
from agentrail.tools.task import TaskTool
from tests.runtime.rig import on_bounded_time, on_virtual_time, saying, until

SLOW = says("paid", pause_seconds=1.0)


async def asked(session):
    return [one.content[0].text for one in await session.messages() if isinstance(one, UserMessage)]


@on_virtual_time
@pytest.mark.parametrize("call", ["ask", "run"])
async def test_who_was_out_of_time_waits_for_the_same_answer(call):
    """The error names the way: the same call with its `client_id`, or `collect_reply`."""
    async with open_supervisor(environ={}) as supervisor:
        session = await supervisor.start_session(model=ScriptedModel([SLOW, SLOW]))
        with pytest.raises(ReplyTimeout, match="client_id='c'"):
            await getattr(session, call)("pay", client_id="c", timeout_seconds=0.1)
        reply = await getattr(session, call)("pay", client_id="c")
        assert (reply if call == "ask" else reply.text) == "paid"
        with pytest.raises(ReplyTimeout, match="collect_reply") as told:
            await getattr(session, call)("pay more", timeout_seconds=0.1)
        assert "ask again" not in str(told.value)
        assert await session.collect_reply() == "paid"
        assert await asked(session) == ["pay", "pay more"]


async def test_an_answer_of_long_ago_is_given_again_also_after_a_restart():
    """All of it: text, messages, usage and the numbers of its events."""
    store = MemoryStore()
    async with open_supervisor(environ={}, store=store) as supervisor:
        session = await supervisor.start_session(model=saying("one", "two"), session_id="s")
        first = await session.run("pay", client_id="c")
        await session.ask("more")
    async with open_supervisor(environ={}, store=store) as supervisor:
        session = await supervisor.resume_session("s", model=ScriptedModel([]))
        assert await session.run("pay", client_id="c") == first
        assert await session.ask("pay", client_id="c") == "one"
        with pytest.raises(ClientIdReused):
            await session.ask("pay twice", client_id="c")


@pytest.mark.parametrize("how", ["failed", "aborted"])
async def test_an_end_without_an_answer_is_raised_again(how):
    """As the first caller heard it."""
    async with open_supervisor(environ={}) as supervisor:
        model = ScriptedModel([fails(ValueError("no")) if how == "failed" else says("x", pause_seconds=60.0)])
        session = await supervisor.start_session(model=model)
        error = CycleFailed if how == "failed" else CycleAborted
        async with trio.open_nursery() as nursery:
            if how == "aborted":
                await session.prompt("pay", client_id="c")
                nursery.start_soon(session.abort, "enough")
            for _ in range(2):
                with pytest.raises(error):
                    await session.ask("pay", client_id="c")


async def test_an_answer_whose_events_are_kept_no_longer_is_said_to_be():
    """Without a store a session keeps its last events alone; it does not prompt again, and does not hang."""
    async with open_supervisor(environ={}) as supervisor:
        session = await supervisor.start_session(model=ScriptedModel([says("a")] * 40), event_buffer_size=16)
        await session.ask("pay", client_id="c")
        for number in range(20):
            await session.ask(f"{number}")
        with pytest.raises(EventMissed, match="messages"):
            await session.ask("pay", client_id="c")


@on_virtual_time
async def test_a_prompt_that_waits_in_the_queue_has_its_own_answer():
    """Not that of the cycle that goes first."""
    async with open_supervisor(environ={}) as supervisor:
        model = FunctionModel(
            lambda request: says(f"to {request.messages[-1].content[0].text}", pause_seconds=1.0)
        )
        session = await supervisor.start_session(model=model)
        await session.prompt("one")
        with pytest.raises(ReplyTimeout):
            await session.ask("two", client_id="c", timeout_seconds=0.5)
        assert await session.ask("two", client_id="c") == "to two"


@on_bounded_time
async def test_a_caller_above_hears_of_a_store_that_keeps_its_child_waiting():
    """The session that is asked has nothing to write: what it waits for has."""
    store = FaultyStore(MemoryStore())
    asked_for = []

    @agentrail.tool
    async def take_away() -> str:
        """Take the store away when the session above has written all that it had."""
        journal = asked_for[0]._cell.journal  # noqa: SLF001 - what is written has no event
        settled = 0
        while settled < 50:  # also when the events of this very call have come
            settled = settled + 1 if journal.is_settled else 0
            await trio.sleep(0.002)
        store.go_away()
        return "gone"

    def answer(request):
        is_first = len(request.messages) == 1
        if request.messages[0].content[0].text == "go":
            return calls(("task", {"description": "below"})) if is_first else says("ok")
        return calls(("take_away", {})) if is_first else says("from below")

    async with open_supervisor(environ={}, store=store, store_patience=0.2) as supervisor:
        session = await supervisor.start_session(model=FunctionModel(answer), tools=[TaskTool(), take_away])
        asked_for.append(session)
        async with session.subscribe() as events:
            with pytest.raises(StoreUnavailable, match="collect_reply"):
                await session.ask("go")
            store.mend()
            await until(events, AgentEnd)
        assert await session.collect_reply() == "ok"
