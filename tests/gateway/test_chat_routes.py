"""Messages over HTTP, on a real socket: how each end of a request is answered, and what becomes of it when its caller leaves."""

import json

import pytest
import trio

from agentrail.errors import BadRequest, RequestRefused
from agentrail.gateway.authorization import ANYONE_HERE
from agentrail.host import AttachmentText, HandledResponse
from agentrail.plugins import HumanApproval
from agentrail.testing.models import ScriptedModel, calls, fails, says
from agentrail.testing.tools import RecordingTool
from tests.gateway.web import error_of, serving
from tests.host.hosting import FullBox, Ledger, answering, profile
from tests.host.rig import plugin
from tests.runtime.rig import on_bounded_time

SLOW = says("So", " it", " is.", pause_seconds=30.0)
A_FILE = {"name": "a.txt", "mime_type": "text/plain", "base64": "aGVsbG8="}


async def until(is_so, seconds=5):
    """Wait for something that has no event."""
    with trio.fail_after(seconds):
        while not is_so():  # noqa: ASYNC110 - what is waited for has none
            await trio.sleep(0.005)


# --- how a chat is answered


@on_bounded_time
@pytest.mark.host("H-016")
async def test_a_chat_is_answered_with_what_its_cycle_came_to():
    """Every field that is documented; hooks hear of the kind."""
    ledger = Ledger()
    async with serving(answering("Hello."), ledger) as web:
        response = await web.chat()
        told = response.json()
        assert response.status_code == 200
        assert set(told) == {
            "session_id",
            "request_id",
            "text",
            "usage",
            "cost_usd",
            "stop_reason",
            "seq",
            "context",
        }
        assert (told["text"], told["stop_reason"]) == ("Hello.", "end")
        assert told["context"]["tokens"] > 0
        assert response.headers["x-session-id"] == told["session_id"]
        assert response.headers["x-request-id"] == told["request_id"]
        assert response.headers["content-type"] == "application/json"
        await web.served.quiet()
        assert ledger.heard == [
            ("start", "chat", None),
            ("persisted", "chat", "completed"),
            ("end", "chat", "completed"),
        ]


@on_bounded_time
@pytest.mark.host("H-065")
async def test_a_provider_that_fails_is_a_502_and_never_an_empty_answer():
    """The code of its error stands beside it; on a stream the end is `failed`."""
    model = ScriptedModel([fails(BadRequest("no such thing"))] * 2)
    async with serving(model) as web:
        response = await web.chat()
        error = error_of(response, 502, "provider_failed")
        assert error["cause"] == "bad_request"
        assert error["request_id"] == response.headers["x-request-id"]
        frames = await web.stream(said={"message": "Hi"})
        assert frames[-1].data["reason"] == "failed"
        assert frames[-1].data["error"]["code"] == "bad_request"


@pytest.mark.at(36)
@on_bounded_time
async def test_a_chat_that_was_aborted_is_a_409_with_the_text_so_far():
    """A stop from elsewhere is no answer."""
    talking = says("So", *[" on"] * 500, pause_seconds=0.02)
    async with serving(ScriptedModel([talking])) as web, trio.open_nursery() as nursery:

        async def stop_it():
            await until(lambda: web.host.supervisor.sessions(scope="local"))
            session = web.host.supervisor.session("s-1", scope="local")
            async with session.subscribe(after=0) as events:
                async for event in events:
                    if type(event).__name__ == "MessageDelta":
                        break
            await session.abort("enough")

        nursery.start_soon(stop_it)
        error = error_of(await web.chat(session_id="s-1"), 409, "aborted")
        assert error["reason"] == "enough"
        assert error["text"].startswith("So")


@on_bounded_time
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


@on_bounded_time
@pytest.mark.host("H-058")
@pytest.mark.parametrize("path", ["/chat", "/stream"])
async def test_an_unknown_profile_is_a_404_and_ends_for_hooks(path):
    """On the stream too it is plain JSON; no session is left."""
    ledger = Ledger()
    async with serving(answering("a"), ledger) as web:
        response = await web.post(path, {"message": "Hi", "agent_id": "nope"})
        assert "desk" in error_of(response, 404, "profile_unknown")["message"]
        await web.served.quiet()
        assert [hook for hook, _, _ in ledger.heard] == ["start", "end"]
        assert ledger.ends == ["not_found"]
        assert web.host.supervisor.sessions(scope="local") == ()


# --- prompt, steer


@on_bounded_time
@pytest.mark.host("H-016")
async def test_a_prompt_is_accepted_at_once_and_says_where_it_stands():
    """202 with `Location`; in a session that there is not it is 404."""
    ledger = Ledger()
    async with serving(answering("a", "b"), ledger) as web:
        await web.chat(session_id="s-1")
        response = await web.post("/sessions/s-1/prompt", {"message": "And?"})
        told = response.json()
        assert response.status_code == 202
        assert set(told) == {"request_id", "ref", "seq", "queued", "position"}
        assert response.headers["location"] == f"/sessions/s-1/requests/{told['request_id']}"
        error_of(await web.post("/sessions/s-2/prompt", {"message": "Hi"}), 404, "session_unknown")
        error_of(
            await web.post("/sessions/s-1/prompt", {"message": "Hi", "session_id": "s-2"}),
            422,
            "field_invalid",
        )
        await web.served.quiet()
        assert [kind for hook, kind, _ in ledger.heard if hook == "start"] == ["chat", "prompt"]


@pytest.mark.at(51)
@on_bounded_time
async def test_a_steer_goes_into_the_cycle_and_in_idle_it_is_a_prompt():
    """Its receipt says which."""
    async with serving(ScriptedModel([says("a"), says("b"), SLOW])) as web:
        await web.chat(session_id="s-1")
        told = (await web.post("/sessions/s-1/steer", {"message": "So?"})).json()
        assert (told["status"], bool(told["request_id"])) == ("became_prompt", True)
        await web.served.quiet()
        await web.post("/sessions/s-1/prompt", {"message": "On"})
        response = await web.post("/sessions/s-1/steer", {"message": "Stop it"})
        assert (response.status_code, response.json()["status"]) == (202, "queued")


@on_bounded_time
@pytest.mark.host("H-063")
async def test_a_message_that_is_sent_again_is_the_same_request():
    """By `client_id` or by `Idempotency-Key`; with other words it is 409."""
    ledger = Ledger()
    async with serving(answering("a"), ledger) as web:
        first = await web.chat(client_id="order-5")
        again = await web.post("/chat", {"message": "Hi"}, headers={"Idempotency-Key": "order-5"})
        assert first.json() == again.json()
        error_of(await web.chat("Else", client_id="order-5"), 409, "client_id_reused")
        error_of(
            await web.post(
                "/chat", {"message": "Hi", "client_id": "a"}, headers={"Idempotency-Key": "order-5"}
            ),
            422,
            "field_invalid",
        )
        await web.served.quiet()
        assert ledger.ends == ["completed"]


# --- interceptors


@on_bounded_time
@pytest.mark.host("H-021")
@pytest.mark.parametrize("path", ["/chat", "/stream"])
async def test_what_an_interceptor_answers_is_the_answer(path):
    """Status, body and headers; on a stream as plain JSON."""

    async def answer(_):
        return HandledResponse({"text": "No"}, status=402, headers={"X-Why": "money"})

    async with serving(answering("a"), plugin("guard", intercept_chat_request=answer)) as web:
        response = await web.post(path, {"message": "Hi"})
        assert (response.status_code, response.json(), response.headers["x-why"]) == (
            402,
            {"text": "No"},
            "money",
        )
        assert web.host.supervisor.sessions(scope="local") == ()


@on_bounded_time
@pytest.mark.host("H-026")
async def test_one_guard_refuses_on_every_route():
    """Whatever the route, with the status of the guard, and no session exists for it."""
    is_on = False

    async def refuse(_):
        if is_on:
            raise RequestRefused(429, "slow_down", "later", headers={"retry-after": "7"})

    guard = plugin("guard", critical=True, intercept_chat_request=refuse)
    async with serving(answering("a"), guard) as web:
        await web.chat(session_id="s-1")
        is_on = True
        for path in ("/chat", "/stream", "/sessions/s-1/prompt", "/sessions/s-1/steer"):
            response = await web.post(path, {"message": "Hi"})
            assert error_of(response, 429, "slow_down")["message"] == "later"
            assert response.headers["retry-after"] == "7"
        assert len(web.host.supervisor.sessions(scope="local")) == 1


@on_bounded_time
@pytest.mark.host("H-025")
async def test_what_a_guard_raises_by_mistake_is_in_no_answer():
    """503, and nothing of its words."""

    async def fail(_):
        message = "db password hunter2"
        raise ValueError(message)

    async with serving(answering("a"), plugin("guard", critical=True, intercept_chat_request=fail)) as web:
        response = await web.chat()
        error_of(response, 503, "plugin_failed")
        assert "hunter2" not in response.text + str(response.headers)


# --- attachments


@on_bounded_time
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


@on_bounded_time
@pytest.mark.host("H-032", "H-033")
async def test_files_that_are_too_many_or_broken_reach_no_hook():
    """Eleven are 413, broken base64 422 with its place; neither words nor files is 422; a file alone is fine."""
    ledger = Ledger()
    async with serving(answering("a"), ledger) as web:
        error_of(await web.chat(attachments=[A_FILE] * 11), 413, "too_large")
        broken = {**A_FILE, "base64": "a==="}
        assert error_of(await web.chat(attachments=[A_FILE, broken]), 422, "attachment_invalid")["index"] == 1
        error_of(await web.chat(""), 422, "field_invalid")
        assert ledger.heard == []
        assert (await web.chat("", attachments=[A_FILE])).status_code == 200


@on_bounded_time
@pytest.mark.host("H-059")
async def test_a_workspace_that_takes_no_file_is_a_500_without_its_words():
    """No session is left."""
    ledger = Ledger()
    async with serving(answering("a"), ledger, session_sandbox=FullBox()) as web:
        response = await web.chat(attachments=[A_FILE])
        assert error_of(response, 500, "internal")["request_id"].startswith("e-")
        assert "disk" not in response.text
        await web.served.quiet()
        assert ledger.ends == ["failed"]
        assert web.host.supervisor.sessions(scope="local") == ()


# --- who leaves


@on_bounded_time
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
        await until(lambda: ledger.ends)
        if says_abort:
            assert trio.current_time() - left_at < 1
        await web.served.quiet()
        hooks = [hook for hook, _, _ in ledger.heard]
        assert hooks == ["start", "persisted", "end"]
        assert ledger.ends == ["aborted" if says_abort else "completed"]
        assert web.served.gateway.places.in_all == 0
