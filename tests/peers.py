"""Servers that we did not write, as the tests start them: aimock, which speaks the formats of the vendors, and LiteLLM.

A room that wants the fixture imports it in its `conftest.py`, and its tests are marked `services("aimock")`, so that
they are skipped, or fail in CI, where it is not installed:

    from tests.peers import aimock

    __all__ = ["aimock"]
"""

import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen

_START_SECONDS = 120  # for LiteLLM on a busy machine; the other one needs one
_LISTENS = re.compile(r"(?:listening|running) on (http://127\.0\.0\.1:\d+)")


@frozen(kw_only=True)
class Aimock:
    """A running aimock, with its addresses. What it answers depends on a word in the last user message, see `_FIXTURES`."""

    base_url_openai: str
    base_url_anthropic: str
    base_url_google: str


def _call(name: str, **arguments: str) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


def _answer(word: str, response: dict[str, object], **more: object) -> dict[str, object]:
    return {"match": {"userMessage": word}, "response": response, **more}


def _answer_after_tools(word: str, content: str) -> dict[str, object]:
    return {"match": {"userMessage": word, "hasToolResult": True}, "response": {"content": content}}


_LIST, _READ = _call("list_dir", path="."), _call("read_file", path="README.md")
_LIMITED = {"message": "Too many requests", "type": "rate_limit_error"}
_OVERLOADED = {"message": "Overloaded", "type": "overloaded_error"}
# The first that matches counts. `hasToolResult` looks at what came after the last user message only, so the second
# leg of a loop is told from the first without any state in the server, and tests may share it.
_FIXTURES: list[dict[str, object]] = [
    _answer_after_tools("weather", "It is sunny in Lisbon."),
    _answer("weather", {"toolCalls": [_call("get_weather", city="Lisbon")]}),
    _answer_after_tools("parallel", "I have read both."),
    _answer("parallel", {"content": "Looking.", "toolCalls": [_LIST, _READ]}),
    _answer_after_tools("list", "That is what is in here."),
    _answer("list", {"toolCalls": [_LIST]}),
    _answer("think", {"content": "Forty-two.", "reasoning": "Let me think about it."}),
    _answer("ratelimit", {"error": _LIMITED, "status": 429, "retryAfter": 7}),
    _answer("overloaded", {"error": _OVERLOADED, "status": 529}),
    _answer("cut", {"content": "This text ends in the middle of what it says."}, truncateAfterChunks=5),
    _answer("long", {"content": "And so on", "finishReason": "length"}),
    {"match": {}, "response": {"content": "Hello from the mock."}},
]


@pytest.fixture(scope="session")
def aimock(aimock_command: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aimock]:
    """An aimock on a free port, for the whole run; in CI a missing one fails the tests that are marked for it."""
    fixtures = tmp_path_factory.mktemp("aimock") / "fixtures.json"
    fixtures.write_text(json.dumps({"fixtures": _FIXTURES}), "utf-8")
    arguments = ["--port", "0", "--host", "127.0.0.1", "--fixtures", str(fixtures), "--chunk-size", "6"]
    with subprocess.Popen(
        [aimock_command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as peer:
        try:
            url = _address(peer)
            yield Aimock(base_url_openai=f"{url}/v1", base_url_anthropic=url, base_url_google=url)
        finally:
            peer.kill()


@frozen(kw_only=True)
class Litellm:
    """A running LiteLLM proxy in front of an aimock. It speaks three formats, and translates."""

    url: str
    key: str = "sk-the-key-of-the-proxy"
    models: tuple[str, ...] = ("chat", "claude")


@pytest.fixture(scope="session")
def litellm(
    aimock: Aimock, litellm_command: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Litellm]:
    """A LiteLLM proxy on a free port, for the whole run."""
    with socket.create_server(("127.0.0.1", 0)) as free:  # it cannot be told to choose one itself
        port = free.getsockname()[1]
    config = tmp_path_factory.mktemp("litellm") / "config.json"  # YAML holds JSON
    proxy = Litellm(url=f"http://127.0.0.1:{port}")
    config.write_text(json.dumps(_litellm_config(aimock, proxy)), "utf-8")
    arguments = ["--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    # An environment of its own: no key of the machine, no proxy, and no download of a table of prices.
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(config.parent),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    with subprocess.Popen(
        [litellm_command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    ) as peer:
        try:
            _address(peer)
            yield proxy
        finally:
            peer.kill()


def _litellm_config(aimock: Aimock, proxy: Litellm) -> dict[str, object]:
    behind = {
        "chat": ("openai/any", aimock.base_url_openai),
        "claude": ("anthropic/any", aimock.base_url_anthropic),
    }
    return {
        "model_list": [
            {"model_name": name, "litellm_params": {"model": model, "api_base": url, "api_key": "any"}}
            for name, (model, url) in behind.items()
        ],
        "general_settings": {"master_key": proxy.key},
        "router_settings": {"num_retries": 0},
        "litellm_settings": {"telemetry": False, "num_retries": 0, "drop_params": True},
    }


def _address(peer: "subprocess.Popen[str]") -> str:
    """Read the address that it prints, and go on reading in a thread, so that its output never fills the pipe."""
    assert peer.stdout is not None
    killer = threading.Timer(_START_SECONDS, peer.kill)
    killer.start()
    lines: list[str] = []
    try:
        for line in peer.stdout:
            lines.append(line)
            if found := _LISTENS.search(line):
                threading.Thread(target=peer.stdout.read, daemon=True).start()
                return found[1]
    finally:
        killer.cancel()
    message = f"{peer.args!r} did not start: {''.join(lines)}"
    raise AssertionError(message)
