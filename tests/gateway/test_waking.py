"""Sessions that sleep, in a file and behind a restart of the process: what wakes them, on every route, what does not, and what ends them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from agentrail.errors import SessionDown
from agentrail.host import Limits
from agentrail.plugins import HumanApproval
from agentrail.testing.models import FunctionModel, ScriptedModel, Turn, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools import builtin
from tests.gateway.callers import auth, by
from tests.gateway.web import Web, serving
from tests.host.hosting import profile
from tests.runtime.rig import on_bounded_time


@asynccontextmanager
async def life(path: Any, *turns: Turn) -> AsyncIterator[Web]:
    """One life of a process over a file."""
    tools = [RecordingTool(name="shell"), *builtin("ask_user")]
    desk = profile(ScriptedModel(turns), tools=tools, plugins=[HumanApproval])
    options = {"store": f"sqlite:{path}/a.db", "limits": Limits(messages_burst=100)}
    async with serving(None, profiles=[desk], auth=auth, headers=by("ann"), **options) as web:
        yield web


@on_bounded_time
@pytest.mark.parametrize("ending", ["approve", "reject", "respond", "abort", "cancel"])
async def test_what_waited_for_a_person_in_an_earlier_life_goes_on_with_their_word(tmp_path, ending):
    """What waits is known behind the restart, with the request; a decision wakes it, and the request ends by it."""
    asks = ("ask_user", {"question": "Which?"}) if ending == "respond" else ("shell", {"command": "ls"})
    async with life(tmp_path, calls(asks)) as web:
        waiting = await web.chat(session_id="main")
        assert (waiting.status_code, waiting.json()["status"]) == (202, "waiting")
        request_id = waiting.json()["request_id"]
    async with life(tmp_path, says("Done.")) as web:
        (listed,) = (await web.client.get("/sessions")).json()["sessions"]
        assert listed["waits_for"] == 1
        (pending,) = waiting.json()["pending"]
        base = "/sessions/main"
        place, said = {
            "approve": (f"{base}/approve", {"approval_id": pending["id"], "auto_resume": True}),
            "reject": (f"{base}/reject", {"approval_id": pending["id"], "auto_resume": True}),
            "respond": (f"{base}/respond", {"ref": pending["id"], "response": "this"}),
            "abort": (f"{base}/abort?wait=true", {}),
            "cancel": (f"{base}/requests/{request_id}/cancel", {}),
        }[ending]
        response = await web.post(place, said)
        assert response.status_code in (200, 202), response.text
        told = (await web.client.get(f"{base}/requests/{request_id}?wait=5")).json()
        outcome = "aborted" if ending in ("abort", "cancel") else "completed"
        assert (told["status"], told["session_id"]) == (outcome, "main")


@pytest.mark.check  # a session that is put to rest is waited for, two seconds, on a clock that threads share
@on_bounded_time
async def test_what_was_at_work_in_an_earlier_life_works_again_at_once(tmp_path):
    """Without a word: its cycle was cut, so it goes on when the next life begins; one that was idle sleeps on."""
    turns = iter([says("So", " it", " is.", pause_seconds=60.0)])
    desk = profile(FunctionModel(lambda _: next(turns, says("Again."))))
    options = {"store": f"sqlite:{tmp_path}/a.db", "profiles": [desk], "drain_timeout": 0.0}
    async with serving(None, **options) as web:
        await web.post("/sessions", {"session_id": "idle"})
        await web.post("/sessions", {"session_id": "busy"})
        sent = (await web.post("/sessions/busy/prompt", {"message": "Hi"})).json()
        await trio.sleep(0.1)
    async with serving(None, **options) as web:
        listed = (await web.client.get("/sessions")).json()["sessions"]
        assert {"idle": "asleep"}.items() <= {one["session_id"]: one["phase"] for one in listed}.items()
        web.host.supervisor.session("busy", scope="local")
        told = (await web.client.get(f"/sessions/busy/requests/{sent['request_id']}?wait=5")).json()
        assert (told["status"], told["text"]) == ("completed", "Again.")
        with pytest.raises(SessionDown):
            web.host.supervisor.session("idle", scope="local")
