"""What an editor waits for: the agent's first answer, and the end of a cancelled prompt."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import IO, Any, Final, cast

from benchmarks.bars import target_of
from benchmarks.measure import Effort, Row, Sample, interleave, percentile, repeat
from benchmarks.ours import expect

_TRIES: Final = 3
_CANCELS: Final = 30
_NEW: Final = 2
_INITIALIZE: Final = {"protocolVersion": 1, "clientCapabilities": {}}


def editors(effort: Effort) -> list[Row]:
    """Start the agent, beside the import of the library; cancel prompts while a model streams."""
    started = interleave(partial(_least, _import), partial(_least, _initialize), effort.rounds)
    cancelled = repeat(partial(_cancels, effort.of(_CANCELS)), effort.rounds)
    return [
        started.row(
            "editors", "seconds", "agentrail acp until `initialize` is answered, to `import agentrail.app`",
            unit="ms", factor=1e3, target=target_of("acp start"),
        ),
        cancelled.row(
            "editors", "p99", "session/cancel to the response, while a model streams, p99",
            unit="ms", factor=1e3, target=target_of("acp cancel"),
        ),
    ]  # fmt: skip


def _least(run: Callable[[], float]) -> Sample:
    return {"seconds": min(run() for _ in range(_TRIES))}


def _import() -> float:
    began_at = perf_counter()
    subprocess.run((sys.executable, "-c", "import agentrail.app"), check=True)
    return perf_counter() - began_at


def _initialize() -> float:
    began_at = perf_counter()
    with _agent() as (to_agent, from_agent):
        _send(to_agent, 1, "initialize", _INITIALIZE)
        expect("the answer", json.loads(from_agent.readline())["id"], 1)
        return perf_counter() - began_at


def _cancels(count: int) -> Sample:
    took = []
    with _agent() as (to_agent, from_agent):
        _send(to_agent, 1, "initialize", _INITIALIZE)
        _send(to_agent, _NEW, "session/new", {"cwd": tempfile.gettempdir(), "mcpServers": []})
        session = _until(from_agent, lambda one: one.get("id") == _NEW)["result"]["sessionId"]
        for number in range(_NEW + 1, count + _NEW + 1):
            prompt = [{"type": "text", "text": "Hi"}]
            _send(to_agent, number, "session/prompt", {"sessionId": session, "prompt": prompt})
            _until(from_agent, lambda one: "chunk" in json.dumps(one))
            began_at = perf_counter()
            _send(to_agent, None, "session/cancel", {"sessionId": session})
            ended = _until(from_agent, lambda one, wanted=number: one.get("id") == wanted)
            took.append(perf_counter() - began_at)
            expect("how it ended", ended["result"]["stopReason"], "cancelled")
    return {"p99": percentile(took, 99)}


@contextmanager
def _agent() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    pipe = subprocess.PIPE
    with tempfile.TemporaryDirectory() as home:
        told = {"HOME": home, "AGENTRAIL_MODEL": "demo:", "AGENTRAIL_DATA_DIR": home}
        agent = subprocess.Popen(
            (sys.executable, "-m", "agentrail", "acp"), stdin=pipe, stdout=pipe, env={**os.environ, **told}
        )
        with agent:
            yield cast("IO[bytes]", agent.stdin), cast("IO[bytes]", agent.stdout)


def _send(to_agent: IO[bytes], rpc_id: int | None, method: str, params: Mapping[str, Any]) -> None:
    said = {"jsonrpc": "2.0", "method": method, "params": params}
    to_agent.write(json.dumps(said if rpc_id is None else {**said, "id": rpc_id}).encode() + b"\n")
    to_agent.flush()


def _until(from_agent: IO[bytes], is_it: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
    for line in from_agent:
        said: Mapping[str, Any] = json.loads(line)
        if is_it(said):
            return said
    raise EOFError
