"""The command against a server that we did not write, in each format that it speaks."""

import json

import pytest

from tests.cli.rig import run_agentrail
from tests.peers import Aimock

pytestmark = pytest.mark.services("aimock")

KEYS = {"OPENAI_API_KEY": "any", "ANTHROPIC_API_KEY": "any"}
ONCE = ("--max-retries", "0")  # the server says the same each time, and what is tested is what the user reads


@pytest.fixture(params=["openai", "openai-chat", "anthropic"])
def options(request, aimock: Aimock) -> tuple[str, ...]:
    """The options that lead to the peer."""
    url = aimock.base_url_anthropic if request.param == "anthropic" else aimock.base_url_openai
    return ("--model", f"{request.param}:any", "--base-url", url)


async def test_a_run_streams_text_runs_a_tool_and_finishes(options, tmp_path):
    """The model calls `list_dir`, reads its result and answers; exit code 0."""
    (tmp_path / "a.py").write_text("pass\n")
    ran = await run_agentrail("run", "list what is here", *options, "--cwd", str(tmp_path), variables=KEYS)
    assert ran.code == 0
    assert ran.out == "That is what is in here.\n"
    assert '→ list_dir(path=".")\n  ✓ [file] a.py' in ran.err


async def test_the_text_comes_in_pieces(options):
    """What the server streams arrives as more than one delta."""
    ran = await run_agentrail("run", "hello", *options, "--json", variables=KEYS)
    events = [json.loads(line) for line in ran.out.splitlines()]
    deltas = [event["delta"] for event in events if event["kind"] == "message_delta"]
    assert ran.code == 0
    assert "".join(deltas) == "Hello from the mock."
    (complete,) = [event for event in events if event["kind"] == "response_complete"]
    # One format has an item beside it that only its vendor understands.
    seen = [block for block in complete["message"]["content"] if block["kind"] != "opaque"]
    assert seen == [{"kind": "text", "text": "Hello from the mock."}]


async def test_two_calls_of_one_response_run_side_by_side(options, tmp_path):
    """Both calls are shown and answered before the model goes on."""
    (tmp_path / "README.md").write_text("# Both\n")
    ran = await run_agentrail("run", "parallel", *options, "--cwd", str(tmp_path), variables=KEYS)
    assert ran.code == 0
    assert ran.out == "Looking.\nI have read both.\n"
    assert '→ list_dir(path=".")\n→ read_file(path="README.md"' in ran.err
    assert ran.err.count("✓") == 2


async def test_a_rate_limit_says_how_long_to_wait(options):
    """A 429 with Retry-After: 7 fails the cycle, and the sentence says when to try again."""
    ran = await run_agentrail("run", "ratelimit", *options, *ONCE, variables=KEYS)
    assert ran.code == 1
    assert "Too many requests" in ran.err
    assert "try again in 7 s" in ran.err
    assert "Traceback" not in ran.err


async def test_a_stream_that_is_cut_is_no_answer(options):
    """A connection that breaks off fails the cycle, and the sentence says what to do."""
    ran = await run_agentrail("run", "cut", *options, *ONCE, variables=KEYS)
    assert ran.code == 1
    assert "before the answer was complete" in ran.err
    assert "look at the network and at --base-url, then try again" in ran.err
    assert "Traceback" not in ran.err


async def test_an_overloaded_server_is_said(options):
    """A 529 is the server's trouble, and the sentence says so."""
    ran = await run_agentrail("run", "overloaded", *options, *ONCE, variables=KEYS)
    assert ran.code == 1
    assert "try again in a minute" in ran.err


async def test_an_answer_that_reached_its_limit_is_done_and_says_so(options):
    """The cycle is done, and stderr says that the text is not all."""
    ran = await run_agentrail("run", "long", *options, variables=KEYS)
    assert ran.code == 0
    assert "it reached the model's output limit" in ran.err


async def test_the_doctor_reaches_the_peer(options):
    """Whatever the peer lists, it answers."""
    ran = await run_agentrail("doctor", *options, variables=KEYS)
    assert ran.code == 0
    assert "✗" not in ran.out
