"""A handle that another Trio run uses, in another thread: `NoTrioRun`, and its own run notices nothing."""

import pytest
import trio

import agentrail
from agentrail.errors import NoTrioRun
from agentrail.testing.models import ScriptedModel, says


def test_a_call_from_another_run_is_refused_before_anything_is_sent():
    """The session still answers in its own run afterwards: the call crashed it, or waited without end."""
    model = ScriptedModel([says("one"), says("two")])

    async def call_each(supervisor: agentrail.SessionSupervisor, session: agentrail.Session) -> None:
        for call in (
            lambda: session.ask("Hi"),
            lambda: session.prompt("Hi"),
            session.status,
            session.abort,
            session.stop,
            lambda: session.subscribe().__aenter__(),
            lambda: session.monitor().wait(),
            lambda: supervisor.start_session(model=model),
            lambda: supervisor.rest(session.session_id),
            supervisor.tree,
            lambda: supervisor.reports().__aenter__(),
            lambda: supervisor.subscribe_all().__aenter__(),
            lambda: supervisor.subscribe_group("g").__aenter__(),
        ):
            with pytest.raises(NoTrioRun, match="belongs to another Trio run"), trio.fail_after(5):
                await call()

    async def main() -> None:
        async with agentrail.open_supervisor() as supervisor:
            session = await supervisor.start_session(model=model)
            await trio.to_thread.run_sync(trio.run, call_each, supervisor, session)
            assert (await session.ask("Hi"), len(supervisor.sessions())) == ("one", 1)

    trio.run(main)
