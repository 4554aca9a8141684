"""Responses over HTTP, as the official client of Python calls them on Trio, and as no client should."""

import hashlib
import json
from typing import Any

import httpx
import pytest
import trio

from agentrail.errors import RequestRefused
from agentrail.gateway.tokens import TokenEntry, Tokens
from agentrail.host import HandledResponse
from agentrail.plugins import HumanApproval
from agentrail.runtime import event_history
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.gateway.protocols.test_openai_chat_calls import ENDLESS, no_sessions, official, sessions_of
from tests.gateway.web import Web, error_of, serving
from tests.host.hosting import Ledger, answering, profile
from tests.host.rig import plugin
from tests.protocols.test_openai_responses import check_events
from tests.runtime.rig import on_bounded_time

pytestmark = [
    on_bounded_time,
    pytest.mark.filterwarnings(r"ignore:Async generator '(openai|httpx2|httpcore2)\.:ResourceWarning"),
]

PATH = "/v1/responses"
SHOW = {"type": "function", "name": "show", "description": "Show.", "parameters": {"type": "object"}}
_FOREIGN_NUMBER = (1 << 53) - 1  # of no event of any response here
TALKING = says(*[f"{number} " for number in range(40)], pause_seconds=0.01)


async def respond(web: Web, given: Any = "Hi", **more: Any) -> dict[str, Any]:
    """Ask for a response, and return it."""
    response = await web.post(PATH, {"model": "desk", "input": given, **more})
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    return told


async def get(web: Web, name: str, **query: Any) -> httpx.Response:
    """Read a response."""
    return await web.client.get(f"{PATH}/{name}", params=query)


def events_of(text: str) -> list[dict[str, Any]]:
    """The events of a stream; comments do not count."""
    spoken = "".join([line for line in text.splitlines(keepends=True) if not line.startswith(":")])
    frames = [frame.split("\n") for frame in spoken.split("\n\n") if frame]
    read = [json.loads(data.removeprefix("data: ")) for _, data in frames]
    assert [name for name, _ in frames] == [f"event: {event['type']}" for event in read]
    return read


def text_of(response: dict[str, Any]) -> str:
    """The text of a response."""
    parts = [part for item in response["output"] if item["type"] == "message" for part in item["content"]]
    return "".join([part["text"] for part in parts])


async def test_a_response_is_the_same_however_it_is_read():
    """Whole, streamed, and read again, as the official client has it; its input is kept too."""
    async with serving(answering("One.", "Two."), store=MemoryStore()) as web, official(web) as client:
        one = await client.responses.create(model="desk", input="Hi")
        assert (one.output_text, one.status) == ("One.", "completed")
        assert await client.responses.retrieve(one.id) == one
        async with client.responses.stream(model="desk", input="And?", previous_response_id=one.id) as stream:
            two: Any = await stream.get_final_response()
        assert two.output_text == "Two."
        assert (two.conversation, two.id != one.id) == (one.conversation, True)
        assert (await client.responses.retrieve(two.id)).output_text == "Two."
        (item,) = (await client.responses.input_items.list(two.id)).data
        assert item.content[0].text == "And?"


async def test_a_conversation_goes_on_after_a_command():
    """The official client reads its output as a response, and can name that one as the previous one."""

    async def judge(ctx):
        return HandledResponse({"text": "Here."}) if ctx.request.message == "/c" else None

    own = plugin("own", intercept_chat_request=judge)
    async with serving(answering("One.", "Two."), own, store=MemoryStore()) as web, official(web) as client:
        first = await respond(web, "/c")
        assert (text_of(first), first["conversation"]) == ("Here.", None)
        error_of(await get(web, first["id"]), 404, "request_unknown")  # no session keeps it
        one = await client.responses.create(model="desk", input="Hi", previous_response_id=first["id"])
        async with client.responses.stream(model="desk", input="/c", previous_response_id=one.id) as stream:
            done: Any = await stream.get_final_response()
        assert (done.output_text, done.status, done.conversation) == ("Here.", "completed", one.conversation)
        two = await client.responses.create(model="desk", input="And?", previous_response_id=done.id)
        assert (two.output_text, two.conversation) == ("Two.", one.conversation)
        later = await respond(web, "/c", background=True, conversation="c1")
        assert (text_of(later), later["status"]) == ("Here.", "completed")
        assert (later["id"], later["conversation"]) == ("resp_c1_0", {"id": "c1"})


@pytest.mark.protocol(51)
async def test_an_earlier_response_is_forked_and_both_branches_go_on():
    """P-051: behind the last one the session goes on; behind an earlier one a fork does."""
    async with serving(
        answering("One.", "Two.", "Other.", "Two more.", "Other more."), store=MemoryStore()
    ) as web:
        one = await respond(web)
        two = await respond(web, "And?", previous_response_id=one["id"])
        other = await respond(web, "Or?", previous_response_id=one["id"])
        assert two["conversation"] == one["conversation"] != other["conversation"]
        for last, text in ((two, "Two more."), (other, "Other more.")):
            more = await respond(web, "More.", previous_response_id=last["id"])
            assert (text_of(more), more["conversation"]) == (text, last["conversation"])
        for conversation, words in (
            (two, ["Hi", "One.", "And?", "Two."]),
            (other, ["Hi", "One.", "Or?", "Other."]),
        ):
            session = web.host.supervisor.session(conversation["conversation"]["id"], scope="local")
            said = [block.text for one in (await session.messages())[:4] for block in one.content]
            assert said == words


async def test_a_server_without_a_store_does_not_branch():
    """It says so in the words of a request, not of Python."""
    async with serving(answering("One.", "Two.")) as web:
        one = await respond(web)
        await respond(web, "And?", previous_response_id=one["id"])
        body = {"model": "desk", "input": "Or?", "previous_response_id": one["id"]}
        error = error_of(await web.post(PATH, body), 422, "option_error")
        assert "without a store this server cannot branch" in error["message"]


@pytest.mark.protocol(52)
@pytest.mark.parametrize("place", ["earlier", "last"])
async def test_a_request_sent_again_has_one_branch(place):
    """The same key: one answer in one session, also where the first request was the last of its conversation."""
    async with serving(answering("One.", "Two.", "Three.", "Four."), store=MemoryStore()) as web:
        one = await respond(web)
        two = await respond(web, "And?", previous_response_id=one["id"])
        previous = one if place == "earlier" else two
        body = {"model": "desk", "input": "Or?", "previous_response_id": previous["id"]}
        headers = {"idempotency-key": "k1"}
        first, again = [(await web.post(PATH, body, headers=headers)).json() for _ in range(2)]
        assert (again["id"], text_of(again)) == (first["id"], "Three.")
        assert len(sessions_of(web)) == (2 if place == "earlier" else 1)


@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        ({"input": [{"role": "user", "content": ""}]}, 400, "messages_missing"),
        ({"input": [{"type": "function_call_output", "call_id": "c1", "output": "x"}]}, 404, "unknown_call"),
        (
            {"input": [{"type": "mcp_approval_response", "approval_request_id": "a1", "approve": True}]},
            404,
            "approval_unknown",
        ),
    ],
)
@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_refused_request_leaves_no_branch(more, status, code, is_stream):
    """The fork that was made for it is deleted again."""
    async with serving(answering("One.", "Two."), store=MemoryStore()) as web:
        one = await respond(web)
        await respond(web, "And?", previous_response_id=one["id"])
        body = {"model": "desk", "previous_response_id": one["id"], "stream": is_stream, **more}
        error = error_of(await web.post(PATH, body), status, code)
        assert error["param"] in {"input", None}
        assert len((await web.client.get("/sessions")).json()["sessions"]) == 1


async def test_a_background_response_is_polled_read_from_every_number_and_after_a_restart():
    """P-052: each reading ends in the same object, and nothing is said twice; cancelled, the object says so."""
    store = MemoryStore(lease_ms=0)
    async with serving(ScriptedModel([TALKING, ENDLESS]), store=store) as web:
        begun = await respond(web, background=True)
        assert begun["status"] in ("queued", "in_progress")
        first: list[dict[str, Any]] = []
        async with (
            web.leaving_when(lambda: len(first) > 8),
            web.client.stream("GET", f"{PATH}/{begun['id']}?stream=true") as response,
        ):
            said = ""
            async for piece in response.aiter_text():
                said += piece
                first = events_of(said.rpartition("\n\n")[0])
        assert first[0]["type"] == "response.created"
        assert (await get(web, begun["id"])).json()["status"] == "in_progress"
        numbers = [event["sequence_number"] for event in first]
        rests: list[list[dict[str, Any]]] = []

        async def read(number: int) -> None:
            rests.append(events_of((await get(web, begun["id"], stream="true", starting_after=number)).text))

        async with trio.open_nursery() as nursery:
            for number in (*numbers[:: max(len(numbers) // 6, 1)], _FOREIGN_NUMBER):
                nursery.start_soon(read, number)
        done = (await get(web, begun["id"])).json()
        assert (done["status"], text_of(done)) == ("completed", "".join(f"{number} " for number in range(40)))
        for rest in rests:
            assert rest[-1]["response"] == done
            before = [event for event in first if event["sequence_number"] < rest[0]["sequence_number"]]
            items = [
                event["item"]["id"] for event in (*before, *rest) if event["type"].endswith("item.added")
            ]
            assert len(items) == len({*items})
        for number in numbers:
            (only,) = events_of((await get(web, begun["id"], stream="true", starting_after=number)).text)
            assert only["response"] == done
        stopped = await respond(web, "Go on", previous_response_id=begun["id"], background=True)
        cancelled = (await web.post(f"{PATH}/{stopped['id']}/cancel")).json()
        assert cancelled["status"] == "cancelled"
        assert (await web.post(f"{PATH}/{stopped['id']}/cancel")).json() == cancelled
    async with serving(ScriptedModel([]), store=store) as web:
        assert (await get(web, begun["id"])).json() == done
        assert (await get(web, stopped["id"])).json() == cancelled
        (only,) = events_of((await get(web, begun["id"], stream="true", starting_after=numbers[0])).text)
        assert only["response"] == done


async def test_a_prompt_behind_a_running_cycle_is_queued_until_it_begins():
    """Its object says so, and so does its stream, also to the official client; then it goes on as any other."""
    gate = trio.Event()

    async def answer(request):
        if len(request.messages) == 1:
            await gate.wait()
        return says("Done.")

    async with serving(FunctionModel(answer), store=MemoryStore()) as web, official(web) as client:
        first = await respond(web, background=True)
        conversation = first["conversation"]["id"]
        second = await respond(web, "And?", background=True, conversation=conversation)
        assert (await get(web, second["id"])).json()["status"] == "queued"
        kinds = []
        asked = {"model": "desk", "input": "Or?", "conversation": conversation}
        async with client.responses.stream(**asked) as stream:
            async for event in stream:
                kinds.append(event.type)
                gate.set()
        assert kinds[:3] == ["response.created", "response.queued", "response.in_progress"]
        assert (kinds.count("response.created"), kinds[-1]) == (1, "response.completed")
        late = events_of((await get(web, second["id"], stream="true")).text)
        assert late[-1]["response"]["status"] == "completed"


async def test_parameters_of_a_read_that_change_nothing_here_are_taken():
    """As those of a request are: the client of the vendor sends them."""
    async with serving(answering("Hello."), store=MemoryStore()) as web, official(web) as client:
        made = await client.responses.create(model="desk", input="Hi")
        more = ["reasoning.encrypted_content", "message.output_text.logprobs"]
        assert (await client.responses.retrieve(made.id, include=more)).output_text == "Hello."
        stream = await client.responses.retrieve(made.id, stream=True, include_obfuscation=False)
        assert [event.type async for event in stream][-1] == "response.completed"
        listed = client.responses.input_items.list(made.id, limit=1, order="asc", include=more)
        assert [item.role async for item in listed] == ["user"]


@pytest.mark.protocol(53)
@pytest.mark.parametrize("is_background", [False, True])
async def test_a_client_that_leaves_aborts_a_response_in_the_foreground(is_background):
    """In the background it goes on."""
    ledger, model = Ledger(), ScriptedModel([TALKING if is_background else ENDLESS])
    async with serving(model, ledger) as web:
        body = {"model": "desk", "input": "Hi", "stream": True, "background": is_background}
        async with (
            web.leaving_when(lambda: model.requests),
            web.client.stream("POST", PATH, json=body) as response,
        ):
            async for _ in response.aiter_text():
                pass
        await web.served.quiet()
        assert ledger.ends == ["completed" if is_background else "aborted"]


async def test_functions_and_approvals_are_items_that_input_answers():
    """By the conversation or the response before; each runs once, and a second answer is refused."""
    shell = RecordingTool(name="shell")
    turns = [calls(("show", {"at": "é"}), ("shell", {"command": "ls"})), says("Done.")]
    async with serving(ScriptedModel(turns), session_tools=[shell], session_plugins=[HumanApproval]) as web:
        asked = await respond(web, tools=[SHOW])
        call, approval = asked["output"]
        assert (call["type"], call["arguments"], approval["type"]) == (
            "function_call",
            '{"at": "é"}',
            "mcp_approval_request",
        )
        yes = {"type": "mcp_approval_response", "approval_request_id": approval["id"], "approve": True}
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "seen"}
        one = await respond(web, [yes], previous_response_id=asked["id"])
        assert (shell.calls, one["output"][0]["type"]) == ([{"command": "ls"}], "mcp_call")
        assert (await get(web, one["id"])).json() == one
        again = await web.post(PATH, {"model": "desk", "input": [yes], "previous_response_id": one["id"]})
        error_of(again, 409, "already_resolved")
        done = await respond(web, [output], conversation=asked["conversation"]["id"])
        assert text_of(done) == "Done."
        assert (await get(web, done["id"])).json() == done
        error_of(
            await web.post(PATH, {"model": "desk", "input": [output], "conversation": asked["conversation"]}),
            409,
            "already_resolved",
        )
        assert len(shell.calls) == 1


async def test_cancelling_a_continued_response_leaves_later_ones_running():
    """One that waits again for an approval names no prompt of its own: its cycle does."""
    shell = RecordingTool(name="shell")
    turns = [*[calls(("shell", {"command": name})) for name in "ab"], says("Done."), ENDLESS]
    async with serving(ScriptedModel(turns), session_tools=[shell], session_plugins=[HumanApproval]) as web:
        one = await respond(web)
        for _ in "ab":
            before, name = one, one["output"][-1]["id"]
            yes = {"type": "mcp_approval_response", "approval_request_id": name, "approve": True}
            one = await respond(web, [yes], previous_response_id=one["id"])
        assert text_of(one) == "Done."
        later = await respond(web, "Go on", previous_response_id=one["id"], background=True)
        assert (await web.post(f"{PATH}/{before['id']}/cancel")).json() == before
        assert (await get(web, later["id"])).json()["status"] == "in_progress"
        stopped = await web.post(f"{PATH}/{later['id']}/cancel")
        assert stopped.json()["status"] == "cancelled"


async def test_a_response_that_is_not_stored_leaves_nothing():
    """Its approvals are rejected; it cannot be read again."""
    shell = RecordingTool(name="shell")
    turns = [calls(("shell", {"command": "rm"})), says("Not done.")]
    async with serving(ScriptedModel(turns), session_tools=[shell], session_plugins=[HumanApproval]) as web:
        told = await respond(web, store=False)
        assert (text_of(told), told["conversation"], shell.calls) == ("Not done.", None, [])
        await no_sessions(web)
        error_of(await get(web, told["id"]), 404, "request_unknown")


@pytest.mark.parametrize("store", [MemoryStore, lambda: None])
async def test_a_response_is_deleted_with_its_conversation(store):
    """Where it is all of it; else the conversation is kept."""
    async with serving(answering("One.", "Two."), store=store()) as web:
        one = await respond(web)
        two = await respond(web, "And?", previous_response_id=one["id"])
        error_of(await web.client.delete(f"{PATH}/{one['id']}"), 409, "request_not_alone")
        error_of(await web.client.delete(f"{PATH}/{two['id']}"), 409, "request_not_alone")
    async with serving(answering("One."), store=store()) as web:
        one = await respond(web)
        response = await web.client.delete(f"{PATH}/{one['id']}")
        assert response.json() == {"id": one["id"], "object": "response", "deleted": True}
        error_of(await get(web, one["id"]), 404, "request_unknown")


async def test_a_response_is_not_deleted_with_one_of_long_ago(monkeypatch):
    """The search for others goes on, page by page, each of which looks at so many events at most."""
    monkeypatch.setattr(event_history, "_CHUNK", 1)
    monkeypatch.setattr(event_history, "MAX_LOOKED_AT", 2)
    many = [("shell", {"command": f"ls {number}"}) for number in range(260)]
    model = ScriptedModel([says("One."), calls(*many), says("Two.")])
    profiles = [profile(model, tools=[RecordingTool(name="shell")])]
    async with serving(None, profiles=profiles, store=MemoryStore()) as web:
        one = await respond(web)
        two = await respond(web, "And?", previous_response_id=one["id"])
        for told in (two, one):
            error_of(await web.client.delete(f"{PATH}/{told['id']}"), 409, "request_not_alone")


async def test_responses_of_others_are_unknown():
    """Byte for byte as one that there is not, but for the id, on each route."""
    entries = [
        TokenEntry(digest=hashlib.sha256(name.encode()).digest(), tenant_id="acme", user_id=name)
        for name in ("ann", "bob")
    ]
    async with serving(answering("One.", "Two."), auth=Tokens(entries), store=MemoryStore()) as web:
        web.client.headers["authorization"] = "Bearer ann"
        one = await respond(web)
        web.client.headers["authorization"] = "Bearer bob"
        other = one["id"].replace("resp_s-", "resp_s-0")
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")):
            said = {"json": {}} if method == "POST" else {}
            taken = await web.client.request(method, f"{PATH}/{one['id']}{path}", **said)
            error_of(taken, 404, "request_unknown")
            none = await web.client.request(method, f"{PATH}/{other}{path}", **said)
            assert taken.content.replace(one["id"].encode(), b"?") == none.content.replace(
                other.encode(), b"?"
            )
        given = {"model": "desk", "input": "Mine?", "previous_response_id": one["id"]}
        error_of(await web.post(PATH, given), 404, "session_unknown")
        web.client.headers["authorization"] = "Bearer ann"
        assert (await get(web, one["id"])).json() == one


@pytest.mark.parametrize(
    "name", ["x", "resp_", "resp_s_1", "resp_s-1_99", "resp_a..b_1", "resp_s-1_0", "resp_s-1_999999999999999"]
)
async def test_an_id_that_is_none_is_unknown(name):
    """In the shape of the API."""
    async with serving(answering("One.")) as web:
        error = error_of(await get(web, name), 404, "request_unknown")
        assert error["type"] == "invalid_request_error"


async def test_requests_that_cannot_be_carried_out_are_refused_before_anything():
    """Each names its place; a plugin of the host refuses here as well."""

    async def judge(ctx):
        raise RequestRefused(402, "unpaid", "pay first")

    async with serving(
        answering("One."), plugin("guard", critical=True, intercept_chat_request=judge)
    ) as web:
        for given, status, code in (
            ({}, 402, "unpaid"),
            ({"model": "none"}, 404, "model_not_found"),
            ({"input": []}, 400, "messages_missing"),
            ({"background": True, "store": False}, 400, "unsupported_parameter"),
            ({"tools": [{"type": "web_search"}]}, 400, "unsupported_tool"),
            ({"conversation": "a b"}, 422, "id_invalid"),
            ({"previous_response_id": "resp_s-1_4"}, 404, "session_unknown"),
        ):
            error_of(await web.post(PATH, {"model": "desk", "input": "Hi", **given}), status, code)
        assert web.host.supervisor.sessions(scope="local") == ()


async def test_a_stream_is_as_the_official_types_say_and_a_failure_is_its_last_event():
    """Events in order, one of them terminal; the whole answer of a failed cycle is an error."""
    async with serving(ScriptedModel([says("a", "b"), ENDLESS]), drain_timeout=0.05) as web:
        response = await web.post(PATH, {"model": "desk", "input": "Hi", "stream": True})
        check_events(events_of(response.text))
        async with web.client.stream(
            "POST", PATH, json={"model": "desk", "input": "Hi", "stream": True}
        ) as stream:
            said = ""
            async for piece in stream.aiter_text():
                said += piece
                if "output_text.delta" in piece:
                    web.stop.set()
        check_events(events_of(said))
        assert events_of(said)[-1]["type"] == "response.failed"
