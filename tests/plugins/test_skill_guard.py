"""`SkillGuard`: while skills are active, only their tools run."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.errors import PluginError
from agentrail.messages import CallId, ToolResult
from agentrail.plugins.skill_guard import SkillGuard
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.rig import Alone, call

SKILLS = {"write": ["read_file", "write_*"], "look": ["read_file", "list_dir"]}


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
    with pytest.raises(PluginError, match="enforce_mode must be one of 'strict', 'warn', got 'hard'"):
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


def opens(name, *, call_id="c1", is_error=False, details=None):
    """A call of `skill` that is done."""
    said = {"opened": name, "digest": "d"} if details is None else details
    result = ToolResult(call_id=CallId(call_id), name="skill", text="x", is_error=is_error, details=said)
    return p.AfterTool(name="skill", call_id=CallId(call_id), result=result)


def is_refused(guard, tool, **arguments):
    """Whether a call is."""
    return guard.hears(call(tool, **arguments)).decision is not None


def test_what_looks_at_skills_is_never_refused():
    """Another one can be opened, and the files of skills can be read; no path leads elsewhere by that."""
    guard = Alone(SkillGuard, skills={"a": []}, active=["a"])
    for tool, arguments in (
        ("skill", {"name": "b"}),
        ("skill_search", {}),
        ("read_file", {"path": "/skills/a/x/y.md"}),
    ):
        assert not is_refused(guard, tool, **arguments)
    for path in ("/skills/b/x", "/skills/a/../../etc/passwd", "/skills", "skills/a/x", "/skillsx/a", 7):
        assert is_refused(guard, "read_file", path=path)
    assert is_refused(guard, "write_file", path="/skills/a/x")


def test_an_update_keeps_what_is_open():
    """Unless the skill is gone with it; a rule that cannot be read is refused."""
    guard = Alone(SkillGuard, skills={"a": [], "b": []})
    guard.hears(opens("a"))
    assert guard.update(enforce_mode="warn") is None
    assert (guard.state.opened, guard.state.enforce_mode) == ("a", "warn")
    assert "expected ')'" in guard.update(skills={"a": ["shell("]})
    assert guard.update(skills={"b": []}) is None
    assert guard.state.opened is None
    with pytest.raises(PluginError, match="expected '\\)'"):
        load_stack([(SkillGuard, {"denied": {"a": ["shell("]}})])
