"""The official client for JavaScript calls a server of ours with a function of its own (11.14)."""

import json
import os
from pathlib import Path

import pytest
import trio

from agentrail.testing.models import ScriptedModel, calls, says
from tests.gateway.protocols.test_openai_chat_calls import no_sessions
from tests.gateway.web import serving
from tests.runtime.rig import on_bounded_time

HERE = Path(__file__).parent
pytestmark = [pytest.mark.check, pytest.mark.services("openai"), on_bounded_time]


@pytest.mark.protocol(47)
@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("session", [None, "c1"])
async def test_run_tools_calls_its_function_twice_and_has_the_answer(openai_js, is_stream, session):
    """P-047: streamed and not, in one session: the model has the whole conversation once."""
    model = ScriptedModel([calls(("show", {"at": "Lisbon"})), calls(("show", {"at": "Faro"})), says("Both.")])
    async with serving(model) as web:
        host, port = web.address
        headers = {} if session is None else {"x-session-id": session}
        talk = {"base": f"http://{host}:{port}/v1", "model": "desk", "stream": is_stream, "headers": headers}
        env = {"PATH": os.environ["PATH"], "OPENAI": f"file://{openai_js}", "TALK": json.dumps(talk)}
        command = ["node", str(HERE / "openai_client.mjs")]
        done = await trio.run_process(command, capture_stdout=True, env=env)
        if session is None:
            await no_sessions(web)
    told = json.loads(done.stdout)
    assert (told["shown"], told["text"]) == (["Lisbon", "Faro"], "Both.")
    assert told["roles"] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert [len(request.messages) for request in model.requests] == [1, 3, 5]
