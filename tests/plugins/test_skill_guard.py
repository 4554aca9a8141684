"""`SkillGuard`: while skills are active, only their tools run."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loading import load_stack
from agentrail.errors import PluginError
from agentrail.events import SkillClosed, SkillOpened
from agentrail.messages import CallId, ToolResult
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


def opens(name, *, call_id="c1", is_error=False, details=None):
    """A call of `skill` that is done."""
    said = {"opened": name, "digest": "d"} if details is None else details
    result = ToolResult(call_id=CallId(call_id), name="skill", text="x", is_error=is_error, details=said)
    return p.AfterTool(name="skill", call_id=CallId(call_id), result=result)


def is_refused(guard, tool, **arguments):
    """Whether a call is."""
    return guard.hears(call(tool, **arguments)).decision is not None


def test_a_skill_counts_from_the_result_of_the_call_to_the_end_of_the_cycle():
    """12.4: in mid-cycle, with events; opening another one closes the first, the same one again changes nothing."""
    guard = Alone(SkillGuard, skills={"a": ["shell(git *)"], "b": None})
    assert not is_refused(guard, "write_file")
    assert guard.hears(opens("a")).events == (SkillOpened(name="a", digest="d", call_id=CallId("c1")),)
    assert is_refused(guard, "write_file")
    assert is_refused(guard, "shell", command="rm x")
    assert is_refused(guard, "shell", command="git log; rm x")
    assert not is_refused(guard, "shell", command="git log")
    assert guard.hears(opens("a")).events == ()
    opened, closed = guard.hears(opens("b")).events[::-1]
    assert (closed, opened.name) == (SkillClosed(name="a"), "b")
    assert not is_refused(guard, "write_file")
    assert guard.hears(p.AfterTurn(outcome="aborted")).events == (SkillClosed(name="b"),)
    assert guard.hears(p.AfterTurn(outcome="finished")).events == ()
    assert guard.state.opened is None


@pytest.mark.parametrize(
    "event",
    [
        opens("gone"),
        opens("a", is_error=True),
        opens("a", details={"delegated": "a"}),
        opens("a", details={"opened": 7}),
        opens("a", details=[]),
        p.AfterTool(
            name="other",
            call_id=CallId("c1"),
            result=ToolResult(call_id=CallId("c1"), name="other", text="x", details={"opened": "a"}),
        ),
    ],
)
def test_nothing_else_opens_one(event):
    """A skill that there is not, a call that failed, a sub-agent's, one of another tool."""
    guard = Alone(SkillGuard, skills={"a": []})
    assert guard.hears(event).events == ()
    assert guard.state.opened is None


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


def test_what_a_skill_denies_does_not_run_with_it():
    """`disallowed-tools`: also where it restricts nothing else."""
    guard = Alone(
        SkillGuard, skills={"a": None}, denied={"a": ["shell(rm *)", "write_file"], "b": ["read_file"]}
    )
    assert not is_refused(guard, "write_file")
    guard.hears(opens("a"))
    assert is_refused(guard, "write_file")
    assert is_refused(guard, "shell", command="rm x")
    assert not is_refused(guard, "shell", command="ls")
    assert not is_refused(guard, "read_file", path="x")


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
