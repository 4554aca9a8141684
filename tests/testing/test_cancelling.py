"""`cancel_everywhere`: it strikes at every step, and notices what a blow leaves behind."""

import pytest
import trio

from agentrail.errors import CycleFailed
from agentrail.testing.cancelling import cancel_everywhere
from agentrail.testing.models import FunctionModel, ScriptedModel, says
from tests.runtime.rig import saying
from tests.thinned import first

MODES = ["cancel", "close", "abort", "steer", "crash"]


async def plain(stage):
    session = await stage.start_session(model=FunctionModel(lambda request: says("ok")))
    assert (await session.ask("Hi")).startswith("ok")  # who is steered says it again


@pytest.mark.parametrize("mode", first(MODES, 2))
async def test_each_step_is_struck_once(mode):
    """As many rounds as the scenario has steps, and one in which it gets through."""
    starts = []

    async def counted(stage):
        starts.append(stage)
        await plain(stage)

    rounds = await cancel_everywhere(counted, mode=mode)
    assert len(starts) == rounds > 10


async def test_a_scenario_that_leaves_a_task_behind_is_found():
    """The note says in which mode, and at which step."""
    async with trio.open_nursery() as nursery:

        async def leaky(stage):
            nursery.start_soon(trio.sleep_forever, name="leak")
            await plain(stage)

        with trio.fail_after(60), pytest.raises(AssertionError, match="task 'leak'") as caught:
            await cancel_everywhere(leaky, within_seconds=0)
        assert caught.value.__notes__ == ["cancel_everywhere, mode 'cancel': struck at step 1"]
        nursery.cancel_scope.cancel()


async def test_what_the_scenario_raises_is_told(monkeypatch):
    """An assertion is not taken for the end of a cycle, nor a failed cycle for one that was struck; after so many rounds it is too long."""

    def asking(model, answer=None):
        async def scenario(stage):
            session = await stage.start_session(model=model() if callable(model) else model)
            assert await session.ask("Hi") == answer

        return scenario

    with pytest.raises(AssertionError, match="something else"):
        await cancel_everywhere(asking(lambda: saying("ok"), "something else"), mode="abort")
    with pytest.raises(CycleFailed, match="the script has 0 turns"):
        await cancel_everywhere(asking(lambda: ScriptedModel([])))
    # Models are objects: a name would have to be looked up in the world.
    with pytest.raises(Exception, match=r"a test resolves no model strings .got 'demo:'"):
        await cancel_everywhere(asking("demo:"), mode="crash")
    monkeypatch.setattr("agentrail.testing.cancelling.MAX_ROUNDS", 3)
    with pytest.raises(AssertionError, match="still running after 3 rounds; shorten the scenario"):
        await cancel_everywhere(plain)
