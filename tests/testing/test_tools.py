"""`LedgerTool`: it counts effects, so that a test can say "exactly once"."""

import pytest

from agentrail.testing.tools import LedgerTool
from tests.runtime.rig import calling, on_virtual_time, open_bare


async def ledger_after(tool):
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=calling("ledger"), tools=[tool])
        await session.ask("Go")


@on_virtual_time
async def test_effects_are_counted_once():
    """Two crashes behind the effect of an idempotent tool are two more calls of one operation; one that came twice, or not, is named."""
    tool = LedgerTool(effect_class="idempotent", crashes=2)
    await ledger_after(tool)
    tool.assert_each_once(1)
    assert len(tool.calls) == 3

    tool = LedgerTool(effect_class="pure", crashes=1)
    await ledger_after(tool)
    with pytest.raises(AssertionError, match="took effect more than once"):
        tool.assert_each_once(1)

    tool = LedgerTool(crashes=1)  # it promises nothing, and is called once, crash or not
    await ledger_after(tool)
    tool.assert_each_once(1)
    with pytest.raises(AssertionError, match="expected 2 effects, there were 1"):
        tool.assert_each_once(2)
