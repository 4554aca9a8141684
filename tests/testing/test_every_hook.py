"""`check_stack` meets every hook: a bug on any of them, or in a life that is drawn hardly ever, is found in a few sessions."""

import attrs
import pytest

from agentrail import plugins as p
from agentrail.core.protocol.hooks import HOOKS
from agentrail.testing import stacks

FEW = 5
"""The tours come first, and find these bugs; what is drawn after them is no part of this test."""


@p.plugin(priority=600, init=lambda limit=1: limit, hooks=(p.BeforePrompt,))
def other(event, state, ctx):
    """Only there so that its options can be updated."""
    return p.Continue(state)


def raising(hook, when=lambda event, seen, ctx: True):
    """Make a plugin that raises on a hook, if a predicate holds; `seen` is how often it was asked before."""

    @p.plugin(priority=500, init=lambda limit=0: limit, hooks=(hook,))
    def broken(event, state, ctx):
        if when(event, state, ctx):
            message = "planted"
            raise ValueError(message)
        return p.Continue(state + 1)

    return [broken, other]


def rewriting(name, priority, change):
    """Make a plugin that rewrites the arguments of `shell` and of `read_file`."""

    @p.plugin(name=name, priority=priority, init=int, hooks=(p.BeforeTool,))
    def rewriter(event, state, ctx):
        changed = {
            key: change(said) if isinstance(said, str) else said for key, said in event.arguments.items()
        }
        return p.Continue(state) if changed == dict(event.arguments) else p.ReplaceToolArgs(changed, state)

    return rewriter


def answering(name, priority, hook, answer):
    @p.plugin(name=name, priority=priority, init=int, hooks=(hook,))
    def one(event, state, ctx):
        return p.Continue(state) if state else answer(1)

    return one


def is_second(event, seen, ctx):
    return seen == 1


RARELY = {
    "the second end of a tool in a life": (p.AfterTool, is_second),
    "the second batch of a life": (p.AfterToolBatch, is_second),
    "a batch of two results": (p.AfterToolBatch, lambda event, *_: len(event.results) > 1),
    "a result that is an error": (p.AfterTool, lambda event, *_: event.result.is_error),
    "a prompt without words": (p.BeforePrompt, lambda event, *_: not event.text),
    "an aborted turn": (p.AfterTurn, lambda event, *_: event.outcome == "aborted"),
    "a session that came back": (p.SessionStarted, lambda event, *_: event.recovered),
    "a call that is made again": (p.OnToolError, lambda event, *_: event.attempt == 1),
    "a response without calls": (p.AfterResponse, lambda event, *_: not event.message.calls),
    "a long conversation": (p.BeforeRequest, lambda event, *_: len(event.messages) > 6),
}
BRIEF = lambda state: p.Intervene("be brief", state)  # noqa: E731 - one of the answers below
WRITE = lambda state: p.Request(p.WriteFile(path="a", text="b", append=True), "w", state)  # noqa: E731 - as above
BUGS = {
    **{f"a handler of {hook.__name__} raises": (raising(hook), "plugins_do_not_fail") for hook in HOOKS},
    **{bug: (raising(hook, when), "plugins_do_not_fail") for bug, (hook, when) in RARELY.items()},
    "two guards that rewrite against each other": (
        [rewriting("lower", 10, str.lower), rewriting("upper", 20, str.upper)],
        "rewrites_agree",
    ),
    "two plugins that rewrite against each other": (
        [rewriting("lower", 500, str.lower), rewriting("upper", 600, str.upper)],
        "rewrites_agree",
    ),
    "a rewrite that happens twice": (
        [rewriting("one", 500, lambda text: f"{text} -v"), rewriting("two", 600, lambda text: f"{text} -v")],
        "effects_are_not_doubled",
    ),
    "the same words from two plugins": (
        [answering("one", 500, p.BeforePrompt, BRIEF), answering("two", 600, p.BeforePrompt, BRIEF)],
        "effects_are_not_doubled",
    ),
    "the same file written by two plugins": (
        [answering("one", 500, p.AfterTurn, WRITE), answering("two", 600, p.AfterTurn, WRITE)],
        "effects_are_not_doubled",
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_found_within_a_few_sessions(bug):
    """By the promise that it breaks, in the tours that come before anything is drawn."""
    stack, rule = BUGS[bug]
    found = stacks.check_stack(stacks.stack_machine(stack), examples=FEW, seed=1).found
    assert found is not None
    assert found.rule == rule, str(found)


@attrs.frozen
class Seen:
    """What a quiet plugin has seen."""

    hooks: int = 0


@p.plugin(priority=500, init=Seen, hooks=tuple(HOOKS))
def quiet(event, state, ctx):
    """Listen to every hook."""
    return p.Continue(Seen(state.hooks + 1))


def test_every_hook_is_met_and_counted():
    """The tally says how often each hook was asked and answered, and in how many sessions a tool ran."""
    machine = stacks.stack_machine([quiet, other])
    tally = stacks.check_stack(machine, examples=12, seed=1)
    assert tally.found is None, str(tally.found)
    assert {hook for hook, _ in tally.coverage} >= {hook.__name__ for hook in HOOKS}
    assert {answer for _, answer in tally.coverage} == {"Continue"}
    assert stacks.declared_hooks(machine) == tuple(hook.__name__ for hook in HOOKS)
    assert tally.tool_runs / tally.runs > 0.5


def test_an_order_that_matters_is_named():
    """Each pair of a stack is compared in both orders; pairs without a common hook, and pairs that commute, are not named."""
    block = answering("block", 20, p.BeforeTool, lambda state: p.BlockTool("no", state))
    ask = answering("ask", 10, p.BeforeTool, lambda state: p.RequireApproval("may it?", state))
    machine = stacks.stack_machine([block, other, ask])
    (found,) = stacks.orders_that_matter(machine, examples=5)
    assert (found.first, found.second) == ("ask", "block")
    assert found.answer.difference
    assert list(stacks.orders_that_matter(machine, examples=5, go_on=lambda: False)) == []
