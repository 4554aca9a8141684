"""A session is put to rest: it leaves where nothing of it is at work, without an end, and what it knows is kept as bytes."""

import weakref

import pytest
import trio
import trio.testing

from agentrail import SessionDown, tool
from agentrail.core.session.state_codec import decode_session, encode_session
from agentrail.errors import CallingSelf, CodecError, CycleAborted, OptionError, SessionRested
from agentrail.events import AgentEnd, SubagentStart
from agentrail.runtime.shutdown import fault_of_within
from agentrail.testing.cancelling import cancel_everywhere
from agentrail.testing.models import FunctionModel, calls
from agentrail.testing.tools import HangingTool, RecordingTool
from agentrail.tools.task import TaskTool
from tests.garbage import without_collector
from tests.runtime.rig import calling, kinds, on_virtual_time, rest, saying, start_hanging
from tests.thinned import first, sampled


class Gate:
    """A tool that is open when the test says so."""

    def __init__(self) -> None:
        self.began, self.opened = trio.Event(), trio.Event()

        @tool
        async def wait() -> str:
            """Wait."""
            self.began.set()
            await self.opened.wait()
            return "waited"

        self.tool = wait


def holds(rested, session) -> bool:
    """Say whether this is all that the session knew, and comes back as what it was."""
    state = session._cell.state  # noqa: SLF001 - as it was when it left
    return bool(encode_session(decode_session(rested.state)) == rested.state == encode_session(state))


@on_virtual_time
async def test_a_caller_that_gave_up_cuts_no_work_of_a_session_that_another_lets_end(supervisor):
    """The time of the first is over, and it is cancelled before the session has read that. The second gives it more time."""
    gate = Gate()
    session = await supervisor.start_session(model=calling("wait"), tools=[gate.tool], session_id="s-1")
    await session.prompt("Hi")
    await gate.began.wait()
    mailbox, rested = session._cell.mailbox, []  # noqa: SLF001 - held, so that the session reads later
    async with trio.open_nursery() as nursery:

        async def put_to_rest() -> None:
            rested.append(await supervisor.rest("s-1", 100))

        nursery.start_soon(put_to_rest)
        await trio.testing.wait_all_tasks_blocked()
        mailbox.hold()
        with trio.move_on_after(1):
            await supervisor.rest("s-1", 0)
        mailbox.release()
        await trio.sleep(10)
        assert not rested
        gate.opened.set()
    assert not rested[0].cut_calls


async def test_who_comes_behind_it_is_told_that_it_rests(supervisor):
    """Typed, so that no caller takes it for an end: through the handle, by its id, as a subscriber, as a monitor."""
    session = await supervisor.start_session(model=saying("a", "b"), session_id="s-1")
    rested = await supervisor.rest("s-1")
    with pytest.raises(SessionRested, match="put to rest") as caught:
        await session.prompt("Hi")
    assert isinstance(caught.value, SessionDown)
    assert (caught.value.code, caught.value.session_id) == ("session_rested", "s-1")
    for ask in (session.status, session.stop, session.abort, session.messages):
        with pytest.raises(SessionRested):
            await ask()
    with pytest.raises(SessionRested):
        supervisor.session("s-1")
    with pytest.raises(SessionRested):
        await supervisor.rest("s-1")
    with pytest.raises(SessionRested):
        await session.subscribe().__aenter__()
    async with session.subscribe(after=0) as events:
        assert kinds(await rest(events)) == ["SessionStart"]
    assert events.is_rested
    assert (await session.monitor().wait()).reason == "put to rest"
    words = supervisor.last_words("s-1")
    assert (words.how, words.reason, words.rested) == ("rested", "put to rest", rested)


async def test_it_leaves_between_two_turns(supervisor):
    """The turn that runs is done: its calls are answered. The next request is decided, and never went out. What is sent meanwhile is taken."""
    gate, model = Gate(), calling("wait")
    session = await supervisor.start_session(model=model, tools=[gate.tool], session_id="s-1")
    results, refused = [], []
    async with session.subscribe() as events, trio.open_nursery() as nursery:

        async def put_to_rest() -> None:
            results.append(await supervisor.rest("s-1"))

        async def ask() -> None:
            with pytest.raises(SessionRested):
                await session.ask("Hi")
            refused.append("ask")

        nursery.start_soon(ask)
        await gate.began.wait()
        nursery.start_soon(put_to_rest)
        await trio.testing.wait_all_tasks_blocked()
        assert results == []
        receipt = await session.prompt("And then?")
        assert receipt.queued
        gate.opened.set()
        seen = kinds(await rest(events))
    assert refused == ["ask"]
    assert seen[-3:] == ["ToolExecutionEnd", "ToolExecutionMetrics", "RequestStart"]
    assert len(model.requests) == 1
    (rested,) = results
    assert rested.at_boundary
    state = decode_session(rested.state)
    assert holds(rested, session)
    assert (state.phase.value, state.data.history.open, state.data.stream is not None) == (
        "running",
        (),
        True,
    )
    assert [prompt.ref for prompt in state.data.queue] == [receipt.ref]


async def test_children_go_with_their_parent(supervisor):
    """They are stopped when it is cut; alone they cannot be put to rest."""
    hanging = HangingTool(name="hang")

    def answer(request):
        if str(request.messages[0].content[0].text) == "Wait.":
            return calls(("hang", {}))
        return calls(("task", {"description": "Wait."}))

    session = await supervisor.start_session(
        model=FunctionModel(answer), tools=[TaskTool(), hanging], session_id="boss"
    )
    async with session.subscribe(kinds=[SubagentStart]) as events:
        await session.prompt("go")
        child_id = (await anext(events)).child_id
        await hanging.started.wait()
        with pytest.raises(OptionError, match="is a sub-agent of 'boss': stop its root, 'boss'"):
            await supervisor.rest(child_id)
        rested = await supervisor.rest("boss", 0)
    assert (hanging.stopped, len(rested.cut_calls)) == (1, 1)
    assert supervisor.sessions() == ()
    assert supervisor.last_words(child_id).how == "ended"


async def test_two_callers_get_the_same(supervisor):
    """And the first time that is over counts."""
    hanging = HangingTool(name="hang")
    await start_hanging(supervisor, hanging, session_id="s-1")
    got = []

    async def put_to_rest(within) -> None:
        got.append(await supervisor.rest("s-1", within))

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(put_to_rest, 1_000)
            nursery.start_soon(put_to_rest, 0)
    assert got[0] is got[1]


async def test_a_caller_that_is_cancelled_leaves_the_session_alone(supervisor):
    """It goes on, unless another one wants it at rest too."""
    gate = Gate()
    session = await supervisor.start_session(model=calling("wait"), tools=[gate.tool], session_id="s-1")
    async with session.subscribe(kinds=[AgentEnd]) as events:
        await session.prompt("Hi")
        await gate.began.wait()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(supervisor.rest, "s-1")
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel(reason="changed my mind")
        with trio.move_on_after(0) as right_now:
            await supervisor.rest("s-1")
        assert right_now.cancelled_caught
        gate.opened.set()
        assert (await anext(events)).messages[-1].text == "done"
    assert await session.status()


async def test_what_it_left_is_kept_for_a_caller_that_was_cancelled(supervisor):
    """It has left then, and must not be lost."""
    session = await supervisor.start_session(model=saying("a"), session_id="s-1")
    await session.status()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervisor.rest, "s-1")
            async with session.subscribe() as events:
                await rest(events)
            scope.cancel(reason="too late")
    words = supervisor.last_words("s-1")
    assert words.how == "rested"
    assert holds(words.rested, session)


async def test_a_tool_can_neither_put_its_own_session_to_rest_nor_stop_it_nor_await_its_end(supervisor):
    """It would wait for itself, by its supervisor too."""

    @tool
    async def sleep() -> str:
        """Sleep."""
        with pytest.raises(CallingSelf, match="rest from inside a tool"):
            await supervisor.rest("s-1")
        with pytest.raises(CallingSelf):
            await supervisor.stop_session("s-1")
        with pytest.raises(CallingSelf, match="monitor from inside a tool"), trio.fail_after(5):
            await session.monitor().wait()
        return "awake"

    session = await supervisor.start_session(model=calling("sleep"), tools=[sleep], session_id="s-1")
    assert await session.ask("Hi") == "done"
    assert (await session.messages())[2].results[0].text == "awake"


async def test_a_state_that_cannot_be_written_stays_awake(supervisor):
    """It would be lost: the caller hears where, and the session goes on; so it does where the time cannot be."""
    session = await supervisor.start_session(
        model=saying("a"), session_id="s-1", user_data={"object": object()}
    )
    for within in (-1, float("nan"), float("inf"), None, True, "1", [1], 10**400):
        with pytest.raises(OptionError, match=r"within is .*: expected finite seconds >= 0"):
            await supervisor.rest("s-1", within)
    assert fault_of_within(0) is None
    with pytest.raises(CodecError, match="user_data"):
        await supervisor.rest("s-1")
    assert await session.ask("Hi") == "a"


async def test_the_error_of_a_state_that_cannot_be_written_is_freed_without_the_collector(supervisor):
    """It left 50 objects in cycles: the request kept the error, whose traceback referred to it, and so did a frame of the codec."""
    await supervisor.start_session(model=saying("a"), session_id="s-1", user_data={"object": object()})
    with without_collector():
        with pytest.raises(CodecError) as raised:
            await supervisor.rest("s-1")
        known = weakref.ref(raised.value)
        del raised
        await trio.testing.wait_all_tasks_blocked()
        assert known() is None


async def test_one_that_ends_meanwhile_is_down(supervisor):
    """Its end is no rest."""
    hanging = HangingTool(name="hang")
    session = await start_hanging(supervisor, hanging, session_id="s-1")

    async def put_to_rest() -> None:
        with pytest.raises(SessionDown, match="enough") as caught:
            await supervisor.rest("s-1")
        assert type(caught.value) is SessionDown

    async with trio.open_nursery() as nursery:
        nursery.start_soon(put_to_rest)
        await trio.testing.wait_all_tasks_blocked()
        await session.stop("enough")
    assert supervisor.last_words("s-1").how == "ended"


@pytest.mark.parametrize("mode", sampled(first(["cancel", "crash", "close", "abort"], 2)))
async def test_it_can_be_cut_anywhere(mode):
    """Nothing is left, wherever it is struck; every caller hears what became of it."""

    async def scenario(stage) -> None:
        tool = RecordingTool(name="record")
        session = await stage.supervisor.start_session(
            model=calling("record"), tools=[tool], session_id="s-1"
        )
        try:
            await session.prompt("Hi")
            rested = await stage.supervisor.rest("s-1", 5)
        except (CycleAborted, SessionDown):
            assert mode != "cancel"
        else:
            assert holds(rested, session)

    assert await cancel_everywhere(scenario, mode=mode) > 5
