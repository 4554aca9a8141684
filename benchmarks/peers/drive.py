"""One workload of one peer, run by the Python of its environment; prints what it measured as JSON.

    .bench-peers/autogen/bin/python benchmarks/peers/drive.py autogen growth turns=200

Written for the standard library and asyncio alone, as none of these has Trio. What differs between peers is in `of_<peer>.py`.
What only computes is taken in CPU time, so that it holds on a busy machine. Each run is held to its result.
"""

import asyncio
import gc
import importlib
import json
import logging
import os
import statistics
import sys
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any, Final, Protocol

TOOL: Final = "add"
SYSTEM: Final = "You are a calculator."
PROMPT: Final = "please add 2 and 3"
ANSWER: Final = "The sum is 5."
ARGUMENTS: Final = '{"a": 2, "b": 3}'

_WARM_UP: Final = 20
_BATCH: Final = 20
_EARLY: Final = slice(4, 15)  # around turn 10, as in benchmarks/cycles.py
_LATE: Final = slice(-11, None)
_FIRST_TURNS: Final = 5
_THRESHOLDS: Final = (10_000, 100, 50)  # those of agentrail.gc_settings.many_sessions()


@dataclass
class Scenario:
    """What the model that is played does, and what came of it.

    Attributes:
        calls: How many tool calls its first response has.
        delay_seconds: How long it takes for each response.
        tools_ended: How many calls ended, as the tool counts.
        ids: How many calls were made.
    """

    calls: int = 1
    delay_seconds: float = 0.0
    tools_ended: int = 0
    ids: int = 0

    def call_id(self) -> str:
        """Make the id of a call."""
        self.ids += 1
        return f"call_{self.ids:08d}"

    async def think(self) -> None:
        """Take the time of a response: at least one turn of the loop, as a real model does, and those of `bare.py` and `ours.py`."""
        await asyncio.sleep(self.delay_seconds)

    async def add(self, a: int, b: int) -> int:
        """Add two integers, after a turn of the loop, as the tools of `bare.py` and `ours.py` do."""
        self.tools_ended += 1
        await asyncio.sleep(0)
        return a + b


class Peer(Protocol):
    """What `of_<peer>.py` has as `Peer`. An agent has the model and the tool; a session is one conversation with it."""

    def build(self, scenario: Scenario) -> Any:
        """Make an agent with the model that is played and the one tool."""

    def new_session(self, agent: Any) -> Any:
        """Begin a conversation."""

    async def prompt(self, agent: Any, session: Any, text: str) -> str:
        """Ask, and wait for the answer."""

    def build_openai(self, url: str) -> Any:
        """Make an agent without tools on the peer's own client of OpenAI's chat completions."""

    async def stream(self, agent: Any, session: Any, text: str, on_first: Callable[[], None]) -> str:
        """Ask, read the stream of the answer, say when the first of it is there, and give all of it."""


def expect(what: str, came: object, wanted: object) -> None:
    """Refuse to report on work that was not done."""
    if came != wanted:
        message = f"the peer did not do its work: {what} is {came!r:.200}, expected {wanted!r:.200}"
        raise RuntimeError(message)


async def fresh(peer: Peer, count: int) -> dict[str, float]:
    """A cycle with one tool call, each in a conversation of its own, the beginning of which counts."""
    return {"seconds": await _cycles(peer, count, 1)}


async def batch(peer: Peer, count: int) -> dict[str, float]:
    """Twenty no-op tools in one response, and what one more of them costs."""
    many, one = await _cycles(peer, count, _BATCH), await _cycles(peer, count, 1)
    return {"seconds": many, "more_seconds": (many - one) / (_BATCH - 1)}


async def _cycles(peer: Peer, count: int, calls: int) -> float:
    scenario = Scenario(calls=calls)
    agent = peer.build(scenario)
    for _ in range(_WARM_UP):
        await peer.prompt(agent, peer.new_session(agent), PROMPT)
    gc.collect()  # of all that was imported: in so short a run one such look is half of it
    ended = scenario.tools_ended
    began_at = process_time()
    for _ in range(count):
        expect("the answer", await peer.prompt(agent, peer.new_session(agent), PROMPT), ANSWER)
    took = process_time() - began_at
    expect("the ended tools", scenario.tools_ended - ended, count * calls)
    return took / count


async def turns(peer: Peer, count: int) -> dict[str, float]:
    """The first turns of so many conversations. Nobody reads their events, so both rows are the same here."""
    taken = [await _turns(peer, _FIRST_TURNS) for _ in range(count)]
    return {
        f"{kind}_{number}_seconds": statistics.median(took)
        for number, took in enumerate(zip(*taken, strict=True), 1)
        for kind in ("turn", "unread_turn")
    }


async def growth(peer: Peer, count: int) -> dict[str, float]:
    """One conversation of so many turns: around the tenth, and the last ones."""
    took = await _turns(peer, count)
    return {"early_seconds": statistics.median(took[_EARLY]), "late_seconds": statistics.median(took[_LATE])}


async def _turns(peer: Peer, count: int) -> list[float]:
    scenario = Scenario()
    agent = peer.build(scenario)
    session = peer.new_session(agent)
    took = []
    for _ in range(count):
        began_at = process_time()
        expect("the answer", await peer.prompt(agent, session, PROMPT), ANSWER)
        took.append(process_time() - began_at)
    expect("the ended tools", scenario.tools_ended, count)
    return took


async def starts(peer: Peer, count: int) -> dict[str, float]:
    """A conversation with an agent that is there, and one with an agent and a tool of its own."""
    agent = peer.build(Scenario())
    held = [peer.new_session(agent) for _ in range(_WARM_UP)]
    gc.collect()
    began_at = process_time()
    held += [peer.new_session(agent) for _ in range(count)]
    shared = process_time() - began_at
    began_at = process_time()
    owned = [(own := peer.build(Scenario()), peer.new_session(own)) for _ in range(count)]
    own_seconds = process_time() - began_at
    expect("the answer", await peer.prompt(*owned[-1], PROMPT), ANSWER)
    return {"seconds": shared / count, "own_seconds": own_seconds / count}


async def crowd(peer: Peer, count: int) -> dict[str, float]:
    """So many at once, from nothing to their answers, each behind a model that takes 100 ms for a response."""
    warm = peer.build(Scenario())
    for _ in range(_WARM_UP):
        await peer.prompt(warm, peer.new_session(warm), PROMPT)
    scenario = Scenario(delay_seconds=0.1)
    gc.collect()
    began_at, cpu_at = perf_counter(), process_time()
    agent = peer.build(scenario)
    sessions = [peer.new_session(agent) for _ in range(count)]
    said = await asyncio.gather(*(peer.prompt(agent, session, PROMPT) for session in sessions))
    took = {"wall_seconds": perf_counter() - began_at, "cpu_seconds": process_time() - cpu_at}
    expect("the answers", set(said), {ANSWER})
    expect("the ended tools", scenario.tools_ended, count)
    return took


async def tuned_crowd(peer: Peer, count: int) -> dict[str, float]:
    """The same, with the collector that `many_sessions()` makes."""
    gc.set_threshold(*_THRESHOLDS)
    gc.freeze()
    return await crowd(peer, count)


async def burst(peer: Peer, count: int) -> dict[str, float]:
    """A response of so many deltas sent at once, over a socket; the address of the server is in the environment."""
    agent = peer.build_openai(f"{os.environ['BENCH_SERVER']}/{count}/0")
    wanted = "".join(f" w{number:04d}" for number in range(count))
    whole, first, cpu = [], [], []
    for _ in range(6):
        came: list[float] = []
        began_at, cpu_at = perf_counter(), process_time()
        said = await peer.stream(agent, peer.new_session(agent), PROMPT, lambda: came.append(perf_counter()))  # noqa: B023 - called in this round
        whole.append(perf_counter() - began_at)
        cpu.append(process_time() - cpu_at)
        first.append(came[0] - began_at)
        expect("the text", said.strip(), wanted.strip())
    return {
        "seconds": statistics.median(cpu[1:]),  # the first one opens the connection
        "wall_seconds": statistics.median(whole[1:]),
        "first_seconds": statistics.median(first[1:]),
    }


WORKLOADS: Final[dict[str, Callable[[Peer, int], Awaitable[dict[str, float]]]]] = {
    "fresh": fresh,
    "batch": batch,
    "turns": turns,
    "growth": growth,
    "starts": starts,
    "crowd": crowd,
    "tuned-crowd": tuned_crowd,
    "burst": burst,
}


def main() -> None:
    """Do what the command line says."""
    name, workload, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    peer: Peer = importlib.import_module(f"of_{name.replace('-', '_')}").Peer()

    async def measure() -> dict[str, float]:
        return await WORKLOADS[workload](peer, count)

    print(f"\n{json.dumps(asyncio.run(measure()))}", flush=True)
    os._exit(0)  # clients that are still open, and threads, are not waited for


if __name__ == "__main__":
    # The adapters import this file by its name; it must not be there twice.
    sys.modules["drive"] = sys.modules["__main__"]
    main()
