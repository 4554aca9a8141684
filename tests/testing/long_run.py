"""One long run with faults: `python -m tests.testing.long_run SEED` prints its digest.

Twenty sessions with eight tools each, models and tools that fail, threads, children, steers, aborts, stops and crashes of
actors, and all that the machine would give from the seed.
"""

import argparse
import gc
import json
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from random import Random
from typing import Any

import structlog
import trio

from agentrail import tool
from agentrail.abc import Tool, ToolContext
from agentrail.core.protocol.request import ModelRequest
from agentrail.errors import AgentrailError
from agentrail.events import ApprovalRequired, AskUser
from agentrail.outside import RealMachine
from agentrail.plugins.human_approval import HumanApproval
from agentrail.runtime.session_handle import Session
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.testing import digest as digest_module
from agentrail.testing.cancelling import crash
from agentrail.testing.digest import Digest, SeededRun, run_seeded
from agentrail.testing.faults import FaultPlan
from agentrail.testing.models import FunctionModel, Turn, calls, says
from agentrail.testing.seeded import SeededMachine
from agentrail.testing.taken import no_lost_items
from agentrail.testing.tools import HangingTool, LedgerTool, RecordingTool, StubbornTool
from agentrail.tools import builtin
from tests.runtime.rig import open_bare

SESSIONS = 20
VIRTUAL_HOURS = 4.0


@tool
def compute(number: int = 3) -> str:
    """Work in a thread, and ask whether to go on."""
    return str(sum(range(number)))


@tool(abandonable=True)
def listen(ctx: ToolContext) -> str:
    """Work in a thread that may be left behind, and say so."""
    ctx.report_progress(f"{ctx.seconds_left():.3f} s left")
    ctx.check_cancelled()
    return "heard"


@tool
async def asks(ctx: ToolContext) -> str:
    """Put a question before the user."""
    return await ctx.ask_user("which?", ["a", "b"], timeout_seconds=30) or "no answer"


NAMES = ("record", "ledger", "hang", "stubborn", "compute", "listen", "asks", "task")


class World:
    names: Any = NAMES

    def __init__(self, seed: int, digest: Digest) -> None:
        self.plan = FaultPlan(seed, rate=0.25)
        self.digest = digest

    def model(self, name: str) -> FunctionModel:
        """A model that asks for tools now and then, a few of them together."""

        def answer(request: ModelRequest) -> Turn:
            self.digest.note("request", f"{name} {len(request.messages)} {request.messages[-1]!r}")
            chance = self.plan.draw(name)
            if chance.random() < 0.5:
                return says("one ", "two ", name, pause_seconds=chance.uniform(0, 2))
            wanted = chance.sample(self.names, chance.randint(1, 3))
            return calls(*((one, {"description": "go"} if one == "task" else {}) for one in wanted))

        return FunctionModel(answer)

    def tools(self) -> list[Tool]:
        return [
            self.plan.tool(RecordingTool(effect_class="pure")),
            self.plan.tool(LedgerTool(effect_class="idempotent")),
            HangingTool(timeout_seconds=20.0),
            StubbornTool(deaf_seconds=1.0),
            self.plan.tool(compute),
            listen,
            asks,
            *builtin("task"),
        ]

    async def live(self, supervisor: SessionSupervisor, number: int) -> None:
        chance = self.plan.draw(f"life {number}")
        session = await supervisor.start_session(
            model=self.plan.model(self.model(f"m{number}")),
            tools=self.tools(),
            plugins=[HumanApproval] if number % 4 == 0 else [],
            group_id=f"g{number % 3}",
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.decide, session)
            nursery.start_soon(self.follow, session)
            for _ in range(chance.randint(2, 5)):
                with suppress(AgentrailError):
                    await self.happen(session, chance)
                await trio.sleep(chance.uniform(0, 30))
            with suppress(AgentrailError):
                await session.stop()
            nursery.cancel_scope.cancel()

    async def happen(self, session: Session, chance: Random) -> None:
        """Say something, and let something happen to it."""
        await session.prompt(f"prompt {chance.randint(1, 9)}")
        await trio.sleep(chance.uniform(0, 10))
        acts: list[Callable[[], Awaitable[object]]] = [
            lambda: session.steer("this instead"),
            session.abort,
            lambda: self.crash(session),
            lambda: session.prompt("another"),
            session.collect_reply,
        ]
        with trio.move_on_after(120):
            await chance.choice(acts)()

    async def crash(self, session: Session) -> None:
        await trio.lowlevel.checkpoint()
        crash(session)

    async def decide(self, session: Session) -> None:
        with suppress(AgentrailError):
            async with session.subscribe(kinds=[ApprovalRequired, AskUser]) as events:
                async for event in events:
                    chance = self.plan.draw("person")
                    await trio.sleep(chance.uniform(0, 20))
                    with suppress(AgentrailError):
                        if isinstance(event, ApprovalRequired):
                            decide = session.approve if chance.random() < 0.7 else session.reject
                            await decide(event.approval.id)

    async def follow(self, session: Session) -> None:
        with suppress(AgentrailError):
            for event in await self.plan.follow(session):
                self.digest.note("read", type(event).__name__)


def run(seed: int, *, keep_lines: bool = False) -> SeededRun[list[str]]:
    """Have the run, and give its digest; the result is what went wrong in it, as it was planned."""

    async def main(digest: Digest) -> list[str]:
        world = World(seed, digest)
        with trio.fail_after(VIRTUAL_HOURS * 3_600):
            async with open_bare() as supervisor, trio.open_nursery() as nursery:
                for number in range(SESSIONS):
                    nursery.start_soon(world.live, supervisor, number, name=f"life {number}")
        return world.plan.faults

    logging.disable()
    structlog.configure(processors=[lambda *_: ""], logger_factory=structlog.ReturnLoggerFactory())
    return run_seeded(main, seed, keep_lines=keep_lines)


def leave_open(door: str) -> None:
    """Let something come from the machine after all, to see that the digest tells."""
    if door == "order":
        vars(digest_module)["seeded_order"] = lambda _seed: nullcontext()
    elif door == "hash":
        World.names = property(lambda _: tuple({*NAMES}))
    else:
        setattr(SeededMachine, door, getattr(RealMachine, door))


def main(arguments: Sequence[str]) -> None:
    """Read the arguments, run, and print what it was."""
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int)
    parser.add_argument("--lines", type=Path, help="a file for all that was done")
    parser.add_argument("--leave-open", help="a door that leads to the machine, or `order`, or `hash`")
    parser.add_argument("--watch-items", action="store_true", help="whether lost items of mailboxes end it")
    given = parser.parse_args(arguments)
    if given.leave_open:
        leave_open(given.leave_open)
    with no_lost_items() if given.watch_items else nullcontext() as watch:
        found = run(given.seed, keep_lines=given.lines is not None)
    if given.lines is not None:
        given.lines.write_text("\n".join(found.lines), encoding="utf-8")
    handled = 0 if watch is None else watch.handled
    said = {"digest": found.digest, "counts": found.counts, "faults": len(found.result), "handled": handled}
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1:])
    gc.freeze()  # else the interpreter looks at all that was imported once more, a quarter of a second
