"""The children behind a session's actor: they go with it, come back with it, and are no trouble of its own."""

from contextlib import suppress

import pytest
import trio

from agentrail.errors import ActorDown, SessionDown, SupervisorStopping
from agentrail.events import SessionParked, SessionRestarted
from agentrail.otp.child_specs import ChildSpec, SupervisorFlags
from agentrail.runtime.branch import Branch
from agentrail.testing.cancelling import crash
from tests.runtime.rig import kinds, on_virtual_time, open_bare, rest, saying, until


class Lives:
    """Children that note when they come and go, and crash when they are told to."""

    def __init__(self):
        self.log = []
        self.blows = {}

    def spec(self, name, **more):
        async def live():
            self.log.append(f"{name} up")
            blow = self.blows[name] = trio.Event()
            try:
                await blow.wait()
            finally:
                self.log.append(f"{name} down")
            message = f"{name} was struck"
            raise RuntimeError(message)

        return ChildSpec(name, live, **more)


@pytest.fixture
def lives():
    return Lives()


async def test_children_stand_behind_their_session_in_the_tree_and_end_with_it(supervisor, lives):
    """In start order; the first of them brings the supervisor that they share. They end in reverse, before anybody is told of it."""
    session = await supervisor.start_session(model=saying("ok"), session_id="s-1")
    for name in ("a", "b"):
        started = await supervisor.start_behind("s-1", lives.spec(name))
        assert started.handle.id == name
    (node,) = (await supervisor.tree()).children
    assert [(child.id, child.status) for child in node.children] == [("a", "running"), ("b", "running")]
    assert await session.ask("Hi") == "ok"
    await supervisor.stop_session("s-1")
    assert lives.log == ["a up", "b up", "b down", "a down"]


async def test_a_crash_of_the_actor_takes_them_along_and_brings_them_back(supervisor, lives):
    """As under `rest_for_one`: stopped in reverse, started in order; temporary ones stay away."""
    session = await supervisor.start_session(model=saying("ok"), session_id="s-1")
    await supervisor.start_behind("s-1", lives.spec("a"))
    await supervisor.start_behind("s-1", lives.spec("t", restart="temporary"))
    await supervisor.start_behind("s-1", lives.spec("b"))
    async with session.subscribe() as events:
        crash(session)
        await until(events, SessionRestarted)
    await supervisor.start_behind("s-1", lives.spec("c"))
    assert lives.log == ["a up", "t up", "b up", "b down", "t down", "a down", "a up", "b up", "c up"]
    assert await session.ask("Hi") == "ok"


@on_virtual_time
async def test_children_that_crash_too_often_take_the_actor_along(lives):
    """Their supervisor gives up, the session is restarted, and when that does not help it is parked and says why."""
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=saying(), session_id="s-1")
        await supervisor.start_behind("s-1", lives.spec("a"))
        async with session.subscribe() as events, trio.open_nursery() as nursery:

            async def strike() -> None:
                while True:
                    lives.blows["a"].set()
                    await trio.sleep(0.01)

            nursery.start_soon(strike)
            seen = await rest(events)
            nursery.cancel_scope.cancel()
    assert kinds(seen).count("SessionRestarted") == 2
    assert "SupervisorGaveUp" in next(event for event in seen if isinstance(event, SessionParked)).reason


async def test_without_an_actor_there_is_no_branch(lives):
    """Who asks a branch whose actor has no instance hears that."""
    with pytest.raises(ActorDown, match="the session is not running: start its children while it runs"):
        await Branch("s-1", SupervisorFlags("rest_for_one")).start_child(lives.spec("a"))


@pytest.mark.parametrize("is_crash", [True, False])
@on_virtual_time
async def test_a_child_whose_session_crashes_or_ends_meanwhile_is_refused(lives, is_crash):
    """It is not waited for, whoever was faster. A session that comes back takes the next one."""
    async with open_bare() as supervisor:

        async def start(session):
            with suppress(ActorDown, SessionDown, SupervisorStopping):
                await supervisor.start_behind(session.session_id, lives.spec("a"))

        for turns in (0, 1, 2, 3) * 8:  # the order of the tasks in one turn is random
            session = await supervisor.start_session(model=saying())
            with trio.fail_after(5):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(start, session)
                    for _ in range(turns):
                        await trio.lowlevel.checkpoint()
                    if is_crash:
                        crash(session)
                    else:
                        await session.stop()
                if is_crash:
                    await supervisor.start_behind(session.session_id, lives.spec("b"))
