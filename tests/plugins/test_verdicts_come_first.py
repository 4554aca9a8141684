"""A guard's verdict is there before any effect that it guards begins: for prompts, for calls, for answers (AT-117)."""

from typing import Any

import pytest
from hypothesis import settings

from agentrail import plugins as p
from agentrail.core.protocol.actions import CallModel
from agentrail.core.protocol.effects import Publish, RunPluginRequest, RunTool, SpawnChild, StartStream
from agentrail.events import AgentEnd, AgentStart
from agentrail.testing import stacks

JUDGE = "demo:judge"


class Jail(p.Plugin[tuple[str, ...]]):
    """Refuses calls with a word in them, and remembers which calls it has seen."""

    priority = 10

    def init(self) -> tuple[str, ...]:
        return ()

    @p.on(p.BeforeTool)
    def judge(self, event: p.BeforeTool, seen: tuple[str, ...], ctx: p.Context) -> p.Action[tuple[str, ...]]:
        seen = (*seen, event.call_id)
        return p.BlockTool("no", seen) if "shell" in event.name else p.Continue(seen)


Guarded: Any = stacks.stack_machine(
    [
        Jail,
        (p.ContentPolicy, {"rubric": "Be kind.", "judge_model": JUDGE}),
        (p.Reflection, {"reviewer_model": JUDGE}),
    ]
)


Guarded.__test__ = False  # what is derived from it is tested


@pytest.mark.check  # the lives below are as wild, and counted
class GuardedSession(Guarded):  # type: ignore[misc]  # a class that was just made
    """Any order of signals, and after each: nothing has begun that a guard has not let through."""

    @stacks.invariant
    def no_prompt_starts_before_its_judge_has_spoken(self, session):
        """A cycle begins in the step that brings the verdict, or the word that there is none; never in the one that asks for it."""
        step = session.run[-1]
        # A turn without new words has no prompt that could be refused.
        for event in step.events:
            if isinstance(event, AgentStart) and not event.goes_on:  # it may have failed in this very step
                was = step.before.data.held
                assert was is not None
                assert was.prompt is not None
                assert was.prompt.ref == event.ref

    @stacks.invariant
    def nothing_is_asked_of_the_world_for_a_prompt_that_is_judged(self, session):
        """While it is held there is no request and no call: only the question to the judge. What an abort spared goes on."""
        held, data = session.state.data.held, session.state.data
        if held is not None and held.prompt is not None and data.cycle is None:
            spared = {one.call.call_id for one in data.survivors}
            assert not any(
                isinstance(one, StartStream | RunTool | SpawnChild)
                and getattr(one, "call_id", None) not in spared
                for one in session.run[-1].effects
            )

    @stacks.invariant
    def no_call_runs_before_the_guard_has_seen_it(self, session):
        """Each call that runs was shown to the guard, which let it run."""
        for run in session.run[-1].of(RunTool):
            assert run.call_id in session.plugin_state("Jail")
            assert "shell" not in run.name

    @stacks.invariant
    def no_answer_is_returned_while_its_reviewer_thinks(self, session):
        """The end of a cycle is published in no step that leaves its review open."""
        held = session.state.data.held
        if held is not None and held.stop_reason is not None:
            ended = [one for one in session.run[-1].effects if isinstance(one, Publish)]
            assert not any(isinstance(one.event, AgentEnd) for one in ended[-1:])
            assert session.state.data.cycle is not None


@pytest.mark.check
@pytest.mark.at(117)
def test_verdicts_come_before_what_they_guard():
    """In many lives of any order; and the lives are such that judges are asked, and cycles begin."""
    lives = min(200, 4 * settings.default.max_examples)
    asked, begun = [], []

    class Counted(GuardedSession):
        __test__ = False

        @stacks.invariant
        def count(self, session):
            """Count what has to happen for this test to mean anything."""
            step = session.run[-1]
            asked.extend(one for one in step.of(RunPluginRequest) if isinstance(one.wanted, CallModel))
            begun.extend(event for event in step.events if isinstance(event, AgentStart))

    tally = stacks.check_stack(Counted, examples=lives, seed=0, max_signals=25, tours=False)
    assert tally.found is None, str(tally.found)
    assert len(asked) > len(begun) > lives / 4
