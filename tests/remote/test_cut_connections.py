"""Connections that break after any frame, at a gateway in this process: nothing that is read is lost or doubled, and nothing is done twice."""

from contextlib import asynccontextmanager

import pytest
import trio
from hypothesis import given, strategies as st

from agentrail import tool
from agentrail.events import AgentEnd, AgentStart, ApprovalRequired
from agentrail.plugins.human_approval import HumanApproval
from agentrail.remote.link import open_links
from agentrail.testing.clock import FakeClock
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import RecordingTool
from tests.remote.over_a_network import RemoteSupervisor, app_over, dial_to, network_to
from tests.runtime.rig import NoSandbox

LIVES = st.lists(st.integers(1, 25), max_size=8)


@tool
async def look(place: int) -> str:
    """Look at a place."""
    return f"place {place}"


@asynccontextmanager
async def cut_supervisor(lives, connections=None):
    """Sessions that are reached over connections which break after so many frames each."""
    with trio.fail_after(3_600):
        async with open_nameless(lambda _name, _root: NoSandbox()) as supervisor:
            app = app_over(supervisor)
            lives = iter(lives)

            async with app.state.host.open(), network_to(app) as network:

                @asynccontextmanager
                async def dial(within_seconds):
                    async with dial_to(network, lives, within_seconds) as connection:
                        if connections is not None:
                            connections.append(connection)
                        yield connection

                async with open_links(dial) as links:
                    yield RemoteSupervisor(supervisor, links), supervisor


def run(main, *given_):
    return trio.run(main, *given_, clock=FakeClock())


@pytest.mark.host("H-079")
@given(lives=LIVES, deltas=st.booleans(), buffer=st.sampled_from([2, 8, 1_024]))
def test_each_committed_event_comes_once_wherever_connections_break(lives, deltas, buffer):
    """Over a cycle of four turns, read while it runs and, behind it, from the beginning."""

    async def main():
        turns = [calls(("look", {"place": place}), ("look", {"place": -place})) for place in (1, 2, 3)]
        model = ScriptedModel([*turns, says("a", "b", "c", "d")])
        async with cut_supervisor(lives) as (remote, _):
            session = await remote.start_session(model=model, tools=[look])
            numbers = []
            async with session.subscribe(deltas=deltas, buffer=buffer) as events:
                receipt = await session.prompt("Go")
                async for event in events:
                    if not event.meta.ephemeral:
                        numbers.append(event.meta.seq)
                    if isinstance(event, AgentEnd):
                        break
            assert numbers[0] <= receipt.seq
            assert numbers == list(range(numbers[0], numbers[-1] + 1))
            async with session.subscribe(after=0, deltas=deltas, buffer=buffer) as events:
                again = [(await anext(events)).meta.seq for _ in range(numbers[-1])]
            assert again == list(range(1, numbers[-1] + 1))
            assert await session.collect_reply() == "abcd"

    run(main)


@given(lives=LIVES)
def test_what_is_asked_for_is_done_once_wherever_connections_break(lives):
    """A prompt, an approval, a change, a fork: each of them, sent any number of times, leaves one trace."""

    async def main():
        tool = RecordingTool(name="record")
        model = ScriptedModel([calls(("record", {})), says("done"), *[says("more")] * 9])
        guard = (HumanApproval, {"require_approval_for": ["record"]})
        async with cut_supervisor(lives) as (remote, supervisor):
            session = await remote.start_session(model=model, tools=[tool], plugins=[guard], session_id="s-1")
            receipt = await session.prompt("Go")
            asked = await session.wait_for(ApprovalRequired)
            await session.approve(asked.approval.id)
            told = await session.wait_for_request(receipt.request_id)
            assert told["text"] == "done"
            assert len(tool.calls) == 1
            await session.compact("once")
            await session.stop("enough")
            kept = supervisor.last_words("s-1", scope="acme").session
            events = []
            async with kept.subscribe(after=0) as past:
                events = [event async for event in past]
            assert len([event for event in events if isinstance(event, AgentStart)]) == 1

    run(main)
