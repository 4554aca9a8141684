"""What can be wrong with a plugin of a host is said when the host is built, with what to do about it."""

import pytest

from agentrail.errors import OptionError
from agentrail.host.hook_payloads import Allow, AttachmentText, Deny, HandledResponse
from agentrail.host.host_plugin import HostPlugin, check_host_plugins
from tests.host.rig import AROUND, CHAT, CONTEXT, after, before, plugin
from tests.thinned import each


class Sound(HostPlugin):
    """A plugin that has nothing wrong with it."""

    name = "sound"

    async def on_request_start(self, ctx):
        """Hear of it."""


def with_(**members):
    return type("Odd", (Sound,), members)()


async def ended(_self):
    """A hook."""


async def both(_self, _ctx, _extra):
    """A hook with one parameter too many."""


def plain(_self, _ctx):
    """No hook: it is not async."""


@each(
    ("members", "said"),
    [
        ({"name": ""}, "name is '': set `name` to a text that no other plugin of the host has"),
        ({"name": 5}, "name is 5"),
        ({"version": 1.2}, "version is 1.2: expected a text such as '1.2.0'"),
        ({"priority": True}, "priority is True: expected a whole number; higher runs first"),
        ({"priority": 1.5}, "priority is 1.5"),
        ({"critical": 1}, "critical is 1: expected True or False"),
        ({"fail_closed": None}, "fail_closed is None: expected True or False"),
        ({"critical": True}, "there is no intercept_chat_request that could fail"),
        ({"fail_closed": True}, "there is no on_before_tool_call that could fail"),
        ({"on_request_end": plain}, "on_request_end is not an `async def`: write `async def on_request_end`"),
        ({"on_request_end": both}, "write `async def on_request_end(self, ctx)`"),
        ({"start": both}, "write `async def start(self)`"),
        ({"stop": lambda _self: None}, "stop is not an `async def`"),
        ({"stop": None}, "stop is not an `async def`"),
        (
            {"on_request_started": ended},
            "on_request_started is not a hook and is never called: did you mean on_request_start?",
        ),
        ({"intercept_chat": ended}, "did you mean intercept_chat_request?"),
        ({"attachments_handler": ended}, "did you mean attachment_handler?"),
        ({"on_x": 5}, "on_x is not a hook and is never called"),
        ({"timeouts": 5}, "timeouts are 5: expected hook names and seconds"),
        (
            {"timeouts": {"on_request_begin": 5}},
            "timeouts['on_request_begin'] is not for a hook: did you mean 'on_request_end'?",
        ),
        ({"timeouts": {7: 5}}, "timeouts[7] is not for a hook"),
        ({"timeouts": {"background": 5}}, "timeouts['background']: it runs until the host stops"),
        ({"timeouts": {"stop": 0}}, "timeouts['stop'] is 0: expected seconds above 0"),
        ({"timeouts": {"stop": True}}, "timeouts['stop'] is True"),
        ({"timeouts": {"stop": 10**400}}, "timeouts['stop'] is 1000"),
        ({"timeouts": {"stop": float("inf")}}, "timeouts['stop'] is inf"),
        ({"timeouts": {"stop": float("nan")}}, "timeouts['stop'] is nan"),
        ({"context_providers": 5}, "context_providers are 5: expected a sequence of async functions"),
        ({"context_providers": "abc"}, "context_providers are 'abc'"),
        ({"context_providers": (5,)}, "context_providers are (5,)"),
        ({"context_providers": (lambda context, messages: [],)}, "expected a sequence of async functions"),
    ],
)
def test_what_is_wrong_with_a_plugin_is_said(members, said):
    """With the place, the class, what came and what to do."""
    with pytest.raises(OptionError) as caught:
        check_host_plugins([with_(**members)])
    assert "plugins[0] Odd: " in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.host("H-010")
def test_two_plugins_of_one_name_are_refused():
    """With both places; and all that is wrong with any of them is said at once."""
    with pytest.raises(OptionError) as caught:
        check_host_plugins([Sound(), plugin("other", priority="high"), Sound(), Sound])
    said = str(caught.value)
    assert "plugins[2] has the name 'sound' of plugins[0]: give each its own" in said
    assert "priority is 'high'" in said
    assert "plugins[3] is <class" in said
    assert "expected an object of a subclass of HostPlugin" in said


@each(
    ("kind", "given", "said"),
    [
        (HandledResponse, {"body": "no"}, "body is 'no': expected a JSON object"),
        (HandledResponse, {"body": {"a": {1}}}, "body is not JSON:"),
        (HandledResponse, {"status": 418}, "status is 418: expected one of 200, 201, 202, 400"),
        (HandledResponse, {"status": True}, "status is True"),
        (HandledResponse, {"headers": 5}, "headers are 5"),
        (
            HandledResponse,
            {"headers": {"set-cookie": "a=b"}},
            "header 'set-cookie': expected retry-after, www-authenticate or x-",
        ),
        (HandledResponse, {"headers": {"x-a": "1\r\nset-cookie: a=b"}}, "header 'x-a' is '1\\r\\n"),
        (HandledResponse, {"headers": {"x-a\n": "1"}}, "header 'x-a\\n'"),
        (HandledResponse, {"headers": {"retry-after": 5}}, "header 'retry-after' is 5"),
        (Allow, {"input": 5}, "input is 5: expected a JSON object, or None to run the original call"),
        (Allow, {"input": {"a": {1}}}, "input is not JSON"),
        (Deny, {"reason": None}, "reason is None: expected text for the model"),
        (Deny, {"reason": " "}, "reason is ' '"),
        (AttachmentText, {"context_text": 5}, "context_text is 5: expected a text, or None"),
    ],
)
def test_what_a_hook_may_not_answer_is_refused_where_it_is_made(kind, given, said):
    """So the fault is the plugin's, with its traceback."""
    if kind is HandledResponse:
        given = {"body": {}, **given}
    with pytest.raises(OptionError) as caught:
        kind(**given)
    assert said in str(caught.value)


@pytest.mark.host("H-016")
def test_payloads_have_exactly_the_documented_fields():
    """As plain JSON too, without the reader."""
    around = {"tenant_id": "t", "user_id": "u", "session_id": "s-1", "agent_id": "a", "request_id": "r-1"}
    assert CONTEXT.as_dict() == {**around, "kind": "chat", "started_at_ms": 5, "outcome": None}
    call = {"tool_name": "book", "call_id": "c-1", "input": {"a": [1]}}
    context = {**around, "root_session_id": "s-1"}
    assert before({"a": [1]}).as_dict() == {**call, "context": context}
    told = {"result": "done", "is_error": False, "duration_ms": 7}
    assert after({"a": [1]}).as_dict() == {**call, **told, "context": context}
    assert AROUND.as_dict() == context
    caller = {"tenant_id": "t", "user_id": "u"}
    unsaid = dict.fromkeys(("session_id", "mode", "client_id"))
    assert CHAT.as_dict() == {
        "kind": "chat",
        "agent_id": "a",
        "principal": {**caller, "scopes": ["use"]},
        "request": {"message": "Hi", **caller, "agent_id": "a", **unsaid, "metadata": {}},
    }
