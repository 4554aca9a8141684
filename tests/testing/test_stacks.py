"""Stacks of plugins under any order of signals: what is found, how short it is, and what it looks like."""

import subprocess
import sys
import unittest
from dataclasses import dataclass
from typing import Annotated

import msgspec
import pytest
from attrs import evolve, frozen
from hypothesis import given, settings, strategies as st

import agentrail
from agentrail import plugins as p
from agentrail.messages import UserMessage
from agentrail.testing import stacks, strategies
from agentrail.testing.plugins import PUPPET_ACTIONS, PuppetPlugin, read_rule
from agentrail.testing.scenario import play, read_scenario
from tests.testing import planted
from tests.thinned import sample

EXAMPLES = 400
# What finds nothing goes on to the last example: `make check` has all of them, `make test` a part.
IN_VAIN = min(EXAMPLES, 8 * settings().max_examples)
LIVES = min(40, 2 * settings().max_examples)


@dataclass
class Where:
    """An argument with fields."""

    city: str
    number: int


def puppet(name: str, priority: int, **rules: str) -> PuppetPlugin:
    """A plugin by its rules; `BeforeTool__shell` stands for `BeforeTool.shell`."""
    read = tuple(read_rule(key.replace("__", "."), value) for key, value in rules.items())
    return PuppetPlugin(read, name=name, priority=priority)


COMMUTE = {
    "guards of different tools": (
        puppet("one", 10, BeforeTool__shell="block:no"),
        puppet("two", 20, BeforeTool__write_file="block:no"),
    ),
    "hooks that are not the same": (
        puppet("one", 500, BeforePrompt="emit:asked"),
        puppet("two", 600, BeforeFinish="emit:done"),
    ),
    "events of their own": (
        puppet("one", 500, AfterTool="emit:one"),
        puppet("two", 600, AfterTool="emit:two"),
    ),
    "results of different tools": (
        puppet("one", 500, AfterTool__shell="result:[hidden]"),
        puppet("two", 600, AfterTool__read_file="result:[hidden]"),
    ),
    "a section and a switch": (
        puppet("one", 500, BeforeRequest="section:Today is Friday."),
        puppet("two", 600, AfterToolBatch="model:scripted:other"),
    ),
}

DO_NOT_COMMUTE = {
    "two that rewrite the same": (
        puppet("one", 500, BeforeTool__shell='args:{"command": "ls"}'),
        puppet("two", 600, BeforeTool__shell='args:{"command": "pwd"}'),
    ),
    "two that speak": (
        puppet("one", 500, BeforeFinish="intervene:once more"),
        puppet("two", 600, BeforeFinish="intervene:and slowly"),
    ),
    "one that stops the other": (
        puppet("one", 500, BeforePrompt="skip"),
        puppet("two", 600, BeforePrompt="intervene:be brief"),
    ),
    "two models": (
        puppet("one", 500, BeforeRequest="model:scripted:one"),
        puppet("two", 600, BeforeRequest="model:scripted:two"),
    ),
    "two reasons": (
        puppet("one", 10, BeforeTool="block:not today"),
        puppet("two", 20, BeforeTool="block:not here"),
    ),
}


@pytest.mark.check  # like the mutants: what is planted is found
@pytest.mark.parametrize("bug", planted.BUGS)
def test_a_planted_bug_is_found_and_told_in_six_signals(bug):
    """Each bug is found within a few hundred sessions, by the promise that it breaks; the shorter of two finds has six signals at most."""
    stack, rule, words = planted.BUGS[bug]
    machine = stack if isinstance(stack, type) else stacks.stack_machine(stack)
    finds = [stacks.check_stack(machine, examples=EXAMPLES, seed=seed).found for seed in (1, 2)]
    for found in finds:
        assert found is not None
        assert found.rule == rule
        assert words in found.why
    assert min(len(found.signals) for found in finds) <= 6, str(finds[0])


def test_a_counter_example_is_a_scenario_that_can_be_read_back():
    """It plays again to the same text; a stack that was imported is written by its path, so that instances without a name can be read too."""
    imported = "tests.testing.planted:APPROVAL_SKIPPED"
    for origin, named in ((None, "tests.testing.planted:Deployer"), (imported, f"{imported}[1]")):
        given = {} if origin is None else {"origin": (origin, planted.APPROVAL_SKIPPED)}
        machine = stacks.stack_machine(planted.APPROVAL_SKIPPED, **given)
        found = stacks.check_stack(machine, examples=EXAMPLES, seed=1).found
        assert found is not None
        assert f"plugin {named}" in found.scenario
        assert play(read_scenario(found.scenario)) == found.scenario

    # Of several counter-examples the shortest stays, also while a check is interrupted.
    tally, longer = stacks.Tally(found=found), stacks.Tally()
    longer.keep(found)
    tally.keep(found)
    assert tally.found is longer.found is found


def test_a_machine_is_a_test_for_unittest_and_finds_the_bug():
    """The class that people derive is collected and run as it is, and fails with the counter-example."""
    machine = stacks.stack_machine([planted.Diary])
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(machine).run(result)
    assert result.testsRun == 1
    ((_, text),) = result.failures
    assert "states_survive_the_codec: plugin 'Diary'" in text
    assert "plugin tests.testing.planted:Diary" in text


def test_an_invariant_that_raises_is_itself_at_fault():
    """Anything but an assertion is reported as the invariant's own failure."""

    class Wrong(stacks.stack_machine([planted.Spender])):
        __test__ = False

        @stacks.invariant
        def spent_nothing(self, session: stacks.SessionView) -> None:
            assert session.cost == 0  # type: ignore[attr-defined]  # the bug

    found = stacks.check_stack(Wrong, examples=5, seed=1).found
    assert found is not None
    assert found.rule == "spent_nothing"
    assert "raised AttributeError" in found.why
    assert "an invariant asserts, and raises nothing else" in found.why


@pytest.mark.check
def test_an_invariant_sees_the_session():
    """Phase, turn, costs, messages, tools, events and plugin states are there for whoever asserts something about them."""
    seen = []

    class Looking(stacks.stack_machine([planted.MeanTime], without=["plugins_do_not_fail"])):
        __test__ = False

        @stacks.invariant
        def looks(self, session: stacks.SessionView) -> None:
            times = session.plugin_state("MeanTime")
            assert times.begun >= times.done
            seen.append((session.turn, session.total_tokens, session.running, len(session.messages)))
            assert session.cost_usd is not None
            assert session.signal is session.run[-1].signal
            assert session.events == session.run[-1].events
            assert session.phase is session.state.phase

    assert stacks.check_stack(Looking, examples=20, seed=1).found is None
    assert any(turn and tokens and running and messages for turn, tokens, running, messages in seen)


def test_what_would_prove_nothing_is_refused():
    """Zero examples are not taken for a success; who mistypes the name of a promise hears which there are."""
    with pytest.raises(ValueError, match="examples must be at least 1"):
        stacks.check_stack(stacks.stack_machine([]), examples=0)
    with pytest.raises(ValueError, match=r"unknown promise pure; expected one of .*plugins_are_pure"):
        stacks.stack_machine([], without=["pure"])


@pytest.mark.check
def test_tools_of_ones_own_are_called_with_arguments_that_fit():
    """The schema of a tool decides what the model sends, so calls get past the gates."""

    @agentrail.tool
    async def pay(cents: int, to: str) -> str:
        """Pay."""
        return f"{cents} to {to}"

    @p.plugin(init=int, hooks=(p.BeforeTool,))
    def frugal(event: p.HookEvent, state: int, ctx: p.Context) -> p.Action[int]:
        """Fails at a hundred."""
        if isinstance(event, p.BeforeTool) and int(str(event.arguments["cents"])) > 100:
            raise RuntimeError(event.name)
        return p.Continue(state)

    found = stacks.check_stack(stacks.stack_machine([frugal], tools=[pay]), examples=EXAMPLES, seed=1).found
    assert found is not None
    assert "RuntimeError: pay" in found.why


@pytest.mark.parametrize(
    "kind",
    [
        int | None,
        tuple[int, str],
        Where,
        Where | None,
        Annotated[str, msgspec.Meta(pattern="^[A-Z]{2}-[0-9]+$")],
        Annotated[list[int], msgspec.Meta(min_length=3)],
    ],
    ids=str,
)
def test_a_tool_with_any_parameter_runs(kind):
    """A tool whose calls are all refused shows nothing of a plugin that looks at what tools return."""

    async def send(to):
        """Send."""
        return "sent"

    send.__annotations__ = {"to": kind, "return": str}
    tally = stacks.check_stack(stacks.stack_machine([], tools=[agentrail.tool(send)]), examples=1, seed=1)
    assert tally.found is None
    assert tally.tool_runs > 0


@pytest.mark.check
def test_a_plugin_may_show_the_model_less_than_the_conversation():
    """A window over the conversation breaks no promise: the request is whole with what was handed on in its place."""
    handed = []

    @p.plugin(init=int, hooks=(p.BeforeRequest,))
    def window(event: p.HookEvent, state: int, ctx: p.Context) -> p.Action[int]:
        """Shows the last prompt alone."""
        if isinstance(event, p.BeforeRequest) and isinstance(event.messages[-1], UserMessage):
            handed.append(len(event.messages) - 1)
            return p.ReplaceMessages(event.messages[-1:], state)
        return p.Continue(state)

    found = stacks.check_stack(stacks.stack_machine([window]), examples=IN_VAIN, seed=1).found
    assert found is None, str(found)
    assert max(handed) > 0, "no request went out with less than the conversation"


@pytest.mark.check
@pytest.mark.parametrize("pair", sample([*COMMUTE], 3))
def test_two_that_commute(pair):
    """No conversation shows a difference between the two orders."""
    answer = stacks.commute(*COMMUTE[pair], examples=LIVES)
    assert answer, answer.difference
    assert (answer.conversation, answer.difference) == ("", "")
    assert answer.runs >= LIVES


@pytest.mark.parametrize("pair", DO_NOT_COMMUTE)
def test_two_that_do_not_commute(pair):
    """The shortest conversation is shown in which the order matters, and it plays again."""
    answer = stacks.commute(*DO_NOT_COMMUTE[pair], examples=EXAMPLES)
    assert not answer
    assert answer.found is not None
    assert len(answer.found.signals) <= 6
    assert "order" in answer.difference
    assert play(read_scenario(answer.conversation)) == answer.conversation


def test_a_difference_is_told_down_to_the_part_that_differs():
    """The states are told apart even if their texts are the same, or are cut before the difference."""

    @frozen
    class Counts:
        names: tuple[str, ...] = ("a long name " * 99,)
        calls: int = 0

    @p.plugin(priority=600, init=Counts, hooks=(p.BeforeTool,))
    def counts(event: p.HookEvent, state: Counts, ctx: p.Context) -> p.Action[Counts]:
        return p.Continue(evolve(state, calls=state.calls + 1))

    one, two = (puppet(name, 500, BeforeTool="approve:sure?") for name in ("one", "two"))
    asked = stacks.commute(one, two, examples=EXAMPLES)
    assert asked.difference == "batch[0].judged_by[0] in this order: 'one'; in the other: 'two'"

    guard = puppet("guard", 500, BeforeTool="block:no")
    counted = stacks.commute(guard, counts, examples=EXAMPLES)
    assert counted.difference == "plugin_states.counts.calls in this order: 0; in the other: 1"


@given(entries=stacks.combinations(["a", "b", "c"], 2))  # type: ignore[list-item]  # any values will do
def test_combinations_are_stacks_of_a_pool(entries):
    """They have members of the pool, each once, and no more than are allowed."""
    assert 1 <= len(entries) <= 2
    assert len(set(entries)) == len(entries)
    assert set(entries) <= {"a", "b", "c"}


@given(data=st.data())
def test_drawn_plugins_can_be_loaded_and_use_every_action(data):
    """A drawn stack is a stack; each word that a rule may have can be drawn."""
    drawn = data.draw(strategies.stacks())
    assert len({plugin.name for plugin in drawn}) == len(drawn)
    word = data.draw(st.sampled_from(sorted(PUPPET_ACTIONS)))
    (rule, *_) = data.draw(strategies.plugins([word])).rules
    assert rule.action == word


def test_the_kit_is_not_imported_with_the_scenarios():
    """Who plays scenarios needs no hypothesis; only who draws does."""
    program = "import sys, agentrail.testing.scenario; print('hypothesis' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
