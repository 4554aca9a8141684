"""A state as people look at it: by names, complete, and without what may hold keys."""

import json

import msgspec

from agentrail.core.journal.replaying import state_at
from agentrail.core.protocol import signals as s
from agentrail.core.session.machine import new_session
from agentrail.core.session.plain_state import plain_state
from agentrail.core.session.state import SessionData
from agentrail.core.stack.loading import load_stack
from agentrail.testing.plugins import PuppetPlugin, PuppetRule
from tests.core.journal.golden_journals import SOURCES, guarded
from tests.core.journal.recorded import Told
from tests.core.worlds import TOOLS, agents_session, config


def test_a_state_is_told_by_names():
    """Plugins and their states, tools, the conversation; and all else that a session knows, under its own name."""
    records = guarded().life.records
    told = plain_state(state_at(records, 5, SOURCES))
    assert (told["phase"], told["suspended"], told["ended"]) == ("idle", True, False)
    assert [one["role"] for one in told["messages"]] == ["user", "assistant"]
    assert told["plugins"] == {"guard": {"version": "0", "state": 0}}
    assert told["tools"] == ["ask", "deploy", "read", "watch"]
    assert [one["spec"] for one in told["batch"]] == ["deploy", "ask"]
    assert told["interactions"][0]["asked"]["question"] == "Now?"
    renamed = {"history": "messages", "plugin_states": "plugins", "stack": "plugins"}
    data = state_at(records, 5, SOURCES).data
    for one in msgspec.structs.fields(
        SessionData
    ):  # one that came later is not written as long as it holds its default
        assert renamed.get(one.name, one.name) in told or getattr(data, one.name) == one.default, one.name
    json.dumps(told)


class Keyed(PuppetPlugin):
    """Takes options."""

    def init(self, **options):
        """Keep none."""
        return 0


def test_neither_options_nor_data_of_the_application_are_told():
    """Not even where an update waits for idle, or a signal for another phase."""
    stack, states = load_stack(
        [
            (
                Keyed((PuppetRule(hook="BeforeTool", tool=None, action="block", text="no"),), name="k"),
                {"key": "canary"},
            )
        ]
    )
    session = Told(new_session(config(user_data={"key": "canary"}), TOOLS, stack, states))
    session.prompt("Hi")
    session.say(s.UpdatePluginOpts, plugin="k", options={"key": "canary"})
    told = plain_state(session.life.state)
    assert told["updates"] == ["k"] or told["postponed"] == ["update_plugin_opts"]
    assert "canary" not in json.dumps(told)


def test_agents_are_told_with_the_names_of_their_tools():
    """And not with numbers of a list that is not there."""
    told = plain_state(agents_session())
    tools = {one["name"]: one["tools"] for one in told["config"]["agents"]}
    assert tools["poet"] == ["ask", "deploy", "read", "watch"]
    assert tools["clerk"] is None
