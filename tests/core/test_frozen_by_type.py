"""What is made of somebody's own dictionaries and lists is frozen: by the classes themselves, so no door can forget it."""

import pytest

from agentrail.abc import ToolListing
from agentrail.core.policy.response_format import ResponseFormat
from agentrail.core.protocol.hooks import BeforePluginOptsUpdate, BeforeTool, Found
from agentrail.core.protocol.signals import Approve, ToolEmitted, ToolFinished, UpdatePluginOpts
from agentrail.core.protocol.tool_changes import UpdateContext
from agentrail.core.values.toolbox import ToolSpec
from agentrail.errors import ToolContractError
from agentrail.events import Approval, PluginEvent, ToolExecutionStart
from agentrail.messages import Opaque, ToolCall, ToolResult
from agentrail.runtime.session_options import SessionOptions
from property_tests.vandal import edit_everything, portrait
from tests.core.worlds import config


def test_what_is_made_of_an_object_has_its_own():
    """Whoever goes on writing to what was given, or writes to what is shown, changes nothing."""
    made = {
        "call": lambda live: ToolCall(call_id="c", name="t", arguments=live),
        "result": lambda live: ToolResult(call_id="c", name="t", text="x", details=live),
        "opaque": lambda live: Opaque(provider="p", payload=live),
        "spec": lambda live: ToolSpec(name="t", description="d", parameters=live),
        "approval": lambda live: Approval(
            id="a", call_id="c", tool="t", arguments=live, arguments_hash="", requested_at_ms=0, path=()
        ),
        "start": lambda live: ToolExecutionStart(name="t", call_id="c", arguments=live),
        "plugin event": lambda live: PluginEvent(name="n", payload=live),
        "memory": lambda live: UpdateContext(key="memory", value=live),
        "approve": lambda live: Approve(at_ms=0, signal_id="s", approval_id="a", arguments=live),
        "options": lambda live: UpdatePluginOpts(at_ms=0, signal_id="s", plugin="p", options=live),
        "emitted": lambda live: ToolEmitted(at_ms=0, effect_id="t1", name="n", payload=live),
        "finished": lambda live: ToolFinished(
            at_ms=0, effect_id="t1", text="x", details=live, started_at_ms=0
        ),
        "before tool": lambda live: BeforeTool(name="t", arguments=live, call_id="c"),
        "before options": lambda live: BeforePluginOptsUpdate(plugin="p", options=live),
        "found": lambda live: Found(entries=[live]),
        "config": lambda live: config(user_data=live),
        "format": lambda live: ResponseFormat(live).schema,
        "listing": lambda live: ToolListing(session_id="s", model="m:m", working_dir=".", user_data=live),
        "session options": lambda live: SessionOptions(
            model="demo:", user_data=live, provider_opts=live, response_format=live
        ),
    }
    for kind, make in made.items():
        live = {"type": "object", "properties": {"a": {"enum": [1, [2]]}}}
        value = make(live)
        before = portrait(value)
        live["properties"]["a"]["enum"].append(3)
        live["more"] = 1
        edit_everything(value)
        assert portrait(value) == before, kind
        assert "more" not in str(before)


def test_memory_that_is_no_json_is_refused():
    """The session could not keep it: the tool's author reads what is wrong, and where."""
    with pytest.raises(ToolContractError, match=r"value\.a is a object, which is not JSON"):
        UpdateContext(key="memory", value={"a": object()})
