"""An id is unique in its scope: two tenants each have a session `main`, and neither sees, finds or delays the other."""

import pytest
import trio

from agentrail import AgentEnd, SessionDown, tool
from agentrail.actors.actor_types import worker
from agentrail.errors import AlreadyStarted, CallingSelf, CursorAhead, OptionError, SubscriberTooSlow
from agentrail.events import EventsLost, ToolExecutionEnd
from agentrail.otp.child_specs import ChildSpec
from agentrail.runtime.session_keys import fault_of_scope, is_in, key_of
from agentrail.runtime.session_options import SessionOptions
from agentrail.testing.cancelling import crash
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.orphans import no_orphans
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.testing.tools import RecordingTool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import calling, open_bare, rest, saying, take, until, until_status
from tests.runtime.test_background_agents import SPAWN, Script, hangs, start

pytestmark = pytest.mark.host("H-099")

BAD = ["a/b", "/", "a b", "-a", ".a", "a..b", "a\n", "ä", "a" * 129, None, 7, b"a", ["a"]]


async def two(supervisor, **options):
    """Start a session `main` for each of two tenants."""
    return [
        await supervisor.start_session(model=saying(f"of {scope}"), session_id="main", scope=scope, **options)
        for scope in ("anna@x", "bert")
    ]


async def test_two_scopes_have_one_id_and_do_not_know_each_other(supervisor):
    """Each is found in its own scope alone, answers for itself, and its end is no end of the other; taken is an id in one scope."""
    anna, bert = await two(supervisor)
    assert (await anna.ask("Hi"), await bert.ask("Hi")) == ("of anna@x", "of bert")
    assert supervisor.session("main", scope="bert").scope == "bert"
    assert (repr(anna), anna.session_id) == ("<Session anna@x/main idle>", "main")
    with pytest.raises(SessionDown, match="there is no live session"):
        supervisor.session("main")
    with pytest.raises(SessionDown):
        supervisor.session("main", scope="carl")
    with pytest.raises(AlreadyStarted, match=r"'main' of scope 'bert' is already alive") as caught:
        await supervisor.start_session(model=saying(), session_id="main", scope="bert")
    assert caught.value.handle.scope == "bert"
    plain = await supervisor.start_session(model=saying(), session_id="main")
    with pytest.raises(AlreadyStarted, match=r"^session 'main' is already alive"):
        await supervisor.start_session(model=saying(), session_id="main")
    assert (plain.scope, bert.scope) == ("", "bert")

    names = {None: ["anna@x/main", "bert/main", "main"], "bert": ["bert/main"], "": ["main"], "carl": []}
    for scope, found in names.items():  # of all, of one, of those without one
        assert [
            f"{one.scope}/{one.session_id}".lstrip("/") for one in supervisor.sessions(scope=scope)
        ] == found
        assert [node.id for node in (await supervisor.tree(scope=scope)).children] == found

    await supervisor.stop_session("main", scope="anna@x")
    assert (await supervisor.monitor(anna).wait()).scope == "anna@x"
    assert await bert.status()
    with pytest.raises(SessionDown):
        supervisor.monitor("main", scope="anna@x")


async def test_events_show_the_id_alone(supervisor):
    """A subscriber reads the same, whatever the scope: nothing published has the tenant in it."""
    session = await supervisor.start_session(model=saying("a"), session_id="main", scope="tenant-7")
    async with session.subscribe(after=0) as events:
        await session.ask("Hi")
        seen = await until(events, AgentEnd)
    assert {event.meta.session_id for event in seen} == {"main"}
    assert "tenant-7" not in repr(seen)


async def test_a_scope_that_can_be_none_is_refused_at_every_door(supervisor):
    """Typed, with what was expected and what came; and nothing was started. A tenant's name is one, with `@` and `+` too."""
    doors = [
        lambda scope: SessionOptions(model="demo:", scope=scope),
        lambda scope: supervisor.start_session(model=saying(), scope=scope),
        lambda scope: supervisor.session("main", scope=scope),
        lambda scope: supervisor.monitor("main", scope=scope),
        lambda scope: supervisor.stop_session("main", scope=scope),
        lambda scope: supervisor.sessions(scope=scope),
        lambda scope: supervisor.tree(scope=scope),
        lambda scope: supervisor.subscribe_all(scope=scope),
        lambda scope: supervisor.subscribe_group("g", scope=scope),
    ]
    for scope in BAD:
        for door in doors if scope is not None else doors[:5]:  # None stands for all of them there
            with pytest.raises(OptionError, match="expected '' or 1 to 128 of A-Z a-z 0-9"):
                await door(scope)
    assert supervisor.statistics().started == 0
    for good in ("", "a", "A-1", "tenant:7", "anna@x.org", "a+b", "a" * 128):
        assert fault_of_scope("scope", good) is None, good


def test_a_key_names_one_session():
    """Whatever a model called the call that a child's id is made of: no two sessions have one key, and it tells the scope."""
    named = [("", "a"), ("a", "b"), ("", "a/b"), ("a", "b/c"), ("a", "/b"), ("", "/a/b"), ("b", "a")]
    keys = [key_of(scope, session_id) for scope, session_id in named]
    assert len({*keys}) == len(named)
    assert key_of("", "plain") == "plain"
    for (scope, _), key in zip(named, keys, strict=True):
        assert [other for other in ("", "a", "b") if is_in(other, key)] == [scope]


def boss() -> FunctionModel:
    """A session that lets another one call `shell`, which wants an approval, and then both say so."""

    def answer(request):
        wants = len(request.messages) == 1
        if str(request.messages[0].content[0].text) == "Count.":
            return calls(("shell", {})) if wants else says("counted")
        return calls(("task", {"description": "Count."})) if wants else says("done")

    return FunctionModel(answer)


async def test_children_are_in_the_scope_of_their_parent(supervisor):
    """Two of one id at once: each is found in its own scope, and an approval decides for the child of that very session."""
    tools = {scope: RecordingTool(name="shell") for scope in ("a", "b")}
    people = PuppetPlugin((read_rule("BeforeTool.shell", "approve:may it?"),), name="people")
    sessions = [
        await supervisor.start_session(
            model=boss(), tools=[TaskTool(), shell], plugins=[people], session_id="main", scope=scope
        )
        for scope, shell in tools.items()
    ]
    for session in sessions:
        await session.prompt("go")
    first, second = sessions
    statuses = [await until_status(one, lambda status: len(status.all_approvals) == 1) for one in sessions]
    ids = {status.children[0].session_id for status in statuses}
    approvals = {status.all_approvals[0].id for status in statuses}
    assert (len(ids), len(approvals)) == (1, 1)
    (child_id,), (approval_id,) = ids, approvals
    assert supervisor.session(child_id, scope="a").scope == "a"
    with pytest.raises(SessionDown):
        supervisor.session(child_id)
    await second.approve(approval_id)
    assert await second.collect_reply() == "done"
    assert [len(shell.calls) for shell in tools.values()] == [0, 1]
    assert (await first.status()).all_approvals[0].id == approval_id
    await first.reject(approval_id, auto_resume=True)
    assert await first.collect_reply() == "done"
    assert [len(shell.calls) for shell in tools.values()] == [0, 1]


async def test_a_tool_may_ask_a_session_of_its_name_in_another_scope_or_supervisor(supervisor):
    """It would wait for itself only where it is the same session, and not where it has the same id."""

    @tool
    async def ask() -> str:
        """Asks."""
        with pytest.raises(CallingSelf):
            await session.ask("Hi")
        with pytest.raises(CallingSelf), trio.fail_after(5):
            await session.wait_for(AgentEnd)
        return f"{await other.ask('Hi')} {await foreign.ask('Hi')}"

    async with open_bare() as another:
        other = await supervisor.start_session(model=saying("hello"), session_id="main", scope="b")
        foreign = await another.start_session(model=saying("world"), session_id="main", scope="a")
        session = await supervisor.start_session(
            model=calling("ask"), tools=[ask], session_id="main", scope="a"
        )
        async with session.subscribe(kinds=[ToolExecutionEnd]) as events:
            await session.prompt("go")
            (ended,) = await take(events)
    assert ended.result.text == "hello world"


async def test_a_crash_restarts_and_parks_the_session_of_its_scope(supervisor):
    """Its sibling of the same id goes on: reports are told apart."""
    anna, bert = await two(supervisor, restart="temporary")
    crash(anna)
    gone = await anna.monitor().wait()
    assert (gone.scope, gone.reason[:6]) == ("anna@x", "parked")
    assert supervisor.statistics().parked == 1
    assert await bert.ask("Hi") == "of bert"
    assert [one.scope for one in supervisor.sessions()] == ["bert"]


async def test_many_are_read_by_scope(supervisor):
    """All, one scope, or a group in one scope; those that are started later too."""
    async with (
        supervisor.subscribe_all(kinds=[AgentEnd]) as everything,
        supervisor.subscribe_all(kinds=[AgentEnd], scope="bert") as one,
        supervisor.subscribe_group("g", kinds=[AgentEnd], scope="anna@x") as group,
        supervisor.subscribe_all(kinds=[AgentEnd], scope="") as plain,
    ):
        for session in await two(supervisor, group_id="g"):
            await session.ask("Hi")
        said = [event.messages[-1].text for event in await take(everything, 2)]
        assert said == ["of anna@x", "of bert"]
        assert [event.messages[-1].text for event in await take(one)] == ["of bert"]
        assert [event.messages[-1].text for event in await take(group)] == ["of anna@x"]
        with pytest.raises(trio.WouldBlock):
            plain.next_nowait()


async def test_positions_of_many_tell_scopes_apart(supervisor):
    """Who was cut off goes on with each session where it was, though two have one id and their numbers differ."""
    anna, bert = await two(supervisor)
    for session in (anna, bert):
        await session.status()  # both have begun
    subscription = supervisor.subscribe_all(buffer=1)
    async with subscription as events:
        await bert.steer("nothing runs, so this is a prompt")
        with pytest.raises(SubscriberTooSlow) as caught:
            await rest(events)
    positions = caught.value.positions
    assert {*positions} == {"anna@x/main", "bert/main"}
    last = [(await session.snapshot()).last_seq for session in (anna, bert)]
    assert positions["anna@x/main"] == last[0]
    async with supervisor.subscribe_all(after=positions) as events, bert.subscribe(after=0) as whole:
        missed = last[1] - positions["bert/main"]
        assert missed > 0
        assert await take(events, missed) == (await take(whole, last[1]))[-missed:]
    with pytest.raises(CursorAhead) as ahead:
        await supervisor.subscribe_all(after={"bert/main": 99}).__aenter__()
    assert ahead.value.positions == {"bert/main": last[1]}


async def test_lost_events_come_with_the_snapshot_of_their_session(supervisor):
    """One after the other, though both have one id."""
    sessions = [
        await supervisor.start_session(
            model=saying(*["x"] * count), session_id="main", scope=f"s{count}", event_buffer_size=1
        )
        for count in (1, 2)
    ]
    for count, session in enumerate(sessions, start=1):
        for _ in range(count):
            await session.ask("Hi")
    last = [(await session.snapshot()).last_seq for session in sessions]
    assert last[0] < last[1]
    async with supervisor.subscribe_all(after={}) as events:
        snapshots = []
        for event in await take(events, 2):
            assert isinstance(event, EventsLost)
            snapshots.append(event.to_seq)
        assert snapshots == last
    async with supervisor.subscribe_all(after={}) as events:
        for seq in last:
            assert (await anext(events)).to_seq == seq
            assert events.snapshot.last_seq == seq


async def test_work_behind_a_session_is_behind_that_of_its_scope():
    """What belongs to one tenant's session is stopped with it, and not with the other's."""
    async with no_orphans(), open_bare() as supervisor:
        anna, bert = await two(supervisor)
        await supervisor.start_behind("main", ChildSpec("c", worker(trio.sleep_forever)), scope="bert")
        tree = await supervisor.tree()
        assert [len(node.children) for node in tree.children] == [0, 1]
        await anna.stop()
        assert [len(node.children) for node in (await supervisor.tree()).children] == [1]
        await bert.stop()


async def test_the_end_of_a_session_leaves_agents_of_its_namesake_alone(supervisor, autojump_clock):
    """An id of a session is one of its scope, and so are those of the sessions below it."""
    ended, other = [
        await start(supervisor, Script(calls(SPAWN)), agents=[hangs()], scope=scope)
        for scope in ("anna", "bert")
    ]
    for session in (ended, other):
        await session.ask("go")
    await ended.stop()
    await trio.sleep(5)
    assert [one.session_id for one in supervisor.sessions(scope="anna")] == []
    assert [one.session_id for one in supervisor.sessions(scope="bert")] == ["boss", "boss:agent-1"]
