"""The supervision tree and plugins as rows: what is told live, to whom, and that it is the same when it is asked for."""

import sys

import pytest
import trio

from agentrail.core.policy.budget import Budget
from agentrail.plugins import Action, BeforePrompt, Context, Continue, Plugin, on
from agentrail.runtime.agent import Agent
from agentrail.testing.cancelling import crash
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools import builtin
from tests.gateway.callers import Rows, auth, by
from tests.gateway.socket_client import socket_of
from tests.gateway.web import serving
from tests.host.hosting import answering, asked, hosting, profile
from tests.host.rig import plugin, saying
from tests.runtime.rig import on_virtual_time


def named(name, **said):
    return lambda row: row["name"] == name and all(row[key] == value for key, value in said.items())


@pytest.mark.c(31)
async def test_each_restart_is_told_and_then_that_it_was_given_up():
    """With the reason, the budget that is used, title and first words; a session that takes the id later has none of it."""
    async with (
        serving(answering("<title>Refund 4411</title>So."), auth=auth) as web,
        socket_of(web, by="ann") as own,
        socket_of(web, by="boss") as client,
    ):
        await own.done("create", session_id="s-1")
        session = web.host.supervisor.session("s-1", scope="acme")
        tree = await Rows(client).begin("tree")
        root, node = tree.rows["0"], await tree.find(named("s-1"))
        assert (root["kind"], root["parent"], root["name"]) == ("supervisor", None, "sessions")
        assert (node["kind"], node["parent"], node["restarts"], node["exits"]) == ("session", "0", 0, [])
        assert (node["title"], node["first_words"]) == (None, None)
        await own.done("prompt", session_id="s-1", message="Where is\n my money?")
        seen = await tree.find(named("s-1", title="Refund 4411"))
        shown = (await web.client.get("/inspect/tree", headers=by("boss"))).json()["children"][0]
        for told in (seen, shown):
            assert (told["title"], told["first_words"]) == ("Refund 4411", "Where is my money?")
        allowed = node["intensity"]["allowed"]
        for number in range(1, allowed + 1):
            crash(session, f"ray {number}")
            seen = await tree.find(named("s-1", incarnation=number + 1, status="running"))
            assert seen["key"] == node["key"]
            assert (seen["restarts"], seen["intensity"]["used"]) == (number, number)
            assert len(seen["exits"]) == number
            assert f"ray {number}" in seen["exits"][-1]["reason"]
        crash(session, "the last ray")
        parked = await tree.find(named("s-1", status="parked"))
        assert "the last ray" in parked["exits"][-1]["reason"]
        assert (parked["title"], parked["first_words"]) == ("Refund 4411", "Where is my money?")
        assert node["key"] not in tree.rows
        later = await Rows(client, "later").begin("tree")
        assert later.rows[parked["key"]] == parked
        await own.done("create", session_id="s-1")
        again = await tree.find(named("s-1", status="running"))
        assert (again["title"], again["first_words"]) == (None, None)


@on_virtual_time
async def test_a_node_that_was_given_up_long_ago_is_about_what_it_was_about():
    """Its handle is forgotten; who watched remembers."""
    async with hosting(answering("<title>Trip</title>So.")) as host:
        request = await asked(host, session_id="main")
        await request.outcome()
        await host.quiet()
        feed = host.tree_feed("acme")
        await feed.settle()
        for _ in range(3):
            crash(request.session)
        await trio.sleep(1)
        for _ in range(2):
            await feed.settle()
            (row,) = [row for row in map(feed.row, feed.keys()) if row.session_id == "main"]
            assert (row.status, row.title, row.first_words) == ("parked", "Trip", "Hi")
            await trio.sleep(600)
        late = host.tree_feed("acme")
        await late.settle()
        (row,) = [row for row in map(late.row, late.keys()) if row.session_id == "main"]
        assert (row.status, row.title, row.first_words) == ("parked", None, None)


async def test_a_tree_with_an_agent_at_work_can_be_read():
    """A child that is never restarted keeps no arguments; it is looked at all the same."""
    model = ScriptedModel(
        [calls(("task", {"description": "Look."})), says("Found.", pause_seconds=30), says("Done.")]
    )
    desk = profile(model, tools=builtin("task"), agents=[Agent(name="a", description="b")])
    async with serving(profiles=[desk], auth=auth) as web, socket_of(web, by="ann") as own:
        await own.done("create", session_id="s-1")
        await own.done("prompt", session_id="s-1", message="Go")
        with trio.fail_after(60):
            while True:
                answer = await web.client.get("/inspect/tree", headers=by("boss"))
                assert answer.status_code == 200
                if len(answer.json()["children"]) == 2:
                    break
                await trio.sleep(0.02)
        root = answer.json()
    keys = [child["key"] for child in root["children"]]
    assert (root["key"], len(set(keys))) == ("0", 2)
    child = next(one for one in root["children"] if one["id"] != "s-1")
    mother = next(one for one in root["children"] if one["id"] == "s-1")
    assert [(one["title"], one["first_words"]) for one in (root, mother, child)] == [
        (None, None),
        (None, "Go"),
        (None, "Look."),  # what it has to do, in the words of the call
    ]
    assert child["phase"] in ("running", "streaming")
    assert (child["mailbox"], child["stuck"], child["exits"]) == (0, False, [])
    assert child["up_at_ms"] > 0


class Clumsy(Plugin[int]):
    """Fails at each prompt, and says a secret by it."""

    on_error = "open"

    def init(self) -> int:
        return 0

    @on(BeforePrompt)
    def look(self, event: BeforePrompt, state: int, ctx: Context) -> Action[int]:
        if event.text == "stumble":
            message = "the rug"
            raise ValueError(message)
        return Continue(state)


@pytest.mark.c(33)
async def test_a_stuck_hook_and_a_failing_session_plugin_are_told():
    """How often each hook was called and failed, how long it took, since when one is stuck, and what failed last."""
    done = trio.Event()

    async def hold_on(_ctx):
        with trio.CancelScope(shield=True):
            await done.wait()

    nursing = plugin("nursing", version="1.0", timeouts={"on_request_start": 0.05}, on_request_start=hold_on)
    counting = plugin("counting", on_request_end=saying(None))
    desk = profile(answering("a", "b"), plugins=[Clumsy])
    async with (
        serving(None, nursing, counting, profiles=[desk], auth=auth) as web,
        socket_of(web, by="boss") as client,
    ):
        await client.done("create", session_id="s-1")
        rows = await Rows(client).begin("plugins")
        await client.done("prompt", session_id="s-1", message="stumble")
        clumsy = await rows.find(lambda row: row["name"] == "Clumsy" and row["failures"] == 1)
        assert (clumsy["kind"], clumsy["sessions"], clumsy["order"]) == ("session", 1, None)
        assert (clumsy["last_failure"]["hook"], "the rug" in clumsy["last_failure"]["words"]) == (
            "BeforePrompt",
            True,
        )
        (hook,) = clumsy["hooks"]
        assert (hook["hook"], hook["calls"], hook["failures"]) == ("BeforePrompt", 1, 1)
        assert 0 < hook["p50_ms"] <= hook["p99_ms"]
        stuck = await rows.find(lambda row: row["stuck_hook"] is not None)
        assert (stuck["key"], stuck["stuck_hook"], stuck["order"]) == ("host:nursing", "on_request_start", 1)
        assert stuck["stuck_at_ms"] >= clumsy["last_failure"]["at_ms"] - 5_000
        calm = await rows.find(lambda row: row["name"] == "counting" and row["hooks"][0]["calls"])
        assert (calm["failures"], calm["hooks"][0]["hook"], calm["order"]) == (0, "on_request_end", 2)
        asked = (await web.client.get("/inspect/plugins", headers=by("boss"))).json()
        assert [row["key"] for row in asked["rows"]] == ["host:nursing", "host:counting", "session:Clumsy"]
        done.set()
        await rows.find(lambda row: row["name"] == "nursing" and row["stuck_hook"] is None)
        for path in ("/inspect/plugins", "/inspect/tree", "/inspect/cost", "/inspect/sessions"):
            refused = await web.client.get(path, headers=by("ann"))
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")


async def test_what_was_used_is_added_up_in_a_thread():
    """100,000 sessions take half a second, and so does the answer with a row of each."""
    called: list[str] = []
    async with serving(answering("a"), store="memory:", auth=auth) as web:
        sys.setprofile(lambda frame, kind, _: called.append(frame.f_code.co_name) if kind == "call" else None)
        try:
            answer = await web.client.get("/inspect/cost", headers=by("boss"))
        finally:
            sys.setprofile(None)
    assert answer.status_code == 200
    assert "inspect_cost" in called
    assert not {"cost_table", "answer_json"}.intersection(called)


@pytest.mark.c(32)
async def test_what_was_used_is_asked_for_in_a_time_zone():
    """Of the tenant alone, with the budgets of its sessions; a wrong query is a 422 with its field, and so is a missing store."""
    desk = profile(answering("a", "b"), budget=Budget(max_cost_usd=2.5))
    async with serving(profiles=[desk], store="memory:", auth=auth) as web:

        async def cost(query="", name="boss"):
            return await web.client.get(f"/inspect/cost?{query}", headers=by(name))

        for name in ("ann", "eve"):
            said = {"message": "Hi", "session_id": f"s-{name}"}
            assert (await web.client.post("/chat", json=said, headers=by(name))).status_code == 200
        told = (await cost("by=user&tz=Europe/Berlin&since=3d")).json()
        assert (told["by"], told["tz"]) == ("user", "Europe/Berlin")
        assert [row["key"] for row in told["rows"]] == ["ann"]
        assert told["total"] == {**told["rows"][0], "key": ""} == told["today"] == told["month"]
        assert (told["total"]["requests"], told["unread"]) == (1, [])
        for name, user in (("boss", "s-ann"), ("eve", "s-eve")):
            told = (await cost(name=name)).json()
            assert told["budgets"] == [{"name": user, "used_usd": 0.0, "limit_usd": 2.5}]
            assert told["names"] == {user: "Hi"}
        rows = (await cost("by=session")).json()
        assert (rows["rows"][0]["key"], rows["names"]) == ("s-ann", {"s-ann": "Hi"})
        for query in ("by=week", "tz=Nowhere/At_all", "since=soon", "until=x"):
            refused = await cost(query)
            assert refused.status_code == 422
            assert refused.json()["error"]["field"] == query.partition("=")[0]
    async with serving(answering("a"), store=None, auth=auth) as web:
        refused = await web.client.get("/inspect/cost", headers=by("boss"))
        assert refused.status_code == 422
        assert "store" in refused.json()["error"]["message"]
