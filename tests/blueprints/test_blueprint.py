"""Blueprints as values: derived and never changed, held against what a session takes."""

import pytest
from hypothesis import given, strategies as st

from agentrail import Agent, OptionError
from agentrail.blueprints import CAPABILITIES, Blueprint, Capability, PromptLayers
from agentrail.blueprints.capability import name_of_plugin
from agentrail.config.config_file import read_toml
from agentrail.config.settings import join_files
from agentrail.config.skill_set import SkillSet
from agentrail.core.stack.loaded_stack import load_plugin
from agentrail.errors import PluginError
from agentrail.plugins import (
    HumanApproval,
    Permissions,
    Planning,
    SecurityGuard,
)
from agentrail.tools.client import ClientTool


def tool(name: str, description: str = "x") -> ClientTool:
    """A tool that is told apart by its description."""
    return ClientTool(name=name, description=description, parameters={"type": "object"})


def names(blueprint: Blueprint) -> list[str]:
    return [one.name for one in blueprint.options().get("tools", ())]


@given(st.lists(st.sampled_from("abcd"), max_size=8))
def test_the_later_tool_of_a_name_wins_and_its_place_stays(order):
    """So is it with agents, plugins and capabilities; one by one or all at once comes to the same."""
    given_tools = [tool(name, f"{place}") for place, name in enumerate(order)]
    at_once = Blueprint(tools=given_tools)
    one_by_one = Blueprint(tools=())
    for one in given_tools:
        one_by_one = one_by_one.with_tools(one)
    assert names(at_once) == list(dict.fromkeys(order))
    assert at_once.options() == one_by_one.options()
    wanted = {name: str(place) for place, name in enumerate(order)}
    assert {one.name: one.description for one in at_once.options().get("tools", ())} == wanted


def test_all_that_is_wrong_is_said_at_once():
    """With the name of the blueprint."""
    with pytest.raises(OptionError) as caught:
        Blueprint("b", max_turn=3, max_turns=0, tools=[3], agents=["x"])
    assert sorted(fault[:34] for fault in caught.value.faults) == [
        "blueprint 'b': agents has 'x': exp",
        "blueprint 'b': max_turns is 0: exp",
        "blueprint 'b': there is no option ",
        "blueprint 'b': tools has 3: expect",
    ]
    for plugins in ([3], [(HumanApproval, 3)], 3):
        with pytest.raises(OptionError, match="blueprint 'agent': "):
            Blueprint(plugins=plugins)
    for agents in ("x", 3):
        with pytest.raises(OptionError, match="blueprint 'agent': "):
            Blueprint(agents=agents)
    with pytest.raises(OptionError, match="blueprint 'agent': mcp is 3: expected McpServer"):
        Blueprint(mcp=3)
    with pytest.raises(
        OptionError,
        match=r"capability 'c': tools has 3: expected tools, .*; capability 'c': section 'k' is neither text",
    ):
        Capability(name="c", tools=[3], sections={"k": 1})


@pytest.mark.parametrize(
    ("make", "given", "fault"),
    [
        (Blueprint, {"name": 5}, "blueprint 5: name is 5: expected a text"),
        (Blueprint, {"description": b"x"}, "description is b'x': expected a text"),
        (Blueprint, {"may_bypass": "no"}, "may_bypass is 'no': expected True or False"),
        (Blueprint, {"wake": 1}, "wake is 1: expected True or False"),
        (Blueprint, {"prompt": 5}, r"prompt is 5: expected PromptLayers\(…\), or None"),
        (Blueprint, {"capabilities": None}, "capabilities is None: expected a sequence of Capability"),
        (Blueprint, {"capabilities": [5]}, "capabilities has 5: expected Capability"),
        (Blueprint, {"permissions": "ab"}, "permissions is 'ab': expected a sequence of PolicySettings"),
        (Blueprint().with_skills, {"skills": 5}, r"skills is 5: expected SkillSet\(…\)"),
        (
            Blueprint().with_skills,
            {"skills": SkillSet(), "tools": "ask"},
            "tools is 'ask': expected 'restrict'",
        ),
        (Blueprint().options_with, {"besides": 5}, r"besides is 5: expected Mapping\(…\)"),
        (Blueprint(description="d").as_agent, {"leader": 5}, r"leader is 5: expected Blueprint\(…\)"),
        (Capability, {"name": []}, r"the name of a capability is \[\]: expected a text"),
        (
            Capability,
            {"name": "c", "tools": None},
            "capability 'c': tools is None: expected a sequence of tools",
        ),
        (Capability, {"name": "c", "plugins": 5}, "capability 'c': plugins is 5: expected a sequence"),
        (Capability, {"name": "c", "sections": "a"}, "capability 'c': sections is 'a': expected texts"),
        (PromptLayers, {"sections": None}, "sections is None: expected texts"),
        (PromptLayers, {"replace": [5]}, "prompt.replace is not a mapping"),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_by_name(make, given, fault):
    """Where it is given, and not by an error of Python when a session starts."""
    with pytest.raises(OptionError, match=fault):
        make(**given)


def test_agents_can_come_from_a_generator():
    """They are read once, so that the check leaves some for the blueprint."""
    found = Blueprint(agents=(Agent(name=name, description="Looks.") for name in "ab"))
    assert [one.name for one in found.options()["agents"]] == ["a", "b"]


def test_none_removes_a_field_of_the_blueprint_as_it_removes_an_option():
    """Then the field has its default."""
    full = Blueprint("b", description="d", capabilities=[CAPABILITIES["files"]], max_turns=3)
    assert full.override(name=None, description=None, capabilities=None, max_turns=None) == Blueprint()


def test_an_agent_has_plugins_permissions_and_a_shape_of_its_own():
    """Those that it names; without any those of its capabilities beside its leader's; and where these are there too, its leader's."""
    said = policies_of(
        '[permissions]\nmode = "plan"\ndeny = ["shell(rm *)"]\n', '[permissions]\nallow = ["read_file"]\n'
    )
    lead = Blueprint("lead", plugins=[Planning], capabilities=[CAPABILITIES["files"]])
    scout = Blueprint("scout", description="Looks.", permissions=said, response_format={"type": "object"})
    (plain,) = lead.with_agents(scout).options()["agents"]
    assert plain.permissions == {"mode": "plan", "deny": ["shell(rm *)"], "allow": ["read_file"]}
    assert (plain.plugins, plain.result, plain.tools) == (None, {"type": "object"}, None)
    assert scout.with_plugins(SecurityGuard).as_agent(lead).plugins == (SecurityGuard,)
    shell = scout.with_capabilities(CAPABILITIES["shell"])
    assert [name_of_plugin(one) for one in shell.as_agent(lead).plugins] == ["Planning", "SecurityGuard"]
    assert shell.as_agent(lead.with_capabilities(CAPABILITIES["shell"])).plugins is None
    with pytest.raises(OptionError, match="the modes strict and plan restrict different things"):
        scout.override(permissions=(*said, *policies_of('[permissions]\nmode = "strict"\n'))).as_agent()


def test_what_a_bundle_brings_gives_way_to_the_guard_of_the_leader():
    """With other options they would be two guards of one name; what an author wrote is meant, and stays, and so does what is no guard."""
    said = policies_of('[permissions]\ndeny = ["shell(rm *)"]\n')
    lead = Blueprint("lead", permissions=said, capabilities=[CAPABILITIES["shell"]]).with_plugins(
        (SecurityGuard, {"blocked_commands": ["halt"]}), Planning
    )
    coder = Blueprint.coding().override(name="coder")
    assert [name_of_plugin(one) for one in coder.as_agent(lead).plugins] == ["MemoryLoader", "PatchToolCalls"]
    assert [name_of_plugin(one) for one in coder.as_agent().plugins] == [
        *("SecurityGuard", "Permissions", "MemoryLoader", "PatchToolCalls")
    ]
    scout = Blueprint("scout", description="Looks.", capabilities=[CAPABILITIES["shell"]])
    assert scout.as_agent(lead).plugins is None
    keeps = scout.with_capabilities(CAPABILITIES["memory"]).as_agent(lead).plugins
    assert [name_of_plugin(one) for one in keeps] == ["Planning", "WorkingNotes", "MemoryFlush"]
    own = (SecurityGuard, {"blocked_commands": ["reboot"]})
    with pytest.raises(
        OptionError,
        match="its plugin 'SecurityGuard' has the name of a guard that belongs to the agent's leader",
    ):
        coder.with_plugins(own).as_agent(lead)
    assert [name_of_plugin(one) for one in coder.with_plugins(SecurityGuard).as_agent(lead).plugins] == [
        *("MemoryLoader", "PatchToolCalls")
    ]
    assert own in coder.with_plugins(own).as_agent().plugins


def policies_of(*texts, scope="project"):
    settings, faults = join_files(
        [read_toml(f"f{number}.toml", text, scope=scope) for number, text in enumerate(texts)]
    )
    assert not faults
    return settings.policies


def guard_of(blueprint):
    """The plugin `Permissions` that a session of it has, and its options."""
    entries = [
        one for one in blueprint.options()["plugins"] if isinstance(one, tuple) and one[0] is Permissions
    ]
    ((_, options),) = entries
    return options


def test_permissions_of_files_become_the_plugin():
    """By scope; without any the stack has none, and one that is there keeps what it was given besides."""
    said = policies_of('[permissions]\nmode = "strict"\ndeny = ["shell(rm *)"]\n')
    options = guard_of(Blueprint(plugins=[SecurityGuard], permissions=said))
    assert options["scopes"] == {"project": {"mode": "strict", "deny": ["shell(rm *)"]}}
    assert "dangerously_bypass_permissions" not in options
    assert guard_of(Blueprint(permissions=said, may_bypass=True))["dangerously_bypass_permissions"] is True
    own = guard_of(Blueprint.coding().override(permissions=said))
    assert (own["scopes"], own["pure_tools"]) == (
        options["scopes"],
        ["compact_conversation", "task", "write_todos"],
    )
    empty = policies_of("[permissions]\n")
    assert Blueprint(plugins=[SecurityGuard], permissions=empty).options()["plugins"] == (SecurityGuard,)


def test_what_an_agent_says_is_joined_with_its_file():
    """Lists one behind the other, the narrowest mode; a plan is the session's, so that what else is named holds once it is approved."""
    one = policies_of('[permissions]\nmode = "accept_edits"\nallow = ["shell(git *)"]\n')
    other = policies_of('[permissions]\nmode = "default"\nallow = ["shell(ls *)"]\n')
    assert guard_of(Blueprint(permissions=(*one, *other)))["scopes"] == {
        "project": {"mode": "default", "allow": ["shell(git *)", "shell(ls *)"]}
    }
    planning = policies_of('[permissions]\nmode = "plan"\n')
    strict = policies_of('[permissions]\nmode = "strict"\n')
    for both in ((*planning, *strict), (*strict, *planning)):
        made = Blueprint(permissions=both)
        options = guard_of(made)
        assert (options["mode"], options["scopes"]["project"]["mode"]) == ("plan", "strict")
        assert [tool.name for tool in made.options()["tools"]] == ["exit_plan"]
        of_its_own = guard_of(Blueprint(plugins=[(Permissions, {"mode": "accept_edits"})], permissions=both))
        assert (of_its_own["mode"], of_its_own["within"]) == ("accept_edits", [{"mode": "plan"}])
    assert guard_of(Blueprint(permissions=planning))["scopes"] == {"project": {"mode": "plan"}}


def test_files_drop_no_scope_that_the_plugin_was_given():
    """A ceiling and rules of an operator stay; rules of a scope that both name are joined, and the narrowest mode counts."""
    said = policies_of('[permissions]\nmode = "accept_edits"\nallow = ["shell"]\n')
    scopes = {"managed": {"deny": ["shell(rm *)"], "ceiling": "default"}, "project": {"mode": "strict", "deny": ["python"]}}  # fmt: skip
    options = guard_of(Blueprint(plugins=[(Permissions, {"scopes": scopes})], permissions=said))
    assert options["scopes"] == {
        "managed": scopes["managed"],
        "project": {"mode": "strict", "deny": ["python"], "allow": ["shell"]},
    }


@pytest.mark.parametrize("scopes", [5, {"managed": 5}, {"managed": {"deny": "shell"}}])
def test_scopes_that_are_none_are_left_for_the_plugin_to_refuse(scopes):
    """Files do not take their place."""
    said = policies_of('[permissions]\nallow = ["shell"]\n')
    entry = (Permissions, {"scopes": scopes})
    assert Blueprint(plugins=[entry], permissions=said).options()["plugins"] == (entry,)
    with pytest.raises(PluginError):
        load_plugin(entry)


def test_rules_that_cannot_be_read_make_no_blueprint():
    """All at once, each with its line."""
    wrong = policies_of('[permissions]\ndeny = ["shell(git"]\nask = ["ok", ""]\n')
    with pytest.raises(OptionError) as caught:
        Blueprint(permissions=wrong)
    assert [fault.split(": ")[1:3] for fault in caught.value.faults] == [
        ["f0.toml:2", "deny"],
        ["f0.toml:3", "ask"],
    ]
