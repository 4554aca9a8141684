"""A state as people look at it: by names, complete, and without what may hold keys."""

import json

import msgspec

from agentrail.core.journal.replay import state_at
from agentrail.core.session.plain_state import plain_state
from agentrail.core.session.state import SessionData
from agentrail.messages import CallId, ToolCall
from tests.core.journal.golden_journals import SOURCES, guarded
from tests.core.worlds import agents_session, completed, prompt, run, stream_of


def test_a_state_is_told_by_names():
    """Plugins and their states, tools, the conversation, agents with the names of their tools; and all else under its own name."""
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
    # One that came later is not written as long as it holds its default.
    for one in msgspec.structs.fields(SessionData):
        assert renamed.get(one.name, one.name) in told or getattr(data, one.name) == one.default, one.name
    json.dumps(told)

    told = plain_state(agents_session())
    tools = {one["name"]: one["tools"] for one in told["config"]["agents"]}
    assert tools["poet"] == ["ask", "deploy", "read", "watch"]
    assert tools["clerk"] is None


def test_a_call_of_an_unknown_tool_has_no_spec():
    """It waits for the other calls of its batch, under the model's own name for it."""
    asked = run([prompt()])
    wanted = [ToolCall(call_id=CallId(name), name=name, arguments={}) for name in ("nothing", "ask")]
    state = run([completed(stream_of(asked), *wanted, stop_reason="tool_use")], asked)
    assert [(one["call"]["name"], one["spec"]) for one in plain_state(state)["batch"]] == [
        ("nothing", None),
        ("ask", "ask"),
    ]
