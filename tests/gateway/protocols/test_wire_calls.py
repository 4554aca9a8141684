"""Calls on sessions that all wires make: decisions that a plugin of the host answers, and cycles that began long ago."""

from collections.abc import Mapping
from types import SimpleNamespace

import pytest
import trio

from agentrail import tool
from agentrail.core.session.client_calls import MAX_ANSWER_BYTES
from agentrail.events import PromptReceived
from agentrail.gateway.chat_routes import own_request
from agentrail.gateway.error_responses import CallRefused
from agentrail.gateway.protocols.wire_calls import apply_decisions
from agentrail.host import Limits
from agentrail.host.hook_payloads import HandledResponse, Principal
from agentrail.messages import TraceContext
from agentrail.plugins import HumanApproval
from agentrail.runtime import event_history
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools import builtin
from agentrail.wire.operations import DeclineBody
from tests.gateway.protocols.ui_scenarios import assistant, call_of, decided, parts_of, post, read, user
from tests.gateway.web import error_of, serving
from tests.host.hosting import answering, profile
from tests.host.rig import plugin
from tests.runtime.rig import on_bounded_time

pytestmark = on_bounded_time

ASKS = calls(("ask_user", {"question": "Which?"}))


def asking_a_question(*turns, plugins=()):
    """A server whose model asks the user."""
    return serving(ScriptedModel([ASKS, *turns]), *plugins, session_tools=builtin("ask_user"))


async def test_a_plugin_that_answers_a_question_in_its_own_way_answers_the_call():
    """Without other words there is no response to continue, so the call is refused; with them its answer is returned."""

    async def judge(ctx):
        return HandledResponse({"text": "No"}, status=409) if ctx.request.message == "b" else None

    async with asking_a_question(
        says("Ok."), plugins=[plugin("guard", critical=True, intercept_chat_request=judge)]
    ) as web:
        asked = await post(web, user("Hi"))
        answer = assistant(asked, call_of(asked, "output-available", output="b"))
        chat = {"id": "c1", "messages": [user("Hi"), answer]}
        error_of(await web.post("/ai-ui/desk", chat), 403, "request_refused")
        response = await web.post(
            "/ai-ui/desk", {"id": "c1", "messages": [user("Hi"), answer, user("So?", "u2")]}
        )
        assert (response.status_code, response.json()) == (409, {"text": "No"})
        assert (await web.host.supervisor.session("c1", scope="local").status()).suspended


async def test_a_question_is_declined_for_the_user_who_calls():
    """Its cycle goes on."""
    async with asking_a_question(says("Fine.")) as web:
        await post(web, user("Hi"))
        session = web.host.supervisor.session("c1", scope="local")
        (question,) = (await session.status()).questions
        caller = Principal(tenant_id="local", user_id="local")
        call = SimpleNamespace(principal=caller, host=web.host, client_id=None)
        assert await apply_decisions(call, session, [DeclineBody(ref=question.ref, reason="later")]) is None
        while (await session.status()).phase != "idle":  # noqa: ASYNC110 - a page asks for it too
            await trio.sleep(0.01)
        assert "later" in str(await session.messages())


@pytest.mark.protocol(66)
async def test_a_cycle_that_began_long_ago_is_found(monkeypatch):
    """The search for its start goes back page by page, each of which looks at so many events at most."""
    monkeypatch.setattr(event_history, "_CHUNK", 1)
    monkeypatch.setattr(event_history, "MAX_LOOKED_AT", 2)
    async with asking_a_question(says("Fine.")) as web:
        asked = await post(web, user("Hi"))
        again = await read(web, "GET", "/ai-ui/desk/c1/stream")
        assert parts_of(again) == parts_of(asked)


@tool(answered_by="client")
async def show_map(place: str) -> str:
    """Show a place on the map."""
    raise AssertionError(place)


async def test_an_approval_is_not_applied_beside_a_result_that_is_refused():
    """The session would refuse the second answer after it had applied the first one."""
    both = calls(("shell", {"command": "ls"}), ("show_map", {"place": "Lisbon"}))
    shell = RecordingTool(name="shell")
    asks = (HumanApproval, {"require_approval_for": ["shell"]})
    profiles = [profile(ScriptedModel([both, says("Done.")]), tools=[shell, show_map], plugins=[asks])]
    async with serving(None, profiles=profiles) as web:
        asked = await post(web, user("Hi"))
        place = [part["toolName"] for part in parts_of(asked) if part["type"] == "tool-input-start"].index(
            "show_map"
        )
        approved = decided(asked, approved=True)
        for output, status in (
            ([0] * (MAX_ANSWER_BYTES // 3 + 1), 422),
            ("Shown.", 200),
        ):  # three bytes each, as it is kept
            shown = call_of(asked, "output-available", place, output=output)
            chat = {"id": "c1", "messages": [user("Hi"), assistant(asked, approved, shown)]}
            response = await web.post("/ai-ui/desk", chat)
            if status == 422:
                error_of(response, 422, "invalid_response")
            assert (response.status_code, len(shell.calls)) == (status, int(status == 200))


async def test_an_approval_is_not_applied_beside_a_reason_that_is_too_long():
    """The session would refuse the rejection after it had applied the approval. The same limit holds on every path."""
    both = calls(("shell", {"command": "ls"}), ("shell", {"command": "pwd"}))
    shell = RecordingTool(name="shell")
    profiles = [profile(ScriptedModel([both, says("Done.")]), tools=[shell], plugins=[HumanApproval])]
    async with serving(None, profiles=profiles) as web:
        asked = await post(web, user("Hi"))
        approved = decided(asked, approved=True)
        for characters, status in ((2_001, 422), (2_000, 200)):
            rejected = decided(asked, approved=False, place=1, reason="x" * characters)
            chat = {"id": "c1", "messages": [user("Hi"), assistant(asked, approved, rejected)]}
            response = await web.post("/ai-ui/desk", chat)
            if status == 422:
                error_of(response, 422, "field_invalid")
            assert (response.status_code, len(shell.calls)) == (status, int(status == 200))


class Wide(Mapping[str, int]):
    """Data of a client with a million names, which counts as read when one of them is."""

    def __len__(self):
        """Return the number of names."""
        return 1_000_000

    def __iter__(self):
        """Say that it is read."""
        raise AssertionError

    def __getitem__(self, name):
        """Say that it is read."""
        raise AssertionError


async def test_data_of_a_client_that_is_too_large_is_refused_before_it_is_copied():
    """A copy of 50,000 lists, which a body may have, held the event loop for 0.1 s."""
    await trio.lowlevel.checkpoint()
    caller = Principal(tenant_id="local", user_id="local")
    call = SimpleNamespace(principal=caller, gateway=SimpleNamespace(limits=Limits()))
    with pytest.raises(CallRefused) as refused:
        own_request(call, "Hi", None, agent_id="desk", metadata=Wide())
    assert refused.value.answer.code == "too_large"


TRACE = TraceContext(traceparent=f"00-{'a' * 32}-{'b' * 16}-01", tracestate="vendor=x")
MESSAGES = {
    "ai-ui": ("/ai-ui/desk", {"id": "c1", "messages": [user("Hi")]}, {}),
    "ag-ui": ("/ag-ui/desk", {"threadId": "c1", "runId": "r1", "messages": [{"id": "u", "role": "user", "content": "Hi"}]}, {}),
    "openai": ("/v1/chat/completions", {"model": "desk", "messages": [{"role": "user", "content": "Hi"}]}, {"x-session-id": "c1"}),
}  # fmt: skip
"""A first message on each wire: path, body, headers."""


@pytest.mark.parametrize("wire", MESSAGES)
async def test_the_trace_of_a_caller_is_in_the_event_of_its_prompt_on_every_wire(wire):
    """K21."""
    path, body, headers = MESSAGES[wire]
    trace = {"traceparent": TRACE.traceparent, "tracestate": TRACE.tracestate}
    async with serving(answering("Hello.")) as web:
        assert (await web.post(path, body, headers={**headers, **trace})).status_code == 200
        session = web.host.supervisor.session("c1", scope="local")
        async with session.subscribe(kinds=[PromptReceived], after=0) as events:
            assert events.next_nowait().trace == TRACE
