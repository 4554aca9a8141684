"""What a person approves is what runs, whatever the person edits and whatever the guards make of that (3.9, 6.5)."""

from typing import Final

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.protocol.effects import RunTool
from agentrail.core.protocol.signals import Approve, Prompt, Signal, SignalId
from agentrail.core.session.machine import new_session
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.values.toolbox import read_call
from agentrail.events import Approval
from agentrail.messages import PromptRef, Text
from tests.core.worlds import TOOLS, completed, config, run, walk

PATHS: Final = "abcd"
MAPS: Final = st.dictionaries(st.sampled_from(PATHS), st.sampled_from(PATHS))
CALLED: Final[list[Signal]] = [
    Prompt(at_ms=1, signal_id=SignalId("p1"), ref=PromptRef("p1"), content=(Text(text="go"),)),
    completed("r1", read_call("c1", "read", '{"path": "a"}')),
]


class _Guard(p.Plugin[int]):
    """A safety plugin that has paths replaced by others, in circles perhaps, and wants a person for each."""

    priority = 10

    def __init__(self, name: str, instead: dict[str, str]) -> None:
        super().__init__(name=name)
        self._instead = instead

    def init(self) -> int:
        return 0

    @p.on(p.BeforeTool)
    def judge(self, event: p.BeforeTool, state: int, ctx: p.Context) -> p.Action[int]:
        path = str(event.arguments["path"])
        if path in self._instead:
            return p.ReplaceToolArgs({"path": self._instead[path]}, state)
        return p.RequireApproval("may it?", state)


@pytest.mark.at(61)
@given(
    maps=st.lists(MAPS, min_size=1, max_size=3),
    edits=st.lists(st.none() | st.sampled_from(PATHS), max_size=6),
    kind=st.sampled_from(("once", "always")),
)
def test_nothing_runs_that_nobody_was_shown(maps, edits, kind):
    """Each approval runs what it showed, or what the person wrote; what a guard made of that is shown first."""
    guards = [_Guard(f"guard{number}", instead) for number, instead in enumerate(maps)]
    stack, states = load_stack([(guard, {}) for guard in guards])
    state = run(CALLED, new_session(config(), TOOLS, stack, states))
    for number, edit in enumerate([*edits, None]):
        if not state.data.interactions:
            break
        (waiting,) = state.data.interactions
        assert isinstance(waiting.asked, Approval)
        approve = Approve(
            at_ms=2 + number,
            signal_id=SignalId(f"y{number}"),
            approval_id=waiting.asked.id,
            how=kind,
            arguments=None if edit is None else {"path": edit},
        )
        *_, seen = walk([approve], state)
        state = seen.after
        agreed = waiting.asked.arguments if edit is None else {"path": edit}
        assert [ran.arguments for ran in seen.of(RunTool)] in ([], [agreed])
        assert not state.data.rules or seen.of(RunTool)
    # Whoever changes nothing any more has decided: no guard is asked about the same once more.
    assert not state.data.interactions
