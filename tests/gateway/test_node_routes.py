"""Nodes call each other about their sessions: a move and a drain over real connections."""

import pytest
import trio

from agentrail.errors import OptionError, RemoteRefused, Unreachable
from agentrail.gateway.node_routes import NodeAnswer, NodeOrder, error_of, node_answer_to
from agentrail.testing.models import FunctionModel, says
from tests.gateway.callers import by
from tests.gateway.nodes import serving_nodes


def slow_model(began):
    async def answer(_request):
        is_first = not began.is_set()
        began.set()
        await trio.sleep(30 if is_first else 0)
        return says("from the other node")

    return FunctionModel(answer)


async def start(node):
    await node.post("/sessions", {"session_id": "s"})
    sent = await node.client.post("/sessions/s/prompt", json={"message": "Hi"})
    assert sent.status_code == 202, sent.text


@pytest.mark.machine(3)
async def test_a_session_moves_by_a_signed_call_while_its_model_answers():
    """A session moves by a signed call while its model answers."""
    began = trio.Event()
    async with serving_nodes(2, slow_model(began)) as (one, two):
        await start(one)
        await began.wait()
        target = await one.host.supervisor.move_session("s", two.id, scope="acme")
        assert (target.id, one.owner()[0]) == (two.id, two.id)
        with trio.fail_after(10):
            while "from the other node" not in (await one.client.get("/sessions/s/messages")).text:  # noqa: ASYNC110 - a client
                await trio.sleep(0.05)


@pytest.mark.machine(8)
async def test_a_user_is_forgotten_through_any_node():
    """Their sessions end on the nodes that own them, and nothing is left of what was said. Other users keep theirs."""
    model = FunctionModel(lambda _: says("a secret answer"))
    async with serving_nodes(3, model) as (one, two, three):
        for name, node in (("s-1", one), ("s-2", two)):
            assert (await node.chat("A secret", session_id=name)).status_code == 200
        bob = {"json": {"message": "Hi", "session_id": "s-3"}, "headers": by("bob")}
        assert (await two.client.post("/chat", **bob)).status_code == 200
        told = (await three.client.delete("/users/ann/memory")).json()
        assert (told["sessions"], told["left"]) == (2, [])
        for name, node in (("s-1", one), ("s-2", two)):
            assert (await node.client.get(f"/sessions/{name}/messages")).status_code == 404
            assert "secret" not in repr([*one.store.read("acme", name)])
        assert (await one.client.get("/sessions/s-3", headers=by("bob"))).status_code == 200


@pytest.mark.machine(3)
async def test_nodes_with_a_base_path_call_each_other_below_it():
    """The address of a node has the prefix, so a move finds it, and calls and sockets are passed on."""
    async with serving_nodes(2, slow_model(trio.Event()), base_path="/agents") as (one, two):
        made = await one.client.post("/agents/sessions", json={"session_id": "s"})
        assert made.status_code == 201, made.text
        assert (await two.client.get("/agents/sessions/s")).status_code == 200
        await one.host.supervisor.move_session("s", two.id, scope="acme")
        assert one.owner()[0] == two.id
        assert one.host.supervisor.nodes.node.address.endswith("/agents")
        assert (await one.client.post("/nodes/drain", json={})).status_code == 404


@pytest.mark.machine(3)
@pytest.mark.parametrize("deed", ["wait", "repeat"])
async def test_a_session_that_returns_answers_for_its_requests_again(deed):
    """A request that left a node with its session, and came back with it, has its outcome there, not that it moved."""
    began = trio.Event()
    async with serving_nodes(2, slow_model(began)) as (one, two):
        await one.post("/sessions", {"session_id": "s"})
        body = {"message": "Hi", "client_id": "c"}
        sent = await one.client.post("/sessions/s/prompt", json=body)
        await began.wait()
        await one.host.supervisor.move_session("s", two.id, scope="acme")
        await two.host.supervisor.move_session("s", one.id, scope="acme")
        if deed == "wait":
            where = f"/sessions/s/requests/{sent.json()['request_id']}?wait=5"
            found = await one.client.get(where)
        else:
            found = await one.post("/chat", {**body, "session_id": "s"})
        assert found.status_code == 200, found.text
        assert found.json()["text"] == "from the other node"


@pytest.mark.machine(3)
@pytest.mark.parametrize("is_named", [True, False], ids=["named", "nameless"])
async def test_a_caller_that_waits_for_a_session_that_moves_is_answered(is_named):
    """The new owner answers a named message, of any node's client. A nameless one is not sent twice: its client may poll."""
    began = trio.Event()
    async with serving_nodes(3, slow_model(began)) as (one, two, three):
        await one.post("/sessions", {"session_id": "s"})
        answers = []

        async def ask(node):
            body = {"message": "Hi", "session_id": "s", **({"client_id": "c"} if is_named else {})}
            answers.append(await node.post("/chat", body))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, one)
            await began.wait()
            if is_named:
                nursery.start_soon(ask, three)
                await trio.sleep(0.3)
            await one.host.supervisor.move_session("s", two.id, scope="acme")
        if is_named:
            assert [one.json()["text"] for one in answers] == ["from the other node"] * 2
        else:
            assert (answers[0].status_code, answers[0].json()["status"]) == (202, "running")
            found = (await one.client.get(answers[0].headers["location"])).json()
            assert found["request_id"] == answers[0].json()["request_id"]
        told = (await three.client.get("/sessions/s/messages")).text
        assert told.count('"Hi"') == 1


async def test_a_call_without_a_signature_finds_nothing():
    """A call without a signature finds nothing."""
    async with serving_nodes(1, slow_model(trio.Event())) as (one,):
        for action in ("drain", "take"):
            answer = await one.client.post(f"/nodes/{action}", json={})
            assert answer.status_code == 404
        forged = await one.client.post("/nodes/drain", json={}, headers={"x-agentrail-node": "forged"})
        assert forged.status_code == 403
        assert (await one.client.get("/ready")).status_code == 200


@pytest.mark.machine(4)
async def test_a_target_that_does_not_answer_refuses_the_move():
    """A target that does not answer refuses the move."""
    began = trio.Event()
    async with serving_nodes(2, slow_model(began)) as (one, two):
        await start(one)
        await began.wait()
        two.wire.cut()
        before = one.owner()
        with pytest.raises((Unreachable, RemoteRefused)):
            await one.host.supervisor.move_session("s", two.id, scope="acme")
        assert one.owner() == before


def test_errors_come_back_as_what_they_are():
    """Errors come back as what they are."""
    refused = error_of(node_answer_to(OptionError(["a", "b"])), "s")
    assert isinstance(refused, OptionError)
    assert [*refused.faults] == ["a", "b"]
    assert error_of(NodeAnswer(), "s") is None
    assert NodeOrder().within == 30
