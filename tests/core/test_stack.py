"""Loading a stack: the order in which plugins are asked, and everything that is wrong with it, told at once."""

import re

import attrs
import pytest

from agentrail import plugins as p
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.errors import PluginError
from tests.core.plugin_rig import Says


class Keeps(p.Plugin[object]):
    """Keeps whatever it is given."""

    def init(self, value=0):
        """Take it."""
        return value

    def handle(self, event, state, ctx):
        """Keep it."""
        return p.Continue(state)


class Refuses(p.Plugin[int]):
    """Cannot be started."""

    def init(self, size):
        """Raise."""
        message = f"size {size} is too small"
        raise ValueError(message)

    def handle(self, event, state, ctx):
        """Never asked."""
        return p.Continue(state)


class Waits(p.Plugin[int]):
    """Wants to wait."""

    def init(self):
        """Begin."""
        return 0

    async def handle(self, event, state, ctx):
        """Cannot be."""
        return p.Continue(state)


class HasNoInit(p.Plugin[int]):
    """Has no first state."""


@attrs.define
class Mutable:
    """Can be changed."""

    count: int = 0


def with_members(**members):
    """A plugin that is fine but for these."""
    return Says(members.pop("name", "bad"), **members)


BAD = {
    "no plugin": (3, "3 is not a plugin: derive from p.Plugin, or decorate a function with @p.plugin"),
    "a class that is none": (dict, "<class 'dict'> is not a plugin"),
    "no init": (HasNoInit, "cannot be made without arguments"),
    "an init that raises": (
        (Refuses, {"size": 1}),
        "plugin 'Refuses': init(size=1) raised ValueError: size 1 is too small",
    ),
    "unknown options": ((Keeps, {"volume": 1}), "plugin 'Keeps': init(volume=1) raised TypeError"),
    "options that are no JSON": (
        (Keeps, {"value": {1}}),
        "plugin 'Keeps': options.value is a set, which is no JSON",
    ),
    "an unknown hook": (
        with_members(hooks=(p.BeforeTool, int)),
        "it declares the hook int, which there is not: there are",
    ),
    "a hook by its name": (
        with_members(hooks=("before_tool",)),
        "it declares the hook 'before_tool', which there is not",
    ),
    "a priority that is no integer": (
        with_members(priority="high"),
        "its priority is 'high', expected an integer",
    ),
    "a priority that is a bool": (with_members(priority=True), "its priority is True, expected an integer"),
    "no name": (with_members(name=""), "its name is '', expected a text that is not empty"),
    "a version that is a number": (with_members(version=2), "its version is 2, expected a text"),
    "another on_error": (
        with_members(on_error="maybe"),
        "its on_error is 'maybe', expected 'open' or 'closed'",
    ),
    "a handler that waits": (Waits, "its handle is async: a plugin cannot wait"),
    "an answer that its hook does not take": (
        with_members(always={p.AfterTurn: p.BlockTool}),
        "it always answers AfterTurn with BlockTool, which that hook does not accept",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_plugin_that_cannot_be_is_refused_with_its_name(what):
    """What is wrong is said when the stack is built, with the plugin and the way out (5.5, issue 5)."""
    entry, words = BAD[what]
    with pytest.raises(PluginError, match=re.escape(words)):
        load_stack([entry])


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ([1], "state is a list, which can be changed: use a tuple"),
        ((1, {"a": 1}), "state[1] is a dict, which can be changed"),
        (Mutable(), "state is a Mutable, which can be changed: make it @attrs.frozen"),
        (object(), "state is a object: states are frozen attrs classes, scalars, tuples, frozen mappings"),
        (float("nan"), "state is nan, which JSON cannot say"),
    ],
)
def test_a_state_that_cannot_be_stored_refuses_the_start(state, words):
    """The first state is tried with the codec before anything starts (5.1)."""

    @p.plugin(init=lambda: state)
    def keeps(event, state, ctx):
        return p.Continue(state)

    with pytest.raises(PluginError, match=re.escape(f"plugin 'keeps': init made a {words}")):
        load_stack([keeps])


def test_the_first_state_must_be_of_the_declared_type():
    """A plugin whose `init` gives something else than `Plugin[…]` says is refused."""

    class Lies(Says):
        """Says that it counts."""

        def init(self, first=0):
            return "no number"

    with pytest.raises(PluginError, match="plugin 'lies': init made a state of type str, expected int"):
        load_stack([Lies("lies")])


def test_all_faults_are_told_at_once():
    """Each plugin that cannot be loaded has its sentence, in the order of registration."""
    with pytest.raises(PluginError) as caught:
        load_stack([with_members(priority=None, version=1), Says("fine"), 3])
    assert [fault[:24] for fault in caught.value.faults] == [
        "plugin 'bad': its versio",
        "plugin 'bad': its priori",
        "3 is not a plugin: deriv",
    ]


@pytest.mark.at(109)
def test_two_plugins_of_one_name_are_refused():
    """Names are unique in a stack; the same class may stand twice under two names (5.1)."""
    with pytest.raises(
        PluginError, match=r"two plugins are named 'Keeps': give one of them another, Keeps\(name=…\)"
    ):
        load_stack([Keeps, (Keeps, {"value": 1})])
    stack, states = load_stack([Keeps, (Keeps(name="second"), {"value": 1})])
    assert stack.names == ("Keeps", "second")
    assert dict(states) == {"Keeps": 0, "second": 1}


@pytest.mark.at(109)
def test_two_writers_of_one_thing_are_named():
    """Two plugins that always write the same are reported with both names and the one that counts (5.5)."""
    always = {p.BeforeRequest: p.SwitchModel}
    stack, _ = load_stack([Says("a", always=always), Says("b", always=always, priority=600), Says("c")])
    assert stack.warnings == (
        "'a' and 'b' both always answer BeforeRequest with SwitchModel: only what 'b' says ever counts",
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
        "'deaf' is never asked: it listens to no hook",
    )


@pytest.mark.at(107)
def test_lower_priorities_are_asked_first_and_ties_in_order_of_registration():
    """The order is computed once, and is the documented one (5.1)."""
    stack, _ = load_stack([Says("c", priority=900), Says("a"), Says("guard", priority=0), Says("b")])
    assert stack.names == ("guard", "a", "b", "c")
    assert [member.guards for member in stack.members] == [True, False, False, False]


def test_a_plugin_that_raises_when_it_is_looked_at_is_refused():
    """What it declares may be code, and somebody else's; whatever it raises, its author is told."""

    class Bad(p.Plugin[int]):
        """Cannot say what it is."""

        @property
        def priority(self):
            raise GeneratorExit

        def init(self):
            return 0

    with pytest.raises(PluginError, match="what Bad says of itself raised GeneratorExit"):
        load_stack([Bad])
