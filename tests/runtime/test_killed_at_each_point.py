"""A process is killed at each of its steps, and another one goes on: nothing acknowledged is lost, no `once` tool acts twice (durability).

No process is killed for it: at a step of the loop the store takes nothing more of the first supervisor, and no tool of it acts any
more. Steps lie before and after each hand-over, commit, call-back and effect.
"""

import pytest
import trio

from agentrail.abc import Ok
from agentrail.errors import AgentrailError, StoreUnavailable
from agentrail.events import ToolExecutionEnd
from agentrail.messages import ToolMessage, UserMessage
from agentrail.outside import installed
from agentrail.stores.memory import MemoryStore
from agentrail.testing.cancelling import check_history
from agentrail.testing.clock import FakeClock
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.published import events_of
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import RecordingTool
from tests.runtime.rig import Inline, NoSandbox

UNKNOWN = "[Outcome unknown: the process stopped while this ran]"
EACH = 3  # of the steps, in `make test`; all of them in `make check`. Which task goes first is Trio's chance, and so is what lies there


class Process:
    """What one process reaches of the world; nothing, once it is killed."""

    is_immediate = False

    def __init__(self, inner, ledger):
        self.inner, self.ledger = inner, ledger
        self.is_killed = False

    def __getattr__(self, name):
        """Give what the store has, as long as the process lives."""

        def reached(*args, **options):
            if self.is_killed:
                message = "killed"
                raise StoreUnavailable(message)
            return getattr(self.inner, name)(*args, **options)

        return reached

    def tools(self):
        return [Acting(name=kind, effect_class=kind, process=self) for kind in ("once", "idempotent")]


class Acting(RecordingTool):
    """A tool that acts on the world between two steps, and writes down that it did."""

    def __init__(self, *, process, **options):
        super().__init__(**options)
        self.process = process

    async def execute(self, arguments, ctx):
        await trio.lowlevel.checkpoint()
        if not self.process.is_killed:
            self.process.ledger.append((self.name, ctx.operation_id))
        await trio.lowlevel.checkpoint()
        return Ok(text=f"{self.name} acted")


class KillAtStep(trio.abc.Instrument):
    def __init__(self, process, number):
        self.process, self.left = process, number

    def before_task_step(self, task):
        self.left -= 1
        if self.left == 0:
            self.process.is_killed = True


def model():
    """A model that calls both tools when it is asked, and says so when they have ended."""

    def answer(request):
        if isinstance(request.messages[-1], ToolMessage):
            return says("done")
        return calls(("once", {}), ("idempotent", {}))

    return FunctionModel(answer)


def options(process):
    return {"model": model(), "tools": process.tools()}


async def live(process, durability):
    """Prompt once; say what was acknowledged."""
    acknowledged = []
    with trio.move_on_after(3):
        try:
            async with open_nameless(
                lambda _name, _root: NoSandbox(), store=process, store_patience=0.2, durability=durability
            ) as supervisor:
                session = await supervisor.start_session(session_id="s-1", **options(process))
                acknowledged.append("opened")
                await session.prompt("Go", client_id="c-1")
                acknowledged.append("prompted")
                with trio.move_on_after(1):
                    acknowledged.append(await session.collect_reply())
        except* (AgentrailError, trio.TooSlowError):
            pass
    return acknowledged


async def go_on(process):
    """Come back, say the same again, and give the conversation with all that was published."""
    async with open_nameless(lambda _name, _root: NoSandbox(), store=process) as supervisor:
        if process.inner.get("", "s-1") is None:
            session = await supervisor.start_session(session_id="s-1", **options(process))
        else:
            session = await supervisor.resume_session("s-1", **options(process))
        await session.prompt("Go", client_id="c-1")
        with trio.fail_after(60):
            while (await session.status()).phase != "idle" or len(await session.messages()) < 4:  # noqa: ASYNC110
                await trio.sleep(0.1)
        return await session.messages(), await events_of(session)


def struck_at(number, durability):
    """Kill at a step, and hold what another process finds to all that was promised; say whether the first one had not ended by then."""
    ledger, inner = [], MemoryStore(lease_ms=0)
    first, second = Process(inner, ledger), Process(inner, ledger)
    kill = KillAtStep(first, number)
    with installed(Inline()):
        acknowledged = trio.run(live, first, durability, clock=FakeClock(), instruments=[kill])
        stored = inner.get("", "s-1")
        messages, events = trio.run(go_on, second, clock=FakeClock())
    where = f"{durability}, killed at step {number}, after {acknowledged}, ledger {ledger}"
    if "opened" in acknowledged:
        assert stored is not None, where
    check_history(messages)
    texts = [one.content[0].text for one in messages if isinstance(one, UserMessage)]
    assert texts == ["Go"], where  # once, whichever of the two calls brought it
    results = {one.name: one.text for one in messages[2].results} if messages[2].results else {}
    acted = [name for name, _ in ledger]
    assert acted.count("once") <= 1, where
    assert len({operation for name, operation in ledger if name == "idempotent"}) == 1, where
    assert results["idempotent"] == "idempotent acted", where
    assert results["once"] in ("once acted", UNKNOWN), where
    if results["once"] == "once acted":
        assert "once" in acted, where
    if "done" in acknowledged:
        assert results["once"] == "once acted", where
        assert sorted(acted) == ["idempotent", "once"], where
    numbers = [event.meta.seq for event in events]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), where
    assert sum(type(event) is ToolExecutionEnd for event in events) <= 2, where
    assert messages[-1].text == "done", where
    return kill.left <= 0


@pytest.mark.at(118)
@pytest.mark.at(123)
@pytest.mark.journal(10)
@pytest.mark.parametrize("durability", ["grouped", "strict"])
@pytest.mark.parametrize("every", [EACH, pytest.param(1, marks=pytest.mark.check)])
def test_whenever_it_is_killed_what_was_promised_holds(every, durability):
    """Each prompt once, each call with one result, `once` at most once, `idempotent` under one operation id, numbers without gaps."""
    number = 1
    while struck_at(number, durability):
        number += every
    assert number > 80  # so many steps there are at least
