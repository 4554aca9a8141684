"""No key is ever shown: in an error, an event, a repr, a log, or what the command prints (7.4)."""

import copy
import json
import logging
import re

import pytest
import structlog
import trio

from agentrail import CycleFailed, OptionError, Secret
from agentrail.app import open_supervisor
from agentrail.core.wire.codec import encode_event
from agentrail.events import AgentError
from agentrail.testing.check_provider import ServedReply, open_server, reply, stream
from tests.providers.transcripts import WIRE

CANARY = "sk-canary-0123456789-abcdefghij"
MODELS = {
    "anthropic:claude-x": "anthropic",
    "openai-chat:gpt-x": "openai_chat",
    "openai:gpt-x": "openai_responses",
    "google:gemini-x": "gemini",
}
EVERY_WIRE = pytest.mark.parametrize("model", MODELS)


def test_a_secret_is_a_value():
    """Equal when the values are, usable as a key, and copied for free."""
    secret = Secret(CANARY)
    assert secret.reveal() == CANARY
    assert secret == Secret(CANARY)
    assert hash(secret) == hash(Secret(CANARY))
    assert secret != Secret("another")
    assert secret != CANARY
    assert copy.copy(secret) is copy.deepcopy(secret) is secret


def _answers(wire: str) -> tuple[ServedReply, ...]:
    """Whatever a server may answer; each with the key in it, as vendors echo it."""
    echo = f"you sent {CANARY} to us, that is {CANARY[:8]}****{CANARY[-4:]}"
    error = json.dumps({"error": {"type": "x", "code": "invalid_api_key", "status": "X", "message": echo}})
    whole = next((WIRE / wire).glob("**/text.sse")).read_bytes()
    return (
        reply(error, status="401 Unauthorized", kind="application/json"),
        reply(f"<html>{echo}</html>", status="502 Bad Gateway", kind="text/html"),
        reply(f"<html>{echo}</html>", kind="text/html"),
        reply(error, kind="application/json"),
        stream(whole[: len(whole) // 2], f"data: {error}\n\n".encode(), ends=True),
        stream(whole[: len(whole) // 2], f"data: {{{echo}\n\n".encode(), ends=True),
        reply(echo, status="400 Bad Request", kind="text/plain"),
    )


async def _source() -> Secret:
    await trio.lowlevel.checkpoint()
    return Secret(CANARY)


@EVERY_WIRE
@pytest.mark.parametrize("number", range(7))
@pytest.mark.parametrize(
    "key", [CANARY, Secret(CANARY), lambda: Secret(CANARY), _source], ids=["text", "secret", "sync", "async"]
)
async def test_nothing_that_leaves_a_session_holds_its_key(model, number, key, caplog):
    """Events as they are encoded, errors with all that is chained to them, reprs, and logs down to the last detail."""
    caplog.set_level(logging.DEBUG)
    shown: list[str] = []
    with trio.fail_after(60), structlog.testing.capture_logs() as logs:
        async with open_server(_answers(MODELS[model])[number]) as server, open_supervisor(environ={}) as sup:
            opts = {"base_url": server.url, "api_key": key, "max_retries": 0}
            session = await sup.start_session(model=model, provider_opts=opts)
            async with session.subscribe() as events:
                with pytest.raises(CycleFailed) as caught:
                    await session.ask("Hi")
                async for event in events:
                    shown += [encode_event(event).decode(), repr(event)]
                    if isinstance(event, AgentError):
                        break
            shown += [repr(session), repr(await session.status()), repr(sup), repr(sup.statistics())]
    error: BaseException | None = caught.value
    while error is not None:
        shown += [str(error), repr(error), repr(vars(error))]
        error = error.__cause__ or error.__context__
    assert any(CANARY.encode() in head for head, _ in server.requests), (
        "the server saw no key: nothing was tested"
    )
    for text in (*shown, str(logs), caplog.text):
        assert CANARY not in text
        assert CANARY[:8] not in text
        assert CANARY[-4:] not in text


@EVERY_WIRE
@pytest.mark.parametrize(
    "opts",
    [
        {"api_key": f"{CANARY} ü"},
        {"api_kee": CANARY},
        {"base_url": f"https://me:{CANARY}@host"},
        {"base_url": f"https://host?key={CANARY}"},
        {"headers": {"x-key": f"{CANARY}\n"}},
        CANARY,
    ],
)
async def test_a_fault_in_an_option_does_not_repeat_the_key(model, opts):
    """Whoever puts the key into the wrong place reads which place, and not the key."""
    async with open_supervisor(
        environ={"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k"}
    ) as sup:
        with pytest.raises(OptionError) as caught:
            await sup.start_session(model=model, provider_opts=opts)
        assert CANARY not in str(caught.value) + repr(caught.value)


@pytest.mark.at(155)
@pytest.mark.parametrize("how", ["text", "function", "header", "profile", "profile that asks"])
async def test_a_key_that_the_server_writes_back_is_in_nothing_that_is_kept(how):
    """However the session came to it: a model that says the key of its own requests says `Secret(…)`."""
    answer = next((WIRE / "openai_chat").glob("**/text.sse")).read_text()
    first = re.search(r'"content":"(?=\w)', answer)[0]
    echo = answer.replace(first, f"{first}{CANARY} ", 1)
    opts = {
        "function": {"api_key": lambda: CANARY},
        "header": {"api_key": "key-of-no-use", "headers": {"X-Token": f"Bearer {CANARY}"}},
    }.get(how, {"api_key": CANARY})
    with trio.fail_after(60):
        async with open_server(reply(echo.encode())) as server, open_supervisor(environ={}) as sup:
            if how.startswith("profile"):
                asks = how.endswith("asks")
                given = {"base_url": server.url, **({} if asks else opts)}
                sup.providers.register("eu", opts=given, resolve=(lambda _: opts) if asks else None)
                session = await sup.start_session(model="registry:eu:gpt-x")
            else:
                session = await sup.start_session(
                    model="openai-chat:gpt-x", provider_opts={"base_url": server.url, **opts}
                )
            assert "Secret(…) " in await session.ask("Hi")
            assert CANARY not in repr(await session.messages())
