"""Webhooks over HTTP: the field of a body, what is refused at the door, and a receiver on a socket of this machine."""

import base64

import pytest
import trio
from standardwebhooks.webhooks import Webhook

from agentrail.host import Webhooks
from tests.gateway.web import error_of, serving
from tests.host.hosting import answering
from tests.host.receivers import Receiver
from tests.runtime.rig import on_bounded_time
from tests.web.sites import open_sites

SECRET = "whsec_" + base64.b64encode(b"twenty-four bytes or more").decode()


@on_bounded_time
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


@on_bounded_time
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
