"""The fence of a tool call: a table that compares epochs refuses a node that lost its session."""

import re
import sqlite3
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio

from agentrail import Error, ToolContext, tool
from agentrail.abc.store import Append, Standing
from agentrail.core.journal.record import Draft, sealed
from agentrail.errors import SessionDown
from agentrail.events import AgentEnd
from agentrail.testing.models import FunctionModel, calls, says
from tests.runtime.nodes import node_over, shared_store
from tests.runtime.rig import calling, on_virtual_time, open_bare, until

pytestmark = on_virtual_time

PAGE = Path("docs/how-to/fence-effects.md")


def example():
    """The table of the page, with its function."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names = {}
    exec(code, names)  # noqa: S102 - an example of the docs
    database = sqlite3.connect(":memory:")
    database.executescript(names["SCHEMA"])
    return database, names["charge"]


@pytest.mark.machine(21)
async def test_a_stalled_call_of_a_lost_session_is_refused_and_the_ledger_has_it_once():
    """A stalled call of a lost session is refused and the ledger has it once."""
    database, charge = example()
    store, _ = shared_store()
    refused, begun = [], trio.Event()

    @tool(effect_class="idempotent")
    async def pay(ctx: ToolContext) -> str | Error:
        """Pay."""
        if not begun.is_set():
            begun.set()
            with trio.CancelScope(shield=True):  # stands for a stop of the process just before its effect
                await trio.sleep(30)
        if charge(database, ctx.fence, ctx.operation_id, 20):
            return "paid"
        refused.append(ctx.fence)
        return Error(text="not paid")

    def options(_opening=None):
        def answer(request):
            return says("done") if "paid" in str(request.messages[-1]) else calls(("pay", {}))

        return {"model": FunctionModel(answer), "tools": [pay]}

    async with AsyncExitStack() as stack:
        one, first = await stack.enter_async_context(node_over(store, revive=options))
        session = await one.start_session(session_id="s", **options())
        await session.prompt("Hi")
        await begun.wait()
        first.cut()
        two, _ = await stack.enter_async_context(node_over(store, revive=options))
        await trio.sleep(20)
        async with two.session("s").subscribe(after=0) as events:
            await until(events, AgentEnd)
        await trio.sleep(20)
    assert refused == [("s", 1)]
    assert database.execute("SELECT count(*), sum(euros) FROM charge").fetchone() == (1, 20)
    assert database.execute("SELECT * FROM owner").fetchall() == [("s", 2)]
    database.close()


async def test_a_session_without_a_store_has_epoch_0():
    """A session without a store has epoch 0."""
    seen = []

    @tool
    async def look(ctx: ToolContext) -> str:
        """Look."""
        seen.append(ctx.fence)
        return "looked"

    async with open_bare() as supervisor:
        session = await supervisor.start_session(session_id="s", model=calling("look"), tools=[look])
        await session.ask("Hi")
    assert seen == [("s", 0)]


@pytest.mark.parametrize("writes_after", [True, False])
@pytest.mark.parametrize("writes_before", [True, False])
async def test_a_take_that_was_overtaken_before_its_read_passes_no_fence(writes_before, writes_after):
    """A node stands still after its take, and another one takes the session. The first does not continue with the epoch that it then reads.

    The owner before may have written since the first read of the journal, which is then read from its beginning. The owner after may have written too.
    """
    store, _ = shared_store()
    options = {"model": FunctionModel(lambda _: says("done"))}
    async with node_over(store) as (before, _):
        await before.start_session(session_id="s", **options)
    async with node_over(store, resume="none") as (one, connection):

        def write(row):
            draft = Draft(at_ms=1, kind="recovered", body=b'{"cause":"gone"}', events=row.events)
            records, _ = sealed([draft], row.tail, scope="", session="s")
            assert store.append([Append(records=records, standing=Standing())]) == (None,)

        def take(*args, **given):
            if writes_before:
                write(store.get("", "s"))
            taken = store.take(*args, **given)
            store.gone(one.nodes.node.id)
            (later,) = store.take("", "s", "n-3", "gone").sessions
            if writes_after:
                write(later)
            return taken

        connection.take = take
        session = await one.resume_session("s", **options)
        with pytest.raises(SessionDown, match="taken over"):
            await session.prompt("Hi")
    row = store.get("", "s")
    assert (row.node, row.tail.epoch) == ("n-3", 3)
    last = ["taken", "recovered"] if writes_after else ["taken", "taken"]
    assert [record.kind for record in store.read("", "s", row.tail.seq - 2)] == last
