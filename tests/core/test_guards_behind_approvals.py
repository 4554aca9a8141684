"""A person's yes stands for the person: every guard is heard about a call all the same, whoever asked for the approval."""

from typing import Any

from agentrail import plugins as p
from agentrail.core.stack.loading import load_stack
from agentrail.core.stack.pipeline import run_hook
from agentrail.testing.plugins import PuppetPlugin, read_rule
from tests.core.plugin_rig import CTX, EVENTS


def _guard(name: str, priority: int, rule: str) -> PuppetPlugin:
    return PuppetPlugin((read_rule("BeforeTool", rule),), name=name, priority=priority)


def _decided(*plugins: Any) -> tuple[type, str]:
    stack, states = load_stack(plugins)
    decision = run_hook(stack, EVENTS[p.BeforeTool], states, CTX).decision
    assert decision is not None
    return type(decision.action), decision.by


def test_a_guard_behind_an_approval_may_still_refuse():
    """The guard is asked before a person is, and its refusal counts."""
    approval, block = _guard("asks", 50, "approve:ok?"), _guard("blocks", 60, "block:never")
    assert _decided(approval, block) == (p.BlockTool, "blocks")


def test_the_first_of_two_approvals_is_the_one_that_is_asked_for():
    """A second guard that wants a person too has no objection to the first one's question."""
    assert _decided(_guard("one", 50, "approve:ok?"), _guard("two", 60, "approve:sure?")) == (
        p.RequireApproval,
        "one",
    )


def test_others_behind_an_approval_are_not_asked():
    """Only safety plugins are: for the rest an approval stops the run, as ever."""
    assert _decided(_guard("asks", 50, "approve:ok?"), _guard("blocks", 500, "block:never")) == (
        p.RequireApproval,
        "asks",
    )
