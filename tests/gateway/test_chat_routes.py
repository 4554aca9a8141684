"""Messages over HTTP, on a real socket: how each end of a request is answered, and what becomes of it when its caller leaves."""

import json

import pytest
import trio

from agentrail.errors import BadRequest, RequestRefused
from agentrail.gateway.authorization import ANYONE_HERE
from agentrail.host import AttachmentText, HandledResponse, Limits
from agentrail.plugins import HumanApproval
from agentrail.testing.models import ScriptedModel, calls, fails, says
from agentrail.testing.tools import RecordingTool
from tests.gateway.web import error_of, serving
from tests.host.hosting import FullBox, Ledger, answering, profile
from tests.host.rig import plugin
from tests.runtime.rig import on_bounded_time

pytestmark = on_bounded_time

SLOW = says("So", " it", " is.", pause_seconds=30.0)
A_FILE = {"name": "a.txt", "mime_type": "text/plain", "base64": "aGVsbG8="}


@pytest.mark.host("H-016", "H-063")
async def test_a_chat_is_answered_with_what_its_cycle_came_to():
    """Every documented field is there; the same message again is the same request, and with other words a 409."""
    ledger, named = Ledger(), {"Idempotency-Key": "order-5"}
    async with serving(answering("Hello."), ledger) as web:
        response = await web.chat(client_id="order-5")
        told = response.json()
        fields = {"session_id", "request_id", "text", "usage", "cost_usd", "stop_reason", "seq", "context"}
        assert (response.status_code, set(told)) == (200, fields)
        assert (told["text"], told["stop_reason"]) == ("Hello.", "end")
        assert told["context"]["tokens"] > 0
        assert response.headers["x-session-id"] == told["session_id"]
        assert response.headers["x-request-id"] == told["request_id"]
        assert response.headers["content-type"] == "application/json"
        assert (await web.post("/chat", {"message": "Hi"}, headers=named)).json() == told
        error_of(await web.chat("Else", client_id="order-5"), 409, "client_id_reused")
        twice = await web.post("/chat", {"message": "Hi", "client_id": "a"}, headers=named)
        error_of(twice, 422, "field_invalid")
        await web.served.quiet()
        ends = [("persisted", "chat", "completed"), ("end", "chat", "completed")]
        assert ledger.heard == [("start", "chat", None), *ends]


@pytest.mark.at(36)
@pytest.mark.host("H-065")
async def test_a_chat_that_was_aborted_is_a_409_with_the_text_so_far():
    """A stop from elsewhere is no answer, and neither is a provider that fails: 502, or `failed` at the end of a stream."""
    talking = says("So", *[" on"] * 500, pause_seconds=0.02)
    model = ScriptedModel([*[fails(BadRequest("no such thing"))] * 2, talking])
    async with serving(model) as web, trio.open_nursery() as nursery:
        response = await web.chat()
        error = error_of(response, 502, "provider_failed")
        assert error["cause"] == "bad_request"
        assert error["request_id"] == response.headers["x-request-id"]
        done = (await web.stream(said={"message": "Hi"}))[-1].data
        assert (done["reason"], done["error"]["code"]) == ("failed", "bad_request")

        async def chat():
            error = error_of(await web.chat(session_id="s-1"), 409, "aborted")
            assert error["reason"] == "enough"
            assert error["text"].startswith("So")

        session = await web.host.create(ANYONE_HERE, session_id="s-1")
        nursery.start_soon(chat)
        async with session.subscribe(after=0) as events:
            async for event in events:
                if type(event).__name__ == "MessageDelta":
                    break
        await session.abort("enough")


@pytest.mark.host("H-064")
async def test_a_chat_that_waits_for_a_person_answers_202_and_goes_on():
    """What waits stands in it; after the approval the hooks end the request once."""
    ledger = Ledger()
    model = ScriptedModel([calls(("shell", {"command": "ls"})), says("Done.")])
    profiles = [profile(model, tools=[RecordingTool(name="shell")], plugins=[HumanApproval])]
    async with serving(None, ledger, profiles=profiles) as web:
        response = await web.chat(session_id="s-1")
        told = response.json()
        assert response.headers["location"] == f"/sessions/s-1/requests/{told['request_id']}"
        assert (await web.client.get(response.headers["location"])).json()["status"] == "waiting"
        assert (response.status_code, told["status"]) == (202, "waiting")
        assert told["pending"]
        frames = []
        async with trio.open_nursery() as nursery:

            async def read():
                path = f"/sessions/s-1/events?after={told['after']}&request_id={told['request_id']}"
                frames.extend(await web.stream(path))

            nursery.start_soon(read)
            session = web.host.supervisor.session("s-1", scope="local")
            approval = (await session.status()).approvals[0]
            await session.approve(approval.id)
        assert frames[-1].data["reason"] == "completed"
        assert frames[-1].data["request_id"] == told["request_id"]
        await web.served.quiet()
        assert ledger.ends == ["completed"]


@pytest.mark.at(51)
@pytest.mark.host("H-016")
async def test_a_steer_goes_into_the_cycle_and_in_idle_it_is_a_prompt():
    """Its receipt says which. A prompt is accepted at once, with `Location`; in a session that there is not it is 404."""
    ledger = Ledger()
    async with serving(ScriptedModel([says("a"), says("b"), SLOW]), ledger) as web:
        await web.chat(session_id="s-1")
        told = (await web.post("/sessions/s-1/steer", {"message": "So?"})).json()
        assert (told["status"], bool(told["request_id"])) == ("became_prompt", True)
        await web.served.quiet()
        response = await web.post("/sessions/s-1/prompt", {"message": "On"})
        told = response.json()
        assert response.status_code == 202
        assert set(told) == {"request_id", "ref", "seq", "queued", "position"}
        assert response.headers["location"] == f"/sessions/s-1/requests/{told['request_id']}"
        response = await web.post("/sessions/s-1/steer", {"message": "Stop it"})
        assert (response.status_code, response.json()["status"]) == (202, "queued")
        error_of(await web.post("/sessions/s-2/prompt", {"message": "Hi"}), 404, "session_unknown")
        other = await web.post("/sessions/s-1/prompt", {"message": "Hi", "session_id": "s-2"})
        error_of(other, 422, "field_invalid")
        assert [kind for hook, kind, _ in ledger.heard if hook == "start"] == ["chat", "prompt", "prompt"]


@pytest.mark.host("H-021", "H-025", "H-026")
async def test_a_guard_answers_or_refuses_on_every_route():
    """With its status, body and headers, as plain JSON on a stream too; what it raises by mistake is a 503 without its words."""

    async def judge(ctx):
        match ctx.request.message:
            case "answer":
                return HandledResponse({"text": "No"}, status=402, headers={"X-Why": "money"})
            case "refuse":
                raise RequestRefused(429, "slow_down", "later", headers={"retry-after": "7"})
            case "fail":
                message = "db password hunter2"
                raise ValueError(message)

    guard = plugin("guard", critical=True, intercept_chat_request=judge)
    async with serving(answering("a"), guard, limits=Limits(messages_burst=99)) as web:
        await web.chat(session_id="s-1")
        for path in ("/chat", "/stream", "/sessions/s-1/prompt", "/sessions/s-1/steer"):
            response = await web.post(path, {"message": "answer"})
            assert (response.status_code, response.json()) == (402, {"text": "No"})
            assert response.headers["x-why"] == "money"
            response = await web.post(path, {"message": "refuse"})
            assert error_of(response, 429, "slow_down")["message"] == "later"
            assert response.headers["retry-after"] == "7"
            response = await web.post(path, {"message": "fail"})
            error_of(response, 503, "plugin_failed")
            assert "hunter2" not in response.text + str(response.headers)
        assert len(web.host.supervisor.sessions(scope="local")) == 1


@pytest.mark.host("H-034")
async def test_files_give_the_same_history_on_every_route():
    """Chat, stream and prompt."""

    async def tell(files):
        return AttachmentText(f"There is {files[0].name}, {files[0].size_bytes} bytes.")

    async with serving(answering("a"), plugin("files", attachment_handler=tell)) as web:
        said = {"message": "Look", "attachments": [A_FILE]}
        await web.post("/chat", {**said, "session_id": "s-1"})
        await web.stream(said={**said, "session_id": "s-2"})
        await web.host.create(ANYONE_HERE, session_id="s-3")
        await web.post("/sessions/s-3/prompt", said)
        await web.served.quiet()
        found = [
            (await web.host.supervisor.session(name, scope="local").messages())[0].content
            for name in ("s-1", "s-2", "s-3")
        ]
        assert found[0] == found[1] == found[2]
        assert "a.txt, 5 bytes" in json.dumps([one.text for one in found[0]])


@pytest.mark.host("H-032", "H-033", "H-058", "H-059")
async def test_what_cannot_be_done_leaves_no_session():
    """Hooks hear of an unknown profile and a full workspace, and not of a message with wrong files or without words."""
    ledger = Ledger()
    profiles = [profile(answering("a")), profile(answering("a"), "full", sandbox=FullBox())]
    async with serving(None, ledger, profiles=profiles) as web:
        error_of(await web.chat(attachments=[A_FILE] * 11), 413, "too_large")
        broken = {**A_FILE, "base64": "a==="}
        assert error_of(await web.chat(attachments=[A_FILE, broken]), 422, "attachment_invalid")["index"] == 1
        error_of(await web.chat(""), 422, "field_invalid")
        assert ledger.heard == []
        for path in ("/chat", "/stream"):
            response = await web.post(path, {"message": "Hi", "agent_id": "nope"})
            assert "desk" in error_of(response, 404, "profile_unknown")["message"]
        response = await web.chat(attachments=[A_FILE], agent_id="full")
        assert error_of(response, 500, "internal")["request_id"].startswith("e-")
        assert "disk" not in response.text
        await web.served.quiet()
        assert [hook for hook, _, _ in ledger.heard] == ["start", "end"] * 3
        assert ledger.ends == ["not_found", "not_found", "failed"]
        assert web.host.supervisor.sessions(scope="local") == ()
        assert (await web.chat("", attachments=[A_FILE], agent_id="desk")).status_code == 200


@pytest.mark.host("H-062")
@pytest.mark.parametrize("path", ["/chat", "/stream"])
@pytest.mark.parametrize("says_abort", [True, False])
async def test_a_caller_who_leaves_ends_its_request_only_where_it_said_so(path, says_abort):
    """With `abort` within 50 ms, with a receipt; else the cycle goes on to its end."""
    ledger = Ledger()
    model = ScriptedModel([SLOW if says_abort else says("a", "b", pause_seconds=0.1)])
    async with serving(model, ledger) as web:
        said = {"message": "Hi", "session_id": "s-1"}
        said |= {"on_disconnect": "abort"} if says_abort else {}
        with trio.move_on_after(0.15):
            await web.post(path, said)
        left_at = trio.current_time()
        while not ledger.ends:  # noqa: ASYNC110 - what is waited for has no event
            await trio.sleep(0.005)
        if says_abort:
            assert trio.current_time() - left_at < 1
        await web.served.quiet()
        hooks = [hook for hook, _, _ in ledger.heard]
        assert hooks == ["start", "persisted", "end"]
        assert ledger.ends == ["aborted" if says_abort else "completed"]
        assert web.served.gateway.places.in_all == 0
