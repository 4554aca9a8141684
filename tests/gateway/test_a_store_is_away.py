"""Callers over HTTP while the store is away at the last commit of a cycle: each hears of it in time, and nothing has to be sent twice."""

import json

import httpx
import pytest
import trio
import trio.testing

from agentrail.gateway.app import create_app
from agentrail.outside import installed
from agentrail.testing.models import FunctionModel, says
from tests.host.hosting import profile
from tests.runtime.disks import Disk, StoreOnDisk

CYCLE_SECONDS = 4.0
PATIENCE_SECONDS = 5.0


def run_while_away(main, *, begins, lasts=60.0, hangs=True):
    """Serve without a socket, on a virtual clock and a store that is away for a while."""

    async def run():
        disk = Disk(begins, lasts, hangs=hangs)
        model = FunctionModel(lambda _: says("paid", pause_seconds=CYCLE_SECONDS / 2))
        with installed(disk):
            app = create_app(profiles=[profile(model)], store=StoreOnDisk(disk), drain_timeout=0.5)
            transport = httpx.ASGITransport(app)
            async with (
                app.state.host.open(),
                httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", verify=False) as client,  # noqa: S501 - no TLS here
            ):
                await trio.sleep_until(1.0)
                await main(client, disk)

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


async def posted_until_the_end(client, path, disk):
    """Post one message, and look at the time."""
    message = {"message": "pay", "session_id": "s", "client_id": "c"}
    began = trio.current_time()
    response = await client.post(path, json=message, timeout=None)
    assert trio.current_time() - began <= CYCLE_SECONDS + PATIENCE_SECONDS + 1.0
    assert trio.current_time() < disk.ends
    return response


@pytest.mark.host("H-060")
@pytest.mark.parametrize("hangs", [True, False])
@pytest.mark.parametrize("begins", [2.0, 4.9])
def test_a_chat_hears_of_a_store_that_is_away(begins, hangs):
    """503 with the request, when patience is over. It ends when the store is back, and the same message gives the same answer."""

    async def main(client, disk):
        response = await posted_until_the_end(client, "/chat", disk)
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (503, "store_unavailable")
        assert "client_id" in error["hint"]
        assert response.headers["location"] == f"/sessions/s/requests/{error['request_id']}"
        await trio.sleep_until(disk.ends + 2 * CYCLE_SECONDS)
        told = (await client.get(response.headers["location"])).json()
        assert (told["status"], told["text"]) == ("completed", "paid")
        again = await client.post("/chat", json={"message": "pay", "session_id": "s", "client_id": "c"})
        assert (again.status_code, again.json()["text"]) == (200, "paid")
        assert again.json()["request_id"] == error["request_id"]

    run_while_away(main, begins=begins, hangs=hangs)


@pytest.mark.host("H-060", "H-068")
def test_a_stream_ends_where_the_store_is_away():
    """`done` says why and names the request; who comes back with `seq` gets the rest."""

    async def main(client, disk):
        response = await posted_until_the_end(client, "/stream", disk)
        done = json.loads(response.text.rpartition("data: ")[2])
        assert (done["reason"], done["error"]["code"]) == ("store_unavailable", "store_unavailable")
        await trio.sleep_until(disk.ends + 2 * CYCLE_SECONDS)
        told = (await client.get(f"/sessions/s/requests/{done['request_id']}")).json()
        assert (told["status"], told["text"]) == ("completed", "paid")
        rest = await client.post("/stream", json={"message": "pay", "session_id": "s", "client_id": "c"})
        assert json.loads(rest.text.rpartition("data: ")[2])["reason"] == "completed"

    run_while_away(main, begins=4.9)


@pytest.mark.host("H-060")
def test_an_abort_while_the_store_is_away_says_that_the_work_was_stopped():
    """202 and not "try again": there is nothing to send again."""

    async def main(client, disk):
        await client.post("/sessions", json={"session_id": "s"})
        await client.post("/sessions/s/prompt", json={"message": "pay"})
        await trio.sleep_until(disk.begins + 0.1)
        response = await client.post("/sessions/s/abort", json={}, timeout=None)
        assert trio.current_time() <= disk.begins + PATIENCE_SECONDS + 1.0
        assert response.status_code == 202
        assert response.json()["is_written"] is False
        assert "stopped" in response.json()["detail"]

    run_while_away(main, begins=2.0)
