"""Loading a stack: the order in which plugins are asked, and everything that is wrong with it, told at once."""

import re

import attrs
import pytest

from agentrail import plugins as p
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.errors import PluginError
from tests.core.plugin_rig import Says


class Keeps(p.Plugin[object]):
    def init(self, value=0):
        return value

    def handle(self, event, state, ctx):
        return p.Continue(state)


def made(base=Keeps, **members):
    """Make a class of plugins with these members."""
    return type("Odd", (base,), {"__doc__": "Odd.", **members})


def too_small(self, size):
    message = f"size {size} is too small"
    raise ValueError(message)


async def waits(self, event, state, ctx):
    return p.Continue(state)


def with_members(**members):
    """A plugin that is fine but for these."""
    return Says(members.pop("name", "bad"), **members)


BAD = {
    "no plugin": (3, "3 is not a plugin: derive from p.Plugin, or decorate a function with @p.plugin"),
    "a class that is none": (dict, "<class 'dict'> is not a plugin"),
    "no init": (made(p.Plugin), "cannot be made without arguments"),
    "an init that raises": (
        (made(init=too_small), {"size": 1}),
        "plugin 'Odd': init(size=1) raised ValueError: size 1 is too small",
    ),
    "unknown options": ((Keeps, {"volume": 1}), "plugin 'Keeps': init(volume=1) raised TypeError"),
    "options that are no JSON": (
        (Keeps, {"value": {1}}),
        "'Keeps': options.value is a set, which is not JSON",
    ),
    "an unknown hook": (
        {"hooks": (p.BeforeTool, int)},
        "it declares the hook int, which does not exist: expected one of",
    ),
    "a hook by its name": (
        {"hooks": ("before_tool",)},
        "it declares the hook 'before_tool', which does not exist",
    ),
    "hooks of an iterator": (  # the second session would find it empty, so its guard would be asked about nothing
        {"hooks": iter((p.BeforeTool,))},
        "plugin 'bad': its hooks are <tuple_iterator object",
    ),
    "a hook alone": ({"hooks": p.BeforeTool}, "plugin 'bad': its hooks are <class"),
    "a hook alone, by its name": ({"hooks": "before_tool"}, "its hooks are 'before_tool', expected a tuple"),
    "a pair without options": (
        (Keeps, None),
        "Keeps'>, None) is not a plugin: expected a plugin, or a pair of",
    ),
    "two plugins in a pair": (
        (Keeps, Keeps),
        "is not a plugin: expected a plugin, or a pair of a plugin and",
    ),
    "three of a pair": ((Keeps, {}, 1), "{}, 1) is not a plugin: expected a plugin, or a pair of a plugin"),
    "an empty tuple": ((), "() is not a plugin: expected a plugin, or a pair of a plugin and its options"),
    "a priority that is no integer": ({"priority": "high"}, "its priority is 'high', expected an integer"),
    "a priority that is a bool": ({"priority": True}, "its priority is True, expected an integer"),
    "no name": ({"name": ""}, "its name is '', expected a text that is not empty"),
    "a version that is a number": ({"version": 2}, "its version is 2, expected a text"),
    "another on_error": ({"on_error": "maybe"}, "its on_error is 'maybe', expected 'open' or 'closed'"),
    "a handler that waits": (
        made(handle=waits),
        "its handle is async, but a plugin cannot wait: return a Request for async work",
    ),
    "an init that waits": (
        made(init=waits),
        "its init is async, but a plugin cannot wait: return a Request for async work",
    ),
    "an answer that its hook does not take": (
        {"always": {p.AfterTurn: p.BlockTool}},
        "it always answers AfterTurn with BlockTool, which that hook does not accept",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_plugin_that_cannot_be_is_refused_with_its_name(what):
    """What is wrong is said when the stack is built, with the plugin and the way out (5.5, issue 5)."""
    entry, words = BAD[what]
    entry = with_members(**entry) if isinstance(entry, dict) else entry
    with pytest.raises(PluginError, match=re.escape(words)):
        load_stack([entry])


def test_a_state_that_cannot_be_stored_refuses_the_start():
    """The first state is tried with the codec before anything starts, and is of the declared type (5.1)."""
    mutable = attrs.make_class("Mutable", ["count"])
    for first, words in (
        ([1], "state is a list, which can be changed: use a tuple"),
        ((1, {"a": 1}), "state[1] is a dict, which can be changed"),
        (mutable(0), "state is a Mutable, which can be changed: make it @attrs.frozen"),
        (
            object(),
            "state is a object: a state may contain frozen attrs classes, scalars, tuples and frozen mappings",
        ),
        (float("nan"), "state is nan, which JSON cannot represent"),
    ):
        keeps = p.plugin(init=lambda first=first: first, name="keeps")(
            lambda event, state, ctx: p.Continue(state)
        )
        with pytest.raises(PluginError, match=re.escape(f"plugin 'keeps': init: {words}")):
            load_stack([keeps])
    with pytest.raises(PluginError, match="plugin 'lies': init: state of type str, expected int"):
        load_stack([Says("lies", init=lambda: "no number")])


def test_all_faults_are_told_at_once():
    """Each plugin that cannot be loaded has its sentence, in the order of registration; whatever a look at one raises, its author is told."""
    with pytest.raises(PluginError) as caught:
        load_stack([with_members(priority=None, version=1), Says("fine"), 3])
    assert [fault[:24] for fault in caught.value.faults] == [
        "plugin 'bad': its versio",
        "plugin 'bad': its priori",
        "3 is not a plugin: deriv",
    ]

    def priority(self):
        raise GeneratorExit

    with pytest.raises(PluginError, match="an attribute of Odd raised GeneratorExit"):
        load_stack([made(priority=property(priority))])


@pytest.mark.at(109)
def test_two_plugins_of_one_name_are_refused_and_two_writers_of_one_thing_named():
    """Names are unique, though one class may stand twice; of two that always write the same, both are named and the one that counts (5.1, 5.5)."""
    said = r"two plugins are named 'Keeps': give one of them another, Keeps\(name=…\)"
    with pytest.raises(PluginError, match=said):
        load_stack([Keeps, (Keeps, {"value": 1})])
    stack, states = load_stack([Keeps, (Keeps(name="second"), {"value": 1})])
    assert stack.names == ("Keeps", "second")
    assert dict(states) == {"Keeps": 0, "second": 1}

    always = {p.BeforeRequest: p.SwitchModel}
    stack, _ = load_stack([Says("a", always=always), Says("b", always=always, priority=600), Says("c")])
    assert stack.warnings == (
        "'a' and 'b' both always answer BeforeRequest with SwitchModel: only the answer of 'b' ever counts",
    )
    for shared in (p.Intervene, p.Emit):
        many = [Says(name, always={p.BeforeRequest: shared}) for name in "ab"]
        assert load_stack(many)[0].warnings == ()


@pytest.mark.at(108)
def test_a_plugin_that_can_never_be_reached_is_named():
    """It listens to nothing, or others always stop before it; both are said with all names (5.5)."""
    stops = Says("stops", always={p.BeforePrompt: p.Skip}, priority=100)
    behind, elsewhere = (
        Says("behind", hooks=(p.BeforePrompt,)),
        Says("too", hooks=(p.BeforePrompt, p.AfterTurn)),
    )
    stack, _ = load_stack([behind, stops, elsewhere, Says("deaf", hooks=())])
    assert stack.warnings == (
        "'behind' is never asked: 'stops' always stops before it",
        "'deaf' is never asked: it handles no hook",
    )


@pytest.mark.at(107)
def test_lower_priorities_are_asked_first_and_ties_in_order_of_registration():
    """The order is computed once, and is the documented one (5.1)."""
    stack, _ = load_stack([Says("c", priority=900), Says("a"), Says("guard", priority=0), Says("b")])
    assert stack.names == ("guard", "a", "b", "c")
    assert [member.guards for member in stack.members] == [True, False, False, False]
