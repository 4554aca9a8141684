"""`SkillGuard`: while skills are active, only their tools run."""

import pytest
from hypothesis import given, strategies as st

from agentrail.core.stack.loading import load_stack
from agentrail.errors import PluginError
from agentrail.plugins.skill_guard import SkillGuard
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.rig import Alone, call

SKILLS = {"write": ["read_file", "write_*"], "look": ["read_file", "list_dir"]}


def test_only_tools_of_active_skills_run():
    """A tool that no active skill allows is refused, with those that are allowed (5.8)."""
    guard = Alone(SkillGuard, skills=SKILLS, active=["look"])
    assert guard.hears(call("read_file")).decision is None
    refused = guard.hears(call("write_file")).decision.action.reason
    assert (
        refused == "Not run: 'write_file' is no tool of the active skills (look). Tools: read_file, list_dir."
    )
    assert (
        Alone(SkillGuard, skills={"x": []}, active=["x"])
        .hears(call("a"))
        .decision.action.reason.endswith("none.")
    )


def test_without_an_active_skill_nothing_is_restricted():
    """A session that uses no skill has all its tools."""
    assert Alone(SkillGuard, skills=SKILLS).hears(call("shell")).decision is None
    assert Alone(SkillGuard).hears(call("shell")).decision is None


def test_warning_publishes_and_lets_pass():
    """`enforce_mode="warn"` reports what `strict` would refuse (5.8)."""
    outcome = Alone(SkillGuard, skills=SKILLS, active=["look"], enforce_mode="warn").hears(call("shell"))
    assert outcome.decision is None
    (event,) = outcome.events
    assert (event.name, event.payload["tool"], event.payload["active"]) == (
        "skill_violation",
        "shell",
        ["look"],
    )


def test_skills_are_switched_while_the_session_lives():
    """An option update replaces what it names, keeps the rest, and is judged like the first options."""
    guard = Alone(SkillGuard, skills=SKILLS, active=["look"])
    assert guard.update(active=["write"]) is None
    assert guard.hears(call("write_file")).decision is None
    assert guard.hears(call("list_dir")).decision is not None
    assert "active names 'gone'; there are 'write', 'look'" in guard.update(active=["gone"])
    assert guard.state.active == ("write",)


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`, and options that cannot be are refused."""
    check_plugin(SkillGuard, options=[{}, {"skills": SKILLS, "active": ["look"]}])
    with pytest.raises(PluginError, match="active names 'a'; there are no skills"):
        load_stack([(SkillGuard, {"active": ["a"]})])
    with pytest.raises(PluginError, match="enforce_mode is one of 'strict', 'warn', got 'hard'"):
        load_stack([(SkillGuard, {"enforce_mode": "hard"})])


names = st.sampled_from(("a", "b", "c", "d"))


@given(
    skills=st.dictionaries(names, st.lists(names, max_size=3), max_size=3),
    tool=names,
    data=st.data(),
)
def test_a_tool_runs_exactly_when_an_active_skill_names_it(skills, tool, data):
    """The guard agrees with the plainest reading of its options."""
    active = data.draw(st.lists(st.sampled_from(sorted(skills)), unique=True)) if skills else []
    allowed = not active or any(tool in skills[name] for name in active)
    outcome = Alone(SkillGuard, skills=skills, active=active).hears(call(tool))
    assert (outcome.decision is None) == allowed
