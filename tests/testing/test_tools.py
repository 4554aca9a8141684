"""`LedgerTool`: it counts effects, so that a test can say "exactly once"."""

import pytest

from agentrail.testing.tools import LedgerTool
from tests.runtime.rig import calling, on_virtual_time, open_bare


async def ledger_after(tool):
    """Let a session call it once."""
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=calling("ledger"), tools=[tool])
        await session.ask("Go")


@on_virtual_time
async def test_a_retry_of_an_idempotent_tool_takes_effect_once():
    """Two crashes behind the effect are two more calls of one operation."""
    tool = LedgerTool(effect_class="idempotent", crashes=2)
    await ledger_after(tool)
    tool.assert_each_once(1)
    assert len(tool.calls) == 3


@on_virtual_time
async def test_an_effect_that_came_twice_is_named():
    """A tool that is called again and does not know what it has done."""
    tool = LedgerTool(effect_class="pure", crashes=1)
    await ledger_after(tool)
    with pytest.raises(AssertionError, match="took effect more than once"):
        tool.assert_each_once(1)


async def test_an_effect_that_did_not_come_is_missed():
    """Once is what a tool does that promises nothing, crash or not."""
    tool = LedgerTool(crashes=1)
    await ledger_after(tool)
    tool.assert_each_once(1)
    with pytest.raises(AssertionError, match="expected 2 effects, there were 1"):
        tool.assert_each_once(2)
