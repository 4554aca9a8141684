"""A token that expires, or is revoked, ends everywhere: commands and streams of open sockets, streams of routes, and the UI stream."""

import math

import pytest
import trio

from agentrail import outside, tool
from agentrail.gateway import token_watcher as open_calls_module
from agentrail.gateway.authorization import AccessRules, CallerCheck, CallHead
from agentrail.gateway.error_responses import ErrorAnswer
from agentrail.gateway.tokens import decode_tokens, make_token
from agentrail.host.hook_payloads import Principal
from agentrail.plugins import HumanApproval
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.gateway.attacks.test_other_peoples import OF_A_SESSION, fields_of
from tests.gateway.callers import Rows, by
from tests.gateway.socket_client import socket_of
from tests.gateway.test_tokens import At
from tests.gateway.web import error_of, serving
from tests.host.hosting import answering

NOW = 1_700_000_000.0
DAY = 86_400.0
ANN = Principal(tenant_id="acme", user_id="ann", scopes=("use", "inspect"))


class Door:
    """An `auth` of an application, whose tokens can be revoked, narrowed, and out of order."""

    def __init__(self):
        self.known = {"ann": ANN, "team": Principal(tenant_id="acme", user_id="")}
        self.is_broken = False

    async def __call__(self, headers):
        await trio.lowlevel.checkpoint()
        if self.is_broken:
            message = "the service that knows tokens is away"
            raise OSError(message)
        return self.known.get(headers.get("authorization", "").removeprefix("Bearer "))


@pytest.fixture
def hurry(monkeypatch):
    """Judge what is only read as often as a test can wait for."""
    monkeypatch.setattr(open_calls_module, "EXPIRY_SECONDS", 0.01)
    monkeypatch.setattr(open_calls_module, "JUDGED_EVERY_SECONDS", 0.01)


def asking():
    """A model whose call waits for an approval, and the options of its session."""
    model = ScriptedModel([calls(("shell", {"command": "pay 100"})), says("Paid")])
    return model, {"session_tools": [RecordingTool(name="shell")], "session_plugins": [HumanApproval]}


async def test_a_command_is_judged_when_it_is_carried_out():
    """A scope that was taken away is missing, and a command that waited behind another one does nothing once its token has ended."""
    door = Door()
    async with (
        serving(answering("one", "two"), auth=door, store=MemoryStore()) as web,
        socket_of(web, by="ann") as client,
    ):
        await client.done("create", session_id="main")
        await client.done("journal", session_id="main", limit=1)
        door.known["ann"] = Principal(tenant_id="acme", user_id="ann")
        assert await client.refused("journal", session_id="main") == (403, "forbidden")
        door.known["ann"] = ANN
        await client.done("journal", session_id="main", limit=1)
        for number in (1, 2):
            await client.send(type="prompt", id=f"p{number}", session_id="main", message="Hi")
        first = await client.until("reply", id="p1")
        del door.known["ann"]
        assert first["ok"]
        await client.send(type="abort", id="a", session_id="main")
        assert (await client.until("reply", id="a"))["error"]["code"] == "unauthorized"


@pytest.mark.parametrize("kind", ["expired", "revoked", "narrowed", "another's"])
async def test_a_stream_of_events_ends_with_one_done_when_its_token_does(hurry, kind):
    """`unauthorized`, and a reader that comes back is told 401, 403, or that there is nothing of theirs."""
    door, clock = Door(), At(NOW)
    made = make_token("acme", "ann", scopes=("use", "inspect"), days=1, now=NOW)
    auth = decode_tokens(made.lines.encode(), "tokens.toml") if kind == "expired" else door
    token = made.token if kind == "expired" else "ann"

    def end() -> None:
        if kind == "expired":
            clock.seconds = NOW + DAY
        elif kind == "revoked":
            del door.known["ann"]
        else:
            user = "bob" if kind == "another's" else "ann"
            door.known["ann"] = Principal(tenant_id="acme", user_id=user)

    with outside.installed(clock):
        async with serving(answering("Hello"), auth=auth) as web:
            session = await web.host.create(ANN, session_id="main")
            await session.ask("Hi")
            path, frames, last = "/sessions/main/events", [], ""
            async with web.client.stream("GET", path, headers=by(token)) as response:
                lines = response.aiter_lines()
                async for line in lines:
                    if line.startswith("event: "):
                        frames.append(line.removeprefix("event: "))
                        if frames == ["snapshot"]:
                            end()
                    last = line if line.startswith("data: ") else last
            assert frames[0] == "snapshot"
            assert frames.count("done") == 1
            assert '"reason":"unauthorized"' in last
            if kind in ("expired", "revoked"):
                error_of(await web.client.get(path, headers=by(token)), 401, "unauthorized")


async def test_a_stream_of_a_request_ends_and_its_request_goes_on(hurry):
    """Nothing is lost: who logs in again finds the answer."""
    door, (model, options) = Door(), asking()
    async with serving(model, auth=door, **options) as web:
        said = {"message": "Pay", "session_id": "main"}
        async with web.client.stream("POST", "/stream", json=said, headers=by("ann")) as response:
            text = ""
            async for piece in response.aiter_text():
                text += piece
                if "approval_required" in text:
                    door.known.pop("ann", None)
        assert '"reason":"unauthorized"' in text
        door.known["ann"] = ANN
        session = await web.host.session("main", ANN)
        (asked,) = (await session.status()).approvals
        await session.approve(asked.id)
        assert await session.collect_reply() == "Paid"


async def test_a_prompt_and_an_approval_of_an_expired_token_are_refused_and_close_the_socket(monkeypatch):
    """The clock alone ends it, before any watcher has looked: nothing was run, and what waited still waits."""
    monkeypatch.setattr(open_calls_module, "EXPIRY_SECONDS", DAY)
    made = make_token("acme", "ann", days=1, now=NOW)
    clock, (model, options) = At(NOW), asking()
    auth = decode_tokens(made.lines.encode(), "tokens.toml")
    with outside.installed(clock):
        async with serving(model, auth=auth, **options) as web:
            session = await web.host.create(ANN, session_id="main")
            await session.prompt("Pay")
            async with socket_of(web, by=made.token) as one, socket_of(web) as other:
                await other.greet(made.token)
                (asked,) = (await one.done("snapshot", session_id="main"))["status"]["approvals"] or [None]
                clock.seconds = NOW + DAY
                said = {"session_id": "main", "approval_id": asked["id"]}
                assert await one.refused("approve", **said) == (401, "unauthorized")
                assert await one.closed() == 4401
                refused = await other.refused("prompt", session_id="main", message="Hi")
                assert refused == (401, "unauthorized")
                assert await other.closed() == 4401
            assert [one.id for one in (await session.status()).approvals] == [asked["id"]]


async def test_every_command_is_judged_as_a_request_is(monkeypatch):
    """Each kind of frame that asks for something, once the token is revoked, and before a watcher has looked."""
    monkeypatch.setattr(open_calls_module, "EXPIRY_SECONDS", DAY)
    door = Door()
    more = {"create": {"session_id": "other"}, "sessions": {}, "watch": {"what": "sessions"}}
    asked = {**{name: {"session_id": "mine", **fields_of(name)} for name in OF_A_SESSION}, **more}
    async with serving(answering(), auth=door) as web:
        await web.host.create(ANN, session_id="mine")
        for name, fields in asked.items():
            door.known["ann"] = ANN
            async with socket_of(web, by="ann") as client:
                await client.done("sessions")
                del door.known["ann"]
                assert await client.refused(name, **fields) == (401, "unauthorized"), name
                assert await client.closed() == 4401, name


async def test_what_a_socket_only_reads_ends_with_its_token(hurry):
    """A subscription, a watch and an idle socket are closed with 4401; an auth that fails refuses commands and closes nothing."""
    door = Door()
    async with serving(answering("Hello"), auth=door) as web:
        async with socket_of(web, by="ann") as owner:
            await owner.done("create", session_id="main")
        async with (
            socket_of(web, by="ann") as reads,
            socket_of(web, by="ann") as watches,
            socket_of(web) as idle,
        ):
            await reads.subscribe("main")
            await Rows(watches).begin()
            await idle.greet("ann")
            door.is_broken = True
            assert await reads.refused("prompt", session_id="main", message="Hi") == (503, "plugin_failed")
            door.is_broken = False
            await reads.done("prompt", session_id="main", message="Hi")
            await reads.until_event("agent_end")
            del door.known["ann"]
            for client in (reads, watches, idle):
                assert await client.closed() == 4401


async def test_the_ui_stream_ends_too(hurry):
    """With an error part that says so."""

    @tool
    async def wait() -> str:
        """Wait for what never comes."""
        await trio.sleep(math.inf)
        return ""

    door = Door()
    async with serving(
        ScriptedModel([calls(("wait", {}))]), auth=door, protocols=["ai-ui"], session_tools=[wait]
    ) as web:
        said = {
            "id": "c",
            "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "Go"}]}],
        }
        async with web.client.stream("POST", "/ai-ui/desk", json=said, headers=by("ann")) as response:
            assert response.status_code == 200, await response.aread()
            door.known.pop("ann")
            text = "".join([piece async for piece in response.aiter_text()])
        assert "the token expired or was revoked" in text
        assert "[DONE]" in text


async def test_a_caller_is_judged_again_by_its_head():
    """An ended token gives a 401 and does not lock its address out; a token of a tenant keeps its user; without `auth` nothing ends."""

    def head(**headers):
        return CallHead(
            method="GET", path="/ws", headers={"host": "h", **headers}, peer="127.0.0.1", is_websocket=True
        )

    door, rules = Door(), AccessRules(allowed_hosts=("h",))
    check, of_ann = CallerCheck(door, rules), head(**by("ann"))
    del door.known["ann"]
    for _ in range(50):
        found = await check.check_again(of_ann, ANN)
        assert isinstance(found, ErrorAnswer)
        assert found.status == 401
    door.known["ann"] = ANN
    assert await check.check_again(of_ann, ANN) == ANN
    named = Principal(tenant_id="acme", user_id="bob")
    assert await check.check_again(head(**by("team")), named) == named
    assert await CallerCheck(None, rules).check_again(head(), ANN) == ANN
