"""`FaultPlan`: the same seed gives the same run, and whatever it does the promises hold."""

from contextlib import suppress

import pytest
import trio

from agentrail.errors import CycleFailed, OptionError
from agentrail.testing.cancelling import check_events, check_history, check_nothing_lost
from agentrail.testing.clock import set_date
from agentrail.testing.faults import FaultPlan
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import LedgerTool, RecordingTool
from tests.runtime.rig import open_bare


def run(seed):
    """Hold three conversations under a plan; give its faults, the events, and what the subscriber saw."""
    plan = FaultPlan(seed, rate=0.4)

    async def main():
        set_date()

        def answer(request):
            wants = len(request.messages) % 3 == 1
            return calls(("record", {}), ("ledger", {})) if wants else says("one ", "two ", "three")

        ledger = LedgerTool(effect_class="idempotent")
        async with open_bare() as supervisor, trio.open_nursery() as nursery:
            session = await supervisor.start_session(
                model=plan.model(FunctionModel(answer)),
                tools=[plan.tool(RecordingTool(effect_class="pure")), plan.tool(ledger)],
                session_id="one",
            )
            seen = []

            async def follow():
                seen.extend(await plan.follow(session))

            nursery.start_soon(follow)
            for prompt in ("a", "b"):
                await session.prompt(prompt)
            with suppress(CycleFailed):
                await session.ask("c")
            messages = await session.messages()
            await session.stop()
        check_history(messages)
        check_events(seen)
        check_nothing_lost(seen, messages)
        assert len(set(ledger.effects)) == len(ledger.effects)
        return plan.faults, [type(event).__name__ for event in seen]

    return plan.run(main)


@pytest.mark.at(159)
@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"seed": "a"}, "seed is 'a'"),
        ({"seed": 1, "rate": 5}, "rate is 5: expected a number from 0 to 1"),
        ({"seed": 1, "rate": float("nan")}, "rate is nan"),
    ],
)
def test_a_plan_that_cannot_be_drawn_is_refused(given, fault):
    """A rate above 1 would be one of 1, and NaN none."""
    with pytest.raises(OptionError, match=fault):
        FaultPlan(**given)


def test_the_same_seed_gives_the_same_run():
    """The same faults in the same order, and the same events; some run has faults of models, tools and subscribers, and no two are alike."""
    runs = [run(seed) for seed in range(6)]
    assert runs == [run(seed) for seed in range(6)]
    faults = " ".join(fault for faults, _ in runs for fault in faults)
    assert all(word in faults for word in ("fails", "crashes before", "crashes after its work"))
    assert len({tuple(faults) for faults, _ in runs}) == len(runs)
