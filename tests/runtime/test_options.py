"""The options: all that is wrong is said at once, and nothing is started."""

import enum
import inspect
import math
import re
from functools import partial

import attrs
import pytest

import agentrail
from agentrail import Agent
from agentrail.blueprints import Blueprint
from agentrail.core.policy.prompt_settings import SETTINGS
from agentrail.errors import OptionError
from agentrail.messages import Text, UserMessage
from agentrail.plugins import HumanApproval, Permissions
from agentrail.providers.options import ProviderOptions
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_options import OTHER_WORDS, SessionOptions, make_options
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.stores.memory import MemoryStore
from agentrail.testing import supervisors
from agentrail.wire.sandbox_address import ADDRESS_FORMS
from tests.runtime.rig import saying
from tests.thinned import each


async def test_all_faults_are_named_at_once(supervisor):
    """Unknown names with the nearest known one, and wrong values, each with what it takes."""
    with pytest.raises(OptionError) as caught:
        await supervisor.start_session(modle="demo:", max_turns=0, tools=[print], colour="red")
    first, second, third, *others = caught.value.faults
    assert first == "there is no option 'modle', did you mean 'model'?".rstrip("?")
    assert second.startswith("there is no option 'colour', expected one of ")
    assert (
        third
        == "model is missing: give a model string such as 'demo:', because a library call never picks one"
    )
    assert [fault.partition(":")[0] for fault in others] == [
        f"tools has {print!r}",
        "max_turns is 0",
    ]
    assert supervisor.sessions() == ()


HALF = "a\ud800"


@pytest.mark.parametrize("make", [SessionOptions, Blueprint])
@pytest.mark.parametrize("plugin", [HumanApproval, HumanApproval()])
def test_a_text_in_place_of_a_list_of_a_plugin_is_refused(make, plugin):
    """It would be a list of its letters: a guard of the tools s, h, e and l would let the shell run."""
    entries = [(plugin, {"require_approval_for": "shell", "safe_commands": ["ls"], "confirm_prefix": "ok"})]
    with pytest.raises(OptionError) as caught:
        make(model="demo:", plugins=entries)
    (fault,) = caught.value.faults
    said = "plugins has HumanApproval with require_approval_for = 'shell': expected a list, such as ['shell']"
    assert fault.endswith(said)
    entries[0][1]["require_approval_for"] = ["shell"]
    assert make(model="demo:", plugins=entries)
    assert make(model="demo:", plugins=[(HumanApproval, {"permission_options": "approve"})])


async def test_a_text_in_place_of_a_list_is_refused_in_a_running_session_too(supervisor):
    """Added, replaced or changed: the guard is what it was."""
    session = await supervisor.start_session(model=saying("Yes."), plugins=[Permissions])
    wrong = {"require_approval_for": "shell"}
    for call in (
        partial(session.attach_plugin, (HumanApproval, wrong)),
        partial(session.reload_plugin, (Permissions, {"deny": "shell"})),
        partial(session.update_plugin_opts, "Permissions", deny="shell"),
    ):
        with pytest.raises(OptionError, match=r"= 'shell': expected a list, such as \['shell'\]"):
            await call()
    assert [one.name for one in (await session.status()).plugins] == ["Permissions"]
    await session.attach_plugin((HumanApproval, {"require_approval_for": ["shell"]}))
    await session.update_plugin_opts("HumanApproval", require_approval_for=["pay"])


def test_a_plugin_that_is_no_entry_is_left_to_what_loads_it():
    """An empty pair has no options to look at."""
    assert SessionOptions(model="demo:", plugins=[()]).plugins


@pytest.mark.parametrize("has_store", [False, True])
@pytest.mark.parametrize(
    "given",
    [
        {"system_prompt": HALF},
        {"user_data": {HALF: 1}},
        {"user_data": {"a": [HALF]}},
        {"replace_sections": {"base": HALF}},
        {"immune_tools": [HALF]},
        {"messages": [UserMessage(content=(Text(text=HALF),))]},
        {"response_format": {"type": "object", "properties": {HALF: {"type": "string"}}}},
        {"agents": [Agent(name="a", description=HALF)]},
        {"agents": [Agent(name="a", description="Helps.", system_prompt=HALF)]},
        {"agents": [Agent(name="a", description="Helps.", user_data={HALF: 1})]},
        {"agents": [Agent(name="a", description="Helps.", replace_sections={"base": HALF})]},
    ],
)
async def test_half_of_a_character_is_refused_with_and_without_a_store(given, has_store):
    """A session with it could not be stored later, and a text of an agent raised `UnicodeEncodeError`."""
    async with supervisors.open_nameless(store=MemoryStore() if has_store else None) as supervisor:
        with pytest.raises(OptionError, match="contains a lone surrogate") as caught:
            await supervisor.start_session(model=saying("Hello."), **given)
        assert len(caught.value.faults) == 1
        numbers = {"user_data": {"n": 10**400, "o": (1.5, None, True)}, "system_prompt": "\U0001f600"}
        await supervisor.start_session(model=saying("Hello."), **numbers)


async def test_a_directory_that_was_removed_is_named(supervisor, tmp_path, monkeypatch):
    """The process still stands in it, so that only the lookup of its path can tell."""
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    with pytest.raises(OptionError, match=r"working_dir is '\.': there is no such directory"):
        await supervisor.start_session(model="demo:")
    assert supervisor.sessions() == ()


@each(
    ("name", "value", "fault"),
    [
        ("model", 42, "model is 42: expected a model string or a provider"),
        ("tools", 42, "tools is 42: expected a sequence of tools"),
        ("session_id", "a b", "session_id is 'a b': expected 1 to 128 of A-Z a-z 0-9 . _ : -"),
        ("session_id", "a" * 129, f"session_id is '{'a' * 129}': expected 1 to 128 of A-Z a-z 0-9 . _ : -"),
        ("group_id", "", "group_id is '': expected 1 to 128 of A-Z a-z 0-9 . _ : -"),
        ("working_dir", "/no/such/place", "working_dir is '/no/such/place': there is no such directory"),
        (
            "working_dir",
            [10**5000],
            "working_dir is <list, whose __repr__ raises>: there is no such directory",
        ),
        ("sandbox", 42, f"sandbox is 42: expected a sandbox, or {ADDRESS_FORMS}"),
        ("sandbox", "locl", f"sandbox is 'locl': expected a sandbox, or {ADDRESS_FORMS}"),
        ("sandbox", "local:/no/such", "sandbox is 'local:/no/such': there is no such directory"),
        ("system_prompt", 1, "system_prompt is 1: expected text or None"),
        ("user_data", 1, "user_data is 1: expected a mapping"),
        ("provider_opts", "x", "provider_opts is of type str: expected a mapping, such as {'api_key': …}"),
        ("immune_tools", "shell", "immune_tools is 'shell': expected a sequence of tool names"),
        ("immune_tools", [1], "immune_tools is [1]: expected a sequence of tool names"),
        ("max_turns", 0, "max_turns is 0: expected a whole number >= 1"),
        ("max_turns", True, "max_turns is True: expected a whole number >= 1"),
        ("max_parallel_tools", 0, "max_parallel_tools is 0: expected a whole number >= 1"),
        ("max_prompt_queue", -1, "max_prompt_queue is -1: expected a whole number >= 0"),
        ("event_buffer_size", -1, "event_buffer_size is -1: expected a whole number >= 0"),
        ("max_output_tokens", 0, "max_output_tokens is 0: expected a whole number >= 1"),
        ("budget", 5, "budget is 5: expected Budget(max_cost_usd=…, max_total_tokens=…), or None"),
        ("inline_tags", 1, "inline_tags is 1: expected True or False"),
        ("response_format", [], "response_format is []: expected a JSON Schema as a dict, or None"),
        ("tool_timeout_seconds", 0, "tool_timeout_seconds is 0: expected a finite number above 0"),
        ("tool_timeout_seconds", 1e306, "tool_timeout_seconds is 1e+306: expected a finite number above 0"),
        (
            "approval_timeout_seconds",
            1e306,
            "approval_timeout_seconds is 1e+306: expected a finite number from 0",
        ),
        ("tool_timeout_seconds", math.inf, "tool_timeout_seconds is inf: expected a finite number above 0"),
        (
            "tool_timeout_seconds",
            10**400,
            f"tool_timeout_seconds is {10**400!r:.200}: expected a finite number above 0",
        ),
        ("tool_timeout_seconds", math.nan, "tool_timeout_seconds is nan: expected a finite number above 0"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_taken(name, value, fault):
    """One sentence: the option, what it got, what it takes."""
    with pytest.raises(OptionError) as caught:
        SessionOptions(**{"model": "demo:", name: value})
    assert caught.value.faults == (fault,)


@each("sandbox", [None, "local", "local:.", "memory", MemorySandbox()])
def test_a_sandbox_is_an_object_or_a_name(sandbox):
    """Of one that is made for the session."""
    assert SessionOptions(model="demo:", sandbox=sandbox).sandbox is sandbox


async def test_options_come_in_one_way(supervisor):
    """A value and keywords leave open which wins; the slip `start_session("demo:")` is told how it is written, and what messages are."""
    for given, more, words in (
        (
            SessionOptions(model=saying()),
            {"max_turns": 3},
            r"both|in one value and as keywords \(max_turns\)",
        ),
        (
            "demo:",
            {},
            "options is 'demo:': expected SessionOptions, a blueprint, or keywords such as model=",
        ),
        (None, {"model": "demo:", "messages": ["hello"]}, "expected a sequence of UserMessage"),
    ):
        with pytest.raises(OptionError, match=words):
            await supervisor.start_session(given, **more)


class Careful:
    """A blueprint: the options that several sessions share."""

    def options(self):
        return {"model": "demo:", "max_turns": 3, "system_prompt": "Be careful."}


def test_a_blueprint_gives_options_and_explicit_ones_win():
    """One without options is told what a blueprint is; a wrong name in it is found, with the nearest that there is."""
    made = make_options({"blueprint": Careful(), "max_turns": 9})
    assert (made.model, made.max_turns, made.system_prompt) == ("demo:", 9, "Be careful.")
    assert make_options({"blueprint": None, "model": "demo:"}).max_turns == 100
    for blueprint in (Careful, object(), type("B", (), {"options": lambda _: 3})()):
        with pytest.raises(OptionError, match=r"expected an object whose \.options\(\)"):
            make_options({"blueprint": blueprint})
    wrong = type("B", (), {"options": lambda _: {"model": "demo:", "max_turn": 3}})()
    with pytest.raises(OptionError, match="did you mean 'max_turns'"):
        make_options({"blueprint": wrong})


OPTIONS = {one.name for one in attrs.fields(SessionOptions)}
OF_SUPERVISORS = set(inspect.signature(agentrail.open_supervisor).parameters)


@pytest.mark.parametrize("name", sorted(OF_SUPERVISORS - OPTIONS - {"shell_fallback"}))
async def test_an_option_of_the_supervisor_names_its_place(name):
    """`open_session(store=…)` must not suggest `scope`, the nearest name here; `shell_fallback` it accepts."""
    with pytest.raises(OptionError, match=rf"{name!r}: .*agentrail\.open_supervisor\({name}=…\)"):
        async with agentrail.open_session(model="demo:", **{name: "x"}):
            pass


async def test_a_word_of_another_library_is_answered_with_ours(supervisor):
    """Who writes `instructions=` or `temperature=` is told where that goes here, and all that is named there exists; none is an option here."""
    assert not OPTIONS & set(OTHER_WORDS)
    for word, answer in OTHER_WORDS.items():
        with pytest.raises(OptionError) as caught:
            await supervisor.start_session(model="demo:", **{word: "x"})
        (fault,) = caught.value.faults
        assert fault == f"there is no option {word!r}: {answer}"
        named = set(re.findall(r"\b(\w+)=(?!=)", fault))
        assert (
            named <= OPTIONS | {"output", "settings", "max_cost_usd", "max_total_tokens"} | OF_SUPERVISORS
        ), word
        assert named or "session." in fault, word
        assert all(hasattr(Session, call) for call in re.findall(r"session\.(\w+)", fault)), word
        known = {one.name for one in attrs.fields(ProviderOptions)}
        assert set(re.findall(r"provider_opts={'(\w+)'", fault)) <= known, word
        assert set(re.findall(r"settings={'(\w+)'", fault)) <= set(SETTINGS), word


class Named(str, enum.Enum):  # noqa: UP042 - as many programs write it
    """The names of a program, as many programs write them."""

    SMALL = "demo:fast"
    TEAM = "team-a"
    STOP = "stop"


class Size(enum.IntEnum):
    """A number with a name."""

    FIVE = 5


@pytest.mark.parametrize("store", [None, "memory:"])
async def test_a_member_of_an_enumeration_is_its_text_or_number(store):
    """With a store and without one. A session with a store once refused it, and named neither the option nor a remedy."""
    async with agentrail.open_supervisor(store=store) as supervisor:
        session = await supervisor.start_session(
            model=Named.SMALL,
            session_id=Named.TEAM,
            scope=Named.TEAM,
            group_id=Named.TEAM,
            system_prompt=Named.TEAM,
            on_max_turns=Named.STOP,
            max_turns=Size.FIVE,
            immune_tools=[Named.TEAM],
            fallback_models=(Named.SMALL,),
        )
        assert await session.ask("Hi")
        assert repr(session) == "<Session team-a/team-a idle>"
        given = session._cell.state.data.config  # noqa: SLF001 - what was taken
        texts = (given.scope, given.on_max_turns, *given.immune_tools)
        assert {type(one) for one in texts} == {str}
        assert type(given.max_turns) is int


async def test_a_model_of_an_enumeration_is_remembered_for_no_other_session():
    """Facts of a model are remembered by its name, which equals the member. Later sessions with a store were refused."""
    async with agentrail.open_supervisor() as supervisor:
        session = await supervisor.start_session(model="demo:")
        await session.switch_model(Named.SMALL)
    async with agentrail.open_supervisor(store="memory:") as supervisor:
        session = await supervisor.start_session(model="demo:fast")
        assert type((await session.status()).model) is str


class Odd(str):
    """Text with an attribute of its own."""

    __slots__ = ()
    value = ("demo:",)


async def test_only_a_member_of_an_enumeration_has_another_text():
    """A text of some other class is itself, whatever its attributes are."""
    async with agentrail.open_session(model=Odd("demo:fast")) as session:
        assert (await session.status()).model == "demo:fast"
