"""The UI message stream over HTTP: each life of a request, held by golden files and a strict client, and calls that cannot be done."""

import hashlib

import pytest
import trio

from agentrail.errors import RequestRefused
from agentrail.gateway.tokens import TokenEntry, Tokens
from agentrail.host import HandledResponse
from agentrail.host.quotas import Limits
from agentrail.testing.models import ScriptedModel, calls, says
from tests.gateway.protocols.ui_scenarios import (
    ENDLESS,
    GOLDEN,
    SCENARIOS,
    asking,
    assistant,
    call_of,
    decided,
    parts_of,
    post,
    saying_hi,
    settled,
    until_said,
    user,
)
from tests.gateway.web import error_of, serving
from tests.host.hosting import Ledger, answering, profile
from tests.host.rig import plugin
from tests.protocols.ui_client import UiClient
from tests.runtime.rig import on_bounded_time

pytestmark = on_bounded_time


def said(*messages, **more):
    return {"id": "c1", "messages": messages or (user("Hi"),), **more}


def of(role, *parts, name="m1"):
    return {"id": name, "role": role, "parts": parts}


FILE = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AA=="}


def answered(state, **facts):
    call = {"type": "dynamic-tool", "toolName": "shell", "toolCallId": "c", "input": {}}
    return said(of("assistant", {**call, "state": state, **facts}))


RESPONDED, PART = "approval-responded", "messages[0].parts[0]"

BAD = {
    "nothing": ({}, "field_invalid", "id"),
    "no messages": ({"id": "c1"}, "field_invalid", "messages"),
    "an empty list": (said() | {"messages": []}, "field_invalid", "messages"),
    "a text for messages": (said() | {"messages": "Hi"}, "field_invalid", "messages"),
    "a message that is none": (said("Hi"), "field_invalid", "messages[0]"),
    "a message without an id": (said({"role": "user", "parts": []}), "field_invalid", "messages[0].id"),
    "a role that is none": (said(of("tool")), "field_invalid", "messages[0].role"),
    "parts that are none": (said({**user("Hi"), "parts": "Hi"}), "field_invalid", "messages[0].parts"),
    "a part that is none": (said(of("user", 5)), "field_invalid", f"{PART}.type"),
    "a text that is none": (said(of("user", {"type": "text"})), "field_invalid", f"{PART}.text"),
    "a file": (said(of("user", FILE)), "attachments_unsupported", PART),
    "no words": (said(of("user", {"type": "text", "text": " "}, name="u1")), "field_invalid", "messages"),
    "only the system": (said(of("system", {"type": "text", "text": "x"})), "field_invalid", "messages"),
    "a call without an id": (said(of("assistant", {"type": "tool-x"})), "field_invalid", PART),
    "an approval without one": (answered(RESPONDED), "field_invalid", f"{PART}.approval"),
    "one that says neither": (
        answered(RESPONDED, approval={"id": "a"}),
        "field_invalid",
        f"{PART}.approval.approved",
    ),
    "a failure without words": (answered("output-error"), "field_invalid", f"{PART}.errorText"),
    "another trigger": (said(trigger="resume-stream"), "field_invalid", "trigger"),
    "a response anew": (said(trigger="regenerate-message"), "field_invalid", "trigger"),
    "a field of its own": (said(model="x"), "field_unknown", "model"),
    "an id that is none": (said() | {"id": "../c"}, "id_invalid", "id"),
    "a message whose id is none": (said(user("Hi", "a b")), "id_invalid", None),
}


async def test_a_chat_that_says_it_wrongly_is_told_where():
    """422 with the place; no session, no hook."""
    ledger = Ledger()
    limits = Limits(messages_per_minute=600, messages_burst=600)
    async with serving(answering("a"), ledger, limits=limits) as web:
        for name, (body, code, place) in BAD.items():
            error = error_of(await web.post("/ai-ui/desk", body), 422, code)
            assert place is None or error["field"] == place, name
        assert ledger.heard == []
        assert web.host.supervisor.sessions(scope="local") == ()


async def test_a_chat_of_another_profile_is_a_409_that_names_it():
    """On each route."""
    profiles = [profile(answering("a", "b")), profile(answering("c"), "shop")]
    async with serving(None, profiles=profiles) as web:
        await post(web, user("Hi"))
        for response in (
            await web.post("/ai-ui/shop", said(user("Hi", "u2"))),
            await web.client.get("/ai-ui/shop/c1/stream"),
            await web.post("/ai-ui/shop/c1/cancel"),
        ):
            assert error_of(response, 409, "profile_mismatch")["agent_id"] == "desk"


@pytest.mark.host("H-099")
async def test_other_peoples_chats_are_unknown_on_every_route():
    """Byte for byte as one that there is not, but for the id; nothing of it is changed, and its approval is not decided."""
    digests = {name: hashlib.sha256(name.encode()).digest() for name in ("ann", "bob")}
    tokens = Tokens(
        [TokenEntry(digest=digest, tenant_id="acme", user_id=name) for name, digest in digests.items()]
    )
    both = [{"authorization": f"Bearer {name}"} for name in ("ann", "bob")]
    async with asking(calls(("shell", {"command": "rm"})), says("Done."), auth=tokens) as (web, shell):
        web.client.headers.update(both[0])
        asked = await post(web, user("Hi"))
        web.client.headers.update(both[1])
        answers = said(user("Hi"), assistant(asked, decided(asked, approved=True)))
        for method, path, body in (
            ("POST", "/ai-ui/desk", answers),
            ("POST", "/ai-ui/desk", said(user("Mine?", "u2"))),
            ("GET", "/ai-ui/desk/c1/stream", None),
            ("POST", "/ai-ui/desk/c1/cancel", {}),
        ):
            taken = await web.client.request(method, path, json=body)
            if method == "GET":
                assert (taken.status_code, taken.content) == (204, b"")
            else:
                error_of(taken, 404, "session_unknown")
            if method == "GET" or path.endswith("cancel"):
                none = await web.client.request(method, path.replace("c1", "c9"), json=body)
                assert taken.content.replace(b"c1", b"c9") == none.content
        assert shell.calls == []
        web.client.headers.update(both[0])
        status = await web.host.supervisor.session("c1", scope="acme").status()
        assert len(status.approvals) == 1


@pytest.mark.host("H-026")
async def test_one_guard_refuses_here_too():
    """Its status in front of any session; what an interceptor answers itself is plain JSON."""

    async def judge(ctx):
        if ctx.request.message == "Hi":
            raise RequestRefused(402, "unpaid", "pay first")
        return HandledResponse({"text": "No"}, status=409)

    async with serving(answering("a"), plugin("guard", critical=True, intercept_chat_request=judge)) as web:
        error_of(await web.post("/ai-ui/desk", said()), 402, "unpaid")
        response = await web.post("/ai-ui/desk", said(user("And?")))
        assert (response.status_code, response.json()) == (409, {"text": "No"})
        assert web.host.supervisor.sessions(scope="local") == ()


@pytest.mark.check
async def test_the_rate_of_messages_counts_here_and_a_stop_is_exempt():
    """429 with the time to wait; `cancel` gets through."""
    async with serving(ScriptedModel([ENDLESS])) as web, saying_hi(web) as pieces:
        await until_said(pieces)
        for _ in range(20):
            response = await web.post("/ai-ui/desk", said(trigger="x"))
        error_of(response, 429, "too_many_requests")
        assert int(response.headers["retry-after"]) > 0
        assert (await web.post("/ai-ui/desk/c1/cancel")).status_code == 202
        async for _ in pieces:
            pass


@pytest.mark.host("H-062", "H-063")
async def test_a_message_that_is_new_is_said_once_whatever_is_sent_along():
    """Sent twice it is one request; with other words under its id it is 409; only what is behind the last response is new."""
    ledger = Ledger()
    async with serving(answering("One.", "Two."), ledger) as web:
        first = await post(web, user("Hi"))
        assert await post(web, user("Hi")) == first
        error_of(await web.post("/ai-ui/desk", said(user("Else"))), 409, "client_id_reused")
        second = await post(web, user("Hi"), assistant(first), user("And?", "u2"))
        assert parts_of(second)[0]["messageId"] != parts_of(first)[0]["messageId"]
        await web.served.quiet()
        assert ledger.ends == ["completed", "completed"]
        messages = await web.host.supervisor.session("c1", scope="local").messages()
        words = ["".join(block.text for block in one.content) for one in messages]
        assert words == ["Hi", "One.", "And?", "Two."]


async def test_answers_count_once_and_all_or_none():
    """One that is decided is 409, one that there never was 404: the others that came with it are not decided either."""
    both = calls(("shell", {"command": "a"}), ("shell", {"command": "b"}))
    turns = [both, calls(("shell", {"command": "c"})), says("Done."), says("Yes.")]
    async with asking(*turns) as (web, shell):
        asked = await post(web, user("Hi"))
        one, two = decided(asked, approved=True), decided(asked, approved=True, place=1)
        forged = {**one, "approval": {"id": "c1/a99", "approved": True}}
        answers = said(user("Hi"), assistant(asked, two, forged))
        error_of(await web.post("/ai-ui/desk", answers), 404, "approval_unknown")
        assert shell.calls == []
        await post(web, user("Hi"), assistant(asked, one))
        late = await web.post("/ai-ui/desk", said(user("Hi"), assistant(asked, one, two)))
        error_of(late, 409, "already_resolved")
        assert shell.calls == [{"command": "a"}]
        nothing = said(user("Hi"), assistant(asked, call_of(asked, "output-available", output="x")))
        assert error_of(await web.post("/ai-ui/desk", nothing), 422, "field_invalid")["field"] == "messages"
        # Words behind an answer come behind what it lets run.
        asked = await post(web, user("Hi"), chat="c2")
        approved = assistant(asked, decided(asked, approved=True))
        parts = parts_of(await post(web, user("Hi"), approved, user("And?", "u2"), chat="c2"))
        assert [part["delta"] for part in parts if part["type"] == "text-delta"] == ["Yes."]
        assert shell.calls[-1] == {"command": "c"}


async def test_where_nothing_runs_there_is_no_response():
    """204 in idle; one that waits for an approval comes again; a stop ends what waits, and is 409 in idle."""
    async with asking(calls(("shell", {"command": "a"})), says("Done.")) as (web, _):
        asked = await post(web, user("Hi"))
        response = await web.client.get("/ai-ui/desk/c1/stream")
        assert response.status_code == 200
        assert parts_of(response.text)[0]["messageId"] == parts_of(asked)[0]["messageId"]
        assert decided(response.text, approved=True) == decided(asked, approved=True)
        assert (await web.post("/ai-ui/desk/c1/cancel")).status_code == 202
        session = web.host.supervisor.session("c1", scope="local")
        while (await session.status()).suspended:  # noqa: ASYNC110 - a page asks for it too
            await trio.sleep(0.01)
        response = await web.client.get("/ai-ui/desk/c1/stream")
        assert (response.status_code, response.content) == (204, b"")
        error_of(await web.post("/ai-ui/desk/c1/cancel"), 409, "request_over")
        late = said(user("Hi"), assistant(asked, decided(asked, approved=True)))
        error_of(await web.post("/ai-ui/desk", late), 409, "already_resolved")


QUICK = ("tools", "approved", "one_of_two_decided", "clients_tool", "question")
"""Those that `make test` runs; `make check` runs all."""


@pytest.mark.host("H-115")
@pytest.mark.protocol(66)
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.check) for name in SCENARIOS]
)
async def test_each_life_of_a_request_is_a_response_in_order(name):
    """The frames are those of the golden file, and a strict client reads them; `UiClient` says what is held."""
    streams = await SCENARIOS[name]()
    client = UiClient()
    known = set()
    for stream in streams:
        parts = parts_of(stream)
        begun = parts[0].get("messageId")
        client.read(parts, is_replay=name == "sent_again" and begun in known)
        known.add(begun)
    assert settled(name, streams) == (GOLDEN / f"{name}.txt").read_text("utf-8")
