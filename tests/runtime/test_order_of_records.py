"""What waits for which record: the table of `durability`, line by line. Time is virtual, and worker threads are the loop."""

from contextlib import asynccontextmanager

import pytest
import trio

import agentrail
from agentrail.core.policy.budget import Budget
from agentrail.errors import OptionError, StoreUnavailable
from agentrail.events import AgentEnd, ToolExecutionEnd
from agentrail.host.host_options import HostOptions
from agentrail.outside import installed
from agentrail.runtime.store_writer import COMPANY_SECONDS, Writer
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, ScriptedModel, says
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import RecordingTool
from tests.runtime.nodes import Connection
from tests.runtime.rig import Inline, NoSandbox, calling, on_virtual_time, saying, wants
from tests.runtime.test_store_writer import FakeStore, Heard, record

pytestmark = on_virtual_time


class Disk(Connection):
    """A store of one node.

    Attributes:
        commits: Kinds of the records of each commit, and when it was.
    """

    is_shared = False

    def __init__(self, store=None):
        super().__init__(store or MemoryStore())
        self.commits = []

    def _call(self, name, *args, **options):
        if name == "append" and "append" not in self.refused:
            kinds = tuple(one.kind for append in args[0] for one in append.records)
            self.commits.append((kinds, trio.current_time()))
        return super()._call(name, *args, **options)

    def kinds(self):
        return [kinds for kinds, _ in self.commits]


@asynccontextmanager
async def opened(disk, **options):
    """Open a supervisor over a disk, with its threads in the loop."""
    with installed(Inline()):
        async with open_nameless(lambda _name, _root: NoSandbox(), store=disk, **options) as supervisor:
            yield supervisor


def slow(seconds, *turns):
    """Make a model that answers after some seconds, with these turns."""
    left = list(turns or [says("done")])

    async def answer(_request):
        await trio.sleep(seconds)
        return left.pop(0)

    return FunctionModel(answer)


# --- a cycle


@pytest.mark.parametrize(
    ("durability", "expected"),
    [
        (
            "grouped",
            [
                ("started", "prompt", "stream_started", "response_completed"),
                ("tool_finished", "stream_started", "response_completed"),
            ],
        ),
        (
            "strict",
            [
                ("started",),
                ("prompt",),
                ("stream_started",),
                ("response_completed",),
                ("tool_finished",),
                ("stream_started",),
                ("response_completed",),
            ],
        ),
    ],
)
async def test_a_cycle_commits_before_its_tool_and_before_its_answer(durability, expected):
    """That is all that a quick model needs. With `strict`, each effect waits for its own record."""
    disk, tool = Disk(), RecordingTool()
    async with opened(disk, durability=durability) as supervisor:
        session = await supervisor.start_session(model=calling("record"), tools=[tool], session_id="s-1")
        assert await session.ask("Hi") == "done"
        found = disk.kinds()
    if durability == "grouped":
        assert found == expected
    else:  # which of them share a commit is the chance of the loop
        assert [kind for one in found for kind in one] == [kind for one in expected for kind in one]
        assert len(found) >= 4


async def test_a_receipt_is_committed_at_once():
    """Its caller waits for it, while the request is on its way."""
    disk, model = Disk(), slow(1.0)
    async with opened(disk) as supervisor:
        session = await supervisor.start_session(model=model, session_id="s-1")
        await trio.sleep(1.0)
        began = trio.current_time()
        await session.prompt("Hi")
        assert trio.current_time() == began
        assert disk.commits[-1] == (("prompt",), began)
        assert len(model.requests) == 1
        await session.collect_reply()


async def test_an_event_waits_with_its_record_for_company():
    """No reader sees it before; it comes 5 ms later if no other record does, and at once with `strict`."""
    for durability, delay in (("grouped", COMPANY_SECONDS), ("strict", 0.0)):
        disk = Disk()
        async with opened(disk, durability=durability) as supervisor, trio.open_nursery() as nursery:
            session = await supervisor.start_session(model=slow(1.0), session_id="s-1")
            await trio.sleep(1.0)
            async with session.subscribe() as events:
                began = trio.current_time()
                nursery.start_soon(session.ask, "Hi")
                await anext(aiter(events))
                assert trio.current_time() - began == pytest.approx(delay)
                assert disk.commits[-1] == (("prompt",), pytest.approx(began + delay))


async def test_a_result_of_a_batch_waits_for_company():
    """As long as other calls run, only its event waits; what a tool has done is done."""
    disk = Disk()

    class Slower(RecordingTool):
        async def execute(self, arguments, ctx):
            await trio.sleep(1.0)
            return await super().execute(arguments, ctx)

    tools = [RecordingTool(name="quick"), Slower(name="slow")]
    async with opened(disk) as supervisor:
        session = await supervisor.start_session(
            model=calling("quick", "slow"), tools=tools, session_id="s-1"
        )
        began = trio.current_time()
        async with session.subscribe() as events, trio.open_nursery() as nursery:
            nursery.start_soon(session.ask, "Hi")
            async for event in events:
                if isinstance(event, ToolExecutionEnd):
                    break
            assert trio.current_time() - began == pytest.approx(COMPANY_SECONDS)
            assert disk.commits[-1] == (("tool_finished",), pytest.approx(began + COMPANY_SECONDS))


async def test_the_end_of_a_cycle_is_committed_at_once():
    """Also if no caller waits for its answer: a reader of events does."""
    disk = Disk()
    async with opened(disk) as supervisor:
        session = await supervisor.start_session(model=slow(1.0), session_id="s-1")
        await trio.sleep(1.0)
        async with session.subscribe() as events:
            began = trio.current_time()
            await session.prompt("Hi")
            async for event in events:
                if isinstance(event, AgentEnd):
                    break
            assert trio.current_time() - began == 1.0
        assert disk.commits[-1] == (("stream_started", "response_completed"), began + 1.0)


async def test_an_answer_that_has_no_record_waits_for_no_company():
    """A status tells what earlier records made true, so they are written first, at once."""
    disk = Disk()
    async with opened(disk) as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.start_session(model=slow(1.0), session_id="s-1")
        await trio.sleep(1.0)
        began = trio.current_time()
        nursery.start_soon(session.ask, "Hi")
        await trio.testing.wait_all_tasks_blocked()
        assert disk.kinds()[-1] == ("started",)
        assert (await session.status()).phase != "idle"
        assert (disk.kinds()[-1], trio.current_time()) == (("prompt",), began)


# --- a request before its record


@pytest.mark.parametrize(
    ("options", "of_session", "is_sent"),
    [
        ({}, {}, True),
        ({"durability": "strict"}, {}, False),
        ({}, {"budget": Budget(max_total_tokens=1_000_000), "max_output_tokens": 100}, False),
    ],
    ids=["grouped", "strict", "budget"],
)
async def test_a_request_leaves_before_its_record(options, of_session, is_sent):
    """Not with `strict`, and not with a budget: what it may cost must be known before. No event and no answer leaves in any case."""
    disk, model = Disk(), saying("done")
    async with opened(disk, **options) as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.start_session(model=model, session_id="s-1", **of_session)
        await trio.sleep(1.0)
        answers = []
        async with session.subscribe() as events:
            disk.cut("append")
            nursery.start_soon(lambda: _ask(session, answers))
            await trio.sleep(1.0)
            assert (len(model.requests), answers) == (int(is_sent), [])
            with pytest.raises(trio.WouldBlock):
                events.next_nowait()
            disk.mend()
            await trio.sleep(1.0)
        assert (len(model.requests), answers) == (1, ["done"])


async def _ask(session, answers, text="Hi"):
    answers.append(await session.ask(text))


async def test_no_request_to_a_model_leaves_a_node_of_a_shared_store_before_its_record():
    """There only an answered append shows that the node is still the owner."""
    store, model = Connection(MemoryStore()), saying("done")
    with installed(Inline()):
        async with (
            open_nameless(lambda _name, _root: NoSandbox(), store=store) as supervisor,
            trio.open_nursery() as nursery,
        ):
            session = await supervisor.start_session(model=model, session_id="s-1")
            await trio.sleep(1.0)
            store.cut("append")
            nursery.start_soon(session.ask, "Hi")
            await trio.sleep(1.0)
            assert not model.requests
            store.mend()
            await trio.sleep(1.0)
            assert len(model.requests) == 1


async def test_one_request_is_ahead_of_the_journal():
    """The next one waits, so that a crash makes one unknown at most. A store that is away is asked for no more than that."""
    disk, model = Disk(), saying("a", "b")
    async with opened(disk) as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.start_session(model=model, session_id="s-1")
        await trio.sleep(1.0)
        disk.cut("append")
        answers = []
        for text in ("first", "second"):
            nursery.start_soon(_ask, session, answers, text)
            await trio.sleep(1.0)
        assert (len(model.requests), answers) == (1, [])
        disk.mend()
        await trio.sleep(1.0)
        assert (len(model.requests), answers) == (2, ["a", "b"])


async def test_nothing_is_sent_ahead_while_the_store_is_unavailable():
    """Its patience is over, so nothing new begins."""
    disk, model = Disk(), ScriptedModel([wants("record"), says("done"), says("more")])
    tool = Held(name="record")
    async with opened(disk) as supervisor:
        session = await supervisor.start_session(model=model, tools=[tool], session_id="s-1")
        await session.prompt("Hi")
        await tool.is_running.wait()
        disk.cut("append")
        with pytest.raises(StoreUnavailable):
            await session.prompt("And then?")
        tool.may_end.set()
        await trio.sleep(1.0)
        assert len(model.requests) == 1
        disk.mend()
        await trio.sleep(1.0)
        assert len(model.requests) == 3


class Held(RecordingTool):
    """A tool that runs until it is let."""

    def __init__(self, **options):
        super().__init__(**options)
        self.is_running, self.may_end = trio.Event(), trio.Event()

    async def execute(self, arguments, ctx):
        self.is_running.set()
        await self.may_end.wait()
        return await super().execute(arguments, ctx)


async def test_a_crash_forgets_a_request_that_was_ahead_and_nothing_that_was_told():
    """The journal knows neither the prompt nor its request. Its caller was told nothing, repeats it, and it is there once."""
    inner = MemoryStore(lease_ms=0)
    first, model = Disk(inner), saying("done")
    async with opened(first, store_patience=0.2) as supervisor:
        session = await supervisor.start_session(model=model, session_id="s-1")
        await trio.sleep(1.0)
        first.cut()  # as of a process that is killed: nothing of it reaches the store any more
        with pytest.raises(StoreUnavailable):
            await session.ask("Hi", client_id="c-1")
    assert len(model.requests) == 1
    again = saying("done")
    async with opened(Disk(inner)) as supervisor:
        session = await supervisor.resume_session("s-1", model=again)
        assert await session.messages() == ()
        assert await session.ask("Hi", client_id="c-1") == "done"
        assert len(await session.messages()) == 2
        assert len(again.requests) == 1


# --- the writer, and the option


async def test_records_without_hurry_wait_for_the_first_that_has_some():
    """Up to 5 ms from the first of them; then all are one commit."""
    store, first, second = FakeStore(), Heard(), Heard()
    writer = Writer(store, patience_seconds=5, outside=Inline())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        began = trio.current_time()
        writer.put(first, [record(1)], may_wait=True)
        await trio.sleep(0.004)
        writer.put(second, [record(1, "s-2")], may_wait=True)
        assert store.batches == []
        await trio.sleep(0.002)
        assert store.batches == [[[1], [1]]]
        writer.put(first, [record(2)], may_wait=True)
        await trio.sleep(0.001)
        writer.put(second, [record(2, "s-2")])
        await trio.testing.wait_all_tasks_blocked()
        assert store.batches[1:] == [[[2], [2]]]
        assert trio.current_time() == began + 0.007
        writer.put(first, [record(3)], may_wait=True)
        await writer.call(lambda: None)  # no company: it is no record
        assert len(store.batches) == 2
        await writer.wait_empty()
        assert store.batches[2:] == [[[3]]]
        assert trio.current_time() == began + 0.007
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("durability", ["none", None, 1])
async def test_an_unknown_durability_is_refused(durability):
    """Where the store is configured, naming both."""
    with pytest.raises(OptionError, match=r"durability is .*: expected 'grouped' or 'strict'"):
        async with agentrail.open_supervisor(store="memory:", durability=durability):
            pass
    with pytest.raises(OptionError, match=r"durability is .*: expected 'grouped' or 'strict'"):
        HostOptions(durability=durability)
