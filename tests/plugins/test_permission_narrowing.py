"""The meet of what a session may do and what an agent may, as options and state of the plugin: never more than either alone (12.2, 12.7)."""

import pytest
from hypothesis import example, given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.inherited_stack import (
    hidden_tools,
    narrow_stack,
    narrows,
    options_shown,
    replace_unsafe,
)
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.errors import OptionError, PluginError
from agentrail.frozen import thawed
from agentrail.plugins.permission_policy import LISTS, MODES, join, read_scope
from agentrail.plugins.permission_state import narrowed
from agentrail.plugins.permission_verdict import DECISIONS, PermissionCall, judge
from agentrail.plugins.permissions import Permissions
from tests.plugins.rig import Alone

COMMANDS = ("shell", "shell(git *)", "shell(git log)", "shell(ls *)")
RULES = (*COMMANDS, "read_file(a)", "write_file(./**)", "*", "deploy", "exit_plan")
CALLS: tuple[tuple[str, dict[str, str]], ...] = (
    ("shell", {"command": "git log"}), ("shell", {"command": "git log | ls"}), ("shell", {"command": "$X"}), ("read_file", {"path": "a"}),
    ("write_file", {"path": "b"}), ("deploy", {}), ("exit_plan", {}), ("write_todos", {}),
)  # fmt: skip
LIST = st.lists(st.sampled_from(RULES), max_size=3)
PARTS: dict[str, st.SearchStrategy[object]] = {"mode": st.sampled_from(MODES), **dict.fromkeys(LISTS, LIST)}
RIGHTS = st.fixed_dictionaries({}, optional=PARTS)
SCOPES = st.fixed_dictionaries({}, optional={"user": RIGHTS, "project": RIGHTS})


def loaded(options):
    stack, states = load_stack([(Permissions, options)])
    return stack.members[0].options, states["Permissions"]


def verdict(policy, call):
    tool, arguments = call
    return judge(policy, PermissionCall(tool=tool, arguments=arguments, working_dir="/w"))


def strictness(policy, call):
    return DECISIONS.index(verdict(policy, call).decision)


def least_strictness(policy, call):
    """How strict a verdict of the mode `bypass` has to be in another one: what cannot be read is denied where no person is asked, else asked about."""
    said = verdict(policy, call)
    return DECISIONS.index("ask" if "there are rules that deny some" in said.why else said.decision)


@given(RIGHTS, SCOPES, RIGHTS, RIGHTS, st.sampled_from(CALLS))
@example({}, {}, {"mode": "default", "deny": ["shell(git *)"]}, {}, CALLS[2])
@example({}, {}, {"mode": "plan", "allow": ["shell"]}, {}, ("exit_plan", {}))
def test_the_meet_allows_nothing_that_either_alone_does_not(own, scopes, agent, other, call):
    """The child never more than its parent; and no more than its own rules where it names a mode and rules of its own; in any order."""
    given_options = {**own, "scopes": scopes, "dangerously_bypass_permissions": True}
    options, state = loaded(given_options)
    made, child = narrowed(options, state, agent)
    assert strictness(child.policy, call) >= strictness(state.policy, call)
    alone = join({"session": read_scope("session", agent)}, may_bypass=True)
    if agent.get("allow") and "mode" in agent and agent["mode"] != "bypass":
        both = max(strictness(state.policy, call), strictness(alone, call))
        # The mode `plan` of an agent never ends, so no plan is approved in it.
        never_ends = agent["mode"] == "plan" and call[0] == "exit_plan"
        assert strictness(child.policy, call) == (DECISIONS.index("deny") if never_ends else both)
    for rule in ("deny", "ask"):  # whatever it denies or asks about alone it does below too
        scope = read_scope("session", {"mode": "bypass", rule: agent.get(rule, [])})
        only = join({"session": scope}, may_bypass=True)
        assert strictness(child.policy, call) >= least_strictness(only, call)
    # What a session below begins with is what was narrowed here.
    assert strictness(loaded(thawed(made))[1].policy, call) == strictness(child.policy, call)
    both = narrowed(*narrowed(options, state, agent), other)[1].policy
    assert strictness(both, call) >= strictness(child.policy, call)
    assert narrowed(made, child, agent) == (made, child)  # once is enough


def test_what_an_agent_does_not_say_is_its_session_s():
    """Without rules of `allow` it has those of the session, in the mode of the session; with some it has these, as far as the session."""
    options, state = loaded({"mode": "strict", "allow": ["shell(git *)", "deploy"]})

    def line(permissions, tool, **arguments):
        policy = narrowed(options, state, permissions)[1].policy
        return judge(policy, PermissionCall(tool=tool, arguments=arguments)).decision

    assert line({}, "shell", command="git log") == "allow"
    assert line({"deny": ["deploy"]}, "shell", command="git log") == "allow"
    assert line({"deny": ["deploy"]}, "deploy") == "deny"
    assert line({"allow": ["deploy", "shell(rm *)"]}, "deploy") == "allow"
    for one in ("git log", "rm x"):
        assert line({"allow": ["deploy"]}, "shell", command=one) == "deny"
    assert line({"mode": "plan"}, "deploy") == "deny"
    assert line({"mode": "bypass"}, "write_file", path="a") == "deny"
    assert narrowed(options, state, {})[0] == narrowed(*narrowed(options, state, {}), {})[0]
    with pytest.raises(OptionError, match="unknown"):
        narrowed(options, state, {"denied": []})


class Plain(p.Plugin[int]):
    """No guard: it says nothing of its options."""

    def init(self, *, most: int = 1) -> int:
        return most


class Odd(p.Plugin[int]):
    """A guard that answers what it is told to."""

    priority = 50

    def init(self, *, options: object = None, made: object = 0) -> int:
        return 0

    def options_now(self, options, state):
        if options.get("options") == "raise":
            message = "no"
            raise ValueError(message)
        return {"x": object()} if options.get("options") == "object" else options

    def narrow_permissions(self, options, state, permissions):
        return options, options["made"]


def test_plugins_that_cannot_be_narrowed_say_so():
    """None there, one that raises, options and states that are none: nothing is half changed."""
    stack, states = load_stack([Plain])
    assert not narrows(stack)
    with pytest.raises(PluginError, match="give it the plugin Permissions"):
        narrow_stack(stack, states, {})
    for options, fault in (
        ({"options": "raise"}, "cannot describe its options:"),
        ({"options": "object"}, "returned wrong options:"),
        ({"made": "text"}, "does not narrow"),
        ({}, "does not narrow"),
    ):
        stack, states = load_stack([(Odd, options)])
        with pytest.raises(PluginError, match=fault):
            narrow_stack(stack, states, {})
        # Who looks at a session sees what it was given: a plugin that cannot say what holds now hides nothing.
        assert [dict(one) for one in options_shown(stack, states)] == [options]
    stack, states = load_stack([Plain, (Odd, {"made": 7})])
    change = narrow_stack(stack, states, {})
    assert (change.states["Odd"], change.states["Plain"], states["Odd"]) == (7, 1, 0)


class Hiding(p.Plugin[int]):
    def init(self, *, names: object = None) -> int:
        self.names = names
        return 0

    def hidden_tools(self, state, names):
        return self.names if self.names != "raise" else 1 / state


def test_what_hides_tools_hides_only_those_that_there_are():
    """A plugin that fails hides nothing. Guards keep their states, and other plugins are replaced (12.2)."""
    for names, hidden in ((("a", "z"), ("a",)), ("raise", ()), ("a", ()), ((), ())):
        stack, states = load_stack([(Hiding, {"names": names if names == "raise" else list(names)})])
        plugin = stack.members[0].plugin
        plugin.names = names
        assert hidden_tools(stack, states, ("a", "b")) == hidden

    guard = Alone(Permissions, deny=["deploy"])
    stack, states = load_stack([(Permissions, {"deny": ["deploy"]}), (Plain, {"most": 3})])
    change = replace_unsafe(stack, states, [(Permissions, {}), (Plain(name="other"), {"most": 5})])
    assert change.stack.names == ("Permissions", "other")
    assert dict(change.states) == {"Permissions": guard.state, "other": 5}
