"""A2A over HTTP: what each method does with sessions, and what no client should send."""

import hashlib
import json
import sys
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from attrs import evolve
from google.protobuf.json_format import ParseDict

from agentrail import tool
from agentrail.errors import Overloaded, RequestRefused
from agentrail.gateway.protocols import a2a_routes
from agentrail.gateway.tokens import TokenEntry, Tokens
from agentrail.host import Host
from agentrail.host.hook_payloads import HandledResponse
from agentrail.host.quotas import Limits
from agentrail.messages import UserMessage
from agentrail.plugins import HumanApproval
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, ScriptedModel, Turn, calls, fails, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools import builtin
from agentrail.tools.task import TaskTool
from tests.gateway.attacks.wire import by_header
from tests.gateway.protocols.test_openai_chat_calls import ENDLESS
from tests.gateway.web import Web, serving
from tests.host.hosting import answering, profile
from tests.host.rig import plugin
from tests.protocols.test_a2a import PB2, check_frames
from tests.runtime.rig import on_bounded_time

pytestmark = on_bounded_time

RPC = "/a2a/desk"
VERSION = {"a2a-version": "1.0"}
A2A = ("a2a",)
SLOW = says(*[f"{number} " for number in range(40)], pause_seconds=0.01)


def message(*parts: Any, name: str = "m-1", **more: Any) -> dict[str, Any]:
    """The parameters of a message. A text is a part of its own."""
    given = [{"text": part} if isinstance(part, str) else part for part in parts or ("Hi",)]
    wanted = {"configuration": more.pop("configuration")} if "configuration" in more else {}
    return {"message": {"messageId": name, "role": "ROLE_USER", "parts": given, **more}, **wanted}


async def rpc(web: Web, method: str, params: Any, **head: Any) -> dict[str, Any]:
    """Call a method over JSON-RPC."""
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    response = await web.post(RPC, body, headers=VERSION, **head)
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    assert (told["jsonrpc"], told["id"]) == ("2.0", 7)
    return told


async def done(web: Web, method: str, params: Any) -> dict[str, Any]:
    """The result of a call that is not refused."""
    result: dict[str, Any] = (await rpc(web, method, params))["result"]
    return result


async def sent(web: Web, *parts: Any, **more: Any) -> dict[str, Any]:
    """Send a message, and return its task."""
    task: dict[str, Any] = (await done(web, "SendMessage", message(*parts, **more)))["task"]
    ParseDict(task, PB2.Task())
    return task


async def refused(web: Web, method: str, params: Any) -> tuple[str, str, str]:
    """The reason of a refusal, our code, and its words; equal over REST where that has the same parameters."""
    error = (await rpc(web, method, params))["error"]
    detail = error["data"][0]
    assert detail["@type"].endswith("google.rpc.ErrorInfo")
    return detail["reason"], detail["metadata"]["code"], error["message"]


async def streamed(web: Web, method: str, params: Any) -> list[dict[str, Any]]:
    """Read a stream to its end, over JSON-RPC."""
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    return frames_of((await web.post(RPC, body, headers=VERSION)).text)


def frames_of(text: str) -> list[dict[str, Any]]:
    """The frames of a stream of JSON-RPC, each of which the official type parses."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    frames = [json.loads(line) for line in lines]
    check_frames([frame.get("result", frame) for frame in frames])
    return [frame.get("result", frame) for frame in frames]


def text_of(task: dict[str, Any]) -> str:
    """The text of an answer."""
    return "".join([part["text"] for one in task.get("artifacts", ()) for part in one["parts"]])


def state_of(task: dict[str, Any]) -> str:
    state: str = task["status"]["state"].removeprefix("TASK_STATE_")
    return state


async def test_a_task_is_the_same_however_it_is_read():
    """Sent, got, listed, over both bindings; its context is a session, in which the next one is another."""
    async with serving(answering("One.", "Two."), protocols=A2A, store=MemoryStore()) as web:
        one = await sent(web)
        assert (text_of(one), state_of(one)) == ("One.", "COMPLETED")
        assert [part["text"] for said in one["history"] for part in said["parts"]] == ["Hi", "One."]
        assert await done(web, "GetTask", {"id": one["id"]}) == one
        response = await web.client.get(f"{RPC}/v1/tasks/{one['id']}", headers=VERSION)
        assert response.json() == one
        two = await sent(web, "And?", name="m-2", contextId=one["contextId"])
        assert (text_of(two), two["contextId"]) == ("Two.", one["contextId"])
        session = web.host.supervisor.session(one["contextId"], scope="local")
        said = [block.text for one in await session.messages() for block in one.content]
        assert said == ["Hi", "One.", "And?", "Two."]


async def test_a_stream_has_the_task_then_its_updates_and_one_end():
    """Deltas are appended to one artifact; its text is that of the task."""
    async with serving(ScriptedModel([SLOW]), protocols=A2A) as web:
        frames = await streamed(web, "SendStreamingMessage", message())
        assert [*frames[0]] == ["task"]
        updates = [frame["artifactUpdate"] for frame in frames if "artifactUpdate" in frame]
        assert [one["append"] for one in updates] == [False] + [True] * (len(updates) - 1)
        said = "".join([one["artifact"]["parts"][0]["text"] for one in updates])
        assert said == text_of(await done(web, "GetTask", {"id": frames[0]["task"]["id"]}))
        assert frames[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_message_that_returns_at_once_has_a_task_that_is_followed():
    """The task as it is, then what follows: nothing that the first frame has comes again."""
    async with serving(ScriptedModel([SLOW, says("No.")]), protocols=A2A) as web:
        begun = await sent(web, configuration={"returnImmediately": True})
        assert state_of(begun) in ("SUBMITTED", "WORKING")
        queued = await sent(
            web, name="m-2", contextId=begun["contextId"], configuration={"returnImmediately": True}
        )
        assert state_of(queued) == "SUBMITTED"
        reason, _, words = await refused(web, "SendMessage", message("Now", name="m-3", taskId=queued["id"]))
        assert (reason, "wait until it runs" in words) == ("UNSUPPORTED_OPERATION", True)
        frames = await streamed(web, "SubscribeToTask", {"id": begun["id"]})
        said = [one["artifactUpdate"]["artifact"]["parts"] for one in frames if "artifactUpdate" in one]
        whole = await done(web, "GetTask", {"id": begun["id"]})
        assert "".join([part["text"] for parts in said for part in parts]) == text_of(whole)
        for task, reason in ((begun, "SubscribeToTask"), (begun, "CancelTask")):
            refusal = await refused(web, reason, {"id": task["id"]})
            assert refusal[0] in ("UNSUPPORTED_OPERATION", "TASK_NOT_CANCELABLE")


async def test_a_running_and_a_queued_task_are_canceled():
    """The answer comes when the abort has settled; other tasks are left alone."""
    async with serving(ScriptedModel([ENDLESS, says("Next.")]), protocols=A2A) as web:
        soon = {"returnImmediately": True}
        runs = await sent(web, configuration=soon)
        waits = await sent(web, name="m-2", contextId=runs["contextId"], configuration=soon)
        assert state_of(await done(web, "CancelTask", {"id": waits["id"]})) == "CANCELED"
        assert state_of(await done(web, "GetTask", {"id": runs["id"]})) == "WORKING"
        response = await web.post(f"{RPC}/v1/tasks/{runs['id']}:cancel", {}, headers=VERSION)
        assert state_of(response.json()) == "CANCELED"
        assert (await refused(web, "CancelTask", {"id": runs["id"]}))[:2] == (
            "TASK_NOT_CANCELABLE",
            "request_over",
        )


async def test_a_message_to_a_task_that_works_steers_it():
    """The same task goes on, and the model reads the words in its next turn."""
    looked = trio.Event()

    @tool
    async def look() -> str:
        """Look."""
        looked.set()
        await trio.sleep(5)  # a steer ends it at once
        return "seen"

    model = ScriptedModel([calls(("look", {})), says("Done.")])
    async with serving(model, protocols=A2A, session_tools=[look]) as web:
        begun = await sent(web, configuration={"returnImmediately": True})
        await looked.wait()
        task = await sent(web, "In French", name="m-2", taskId=begun["id"])
        assert (task["id"], text_of(task)) == (begun["id"], "Done.")
        assert "In French" in json.dumps([str(one) for one in model.requests[-1].messages])
        over = await refused(web, "SendMessage", message("More", name="m-3", taskId=begun["id"]))
        assert (over[0], "another task in its context" in over[2]) == ("UNSUPPORTED_OPERATION", True)
        other = message("More", name="m-4", taskId=begun["id"], contextId="c-9")
        assert (await refused(web, "SendMessage", other))[1] == "field_invalid"


@pytest.mark.protocol(32)
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_an_approval_is_given_by_its_data_part_and_never_by_words(method):
    """P-032: plain text is refused and told what is needed; what runs is what was shown; a second one decides nothing."""
    shell = RecordingTool(name="shell")
    turns = [calls(("shell", {"command": "ls"})), says("Done.")]
    async with serving(
        ScriptedModel(turns), protocols=A2A, session_tools=[shell], session_plugins=[HumanApproval]
    ) as web:
        asked = await sent(web)
        words, facts = asked["status"]["message"]["parts"]
        assert (state_of(asked), facts["data"]["arguments"]) == ("INPUT_REQUIRED", {"command": "ls"})
        name = facts["data"]["approval_id"]
        assert name in words["text"]
        for text in ("yes", "approved", f"approve {name}"):
            refusal = await refused(
                web, method, message(text, name=text.replace(" ", "-")[:40], taskId=asked["id"])
            )
            assert (refusal[1], f'"approval_id": "{name}", "approved": true' in refusal[2]) == (
                "field_invalid",
                True,
            )
        assert shell.calls == []
        data = {"data": {"approval_id": name, "approved": True}}
        if method == "SendMessage":
            task = await sent(web, data, name="m-2", taskId=asked["id"])
        else:
            frames = await streamed(web, method, message(data, name="m-2", taskId=asked["id"]))
            states = [one["statusUpdate"]["status"]["state"] for one in frames if "statusUpdate" in one]
            assert states[-1] == "TASK_STATE_COMPLETED"
            task = await done(web, "GetTask", {"id": asked["id"]})
        assert (task["id"], text_of(task), shell.calls) == (asked["id"], "Done.", [{"command": "ls"}])
        again = await refused(web, method, message(data, name="m-3", taskId=asked["id"]))
        assert (again[0], len(shell.calls)) == ("UNSUPPORTED_OPERATION", 1)


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_an_approval_of_a_child_is_one_of_its_task(method):
    """A session that works for a call asks through the task of its root, which goes on to its end."""

    def answer(request: Any) -> Turn:
        if len(request.messages) > 1:
            return says("Done.")
        if "Count" in str(request.messages):
            return calls(("shell", {"command": "ls"}))
        return calls(("task", {"description": "Count the files."}))

    shell = RecordingTool(name="shell")
    profiles = [profile(FunctionModel(answer), tools=[TaskTool(), shell], plugins=[HumanApproval])]
    async with serving(None, profiles=profiles, protocols=A2A) as web:
        asked = await sent(web)
        (facts,) = [part["data"] for part in asked["status"]["message"]["parts"] if "data" in part]
        yes = message(
            {"data": {"approval_id": facts["approval_id"], "approved": True}}, name="m-2", taskId=asked["id"]
        )
        await rpc(web, "SendMessage", yes) if method == "SendMessage" else await streamed(web, method, yes)
        task = await done(web, "GetTask", {"id": asked["id"]})
        assert (state_of(task), text_of(task), len(shell.calls)) == ("COMPLETED", "Done.", 1)


async def test_a_task_that_waits_is_canceled_and_its_answer_comes_too_late():
    """Nothing runs; another task of the context is left alone."""
    shell = RecordingTool(name="shell")
    async with serving(
        ScriptedModel([calls(("shell", {"command": "ls"})), says("Next.")]),
        protocols=A2A,
        session_tools=[shell],
        session_plugins=[HumanApproval],
    ) as web:
        asked = await sent(web)
        (facts,) = [part["data"] for part in asked["status"]["message"]["parts"] if "data" in part]
        assert state_of(await done(web, "CancelTask", {"id": asked["id"]})) == "CANCELED"
        yes = message(
            {"data": {"approval_id": facts["approval_id"], "approved": True}}, name="m-2", taskId=asked["id"]
        )
        assert (await refused(web, "SendMessage", yes))[0] == "UNSUPPORTED_OPERATION"
        assert text_of(await sent(web, "Go on", name="m-3", contextId=asked["contextId"])) == "Next."
        assert shell.calls == []


async def test_tasks_of_a_long_session_are_read_page_by_page(monkeypatch):
    """The same, however many events are read at once."""
    async with serving(answering("One.", "Two.", "Three."), protocols=A2A) as web:
        tasks = [await sent(web, name=f"m-{number}", contextId="c-1") for number in range(3)]
        listed = await done(web, "ListTasks", {"contextId": "c-1"})
        monkeypatch.setattr("agentrail.gateway.protocols.a2a_routes._PAGE", 2)
        assert [await done(web, "GetTask", {"id": task["id"]}) for task in tasks] == tasks
        assert await done(web, "ListTasks", {"contextId": "c-1"}) == listed


async def test_answers_are_all_checked_before_one_counts():
    """Two approvals: with a wrong one nothing is decided; one of them leaves the task waiting for the other."""
    shell = RecordingTool(name="shell")
    turns = [calls(("shell", {"command": "a"}), ("shell", {"command": "b"})), says("Done.")]
    async with serving(
        ScriptedModel(turns), protocols=A2A, session_tools=[shell], session_plugins=[HumanApproval]
    ) as web:
        asked = await sent(web)
        names = [
            part["data"]["approval_id"] for part in asked["status"]["message"]["parts"] if "data" in part
        ]
        first, second = [{"data": {"approval_id": name, "approved": True}} for name in names]
        for wrong in (
            {"approval_id": "x"},
            {"approval_id": names[1], "approved": True, "arguments": 7},
            {},
            {"ref": "q"},
        ):
            refusal = await refused(
                web, "SendMessage", message(first, {"data": wrong}, name="m-2", taskId=asked["id"])
            )
            assert refusal[1] == "field_invalid"
        assert shell.calls == []
        half = await sent(web, first, name="m-3", taskId=asked["id"])
        left = [part["data"]["approval_id"] for part in half["status"]["message"]["parts"] if "data" in part]
        assert (state_of(half), left) == ("INPUT_REQUIRED", names[1:])
        no = {"data": {"approval_id": names[1], "approved": False, "reason": "not that"}}
        whole = await sent(web, no, name="m-4", taskId=asked["id"])
        assert (state_of(whole), shell.calls) == ("COMPLETED", [{"command": "a"}])
        assert second != first


@pytest.mark.parametrize("answer", ["blue", {"ref": "?", "response": "blue"}])
async def test_words_answer_the_only_question(answer):
    """So does a data part that names it."""
    turns = [calls(("ask_user", {"question": "Which?", "options": ["red", "blue"]})), says("Done.")]
    model = ScriptedModel(turns)
    async with serving(model, protocols=A2A, session_tools=builtin("ask_user")) as web:
        asked = await sent(web)
        words, facts = asked["status"]["message"]["parts"]
        assert (words["text"], facts["data"]["options"]) == ("Which?", ["red", "blue"])
        part = {"data": {**answer, "ref": facts["data"]["ref"]}} if isinstance(answer, dict) else answer
        task = await sent(web, part, name="m-2", taskId=asked["id"])
        assert (state_of(task), task["id"]) == ("COMPLETED", asked["id"])
        assert "blue" in str(model.requests[-1].messages[-1])


@pytest.mark.protocol(33)
async def test_a_task_survives_a_restart_and_one_that_worked_ends():
    """P-033: the same task before and after; what was running is taken up again."""
    store = MemoryStore(lease_ms=0)
    async with serving(
        ScriptedModel([says("One."), ENDLESS]), protocols=A2A, store=store, drain_timeout=0.05
    ) as web:
        one = await sent(web)
        runs = await sent(web, name="m-2", configuration={"returnImmediately": True})
    async with serving(ScriptedModel([SLOW]), protocols=A2A, store=store) as web:
        assert await done(web, "GetTask", {"id": one["id"]}) == one
        frames = await streamed(web, "SubscribeToTask", {"id": runs["id"]})
        assert frames[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        task = await done(web, "GetTask", {"id": runs["id"]})
        assert (state_of(task), text_of(task)) == ("COMPLETED", "".join(SLOW.text))
        listed = await done(web, "ListTasks", {})
        assert [one["id"] for one in listed["tasks"]] == [runs["id"], one["id"]]


@pytest.mark.protocol(33)
async def test_a_task_that_waits_is_answered_after_a_restart():
    """It asks for the same as before, and what is approved then runs once."""
    shell, store = RecordingTool(name="shell"), MemoryStore(lease_ms=0)
    options: dict[str, Any] = {"session_tools": [shell], "session_plugins": [HumanApproval], "store": store}
    async with serving(ScriptedModel([calls(("shell", {"command": "ls"}))]), protocols=A2A, **options) as web:
        asked = await sent(web)
    async with serving(answering("Done."), protocols=A2A, **options) as web:
        assert await done(web, "GetTask", {"id": asked["id"]}) == asked
        (facts,) = [part["data"] for part in asked["status"]["message"]["parts"] if "data" in part]
        yes = {"data": {"approval_id": facts["approval_id"], "approved": True}}
        task = await sent(web, yes, name="m-2", taskId=asked["id"])
        assert (state_of(task), text_of(task), len(shell.calls)) == ("COMPLETED", "Done.", 1)


@pytest.mark.protocol(34)
@pytest.mark.parametrize("context", [{}, {"contextId": "c-1"}])
async def test_a_repeated_message_is_the_same_task(context):
    """P-034: at once and later, also without a context; with other words it is refused."""
    model = answering("One.")
    async with serving(model, protocols=A2A) as web:
        tasks: list[dict[str, Any]] = []

        async def send() -> None:
            tasks.append(await sent(web, **context))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            nursery.start_soon(send)
        tasks.append(await sent(web, **context))
        assert tasks[0] == tasks[1] == tasks[2]
        assert len(model.requests) == 1
        assert (await refused(web, "SendMessage", message("Other", **context)))[1] == "client_id_reused"


async def test_tasks_are_listed_newest_first_in_pages():
    """By context, state and time; with history and artifacts only where they are asked for."""
    async with serving(
        ScriptedModel([says("1"), fails(Overloaded("busy")), says("3")]), protocols=A2A, session_max_retries=0
    ) as web:
        tasks = [await sent(web, name=f"m-{number}", contextId=f"c-{number % 2}") for number in range(3)]
        ids = [task["id"] for task in reversed(tasks)]
        whole = await done(web, "ListTasks", {})
        ParseDict(whole, PB2.ListTasksResponse())
        assert [task["id"] for task in whole["tasks"]] == ids
        assert (whole["totalSize"], whole["nextPageToken"], whole["pageSize"]) == (3, "", 50)
        assert all(task.keys() == {"id", "contextId", "status"} for task in whole["tasks"])
        found, token = [], ""
        while len(found) < 4:
            page = await done(web, "ListTasks", {"pageSize": 1, **({"pageToken": token} if token else {})})
            found += [task["id"] for task in page["tasks"]]
            token = page["nextPageToken"]
            if not token:
                break
        assert found == ids
        for asked, wanted in (
            ({"contextId": "c-0"}, [ids[0], ids[2]]),
            ({"status": "TASK_STATE_FAILED"}, [ids[1]]),
            ({"statusTimestampAfter": "2999-01-01T00:00:00Z"}, []),
            ({"contextId": "c-none"}, []),
        ):
            assert [task["id"] for task in (await done(web, "ListTasks", asked))["tasks"]] == wanted
        query = {"historyLength": "1", "includeArtifacts": "true", "contextId": "c-0"}
        response = await web.client.get(f"{RPC}/v1/tasks", params=query, headers=VERSION)
        (last, first) = response.json()["tasks"]
        assert [text_of(last), text_of(first), len(last["history"])] == ["3", "1", 1]
        for wrong in (
            {"pageSize": 0},
            {"pageSize": 101},
            {"pageToken": "x"},
            {"pageToken": "9.", "pageSize": 1},
        ):
            assert (await refused(web, "ListTasks", wrong))[1] == "field_invalid"


async def test_the_history_of_a_task_has_at_most_the_wanted_length():
    """In the first frame of a stream too. No call has a negative length."""
    async with serving(answering("1", "2"), protocols=A2A) as web:
        for number, wanted in enumerate((0, 1)):
            asked = message(name=f"m-{number}", configuration={"historyLength": wanted})
            first, *_ = await streamed(web, "SendStreamingMessage", asked)
            assert len(first["task"].get("history", ())) == wanted
        negative = {"historyLength": -1}
        asked, name = message(name="m-2", configuration=negative), first["task"]["id"]
        for method, given in (
            ("SendMessage", asked),
            ("SendStreamingMessage", asked),
            ("GetTask", {"id": name, **negative}),
            ("ListTasks", negative),
        ):
            assert (await refused(web, method, given))[1] == "field_invalid"
        assert (await done(web, "ListTasks", {}))["totalSize"] == len("12")


async def test_tasks_of_another_profile_are_neither_listed_nor_found():
    """A context belongs to one profile. An id of a task with a number that no event has is one of no task."""
    profiles = [profile(answering("1"), name) for name in ("desk", "other")]
    async with serving(profiles=profiles, protocols=A2A) as web:
        ref, _, session_id = (await sent(web, contextId="c-1"))["id"].split("~")
        for params in ({"contextId": "c-1"}, {"contextId": "c-1", "includeArtifacts": True}, {"status": 99}):
            body = {"jsonrpc": "2.0", "id": 7, "method": "ListTasks", "params": params}
            told = (await web.post("/a2a/other", body, headers=VERSION)).json()
            assert told["result"]["tasks"] == []
        assert (await done(web, "ListTasks", {"status": 99}))["tasks"] == []
        for number in ("0", "9" * 20, "9" * 5_000):
            name = f"{ref}~{number}~{session_id}"
            assert (await refused(web, "GetTask", {"id": name}))[:2] == ("TASK_NOT_FOUND", "request_unknown")


async def test_an_answer_that_is_sent_again_answers_nothing_else():
    """At one moment and later: it is neither a steer nor the answer to the next question. Other parts are refused."""
    ask = calls(("ask_user", {"question": "Which one?"}))
    model = ScriptedModel([ask, evolve(ask, pause_seconds=0.1), says("Done.")])
    async with serving(model, protocols=A2A, session_tools=builtin("ask_user")) as web:
        task = await sent(web, name="m-1")
        answer = message("blue", name="m-2", taskId=task["id"])
        told = []

        async def send() -> None:
            told.append((await done(web, "SendMessage", answer))["task"]["id"])

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(send)
        await send()
        assert told == [task["id"]] * 4
        assert state_of(await done(web, "GetTask", {"id": task["id"]})) == "INPUT_REQUIRED"
        other = message("red", name="m-2", taskId=task["id"])
        assert (await refused(web, "SendMessage", other))[1] == "client_id_reused"
        last = await sent(web, "red", name="m-3", taskId=task["id"])
        assert (state_of(last), text_of(last)) == ("COMPLETED", "Done.")
        (session,) = web.host.supervisor.sessions(scope="local")
        said = [one for one in await session.messages() if isinstance(one, UserMessage)]
        assert len(said) == 1


async def test_a_session_that_is_deleted_while_tasks_are_listed_is_left_out(monkeypatch):
    """The others are listed with their artifacts."""
    async with serving(answering("1", "2"), protocols=A2A, store=MemoryStore()) as web:
        gone, there = [await sent(web, name=f"m-{number}", contextId=f"c-{number}") for number in range(2)]
        fold = a2a_routes._tasks_of_row  # noqa: SLF001 - the moment between the list and the tasks

        async def folded(call, row, quiet_since):
            tasks = await fold(call, row, quiet_since)
            if row.session_id == "c-0":
                await call.host.delete_session("c-0", call.principal, purge=True)
            return tasks

        monkeypatch.setattr(a2a_routes, "_tasks_of_row", folded)
        (listed,) = (await done(web, "ListTasks", {"includeArtifacts": True}))["tasks"]
        assert (listed["id"], text_of(listed)) == (there["id"], "2")
        assert listed["id"] != gone["id"]


@pytest.mark.parametrize(("quiet_ms", "folded"), [(-60_000, [2, 0, 1]), (60_000, [2, 2, 2])])
async def test_a_list_reads_only_changed_sessions(monkeypatch, quiet_ms, folded):
    """One that has changed a moment ago is read again, as another event may have the same time."""
    read: list[str] = []
    read_events = Host.read_events

    async def counted(host, session_id, *given):
        read.append(session_id)
        return await read_events(host, session_id, *given)

    monkeypatch.setattr(a2a_routes, "_QUIET_MS", quiet_ms)
    async with serving(ScriptedModel([says("1"), says("2"), says("3")]), protocols=A2A) as web:
        made = [(await sent(web, name=f"m-{number}", contextId=f"c-{number}"))["id"] for number in range(2)]
        counts = []
        for turn in range(3):
            if turn == 2:
                made.append((await sent(web, name="m-2", contextId="c-0"))["id"])
            with monkeypatch.context() as patch:
                patch.setattr(Host, "read_events", counted)
                read.clear()
                listed = (await done(web, "ListTasks", {}))["tasks"]
            counts.append(len(read))
            assert [one["id"] for one in listed] == made[::-1]
        assert counts == folded


async def test_a_list_looks_at_each_event_for_open_tasks_only():
    """All tasks for each event took time that grew with the square of the number of messages."""
    called: list[str] = []
    async with serving(answering(*"0123456789"), protocols=A2A) as web:
        for number in range(10):
            await sent(web, name=f"m-{number}", contextId="c-1")
        sys.setprofile(lambda frame, kind, _: called.append(frame.f_code.co_name) if kind == "call" else None)
        try:
            listed = await done(web, "ListTasks", {"contextId": "c-1"})
        finally:
            sys.setprofile(None)
    assert len(listed["tasks"]) == 10
    assert 10 < called.count("_is_over") < 100, "ten tasks with less than ten events each"


@pytest.mark.parametrize(("parts", "here"), [(1, 1), (400, 0)])
async def test_a_message_of_many_parts_is_read_in_a_thread(parts, here):
    """The library takes a fifth of a second for 60 KB of short parts. A short message is read at once."""
    called: list[str] = []
    async with serving(answering("Done."), protocols=A2A) as web:
        sys.setprofile(lambda frame, kind, _: called.append(frame.f_code.co_name) if kind == "call" else None)
        try:
            task = await sent(web, *["x"] * parts)
        finally:
            sys.setprofile(None)
    assert state_of(task) == "COMPLETED"
    assert called.count("_read_params") == here


async def test_a_structured_answer_is_a_data_part():
    """Its text is not streamed, because it is no text for people."""
    form = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    async with serving(answering('{"n": 3}', '{"n": 4}'), protocols=A2A, session_response_format=form) as web:
        assert (await sent(web))["artifacts"][0]["parts"] == [{"data": {"n": 3}}]
        frames = await streamed(web, "SendStreamingMessage", message(name="m-2"))
        task = await done(web, "GetTask", {"id": frames[0]["task"]["id"]})
        assert task["artifacts"][0]["parts"] == [{"data": {"n": 4}}]
        assert "artifactUpdate" not in frames[1] or "data" in str(frames[1])


@pytest.mark.protocol(58)
async def test_text_that_is_taken_back_is_replaced():
    """P-058, of A2A: the artifact is sent again without it."""
    broken = Turn(text=("Wro", "ng"), error=Overloaded("busy"), pause_seconds=0.05)
    async with serving(ScriptedModel([broken, says("Right.")]), protocols=A2A) as web:
        frames = await streamed(web, "SendStreamingMessage", message())
        assert [built(frames), "Wro" in str(frames)] == ["Right.", True]
        assert text_of(await done(web, "GetTask", {"id": frames[0]["task"]["id"]})) == "Right."


def built(frames: list[dict[str, Any]]) -> str:
    """The text that a client of a stream has in the end."""
    text = text_of(frames[0].get("task", {}))
    for frame in frames:
        update = frame.get("artifactUpdate")
        if update is not None:
            more = "".join([part["text"] for part in update["artifact"]["parts"]])
            text = text + more if update["append"] else more
    return text


@pytest.mark.protocol(59)
async def test_a_stream_that_the_server_ends_has_one_terminal_frame_and_its_task_goes_on():
    """P-059, of A2A: an error, because the task has not ended; after the restart it can be followed again."""
    store = MemoryStore(lease_ms=0)
    async with serving(ScriptedModel([ENDLESS]), protocols=A2A, store=store, drain_timeout=0.05) as web:
        body = {"jsonrpc": "2.0", "id": 7, "method": "SendStreamingMessage", "params": message()}
        said = ""
        async with web.client.stream("POST", RPC, json=body, headers=VERSION) as response:
            async for piece in response.aiter_text():
                said += piece
                if "artifactUpdate" in piece:
                    web.stop.set()
        frames = frames_of(said)
        assert frames[-1]["error"]["data"][0]["metadata"]["code"] == "draining"
        assert said.rstrip().split("\n")[-2] == "event: error"
    async with serving(ScriptedModel([SLOW]), protocols=A2A, store=store) as web:
        rest = await streamed(web, "SubscribeToTask", {"id": frames[0]["task"]["id"]})
        assert rest[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert built(rest) == "".join(SLOW.text)


@pytest.mark.protocol(57)
async def test_a_critical_plugin_refuses_in_the_shape_of_each_binding():
    """P-057, of A2A: no session exists. A plugin that answers itself is a message of the agent."""

    async def judge(ctx: Any) -> Any:
        if ctx.request.message == "free":
            return HandledResponse(body={"n": 1})
        raise RequestRefused(402, "unpaid", "pay first")

    guard = plugin("guard", critical=True, intercept_chat_request=judge)
    async with serving(answering("One."), guard, protocols=A2A) as web:
        assert (await refused(web, "SendMessage", message()))[1:] == ("unpaid", "pay first")
        response = await web.post(f"{RPC}/v1/message:send", message(), headers=VERSION)
        error = response.json()["error"]
        assert (response.status_code, error["message"]) == (402, "pay first")
        assert error["details"][0]["metadata"]["code"] == "unpaid"
        told = (await done(web, "SendMessage", message("free")))["message"]
        assert told["parts"] == [{"data": {"n": 1}}]
        assert (await streamed(web, "SendStreamingMessage", message("free")))[0]["message"]["parts"] == told[
            "parts"
        ]
        assert web.host.supervisor.sessions(scope="local") == ()


async def test_an_answer_whose_client_left_before_it_was_applied_can_be_sent_again():
    """It left while a plugin of the host judged the answer."""
    judged, left = trio.Event(), trio.Event()

    async def judge(ctx: Any) -> None:
        if ctx.kind == "respond" and not judged.is_set():
            judged.set()
            try:
                await trio.sleep_forever()
            finally:
                left.set()

    guard = plugin("guard", intercept_chat_request=judge)
    model = ScriptedModel([calls(("ask_user", {"question": "Which one?"})), says("Done.")])
    async with serving(model, guard, protocols=A2A, session_tools=builtin("ask_user")) as web:
        asked = await sent(web)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(sent, web, "blue", name="m-2", taskId=asked["id"]))
            await judged.wait()
            nursery.cancel_scope.cancel()
        await left.wait()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert state_of(await sent(web, "blue", name="m-2", taskId=asked["id"])) == "COMPLETED"


# --- bad input


async def test_what_a_client_cannot_have_is_refused_in_the_words_of_the_protocol():
    """11.13: an unknown task, another version, a part that we do not speak; nothing was started."""
    free = Limits(messages_per_minute=1_000, messages_burst=100)
    async with serving(answering("One."), protocols=A2A, limits=free) as web:
        for params, wanted in (
            (message({"url": "https://x.example/a.png"}), ("CONTENT_TYPE_NOT_SUPPORTED", "part_unsupported")),
            (
                message({"raw": "AAAA", "mediaType": "image/png"}),
                ("CONTENT_TYPE_NOT_SUPPORTED", "part_unsupported"),
            ),
            (message({"data": {"a": 1}}), ("CONTENT_TYPE_NOT_SUPPORTED", "part_unsupported")),
            (message(taskId="x"), ("TASK_NOT_FOUND", "request_unknown")),
            (message(taskId="x~y~z"), ("TASK_NOT_FOUND", "request_unknown")),
            (message(name="a b"), ("INVALID_PARAMS", "id_invalid")),
            (message(contextId="a/b"), ("INVALID_PARAMS", "id_invalid")),
            (message(role="ROLE_AGENT"), ("INVALID_PARAMS", "field_invalid")),
            (message(name=""), ("INVALID_PARAMS", "field_invalid")),
            ({}, ("INVALID_PARAMS", "field_invalid")),
            (7, ("INVALID_PARAMS", "field_invalid")),
            ([], ("INVALID_PARAMS", "field_invalid")),
        ):
            for method in ("SendMessage", "SendStreamingMessage"):
                assert (await refused(web, method, params))[:2] == wanted, params
        for params, words in (
            ({}, "params are not a SendMessageRequest: message.message_id: Field is required."),
            ({"message": {"parts": "x"}}, "repeated field parts must be in []"),
            ({"message": {"parts": f"\x1b[2J\u202e{'x' * 100_000}"}}, "must be in [] which is ?[2J?xxx"),
            (7, "a value has the wrong type"),
        ):
            told = (await refused(web, "SendMessage", params))[2]
            assert words in told
            assert "{" not in told
            assert len(told) < 1_100
        for method in ("GetTask", "CancelTask", "SubscribeToTask"):
            for name in ("x", "~~", "a~1~b", "a~-1~b", f"a~{'9' * 99}~b", "a~1~\ud800", "é" * 200):
                body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"id": name}}
                told = (
                    await web.client.post(
                        RPC, content=json.dumps(body), headers={**VERSION, "content-type": "application/json"}
                    )
                ).json()
                assert told["error"]["code"] in (-32001, -32602, -32700), name
        for version in ("0.3", "2.0", "x", ""):
            for path in (RPC, f"{RPC}/v1/message:send"):
                body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", **message(), "params": message()}
                error = (await web.post(path, body, headers={"a2a-version": version})).json()["error"]
                details = error.get("data") or error["details"]
                assert details[0]["reason"] == "VERSION_NOT_SUPPORTED"
        assert web.host.supervisor.sessions(scope="local") == ()


@pytest.mark.protocol(36)
@pytest.mark.protocol(37)
async def test_a_push_configuration_is_refused_and_nothing_is_kept():
    """P-036 and P-037, until there is push: each call of it, over both bindings, and with a message."""
    config = {"taskPushNotificationConfig": {"url": "http://127.0.0.1:1/", "token": "secret"}}
    async with serving(answering("One."), protocols=A2A) as web:
        for name in ("Create", "Get", "List", "Delete"):
            method = f"{name}TaskPushNotificationConfig{'s' * (name == 'List')}"
            assert (await refused(web, method, {"taskId": "x", "url": "http://x"}))[
                0
            ] == "PUSH_NOTIFICATION_NOT_SUPPORTED"
        for method, path in (("POST", ""), ("GET", ""), ("GET", "/c1"), ("DELETE", "/c1")):
            said = {"json": config} if method == "POST" else {}
            response = await web.client.request(
                method, f"{RPC}/v1/tasks/x/pushNotificationConfigs{path}", headers=VERSION, **said
            )
            detail = response.json()["error"]["details"][0]
            assert (response.status_code, detail["reason"]) == (400, "PUSH_NOTIFICATION_NOT_SUPPORTED")
        for method in ("SendMessage", "SendStreamingMessage"):
            refusal = await refused(web, method, message(configuration=config))
            assert refusal[0] == "PUSH_NOTIFICATION_NOT_SUPPORTED"
        assert web.host.supervisor.sessions(scope="local") == ()


@pytest.mark.parametrize(
    ("body", "number"),
    [
        (b"", -32600),
        (b"x", -32700),
        (b"[]", -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "No"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 7}', -32601),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "GetTask"}', -32600),
        (b'{"jsonrpc": "2.0", "id": [1], "method": "GetTask"}', -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "GetTask"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "\\ud800"}}', -32700),
        (b"[" * 10_000, -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": 1e999}}', -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": 1}}', -32602),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"messageId": "m",'
            b' "role": "ROLE_USER", "parts": [{"data": 1%s}]}}}' % (b"0" * 400),
            -32602,
        ),
    ],
)
async def test_a_body_that_is_no_request_has_the_number_of_json_rpc(body, number):
    """Nothing is half read."""
    async with serving(answering(), protocols=A2A) as web:
        head = {**VERSION, "content-type": "application/json"}
        error = (await web.client.post(RPC, content=body, headers=head)).json()["error"]
        assert error["code"] == number, error


async def test_a_body_that_is_too_large_and_a_trace_that_is_none():
    """The first is refused as it comes, in the shape of its binding; the second is dropped, and the message goes on."""
    async with serving(answering("One."), protocols=A2A, limits=Limits(max_body_bytes=2_000)) as web:
        huge = message("x" * 5_000)
        for path, body in (
            (RPC, {"jsonrpc": "2.0", "id": 1, "params": huge}),
            (f"{RPC}/v1/message:send", huge),
        ):
            response = await web.post(path, body, headers=VERSION)
            error = response.json()["error"]
            (detail,) = error.get("data") or error["details"]
            assert (response.status_code, detail["metadata"]["code"]) == (413, "too_large")
        head = {**VERSION, "traceparent": "ff-0-0-0", "tracestate": "x" * 600}
        response = await web.post(f"{RPC}/v1/message:send", message(), headers=head)
        assert text_of(response.json()["task"]) == "One."


async def test_a_body_of_many_values_is_read_beside_the_loop():
    """A megabyte of numbers in a data part is refused, and holds nobody up."""
    async with serving(answering("One."), protocols=A2A, limits=Limits(max_body_bytes=1 << 20)) as web:
        body = {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "SendMessage",
            "params": message({"data": [0] * 300_000}),
        }
        longest = 0.0
        async with trio.open_nursery() as nursery:

            async def tick() -> None:
                nonlocal longest
                while True:
                    before = trio.current_time()
                    await trio.sleep(0.001)
                    longest = max(longest, trio.current_time() - before)

            nursery.start_soon(tick)
            told = (await web.post(RPC, body, headers=VERSION, timeout=20)).json()
            nursery.cancel_scope.cancel()
        assert told["error"]["data"][0]["metadata"]["code"] == "part_unsupported"
        assert longest < 0.5


def tokens(*names: str) -> Tokens:
    return Tokens(
        [
            TokenEntry(digest=hashlib.sha256(name.encode()).digest(), tenant_id="acme", user_id=name)
            for name in names
        ]
    )


async def test_tasks_of_others_are_unknown():
    """Byte for byte as one that there is not, but for the id; so is one of another profile."""
    profiles = [profile(answering("One."), "desk"), profile(answering("Two."), "other")]
    async with serving(
        protocols=A2A, auth=tokens("ann", "bob"), profiles=profiles, store=MemoryStore()
    ) as web:
        web.client.headers["authorization"] = "Bearer ann"
        task = await sent(web)
        none = task["id"].replace("~cid-", "~cid-0")
        web.client.headers["authorization"] = "Bearer bob"
        for method in ("GetTask", "CancelTask", "SubscribeToTask"):
            taken, missing = await rpc(web, method, {"id": task["id"]}), await rpc(web, method, {"id": none})
            assert taken == missing
        steer = await rpc(web, "SendMessage", message(name="m-2", taskId=task["id"]))
        assert steer == await rpc(web, "SendMessage", message(name="m-2", taskId=none))
        for path in ("", ":cancel", ":subscribe"):
            verb = web.client.get if not path else web.client.post
            answers = [
                (
                    await verb(
                        f"{RPC}/v1/tasks/{name}{path}",
                        headers={**VERSION, "content-type": "application/json"},
                    )
                ).content
                for name in (task["id"], none)
            ]
            assert answers[0] == answers[1]
        assert (await done(web, "ListTasks", {}))["tasks"] == []
        assert (await done(web, "ListTasks", {"contextId": task["contextId"]}))["tasks"] == []
        web.client.headers["authorization"] = "Bearer ann"
        response = await web.client.get(f"/a2a/other/v1/tasks/{task['id']}", headers=VERSION)
        assert response.status_code == 404
        assert await done(web, "GetTask", {"id": task["id"]}) == task


@pytest.mark.protocol(38)
async def test_the_card_without_a_token_shows_public_profiles_alone():
    """P-038: a private one is as one that there is not; no path, key or private name stands in any."""
    secret = profile(answering("One."), "secret-lab", system_prompt="the key is sk-1")
    desk = profile(answering("One."))
    object.__setattr__(desk, "public", True)
    async with serving(protocols=A2A, auth=tokens("ann"), profiles=[desk, secret]) as web:
        cards = [
            (await web.client.get(path)).json()
            for path in ("/.well-known/agent-card.json", "/a2a/desk/.well-known/agent-card.json")
        ]
        assert cards[0] == cards[1]
        ParseDict(cards[0], PB2.AgentCard())
        assert [one["url"] for one in cards[0]["supportedInterfaces"]] == [
            f"{web.client.base_url}/a2a/desk",
            f"{web.client.base_url}/a2a/desk/v1",
        ]
        assert not [word for word in ("secret", "sk-", "/work", "/home", "acme") if word in json.dumps(cards)]
        private = await web.client.get("/a2a/secret-lab/.well-known/agent-card.json")
        none = await web.client.get("/a2a/none/.well-known/agent-card.json")
        assert (private.status_code, private.content) == (401, none.content)
        bad = {"authorization": "Bearer eve"}
        assert (
            await web.client.get("/a2a/secret-lab/.well-known/agent-card.json", headers=bad)
        ).status_code == 401
        ann = {"authorization": "Bearer ann", **VERSION}
        told = (await web.client.get("/a2a/secret-lab/.well-known/agent-card.json", headers=ann)).json()
        assert told["name"] == "secret-lab"
        shown = await web.client.get("/a2a/secret-lab/v1/extendedAgentCard", headers=ann)
        assert shown.json() == told
        assert (await web.client.get("/a2a/none/.well-known/agent-card.json", headers=ann)).status_code == 404
        assert (await web.post(RPC, {}, headers=VERSION)).status_code == 401


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("a%2Fb/.well-known/agent-card.json", 422, "id_invalid"),
        ("desk/v1/tasks/a%2Fb", 422, "id_invalid"),
        ("desk/v1/tasks/a%2Fb:subscribe", 422, "id_invalid"),
        ("desk/v1/nowhere", 404, "route_unknown"),
        ("desk/", 404, "route_unknown"),
    ],
)
async def test_an_unknown_path_and_one_with_an_encoded_slash_are_refused_in_the_shape_of_rest(
    path, status, code
):
    """Leaving the server compares its answers with `/openapi.json`."""
    async with serving(answering("One."), protocols=A2A, base_path="/agents", auth=by_header) as web:
        refused = await web.client.get(f"/agents/a2a/{path}", headers={"authorization": "Bearer acme/ann"})
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (status, status)
        assert error["details"][0]["metadata"]["code"] == code
        stranger = await web.client.get("/agents/a2a/desk/v1/nowhere")
        assert stranger.json()["error"]["details"][0]["metadata"]["code"] == "unauthorized"


async def test_behind_a_proxy_the_card_has_the_public_address():
    """A client would send its token in plain text to the `http` address at which the proxy calls."""
    options = {"public_url": "https://agents.example/", "allowed_hosts": ["agents.example"]}
    async with serving(answering("One."), protocols=A2A, **options) as web:
        head = {**VERSION, "host": "agents.example"}
        for path in ("/.well-known/agent-card.json", f"{RPC}/v1/extendedAgentCard"):
            card = (await web.client.get(path, headers=head)).json()
            urls = [one["url"] for one in card["supportedInterfaces"]]
            assert urls == ["https://agents.example/a2a/desk", "https://agents.example/a2a/desk/v1"]


async def test_the_guard_of_the_server_holds_here_too():
    """8.11: Host, Origin, content type; messages are counted as messages, on each binding, and other calls as calls."""
    limits = Limits(messages_per_minute=1, messages_burst=2)
    async with serving(answering("One.", "Two."), protocols=A2A, limits=limits) as web:
        body = {"jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": {"id": "x"}}
        for head, status in (
            ({"host": "evil.example"}, 403),
            ({"origin": "https://evil.example"}, 403),
            ({"content-type": "text/plain"}, 415),
        ):
            response = await web.post(RPC, body, headers={**VERSION, **head})
            assert (response.status_code, response.json()["jsonrpc"]) == (status, "2.0")
        await sent(web)
        await web.post(f"{RPC}/v1/message:send", message(name="m-2"), headers=VERSION)
        for _ in range(5):
            assert (await refused(web, "GetTask", {"id": "x"}))[0] == "TASK_NOT_FOUND"
        response = await web.post(RPC, {**body, "method": "SendMessage"}, headers=VERSION)
        assert (response.status_code, "retry-after" in response.headers) == (429, True)


async def test_the_protocol_is_off_unless_it_is_named():
    """Nothing of it is served, not even its card."""
    async with serving(answering("One.")) as web:
        assert (await web.client.get("/.well-known/agent-card.json")).status_code == 404
        assert (await web.post(RPC, {}, headers=VERSION)).status_code == 404


async def test_without_its_library_the_protocol_is_refused_with_the_remedy():
    """The extra is optional: nothing of it is loaded before an application names the protocol."""
    code = """
import sys, agentrail, agentrail.gateway.app as app
from agentrail.errors import OptionError
assert not [name for name in sys.modules if name.startswith(("a2a", "google", "pydantic"))]
sys.modules["a2a"] = None
print(*app.faults_of_own_options({"protocols": ("a2a",)}))
"""
    found = await trio.run_process([sys.executable, "-c", code], capture_stdout=True)
    assert b"protocols has 'a2a', which needs a2a.types: pip install" in found.stdout
