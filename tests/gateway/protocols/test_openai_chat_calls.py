"""Chat Completions over HTTP, as the official client of Python calls it on Trio, and as no client should."""

import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx
import pytest
import trio
from attrs import evolve

from agentrail.core.protocol.request import Chunk, ModelRequest, TextDelta
from agentrail.errors import Authentication, RequestRefused
from agentrail.gateway.protocols import wire_calls
from agentrail.gateway.tokens import TokenEntry, Tokens
from agentrail.host import HandledResponse, quotas
from agentrail.host.quotas import Limits
from agentrail.plugins import HumanApproval
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, ScriptedModel, Turn, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools import builtin
from tests.gateway.web import Web, error_of, serving
from tests.host.hosting import Ledger, answering, profile
from tests.host.rig import plugin
from tests.protocols.test_openai_chat import PICTURE, TOOL, called, check_frames, result, user
from tests.providers.vendors import library
from tests.runtime.rig import eventually, on_bounded_time
from tests.runtime.test_spending import Priced

# The official client reads its streams up to `[DONE]`, and leaves the rest of their generators to the collector.
pytestmark = [
    on_bounded_time,
    pytest.mark.filterwarnings(r"ignore:Async generator '(openai|httpx2|httpcore2)\.:ResourceWarning"),
]

PATH = "/v1/chat/completions"
ENDLESS = says("So", *[" on"] * 400, pause_seconds=0.02)


def said(*messages: Any, **more: Any) -> dict[str, Any]:
    """A request as it is sent."""
    return {"model": "desk", "messages": [*(messages or (user("Hi"),))], **more}


async def ask(web: Web, *messages: Any, session: str | None = None, **more: Any) -> dict[str, Any]:
    """Ask for a completion, and return its only choice."""
    headers = {} if session is None else {"x-session-id": session}
    response = await web.post(PATH, said(*messages, **more), headers=headers)
    assert response.status_code == 200, response.text
    choices: list[dict[str, Any]] = response.json()["choices"]
    return choices[0]


async def streamed(web: Web, *messages: Any, **more: Any) -> list[dict[str, Any]]:
    """Read a streamed completion to its end."""
    response = await web.post(PATH, said(*messages, stream=True, **more))
    return frames_of(response.text)


def frames_of(text: str) -> list[dict[str, Any]]:
    """The frames of a stream, each of which the official types parse; comments do not count."""
    spoken = "".join([line for line in text.splitlines(keepends=True) if not line.startswith(":")])
    *frames, last = [frame.removeprefix("data: ") for frame in spoken.split("\n\n") if frame]
    assert last == "[DONE]"
    read = [json.loads(frame) for frame in frames]
    check_frames(read)
    return read


def sessions_of(web: Web) -> list[str]:
    """The sessions that are awake."""
    return [session.session_id for session in web.host.supervisor.sessions(scope="local")]


async def no_sessions(web: Web) -> None:
    """Wait until a nameless session has ended: a moment after its stream."""
    while sessions_of(web):  # noqa: ASYNC110 - no client is told
        await trio.sleep(0.005)


@asynccontextmanager
async def official(web: Web) -> AsyncIterator[Any]:
    """The official client, which repeats nothing."""
    host, port = web.address
    async with library("openai").AsyncOpenAI(
        base_url=f"http://{host}:{port}/v1", api_key="none", max_retries=0
    ) as client:
        yield client


@asynccontextmanager
async def asking(*turns: Turn) -> AsyncIterator[tuple[Web, RecordingTool]]:
    """A server whose profile asks people before a shell runs."""
    shell = RecordingTool(name="shell")
    profiles = [profile(ScriptedModel(turns), tools=[shell], plugins=[HumanApproval])]
    async with serving(None, profiles=profiles) as web:
        yield web, shell


async def test_models_are_the_profiles():
    """Each under its id."""
    profiles = [profile(answering("a")), profile(answering("b"), "shop")]
    async with serving(None, profiles=profiles) as web, official(web) as client:
        listed = [model async for model in client.models.list()]
        assert [model.id for model in listed] == ["desk", "shop"]
        assert [await client.models.retrieve(model.id) for model in listed] == listed
        with pytest.raises(library("openai").NotFoundError, match="of desk, shop") as unknown:
            await client.models.retrieve("none")
        assert unknown.value.code == "model_not_found"


@pytest.mark.protocol(47)
@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_function_of_the_client_is_called_twice_and_then_answered(is_stream):
    """P-047 for Python: one session, which ends with the last answer; each request brings the whole conversation."""
    turns = [
        calls(("show", {"at": "Lisbon"}), text="Let me see."),
        calls(("show", {"at": "Faro"})),
        says("Both."),
    ]
    seen: list[str] = []
    async with serving(ScriptedModel(turns)) as web, official(web) as client:
        messages: list[Any] = [user("Show them.")]
        while True:
            given: dict[str, Any] = {"model": "desk", "messages": messages, "tools": [TOOL]}
            if is_stream:
                async with client.chat.completions.stream(**given) as stream:
                    completion: Any = await stream.get_final_completion()
            else:
                completion = await client.chat.completions.create(**given)
            message = completion.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if completion.choices[0].finish_reason != "tool_calls":
                break
            (session,) = sessions_of(web)
            seen.append(session)
            messages += [result(call.id, f"seen {call.function.arguments}") for call in message.tool_calls]
        await no_sessions(web)
    assert len({*seen}) == 1
    assert len(seen) == 2
    assert (messages[1]["content"], message.content) == ("Let me see.", "Both.")


@pytest.mark.protocol(48)
async def test_results_of_calls_that_we_never_made_are_imported_and_answered():
    """P-048: repaired, which a header reports, and answered without a new message."""
    requests = []

    def answer(request):
        requests.append(request)
        return says("A cat.")

    past = [user("Look."), called("x1", "x2"), result("x1", "a cat"), result("x9", "?")]
    async with serving(FunctionModel(answer)) as web:
        response = await web.post(PATH, said({"role": "system", "content": "Be brief."}, *past))
        assert response.json()["choices"][0]["message"]["content"] == "A cat."
        assert response.headers["x-history-repairs"] == "2"
        await no_sessions(web)
    (request,) = requests
    assert request.system.endswith("Be brief.")
    assert request.messages[-1].results[0].text == "a cat"


@pytest.mark.protocol(49)
@pytest.mark.parametrize("is_stream", [False, True])
async def test_an_approval_in_a_nameless_session_is_rejected(is_stream):
    """P-049: nothing ran, the model is told, and the answer is whole."""
    async with asking(calls(("shell", {"command": "rm"}), text="Well."), says("Not done.")) as (web, shell):
        if is_stream:
            frames = await streamed(web)
            text = "".join([frame["choices"][0]["delta"].get("content", "") for frame in frames])
        else:
            text = (await ask(web))["message"]["content"]
        await no_sessions(web)
    assert (text, shell.calls) == ("Well.\n\nNot done.", [])


@pytest.mark.protocol(49)
async def test_an_approval_in_a_named_session_is_decided_by_the_next_word():
    """P-049: "yes" runs it once; said twice, the second is a new message. Another session's answer is not enough."""
    turns = [
        calls(("shell", {"command": "ls"})),
        says("Done."),
        says("What?"),
        calls(("shell", {"command": "rm"})),
        says("Kept."),
    ]
    async with asking(*turns) as (web, shell):
        asked = await ask(web, session="c1")
        assert asked["finish_reason"] == "stop"
        assert 'shell {"command": "ls"}' in asked["message"]["content"]
        first = [user("Hi"), asked["message"]]
        done = await ask(web, *first, user("yes"), session="c1")
        assert (done["message"]["content"], shell.calls) == ("Done.", [{"command": "ls"}])
        again = await ask(web, *first, user("yes"), done["message"], user("yes"), session="c1")
        assert (again["message"]["content"], len(shell.calls)) == ("What?", 1)
        asked = await ask(web, user("And now?"), session="c1")
        stale = await web.post(PATH, said(*first, user("yes")), headers={"x-session-id": "c1"})
        error_of(stale, 409, "approval_mismatch")
        kept = await ask(web, user("No, never."), session="c1")
        assert (kept["message"]["content"], len(shell.calls)) == ("Kept.", 1)
        assert sessions_of(web) == ["c1"]


async def test_a_named_session_takes_what_is_new_and_says_what_it_does_not_know():
    """By header or by metadata; the past is the session's own, and is added once."""
    async with serving(answering("One.", "Two.", "Three.")) as web:
        one = await ask(web, session="c1")
        two = await ask(web, user("Hi"), one["message"], user("And?"), metadata={"session_id": "c1"})
        assert two["message"]["content"] == "Two."
        other = said(user("Hi"), {"role": "assistant", "content": "Never said."}, user("So?"))
        response = await web.post(PATH, other, headers={"x-session-id": "c1"})
        assert response.headers["x-agentrail-history-differs"] == "true"
        messages = await web.host.supervisor.session("c1", scope="local").messages()
        words = ["".join(block.text for block in one.content) for one in messages]
        assert words == ["Hi", "One.", "And?", "Two.", "So?", "Three."]


async def test_a_question_is_text_and_the_next_word_answers_it():
    """In a named session, not by its first message, sent again without a key; a nameless one ends with it."""
    turns = [calls(("ask_user", {"question": "Which?", "options": ["a", "b"]})), says("b it is.")]
    async with serving(ScriptedModel(turns), session_tools=builtin("ask_user")) as web:
        asked = await ask(web, session="c1")
        assert (asked["message"]["content"], asked["finish_reason"]) == ("Which?\n- a\n- b", "stop")
        refused = await web.post(PATH, said(), headers={"x-session-id": "c1"})
        error_of(refused, 409, "already_resolved")
        answered = await ask(web, user("Hi"), asked["message"], user("b"), session="c1")
        assert answered["message"]["content"] == "b it is."
    async with serving(ScriptedModel(turns[:1]), session_tools=builtin("ask_user")) as web:
        assert (await ask(web))["message"]["content"] == "Which?\n- a\n- b"
        await no_sessions(web)


class HeardModel(ScriptedModel):
    """Tells when the first piece of its text has been taken."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        super().__init__(turns)
        self.is_heard = trio.Event()

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        async def told(chunks: AsyncIterator[Chunk]) -> AsyncGenerator[Chunk, None]:
            async for chunk in chunks:
                yield chunk
                if isinstance(chunk, TextDelta):
                    self.is_heard.set()

        async with super().open_stream(request) as chunks, aclosing(told(chunks)) as stream:
            yield stream


@pytest.mark.protocol(53)
@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("session", [None, "c1"])
async def test_a_client_that_leaves_aborts_its_cycle(is_stream, session):
    """P-053: what was used is booked, and its place is free for the next one."""
    ledger = Ledger()
    limits = Limits(max_streams_per_principal=1)
    model = HeardModel([ENDLESS, says("Next.")])
    async with serving(model, ledger, limits=limits) as web:
        headers = {} if session is None else {"x-session-id": session}
        async with (
            web.leaving_when(model.is_heard.is_set),
            web.client.stream("POST", PATH, json=said(stream=is_stream), headers=headers) as response,
        ):
            async for _ in response.aiter_text():
                pass
        await web.served.quiet()
        assert ledger.ends == ["aborted"]
        assert (await ask(web, user("Again"), session=session))["message"]["content"] == "Next."
        if session is None:
            await no_sessions(web)
        else:
            status = await web.host.supervisor.session("c1", scope="local").status()
            assert status.usage.output > 0


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_daily_budget_counts_sessions_without_a_name(is_stream, monkeypatch):
    """Each is deleted with its response, by two tasks at once, and what it has cost counts once."""
    monkeypatch.setattr(quotas, "LOOK_AGAIN_SECONDS", 0.0)
    limits, store = Limits(cost_per_day_usd=0.05), MemoryStore()
    async with serving(Priced([says("One.")] * 3), store=store, limits=limits) as web:
        for _ in range(2):  # the second request costs more than there is
            assert (await web.post(PATH, said(stream=is_stream))).status_code == 200
            await eventually(lambda: not store.find())
        error_of(await web.post(PATH, said(stream=is_stream)), 429, "budget")


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_client_that_leaves_does_not_abort_its_own_next_try(is_stream):
    """With a key both read one response, and only the last one that leaves aborts it."""
    ledger, answers = Ledger(), []
    talking = says(*[f"{number} " for number in range(40)], pause_seconds=0.01)
    model = ScriptedModel([talking, ENDLESS])
    async with serving(model, ledger) as web:

        async def send(key: str) -> None:
            response = await web.post(PATH, said(stream=is_stream), headers={"idempotency-key": key})
            answers.append(response.text)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, "k1")
            with trio.move_on_after(0.2):
                await send("k1")
        assert ["39 " in one for one in answers] == [True]
        async with web.leaving_when(lambda: len(model.requests) == 2):
            await send("k2")
        await web.served.quiet()
        assert ledger.ends == ["completed", "aborted"]


async def test_what_fails_in_mid_stream_is_an_error_frame_and_before_it_an_error():
    """The official client raises both, with our code; it is told not to repeat what may have run."""
    fails = Turn(error=Authentication("the key is wrong"))
    async with serving(ScriptedModel([fails, fails])) as web, official(web) as client:
        with pytest.raises(library("openai").APIStatusError) as whole:
            await client.chat.completions.create(model="desk", messages=[user("Hi")])
        assert (whole.value.status_code, whole.value.code) == (502, "provider_failed")
        assert whole.value.response.headers["x-should-retry"] == "false"
        with pytest.raises(library("openai").APIError) as broken:
            async with client.chat.completions.stream(model="desk", messages=[user("Hi")]) as stream:
                await stream.until_done()
        assert broken.value.code == "authentication"
        await no_sessions(web)


async def test_a_server_that_goes_down_ends_each_stream_once():
    """With an error frame; the whole answer is a 503."""
    async with (
        serving(ScriptedModel([ENDLESS, ENDLESS]), drain_timeout=0.05) as web,
        trio.open_nursery() as nursery,
    ):
        streams: list[list[dict[str, Any]]] = []
        answers: list[httpx.Response] = []

        async def stream() -> None:
            streams.append(await streamed(web))

        async def answer() -> None:
            answers.append(await web.post(PATH, said()))

        nursery.start_soon(stream)
        nursery.start_soon(answer)
        while len(sessions_of(web)) < 2:  # noqa: ASYNC110 - no client is told
            await trio.sleep(0.01)
        await trio.sleep(0.1)
        web.stop.set()
    assert streams[0][-1]["error"]["code"] in ("draining", "aborted")
    assert answers[0].status_code in (409, 503)


# --- 11.11 and 11.13


@pytest.mark.protocol(54)
async def test_what_has_no_effect_is_named_in_a_header_and_what_is_refused_in_the_error():
    """P-054: in the shape of the API, with the place in `param`."""
    async with serving(answering("a")) as web:
        response = await web.post(PATH, said(seed=1, service_tier="auto", **{"strange\r\nname": 1}))
        assert response.headers["x-agentrail-ignored"] == "seed, service_tier, strange??name"
        for given, status, code, param in (
            ({"n": 2}, 400, "unsupported_parameter", "n"),
            ({"tools": [{"type": "web_search"}]}, 400, "unsupported_tool", "tools[0].type"),
            ({"messages": []}, 400, "messages_missing", "messages"),
            ({"temperature": 9}, 422, "field_invalid", "temperature"),
            ({"model": "none"}, 404, "model_not_found", "model"),
            ({"model": None}, 400, "model_missing", "model"),
            ({"model": ""}, 400, "model_missing", "model"),
            ({"model": 1}, 400, "model_missing", "model"),
        ):
            error = error_of(await web.post(PATH, said() | given), status, code)
            assert (error["param"], error["type"]) == (param, "invalid_request_error")
        assert sessions_of(web) == []


async def test_a_client_tool_that_cannot_be_had_is_named_and_nothing_is_admitted():
    """One named like one of ours, one with a schema that refers elsewhere, and the 65th."""
    far = {"type": "object", "properties": {"a": {"$ref": "https://x.example/s.json"}}}
    several = [TOOL | {"function": TOOL["function"] | {"name": f"t{number}"}} for number in range(65)]
    async with serving(answering("a"), session_tools=[RecordingTool(name="shell")]) as web:
        for tools, code in (
            ([TOOL | {"function": TOOL["function"] | {"name": "shell"}}], "option_error"),
            ([TOOL | {"function": TOOL["function"] | {"parameters": far}}], "field_invalid"),
            (several, "field_invalid"),
        ):
            error = error_of(await web.post(PATH, said(tools=tools)), 422, code)
            named = tools[-1]["function"]["name"]
            assert named in error["message"]
        assert sessions_of(web) == []


async def test_a_past_that_is_too_long_and_a_picture_that_cannot_be_seen():
    """413; and 400 where the profile says that its model sees nothing."""
    async with serving(answering("a", "b"), session_provider_opts={"images": False}) as web:
        many = [one for _ in range(501) for one in (user("a"), {"role": "assistant", "content": "b"})]
        error_of(await web.post(PATH, said(*many, user("Hi"))), 413, "too_large")
        picture = user([{"type": "text", "text": "Look."}, PICTURE])
        error_of(await web.post(PATH, said(picture)), 400, "images_unsupported")
        assert sessions_of(web) == []
    async with serving(answering("a")) as web:
        assert (await ask(web, picture))["message"]["content"] == "a"


async def test_a_profile_decides_what_a_client_may_set():
    """Its system prompt is left out or refused, its settings are ignored, and calls on our side show if wanted."""
    requests = []

    def answer(request):
        requests.append(request)
        return says("Yes.") if len(requests) % 2 == 0 else calls(("shell", {}))

    strict = profile(FunctionModel(answer), tools=[RecordingTool(name="shell")])
    profiles = [
        evolve(strict, client_system="ignore", client_settings=False, show_tools="reasoning"),
        evolve(strict, id="shut", client_system="refuse"),
    ]
    system = {"role": "system", "content": "You are a pirate."}
    async with serving(None, profiles=profiles) as web:
        response = await web.post(PATH, said(system, user("Hi"), temperature=0.5))
        assert response.headers["x-agentrail-ignored"] == "temperature, instructions"
        assert response.json()["choices"][0]["message"]["reasoning_content"] == "[shell {}]\n"
        assert requests[0].settings is None
        assert "pirate" not in (requests[0].system or "")
        error_of(await web.post(PATH, said(system, user("Hi"), model="shut")), 400, "unsupported_parameter")


BODIES = {
    "nothing": (b"", 400),  # a model that is missing is not one that is unknown
    "one byte": (b"{", 400),
    "no object": (b"[]", 400),
    "half a surrogate pair": (rb'{"model":"desk","messages":[{"role":"user","content":"\ud83d"}]}', 400),
    "10,000 levels": (b'{"model":"desk","messages":' + b"[" * 10_000 + b"]" * 10_000 + b"}", 400),
}


@pytest.mark.parametrize("name", BODIES)
async def test_no_body_breaks_the_server(name):
    """Each has its error in the shape of the API, and the next request is answered."""
    body, status = BODIES[name]
    async with serving(answering("a")) as web:
        response = await web.client.post(PATH, content=body, headers={"content-type": "application/json"})
        assert response.status_code == status, response.text
        assert {"message", "type", "param", "code"} <= {*response.json()["error"]}
        assert (await ask(web))["message"]["content"] == "a"


async def test_a_body_of_100_mb_is_refused_before_it_is_there():
    """By its announced length; the client need not send it."""
    head = f"POST {PATH} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 100000000\r\n\r\n{{"
    async with serving(answering("a")) as web:
        stream = await trio.open_tcp_stream(*web.address)
        async with stream:
            await stream.send_all(head.encode())
            assert b" 413 " in await stream.receive_some()
        assert (await ask(web))["message"]["content"] == "a"


async def test_the_same_request_twice_at_one_moment():
    """Nameless ones are two; with a key they are one; of two results for one call the second is refused."""
    async with serving(answering("a", "b", "c")) as web:
        replies: list[str] = []

        async def send(**headers: str) -> None:
            response = await web.post(PATH, said(), headers=headers)
            replies.append(response.json()["choices"][0]["message"]["content"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            nursery.start_soon(send)
        assert sorted(replies) == ["a", "b"]
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(lambda: send(**{"idempotency-key": "k1"}))
        assert replies[2:] == ["c", "c"]
    turns = [calls(("show", {})), says("Seen.")]
    async with serving(ScriptedModel(turns)) as web:
        asked = await ask(web, tools=[TOOL])
        (call,) = asked["message"]["tool_calls"]
        statuses: list[int] = []

        async def give() -> None:
            body = said(user("Hi"), asked["message"], result(call["id"]), tools=[TOOL])
            statuses.append((await web.post(PATH, body)).status_code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(give)
            nursery.start_soon(give)
    assert sorted(statuses) == [200, 409]


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_request_sent_again_without_a_session_has_the_answer_of_the_first(is_stream):
    """Its key finds the session, which stays for ten minutes: the model is asked once. Other words are refused."""
    async with serving(answering("a", "b")) as web:
        sent = [
            await web.post(PATH, said(stream=is_stream), headers={"idempotency-key": "k1"}) for _ in range(3)
        ]
        assert len({one.text for one in sent}) == 1
        other = await web.post(PATH, said(user("Bye")), headers={"idempotency-key": "k1"})
        error_of(other, 409, "client_id_reused")


@pytest.mark.parametrize("headers", [{}, {"idempotency-key": "k1"}])
async def test_an_answer_that_is_sent_again_answers_nothing_else(headers):
    """409: it is not the answer to the next question, and with a key no new message either."""
    turns = [calls(("ask_user", {"question": "Which one?"})), calls(("ask_user", {"question": "And then?"}))]
    async with serving(
        ScriptedModel([*turns, says("Done."), says("No.")]), session_tools=builtin("ask_user")
    ) as web:
        asked = (await ask(web, session="s1"))["message"]
        body, named = said(user("Hi"), asked, user("blue")), {"x-session-id": "s1"}
        answered = await web.post(PATH, body, headers={**named, **headers})
        shown = answered.json()["choices"][0]["message"]
        assert shown["content"] == "And then?"
        error_of(await web.post(PATH, body, headers={**named, **headers}), 409, "already_resolved")
        last = await ask(web, user("Hi"), asked, user("blue"), shown, user("red"), session="s1")
        assert last["message"]["content"] == "Done."
        if headers:
            error_of(await web.post(PATH, body, headers={**named, **headers}), 409, "already_resolved")


@pytest.mark.parametrize(
    "messages",
    [
        [user("")],
        [user([])],
        [result("c1")],
        [user("Hi"), {"role": "assistant", "content": "Yes."}, user("")],
    ],
)
async def test_a_request_without_words_asks_nothing(messages):
    """400 on both interfaces, with and without a session: an earlier message is not asked again."""
    async with serving(answering("a", "b")) as web:
        await ask(web, session="s1")
        for headers in ({}, {"x-session-id": "s1"}):
            refused = await web.post(PATH, said(*messages), headers=headers)
            code = "unknown_call" if headers and messages[-1]["role"] == "tool" else "messages_missing"
            error_of(refused, 404 if code == "unknown_call" else 400, code)
        if messages[-1]["role"] == "user":
            error_of(
                await web.post("/v1/responses", {"model": "desk", "input": messages}), 400, "messages_missing"
            )
        assert sessions_of(web) == ["s1"]


async def test_a_missing_result_is_named_and_the_others_are_not_applied():
    """400; with both, the cycle goes on."""
    turns = [calls(("show", {}), ("show", {"at": "b"})), says("Both.")]
    async with serving(ScriptedModel(turns)) as web:
        asked = await ask(web, tools=[TOOL])
        one, two = [result(call["id"]) for call in asked["message"]["tool_calls"]]
        refused = error_of(
            await web.post(PATH, said(user("Hi"), asked["message"], one)), 400, "result_missing"
        )
        assert two["tool_call_id"].partition("--")[0] in refused["message"]
        assert (await ask(web, user("Hi"), asked["message"], one, two))["message"]["content"] == "Both."


@pytest.mark.parametrize("is_stream", [False, True])
async def test_words_behind_results_are_answered_where_the_cycle_waits_again(is_stream):
    """They join the cycle, which calls the client once more: they do not wait for it in the queue."""
    slow = evolve(calls(("show", {"at": "b"})), pause_seconds=0.2)
    turns = [calls(("show", {})), slow, says("Both."), says("Both.")]
    async with serving(ScriptedModel(turns)) as web:
        asked = await ask(web, tools=[TOOL])
        (call,) = asked["message"]["tool_calls"]
        given = said(user("Hi"), asked["message"], result(call["id"]), user("And?"), stream=is_stream)
        with trio.fail_after(5):
            response = await web.post(PATH, given)
        assert response.status_code == 200, response.text


async def test_results_are_applied_all_or_none():
    """One that is too long refuses both, and both can be given again."""
    turns = [calls(("show", {}), ("show", {"at": "b"})), says("Both.")]
    async with serving(ScriptedModel(turns)) as web:
        asked = await ask(web, tools=[TOOL])
        one, two = [result(call["id"]) for call in asked["message"]["tool_calls"]]
        long = {**two, "content": "x" * ((1 << 20) + 1)}
        refused = await web.post(PATH, said(user("Hi"), asked["message"], one, long))
        error_of(refused, 422, "invalid_response")
        assert (await ask(web, user("Hi"), asked["message"], one, two))["message"]["content"] == "Both."


async def test_answers_of_another_tenant_push_out_none(monkeypatch):
    """A request that has answered is refused when it is sent again, however many come from others meanwhile."""
    monkeypatch.setattr(wire_calls, "_MAX_ANSWERS", 1)
    entries = [
        TokenEntry(digest=hashlib.sha256(name.encode()).digest(), tenant_id=name, user_id="u")
        for name in ("ann", "bob")
    ]
    asks = calls(("ask_user", {"question": "Which one?"}))
    model = FunctionModel(lambda request: says("Done.") if len(request.messages) > 1 else asks)
    async with serving(model, auth=Tokens(entries), session_tools=builtin("ask_user")) as web:
        headers = {"x-session-id": "s1", "idempotency-key": "k1"}
        for name in ("ann", "bob"):
            web.client.headers["authorization"] = f"Bearer {name}"
            asked = (await ask(web, session="s1"))["message"]
            body = said(user("Hi"), asked, user("blue"))
            assert (await web.post(PATH, body, headers=headers)).status_code == 200
        web.client.headers["authorization"] = "Bearer ann"
        error_of(await web.post(PATH, body, headers=headers), 409, "already_resolved")


async def test_sessions_of_others_are_unknown():
    """The right request of somebody else: byte for byte as of a session that there is not, but for the id."""
    tokens = Tokens(
        [
            TokenEntry(digest=hashlib.sha256(name.encode()).digest(), tenant_id="acme", user_id=name)
            for name in ("ann", "bob")
        ]
    )
    turns = [calls(("show", {})), says("Of a new session."), says("Seen.")]
    async with serving(ScriptedModel(turns), auth=tokens) as web:
        error = error_of(await web.post(PATH, said()), 401, "unauthorized")
        assert error["type"] == "authentication_error"
        web.client.headers["authorization"] = "Bearer ann"
        asked = await ask(web, session="c1", tools=[TOOL])
        (call,) = asked["message"]["tool_calls"]
        web.client.headers["authorization"] = "Bearer bob"
        given = said(user("Hi"), asked["message"], result(call["id"]))
        taken = await web.post(PATH, given, headers={"x-session-id": "c1"})
        assert error_of(taken, 404, "session_unknown")
        imported = await ask(web, user("Hi"), called("c--c1"), result("c--c1"))
        assert imported["message"]["content"] == "Of a new session."
        web.client.headers["authorization"] = "Bearer ann"
        done = await ask(web, user("Hi"), asked["message"], result(call["id"]), session="c1")
        assert done["message"]["content"] == "Seen."


@pytest.mark.protocol(57)
async def test_one_guard_refuses_here_too():
    """In front of any session, also where only results are new: it judges the last words of the user."""

    async def judge(ctx):
        raise RequestRefused(402, "unpaid", "pay first")

    async with serving(answering("a"), plugin("guard", critical=True, intercept_chat_request=judge)) as web:
        for messages in ((user("Hi"),), (user("Hi"), called("x"), result("x"))):
            error = error_of(await web.post(PATH, said(*messages)), 402, "unpaid")
            assert error["type"] == "invalid_request_error"
        assert sessions_of(web) == []


async def test_a_command_is_answered_by_the_assistant_without_a_stream_too():
    """Each has an id of its own, and none of them is in a session."""

    async def judge(ctx):
        return HandledResponse({"lines": ["One", "two"]}, headers={"x-own": "1"})

    async with serving(answering("a"), plugin("own", intercept_chat_request=judge)) as web:
        ids = set()
        for _ in range(2):
            response = await web.post(PATH, said(user("/c")))
            told = response.json()
            ids.add(told["id"])
            (choice,) = told["choices"]
            assert (choice["message"]["content"], choice["finish_reason"]) == ("One\ntwo", "stop")
            assert response.headers["x-own"] == "1"
        assert len(ids) == 2
        assert sessions_of(web) == []
