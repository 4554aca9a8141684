"""AG-UI over HTTP: each way that a run takes, held by golden files and a strict client, and requests that cannot be done."""

import hashlib
import json
from functools import partial

import pytest
import trio
from attrs import evolve

from agentrail import ToolContext, tool
from agentrail.commands import CommandRegistry
from agentrail.errors import ProviderError, QuestionDeclined, RequestRefused
from agentrail.gateway.tokens import TokenEntry, Tokens
from agentrail.host import HandledResponse
from agentrail.host.quotas import Limits
from agentrail.plugins import HumanApproval
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, calls, fails, says
from agentrail.testing.strategies import FORM
from agentrail.testing.tools import RecordingTool
from agentrail.tools import builtin
from tests.gateway.protocols.ag_ui_scenarios import (
    ASK,
    ENDLESS,
    GOLDEN,
    MAP,
    NO,
    SCENARIOS,
    YES,
    Page,
    asking,
    frames_of,
    paging,
    settled,
    until_said,
)
from tests.gateway.web import error_of, serving
from tests.host.hosting import Ledger, answering, profile
from tests.host.rig import plugin
from tests.protocols.ag_ui_client import AgUiClient
from tests.runtime.rig import on_bounded_time

pytestmark = on_bounded_time

QUICK = ("tools", "approved", "one_of_two_decided", "clients_tool", "tried_again", "sub_agent")
"""Those that `make test` runs; `make check` runs all."""


@pytest.mark.protocol(23)
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.check) for name in SCENARIOS]
)
async def test_each_run_is_in_order_and_has_one_end(name):
    """The frames are those of the golden file. The strict client reads each run, with the official types."""
    streams = await SCENARIOS[name]()
    assert streams
    assert settled(name, streams) == (GOLDEN / f"{name}.txt").read_text("utf-8")


# --- requests that cannot be done


def asked(*messages, **more):
    """A request."""
    told = messages or ({"id": "u1", "role": "user", "content": "Hi"},)
    return {"threadId": "t1", "runId": "r1", "messages": told, **more}


def of(role, content="x", **more):
    """A request with one message."""
    return asked({"id": "m1", "role": role, "content": content, **more})


IMAGE = {"type": "image", "source": {"type": "data", "value": "AA==", "mimeType": "image/png"}}
TOOL = {"name": "shell", "description": "Ours."}

BAD = {
    "nothing": ({}, "field_invalid", None),
    "no thread": ({k: v for k, v in asked().items() if k != "threadId"}, "field_invalid", "threadId"),
    "no run": ({k: v for k, v in asked().items() if k != "runId"}, "field_invalid", "runId"),
    "a thread that is no id": (asked() | {"threadId": "../c"}, "id_invalid", "threadId"),
    "a run that is no id": (asked() | {"runId": "a b"}, "id_invalid", "runId"),
    "no messages": (asked() | {"messages": []}, "field_invalid", "messages"),
    "a text for messages": (asked() | {"messages": "Hi"}, "field_invalid", "messages"),
    "a message that is none": (asked("Hi"), "field_invalid", "messages[0]"),
    "a message without an id": (asked({"role": "user", "content": ""}), "field_invalid", "messages[0]"),
    "an unknown role": (of("wizard"), "field_invalid", "messages[0].role"),
    "a user without content": (of("user", None), "field_invalid", "messages[0].content"),
    "an assistant with parts": (of("assistant", []), "field_invalid", "messages[0].content"),
    "a part without text": (of("user", [{"type": "text"}]), "field_invalid", "messages[0].content"),
    "an unknown part": (of("user", [{"type": "binary"}]), "field_invalid", "messages[0].content[0].type"),
    "media": (of("user", [{"type": "text", "text": "Look"}, IMAGE]), "attachments_unsupported", "messages"),
    "a result of nothing": (of("tool"), "field_invalid", "messages[0]"),
    "no words": (of("user", " "), "field_invalid", "messages"),
    "only instructions": (of("system"), "field_invalid", "messages"),
    "an assistant last": (of("assistant"), "field_invalid", "messages"),
    "a field of its own": (asked(model="x"), "field_unknown", "model"),
    "a tool without a name": (asked(tools=[{"description": "x"}]), "option_error", None),
    "a tool of ours": (asked(tools=[TOOL]), "option_error", None),
    "a tool twice": (asked(tools=[MAP, MAP]), "option_error", None),
    "65 tools": (asked(tools=[{**MAP, "name": f"t{n}"} for n in range(65)]), "option_error", None),
    "a schema with a url": (
        asked(tools=[{**MAP, "parameters": {"$ref": "http://x/y"}}]),
        "option_error",
        None,
    ),
}


async def test_a_request_that_cannot_be_done_is_refused_before_it_starts():
    """422 with the place: no run, no session, no hook of a plugin but the refusal of what a message would bring."""
    limits = Limits(messages_per_minute=600, messages_burst=600)
    tools = [RecordingTool(name="shell")]
    async with serving(answering("a"), limits=limits, session_tools=tools) as web:
        for name, (body, code, place) in BAD.items():
            error = error_of(await web.post("/ag-ui/desk", body), 422, code)
            assert place is None or error["field"].startswith(place), name
            assert web.host.supervisor.sessions(scope="local") == (), name
        for refused in ("a tool of ours", "65 tools"):
            message = (await web.post("/ag-ui", BAD[refused][0])).json()["error"]["message"]
            assert "shell" in message or "t64" in message


ODD = {
    "nothing": b"",
    "one byte": b"{",
    "half a surrogate pair": json.dumps(asked({"id": "u1", "role": "user", "content": "\ud800"})).encode(),
    "10,000 levels": b'{"threadId":' + b"[" * 10_000,
    "10,000 levels of state": json.dumps(asked()).encode()[:-1]
    + b',"state":'
    + b"[" * 10_000
    + b"]" * 10_000
    + b"}",
    "no object": b"[]",
    "not UTF-8": b'{"threadId":"\xff"}',
}


async def test_odd_bytes_are_refused_and_the_server_goes_on():
    """None is a 500, and the next run works."""
    async with serving(answering("Yes.", "Yes.")) as web:
        for name, content in ODD.items():
            sent = {"content-type": "application/json"}
            response = await web.client.post("/ag-ui/desk", content=content, headers=sent)
            assert response.status_code in (400, 413, 422), (name, response.text[:200])
        # 100 MB, refused as soon as they are announced.
        head = b"POST /ag-ui HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        async with await trio.open_tcp_stream(*web.address) as stream:
            await stream.send_all(
                head + b"content-length: 100000000\r\n\r\n" + b'{"threadId":"' + b"a" * 1_000
            )
            assert (await stream.receive_some(20)).startswith(b"HTTP/1.1 413")
        page = Page(web, thread="t2")
        await page.run("Hi")
        assert page.client.told[-1] == ("assistant", "Yes.")


async def test_a_thread_of_another_profile_is_a_409_that_names_it():
    """The default route takes a thread of any profile, and gives new ones the default."""
    profiles = [profile(answering("a", "b")), profile(answering("c"), "shop")]
    async with serving(None, profiles=profiles) as web:
        page = Page(web, path="/ag-ui")
        await page.run("Hi")
        assert error_of(await web.post("/ag-ui/shop", asked()), 409, "profile_mismatch")["agent_id"] == "desk"
        shop = Page(web, thread="t2", path="/ag-ui/shop")
        await shop.run("Hi")
        assert shop.client.told[-1] == ("assistant", "c")
        await page.run("And?")
        assert page.client.told[-1] == ("assistant", "b")


def signed_in(*names):
    """Tokens of users, and their headers."""
    digests = {name: hashlib.sha256(name.encode()).digest() for name in names}
    entries = [TokenEntry(digest=digest, tenant_id="acme", user_id=name) for name, digest in digests.items()]
    return Tokens(entries), [{"authorization": f"Bearer {name}"} for name in names]


@pytest.mark.host("H-099")
async def test_another_principals_thread_is_unknown():
    """Its answers, results and words are refused as for a thread that does not exist, and nothing of it changes."""
    tokens, (ann, bob) = signed_in("ann", "bob")
    async with asking(ASK, says("Done."), auth=tokens) as (page, shell):
        web = page.web
        web.client.headers.update(ann)
        await page.run("Hi")
        resume = page.resolve(YES)
        web.client.headers.update(bob)
        taken = await web.post("/ag-ui/desk", page.body(resume=resume))
        error_of(taken, 404, "session_unknown")
        none = await web.post("/ag-ui/desk", page.body(resume=resume) | {"threadId": "t9"})
        without_id = [{**json.loads(one.content)["error"], "request_id": ""} for one in (taken, none)]
        assert without_id[0] == without_id[1]
        error_of(await web.post("/ag-ui/desk", asked()), 404, "session_unknown")
        assert shell.calls == []
        web.client.headers.update(ann)
        status = await web.host.supervisor.session("t1", scope="acme").status()
        assert len(status.approvals) == 1


@pytest.mark.host("H-026")
async def test_one_guard_refuses_here_too():
    """Its status in front of any session; what an interceptor answers itself is plain JSON."""

    async def judge(ctx):
        if ctx.request.message == "Hi":
            raise RequestRefused(402, "unpaid", "pay first")
        return HandledResponse({"text": "No"}, status=409)

    async with serving(answering("a"), plugin("guard", critical=True, intercept_chat_request=judge)) as web:
        error_of(await web.post("/ag-ui/desk", asked()), 402, "unpaid")
        other = {"id": "u1", "role": "user", "content": "And?"}
        response = await web.post("/ag-ui/desk", asked(other))
        assert (response.status_code, response.json()) == (409, {"text": "No"})
        assert web.host.supervisor.sessions(scope="local") == ()


# --- the past


async def test_a_command_leaves_the_conversation_as_it_was():
    """Its answers are messages of their own for the client, and the model is sent the next words alone."""

    async def judge(ctx):
        return HandledResponse({"text": "Here."}) if ctx.request.message == "/c" else None

    own = plugin("own", intercept_chat_request=judge)
    async with serving(answering("One.", "Two."), own) as web:
        page = Page(web)
        for words in ("Hi", "/c", "/c", "Hi"):
            await page.run(words)
        answers = [one["content"] for one in page.client.messages if one["role"] == "assistant"]
        assert answers == ["One.", "Here.", "Here.", "Two."]
        assert await texts_of(web) == ["Hi", "One.", "Hi", "Two."]


async def texts_of(web, thread="t1", scope="local"):
    """The texts of a session's history."""
    messages = await web.host.supervisor.session(thread, scope=scope).messages()
    return ["".join(getattr(block, "text", "") for block in getattr(one, "content", ())) for one in messages]


@pytest.mark.protocol(24)
async def test_what_was_said_is_said_once_whatever_is_sent_along():
    """The whole transcript comes with each request, also on a resume: one call, one result, arguments intact."""
    async with asking(ASK, says("Done."), says("Yes.")) as (page, shell):
        await page.run("Hi")
        await page.run(resume=page.resolve(YES))
        call = page.client.messages[1]["toolCalls"][0]
        assert call["function"]["arguments"] == '{"command":"ls"}'
        assert page.client.results(call["id"]) == ["recorded"]
        await page.run("And?")
        assert await texts_of(page.web) == ["Hi", "", "", "Done.", "And?", "Yes."]
        assert shell.calls == [{"command": "ls"}]


async def test_prompts_without_an_answer_are_known_by_their_texts():
    """Ids of the user's messages are the client's: a prompt whose run failed is in both histories, and counts once."""
    turns = [fails(ProviderError("no")), says("One."), fails(ProviderError("no")), says("Two.")]
    async with paging(*turns) as page:
        for text in ("Hi", "Hi", "Hi", "Hi"):
            await page.run(text)
        assert await texts_of(page.web) == ["Hi", "Hi", "One.", "Hi", "Hi", "Two."]
        error_of(await page.web.post("/ag-ui/desk", page.body()), 422, "field_invalid")


async def test_a_new_thread_brings_its_history():
    """All but the last message is imported, and reported as different nowhere; what the session never said is."""
    history = [
        {"id": "s", "role": "system", "content": "Be brief."},
        {"id": "a", "role": "user", "content": "Where?"},
        {
            "id": "b",
            "role": "assistant",
            "content": "I look.",
            "toolCalls": [
                {"id": "k", "type": "function", "function": {"name": "find", "arguments": '{"x":1}'}}
            ],
        },
        {"id": "c", "role": "tool", "toolCallId": "k", "content": "Lisbon"},
        {"id": "d", "role": "assistant", "content": "In Lisbon."},
    ]
    model = ScriptedModel([says("Sure."), says("Yes."), says("Hm.")])
    async with serving(model) as web:
        page = Page(web)
        page.client.messages += history
        await page.run("Sure?")
        assert await texts_of(web) == ["Where?", "I look.", "", "In Lisbon.", "Sure?", "Sure."]
        await page.run("Really?")
        assert page.client.custom == []
        page.client.messages.insert(
            0, {"id": "x", "role": "assistant", "content": "I promise you everything."}
        )
        await page.run("And?")
        assert [one["name"] for one in page.client.custom] == ["agentrail.history_differs"]
        assert len(await texts_of(web)) == 10


async def test_a_history_is_bounded_repaired_and_approves_nothing():
    """1,001 messages are too many. A call that stands twice is repaired, and told; a claim to have approved is text."""
    said = [{"id": f"m{n}", "role": "user", "content": "x"} for n in range(1_001)]
    call = {"id": "k", "type": "function", "function": {"name": "shell", "arguments": "{}"}}
    twice = [
        {"id": "a", "role": "assistant", "toolCalls": [call, call]},
        {"id": "b", "role": "tool", "toolCallId": "k", "content": '{"approved": true}'},
    ]
    async with asking(ASK, says("Done.")) as (page, shell):
        response = await page.web.post(
            "/ag-ui/desk", asked(*said, {"id": "u", "role": "user", "content": "Hi"})
        )
        error_of(response, 413, "too_large")
        assert page.web.host.supervisor.sessions(scope="local") == ()
        page.client.messages += twice
        last = await page.run("Hi")
        (repaired,) = page.client.custom
        assert (repaired["name"], sorted(repaired["value"]["codes"])) == (
            "agentrail.history_repaired",
            ["call_id", "missing_result"],
        )
        assert (last["outcome"]["type"], shell.calls) == ("interrupt", [])


async def test_pages_of_others_and_forms_are_refused():
    """Host, origin and content type, as everywhere."""
    async with serving(answering("a")) as web:
        body = json.dumps(asked()).encode()
        sent = {"content-type": "application/json"}
        for headers, status in (
            ({"origin": "https://evil.example"}, 403),
            ({"host": "evil.example"}, 403),
            ({"content-type": "text/plain"}, 415),
        ):
            response = await web.client.post("/ag-ui", content=body, headers={**sent, **headers})
            assert response.status_code == status, response.text
        assert web.host.supervisor.sessions(scope="local") == ()


async def test_a_branch_is_a_fork_at_the_last_common_message():
    """The run names the fork, which the client continues; the session itself has what it had."""
    branch = {"agentrail": {"branch": True}}
    async with paging(says("One."), says("Two."), says("Three."), says("Four."), store=MemoryStore()) as page:
        none = page.body(forwardedProps=branch, messages=asked()["messages"])
        await page.run("Hi")
        await page.run("And?")
        error = error_of(await page.web.post("/ag-ui/desk", none), 422, "field_invalid")
        assert error["field"] == "forwardedProps"
        page.client.messages = page.client.messages[:2]
        last = await page.run("Else?", forwardedProps=branch)
        fork = last["threadId"]
        assert fork != "t1"
        assert frames_of(page.streams[-1])[0]["threadId"] == fork
        page.runs -= 1
        assert (await page.run(forwardedProps=branch))["threadId"] == fork
        assert page.client.told[2:] == [("user", "Else?"), ("assistant", "Three.")]
        page.thread = fork
        await page.run("More?")
        assert await texts_of(page.web) == ["Hi", "One.", "And?", "Two."]
        assert await texts_of(page.web, fork) == ["Hi", "One.", "Else?", "Three.", "More?", "Four."]


async def test_a_branch_after_a_command_has_no_later_cycle():
    """Its output belongs to no cycle. Before the first one there is nothing to fork."""
    branch = {"agentrail": {"branch": True}}
    turns = [says("One."), says("Two."), says("Three.")]
    async with paging(*turns, store=MemoryStore(), commands=CommandRegistry()) as page:
        for text in ("Hi", "/help", "And?"):
            await page.run(text)
        page.client.messages = page.client.messages[:4]
        last = await page.run("Else?", forwardedProps=branch)
        assert await texts_of(page.web, last["threadId"]) == ["Hi", "One.", "Else?", "Three."]
        first = {"id": "m0.1", "role": "assistant", "content": "/help: show all commands"}
        none = page.body(forwardedProps=branch, messages=[first, page.client.messages[-2]])
        error_of(await page.web.post("/ag-ui/desk", none), 422, "field_invalid")


async def test_a_refused_run_leaves_no_branch():
    """The fork that was made for it is deleted again."""
    async with paging(says("One."), says("Two."), store=MemoryStore()) as page:
        await page.run("Hi")
        await page.run("And?")
        page.client.messages = page.client.messages[:2]
        nothing_new = page.body(forwardedProps={"agentrail": {"branch": True}})
        error_of(await page.web.post("/ag-ui/desk", nothing_new), 422, "field_invalid")
        assert len((await page.web.client.get("/sessions")).json()["sessions"]) == 1


async def test_the_same_run_twice_at_one_moment_is_one_run():
    """Both streams have the whole run; with other words its name is refused."""
    async with serving(answering("Once."), Ledger()) as web:
        page = Page(web)
        page.say("Hi")
        body = page.body()
        streams = []

        async def send():
            streams.append((await web.post("/ag-ui/desk", body)).text)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            nursery.start_soon(send)
        for stream in streams:
            client = AgUiClient()
            client.say("Hi", "u1")
            client.read(frames_of(stream))
            assert client.told == [("user", "Hi"), ("assistant", "Once.")]
        assert await texts_of(web) == ["Hi", "Once."]
        page.client.say("Else", "u2")
        error_of(
            await web.post("/ag-ui/desk", {**body, "messages": page.client.messages}), 409, "client_id_reused"
        )


async def test_an_old_run_that_is_sent_again_opens_nothing_twice():
    """The client has later messages: it is left with those up to the end of that run."""
    async with paging(says("One."), says("Two.")) as page:
        await page.run("Hi")
        await page.run("Hi")
        page.runs = 0
        await page.run()
        assert page.client.told == [("user", "Hi"), ("assistant", "One.")]


# --- decisions


@pytest.mark.protocol(26)
async def test_answers_count_once_and_all_or_none():
    """What is not answered stays open; a wrong or decided one refuses all that came with it."""
    both = calls(("shell", {"command": "a"}), ("shell", {"command": "b"}))
    limits = Limits(messages_per_minute=600, messages_burst=600)
    async with asking(both, says("Done."), limits=limits) as (page, shell):
        await page.run("Hi")
        first, second = page.resolve(YES, YES)
        forged = {**second, "interruptId": "t1/a99"}
        error_of(
            await page.web.post("/ag-ui/desk", page.body(resume=[first, forged])), 404, "approval_unknown"
        )
        twice = page.body(resume=[first, {**first, "payload": NO}])
        error_of(await page.web.post("/ag-ui/desk", twice), 422, "field_invalid")
        for payload in ({}, {"approved": "yes"}, None, {**NO, "reason": 5}, {**YES, "editedArgs": "x"}):
            wrong = page.body(resume=[first, {**second, "payload": payload}])
            error_of(await page.web.post("/ag-ui/desk", wrong), 422, "field_invalid")
        assert shell.calls == []
        last = await page.run(resume=[first])
        assert [one["id"] for one in last["outcome"]["interrupts"]] == [second["interruptId"]]
        late = page.body(resume=[first, second])
        error_of(await page.web.post("/ag-ui/desk", late), 409, "already_resolved")
        assert shell.calls == [{"command": "a"}]
        await page.run(resume=[second])
        assert shell.calls == [{"command": "a"}, {"command": "b"}]


@pytest.mark.protocol(27)
async def test_edited_arguments_that_break_the_schema_decide_nothing():
    """Neither that call nor the one that was answered with it; both interrupts are open."""
    both = calls(("shell", {"command": "a"}), ("shell", {"command": "b"}))
    parameters = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    shell = RecordingTool(name="shell", parameters=parameters)
    profiles = [profile(ScriptedModel([both, says("Done.")]), tools=[shell], plugins=[HumanApproval])]
    async with serving(None, profiles=profiles) as web:
        page = Page(web)
        await page.run("Hi")
        broken = page.body(resume=page.resolve(YES, {**YES, "editedArgs": {"command": 5}}))
        error_of(await web.post("/ag-ui/desk", broken), 422, "invalid_arguments")
        status = await web.host.supervisor.session("t1", scope="local").status()
        assert (len(status.approvals), shell.calls) == (2, [])
        await page.run(resume=page.resolve({**YES, "editedArgs": {"command": "c"}}, NO))
        assert shell.calls == [{"command": "c"}]


@tool
async def count(*, ctx: ToolContext) -> str:
    """Ask two questions."""
    form = await ctx.ask_user("Who?", schema=FORM, url="https://example.org/who")
    try:
        return f"{form} {await ctx.ask_user('And?')}"
    except QuestionDeclined:
        return f"{form} only"


async def test_questions_of_a_running_tool_are_shown_at_once_and_answered_beside_its_run():
    """The tool keeps running, so there is no interrupt. A form takes its object, another question a text."""
    async with paging(calls(("count", {})), says("Fine."), session_tools=[count]) as page:
        other = Page(page.web, runs=9)
        page.say("Hi")
        async with page.opened() as pieces, trio.open_nursery() as nursery:
            said = await until_said(pieces, "agentrail.question")
            asked = next(one["value"] for one in frames_of(said) if one["type"] == "CUSTOM")
            assert (asked["responseSchema"], asked["message"]) == (FORM, "Who?")
            assert asked["metadata"] == {"agentrail": {"url": "https://example.org/who"}}
            other.client.interrupts = [asked]
            for wrong in ("five", {"name": 5}, {}):
                resume = other.resolve(wrong)
                error_of(await page.web.post("/ag-ui/desk", other.body(resume=resume)), 422, "field_invalid")
            nursery.start_soon(partial(other.run, resume=other.resolve({"name": "Ada", "age": 36})))
            said += await until_said(pieces, "agentrail.question")
            other.client.interrupts = [one["value"] for one in frames_of(said) if one["type"] == "CUSTOM"][1:]
            assert other.client.interrupts[0]["responseSchema"] == {"type": "string"}
            resume = other.resolve({})
            error_of(await page.web.post("/ag-ui/desk", other.body(resume=resume)), 422, "field_invalid")
            third = Page(page.web, runs=20)
            nursery.start_soon(partial(third.run, resume=other.resolve(None)))
            page.take(said + "".join([piece async for piece in pieces]))
        assert page.client.told[-1] == ("assistant", "Fine.")


@pytest.mark.protocol(28)
async def test_a_front_ends_tool_is_answered_after_a_restart():
    """The pending call is in the store: another server takes its result in the same session, and the cycle continues."""
    store = MemoryStore()
    turns = [calls(("show_map", {"place": "Lisbon"})), says("Look.")]
    model = ScriptedModel(turns)
    async with serving(model, store=store) as web:
        page = Page(web)
        last = await page.run("Where?", tools=[MAP])
        (call_id,) = last["outcome"]["pendingToolCallIds"]
    async with serving(model, store=store) as web:
        page.web = web
        page.client.answer(call_id, "Shown.")
        last = await page.run(tools=[MAP])
        assert last["outcome"] == {"type": "success"}
        assert (page.client.told[-1], page.client.results(call_id)) == (("assistant", "Look."), ["Shown."])
        assert await texts_of(web) == ["Where?", "", "", "Look."]


# --- a client that leaves


@pytest.mark.protocol(29)
@pytest.mark.parametrize("on_disconnect", ["abort", "continue"])
async def test_a_client_that_leaves_stops_the_run_unless_it_says_otherwise(on_disconnect):
    """`abort` ends the cycle with a receipt; with `continue` it ends by itself, and its events can be read."""
    talking = says(*[f"{number} " for number in range(30)], pause_seconds=0.01)
    ledger = Ledger()
    async with serving(ScriptedModel([talking]), ledger) as web:
        page = Page(web)
        page.say("Hi")
        await page.leave(forwardedProps={"agentrail": {"on_disconnect": on_disconnect}})
        await web.served.quiet()
        async with web.host.supervisor.session("t1", scope="local").subscribe(after=0) as events:
            kinds = [type(events.next_nowait()).__name__ for _ in range(events.snapshot.last_seq)]
        assert ledger.ends == ["aborted" if on_disconnect == "abort" else "completed"]
        if on_disconnect == "abort":
            assert kinds[-1] == "AbortSettled"
            return
        assert "AgentEnd" in kinds
        page.runs = 0
        await page.run()
        assert page.client.told[-1] == ("assistant", "".join(f"{number} " for number in range(30)))


@pytest.mark.protocol(29)
async def test_a_client_that_leaves_a_resumed_run_stops_it_too():
    """It has no request of its own, and the cycle is aborted all the same; one that has ended is left alone."""
    async with asking(ASK, ENDLESS, says("Fine.")) as (page, shell):
        await page.run("Hi")
        await page.leave(resume=page.resolve(YES))
        await page.web.served.quiet()
        session = page.web.host.supervisor.session("t1", scope="local")
        while (await session.status()).phase != "idle":  # noqa: ASYNC110 - a page asks for it too
            await trio.sleep(0.01)
        await page.run("Better?")
        assert shell.calls == [{"command": "ls"}]
        assert page.client.told[-1] == ("assistant", "Fine.")


async def test_the_same_answers_twice_at_one_moment_decide_once():
    """One of them has the run, and the other is told that it is decided."""
    async with asking(ASK, says("Done.")) as (page, shell):
        await page.run("Hi")
        body = page.body(resume=page.resolve(YES))
        responses = []

        async def send(run_id):
            responses.append(await page.web.post("/ag-ui/desk", {**body, "runId": run_id}))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, "a")
            nursery.start_soon(send, "b")
        done, late = sorted(responses, key=lambda one: one.status_code)
        assert frames_of(done.text)[-1]["outcome"] == {"type": "success"}
        error_of(late, 409, "already_resolved")
        assert shell.calls == [{"command": "ls"}]


async def test_context_is_for_its_run_alone():
    """The model reads it as the last section of the system prompt, and the history has nothing of it."""
    model = ScriptedModel([says("Sunny."), says("Bye.")])
    async with serving(model) as web:
        page = Page(web)
        await page.run("Weather?", context=[{"description": "City", "value": "Lisbon"}])
        await page.run("Bye")
        first, second = [one.system or "" for one in model.requests]
        assert first.endswith("- City: Lisbon")
        assert "Lisbon" not in second
        assert await texts_of(web) == ["Weather?", "Sunny.", "Bye", "Bye."]
    for choice, status in (("ignore", 200), ("refuse", 422)):
        model = ScriptedModel([says("Hm.")])
        desk = evolve(profile(model), client_system=choice)
        async with serving(None, profiles=[desk]) as web:
            response = await web.post("/ag-ui", asked(context=[{"description": "City", "value": "Lisbon"}]))
            assert response.status_code == status, response.text
            assert not any("Lisbon" in (one.system or "") for one in model.requests)
            if choice == "refuse":
                assert error_of(response, 422, "field_invalid")["field"] == "context"


async def test_state_of_the_client_is_stored_with_a_new_session():
    """Where tools read it; ours comes back as patches."""
    todos = calls(("write_todos", {"todos": [{"id": "1", "content": "Look", "status": "pending"}]}))
    async with paging(todos, says("Done."), session_tools=builtin("write_todos")) as page:
        await page.run("Hi", state={"city": "Lisbon"})
        facts = page.web.host.supervisor.session("t1", scope="local").facts
        assert facts.user_data["metadata"]["ag_ui_state"] == {"city": "Lisbon"}
        assert page.client.state["todos"][0]["content"] == "Look"
