"""What holds for every built-in plugin, and for stacks of them."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from agentrail import plugins as p
from agentrail.core.protocol.hooks import HOOKS
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.pipeline import run_hook
from agentrail.errors import PluginError
from agentrail.testing.check_plugin import SAMPLES, check_plugin
from tests.core.plugin_rig import CTX
from tests.thinned import each

ROOT = Path(__file__).parents[2]
SKILLS = {"write": ["read_file", "write_*"], "look": ["read_file", "list_dir"]}
OPTIONS = {
    p.OutputFilter: {"keywords": ["secret"]},
    p.CostGuard: {"max_tokens": 1_500},
    p.SkillGuard: {"skills": {"x": ["read_*", "shell"]}, "active": ["x"]},
}
MORE_OPTIONS = {
    p.AutoCheckpoint: [{"every_n_turns": 1, "on_tools": ["shell"], "on_events": ["aborted"]}],
    p.AutoRecall: [{"limit": 20}],
    p.ContentPolicy: [
        {"brand_keywords": ["Acme Cloud"], "competitor_keywords": ["initech", "C++Corp"]},
        {"rubric": "x", "judge_model": "demo:"},
    ],
    p.CostGuard: [{"max_cost_usd": 0.02, "warn_threshold": 0.1}],
    p.EpisodicMemory: [{"require_user_id": True, "top_k": 1}],
    p.EventLogger: [{"include_arguments": False}],
    p.HumanApproval: [{"safe_commands": ["git status", "ls", "cat *.md"], "confirm_prefix": "ok"}],
    p.LargeResultOffload: [{"token_limit": 1, "directory": "out/"}],
    p.MemoryFlush: [{"file": "a.md", "max_facts": 1, "dedupe": False}],
    p.MemoryLoader: [{"memory_files": []}, {"memory_files": ["a", "b"], "auto_reload": False}],
    p.ModelRouter: [{"default_model": "demo:a", "rules": [{"model": "demo:b", "hours_utc": [0, 24]}]}],
    p.Planning: [{"plan_first": False}, {"max_plan_attempts": 1}],
    p.PromptCache: [{"max_cache_points": 1, "min_tokens": 0}],
    p.Recovery: [{"max_retries": 0, "fallback_model": "demo:small"}],
    p.Reflection: [{"reviewer_model": "demo:judge"}, {"max_reviews": 0}, {"reviewer_agent": "critic"}],
    p.SecurityGuard: [{"blocked_paths": ["x"], "blocked_commands": ["a b"], "audit": True}],
    p.SkillGuard: [{}, {"skills": SKILLS, "active": ["look"]}],
    p.SkillListing: [{"skills": {"pdf": "Reads PDFs."}}],
}
ANSWERS = "one or more of approve, always, edit, reject, respond, each once"
LIMITS = "give max_tokens, max_cost_usd or both, more than 0"
PLAN = "directive must not be blank, and max_plan_attempts must be 1 or more; got"
WORDS = "criteria and pass_signal must not be blank, pass_signal must be one line, and max_reviews must be 0 or more; got"
AGENT = "reviewer_agent must be the name of an agent, and excludes reviewer_model"
REFUSED = [
    (
        p.AutoCheckpoint,
        {"on_events": ["aborted", "restarted"]},
        "on_events must be some of finished, aborted, tool_failed; got restarted",
    ),
    *(
        (p.AutoCheckpoint, wrong, "max_checkpoints 1 or more")
        for wrong in ({"every_n_turns": -1}, {"max_checkpoints": 0}, {"ttl_seconds": 0})
    ),
    *((p.AutoRecall, {"limit": wrong}, "1 to 20; got") for wrong in (0, 21, True, "5")),
    (p.ContentPolicy, {"judge_model": "demo:"}, "judge_model 'demo:' needs a rubric to judge by"),
    (p.ContentPolicy, {"brand_keywords": [" "]}, "a keyword must not be blank"),
    *((p.CostGuard, wrong, LIMITS) for wrong in ({}, {"max_tokens": 0}, {"max_cost_usd": -1.0})),
    (
        p.CostGuard,
        {"max_tokens": 1, "warn_threshold": 2},
        "warn_threshold must be a fraction of the limit, more than 0 and at most 1; got",
    ),
    (p.EpisodicMemory, {"top_k": 0}, "must be 1 or more"),
    (p.EpisodicMemory, {"max_episodes_per_user": 0}, "must be 1 or more"),
    (p.EpisodicMemory, {"max_episodes_per_user": 1_001}, "must be 1 or more"),
    (p.EventLogger, {"level": "loud"}, "must be one of 'debug', 'info', 'warning', 'error', got 'loud'"),
    *(
        (p.HumanApproval, {"permission_options": wrong}, ANSWERS)
        for wrong in ([], ["maybe"], ["approve", "approve"], [7], "perhaps")
    ),
    (
        p.HumanApproval,
        {"confirm_prefix": " "},
        "confirm_prefix must be a text that a prompt can begin with, got",
    ),
    (
        p.HumanApproval,
        {"confirm_prefix": "ok", "permission_options": ["edit", "respond"]},
        "confirm_prefix needs approve, reject or always among",
    ),
    (p.HumanApproval, {"timeout_seconds": -1}, r"timeout_seconds must be 0 \(no limit\) or more; got -1"),
    (p.LargeResultOffload, {"token_limit": 0}, "1 or more; got 0"),
    (p.MemoryFlush, {"max_facts": 0}, "1 or more; got 0"),
    (p.MemoryLoader, {"memory_files": "AGENTS.md"}, r"a list of paths, such as \['AGENTS.md'\]; got a text"),
    (p.ModelRouter, {"rules": [{"min_turn": 1}]}, "a rule needs a model"),
    (
        p.ModelRouter,
        {"rules": [{"model": "x", "min_mood": 1}]},
        "the rule for 'x' has unknown conditions min_mood; expected some of hours_utc, max_budget_left_usd",
    ),
    (p.OutputFilter, {"patterns": ["("]}, "is not a regular expression"),
    (p.OutputFilter, {"patterns": ["a*"]}, "matches an empty text"),
    (p.OutputFilter, {"keywords": [" "]}, "a keyword must not be blank"),
    (
        p.OutputFilter,
        {"replacement": ""},
        "replacement must not be blank, because a response could end up empty; got",
    ),
    (p.OutputFilter, {"action": "drop"}, "one of replace, abort; got 'drop'"),
    (p.Permissions, {"allow": ["shell("]}, r"allow\[0\] at 6"),
    (p.Permissions, {"mode": "wild"}, "mode: expected one of"),
    (p.Permissions, {"mode": "bypass"}, "dangerously-bypass"),
    (p.Permissions, {"timeout_seconds": -1}, "timeout_seconds must be 0"),
    (
        p.Permissions,
        {"scopes": {"session": {}}},
        "scopes must be some of managed, project, user; got 'session'",
    ),
    (p.Permissions, {"scopes": {"user": {"x": 1}}}, "x: unknown"),
    (p.Permissions, {"within": [{"deny": "shell"}]}, "expected a list of rules"),
    *((p.Planning, wrong, PLAN) for wrong in ({"directive": " "}, {"max_plan_attempts": 0})),
    (p.PromptCache, {"max_cache_points": 0}, "max_cache_points must be 1 or more"),
    (p.PromptCache, {"min_tokens": -1}, "max_cache_points must be 1 or more"),
    *((p.Recovery, {name: -1}, "must be 0 or more") for name in ("max_retries", "backoff_base_ms")),
    (p.Reflection, {"criteria": []}, WORDS),
    (p.Reflection, {"pass_signal": ""}, WORDS),
    (p.Reflection, {"pass_signal": "a\nb"}, WORDS),
    (p.Reflection, {"max_reviews": -1}, r"got \['It answers all.*'APPROVED', -1"),
    (p.Reflection, {"reviewer_agent": "critic", "reviewer_model": "demo:judge"}, AGENT),
    (p.Reflection, {"reviewer_agent": " "}, AGENT),
    (p.SecurityGuard, {"paths": []}, "unexpected keyword argument 'paths'"),
    (p.SkillGuard, {"active": ["a"]}, "active names 'a'; known skills: none"),
    (p.SkillGuard, {"enforce_mode": "hard"}, "enforce_mode must be one of 'strict', 'warn', got 'hard'"),
    (p.SkillGuard, {"denied": {"a": ["shell("]}}, r"expected '\)'"),
]
BUILT_INS = sorted(
    (thing for thing in vars(p).values() if isinstance(thing, type) and issubclass(thing, p.Plugin)),
    key=lambda plugin: plugin.__name__,
)
BUILT_INS = [plugin for plugin in BUILT_INS if plugin not in {p.Plugin, p.FunctionPlugin}]
PRIORITIES = {
    "Permissions": 5,
    "SecurityGuard": 10,
    "SkillGuard": 20,
    "HumanApproval": 50,
    "EventLogger": 90,
    "MemoryLoader": 115,
    "SkillListing": 116,
    "OutputFilter": 110,
    "CostGuard": 120,
    "PatchToolCalls": 120,
    "PromptCache": 130,
    "Recovery": 150,
    "Planning": 200,
    "ModelRouter": 310,
    "LargeResultOffload": 320,
    "WorkingNotes": 325,
    "MemoryFlush": 330,
    "AutoRecall": 335,
    "ContentPolicy": 340,
    "Citations": 350,
    "Reflection": 400,
    "EpisodicMemory": 610,
    "AutoCheckpoint": 700,
}
each_built_in = pytest.mark.parametrize("plugin", BUILT_INS, ids=lambda plugin: plugin.__name__)


def entry(plugin):
    return (plugin, OPTIONS.get(plugin, {}))


def file_name(plugin):
    """SecurityGuard: security_guard."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", plugin.__name__).lower()


def test_they_stand_in_the_documented_order():
    """Each has the priority that the documentation gives it."""
    assert {plugin.__name__: plugin.priority for plugin in BUILT_INS} == PRIORITIES


@each_built_in
def test_each_has_a_short_file_a_page_and_a_scenario(plugin):
    """One file of at most 150 lines, a page that runs, a scenario that shows what it is for (5.8)."""
    lines = (
        (ROOT / "agentrail" / "plugins" / f"{file_name(plugin)}.py").read_text(encoding="utf-8").splitlines()
    )
    assert len(lines) <= 150
    page = ROOT / "docs" / "how-to" / "plugins" / f"{file_name(plugin).replace('_', '-')}.md"
    assert f"# `{plugin.__name__}`" in page.read_text(encoding="utf-8")
    scenario = ROOT / "tests" / "scenarios" / f"{file_name(plugin)}.txt"
    assert f"plugin {plugin.__name__}" in scenario.read_text(encoding="utf-8")


@each_built_in
def test_each_keeps_the_contract_of_plugins(plugin):
    """`check_plugin` over all built-ins, with and without options (5.9)."""
    check_plugin(plugin, options=[OPTIONS.get(plugin, {}), *MORE_OPTIONS.get(plugin, [])])


@each(("plugin", "options", "why"), REFUSED)
def test_options_that_cannot_be_refuse_the_start(plugin, options, why):
    """When the stack is loaded, with what is wrong and what was expected."""
    with pytest.raises(PluginError, match=why):
        load_stack([(plugin, options)])


def test_a_guard_that_fails_is_closed_and_a_logger_stops_nobody():
    """What a failure means is said by the plugin."""
    for plugin, on_error in ((p.CostGuard, "closed"), (p.EventLogger, "open")):
        stack, _ = load_stack([entry(plugin)])
        assert stack.members[0].on_error == on_error


@settings(max_examples=30)
@given(
    pool=st.permutations(BUILT_INS),
    size=st.integers(1, len(BUILT_INS)),
    moments=st.lists(st.sampled_from(SAMPLES), max_size=12),
)
def test_a_stack_of_them_answers_alike_in_every_order(pool, size, moments):
    """Registered in any order, a stack of built-ins comes to the same outcomes, and none of them fails."""
    chosen = pool[:size]
    stack, states = load_stack([entry(plugin) for plugin in chosen])
    other, other_states = load_stack(
        [entry(plugin) for plugin in sorted(chosen, key=lambda plugin: plugin.__name__)]
    )
    for event in moments:
        outcome, twin = run_hook(stack, event, states, CTX), run_hook(other, event, other_states, CTX)
        assert outcome == twin
        assert not [published for published in outcome.events if type(published).__name__ == "PluginFailed"]
        states, other_states = outcome.states, twin.states
    assert {type(event) for event in SAMPLES} == set(HOOKS)
