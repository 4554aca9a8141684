"""Any recorded life is the same beside its own stack; beside another one, the first difference is that of a life with that stack."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, TypeAlias

import msgspec
import pytest
from hypothesis import event, given, strategies as st

from agentrail.cli.store_access import sources_of
from agentrail.core.policy.budget import Budget
from agentrail.core.protocol.effects import Effect, Publish, Refuse, ReplyToCaller
from agentrail.core.protocol.signals import StreamFailed
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.core.wire.codec import encode_signal
from agentrail.errors import AgentrailError, ErrorInfo
from agentrail.evals.journals import OtherStack, StackComparison
from agentrail.events import SessionStart, ToolBlocked
from agentrail.messages import SessionId
from agentrail.plugins import Permissions, SecurityGuard
from agentrail.runtime.session_loader import read_after
from agentrail.stores.memory import MemoryStore
from agentrail.testing import strategies
from agentrail.testing.checked_run import Run, Setup
from agentrail.testing.digest import Digest, run_seeded
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import RecordingTool
from property_tests.core.test_journals_fold import CONFIGS
from tests.core.journal.recorded import Life, Told, call
from tests.core.worlds import WITH_CLIENT as TOOLS
from tests.runtime.rig import NoSandbox

Decisions: TypeAlias = list[tuple[str, list[str]]]
"""Each signal of a run, with what was decided about it."""

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


ALLOWED: Final = ("look", "deploy", "shell(ls *)", "shell(rm *)")
ASKED: Final = (
    ("look", {"path": "a"}),
    ("look", {"path": ".env"}),
    ("deploy", {"path": "a"}),
    ("shell", {"command": "ls"}),
    ("shell", {"command": "rm -rf /"}),
)
CYCLES: Final = st.lists(st.lists(st.sampled_from(ASKED), min_size=1, max_size=2), min_size=1, max_size=2)
PERMITTED: Final = (Permissions, {"allow": ALLOWED})
CHANGES: Final = {
    "a guard": st.just({"plugins": (PERMITTED, SecurityGuard)}),
    "a permission": st.builds(
        lambda gone, key: {"plugins": ((Permissions, {"allow": sorted({*ALLOWED} - {gone}), **key}),)},
        st.sampled_from(ALLOWED),
        st.sampled_from(({}, {"deny": ["deploy"]})),
    ),
    "a bound": st.builds(
        lambda bound: {"config": {"compact_at_tokens": bound}}, st.sampled_from((1, 60, 120, 300))
    ),
}


def run_for_real(script: Any, plugins: Any = (PERMITTED,), **options: Any) -> tuple[MemoryStore, Decisions]:
    """Run a session under a supervisor. Nobody answers its approvals."""
    store = MemoryStore(lease_ms=0)
    batches = [batch for batches in script for batch in (*batches, [])]
    turns = [
        calls(*batch) if batch else says(f"Done with {number}. " * 9) for number, batch in enumerate(batches)
    ]

    async def main(_digest: Digest) -> None:
        async with open_nameless(lambda _name, _root: NoSandbox(), store=store) as supervisor:
            session = await supervisor.start_session(
                session_id="s",
                model=ScriptedModel([*turns, *[says("Enough.")] * 20]),
                tools=[RecordingTool(name=name) for name in ("look", "deploy", "shell")],
                plugins=plugins,
                approval_timeout_seconds=1,
                **options,
            )
            for number in range(len(script)):
                with suppress(AgentrailError):
                    await session.ask(f"Look at {number}. " * 9)

    decisions: Decisions = []
    for kind, _, said in (line.partition(" ") for line in run_seeded(main, 7, keep_lines=True).lines):
        if kind == "signal":
            decisions.append((said, []))
        elif kind != "step" and not said.startswith(("ReplyToCaller", "Refuse", '{"kind":"session_start"')):
            decisions[-1][1].append(said)
    return store, decisions


def calls_judged(said: Iterable[str]) -> set[tuple[str, str]]:
    """The calls that were blocked or asked about, of what a run decided."""
    found = [msgspec.json.decode(one) for one in said if one.startswith('{"kind":')]
    blocked = {("blocked", one["call_id"]) for one in found if one["kind"] == "tool_blocked"}
    asked = [one["approval"] for one in found if one["kind"] == "approval_required"]
    return blocked | {("asked about", one["call_id"]) for one in asked}


@pytest.mark.operation(18)
@pytest.mark.parametrize("kind", CHANGES)
@given(data=st.data(), script=st.lists(CYCLES, min_size=1, max_size=3))
def test_the_first_difference_is_that_of_a_real_run(kind, data, script):
    """Two supervisors get the same prompts and the same scripted model: one with the recorded stack, one with the other."""
    change = data.draw(CHANGES[kind])
    store, recorded = run_for_real(script)
    _, changed = run_for_real(script, change.get("plugins", (PERMITTED,)), **change.get("config", {}))
    signal, judged = None, set[tuple[str, str]]()
    for one, other in zip(recorded, changed, strict=False):
        assert one[0] == other[0]
        if one[1] != other[1]:
            signal, judged = one[0], calls_judged(other[1]) - calls_judged(one[1])
            break
    sources = sources_of(SessionId("s"), store.blob)
    found = StackComparison(read_after(store, "", SessionId("s"), 0), sources, OtherStack(**change))
    signals = {walked.record.seq: walked.signal for walked, _ in found.steps()}
    event(f"{'differs' if signal else 'the same'} {found.what}")
    assert (None if found.first is None else encode_signal(signals[found.first]).decode()) == signal
    assert {(one.change, one.call_id) for one in found.calls if one.record == found.first} == judged
