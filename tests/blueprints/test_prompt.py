"""The system prompt in layers (12.3): order, keys, replacements, values, modes; and what stands in front of a cache point stays."""

import attrs
import pytest
from hypothesis import given, strategies as st

import agentrail
from agentrail import Agent, OptionError, plugins as p
from agentrail.blueprints import CAPABILITIES, Blueprint, Capability, PromptContext, PromptLayers
from agentrail.blueprints.system_prompt import fill_in
from agentrail.plugins import Permissions
from agentrail.runtime.session_options import make_options
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.tools.function import tool
from agentrail.tools.task import TaskTool

WEB = Capability(name="web", sections={"web": "Fetch ${what}.", "memory": "Remember."})


def prompt_of(blueprint, **besides):
    return make_options({"blueprint": blueprint, "model": "demo:", **besides}).system_prompt


def keys_of(blueprint, **besides):
    return [section.key for section in blueprint.prompt_sections(besides)]


def test_a_prompt_of_ones_own_alone_is_taken_as_it_is():
    """As a session takes it: without capabilities and sections there is nothing to put layers around."""
    assert prompt_of(Blueprint(system_prompt="Own.")) == "Own."
    assert prompt_of(Blueprint(system_prompt="")) == ""
    assert prompt_of(Blueprint()) is None
    assert keys_of(Blueprint()) == ["base"]
    assert (
        prompt_of(Blueprint(system_prompt="Own.", prompt=PromptLayers(replace={"base": "Base."})))
        == "Base.\n\nOwn."
    )


@pytest.mark.parametrize(
    ("mode", "keys"),
    [
        ("full", ["base", "web", "memory", "blueprint", "house"]),
        ("task", ["web", "blueprint", "house"]),
        ("minimal", ["blueprint", "house"]),
        ("none", ["blueprint", "house"]),
    ],
)
def test_the_mode_says_which_layers_there_are(mode, keys):
    """As of 3-session; what is given to the session besides counts too, and an agent has what its leader's mode leaves."""
    full = Blueprint(
        "b",
        description="d",
        system_prompt="Own.",
        capabilities=[WEB],
        prompt=PromptLayers(sections={"house": "House."}),
        user_data={"prompt": {"what": "it"}},
    )
    assert keys_of(full, prompt_mode=mode) == keys
    assert keys_of(full.override(prompt_mode=mode)) == keys
    bare = Blueprint("lead", agents=[full.override(user_data=None)], user_data={"prompt": {"what": "x"}})
    (agent,) = make_options({"blueprint": bare, "model": "demo:", "prompt_mode": mode}).agents
    task = {"full": "task"}.get(mode, mode)
    wanted = "\n\n".join(
        one.text
        for one in full.prompt_sections({"prompt_mode": task, "user_data": {"prompt": {"what": "x"}}})
    )
    assert agent.system_prompt == wanted
    without_base = full.override(base_prompt=False)
    assert keys_of(without_base, prompt_mode=mode) == [key for key in keys if key != "base"]


class Weather(p.Plugin[int]):
    """Adds two sections, and says the key of one."""

    sections = ("weather",)

    def init(self) -> int:
        return 0

    @p.on(p.BeforeRequest)
    def tell(self, event: p.BeforeRequest, state: int, ctx: p.Context) -> p.Action[int]:
        return p.Continue(state, context={"weather": "Rain.", "wind": "West."})


async def test_what_the_mode_and_plugins_add_is_replaced_too(autojump_clock):
    """12.3: by its key, while the session runs, in the sessions below it, and an agent says its own; the nearest key where there is none."""
    seen = {}

    def answer(request):
        is_below = "You look." in request.system
        seen["below" if is_below else "above"] = request.system
        wanted = calls(*[("task", {"description": "x", "subagent_type": one}) for one in ("one", "two")])
        return says("done") if is_below or len(request.messages) > 1 else wanted

    below = Blueprint("one", description="x", system_prompt="You look.")
    texts = {"mode": "Only ${what}.", "weather": "", "base": ""}
    lead = Blueprint(
        "lead",
        model=FunctionModel(answer),
        system_prompt="You lead.",
        tools=[TaskTool()],
        plugins=[(Permissions, {"mode": "plan", "allow": ["task"], "pure_tools": ["task"]}), Weather],
        agents=[
            below.override(
                name="two", system_prompt="You look. Twice.", prompt=PromptLayers(replace={"weather": "Sun."})
            ),
            below,
        ],
        prompt=PromptLayers(replace=texts),
        user_data={"prompt": {"what": "read"}},
    )
    assert lead.replaced_sections() == {"mode": "Only read.", "weather": ""}
    for wrong in ({"wether": "x"}, {"wind": "x"}):
        with pytest.raises(
            OptionError, match=r"did you mean 'weather'|lists its key in its attribute `sections`"
        ):
            lead.override(prompt=PromptLayers(replace=wrong)).options()
    with pytest.raises(OptionError, match=r"'mode' \(prompt.replace\): \$\{what\} has no value"):
        lead.override(user_data=None).options()
    systems = []
    async with agentrail.open_supervisor() as supervisor:
        for given in ({}, {"replace_sections": {"wind": ""}}):
            session = await supervisor.start_session(lead, **given)
            assert await session.ask("Go") == "done"
            systems.append(seen.pop("above"))
    assert systems[0] == "You lead.\n\nOnly read.\n\nWest."
    assert systems[1].startswith("You lead.\n\n")
    assert systems[1].endswith("\n\nRain.")
    with pytest.raises(OptionError, match=r"replace_sections is .*expected texts by the keys"):
        Blueprint(replace_sections={"mode": 7})
    with pytest.raises(OptionError, match="agent 'x': replace_sections is"):
        Agent(name="x", description="x", replace_sections=["mode"])
    one, two = (
        next(agent for agent in lead.options()["agents"] if agent.name == name).replace_sections
        for name in ("one", "two")
    )
    assert (one, two) == (None, {"weather": "Sun."})


def test_a_value_that_is_not_there_is_an_error_at_the_start():
    """And not an empty place; all of them at once, with the section that wants them."""
    full = Blueprint("b", system_prompt="For ${tenant}, ${tenants}, $${tenant}.", capabilities=[WEB])
    assert "For a, 3, ${tenant}." in prompt_of(
        full, user_data={"prompt": {"tenant": "a", "tenants": 3, "what": ""}}
    )
    with pytest.raises(OptionError) as caught:
        prompt_of(full, user_data={"prompt": {"tenant": True}})
    assert [fault.partition(":")[0] for fault in caught.value.faults] == [
        "section 'web' (capability web)",
        "section 'blueprint' (blueprint b)",
        "section 'blueprint' (blueprint b)",
    ]
    said = "\n".join(caught.value.faults)
    assert "${what} has no value: put it into user_data.prompt" in said
    assert "${tenant} is a value of type bool" in said
    assert "${tenants} has no value, did you mean ${tenant}" in said
    for data in ({}, {"prompt": "text"}, {"prompt": None}):
        with pytest.raises(OptionError, match="has no value"):
            prompt_of(full, user_data=data)


@given(st.text(), st.dictionaries(st.sampled_from(["a", "b"]), st.text() | st.integers()))
def test_values_are_put_in_once(text, values):
    """What a value says is not looked at again, so who sets one cannot ask for another; other words stay as they are."""
    filled, faults = fill_in("${a}", values)
    assert (filled == str(values["a"])) if "a" in values else bool(faults)
    twice, _ = fill_in("${a}${b}", {"a": "${b}", "b": "x"})
    assert twice == "${b}x"
    if "${" not in text:
        assert fill_in(text, values) == (text, [])
    for shell in ("${A:-x}", "$HOME", "${}", "$(x)", "${1}"):
        assert fill_in(shell, values) == (shell, [])


def test_a_section_may_be_a_pure_function():
    """Of what is known before the session starts; what it gives is taken as it is, None is no section."""
    seen = []

    def house(context: PromptContext) -> str | None:
        seen.append(context)
        return f"{context.agent} on {context.model} with ${{x}}" if context.tools else None

    @tool
    def look() -> str:
        """Look."""
        return ""

    named = Blueprint("b", prompt=PromptLayers(sections={"house": house}), capabilities=[CAPABILITIES["ask"]])
    assert prompt_of(named, base_prompt=False, tools=[look]).endswith("b on demo: with ${x}")
    assert keys_of(named, tools=[]) == ["base", "ask"]
    assert seen[0] == PromptContext(agent="b", model="demo:", tools=("look",), capabilities=("ask",))
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        seen[0].agent = "c"
    for wrong, said in (
        (lambda _: 3, "returned int"),
        (lambda _: 1 // 0, "its function failed: ZeroDivisionError"),
    ):
        with pytest.raises(OptionError, match=said):
            prompt_of(named.override(prompt=PromptLayers(sections={"house": wrong})))


def test_what_cannot_be_a_section_is_refused_where_it_is_written():
    """No text, a key of the layers, a replacement that is none; and what was handed in changes nothing later."""
    for sections, said in (
        ({"k": 1}, "is neither text"),
        ({"base": "x"}, "a key that is reserved for the layers"),
        ({"": "x"}, "or none"),
    ):
        with pytest.raises(OptionError, match=said):
            PromptLayers(sections=sections)
        with pytest.raises(OptionError, match=said):
            Capability(name="c", sections=sections)
    with pytest.raises(OptionError, match=r"prompt\.replace of 'k' is not text"):
        PromptLayers(replace={"k": 1})
    sections, replace = {"a": "x"}, {"a": "y"}
    prompt = PromptLayers(sections=sections, replace=replace)
    sections["b"] = replace["b"] = "z"
    assert prompt == PromptLayers(sections={"a": "x"}, replace={"a": "y"})
    with pytest.raises(TypeError):
        prompt.sections["c"] = "x"
