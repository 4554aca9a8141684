"""Child sessions whose outcome their parent never read, because its actor crashed or its process stopped: what they used is known."""

import threading

import pytest
import trio

import agentrail
from agentrail.core.policy.budget import Budget
from agentrail.core.protocol.signals import ToolFinished
from agentrail.errors import AgentrailError, JournalCorrupt, StoreUnavailable
from agentrail.events import SessionRestarted
from agentrail.messages import ToolMessage
from agentrail.outside import installed
from agentrail.stores.memory import MemoryStore
from agentrail.testing.cancelling import crash
from agentrail.testing.clock import FakeClock
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.supervisors import open_nameless
from agentrail.tools.task import TaskTool
from tests.runtime.rig import Inline, NoSandbox, eventually, open_over, until

TOKENS = 100_000
TURN = 15  # tokens of a request, as a scripted model counts them


def options(kind, children=1, effect_class="once", heard=lambda: None):
    @agentrail.tool(effect_class=effect_class)
    async def ask_others(ctx: agentrail.ToolContext) -> str:
        """Run sessions, one after the other."""
        return " ".join([await ctx.run_session("CHILD") for _ in range(children)])

    def answer(request):
        if request.messages[0].content[0].text == "CHILD":
            heard()
            return says("a")
        if len(request.messages) > 1:
            return says("done")
        return calls(("task", {"description": "CHILD"}) if kind == "task" else ("ask_others", {}))

    return {"model": FunctionModel(answer), "tools": [TaskTool(), ask_others]}


BUDGET = {"budget": Budget(max_total_tokens=TOKENS, allow_unknown_prices=True), "max_output_tokens": 100}


async def used_of(session):
    status = await session.status()
    return TOKENS - status.budget_left.tokens, status.usage.total


@pytest.mark.parametrize("kind", ["task", "ask_others"])
@pytest.mark.parametrize("store", [MemoryStore, lambda: None])
async def test_an_outcome_that_waited_when_the_session_crashed_is_counted(kind, store):
    """It comes too late for its call, but its usage counts. All that the budget had left was booked in its place."""

    def strike():
        mailbox.hold()
        crash(session)

    async with open_over(store()) as supervisor:
        session = await supervisor.start_session(**options(kind, heard=strike), **BUDGET)
        mailbox = session._cell.mailbox  # noqa: SLF001 - held, so that the outcome waits
        async with session.subscribe() as events:
            await session.prompt("Go")
            await eventually(lambda: any(isinstance(one, ToolFinished) for one in mailbox.waiting))
            mailbox.release()
            await until(events, SessionRestarted)
        assert await used_of(session) == (2 * TURN, 2 * TURN)
        assert await session.ask("And now?") == "done"


class Creating(MemoryStore):
    """A store that is still creating a child, until `go_on` is set."""

    def __init__(self):
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()

    def create(self, creation, *args):
        if is_child("create", creation):
            self.begun.set()
            self.go_on.wait(60)
        return super().create(creation, *args)


@pytest.mark.parametrize("kind", ["task", "ask_others"])
async def test_a_child_that_was_being_created_when_the_session_crashed_has_used_nothing(kind):
    """It never worked. All that the budget had left was booked for it."""
    store = Creating()
    async with open_over(FaultyStore(store)) as supervisor:
        session = await supervisor.start_session(**options(kind), **BUDGET)
        async with session.subscribe() as events:
            await session.prompt("Go")
            await eventually(store.begun.is_set)
            crash(session)
            store.go_on.set()
            await until(events, SessionRestarted)
        assert await used_of(session) == (TURN, TURN)
        assert await session.ask("And now?") == "done"


class Dying:
    """What a process reaches of a store: nothing after a certain call, or from it on."""

    is_immediate = False

    def __init__(self, inner, *, before=lambda *_: False, behind=lambda *_: False):
        self.inner, self._before, self._behind = inner, before, behind
        self._is_dead = False

    def __getattr__(self, name):
        """Give what the store has, as long as the process lives."""

        def reached(*args, **options):
            self._is_dead = self._is_dead or self._before(name, *args)
            if self._is_dead:
                message = "killed"
                raise StoreUnavailable(message)
            answer = getattr(self.inner, name)(*args, **options)
            self._is_dead = self._behind(name, *args)
            return answer

        return reached


def is_child(name, *args):
    return name == "create" and args[0].root != args[0].records[0].session


class EndOfChild:
    """True for the record with which the child of this number ends."""

    def __init__(self, number):
        self._left = number

    def __call__(self, name, *args):
        self._left -= sum(one.standing.has_ended for one in args[0]) if name == "append" else 0
        return self._left <= 0


async def die(store, given):
    try:
        async with open_nameless(lambda *_: NoSandbox(), store=store, store_patience=0.2) as supervisor:
            session = await supervisor.start_session(session_id="s-1", **given, **BUDGET)
            with trio.move_on_after(2):
                await session.run("Go")
    except* AgentrailError:
        pass


async def live_on(store, given):
    async with open_nameless(lambda *_: NoSandbox(), store=store) as supervisor:
        session = await supervisor.resume_session("s-1", **given)
        with trio.fail_after(60):
            while (await session.status()).phase != "idle":  # noqa: ASYNC110
                await trio.sleep(0.1)
        last = (await session.messages())[-1]
        said = last.results[0].text if isinstance(last, ToolMessage) else last.text
        return (*await used_of(session), said)


@pytest.mark.parametrize("kind", ["task", "ask_others"])
@pytest.mark.parametrize("dies", ["before it began", "when it had ended"])
def test_a_child_whose_end_its_parent_did_not_record_is_counted(kind, dies):
    """Its own journal has its usage, and without a journal it has none. All that the budget had left was booked in its place."""
    inner, given = MemoryStore(lease_ms=0), options(kind)
    ends = {"before": is_child} if dies == "before it began" else {"behind": EndOfChild(1)}
    with installed(Inline()):
        trio.run(die, Dying(inner, **ends), given, clock=FakeClock())
        used, total, said = trio.run(live_on, inner, given, clock=FakeClock())
    assert said == "done"
    assert used == total == (2 if dies == "before it began" else 3) * TURN


def test_the_second_child_of_a_call_that_never_began_has_used_nothing():
    """All that the budget had left was booked for it, because the first one had begun."""
    inner, given, created = MemoryStore(lease_ms=0), options("ask_others", children=2), []

    def second(name, *args):
        created.extend([1] if is_child(name, *args) else [])
        return len(created) > 1

    with installed(Inline()):
        trio.run(die, Dying(inner, before=second), given, clock=FakeClock())
        used, total, said = trio.run(live_on, inner, given, clock=FakeClock())
    assert (said, used, total) == ("done", 3 * TURN, 3 * TURN)


def test_a_child_whose_journal_is_unreadable_has_used_all_of_its_budget(monkeypatch):
    """Nothing of it was booked, so that the session could spend it again."""
    inner, given = MemoryStore(lease_ms=0), options("task")
    with installed(Inline()):
        trio.run(die, Dying(inner, behind=EndOfChild(1)), given, clock=FakeClock())
        (child,) = [one for one in inner.find() if one.root != one.session]
        read = inner.read

        def damaged(scope, session, *args, **options):
            if session == child.session:
                raise JournalCorrupt(session, 1)
            return read(scope, session, *args, **options)

        monkeypatch.setattr(inner, "read", damaged)
        used, total, said = trio.run(live_on, inner, given, clock=FakeClock())
    assert (used, total) == (TOKENS, TURN)
    assert said.startswith("[Outcome unknown: the session that worked for task is not there any more")


def test_a_tool_that_runs_again_runs_its_sessions_again():
    """Under names of their own: those of the stopped process are taken, and each attempt failed at one of them."""
    inner, given = MemoryStore(lease_ms=0), options("ask_others", children=5, effect_class="idempotent")
    with installed(Inline()):
        trio.run(die, Dying(inner, behind=EndOfChild(4)), given, clock=FakeClock())
        used, total, said = trio.run(live_on, inner, given, clock=FakeClock())
    assert (said, used, total) == ("done", 11 * TURN, 11 * TURN)
    assert sum(one.root != one.session for one in inner.find()) == 9
