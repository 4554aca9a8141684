"""What stays of users who come once, use each wire, delete what they have and leave: nothing that grows with their number."""

import gc
from collections import Counter

import pytest

from agentrail.host import Principal
from agentrail.runtime import spending_book
from agentrail.stores.memory import MemoryStore
from agentrail.telemetry import reader
from agentrail.testing.models import FunctionModel, says
from tests.gateway.web import serving
from tests.runtime.rig import eventually

USERS = 6
BOUNDED = {
    "PluginTally": "of at most `MAX_SCOPES` tenants",
    "SessionOwner": "until the rates of a caller are full again",
}
"""What stays for a while, or up to a limit, and why."""


class Forgetful(FunctionModel):
    """A model that keeps no request."""

    def open_stream(self, request):
        self.requests.clear()
        return super().open_stream(request)


def own_tenant(headers):
    name = headers.get("authorization", "").removeprefix("Bearer ")
    return Principal(tenant_id=f"tenant-{name}", user_id=f"user-{name}", scopes=("use", "inspect"))


async def come_and_go(web, name):
    """Begin sessions over each wire, look at all lists, and delete everything."""
    who = {"authorization": f"Bearer {name}"}
    hi = {"role": "user", "content": "Hi"}
    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "Hi"}]}
    rpc = {"jsonrpc": "2.0", "id": 7, "params": {}}
    for path, said, head in (
        ("/sessions", {"session_id": f"a-{name}"}, {}),
        ("/chat", {"message": "Hi", "session_id": f"a-{name}", "client_id": "c1"}, {}),
        ("/stream", {"message": "Hi", "session_id": f"a-{name}"}, {}),
        ("/v1/chat/completions", {"model": "desk", "messages": [hi]}, {}),
        (
            "/v1/chat/completions",
            {"model": "desk", "messages": [hi], "stream": True},
            {"x-session-id": f"b-{name}"},
        ),
        ("/v1/responses", {"model": "desk", "input": "Hi"}, {}),
        ("/v1/responses", {"model": "desk", "input": "Hi", "store": False}, {"idempotency-key": name}),
        ("/ag-ui/desk", {"threadId": f"c-{name}", "runId": "r1", "messages": [{"id": "u1", **hi}]}, {}),
        (
            "/a2a/desk",
            {**rpc, "method": "SendMessage", "params": {"message": message}},
            {"a2a-version": "1.0"},
        ),
        ("/a2a/desk", {**rpc, "method": "ListTasks"}, {"a2a-version": "1.0"}),
    ):
        response = await web.post(path, said, headers={**who, **head})
        assert response.status_code < 300, response.text
    for path in (
        "/inspect/tree",
        "/inspect/cost?by=user",
        "/inspect/plugins",
        f"/sessions/a-{name}/messages",
    ):
        assert (await web.client.get(path, headers=who)).status_code == 200
    listed = (await web.client.get("/sessions", headers=who)).json()["sessions"]
    assert len(listed) > 4
    for row in listed:
        path = f"/sessions/{row['session_id']}?purge=true"
        assert (await web.client.delete(path, headers=who)).status_code == 204
    assert (await web.client.delete(f"/users/user-{name}/memory", headers=who)).status_code == 200


def places_of(web):
    """Return the sessions of which telemetry remembers how far it is. They go when their cursors are stored."""
    lines = web.host.supervisor._shared.fan_in.reader._lines  # noqa: SLF001 - its memory
    return [place for line in lines for place in line._places]  # noqa: SLF001 - same


def count_ours():
    gc.collect()
    return Counter(
        type(one).__name__ for one in gc.get_objects() if f"{type(one).__module__}".startswith("agentrail")
    )


@pytest.mark.check
async def test_nothing_grows_with_the_users_who_have_left(monkeypatch, tmp_path):
    """Neither in the store nor in the memory of the server; counted after each of three equal groups."""
    monkeypatch.setattr(spending_book, "KNOWN_SLACK", 0)
    monkeypatch.setattr(reader, "CURSOR_SECONDS", 0.01)
    audit = f"file:{tmp_path / 'audit.jsonl'}"
    store, protocols = MemoryStore(), ("openai", "ag-ui", "a2a")
    model = Forgetful(lambda _: says("One."))
    async with serving(model, store=store, auth=own_tenant, protocols=protocols, audit=audit) as web:
        counts = []
        for group in "xyz":
            for number in range(USERS):
                await come_and_go(web, f"{group}{number}")
            await eventually(lambda: not web.host.supervisor.sessions())
            await eventually(lambda: not store.find())
            await eventually(lambda: not places_of(web))
            counts.append(count_ours())
        before, between, after = counts
        grown = {
            name: (before[name], between[name], after[name])
            for name in after
            if min(after[name] - between[name], between[name] - before[name]) >= USERS
        }
        assert set(grown) <= set(BOUNDED), {n: v for n, v in grown.items() if n not in BOUNDED}
