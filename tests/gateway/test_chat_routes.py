"""Messages over HTTP, on a real socket: how each end of a request is answered and delivered, slash commands, and callers who leave."""

import base64
import gc
import json
from contextlib import suppress

import pytest
import trio
from standardwebhooks.webhooks import Webhook

import agentrail
from agentrail.commands import CommandAnswer, CommandRegistry, SlashCommand
from agentrail.errors import BadRequest, RequestRefused
from agentrail.events import PromptQueued, PromptReceived
from agentrail.gateway.authorization import ANYONE_HERE
from agentrail.gateway.path_endpoint import RouteCall
from agentrail.host import AttachmentText, HandledResponse, Limits, Webhooks
from agentrail.messages import TraceContext
from agentrail.plugins import HumanApproval
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.models import ScriptedModel, calls, fails, says
from agentrail.testing.tools import HangingTool, RecordingTool
from tests.commands.folders import commands_at, write_commands
from tests.garbage import without_collector
from tests.gateway.socket_client import socket_of
from tests.gateway.web import error_of, serving
from tests.host.hosting import FullBox, Ledger, answering, profile
from tests.host.receivers import Receiver
from tests.host.rig import plugin
from tests.runtime.rig import on_bounded_time
from tests.web.sites import open_sites

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
        async with web.leaving_when(lambda: model.requests):
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


@pytest.mark.parametrize("path", ["/chat", "/v1/chat/completions"])
async def test_a_caller_whose_response_has_ended_does_not_keep_the_request_running(path):
    """It was answered that an approval waits. Sent again after the approval, the same message has one caller."""
    said = {"model": "desk", "messages": [{"role": "user", "content": "Hi"}]}
    if path == "/chat":
        said = {"message": "Hi", "session_id": "s-1", "on_disconnect": "abort"}
    sent, ledger, hang = {"x-session-id": "s-1", "idempotency-key": "k"}, Ledger(), HangingTool(name="hang")
    turns = [calls(("shell", {})), calls(("hang", {}))]
    guard = (HumanApproval, {"require_approval_for": ["shell"]})
    made = profile(ScriptedModel(turns), tools=[RecordingTool(name="shell"), hang], plugins=[guard])
    async with serving(None, ledger, profiles=[made], protocols=("openai",)) as web:
        await web.post(path, said, headers=sent)
        (session,) = web.host.supervisor.sessions(scope="local")
        (waiting,) = (await session.status()).all_approvals
        await session.approve(waiting.id)
        await hang.started.wait()
        with trio.move_on_after(0.3):
            await web.post(path, said, headers=sent)
        await web.served.quiet()
        assert (ledger.ends, hang.stopped) == (["aborted"], 1)


async def test_a_reader_who_leaves_is_freed_without_the_collector():
    """A server of many sessions looks at old objects so rarely that what is left of each reader would stay for an hour."""
    async with serving(answering("One.")) as web:
        await web.chat(session_id="left")
        gc.collect()
        with without_collector():
            async with await trio.open_tcp_stream(*web.address) as reader:
                await reader.send_all(
                    b"GET /sessions/left/events?after=0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
                )
                assert b" 200 " in await reader.receive_some()
            await trio.sleep(0.2)
            called = [one.head.path for one in gc.get_objects() if isinstance(one, RouteCall)]
            assert "/sessions/left/events" not in called


@pytest.mark.parametrize("path", ["/ready", "/sessions", "/sessions/none", "/chat"])
async def test_a_client_that_only_stops_sending_gets_a_prompt_answer(path, tmp_path):
    """Such as `nc -N`: the end of its input does not say that it has left (RFC 9112, 9.6). `/chat` is refused here."""
    call = {"/chat": b"POST /chat HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"}
    head = call.get(path, f"GET {path} HTTP/1.1\r\n".encode()) + b"Host: 127.0.0.1\r\n\r\n"
    async with serving(answering("One."), store=SqliteStore(tmp_path / "sessions.db")) as web:
        for _ in range(20):  # so that it ends before, in and behind the head of an answer
            async with await trio.open_tcp_stream(*web.address) as half:
                await half.send_all(head + (b"{}" if path == "/chat" else b""))
                await half.send_eof()
                answer = b"".join([bytes(piece) async for piece in half])
                assert answer.endswith(b"}")


async def test_a_client_that_stops_sending_does_not_keep_its_call():
    """One that has left looks the same: its stream ends at once, and not with the next heartbeat."""
    async with serving(answering("One.")) as web:
        await web.chat(session_id="left")
        async with await trio.open_tcp_stream(*web.address) as half:
            await half.send_all(b"GET /sessions/left/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            await half.send_eof()
            with trio.fail_after(5), suppress(trio.BrokenResourceError):
                while await half.receive_some():
                    pass


async def test_a_call_that_is_refused_is_freed_without_the_collector():
    """No collector freed one whose session refused it: its error referred to what never counts as garbage."""
    async with serving(answering("One.")) as web:
        await web.chat(session_id="left")
        gc.collect()
        with without_collector():
            for name in ("approve", "reject"):
                refused = await web.post(f"/sessions/left/{name}", {"approval_id": "a"})
                error_of(refused, 404, "approval_unknown")
            await trio.sleep(0.2)
            called = [one.head.path for one in gc.get_objects() if isinstance(one, RouteCall)]
            assert not [path for path in called if path.startswith("/sessions/left/")]


SECRET = "whsec_" + base64.b64encode(b"twenty-four bytes or more").decode()


@pytest.mark.host("H-110")
async def test_the_end_of_each_kind_of_request_is_told_to_the_address_of_its_body():
    """By `/chat`, `/stream` and `/sessions/{id}/prompt`; each verified with a published library."""
    receiver = Receiver()
    async with open_sites(receiver):
        origin = f"http://127.0.0.1:{receiver.port}"
        webhooks = Webhooks(secret=SECRET, allow=[origin])
        async with serving(answering("One.", "Two.", "Three."), webhooks=webhooks) as web:
            said = {"message": "Hi", "session_id": "main", "webhook": f"{origin}/in?key=1"}
            chat = await web.post("/chat", said)
            assert chat.status_code == 200
            await web.stream(said=said)
            prompt = await web.post("/sessions/main/prompt", {"message": "Hi", "webhook": said["webhook"]})
            assert prompt.status_code == 202
            while web.host.webhooks.delivered < 3:  # noqa: ASYNC110 - it is counted behind the answer
                await trio.sleep(0.01)
    bodies = []
    for head, body in zip(receiver.heads, receiver.bodies, strict=True):
        headers = {name.decode(): value.decode() for name, value in head.headers}
        bodies.append(Webhook(SECRET).verify(body, headers))
        assert head.target == b"/in?key=1"
        assert headers["content-type"] == "application/json"
    assert [body["type"] for body in bodies] == ["request.completed"] * 3
    assert bodies[0]["data"]["request_id"] == chat.json()["request_id"]
    assert bodies[0]["data"]["seq"] == chat.json()["seq"]
    assert bodies[2]["data"]["request_id"] == prompt.json()["request_id"]


@pytest.mark.host("H-111")
async def test_an_address_of_this_machine_is_refused_at_the_door_and_behind_a_name():
    """422 with the name of the field where it can be seen; and where a name leads here, nothing is sent."""
    receiver = Receiver()
    async with open_sites(receiver), serving(answering("One."), webhooks=Webhooks(secret=SECRET)) as web:
        for url in (
            f"https://127.0.0.1:{receiver.port}/",
            f"https://localhost:{receiver.port}/",
            f"https://[::ffff:7f00:1]:{receiver.port}/",
            f"http://hooks.example:{receiver.port}/",
        ):
            error = error_of(await web.chat(webhook=url), 422, "webhook_invalid")
            assert error["message"].startswith("webhook ")
        for other in (7, "", "https://" + "x" * 2_000):
            assert error_of(await web.chat(webhook=other), 422, "field_invalid")["field"] == "webhook"
    assert receiver.connections == 0


@pytest.fixture
def place(tmp_path):
    """A project and a home with a command each."""
    return write_commands(tmp_path)


async def test_a_message_is_a_command_where_the_host_has_them(place):
    """One of a file becomes its prompt, one that is built in is answered in place of the session; paths and unknown names do not."""
    model = ScriptedModel([says("done"), says("seen"), says("ok")])
    async with serving(model, commands=commands_at(place)) as web:
        made = await web.chat("/git:commit all of it", session_id="main")
        assert made.json()["text"] == "done"
        assert model.requests[0].messages[-1].content[0].text == "Commit all of it."
        status = await web.chat("/STATUS", session_id="main")
        assert (status.status_code, status.json()["command"]) == (200, "status")
        assert status.json()["lines"][0].startswith("idle · ")
        assert (await web.chat("/etc/hosts is wrong", session_id="main")).json()["text"] == "seen"
        refused = error_of(await web.chat("/halp", session_id="main"), 404, "command_unknown")
        assert "did you mean /help?" in refused["message"]
        error_of(await web.chat("/thank you", session_id="main"), 422, "command_error")
        error_of(await web.chat("/quit", session_id="main"), 422, "command_error")
        error_of(await web.chat("/status"), 422, "command_error")  # it has no session to say it of
        error_of(await web.chat("/rewind x", session_id="main"), 422, "command_error")
        assert len(model.requests) == 2


async def test_a_command_is_run_by_its_name(place):
    """What it tells is the answer; what it says becomes a request, once for one `client_id`."""
    model = ScriptedModel([says("hi"), says("done")])
    async with serving(model, commands=commands_at(place)) as web:
        await web.chat(session_id="main")
        said, named = {"text": "it", "session_id": "main"}, {"Idempotency-Key": "c1"}
        done = await web.post("/commands/Git:Commit", {**said, "client_id": "c1"})
        assert (done.status_code, done.json()["session_id"], done.json()["lines"]) == (202, "main", [])
        again = await web.post("/commands/git:commit", {**said, "client_id": "c1"})
        assert again.json()["request_id"] == done.json()["request_id"]
        by_header = await web.post("/commands/git:commit", said, headers=named)
        assert by_header.json()["request_id"] == done.json()["request_id"]
        strange = await web.client.post("/commands/help", json={}, headers={"Idempotency-Key": ")p"})
        error_of(strange, 422, "id_invalid")
        asked = await web.client.get(f"/sessions/main/requests/{done.json()['request_id']}?wait=5")
        assert asked.json()["text"] == "done"
        assert model.requests[1].messages[-1].content[0].text == "Commit it."
        error_of(await web.post("/commands/git:commit", {"text": "it"}), 422, "command_error")
        error_of(await web.post("/commands/zzz", {}), 404, "command_unknown")
        error_of(await web.post("/commands/status", {"session_id": "gone"}), 404, "session_unknown")
        error_of(await web.client.get("/commands", params={"session_id": "a b"}), 422, "id_invalid")


async def test_plugins_of_the_host_hear_a_command_as_it_was_typed(place):
    """They come first, whatever it becomes; a model that a command names is asked."""

    async def other(call):
        return CommandAnswer(prompt="Say it.", model="demo:fast")

    heard = []

    async def hear(ctx):
        heard.append(ctx.request.message)

    judge = plugin("judge", intercept_chat_request=hear)
    command = SlashCommand(name="other", description="Asks another model.", run=other, in_history=True)
    registry = CommandRegistry().with_commands(command)
    async with serving(ScriptedModel([says("hi")]), judge, commands=registry) as web:
        await web.chat(session_id="main")
        await web.chat("/other", session_id="main")
        await web.post("/commands/other", {"session_id": "main"})
        assert heard == ["Hi", "/other", "/other "]
        assert "demo:fast" in (await web.chat("/model", session_id="main")).json()["lines"][0]


TRACE = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "vendor=x"}


async def test_the_trace_of_a_caller_is_in_the_events_of_its_prompt():
    """From its headers, or the fields of a command; a malformed one is left out and counted, and the message is answered (11.13)."""
    state = {"tracestate": f"k={'v' * 598}"}
    wrong = ("none", f"ff-{'a' * 32}-{'b' * 16}-01", f"00-{'0' * 32}-{'0' * 16}-01")
    async with serving(answering(*("Hello.",) * 9)) as web, socket_of(web) as client:
        await client.done("create", session_id="s")
        await web.post("/chat", {"message": "Hi", "session_id": "s"}, headers=TRACE)
        await web.post("/stream", {"message": "Hi", "session_id": "s"}, headers=TRACE | state)
        for parent in wrong:
            said = await web.post(
                "/chat", {"message": "Hi", "session_id": "s"}, headers={"traceparent": parent}
            )
            assert said.status_code == 200
        await client.done("prompt", session_id="s", message="Hi", trace=TRACE)
        await client.done("prompt", session_id="s", message="Hi", trace={"traceparent": 7})
        async with agentrail.connect(str(web.client.base_url), session_id="s") as session:
            await session.prompt("Hi", trace=TRACE)
            await session.prompt("Hi", trace={"traceparent": "none"})
        await web.host.quiet()
        kinds = [PromptReceived, PromptQueued]
        page = await web.host.supervisor.events_page("s", after=0, kinds=kinds, scope=ANYONE_HERE.tenant_id)
        whole, parent = TraceContext(**TRACE), TraceContext(traceparent=TRACE["traceparent"])
        told = [getattr(event, "trace", None) for event in page.events]
        assert told == [whole, parent, None, None, None, whole, None, whole, None]
        assert web.host.supervisor.statistics().malformed_traces == 1 + len(wrong) + 1
