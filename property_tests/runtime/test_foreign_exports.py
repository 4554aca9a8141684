"""Whoever writes a file of an export can make its hashes fit: its sessions are read or refused with a typed error, and can be deleted."""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any, Final

import msgspec
import trio
from hypothesis import given, strategies as st
from msgspec.structs import replace

from agentrail.core.journal.exports import ExportedSession, encode_export, read_export
from agentrail.errors import AgentrailError
from agentrail.events import AskUser
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools.ask_user import ask_user
from agentrail.tools.task import TaskTool
from tests.core.journal.recorded import resealed
from tests.runtime.rig import open_over, saying

TOOLS: Final = (TaskTool(), ask_user)
NUMBERS: Final = (-(2**63), -1, 0, 1, 2**53, 2**63 - 1, 2**64 - 1, 1e308, 0.5)
OTHERS: Final[tuple[Any, ...]] = (*NUMBERS, True, None, "", "x", "s-1", "\0", "../..", [], [[]], {}, {"x": 1})


@cache
def exported() -> tuple[ExportedSession, ...]:
    """A session with a sub-agent and a large value, that was resumed, and then waits for a user with two messages behind."""

    async def main():
        store = MemoryStore()
        task = calls(("task", {"description": "Look."}))
        async with open_over(store) as supervisor:
            model = ScriptedModel([task, says("below"), says("above")])
            session = await supervisor.start_session(model=model, tools=TOOLS, session_id="s-1")
            await session.ask("x" * 70_000)
        async with open_over(store) as supervisor:
            model = ScriptedModel([calls(("ask_user", {"question": "Which?"})), says("x"), says("y")])
            session = await supervisor.resume_session("s-1", model=model, tools=TOOLS)
            async with session.subscribe() as events:
                await session.prompt("go")
                async for event in events:
                    if isinstance(event, AskUser):
                        break
            await session.prompt("queued")
            data = await supervisor.export_session("s-1")
            await session.abort("it is exported")
            return data

    return read_export(trio.run(main))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: object) -> Any:
    """The same value with another one at this place."""
    if not path:
        return new
    copied = value.copy()
    copied[path[0]] = changed(value[path[0]], path[1:], new)
    return copied


@st.composite
def exports(draw: st.DrawFn) -> bytes:
    """The file with one value in one record changed, or up to four."""
    sessions = list(exported())
    blobs = {digest: content for one in sessions for digest, content in one.blobs.items()}

    def blob(digest: str) -> bytes:
        return blobs.get(digest, b"")  # also a file whose records refer to values that it does not have

    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(sessions) - 1))
        one = sessions[place]
        record = draw(st.sampled_from(one.records))
        facts: dict[str, Any] = {}
        if draw(st.integers(0, 3)):
            body = msgspec.json.decode(record.body)
            path = draw(st.sampled_from(list(places(body))))
            facts["body"] = msgspec.json.encode(changed(body, path, draw(st.sampled_from(OTHERS))))
        elif draw(st.booleans()):
            facts["kind"] = draw(st.sampled_from([record.kind for record in one.records]))
        else:
            facts[draw(st.sampled_from(["events", "at_ms"]))] = draw(st.sampled_from(NUMBERS[:-2]))
        sessions[place] = replace(one, records=tuple(resealed(one.records, {record.seq: facts})))
    return b"".join(line for one in sessions for line in encode_export(one.head, one.records, blob))


@given(data=st.data())
def test_what_an_export_says_is_read_or_refused(data):
    """Each reader of the store, and the session itself, which goes on or says why not. What nothing can read is deleted."""
    exported()  # not while a strategy draws: Trio uses `random`
    foreign = data.draw(exports())

    async def main():
        store = MemoryStore()
        with trio.fail_after(60):
            async with open_over(store) as supervisor:
                with suppress(AgentrailError):
                    await supervisor.import_session(foreign)
                for kind in ("jsonl", "markdown", "otlp", "scenario"):
                    with suppress(AgentrailError):
                        await supervisor.export_session("s-1", format=kind)
                for read in (supervisor.events_page, supervisor.stored_state):
                    with suppress(AgentrailError):
                        await read("s-1")
                await supervisor.spendings()
                with suppress(AgentrailError):
                    session = await supervisor.resume_session("s-1", model=saying("b", "c"), tools=TOOLS)
                    await session.ask("And now?")
            async with open_over(store) as supervisor:
                for one in await supervisor.find():
                    if one.session == one.root:
                        await supervisor.delete_session(one.session, scope=one.scope)
                assert not await supervisor.find()

    trio.run(main)
