"""Clients of A2A that Hypothesis and chance make up: no request breaks a server, and no frame the official types."""

import json
import os
from contextlib import suppress
from random import Random
from typing import Any

import pytest
import trio
from google.protobuf.json_format import Error as BadJson, MessageToDict, ParseDict
from hypothesis import given, settings, strategies as st

from agentrail import events
from agentrail.core.protocol.effects import Publish
from agentrail.errors import SessionDown, SessionNotFound
from agentrail.host.quotas import Limits
from agentrail.plugins import HumanApproval
from agentrail.protocols.a2a import A2A, A2aTask, decide_answers, read_parts, settled_task, show_task
from agentrail.protocols.decisions import WireRefused
from agentrail.protocols.response_state import Bridged, Response, resume_response
from agentrail.stores.memory import MemoryStore
from agentrail.testing.tools import RecordingTool
from agentrail.tools import builtin
from property_tests.protocols.test_openai_clients import json_values, talking
from tests.core.drawn_lives import steps
from tests.gateway.protocols.test_a2a_calls import RPC, VERSION, built, frames_of, text_of
from tests.gateway.web import Web, serving
from tests.protocols.test_a2a import PB2, check_frames
from tests.protocols.test_ai_ui_messages import STATUS
from tests.runtime.rig import on_bounded_time

FREE = Limits(messages_per_minute=100_000, messages_burst=1_000, calls_per_minute=100_000, calls_burst=10_000)
TASK = A2aTask(id="p~1~s", context_id="s", at_ms=0)


@given(st.integers(0, 2**32))
def test_each_frame_of_a_random_life_is_as_the_official_types_say(seed):
    """A stream for each part of a cycle, one end each; what its client has is the text of the task."""
    state, frames = Bridged(Response(), TASK), []
    for _, _, effects in steps(seed, 90, is_new=True):
        for event in [effect.event for effect in effects if isinstance(effect, Publish)]:
            if state.response.end is not None:
                frames = [*frames, *A2A.close(state)]
                check_frames(frames)
                task = settled_task(state)
                ParseDict(show_task(task), PB2.Task())
                if task.state == "COMPLETED":
                    whole = "".join([part.get("text", "") for part in task.parts])
                    assert built(frames).startswith(whole) or built(frames) == whole
                if isinstance(event, events.AgentStart):
                    state, frames = Bridged(Response(), TASK), []
                else:
                    # As a server does: the first frame has what was said before.
                    frames = [{"task": show_task(task)}]
                    state, begun = A2A.write(task, resume_response(state.response, "r"))
                    frames += begun
            state, more = A2A.fold(state, event)
            frames += more


parts = st.fixed_dictionaries(
    {},
    optional={
        "text": st.sampled_from(["Hi", "yes", ""]) | json_values,
        "data": st.fixed_dictionaries(
            {},
            optional={
                "approval_id": st.sampled_from(["a1", "a2"]) | json_values,
                "approved": st.booleans() | json_values,
                "ref": st.sampled_from(["q1", "k1", "x"]) | json_values,
                "response": json_values,
                "text": json_values,
                "arguments": json_values,
            },
        )
        | json_values,
        "url": st.just("https://x.example") | json_values,
        "raw": json_values,
    },
)
messages = st.fixed_dictionaries(
    {},
    optional={
        "messageId": st.just("m") | json_values,
        "role": st.sampled_from(["ROLE_USER", "ROLE_AGENT", 1]) | json_values,
        "parts": st.lists(parts | json_values, max_size=3) | json_values,
        "taskId": st.just("t") | json_values,
        "contextId": json_values,
        "metadata": json_values,
    },
)


@given(
    st.fixed_dictionaries({"message": messages}, optional={"configuration": json_values, "x": json_values})
)
def test_whatever_the_official_type_takes_is_decided_or_refused(sent):
    """Nothing raises but a refusal; a decision is for something that waits, and only a data part approves."""
    try:
        params = MessageToDict(ParseDict(sent, PB2.SendMessageRequest(), ignore_unknown_fields=True))
    except (BadJson, TypeError, ArithmeticError):
        return
    if not {"messageId", "role", "parts"} <= params.get("message", {}).keys():
        return
    try:
        read = read_parts(params)
        decisions = decide_answers(*read, STATUS)
    except WireRefused:
        return
    assert decisions
    approving = [one for one in decisions if hasattr(one, "approval_id")]
    assert len(approving) == sum("approval_id" in one for one in read[1])


# --- over real connections, cut anywhere


class Callers:
    """Clients that talk at once, over both bindings."""

    def __init__(self, web: Web, random: Random) -> None:
        self.web = web
        self.random = random
        self.tasks: list[dict[str, Any]] = []
        self.sent = 0

    def message(self) -> dict[str, Any]:
        """The next message: mostly a right one, to a task, a context, or nothing."""
        draw = self.random
        self.sent += 1
        parts: list[Any] = [{"text": draw.choice(["Hi", "yes", "no"])}]
        message: dict[str, Any] = {
            "messageId": f"m{draw.choice([self.sent, 1])}",
            "role": "ROLE_USER",
            "parts": parts,
        }
        task = draw.choice([None, *self.tasks[-3:]])
        if task is not None and draw.random() < 0.8:
            message["taskId"] = task["id"]
            asked = task["status"].get("message", {}).get("parts", ())
            for facts in [part["data"] for part in asked if "data" in part]:
                yes = (
                    {"approval_id": facts["approval_id"], "approved": draw.random() < 0.5}
                    if "approval_id" in facts
                    else {"ref": facts["ref"], "response": "blue"}
                )
                parts.append({"data": yes})
            if len(parts) > 1 and draw.random() < 0.9:
                parts.pop(0)
        elif draw.random() < 0.6:
            message["contextId"] = draw.choice(["c1", "c2"])
        if draw.random() < 0.15:
            message[draw.choice([*message, "metadata"])] = draw.choice(
                [None, 0, "x", [], {}, [[]], {"a": 1}, 1e300]
            )
        configuration = {"returnImmediately": draw.random() < 0.4, "historyLength": draw.choice([0, 1, 9])}
        return {"message": message, "configuration": configuration}

    def call(self) -> tuple[str, Any]:
        """The next call."""
        draw = self.random
        task = draw.choice([{"id": "none~1~c1"}, *self.tasks])
        return draw.choice(
            [
                *[(draw.choice(["SendMessage", "SendStreamingMessage"]), self.message()) for _ in range(6)],
                ("GetTask", {"id": task["id"]}),
                ("CancelTask", {"id": task["id"]}),
                ("SubscribeToTask", {"id": task["id"]}),
                ("ListTasks", {"pageSize": draw.choice([0, 1, 3]), "includeArtifacts": True}),
                (
                    draw.choice(["Nothing", "GetTask", ""]),
                    draw.choice([None, 7, [], {"id": {}}, {"id": "\u0000"}]),
                ),
            ]
        )

    async def round(self) -> None:
        """Make a call over one of the bindings, and read its answer: whole, or up to a cut."""
        draw = self.random
        name, params = self.call()
        body: Any = {
            "jsonrpc": "2.0",
            "id": draw.choice([1, "x", None, [], 1.5]),
            "method": name,
            "params": params,
        }
        method, path = "POST", RPC
        if draw.random() < 0.4 and isinstance(params, dict):
            method, path, body = self.rest(name, params)
        cut_after = draw.choice([None, None, None, draw.randrange(0, 800)])
        said = b""
        given: dict[str, Any] = {"json": body} if method == "POST" else {}
        # A message waits behind a cycle that waits for people, and so may its client.
        with trio.move_on_after(2) as scope:
            async with self.web.client.stream(method, path, headers=VERSION, timeout=9, **given) as response:
                async for piece in response.aiter_raw():
                    said += piece
                    if cut_after is not None and len(said) >= cut_after:
                        scope.cancel()
        if not scope.cancelled_caught and cut_after is None:
            self.check(response, said.decode())

    def rest(self, name: str, params: dict[str, Any]) -> tuple[str, str, Any]:
        """The same over REST."""
        path = f"{RPC}/v1"
        named = f"{path}/tasks/{params.get('id', 'x') or 'x'}"
        match name:
            case "SendMessage" | "SendStreamingMessage":
                return "POST", f"{path}/message:{'send' if name == 'SendMessage' else 'stream'}", params
            case "CancelTask" | "SubscribeToTask":
                return (
                    "POST",
                    f"{named}:{name.removesuffix('Task').removesuffix('ToTask').removesuffix('To').lower()}",
                    {},
                )
            case "ListTasks":
                return "GET", f"{path}/tasks?pageSize={params['pageSize']}", None
            case _:
                return "GET", f"{path}/tasks/x", None

    def check(self, response: Any, said: str) -> None:
        """An answer is as the official types say; what failed is no fault of ours."""
        assert response.status_code != 500, said
        if response.headers["content-type"] == "text/event-stream":
            frames = frames_of(said)
            self.tasks += [frame["task"] for frame in frames if "task" in frame]
            return
        told = json.loads(said)
        told = told.get("result", told)
        if "error" in told:
            error = told["error"]
            detail = (error.get("details") or error["data"])[0]
            assert detail["metadata"]["code"] != "internal"
        elif "tasks" in told:
            ParseDict(told, PB2.ListTasksResponse())
            self.tasks += told["tasks"]
        else:
            task = told.get("task", told)
            ParseDict(task, PB2.Task())
            assert text_of(task) is not None
            self.tasks.append(task)


@pytest.mark.protocol(64)
@on_bounded_time
@pytest.mark.parametrize("seed", range(4))
async def test_random_clients_do_not_break_a_server(seed):
    """Fifty rounds each, so 200 in CI, and twice as many at night. Then the sessions are as their journals say.

    By hand: `A2A_ROUNDS=2000 A2A_SEED=7 pytest -o faulthandler_timeout=0` with this file.
    """
    random = Random(f"{os.environ.get('A2A_SEED', '1')} {seed}")  # noqa: S311 - for a fuzzer
    rounds = int(os.environ.get("A2A_ROUNDS", min(max(settings().max_examples, 50), 100) * 4)) // 4
    options: dict[str, Any] = {
        "session_tools": [RecordingTool(name="shell"), *builtin("ask_user")],
        "session_plugins": [HumanApproval],
        "session_max_retries": 1,
        "limits": FREE,
        "protocols": ("a2a",),
    }
    async with serving(talking(random), store=MemoryStore(), **options) as web:
        clients = Callers(web, random)

        async def talk(count: int) -> None:
            for _ in range(count):
                await clients.round()

        with trio.fail_after(30 + rounds):
            async with trio.open_nursery() as nursery:
                for number in range(4):
                    nursery.start_soon(talk, rounds // 4 + (number < rounds % 4))
            for session in web.host.supervisor.sessions(scope="local"):
                with suppress(SessionDown, SessionNotFound):
                    await session.abort("the end", clear_queue=True)  # or the next message is at work
                    stored = await web.host.supervisor.stored_state(
                        session.session_id, scope="local", plugins=[HumanApproval]
                    )
                    assert stored.messages == await session.messages()
