"""What a session with a store guarantees, sentence by sentence, where no other test has the sentence for its own (docs: durability)."""

from contextlib import closing

import msgspec
import pytest
import trio

from agentrail.abc import HostHooks, HostVerdict
from agentrail.abc.store import Append, Opening
from agentrail.core.journal.fold import Sources, fold_journal
from agentrail.core.protocol.request import TextDelta
from agentrail.errors import StoreUnavailable
from agentrail.events import AgentEnd, ToolBlocked
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.simulation.disk import SimulatedDisk
from agentrail.testing.simulation.disk_store import open_disk_store, simulated_files
from agentrail.testing.simulation.tape import Tape
from agentrail.testing.tools import RecordingTool
from tests.runtime.rig import Chunky, on_bounded_time, open_over, until

pytestmark = on_bounded_time


HALF_A_SENTENCE = (TextDelta("half a "), TextDelta("sentence"))


class Counting(MemoryStore):
    """A store that remembers in which appends its records came."""

    def __init__(self):
        super().__init__()
        self.appends: list[Append] = []

    def append(self, batch):
        self.appends += batch
        return super().append(batch)


async def abort_in_the_middle(store):
    """Let a model say half a sentence, and stop it: the step of the abort has two records, what was heard and the abort."""
    async with open_over(store) as supervisor:
        session = await supervisor.start_session(model=Chunky(*HALF_A_SENTENCE, 60.0), session_id="s-1")
        async with session.subscribe() as events:
            await session.prompt("Hi")
            while (await anext(events)).meta.ephemeral is False:
                pass
            await session.abort()
    return store


@pytest.mark.at(121)
async def test_the_records_of_one_step_are_appended_together_and_in_order():
    """A step has all of its records or none: a crash between two of them is no place where one could stand."""
    store = await abort_in_the_middle(Counting())
    kinds = [[record.kind for record in one.records] for one in store.appends]
    assert ["heard", "abort"] in kinds
    records = store.read("", "s-1")
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    order = [record.seq for one in store.appends for record in one.records]
    assert order == sorted(order)


@pytest.mark.at(121)
@pytest.mark.parametrize("lives", ["before", "behind"])
async def test_a_commit_that_breaks_off_leaves_both_records_of_a_step_or_none(lives):
    """On a disk too, whose sync fails between the two or behind them: what is there begins and ends with whole steps."""
    memory = Counting()
    await abort_in_the_middle(memory)
    (both,) = [one for one in memory.appends if [r.kind for r in one.records] == ["heard", "abort"]]
    before = memory.read("", "s-1", 0, both.records[0].seq - 1)
    disk = SimulatedDisk(Tape(1))
    with simulated_files(), closing(open_disk_store(disk)) as store:
        store.create(Opening(records=before, root="s-1", node="n1"))
        if lives == "before":
            disk.fail_sync = lambda name: name.endswith("-wal")
            with pytest.raises(StoreUnavailable):
                store.append([both])
            disk.fail_sync = lambda name: False
        else:
            assert store.append([both]) == (None,)
        kept = store.read("", "s-1", len(before))
        assert kept in ((), both.records)
        assert (kept == both.records) >= (lives == "behind")
        assert store.append([both]) == (None,)
        assert store.read("", "s-1", len(before)) == both.records


async def lived_with_a_host():
    """A session whose host rewrites one call and denies another; its records, what ran, and its state."""
    store = MemoryStore()

    async def judge(call):
        await trio.lowlevel.checkpoint()
        if call.tool_name == "write":
            return HostVerdict(deny="not on Sundays", by="calendar")
        call.input["path"] = "scribbled"  # its own copy
        call.input["deep"][0]["b"] = 2
        return HostVerdict(input={"path": "host", "deep": [{"b": 1}]}, by="audit")

    tools = [RecordingTool(name="read"), RecordingTool(name="write")]
    model = ScriptedModel(
        [calls(("read", {"path": "model", "deep": [{"b": 1}]}), ("write", {"path": "w"})), says("done")]
    )
    async with open_over(store, host=HostHooks(before_tool=judge)) as supervisor:
        session = await supervisor.start_session(model=model, tools=tools, session_id="s-1")
        async with session.subscribe() as events:
            await session.prompt("Go")
            seen = await until(events, AgentEnd)
        messages = await session.messages()
    return store.read("", "s-1"), tools, messages, seen


@pytest.mark.host("H-043")
@pytest.mark.host("H-044")
async def test_a_journal_has_what_the_model_wrote_and_what_ran_instead():
    """And nothing of what a hook scribbles into its own copy, top level and nested."""
    records, (read, write), _, _ = await lived_with_a_host()
    assert (read.calls, write.calls) == ([{"path": "host", "deep": [{"b": 1}]}], [])
    bodies = {}
    for record in records:
        bodies.setdefault(record.kind, []).append(msgspec.json.decode(record.body))
    written = bodies["response_completed"][0]["message"]["content"]
    assert [one["arguments"] for one in written] == [
        {"path": "model", "deep": [{"b": 1}]},
        {"path": "w"},
    ]
    judged = {one["by"]: one for one in bodies["host_judged"]}
    assert judged["audit"]["arguments"] == {"path": "host", "deep": [{"b": 1}]}
    assert judged["calendar"]["deny"] == "not on Sundays"
    assert not [record for record in records if b"scribbled" in record.body]


@pytest.mark.host("H-055")
async def test_a_journal_of_rewrites_and_denies_folds_the_same_without_the_host():
    """Its verdicts are records like others: no hook of it is asked, and none has to be there."""
    records, _, messages, seen = await lived_with_a_host()
    folded = fold_journal(records, Sources())
    assert folded.drift is None
    assert folded.state.data.history.messages[:] == messages
    assert folded.state.data.seq == records[-1].events >= seen[-1].meta.seq
    assert [one.name for one in seen if isinstance(one, ToolBlocked)] == ["write"]
