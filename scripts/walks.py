"""How much code one prompt passes through: `python -m scripts.walks [prompt|tool|chat] [--list]`.

Counts the files, functions and calls of the package, and how deep its frames stand in each task, for a second prompt to a
session that is already running. The counts are the same in each run of one version of Python. `--list` prints the files with
their calls: a file that is entered for one call is one that a condition in the caller could save.
"""

import argparse
import json
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Final

import trio
from attrs import field, frozen

import agentrail
from agentrail.gateway.app import create_app
from agentrail.gateway.serving import addresses_of, open_listeners, serve_app
from agentrail.host.agent_profiles import AgentProfile
from agentrail.testing.models import ScriptedModel, calls, says

PACKAGE: Final = Path(agentrail.__file__).parent
SETTLE_SECONDS: Final = 0.2
"""Time for a finished prompt to leave no work behind."""


@frozen(kw_only=True)
class Walk:
    """What one prompt passed through."""

    calls_by_file: Mapping[str, int]
    functions: int
    depth_by_task: Mapping[str, int]

    @property
    def files(self) -> int:
        """Number of files that were entered."""
        return len(self.calls_by_file)

    @property
    def calls(self) -> int:
        """Number of calls."""
        return sum(self.calls_by_file.values())

    @property
    def depth(self) -> int:
        """Most frames of the package that stood on each other in one task."""
        return max(self.depth_by_task.values(), default=0)


_PERIODIC: Final = frozenset({"watch sockets"})
"""Tasks that look after the server every few seconds: whether one wakes up during a walk depends on the clock."""


@frozen
class _Recorder:
    """A profiler that counts the calls of the package."""

    calls: Counter[str] = field(factory=Counter)
    functions: set[str] = field(factory=set)
    depths: dict[str, int] = field(factory=dict)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        place = _place(frame)
        if event != "call" or place is None or (task := _task_name()) in _PERIODIC:
            return
        self.calls[place] += 1
        self.functions.add(f"{place} {frame.f_code.co_qualname}")
        depth, at = 0, frame.f_back
        while at is not None:
            depth, at = depth + (_place(at) is not None), at.f_back
        self.depths[task] = max(self.depths.get(task, 0), depth + 1)

    def finish(self) -> Walk:
        return Walk(
            calls_by_file=dict(sorted(self.calls.items())),
            functions=len(self.functions),
            depth_by_task=dict(sorted(self.depths.items())),
        )


_PREFIX: Final = f"{PACKAGE}/"


def _place(frame: FrameType) -> str | None:
    path = frame.f_code.co_filename
    return path[len(_PREFIX) :] if path.startswith(_PREFIX) else None


def _task_name() -> str:
    try:
        return trio.lowlevel.current_task().name
    except RuntimeError:
        return "outside a task"


@contextmanager
def _recording() -> Iterator[_Recorder]:
    recorder = _Recorder()
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    try:
        yield recorder
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@agentrail.tool
async def weather(city: str) -> str:
    """Return the weather of a city."""
    return city


async def _walk_session(*, has_tool: bool) -> Walk:
    turns = [calls(("weather", {"city": "Lisbon"})), says("Clear.")] if has_tool else [says("Hello.")]
    async with agentrail.open_supervisor() as supervisor:
        session = await supervisor.start_session(model=ScriptedModel(turns * 2), tools=[weather])
        await session.ask("Warm up.")
        await trio.sleep(SETTLE_SECONDS)
        with _recording() as recorder:
            await session.ask("Hi")
        return recorder.finish()


async def _walk_chat() -> Walk:
    profile = AgentProfile(id="desk", name="Desk", options=agentrail.SessionOptions(model="demo:fast"))
    app = create_app(profiles=[profile])
    listeners = await open_listeners("127.0.0.1", 0)
    (address,) = addresses_of(listeners)
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_app, app, listeners, stop.wait))
        await _post_chat(address)
        await trio.sleep(SETTLE_SECONDS)
        with _recording() as recorder:
            await _post_chat(address)
            await trio.sleep(SETTLE_SECONDS)
        stop.set()
    return recorder.finish()


async def _post_chat(address: tuple[str, int]) -> None:
    body = json.dumps({"message": "What can you do?", "session_id": "main"}).encode()
    head = f"POST /chat HTTP/1.1\r\nhost: {address[0]}:{address[1]}\r\nconnection: close\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    async with await trio.open_tcp_stream(*address) as stream:
        await stream.send_all(head.encode() + body)
        answer = b"".join([piece async for piece in stream])
    if not answer.startswith(b"HTTP/1.1 200 "):
        message = f"POST /chat was answered {answer[:200]!r}"
        raise RuntimeError(message)


WALKS: Final[Mapping[str, Callable[[], Awaitable[Walk]]]] = MappingProxyType(
    {
        "prompt": partial(_walk_session, has_tool=False),
        "tool": partial(_walk_session, has_tool=True),
        "chat": _walk_chat,
    }
)
"""The measured walks: a prompt, a prompt with one tool call, `POST /chat` with the demo model."""


def measure(name: str) -> Walk:
    """Run one of the `WALKS`.

    Raises:
        KeyError: There is no walk of this name.
    """
    return trio.run(WALKS[name])


def report(name: str, walk: Walk, *, lists_files: bool = False) -> Iterator[str]:
    """Format a walk as lines of text."""
    yield (
        f"{name}: {walk.files} files, {walk.functions} functions, {walk.calls} calls, {walk.depth} frames deep"
    )
    if lists_files:
        yield from (f"  {number:5d} calls  {file}" for file, number in walk.calls_by_file.items())
        yield from (f"  {number:5d} deep   {task}" for task, number in walk.depth_by_task.items())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Count what a prompt passes through.")
    parser.add_argument("walk", nargs="?", choices=tuple(WALKS))
    parser.add_argument(
        "--list", action="store_true", help="print the files with their calls, and the depth per task"
    )
    given = parser.parse_args()
    for wanted in WALKS if given.walk is None else (given.walk,):
        sys.stdout.writelines(f"{line}\n" for line in report(wanted, measure(wanted), lists_files=given.list))
