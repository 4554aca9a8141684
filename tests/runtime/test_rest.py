"""A session is put to rest: it leaves where nothing of it is at work, without an end, and what it knows is kept as bytes."""

import pytest
import trio

from agentrail import SessionDown, tool
from agentrail.abc import ToolContext
from agentrail.core.session.state_codec import decode_session, encode_session
from agentrail.errors import CallingSelf, CodecError, CycleAborted, OptionError, SessionRested
from agentrail.events import (
    AgentEnd,
    ApprovalRequired,
    MessageDelta,
    SessionEnd,
    SubagentStart,
    ToolExecutionEnd,
)
from agentrail.runtime.put_to_rest import fault_of_within
from agentrail.testing.cancelling import cancel_everywhere, crash
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.testing.orphans import no_orphans
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.testing.tools import HangingTool, RecordingTool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import (
    NoSandbox,
    calling,
    kinds,
    on_virtual_time,
    open_bare,
    open_with,
    rest,
    saying,
    until,
)
from tests.runtime.test_scopes import BAD
from tests.thinned import first


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


async def test_an_idle_session_leaves_at_once(supervisor):
    """Its state is what it knew, nothing was published, and its id is free."""
    session = await supervisor.start_session(model=saying("a", "b"), session_id="s-1")
    await session.ask("Hi")
    before = await session.status()
    async with session.subscribe(after=0) as events:
        rested = await supervisor.rest("s-1")
        seen = await rest(events)
    assert SessionEnd not in [type(event) for event in seen]
    assert events.is_rested
    assert (rested.session_id, rested.scope, rested.at_boundary, rested.cut_calls) == ("s-1", "", True, ())
    assert rested.last_seq == before.last_seq == seen[-1].meta.seq
    assert holds(rested, session)
    assert not decode_session(rested.state).ended
    assert supervisor.sessions() == ()
    again = await supervisor.start_session(model=saying("a"), session_id="s-1")
    assert await again.ask("Hi") == "a"


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


async def test_one_that_ended_is_not_at_rest(supervisor):
    """The subscriber can tell both apart."""
    session = await supervisor.start_session(model=saying("a"))
    async with session.subscribe() as events:
        await session.stop()
        await rest(events)
    assert not events.is_rested
    with pytest.raises(SessionDown) as caught:
        await session.status()
    assert type(caught.value) is SessionDown


async def test_it_leaves_between_two_turns(supervisor):
    """The turn that runs is done: its calls are answered. The next request is decided, and never went out."""
    gate, model = Gate(), calling("wait")
    session = await supervisor.start_session(model=model, tools=[gate.tool], session_id="s-1")
    results = []
    async with session.subscribe() as events, trio.open_nursery() as nursery:

        async def put_to_rest() -> None:
            results.append(await supervisor.rest("s-1"))

        await session.prompt("Hi")
        await gate.began.wait()
        nursery.start_soon(put_to_rest)
        await trio.testing.wait_all_tasks_blocked()
        assert results == []
        gate.opened.set()
        seen = kinds(await rest(events))
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


async def test_a_cycle_that_waits_for_people_leaves_and_goes_on_waiting(supervisor):
    """The approval is in the state; the click comes later."""
    people = PuppetPlugin((read_rule("BeforeTool.shell", "approve:may it?"),), name="people")
    shell = RecordingTool(name="shell")
    session = await supervisor.start_session(
        model=calling("shell"), tools=[shell], plugins=[people], session_id="s-1"
    )
    async with session.subscribe(kinds=[ApprovalRequired]) as events:
        await session.prompt("Hi")
        approval = (await anext(events)).approval
        rested = await supervisor.rest("s-1")
    state = decode_session(rested.state, {"people": people})
    assert state.suspended
    assert [one.id for one in state.data.interactions] == [approval.id]
    assert rested.at_boundary
    assert shell.calls == []


async def test_what_is_sent_meanwhile_is_taken(supervisor):
    """A prompt that was accepted is in the state; who waits for a text hears that the session rests."""
    gate = Gate()
    session = await supervisor.start_session(model=calling("wait"), tools=[gate.tool], session_id="s-1")
    refused = []

    async def ask() -> None:
        with pytest.raises(SessionRested):
            await session.ask("Hi")
        refused.append("ask")

    async def put_to_rest() -> None:
        states.append(decode_session((await supervisor.rest("s-1")).state))

    states = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await gate.began.wait()
        nursery.start_soon(put_to_rest)
        await trio.testing.wait_all_tasks_blocked()
        receipt = await session.prompt("And then?")
        assert receipt.queued
        gate.opened.set()
    assert refused == ["ask"]
    assert [prompt.ref for prompt in states[0].data.queue] == [receipt.ref]


@on_virtual_time
async def test_when_the_time_is_over_it_is_cut():
    """What runs is stopped, the state says that it was open, and nothing is left."""
    sandbox = NoSandbox()
    async with no_orphans(), open_with([sandbox]) as supervisor:
        hanging = HangingTool(name="hang")
        session = await supervisor.start_session(model=calling("hang"), tools=[hanging], session_id="s-1")
        async with session.subscribe() as events:
            await session.prompt("Hi")
            began_at = trio.current_time()
            await hanging.started.wait()
            rested = await supervisor.rest("s-1", 3)
            assert trio.current_time() - began_at == pytest.approx(3)
            seen = await rest(events)
        assert hanging.stopped == 1
        assert not rested.at_boundary
        assert len(rested.cut_calls) == 1
        assert SessionEnd not in map(type, seen)
        assert ToolExecutionEnd not in map(type, seen)
        state = decode_session(rested.state)
        assert state.phase.value == "executing_tools"
        assert holds(rested, session)
        assert supervisor.statistics().live == 0


@on_virtual_time
async def test_a_stream_is_heard_to_its_end_or_cut():
    """Within the time the response is complete and the cycle with it; without time it is cut where it is."""
    async with no_orphans(), open_bare() as supervisor:
        for within, ends in ((20, True), (0, False)):
            model = ScriptedModel([says("a", "b", "c", pause_seconds=1)])
            session = await supervisor.start_session(model=model, session_id="s-1")
            async with session.subscribe() as events:
                await session.prompt("Hi")
                await until(events, MessageDelta)
                rested = await supervisor.rest("s-1", within)
                seen = await rest(events)
            assert (AgentEnd in map(type, seen)) == ends
            assert rested.at_boundary == ends


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
        with pytest.raises(OptionError, match="works for a call of 'boss': put 'boss' to rest"):
            await supervisor.rest(child_id)
        rested = await supervisor.rest("boss", 0)
    assert (hanging.stopped, len(rested.cut_calls)) == (1, 1)
    assert supervisor.sessions() == ()
    assert supervisor.last_words(child_id).how == "ended"


async def test_two_callers_get_the_same(supervisor):
    """And the first time that is over counts."""
    hanging = HangingTool(name="hang")
    session = await supervisor.start_session(model=calling("hang"), tools=[hanging], session_id="s-1")
    await session.prompt("Hi")
    await hanging.started.wait()
    got = []

    async def put_to_rest(within) -> None:
        got.append(await supervisor.rest("s-1", within))

    with trio.fail_after(10):
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


async def test_a_tool_cannot_put_its_own_session_to_rest(supervisor):
    """It would wait for itself."""

    @tool
    async def sleep() -> str:
        """Sleep."""
        with pytest.raises(CallingSelf, match="rest from inside a tool"):
            await supervisor.rest("s-1")
        return "awake"

    session = await supervisor.start_session(model=calling("sleep"), tools=[sleep], session_id="s-1")
    assert await session.ask("Hi") == "done"


async def test_a_state_that_cannot_be_written_stays_awake(supervisor):
    """It would be lost: the caller hears where, and the session goes on."""
    session = await supervisor.start_session(
        model=saying("a"), session_id="s-1", user_data={"object": object()}
    )
    with pytest.raises(CodecError, match="user_data"):
        await supervisor.rest("s-1")
    assert await session.ask("Hi") == "a"


async def test_one_that_ends_meanwhile_is_down(supervisor):
    """Its end is no rest."""
    hanging = HangingTool(name="hang")
    session = await supervisor.start_session(model=calling("hang"), tools=[hanging], session_id="s-1")
    await session.prompt("Hi")
    await hanging.started.wait()

    async def put_to_rest() -> None:
        with pytest.raises(SessionDown, match="enough") as caught:
            await supervisor.rest("s-1")
        assert type(caught.value) is SessionDown

    async with trio.open_nursery() as nursery:
        nursery.start_soon(put_to_rest)
        await trio.testing.wait_all_tasks_blocked()
        await session.stop("enough")
    assert supervisor.last_words("s-1").how == "ended"


async def test_one_that_crashes_meanwhile_rests_when_it_is_back(supervisor):
    """Nothing is at work then."""
    hanging = HangingTool(name="hang")
    session = await supervisor.start_session(model=calling("hang"), tools=[hanging], session_id="s-1")
    await session.prompt("Hi")
    await hanging.started.wait()
    got = []

    async def put_to_rest() -> None:
        got.append(await supervisor.rest("s-1", 20))

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(put_to_rest)
            await trio.testing.wait_all_tasks_blocked()
            crash(session)
    assert got[0].at_boundary
    assert decode_session(got[0].state).data.incarnation == 2


async def test_it_may_be_asked_before_the_session_has_begun(supervisor):
    """It begins, and leaves in the same breath."""
    await supervisor.start_session(model=saying("a"), session_id="s-1", scope="a")
    rested = await supervisor.rest("s-1", scope="a")
    assert (rested.scope, rested.last_seq) == ("a", 1)
    assert decode_session(rested.state).data.config.scope == "a"


@pytest.mark.parametrize("within", [-1, float("nan"), float("inf"), None, True, "1", [1]], ids=repr)
async def test_a_time_that_cannot_be_is_refused(supervisor, within):
    """Before anything happens."""
    await supervisor.start_session(model=saying("a"), session_id="s-1")
    with pytest.raises(OptionError, match=r"within is .*: expected finite seconds from 0"):
        await supervisor.rest("s-1", within)
    assert fault_of_within(0) is None
    assert supervisor.session("s-1")


@pytest.mark.parametrize("scope", BAD, ids=repr)
async def test_a_session_that_cannot_be_named_is_refused(supervisor, scope):
    """As at every other door; and one that never was is down."""
    with pytest.raises(OptionError, match="scope is"):
        await supervisor.rest("s-1", scope=scope)
    with pytest.raises(SessionDown) as caught:
        await supervisor.rest("s-1")
    assert type(caught.value) is SessionDown


async def test_the_sandbox_is_closed_and_plugins_hear_of_no_end():
    """It has left the process, and lives on."""
    sandbox = NoSandbox()
    heard = PuppetPlugin((read_rule("SessionEnding", "emit:ending"),), name="heard")

    @tool
    async def look(*, ctx: ToolContext) -> str:
        """Look."""
        ctx.open_sandbox()
        return "seen"

    async with no_orphans(), open_with([sandbox]) as supervisor:
        session = await supervisor.start_session(
            model=calling("look"), tools=[look], plugins=[heard], session_id="s-1"
        )
        await session.ask("Hi")
        async with session.subscribe(after=0) as events:
            await supervisor.rest("s-1")
            assert "PluginEvent" not in kinds(await rest(events))
        assert sandbox.closed == 1


@pytest.mark.parametrize("mode", first(["cancel", "crash", "close", "abort"], 2))
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
