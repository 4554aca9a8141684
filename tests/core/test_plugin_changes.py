"""Options that change while a session lives, and plugins that come, go, and are replaced."""

import attrs
import pytest

from agentrail import plugins as p
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.pipeline import run_hook
from agentrail.core.stack.plugin_changes import decide_update, reload_plugin
from agentrail.errors import PluginError
from agentrail.events import ActionIgnored, PluginOptsUpdated
from agentrail.frozen import FrozenDict
from agentrail.messages import TokenUsage
from tests.core.plugin_rig import CTX, EVENTS, SAYINGS, Says, raises


@attrs.frozen
class Limits:
    most: int = 10
    used: int = 0


class Guard(p.Plugin[Limits]):
    priority = 10

    def init(self, most=10):
        return Limits(most=most)

    def handle(self, event, state, ctx):
        return p.Continue(attrs.evolve(state, used=state.used + 1))


def update(others=(), name="Guard", plugin=Guard, **options):
    stack, states = load_stack([(plugin, {}), *others])
    return decide_update(stack, name, options, states, CTX)


def test_a_state_is_merged_field_by_field_or_made_anew():
    """The default of `on_config_update` replaces the named fields of attrs classes and mappings; any other state is what `init` makes of the options (5.7)."""
    stack, states = load_stack([(Guard, {"most": 3})])
    states = run_hook(stack, EVENTS[p.AfterTurn], states, CTX).states
    change = decide_update(stack, "Guard", {"most": 5}, states, CTX)
    assert change.states["Guard"] == Limits(most=5, used=1)
    assert change.events == (PluginOptsUpdated(plugin="Guard", success=True),)
    assert change.stack.find("Guard").options == {"most": 5}
    assert change.stack.names == ("Guard",)

    counting = p.plugin(init=lambda first=0: first, name="n")(lambda event, state, ctx: p.Continue(state))
    assert p.apply_config_update(counting, {"first": 7}, 3) == 7
    merged = p.apply_config_update(counting, {"b": 3}, FrozenDict(a=1, b=2))
    assert merged == {"a": 1, "b": 3}
    assert isinstance(merged, FrozenDict)
    usage = p.apply_config_update(counting, {"input": 3}, TokenUsage(output=1))
    assert usage == TokenUsage(input=3, output=1)
    with pytest.raises(TypeError, match="no field 'volume'"):
        p.apply_config_update(counting, {"volume": 3}, TokenUsage())


def test_an_update_that_cannot_hold_is_refused():
    """The new state is tried with the codec before it holds; between the call and idle a plugin may have been detached."""
    (said,) = update(most=2**70).events
    assert said.error.message == "it made a state.most is a number of more than 64 bits"
    (said,) = update(most="many").events
    assert "it made a state Limits(most='many', used=0) cannot be read back as Limits" in said.error.message
    (said,) = update(name="Gone", most=1).events
    assert (said.plugin, said.success, said.error.code) == ("Gone", False, "no_such_plugin")


def test_the_others_may_refuse_an_update():
    """`AbortCycle`, `Skip`, or a closed plugin that fails, refuse this update; the plugin itself is not asked (5.4, 5.7)."""
    for answer, why in (
        (SAYINGS[p.Abort], "refused by 'other': enough"),
        (SAYINGS[p.Skip], "refused by 'other': it was skipped"),
        (raises, "refused by 'other': plugin 'other' failed: ZeroDivisionError: a bug"),
    ):
        change = update([Says("other", answer, on_error="closed")], most=3)
        assert change.states["Guard"] == Limits()
        assert change.events[-1].error.message.partition(" (core/plugin_rig.py:")[0] == why

    other = Says("other", p.Intervene)
    change = update([other], most=3)
    assert other.shown == [p.BeforePluginOptsUpdate(plugin="Guard", options={"most": 3})]
    assert change.states == {"Guard": Limits(most=3), "other": 1}
    assert [type(event) for event in change.events] == [ActionIgnored, PluginOptsUpdated]


class Newer(Guard):
    name = "Guard"
    version = "2"

    def handle(self, event, state, ctx):
        if isinstance(event, p.BeforePrompt):
            return p.Abort("no prompts", state, emits=(("refused", 1),))
        return p.Continue(state)

    def migrate(self, old_version, state):
        assert old_version == "0"
        return attrs.evolve(state, used=0)


def loaded():
    """A stack with the old code, which has met something."""
    stack, states = load_stack([(Guard, {"most": 4}), Says("other")])
    return stack, run_hook(stack, EVENTS[p.AfterTurn], states, CTX).states


@pytest.mark.at(116)
def test_new_code_takes_the_place_of_the_old_with_its_state_migrated():
    """A reload is atomic: afterwards only the new code is asked, with the migrated state and the old options (5.7)."""
    stack, states = loaded()
    rehearsal = [(event, CTX) for event in EVENTS.values()]
    change = reload_plugin(stack, states, Newer, rehearsal=rehearsal)
    assert change.states["Guard"] == Limits(most=4, used=0)
    assert change.states["other"] == states["other"]
    assert change.stack.find("Guard").options == {"most": 4}
    assert run_hook(change.stack, EVENTS[p.BeforePrompt], change.states, CTX).decision.by == "Guard"
    with_options = reload_plugin(stack, states, (Newer, {"most": 1}))
    assert with_options.stack.find("Guard").options == {"most": 1}


def other_guard(**members):
    return type("Guard", (Guard,), {"__doc__": "Other code.", **members})


def test_a_reload_that_would_go_wrong_changes_nothing():
    """Nothing is swapped unless the new code loads, migrates, and answers what this session met lately (5.7)."""
    for entry, why in (
        (other_guard(version="3"), "'Guard' 3 cannot migrate the state of version 0"),
        (
            other_guard(version="3", migrate=lambda self, old_version, state: "used"),
            "was not reloaded: it made a state of type str, expected Limits",
        ),
        (other_guard(handle=raises), "was not reloaded: on AfterTurn it ZeroDivisionError: a bug"),
        ((Newer, {"volume": 1}), r"init\(volume=1\) raised TypeError"),
        (Says("elsewhere"), "no plugin is named 'elsewhere'"),
        (3, "no plugin is named '3'"),
    ):
        stack, states = loaded()
        with pytest.raises(PluginError, match=why):
            reload_plugin(stack, states, entry, rehearsal=[(EVENTS[p.AfterTurn], CTX)])
