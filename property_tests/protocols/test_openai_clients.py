"""Clients of the OpenAI API that Hypothesis and chance make up: no request breaks a server, and no frame the official types."""

import json
import os
from contextlib import suppress
from random import Random
from typing import Any

import httpx
import pytest
import trio
from hypothesis import given, settings, strategies as st
from openai.types.chat import ChatCompletion
from openai.types.responses import Response as OfficialResponse

from agentrail import events
from agentrail.core.protocol.effects import Publish
from agentrail.errors import Authentication, Overloaded, SessionDown, SessionNotFound
from agentrail.host.quotas import Limits
from agentrail.plugins import HumanApproval
from agentrail.protocols.decisions import WireRefused
from agentrail.protocols.openai_chat import CHAT, Completion, decide_chat, read_chat
from agentrail.protocols.openai_responses import RESPONSES, Responding, decide_response, read_response_request
from agentrail.protocols.response_state import Bridged, Response, resume_response
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, Turn, calls, fails, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools import builtin
from agentrail.wire.operations import AnswerBody
from tests.core.drawn_lives import steps
from tests.gateway.protocols.test_openai_response_calls import SHOW, events_of
from tests.gateway.web import Web, serving
from tests.protocols.test_ai_ui_messages import STATUS
from tests.protocols.test_openai_chat import TOOL, called, check_frames, result, user
from tests.protocols.test_openai_responses import check_events

PATH = "/v1/chat/completions"
FREE = Limits(messages_per_minute=100_000, messages_burst=1_000)


@given(st.integers(0, 2**32), st.booleans())
def test_each_frame_of_a_random_life_is_as_the_official_types_say(seed, is_nameless):
    """A response for each part of a cycle, taken up after each pause; one end each."""
    own = Completion(
        id="chatcmpl-1",
        model="desk",
        created=1,
        session_id="s-1" if is_nameless else "",
        includes_usage=True,
        shows_reasoning=True,
        shows_tools=True,
    )
    for frames in read_as(CHAT, own, seed):
        check_frames(frames)


@given(st.integers(0, 2**32), st.booleans())
def test_each_event_of_a_random_life_is_as_the_official_types_say(seed, is_nameless):
    """Of Responses: numbers rise, and each item is opened once."""
    own = Responding(id="resp_s_1", model="desk", created=1, session_id="s", is_nameless=is_nameless)
    for frames in read_as(RESPONSES, own, seed):
        check_events(frames)


def read_as(bridge, own, seed):
    """The frames of each response of a random life: one for each part of a cycle."""
    state, frames = Bridged(Response(), own), []
    for _, _, effects in steps(seed, 90, is_new=True):
        for event in [effect.event for effect in effects if isinstance(effect, Publish)]:
            if state.response.end is not None:
                yield [*frames, *bridge.close(state)]
                if isinstance(event, events.AgentStart):
                    state, frames = Bridged(Response(), own), []
                else:
                    resumed = resume_response(state.response, state.response.response_id)
                    state, begun = bridge.write(own, resumed)
                    frames = [*begun]
            state, more = bridge.fold(state, event)
            frames += more


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
texts = st.sampled_from(["Hi", "yes", "no, never", ""]) | json_values
ids = st.sampled_from(["c1", "c3", "c3--s-1", "x"]) | json_values
parts = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["text", "image_url", "refusal", "input_audio"]) | json_values,
        "text": texts,
        "image_url": st.just({"url": "data:image/png;base64,AAAA"}) | json_values,
    },
)
wire_calls = st.fixed_dictionaries(
    {},
    optional={
        "id": ids,
        "function": st.fixed_dictionaries({}, optional={"name": texts, "arguments": texts}) | json_values,
    },
)
messages = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", "system", "developer", "tool"]) | json_values,
        "content": texts | st.lists(parts | json_values, max_size=3),
        "tool_call_id": ids,
        "tool_calls": st.lists(wire_calls | json_values, max_size=3) | json_values,
    },
)
SETTINGS = ["temperature", "max_tokens", "stop", "reasoning", "reasoning_effort", "response_format", "text"]
PARAMETERS = [*SETTINGS, "n", "stream", "tools", "tool_choice", "metadata", "user", "seed", "logprobs"]
requests = st.fixed_dictionaries(
    {"model": st.just("desk"), "messages": st.lists(messages | json_values, max_size=5) | json_values},
    optional={
        **dict.fromkeys(PARAMETERS, json_values),
        "tools": st.lists(st.just(TOOL) | json_values, max_size=3),
    },
)


@given(requests, st.booleans())
def test_whatever_a_client_sends_is_planned_or_refused(sent, has_session):
    """Nothing raises but a refusal; a plan for a session answers only what waits there."""
    try:
        asked = read_chat(sent)
        plan = decide_chat(asked, STATUS if has_session else None, asked.messages[:1])
    except WireRefused:
        return
    assert not plan.decisions or has_session
    assert plan.decisions or plan.words or plan.goes_on or asked.messages[-1].content == ()
    waits = {"a1", "q1", "k1"}
    for decision in plan.decisions:
        assert getattr(decision, "approval_id", None) in waits or getattr(decision, "ref", None) in waits


wire_items = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["message", "function_call", "function_call_output", "mcp_approval_response"])
        | json_values,
        "role": st.sampled_from(["user", "assistant", "system"]) | json_values,
        "content": texts | st.lists(parts | json_values, max_size=3),
        "call_id": ids,
        "output": texts,
        "name": texts,
        "arguments": texts,
        "approval_request_id": st.sampled_from(["a1", "a2"]) | json_values,
        "approve": json_values,
    },
)
inputs = st.fixed_dictionaries(
    {"model": st.just("desk"), "input": st.lists(wire_items | json_values, max_size=5) | json_values},
    optional={
        **dict.fromkeys(PARAMETERS, json_values),
        **dict.fromkeys(["instructions", "store", "background"], json_values),
        "conversation": st.sampled_from(["s", {"id": "s"}]) | json_values,
        "previous_response_id": st.just("resp_s_1") | json_values,
    },
)


@given(inputs, st.booleans())
def test_whatever_is_an_input_is_planned_or_refused(sent, has_session):
    """Nothing raises but a refusal; results are for calls that wait, and only a decision decides."""
    try:
        asked = read_response_request(sent)
        plan = decide_response(asked, STATUS if has_session else None, asked.messages[:1])
    except WireRefused:
        return
    assert not plan.decisions or has_session
    assert {one.ref for one in plan.decisions if isinstance(one, AnswerBody)} <= {"k1"}
    assert len(plan.decisions) == len(asked.verdicts) + len(asked.results)


# --- over real connections, cut anywhere


class Clients:
    """Clients that talk at once, each with conversations of its own."""

    def __init__(self, web: Web, random: Random) -> None:
        self.web = web
        self.random = random
        self.pasts: dict[str | None, list[Any]] = {None: [], "c1": [], "c2": []}
        self.statuses: set[int] = set()
        self.responses: list[dict[str, Any]] = []

    def request(self) -> tuple[str | None, dict[str, Any]]:
        """The next request: mostly a right one, behind what was said before, or behind what never was."""
        draw = self.random
        session = draw.choice([None, None, "c1", "c2"])
        past = draw.choice([self.pasts[session], [], [user("a"), called("x", "y"), result("x")]])
        news: list[Any] = [user(draw.choice(["Hi", "yes", "no", "yes, but later"]))]
        if past and past[-1].get("tool_calls"):
            owed = [result(call["id"]) for call in past[-1]["tool_calls"]]
            news = draw.choice([owed, owed[:1], [*owed, *news], news])
        body: dict[str, Any] = {"model": "desk", "messages": [*past, *news], "stream": draw.random() < 0.6}
        if draw.random() < 0.7:
            body["tools"] = [TOOL]
        if draw.random() < 0.3:
            name = draw.choice([*PARAMETERS, "messages", "model"])
            body[name] = draw.choice([None, 0, 1, "x", [], {}, [[]], {"a": 1}, True, 1e300])
        return session, body

    def input(self) -> dict[str, Any]:
        """The next request for a response: behind one that was given, or not."""
        draw = self.random
        before = draw.choice([None, *self.responses[-3:]])
        given: Any = draw.choice(["Hi", [user("And?")], [user("a"), {"type": "reasoning"}], [], 7])
        for item in () if before is None else before["output"]:
            if item["type"] == "function_call" and draw.random() < 0.8:
                answer = {"type": "function_call_output", "call_id": item["call_id"], "output": "ok"}
                given = [*(given if isinstance(given, list) else []), answer]
            elif item["type"] == "mcp_approval_request" and draw.random() < 0.8:
                decision = {"approval_request_id": item["id"], "approve": draw.random() < 0.5}
                answer = {"type": "mcp_approval_response", **decision}
                given = [*(given if isinstance(given, list) else []), answer]
        body: dict[str, Any] = {"model": "desk", "input": given, "stream": draw.random() < 0.5}
        if before is not None:
            body["previous_response_id"] = before["id"]
        for name, share in (("store", 0.2), ("background", 0.3)):
            if draw.random() < share:
                body[name] = draw.choice([True, False, None, "x"])
        if draw.random() < 0.7:
            body["tools"] = [SHOW]
        return body

    async def round(self) -> None:
        """Send a request, and read its answer: whole, or up to a cut."""
        if self.random.random() < 0.4:
            await self.respond()
            return
        session, body = self.request()
        headers = {} if session is None else {"x-session-id": session}
        cut_after = self.random.choice([None, None, None, self.random.randrange(0, 800)])
        said, patience = b"", 25 if session is None else 3  # in a session of its own nothing waits for people
        with trio.move_on_after(30 if cut_after is None else 2) as scope:
            try:
                async with self.web.client.stream(
                    "POST", PATH, json=body, headers=headers, timeout=patience
                ) as response:
                    async for piece in response.aiter_raw():
                        said += piece
                        if cut_after is not None and len(said) >= cut_after:
                            scope.cancel()
            except httpx.ReadTimeout:
                await self.check_waits(session)
                return
        if not scope.cancelled_caught and cut_after is None:
            self.check(session, body, response, said.decode())

    async def respond(self) -> None:
        """Ask for a response, or do something with one that was given; read all, or up to a cut."""
        draw, path, body = self.random, "/v1/responses", self.input()
        method, query = "POST", ""
        if self.responses and draw.random() < 0.4:
            path += f"/{draw.choice(self.responses)['id']}"
            method, ending, body = draw.choice(
                [("GET", "", {}), ("GET", "/input_items", {}), ("POST", "/cancel", {}), ("DELETE", "", {})]
            )
            path += ending
            if method == "GET" and not ending:
                query = draw.choice(["", "?stream=true", "?stream=true&starting_after=12000001", "?stream=7"])
        said = b""
        given: dict[str, Any] = {"json": body} if method == "POST" else {}
        cut_after = draw.choice([None, None, draw.randrange(0, 2_000)])
        with trio.move_on_after(5) as scope:
            async with self.web.client.stream(method, path + query, timeout=10, **given) as response:
                async for piece in response.aiter_raw():
                    said += piece
                    if cut_after is not None and len(said) >= cut_after:
                        scope.cancel()
        if scope.cancelled_caught or cut_after is not None:
            return
        self.statuses.add(response.status_code)
        assert response.status_code != 500, said
        if response.status_code != 200:
            assert {"message", "type", "param", "code"} <= {*json.loads(said)["error"]}, said
        elif response.headers["content-type"] == "application/json":
            told = json.loads(said)
            if "output" in told:
                OfficialResponse.model_validate(told)
                self.responses.append(told)
        else:
            check_events(events_of(said.decode()))

    async def check_waits(self, session: str | None) -> None:
        """Silence is right for a message in the queue: its cycle waits for people, or gets there, or ends."""
        assert session is not None
        with trio.fail_after(30):
            while True:
                status = await self.web.host.supervisor.session(session, scope="local").status()
                if status.suspended or status.phase == "idle":
                    return
                await trio.sleep(0.05)

    def check(self, session: str | None, body: dict[str, Any], response: httpx.Response, said: str) -> None:
        """An answer is as the official types say; what failed is no fault of ours."""
        self.statuses.add(response.status_code)
        assert response.status_code != 500, said
        if response.status_code != 200:
            assert {"message", "type", "param", "code"} <= {*json.loads(said)["error"]}, said
            return
        if response.headers["content-type"] == "application/json":
            completion = json.loads(said)
        else:
            spoken = "".join([line for line in said.splitlines(keepends=True) if not line.startswith(":")])
            *frames, last = [frame.removeprefix("data: ") for frame in spoken.split("\n\n") if frame]
            assert last == "[DONE]"
            read = [json.loads(frame) for frame in frames]
            check_frames(read)
            return
        ChatCompletion.model_validate(completion)
        self.pasts[session] = [*body["messages"], completion["choices"][0]["message"]]


def talking(random: Random) -> FunctionModel:
    """A model that does anything: speaks, thinks, calls, fails."""

    def answer(_: object) -> Turn:
        return random.choice(
            [
                says("Well", " well."),
                says(*"abcdef", pause_seconds=0.01),
                Turn(thinking="Hm.", text=("So.",)),
                calls(("show", {"at": "é"}), text="Look."),
                calls(("show", {}), ("show", {"at": 1}), ("shell", {"command": "ls"})),
                calls(("shell", {"command": "rm"})),
                calls(("ask_user", {"question": "Which?"})),
                calls(("nope", "{")),
                fails(Authentication("no key"), after="So"),
                fails(Overloaded("busy", retry_after_seconds=0.01)),
            ]
        )

    return FunctionModel(answer)


@pytest.mark.protocol(64)
@pytest.mark.parametrize("seed", range(4))
async def test_random_clients_do_not_break_a_server(seed):
    """Rounds: five for each example of the profile, so some 75 in CI. Then the sessions are as their journals say.

    By hand: `OPENAI_ROUNDS=5000 OPENAI_SEED=7 pytest -o faulthandler_timeout=0` with this file.
    """
    random = Random(f"{os.environ.get('OPENAI_SEED', '1')} {seed}")  # noqa: S311 - for a fuzzer
    rounds = int(os.environ.get("OPENAI_ROUNDS", settings().max_examples * 5)) // 4 or 1
    options: dict[str, Any] = {
        "session_tools": [RecordingTool(name="shell"), *builtin("ask_user")],
        "session_plugins": [HumanApproval],
        "session_max_retries": 1,
        "limits": FREE,
    }
    async with serving(talking(random), store=MemoryStore(), **options) as web:
        clients = Clients(web, random)

        async def talk(count: int) -> None:
            for _ in range(count):
                await clients.round()

        with trio.fail_after(30 + rounds):
            async with trio.open_nursery() as nursery:
                for number in range(4):
                    nursery.start_soon(talk, rounds // 4 + (number < rounds % 4))
            for session in web.host.supervisor.sessions(scope="local"):
                with suppress(SessionDown, SessionNotFound):  # a nameless one ends after its response
                    await session.abort("the end", clear_queue=True)  # or the next message is at work
                    stored = await web.host.supervisor.stored_state(
                        session.session_id, scope="local", plugins=[HumanApproval]
                    )
                    assert stored.messages == await session.messages()
    assert clients.statuses <= {200, 400, 404, 409, 413, 422, 429, 502, 503, 504}
