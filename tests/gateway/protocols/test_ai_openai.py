"""The `ai` SDK, through its OpenAI-compatible provider, and LiteLLM call a server of ours (11.14)."""

import json
import os
from functools import partial
from pathlib import Path

import pytest
import trio

from agentrail.testing.models import ScriptedModel, calls, says
from tests.gateway.protocols.test_openai_chat_calls import no_sessions
from tests.gateway.web import serving
from tests.runtime.rig import on_bounded_time

HERE = Path(__file__).parent
TURNS = (calls(("show", {"at": "Lisbon"})), calls(("show", {"at": "Faro"})), says("Bo", "th."))
pytestmark = [pytest.mark.check, on_bounded_time]


@pytest.mark.protocol(47)
@pytest.mark.services("ai", "ai-openai")
@pytest.mark.parametrize(("is_stream", "session"), [(False, None), (True, None), (True, "c1")])
async def test_the_ai_sdk_calls_its_function_twice_and_has_the_answer(ai_sdk, is_stream, session):
    """Its own loop over our completions: one session, which has the conversation once; the last usage is that of the cycle."""
    provider = ai_sdk.parents[2] / "@ai-sdk" / "openai-compatible" / "dist" / "index.mjs"
    model = ScriptedModel(TURNS)
    async with serving(model) as web:
        headers = {} if session is None else {"x-session-id": session}
        talk = {"base": base_of(web), "model": "desk", "stream": is_stream, "headers": headers}
        env = {"AI_SDK": f"file://{ai_sdk}", "PROVIDER": f"file://{provider}"}
        told = await run(["node", str(HERE / "ai_openai.mjs")], talk, **env)
        if session is None:
            await no_sessions(web)
    assert (told["shown"], told["text"]) == (["Lisbon", "Faro"], "Both.")
    assert told["reasons"] == ["tool-calls", "tool-calls", "stop"]
    assert (told["tokens"], told["failed"]) == (45, 404)
    assert [len(request.messages) for request in model.requests] == [1, 3, 5]


@pytest.mark.protocol(47)
@pytest.mark.services("litellm")
async def test_litellm_reads_completions_and_responses(litellm_command):
    """Streamed and not, with a function; its own exceptions for our errors."""
    model = ScriptedModel([*TURNS, *[says("Four", ".")] * 2])
    async with serving(model) as web:
        python = litellm_command.parent / "python"
        told = await run(
            [str(python), str(HERE / "litellm_client.py")], {"base": base_of(web), "model": "openai/desk"}
        )
        await no_sessions(web)
    assert (told["shown"], told["text"]) == (["Lisbon", "Faro"], "Both.")
    assert (told["response"], told["streamed"]) == ("Four.", "Four.")
    assert told["failed"] == "NotFoundError"


def base_of(web):
    """The base URL of its API."""
    host, port = web.address
    return f"http://{host}:{port}/v1"


async def run(command, talk, **env):
    """Run a peer with nothing of this process's environment but where programs are, and return what it prints."""
    given = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "TALK": json.dumps(talk), **env}
    start = partial(
        trio.run_process, command, capture_stdout=True, capture_stderr=True, check=False, env=given
    )
    done = await start()
    assert done.returncode == 0, done.stderr.decode()[-2_000:]
    return json.loads(done.stdout.splitlines()[-1])
