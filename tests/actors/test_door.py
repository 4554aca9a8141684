"""The door of the room: what users of actors write stands in it, and what its types promise an editor can complete.

What is not called in here is read: by mypy, which `make lint` runs over the tests too.
"""

import ast
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import assert_never, assert_type

import agentrail.actors
from agentrail.actors import (
    ActorDown,
    ActorHandle,
    Address,
    Behaviour,
    Call,
    ChildDown,
    ChildGone,
    ChildRestarted,
    ChildUp,
    Crashed,
    ExitReason,
    Init,
    InitFailed,
    Keep,
    Killed,
    NoProcess,
    Normal,
    Pool,
    PoolFlags,
    Reply,
    RequestFor,
    Shutdown,
    Stuck,
    Supervisor,
    open_pool,
    watch,
)
from agentrail.otp.child_specs import ChildSpec
from tests.actors.rig import on_virtual_time

ROOT = Path(__file__).parents[2]


class Total(RequestFor[int]):
    """How much is in the till."""


async def square(number: int) -> float:
    """Be some work."""
    return number * 1.0


@asynccontextmanager
async def connect() -> AsyncIterator[list[str]]:
    """Be some resource."""
    yield []


async def fetch(connection: list[str], path: bytes) -> str:
    """Be work that has one."""
    return ""


def word(reason: ExitReason) -> str:
    """Match on every reason there is."""
    match reason:
        case Normal() | Shutdown() | Killed() | NoProcess():
            return "ended"
        case Crashed(text=text):
            return text
        case InitFailed(why=why):
            return why
        case Stuck(seconds=seconds):
            return str(seconds)
        case _:
            assert_never(reason)


async def use(supervisor: Supervisor, handle: ActorHandle, address: Address) -> None:
    """Say of each thing what type it has: mypy fails where it has another."""
    assert_type(supervisor.handle("a"), ActorHandle)
    assert_type(supervisor.handle("a", kind="worker"), ActorHandle)
    assert_type(supervisor.handle("a", kind="supervisor"), Supervisor)
    assert_type(await handle.call(Total()), int)
    assert_type(await address.call(Total()), int)
    assert_type(await handle.call("total"), object)
    try:
        await handle.call("x")
    except ActorDown as error:
        word(error.reason)
    async with open_pool(square, PoolFlags(1)) as pool:
        assert_type(pool, Pool[int, float])
        assert_type(await pool.run(1), float)
        assert_type(await (await pool.submit(1)).result(), float)
    async with open_pool(fetch, PoolFlags(1), resource=connect) as other:
        assert_type(await other.run(b""), str)
    async with watch(supervisor, "a") as watching:
        async for event in watching:
            match event:
                case ChildUp(handle=found) | ChildRestarted(handle=found):
                    assert_type(found, ActorHandle)
                case ChildDown(reason=reason) | ChildGone(reason=reason):
                    word(reason)
                case _:
                    assert_never(event)


def test_all_that_the_pages_import_stands_in_the_door():
    """Nobody who follows a page has to know which file a name lives in."""
    names = set(agentrail.actors.__all__)
    assert len(names) == len(agentrail.actors.__all__)
    inside = {
        alias.name
        for page in (ROOT / "docs" / "how-to").glob("*.md")
        for fence in page.read_text(encoding="utf-8").split("```python\n")[1:]
        for node in ast.walk(ast.parse(fence.split("\n```")[0]))
        if isinstance(node, ast.ImportFrom)
        and str(node.module).startswith(("agentrail.actors", "agentrail.otp"))
        for alias in node.names
    }
    assert inside
    assert inside <= names


class Till(Behaviour[str, int]):
    """Has something in it."""

    async def init(self):
        """Begin with three."""
        return Init("open", 3)

    def handle(self, event, state, data):
        """Say how much."""
        match event:
            case Call(to, Total()):
                return Keep(actions=[Reply(to, data)])
        return Keep()


@on_virtual_time
async def test_a_typed_request_is_a_message_like_any_other(stage):
    """Its base is for type checkers; a machine sees the object."""
    async with stage.open(children=[ChildSpec("till", agentrail.actors.machine(Till))]) as supervisor:
        assert await supervisor.handle("till").call(Total()) == 3
        assert await supervisor.address("till").call(Total()) == 3
