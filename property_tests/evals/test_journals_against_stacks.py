"""Any recorded life is the same beside its own stack; beside another one, the first difference is that of a life with that stack."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
import pytest
from hypothesis import event, given, strategies as st

from agentrail.core.policy.budget import Budget
from agentrail.core.protocol.effects import Effect, Publish, Refuse, ReplyToCaller
from agentrail.core.protocol.signals import StreamFailed
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.errors import ErrorInfo
from agentrail.evals.journals import OtherStack, StackComparison
from agentrail.events import SessionStart, ToolBlocked
from agentrail.testing import strategies
from agentrail.testing.checked_run import Run, Setup
from agentrail.testing.plugins import PuppetPlugin, read_rule
from property_tests.core.test_journals_fold import CONFIGS
from tests.core.journal.recorded import Life, Told, call
from tests.core.worlds import WITH_CLIENT as TOOLS

LIMITS: Final = st.fixed_dictionaries(
    {},
    optional={
        "max_turns": st.sampled_from((1, 2, 3)),
        "max_retries": st.sampled_from((0, 1, 3)),
        "compact_at_tokens": st.sampled_from((1, 30, 200)),
        "max_parallel_tools": st.sampled_from((1, 2)),
        "immune_tools": st.sampled_from((frozenset({"read"}), frozenset({"deploy"}))),
        "tool_max_retries": st.sampled_from((0, 2)),
        "approval_timeout_ms": st.sampled_from((None, 1_000)),
        "budget": st.sampled_from((Budget(max_total_tokens=10), Budget(max_total_tokens=1_000_000))),
    },
)

GUARD = PuppetPlugin((read_rule("BeforeTool.read", "block:no"),), name="the guard", priority=5)


def begun(config: Any, *plugins: PluginEntry) -> Life:
    return Life.begun(Run(Setup(tools=TOOLS, config=config, entries=plugins)).state)


def compared(life: Life, other: OtherStack) -> StackComparison:
    found = StackComparison(life.records, life.sources(), other)
    for _ in found.steps():
        pass
    return found


def decided(effects: Iterable[Effect]) -> list[Effect]:
    """Leave out what tells a caller about the options themselves."""
    return [
        one
        for one in effects
        if not isinstance(one, ReplyToCaller | Refuse)
        and not (isinstance(one, Publish) and isinstance(one.event, SessionStart))
    ]


@pytest.mark.operation(18)
@given(data=st.data(), plugins=strategies.stacks(max_size=3), chosen=CONFIGS)
def test_a_life_is_the_same_beside_its_own_stack(data, plugins, chosen):
    """Kept, given again, and with a limit of its own given again: each way steps other parts of it twice."""
    life = begun(chosen, *plugins)
    life.live_all(data.draw(strategies.scripts(life.start)))
    life.write(life.recorder.flush())
    for other in (
        OtherStack(),
        OtherStack(plugins=lambda recorded: recorded),
        OtherStack(config={"max_turns": chosen.max_turns}),
    ):
        found = compared(life, other)
        assert (found.first, found.what, found.fault, found.at) == (None, "", "", len(life.records))


@pytest.mark.operation(18)
@given(data=st.data(), plugins=strategies.stacks(max_size=2), chosen=CONFIGS)
def test_a_guard_blocks_exactly_what_is_named(data, plugins, chosen):
    """The same signals are lived with the guard, up to the first call that it blocks: from there on the lives are two."""
    life = begun(chosen, *plugins)
    life.live_all(data.draw(strategies.scripts(life.start, names=("read", "deploy"))))
    life.write(life.recorder.flush())
    found = compared(life, OtherStack(plugins=lambda recorded: [*recorded, GUARD]))
    named = [one.call_id for one in found.calls if one.by == GUARD.name and one.change == "blocked"]

    guarded, blocked = begun(chosen, *plugins, GUARD), []
    for signal, _ in life.steps:
        events = [one.event for one in guarded.live(signal) if isinstance(one, Publish)]
        blocked = [one.call_id for one in events if isinstance(one, ToolBlocked) and one.by == GUARD.name]
        if blocked:
            break
    event("blocks" if blocked else "blocks nothing")
    assert named[: len(blocked)] == blocked
    assert (found.first is None) == (not blocked)


def act(session: Told, action: str, number: int) -> None:
    """Go on with a session in one of the ways that a person, a model or a tool can."""
    match action:
        case "prompt":
            session.prompt(f"Look at {number}." * 9)
        case _ if session.life.state.data.stream is None:
            session.finish_tools()
        case "call":
            calls = [call(name, f"{name}{number}", path="a") for name in ("read", "deploy")]
            session.complete("I do.", *calls)
        case "fail":
            error = ErrorInfo(code="overloaded", message="busy", retryable=True)
            session.say(StreamFailed, error=error, jitter=0.5)
        case _:
            session.complete(f"Done with {number}." * 9)


@pytest.mark.operation(18)
@given(
    actions=st.lists(st.sampled_from(("prompt", "call", "fail", "tools", "answer")), min_size=4, max_size=16),
    plugins=strategies.stacks(max_size=2),
    chosen=CONFIGS,
    limits=LIMITS,
)
def test_other_limits_differ_where_a_life_with_them_does(actions, plugins, chosen, limits):
    """The same signals are lived with the other limits, up to the first step that they change."""
    session = Told(begun(chosen, *plugins).start)
    for number, action in enumerate(("prompt", *actions)):
        act(session, action, number)
    life = begun(chosen, *plugins)
    other = begun(msgspec.structs.replace(chosen, **limits), *plugins)
    changed: tuple[int, int] | None = None
    for signal, _ in session.life.steps:
        before, effects = len(life.records), life.live(signal)
        if changed is None and decided(other.live(signal)) != decided(effects):
            changed = before + 1, len(life.records)
    found = compared(life, OtherStack(config=limits))
    event("differs" if changed else "the same")
    assert (found.first is None) == (changed is None)
    assert changed is None or found.first in range(changed[0], changed[1] + 1)
