"""The system prompt in layers (12.3): order, keys, replacements, values, modes; and what stands in front of a cache point stays."""

import itertools
import json

import attrs
import msgspec
import pytest
from hypothesis import given, strategies as st

import agentrail
from agentrail import Agent, OptionError, plugins as p
from agentrail.abc.context import AtEnd
from agentrail.blueprints import CAPABILITIES, Blueprint, Capability, PromptContext, PromptLayers
from agentrail.blueprints.prompt import fill_in, without_comment
from agentrail.messages import Text, UserMessage
from agentrail.plugins import Permissions, Planning, PromptCache
from agentrail.providers.anthropic_format import MessagesFormat
from agentrail.providers.options import ProviderOptions
from agentrail.runtime.base_prompt import BASE_PROMPT, decide_inherited
from agentrail.runtime.session_options import make_options
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.tools.function import tool
from agentrail.tools.task import TaskTool

WEB = Capability(name="web", sections={"web": "Fetch ${what}.", "memory": "Remember."})


def prompt_of(blueprint, **besides):
    """What a session of it begins with."""
    return make_options({"blueprint": blueprint, "model": "demo:", **besides}).system_prompt


def keys_of(blueprint, **besides):
    """Its sections, by key."""
    return [section.key for section in blueprint.prompt_sections(besides)]


def test_layers_stand_in_their_order():
    """Base, capabilities, the blueprint's own words, and its sections; of one key the later one in the place of the first."""
    full = Blueprint(
        "b",
        system_prompt="Own.",
        capabilities=[WEB, Capability(name="mine", sections={"web": "Mine."})],
        prompt=PromptLayers(sections={"house": "House."}),
    )
    assert prompt_of(full) == f"{BASE_PROMPT}\n\nMine.\n\nRemember.\n\nOwn.\n\nHouse."
    assert keys_of(full) == ["base", "web", "memory", "blueprint", "house"]
    assert [one.source for one in full.prompt_sections()] == [
        "built in",
        "capability mine",
        "capability web",
        "blueprint b",
        "blueprint b",
    ]
    later = full.override(prompt=PromptLayers(sections={"web": "Last word."}))
    assert keys_of(later) == ["base", "web", "memory", "blueprint"]
    assert "Last word." in prompt_of(later)


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


def test_sections_are_replaced_by_their_keys():
    """An empty text removes one; a key that there is not is refused, with the nearest."""
    full = Blueprint(system_prompt="Own.", capabilities=[WEB])
    replaced = full.override(
        prompt=PromptLayers(replace={"base": "", "web": "Instead of ${what}.", "blueprint": "Other."}),
        user_data={"prompt": {"what": "that"}},
    )
    assert prompt_of(replaced) == "Instead of that.\n\nRemember.\n\nOther."
    assert [one.source for one in replaced.prompt_sections()] == [
        "prompt.replace, in place of capability web",
        "capability web",
        "prompt.replace, in place of blueprint agent",
    ]
    assert prompt_of(Blueprint(prompt=PromptLayers(replace={"base": ""}))) == ""
    with pytest.raises(
        OptionError, match=r"'wep'.*did you mean 'web'.*'zzz'.*there are base, web, memory, blueprint"
    ):
        prompt_of(
            full.override(
                prompt=PromptLayers(replace={"wep": "x", "zzz": ""}), user_data={"prompt": {"what": "x"}}
            )
        )


class Weather(p.Plugin[int]):
    """Adds two sections, and says the key of one."""

    sections = ("weather",)

    def init(self) -> int:
        """Begin."""
        return 0

    @p.on(p.BeforeRequest)
    def tell(self, event: p.BeforeRequest, state: int, ctx: p.Context) -> p.Action[int]:
        """Say both."""
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
            OptionError, match=r"did you mean 'weather'|says its key in its member `sections`"
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


async def test_no_session_starts_with_a_place_that_is_empty():
    """The same through the door: nothing was started."""
    async with agentrail.open_supervisor() as supervisor:
        with pytest.raises(OptionError, match=r"\$\{who\} has no value"):
            await supervisor.start_session(Blueprint(system_prompt="For ${who}."), model="demo:")
        assert supervisor.sessions() == ()
        model = ScriptedModel([says("ok")])
        session = await supervisor.start_session(
            Blueprint(system_prompt="For ${who}."), model=model, user_data={"prompt": {"who": "Ada"}}
        )
        await session.ask("hi")
        assert model.requests[0].system == "For Ada."
        given = await supervisor.start_session(
            Blueprint(system_prompt="For ${who}."), model=model, system_prompt="Given ${who}."
        )
        assert given is not None


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
        (lambda _: 3, "gave int"),
        (lambda _: 1 // 0, "its function failed: ZeroDivisionError"),
    ):
        with pytest.raises(OptionError, match=said):
            prompt_of(named.override(prompt=PromptLayers(sections={"house": wrong})))


def test_what_cannot_be_a_section_is_refused_where_it_is_written():
    """No text, a key of the layers, a replacement that is none; and what was handed in changes nothing later."""
    for sections, said in (
        ({"k": 1}, "is no text"),
        ({"base": "x"}, "a key of the layers"),
        ({"": "x"}, "or none"),
    ):
        with pytest.raises(OptionError, match=said):
            PromptLayers(sections=sections)
        with pytest.raises(OptionError, match=said):
            Capability(name="c", sections=sections)
    with pytest.raises(OptionError, match=r"prompt\.replace of 'k' is no text"):
        PromptLayers(replace={"k": 1})
    sections, replace = {"a": "x"}, {"a": "y"}
    prompt = PromptLayers(sections=sections, replace=replace)
    sections["b"] = replace["b"] = "z"
    assert prompt == PromptLayers(sections={"a": "x"}, replace={"a": "y"})
    with pytest.raises(TypeError):
        prompt.sections["c"] = "x"


def test_a_file_may_begin_with_a_comment():
    """It is for people, and is left out; one that stands elsewhere, or does not end, stays."""
    assert without_comment("<!-- for\npeople -->\n\nYou look.\n") == "You look.\n"
    assert without_comment("  <!-- a --> b <!-- c -->") == "b <!-- c -->"
    for text in ("You <!-- x --> look.", "<!-- x", "", "<! -- x -->"):
        assert without_comment(text) == text


def test_each_capability_says_in_two_to_four_hundred_tokens_how_its_tools_are_used():
    """Each that is built in; no `${name}` is looked for in them."""
    for name, capability in CAPABILITIES.items():
        if capability.sections:
            (section,) = [
                one for one in Blueprint(capabilities=[capability]).prompt_sections() if one.key != "base"
            ]
            assert section.key == name
            assert 200 <= section.tokens <= 400, name
            for each in capability.tools:
                known = {"list_dir", "glob", "grep", "read_file", "edit_file", "write_file"}
                assert each.name in section.text or each.name in known
    coding = prompt_of(Blueprint.coding())
    assert coding.startswith(BASE_PROMPT)
    assert decide_inherited(coding) == coding.removeprefix(BASE_PROMPT).lstrip("\n")


async def test_the_mode_stands_in_front_of_what_plugins_add():
    """Behind the blueprint's own words, whatever the keys of the others are; a mode of which the model has to know nothing says nothing."""

    class Adds(p.Plugin[None]):
        """Adds a section whose key is sorted in front of that of the mode."""

        def init(self) -> None:
            """Begin."""

        @p.on(p.BeforeRequest)
        def add(self, event: p.BeforeRequest, state: None, ctx: p.Context) -> p.Action[None]:
            """Add it."""
            return p.Continue(state, context={"aaa": "Added."})

    async with agentrail.open_supervisor() as supervisor:
        for mode, told in (("plan", "# Mode: plan"), ("default", "Added.")):
            model = ScriptedModel([says("ok")])
            session = await supervisor.start_session(
                Blueprint(system_prompt="Own.", plugins=[Adds, (Permissions, {"mode": mode})]), model=model
            )
            await session.ask("hi")
            system = model.requests[0].system
            assert system.startswith(f"Own.\n\n{told}")
            assert system.endswith("Added.")


@tool(effect_class="pure")
def tick(number: int) -> str:
    """Count."""
    return f"tick {number}: " + "word " * 120


def blocks_of(request):
    """What the vendor reads, block by block, and behind which of them the last cache point is."""
    body = json.loads(MessagesFormat(ProviderOptions()).encode(request))
    listed = [*body["tools"], *body["system"]]
    listed += [{"role": one["role"], **block} for one in body["messages"] for block in one["content"]]
    marked = max(place for place, block in enumerate(listed) if "cache_control" in block)
    for block in listed:
        block.pop("cache_control", None)
    return [json.dumps(block).encode() for block in listed], marked


def check_prefixes(requests):
    """Hold each request against the next one."""
    for before, after in itertools.pairwise(requests):
        said, marked = blocks_of(before)
        following, _ = blocks_of(after)
        assert b"\n".join(following).startswith(b"\n".join(said[: marked + 1]))
        assert marked < len(said) - 1  # what changes stands behind it


async def test_what_stands_in_front_of_the_last_cache_point_is_what_the_next_request_begins_with():
    """Over twenty turns in which the time, the list of todos and the plan change in each (12.3)."""
    clock = itertools.count()

    async def now(about, messages):
        return AtEnd([UserMessage(content=(Text(text=f"It is {next(clock)} o'clock."),))])

    turns = []
    for number in range(19):
        todos = [{"id": "t", "content": f"step {number}", "status": "pending"}]
        plan = "\n".join(f"- [{'x' if place < number else '~'}] part {place}" for place in range(20))
        turns.append(calls(("tick", {"number": number}), ("write_todos", {"todos": todos}), text=plan))
    model = ScriptedModel([*turns, says("\n".join(f"- [x] part {place}" for place in range(20)))])
    async with agentrail.open_supervisor() as supervisor:
        session = await supervisor.start_session(
            Blueprint.coding()
            .with_tools(tick)
            .with_plugins(
                Planning, PromptCache, (Permissions, {"allow": ["tick"], "pure_tools": ["write_todos"]})
            ),
            model=model,
            context_providers=[now],
            max_turns=30,
        )
        await session.ask("Count to twenty, and keep a list of what you do while you are at it.")
    assert len(model.requests) == 20
    assert len({request.system for request in model.requests}) == 1
    shown = [one for one in model.requests[10].messages if "You are at step-10: part 9" in str(one)]
    assert len(shown) == 1
    check_prefixes(model.requests)
    # The conversation is cached too, up to what was said last: what changes stands behind that.
    for request in model.requests[2:]:
        assert (
            max(point for point in request.cache_points if isinstance(point, int))
            >= len(request.messages) - 3
        )
    broken = msgspec.structs.replace(model.requests[4], system=f"{model.requests[4].system} It is four.")
    with pytest.raises(AssertionError):
        check_prefixes([*model.requests[:4], broken])
