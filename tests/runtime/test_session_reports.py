"""Restarts and sessions that were given up are told as they happen; no session waits for who listens."""

import pytest
import trio

from agentrail import SessionDown
from agentrail.errors import OptionError, YourMove
from agentrail.runtime.branch import MAX_RESTARTS
from agentrail.runtime.session_reports import SessionReport
from agentrail.testing.cancelling import crash
from agentrail.testing.orphans import no_orphans
from tests.runtime.rig import open_bare, saying
from tests.runtime.test_scopes import BAD


async def take(reports, count=1):
    with trio.fail_after(60):
        return [await anext(reports) for _ in range(count)]


def said(reports) -> list[tuple[str, str, int]]:
    return [(report.kind, report.session_id, report.incarnation) for report in reports]


@pytest.mark.at(150)
async def test_restarts_and_the_end_are_told_in_order(supervisor):
    """Each crash that is forgiven, and the one too many; when that is told, the last words are there."""
    session = await supervisor.start_session(model=saying("a"), session_id="s-1")
    async with supervisor.reports() as reports:
        seen = []
        for number in range(MAX_RESTARTS):
            crash(session, f"ray {number}")
            seen += await take(reports)
        crash(session, "the last ray")
        seen += await take(reports)
        words = supervisor.last_words("s-1")
    assert said(seen) == [("restarted", "s-1", 2), ("restarted", "s-1", 3), ("parked", "s-1", 3)]
    assert ["ray 0" in seen[0].reason, "ray 1" in seen[1].reason] == [True, True]
    assert (words.how, words.crash, words.scope) == ("parked", seen[2].reason, seen[2].scope)
    assert isinstance(seen[0], SessionReport)
    assert seen[0].at_ms <= seen[2].at_ms


async def test_each_reader_has_them_all_and_a_scope_has_its_own(supervisor):
    """Readers do not take them away from each other."""
    for scope in ("a", "b"):
        crash(
            await supervisor.start_session(
                model=saying(), session_id="main", scope=scope, restart="temporary"
            )
        )
    async with (
        supervisor.reports() as one,
        supervisor.reports() as other,
        supervisor.reports(scope="b") as own,
    ):
        seen = await take(one, 2)
        assert {report.scope for report in seen} == {"a", "b"}
        assert await take(other, 2) == seen
        assert [report.scope for report in await take(own)] == ["b"]


async def test_iteration_ends_with_the_supervisor():
    """After what waits to be read, and for who waits; then there is nothing to enter any more."""
    seen = {}
    async with no_orphans(), trio.open_nursery() as nursery:

        async def read(name, reports) -> None:
            seen[name] = [report async for report in reports]

        async with open_bare() as supervisor:
            reports = await supervisor.reports().__aenter__()
            nursery.start_soon(read, "waits", await supervisor.reports().__aenter__())
            crash(await supervisor.start_session(model=saying(), session_id="s", restart="temporary"))
            await supervisor.monitor(supervisor.sessions()[0]).wait()
            await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(read, "late", reports)
    assert said(seen["waits"]) == said(seen["late"]) == [("parked", "s", 1)]
    with pytest.raises(SessionDown, match="the supervisor was closed"):
        await supervisor.reports().__aenter__()


async def test_the_block_that_is_left_is_no_reader_any_more(supervisor):
    """Nothing is kept for it; it cannot be entered twice, nor read unentered."""
    async with supervisor.reports(buffer=1) as reports:
        pass
    for name in ("s", "t"):
        session = await supervisor.start_session(model=saying(), session_id=name, restart="temporary")
        crash(session)
        await session.monitor().wait()
    assert reports.dropped == 0
    with pytest.raises(YourMove, match="already entered"):
        await reports.__aenter__()
    with pytest.raises(YourMove, match="were not entered"):
        await anext(supervisor.reports())


async def test_a_scope_that_can_be_none_and_a_buffer_that_holds_nothing_are_refused(supervisor):
    """As at every other door; both faults are told at once."""
    for scope in BAD:
        if scope is not None:
            with pytest.raises(OptionError, match="scope is"):
                supervisor.reports(scope=scope)
    for buffer in (0, -1, 1.5, None, True, "1"):
        with pytest.raises(OptionError, match=r"buffer is .*: expected a whole number >= 1") as caught:
            supervisor.reports(buffer=buffer, scope="a/b")
        assert len(caught.value.faults) == 2
