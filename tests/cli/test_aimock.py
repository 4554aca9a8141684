"""The command against a server that we did not write, in each format that it speaks."""

import json

import pytest

from tests.cli.rig import run_agentrail
from tests.peers import Aimock

pytestmark = pytest.mark.services("aimock")


@pytest.fixture(params=["openai", "openai-chat", "anthropic"])
def ask(request, aimock: Aimock):
    """Runs a command with the options that lead to the peer."""
    url = aimock.base_url_anthropic if request.param == "anthropic" else aimock.base_url_openai

    async def run(*words):
        keys = {"OPENAI_API_KEY": "any", "ANTHROPIC_API_KEY": "any"}
        return await run_agentrail(
            *words, "--model", f"{request.param}:any", "--base-url", url, variables=keys
        )

    return run


async def test_a_run_streams_text_and_runs_tools_side_by_side(ask, tmp_path):
    """The model calls tools, reads their results and answers; what the server streams arrives as more than one delta."""
    (tmp_path / "README.md").write_text("# Both\n")
    ran = await ask("run", "list what is here", "--cwd", str(tmp_path))
    assert (ran.code, ran.out) == (0, "That is what is in here.\n")
    assert '→ list_dir(path=".")\n  ✓ [file] README.md' in ran.err

    ran = await ask("run", "parallel", "--cwd", str(tmp_path))
    assert (ran.code, ran.out) == (0, "Looking.\nI have read both.\n")
    assert '→ list_dir(path=".")\n→ read_file(path="README.md"' in ran.err
    assert ran.err.count("✓") == 2

    ran = await ask("run", "hello", "--json")
    events = [json.loads(line) for line in ran.out.splitlines()]
    deltas = [event["delta"] for event in events if event["kind"] == "message_delta"]
    assert (ran.code, "".join(deltas)) == (0, "Hello from the mock.")
    (complete,) = [event for event in events if event["kind"] == "response_complete"]
    # One format has an item beside it that only its vendor understands.
    seen = [block for block in complete["message"]["content"] if block["kind"] != "opaque"]
    assert seen == [{"kind": "text", "text": "Hello from the mock."}]

    ran = await ask("doctor")
    assert (ran.code, "✗" in ran.out) == (0, False)


async def test_what_a_server_cannot_do_is_said_with_what_to_do(ask):
    """A 429 with Retry-After, a stream that is cut, a 529: the cycle fails. An answer that reached its limit is done, and says so."""
    for prompt, code, *words in (
        ("ratelimit", 1, "Too many requests", "try again in 7 s"),
        ("cut", 1, "before the answer was complete", "look at the network and at --base-url, then try again"),
        ("overloaded", 1, "try again in a minute"),
        ("long", 0, "it reached the model's output limit"),
    ):
        ran = await ask("run", prompt, "--max-retries", "0")
        assert ran.code == code, prompt
        assert all(word in ran.err for word in words), ran.err
        assert "Traceback" not in ran.err
