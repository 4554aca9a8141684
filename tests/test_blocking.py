"""The blocking front: a supervisor in a thread of its own, called from threads and from asyncio."""

import asyncio
import concurrent.futures
import gc
import inspect
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext, suppress
from contextvars import ContextVar
from types import ModuleType

import pytest
import trio

import agentrail
from agentrail import blocking, plugins as p
from agentrail.blocking.iterators import MAX_TAKEN
from agentrail.blocking.supervisor_thread import InterruptibleFuture, SupervisorThread
from agentrail.errors import (
    AgentrailError,
    AlreadyStarted,
    Authentication,
    CallingSelf,
    CycleAborted,
    HoldsLoop,
    OptionError,
    ReplyTimeout,
    SessionDown,
    SubscriberTooSlow,
    SupervisorClosed,
    YourMove,
)
from agentrail.events import AgentAbort, AgentEnd, AgentStart, MessageDelta, PromptDropped, SessionEnd
from agentrail.messages import ToolMessage
from agentrail.runtime.cancellable_prompts import OwnPrompts
from agentrail.runtime.cycle_stream import CycleStream as AsyncStream
from agentrail.runtime.event_subscription import Subscription as AsyncSubscription
from agentrail.runtime.session_handle import Session as AsyncSession
from agentrail.runtime.session_reports import SessionReports as AsyncReports
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.testing.models import FunctionModel, ScriptedModel, Turn, calls, fails, says
from scripts.api_pages import OF_THE_SHELL
from tests.garbage import without_collector
from tests.runtime.rig import open_bare

SECONDS = 20.0
"""Within so many everything here happens; what takes longer hangs."""

IDLE_THREAD = re.compile(r"Trio thread \d+")  # Trio keeps one that has done its work for ten seconds


def live_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if not IDLE_THREAD.fullmatch(thread.name)]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """At once, and not after a while: who leaves the block has waited for it."""
    before = live_threads()
    yield
    assert [thread.name for thread in live_threads() if thread not in before] == []


@pytest.fixture
def supervisor() -> Iterator[blocking.Supervisor]:
    """One that is open."""
    with blocking.Supervisor() as opened:
        yield opened


class Gate(FunctionModel):
    """A model that answers each prompt with its own words, once it may."""

    def __init__(self, *, is_open: bool = False) -> None:
        super().__init__(self._answer)
        self._may_answer = threading.Event()
        if is_open:
            self._may_answer.set()

    def open(self) -> None:
        self._may_answer.set()

    async def _answer(self, request: object) -> Turn:
        (said,) = (block.text for block in self.requests[-1].messages[-1].content)  # type: ignore[union-attr]
        while not self._may_answer.is_set():  # noqa: ASYNC110 - set in another thread
            await trio.sleep(0.002)
        return says(f"to {said}")


def until(is_so: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < give_up_at, "it never came"
        time.sleep(0.002)


def at_work(session: blocking.Session, queued: int = 0) -> Callable[[], bool]:
    """Say whether a cycle runs, and so many prompts wait."""

    def look() -> bool:
        status = session.status()
        return status.phase != "idle" and len(status.queued) == queued

    return look


# ---


@pytest.mark.experience("X-014")
def test_fifty_threads_ask_at_once(supervisor):
    """Each gets its own answer: those with a session of their own, and those whose prompts queue in one."""
    model, count = Gate(), range(50)

    def live(number):
        return supervisor.start_session(model=model).ask(f"question {number}")

    with ThreadPoolExecutor(50) as pool:
        answers = [pool.submit(live, number) for number in count]
        until(lambda: len(model.requests) == 50)
        model.open()
        assert [one.result(SECONDS) for one in answers] == [f"to question {number}" for number in count]
        session = supervisor.start_session(model=Gate(is_open=True))
        queued = pool.map(lambda number: session.ask(f"question {number}"), count)
        assert list(queued) == [f"to question {number}" for number in count]


@pytest.mark.experience("X-014")
@pytest.mark.parametrize("call", ["ask", "run"])
def test_a_cancelled_future_aborts(supervisor, call):
    """The cycle of its prompt ends as aborted, and the session takes the next prompt."""
    model = Gate()
    session = supervisor.start_session(model=model)
    with session.subscribe(kinds=[AgentStart, AgentAbort]) as events:
        future = getattr(session.futures, call)("Hi")
        started = events.next(timeout_seconds=SECONDS)
        assert future.cancel()
        aborted = events.next(timeout_seconds=SECONDS)
    assert isinstance(aborted, AgentAbort)
    assert isinstance(started, AgentStart)
    assert (aborted.ref, aborted.reason) == (started.ref, "its caller gave up waiting")
    assert future.cancelled()
    # `concurrent.futures.wait` looks at another state than `cancelled()` does.
    assert concurrent.futures.wait([future], timeout=SECONDS) == ({future}, set())
    model.open()
    assert session.ask("Again") == "to Again"


@pytest.mark.experience("X-014")
@pytest.mark.parametrize("how", ["ends", "raises"])
def test_leaving_the_block_leaves_no_thread(how):
    """Whatever happened in it; sessions that were at work have ended, and who waited hears of it."""
    before = live_threads()
    model = Gate()

    def block() -> Future[str]:
        with blocking.Supervisor() as supervisor:
            session = supervisor.start_session(model=model)
            waiting.append(session.futures.ask("Hi"))
            until(at_work(session))
            assert len(live_threads()) == len(before) + 1
            if how == "raises":
                message = "of the body"
                raise ValueError(message)
        return waiting[0]

    waiting: list[Future[str]] = []
    if how == "raises":
        with pytest.raises(ValueError, match="of the body"):
            block()
    else:
        block()
    assert live_threads() == before
    with pytest.raises(CycleAborted, match="the supervisor was closed"):
        waiting[0].result(0)


# --- what it is


PAIRS = [
    (AsyncSession, blocking.Session, set[str]()),
    (SessionSupervisor, blocking.Supervisor, OF_THE_SHELL | {"providers", "move_session"}),
    (
        AsyncSubscription,
        blocking.Subscription,
        {"begin", "begin_anew", "offer", "offer_delta", "bus_closed", "end", "next_nowait"},
    ),
    (AsyncReports, blocking.SessionReports, {"offer", "end"}),
    (AsyncStream, blocking.CycleStream, set[str]()),
]


def public(kind: type) -> dict[str, object]:
    """What a class has, under names for users."""
    return {name: value for name, value in inspect.getmembers_static(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("near", "far", "inner"), PAIRS, ids=lambda value: getattr(value, "__module__", ""))
def test_every_public_call_has_its_twins_with_the_same_signature(near, far, inner):
    """One that blocks and, where it waits, one that gives a future; whoever adds a call adds a line for each."""
    twins, futures = (
        public(far),
        public(inspect.get_annotations(far.futures.fget)["return"]) if hasattr(far, "futures") else {},
    )
    missing, unlike = [], []
    for name, call in public(near).items():
        if name in inner:
            continue
        wanted = [twins] + ([futures] if inspect.iscoroutinefunction(inspect.unwrap(call)) else [])
        missing += [f"{name} {number}" for number, where in enumerate(wanted) if name not in where]
        if inspect.isfunction(call):
            unlike += [name for where in wanted if name in where and shape(where[name]) != shape(call)]
    assert (missing, unlike) == ([], [])


def shape(call) -> list[tuple[object, ...]]:
    return [(one.name, one.kind, one.default) for one in inspect.signature(call).parameters.values()]


def test_a_twin_takes_and_tells_what_it_is():
    """The keywords of `open_supervisor`; `help` shows the words of the call, and what cancelling does here."""
    assert shape(blocking.Supervisor.__init__)[1:] == shape(agentrail.open_supervisor)
    assert "Stop the cycle immediately, in any phase." in blocking.Session.abort.__doc__
    assert "Only the reply is lost" in AsyncSession.ask.__doc__
    for twin in (blocking.Session.ask, blocking.SessionFutures.ask):
        assert "the cycle of this very prompt is aborted" in twin.__doc__
        assert "Only the reply is lost" not in twin.__doc__


def test_the_calls_of_a_supervisor(supervisor):
    """Sessions are found, listed, watched and stopped from outside."""
    model = ScriptedModel([says("one"), says("two")])
    session = supervisor.start_session(model=model, session_id="main", scope="acme")
    assert (session.session_id, session.scope) == ("main", "acme")
    assert repr(session) == "<blocking <Session acme/main idle>>"
    assert repr(supervisor) == "<blocking.Supervisor open>"
    assert supervisor.session("main", scope="acme").ask("Hi") == "one"
    assert [one.session_id for one in supervisor.sessions(scope="acme")] == ["main"]
    assert supervisor.statistics().live == 1
    assert [node.id for node in supervisor.tree().children] == ["acme/main"]
    monitor = supervisor.monitor("main", scope="acme")
    with supervisor.subscribe_all(kinds=[SessionEnd]) as events:
        supervisor.stop_session("main", "enough", scope="acme")
        assert next(events).reason == "enough"
    assert (
        monitor.wait().reason == supervisor.monitor(session).futures.wait().result(SECONDS).reason == "enough"
    )
    words = supervisor.last_words("main", scope="acme")
    assert words is not None
    with supervisor.twin_of(words.session).subscribe(after=0, kinds=[AgentEnd]) as events:
        assert [type(event) for event in events] == [AgentEnd, SessionEnd]
    assert supervisor.providers.list() == ()


def test_a_session_that_is_there_already_comes_as_one_that_blocks(supervisor):
    """The handle in the error can be used where it is raised; another supervisor has sessions of its own."""
    supervisor.start_session(model="demo:fast", session_id="main")
    with pytest.raises(AlreadyStarted) as raised:
        supervisor.start_session(model="demo:fast", session_id="main")
    assert isinstance(raised.value.handle, blocking.Session)
    assert "You said: Hi" in raised.value.handle.ask("Hi")

    with blocking.Supervisor() as other:
        assert other.sessions() == ()
        other.start_session(model="demo:fast", session_id="main")
    assert len(supervisor.sessions()) == 1


def test_options_of_a_plugin_are_its_own(supervisor):
    """Also those that are called as a parameter here might be."""

    class Counting(p.Plugin[int]):
        def init(self, start: int = 0) -> int:
            return start

    session = supervisor.start_session(model="demo:fast", plugins=[Counting])
    session.update_plugin_opts("Counting", start=3)


WHO: ContextVar[str] = ContextVar("who", default="no one")


def test_what_works_in_the_thread_has_the_context_of_who_opened_it():
    """What a program keeps in context variables is seen by its tools, as it is under Trio."""

    @agentrail.tool
    async def who() -> str:
        """Say who asks."""
        return WHO.get()

    token = WHO.set("who opened it")
    try:
        with blocking.Supervisor() as supervisor:
            assert supervisor.call_tool("who", model="demo:fast", tools=[who]).text == "who opened it"
    finally:
        WHO.reset(token)


def test_futures_of_one_thread_are_sent_in_their_order(supervisor):
    """Trio runs its tasks in any order; what a thread says first comes first all the same."""
    session = supervisor.start_session(model=Gate())
    session.prompt("at work")
    receipts = [session.futures.prompt(f"{number}") for number in range(60)]
    assert [one.result(SECONDS).position for one in receipts] == list(range(60))


# --- its life


def test_what_is_not_open_says_so():
    """Before it is opened, which happens once; an error of opening is raised there. Without a block it is closed by hand."""
    with pytest.raises(OptionError, match="shell_fallback is 'maybe'"):
        blocking.Supervisor(shell_fallback="maybe").open()
    new = blocking.Supervisor()
    assert repr(new) == "<blocking.Supervisor new>"
    for call in (new.sessions, lambda: new.start_session(model="demo:"), lambda: new.providers):
        with pytest.raises(YourMove, match=r"not open: `with blocking\.Supervisor\(\) as supervisor:`"):
            call()
    new.close()
    with new, pytest.raises(YourMove, match="was already opened: create another"):
        new.open()

    supervisor = blocking.Supervisor().open()
    try:
        assert "You said: Hi" in supervisor.start_session(model="demo:fast").ask("Hi")
    finally:
        supervisor.close()


def test_a_call_after_the_block_says_so():
    """With an error that is a `SessionDown` too; what is only looked at is still there."""
    with blocking.Supervisor() as supervisor:
        session = supervisor.start_session(model="demo:fast", session_id="main")
        monitor = session.monitor()
    supervisor.close()  # again, if you like
    assert repr(supervisor) == "<blocking.Supervisor closed>"
    late = [
        lambda: session.ask("Hi"),
        lambda: session.futures.ask("Hi").result(0),
        lambda: supervisor.start_session(model="demo:fast"),
        monitor.wait,
        lambda: session.subscribe().__enter__(),
    ]
    for call in late:
        with pytest.raises(SupervisorClosed, match="the supervisor was closed") as raised:
            call()
        assert (raised.value.code, isinstance(raised.value, SessionDown)) == ("supervisor_closed", True)
    assert supervisor.sessions() == ()
    assert supervisor.statistics().ended == 1
    assert supervisor.last_words("main").how == "ended"
    with pytest.raises(SessionDown):
        supervisor.session("main")


FORGETFUL = """
from agentrail import blocking
supervisor = blocking.Supervisor().open()
print(supervisor.start_session(model="demo:fast").ask("Hi").splitlines()[-1])
"""


@pytest.mark.check
def test_one_that_is_forgotten_does_not_hold_the_program():
    """It is closed when the interpreter ends, in order and in silence."""
    command = [sys.executable, "-W", "error", "-c", FORGETFUL]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


FORKING = """
import os
import signal
import sys
import trio
from agentrail import blocking, errors
from agentrail.testing.models import FunctionModel
supervisor = blocking.Supervisor().open()
session = supervisor.start_session(model="demo:fast")
events = session.subscribe().__enter__()
silent = FunctionModel(lambda request: trio.sleep_forever())
asked = supervisor.start_session(model=silent).futures.ask("Hi")
settled = []
asked.add_done_callback(settled.append)
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
    assert session.ask("Hi")
    assert not asked.done()
    supervisor.close()
    assert settled == [asked]
else:
    signal.alarm(20)
    answers = (lambda: session.futures.ask("Hi").result(5), lambda: asked.result(5), lambda: next(events))
    for call in (session.status, *answers):
        try:
            call()
        except errors.SupervisorClosed as error:
            assert "forked from" in str(error)
        else:
            sys.exit("it was answered")
    assert settled == []
    with blocking.Supervisor() as another:
        assert another.start_session(model="demo:fast").ask("Hi")
    if "close" in sys.argv:
        supervisor.close()
"""


@pytest.mark.check
@pytest.mark.parametrize("ending", ["close", "exit"])
def test_a_forked_process_has_no_copy_of_it(ending):
    """Calls are refused there, it ends or is closed at once, and the one in the first process continues."""
    command = [sys.executable, "-c", FORKING, ending]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


class Leaver(p.Plugin[None]):
    """Ends the process when it is asked about a prompt."""

    def init(self) -> None:
        """Know nothing."""

    @p.on(p.BeforePrompt)
    def leave(self, event: p.BeforePrompt, state: None, ctx: p.Context) -> p.Action[None]:
        raise SystemExit(3)


def test_who_waits_when_the_run_crashes_hears_the_cause():
    """As does whoever comes later, and who reads, behind the rest: an end would say that all was well. The block ends with what the run ended with."""
    model = Gate()

    def block() -> None:
        with blocking.Supervisor() as supervisor, supervisor.subscribe_all(kinds=[AgentEnd]) as events:
            supervisor.start_session(model="demo:fast").ask("Hi")
            session = supervisor.start_session(model=model)
            asking = session.futures.ask("Hi")
            until(at_work(session))
            for call in (
                lambda: supervisor.start_session(model=model, plugins=[Leaver]).ask("Go"),
                asking.result,
            ):
                with pytest.raises(SessionDown):
                    call()
            until(lambda: repr(supervisor) == "<blocking.Supervisor crashed>")
            assert isinstance(next(events), AgentEnd)
            late: tuple[Callable[[], object], ...] = (
                lambda: session.ask("Too late"),
                events.next,
                lambda: events.futures.next().result(0),
            )
            for number, too_late in enumerate(late):
                with pytest.raises(SupervisorClosed, match="has crashed") as raised:
                    too_late()
                assert number > 0 or isinstance(raised.value.__cause__, SystemExit)

    with pytest.raises(SystemExit) as left:
        block()
    assert left.value.code == 3


def test_an_error_of_the_body_is_not_hidden_by_a_crash():
    """It leaves as it is."""

    def block() -> None:
        with blocking.Supervisor() as supervisor:
            with suppress(SessionDown):
                supervisor.start_session(model="demo:fast", plugins=[Leaver]).ask("Go")
            message = "of the body"
            raise ValueError(message)

    with pytest.raises(ValueError, match="of the body"):
        block()


def test_what_no_session_ends_ends_with_the_thread():
    """None waits longer than there is a thread that could answer; a `SystemExit` of a call is the cause, in no group."""
    thread = SupervisorThread(open_bare)
    thread.open()
    waiting = thread.submit(trio.sleep_forever)
    thread.close()
    with pytest.raises(SupervisorClosed, match=r"^every session is down: the supervisor was closed$"):
        waiting.result(0)

    async def leave() -> None:
        raise SystemExit(3)

    thread = SupervisorThread(open_bare)
    thread.open()
    with pytest.raises(SupervisorClosed, match="has crashed") as raised:
        thread.submit(leave).result(SECONDS)
    assert isinstance(raised.value.__cause__, SystemExit)
    with pytest.raises(SystemExit):
        thread.close()
    thread.close()


# --- where it may not wait


def test_in_an_event_loop_it_names_what_to_await(supervisor, monkeypatch):
    """A loop that stands still serves nobody; what does not wait may be called, and the cell of a notebook may wait."""
    session = supervisor.start_session(model="demo:fast")

    async def in_asyncio() -> None:
        with pytest.raises(HoldsLoop, match=re.escape("await asyncio.wrap_future(session.futures.ask(…))")):
            session.ask("Hi")
        with pytest.raises(HoldsLoop, match=re.escape("asyncio.wrap_future(supervisor.futures.tree(…))")):
            supervisor.tree()
        with session.subscribe() as events, pytest.raises(HoldsLoop, match=r"events\.futures\.next"):
            next(events)
        assert len(supervisor.sessions()) == 1

    async def in_trio() -> None:
        with pytest.raises(HoldsLoop, match=r"use agentrail\.open_supervisor\(\)"):
            session.ask("Hi")
        with pytest.raises(HoldsLoop, match=r"async with agentrail\.open_supervisor\(\)"):
            blocking.Supervisor().open()

    async def in_a_cell():
        return session.ask("Hi")

    asyncio.run(in_asyncio())
    trio.run(in_trio)
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    assert "You said: Hi" in asyncio.run(in_a_cell())


def test_a_tool_may_not_wait_for_the_thread_that_runs_it(supervisor):
    """It would hang for ever; so would one in a worker thread that asks its own session, or closes its supervisor."""
    other = supervisor.start_session(model="demo:fast")

    @agentrail.tool
    async def in_the_thread(what: str) -> str:
        """Call the front."""
        assert other.futures.status() is not None  # not waited for
        assert len(supervisor.sessions()) == 2
        return refused(what)

    @agentrail.tool
    def beside_it(what: str) -> str:
        """Call the front."""
        return refused(what)

    def refused(what: str) -> str:
        with pytest.raises(CallingSelf, match="would wait for itself"):
            forbidden[what]()
        return "refused"

    turns = [calls(("in_the_thread", {"what": what})) for what in ("other", "own", "close", "read")]
    turns += [calls(("beside_it", {"what": what})) for what in ("own", "close")]
    session = supervisor.start_session(
        model=ScriptedModel([*turns, says("done")]), tools=[in_the_thread, beside_it]
    )
    forbidden = {
        "other": lambda: other.ask("Hi"),
        "own": lambda: session.ask("Hi"),
        "close": supervisor.close,
        "read": lambda: other.subscribe().__enter__(),
    }
    assert session.ask("Go") == "done"
    results = [one.results[0].text for one in session.messages() if isinstance(one, ToolMessage)]
    assert results == ["refused"] * 6


def test_a_tool_in_a_worker_thread_may_ask_another_session(supervisor):
    """It holds its own thread, and nothing waits in a circle."""
    other = supervisor.start_session(model="demo:fast")

    @agentrail.tool
    def ask_other() -> str:
        """Ask another session."""
        return str(other.ask("Hi"))

    model = ScriptedModel([calls(("ask_other", {})), says("done")])
    session = supervisor.start_session(model=model, tools=[ask_other])
    assert session.ask("Go") == "done"
    assert any("You said: Hi" in str(message) for message in session.messages())


# --- who gives up


def test_a_prompt_that_waits_leaves_the_queue_and_no_other_cycle_ends(supervisor):
    """The cycle in front of it is another's."""
    model = Gate()
    session = supervisor.start_session(model=model)
    first = session.futures.ask("first")
    until(at_work(session))
    with session.subscribe(kinds=[PromptDropped, AgentAbort, AgentEnd]) as events:
        second, third = session.futures.ask("second"), session.futures.ask("third")
        until(at_work(session, queued=2))
        second.cancel()
        assert isinstance(events.next(timeout_seconds=SECONDS), PromptDropped)
        model.open()
        assert (first.result(SECONDS), third.result(SECONDS)) == ("to first", "to third")
        assert [type(next(events)) for _ in range(2)] == [AgentEnd, AgentEnd]


async def test_a_prompt_that_has_ended_ends_no_other_cycle():
    """Who gives up too late stops nothing: not the cycle that runs by then."""
    model = Gate(is_open=True)
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=model)
        own = OwnPrompts(session)
        assert await own.ask("Hi") == "to Hi"
        model._may_answer.clear()  # noqa: SLF001 - ours
        await session.prompt("of another")
        await own.abort_sent("too late")
        assert (await session.status()).phase != "idle"
        other = OwnPrompts(session)
        await other.prompt("waits")
        await other.abort_sent("given up")
        assert (await session.status()).queued == ()
        await session.stop()
        await own.abort_sent("too late again")


def test_futures_that_are_cancelled_at_any_moment_abort_what_is_theirs(supervisor):
    """In front of the prompt, while it waits, in its cycle, behind it: every other caller gets its answer."""
    session = supervisor.start_session(model=Gate(is_open=True))
    kept, left = [], []
    for number in range(40):
        (left if number % 2 else kept).append(session.futures.ask(f"{number}"))
        if number % 2:
            time.sleep(0.0002 * (number % 7))
            left[-1].cancel()
    assert [one.result(SECONDS) for one in kept] == [f"to {number}" for number in range(0, 40, 2)]
    assert all(one.done() for one in left)


def test_a_call_that_is_cancelled_is_only_a_wait_that_ends(supervisor):
    """A receipt that nobody waits for changes nothing; a session whose start was given up, whenever that was, is stopped."""
    model = Gate()
    session = supervisor.start_session(model=model)
    until(lambda: session.prompt("Hi").ref)
    waiting = session.futures.collect_reply()
    until(at_work(session))
    waiting.cancel()
    model.open()
    assert session.collect_reply() == "to Hi"
    session.stop()

    for number in range(40):
        starting = supervisor.futures.start_session(model="demo:fast")
        time.sleep(0.0002 * (number % 5))
        if not starting.cancel():  # it was there already
            starting.result(0).stop()
    until(lambda: supervisor.statistics().live == 0)


def test_ctrl_c_while_it_waits_aborts_and_is_raised(supervisor):
    """`ask` in the main thread: the cycle has ended when the prompt of the next one comes."""
    model = Gate()
    session = supervisor.start_session(model=model)

    def interrupt() -> None:
        until(lambda: model.requests)
        os.kill(os.getpid(), signal.SIGINT)

    hand = threading.Thread(target=interrupt)
    hand.start()
    with session.subscribe(kinds=[AgentAbort]) as events:
        with pytest.raises(KeyboardInterrupt):
            session.ask("Hi")
        assert isinstance(events.next(timeout_seconds=SECONDS), AgentAbort)
    hand.join()
    model.open()
    assert session.ask("Again") == "to Again"


@asynccontextmanager
async def never_open(is_opening: threading.Event) -> AsyncIterator[SessionSupervisor]:
    """A supervisor whose store does not answer."""
    is_opening.set()
    await trio.Event().wait()
    async with agentrail.open_supervisor() as supervisor:
        yield supervisor


def test_ctrl_c_while_it_opens_cancels_the_opening_and_is_raised():
    """A store that does not answer would hold the program otherwise, through two more of them."""
    is_opening = threading.Event()

    def interrupt() -> None:
        assert is_opening.wait(SECONDS)
        os.kill(os.getpid(), signal.SIGINT)

    thread, hand = SupervisorThread(lambda: never_open(is_opening)), threading.Thread(target=interrupt)
    hand.start()
    with pytest.raises(KeyboardInterrupt):
        thread.open()
    hand.join()
    assert thread.state == "closed"


def test_one_that_is_closed_while_it_opens_says_so_to_who_opens_it():
    """Another thread closes it; the calls of a third one wait until it is open, and hear of it too."""
    is_opening = threading.Event()

    thread = SupervisorThread(lambda: never_open(is_opening))
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(thread.open)
        assert is_opening.wait(SECONDS)
        call = thread.submit(trio.sleep_forever)
        thread.close()
        for future in (opening, call):
            assert isinstance(future.exception(SECONDS), SupervisorClosed)


def test_a_thread_that_cannot_be_started_leaves_it_as_it_was(monkeypatch):
    """It can be closed without a wait for a thread that there never was, and opened later."""

    def refuse(self: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    supervisor = blocking.Supervisor()
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            supervisor.open()
    supervisor.close()
    assert repr(supervisor) == "<blocking.Supervisor new>"
    with supervisor:
        assert supervisor.start_session(model="demo:").ask("Hi")


@pytest.mark.parametrize("where", ["add_done_callback", "result"])
def test_ctrl_c_that_leaves_the_lock_of_a_future_taken_holds_nothing(monkeypatch, where):
    """`threading.Condition` can be interrupted when it has its lock and the block has not begun. The end would wait for that lock."""

    class Interrupted(InterruptibleFuture):
        def __getattribute__(self, name):
            if name == where and self._state == "PENDING":
                self._condition.acquire()
                raise ZeroDivisionError
            return super().__getattribute__(name)

    supervisor = blocking.Supervisor().open()
    session = supervisor.start_session(model="demo:fast")
    monkeypatch.setattr("agentrail.blocking.supervisor_thread.InterruptibleFuture", Interrupted)
    with pytest.raises(ZeroDivisionError) if where == "add_done_callback" else nullcontext():
        session.ask("Hi")
    monkeypatch.undo()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(supervisor.close).result(SECONDS)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_a_callback_ends_no_supervisor(supervisor, caplog, error):
    """An error of a callback is logged, as by each future. One that is no `Exception` once ended all sessions of the process."""
    model = Gate()
    session = supervisor.start_session(model=model)
    asking = session.futures.ask("first")
    called: list[str] = []

    def leave(_: object) -> None:
        called.append("first")
        raise error

    asking.add_done_callback(leave)
    asking.add_done_callback(lambda future: called.append(future.result()))
    model.open()
    until(lambda: len(called) == 2)
    assert called == ["first", "to first"]
    assert session.ask("again") == "to again"
    assert type(error).__name__ in caplog.text
    with pytest.raises(type(error)):  # in the caller's own thread, it is the caller's
        asking.add_done_callback(leave)


def test_a_callback_that_raises_as_the_supervisor_crashes_does_not_hold_its_end():
    """The calls that are left are settled after the run. What such a callback raised once skipped the end of the thread."""

    def leave(_: object) -> None:
        raise SystemExit(4)

    async def crash() -> None:
        raise SystemExit(3)

    thread = SupervisorThread(open_bare)
    thread.open()
    thread.submit(trio.sleep_forever).add_done_callback(leave)
    with pytest.raises(SupervisorClosed):
        thread.submit(crash).result(SECONDS)
    with ThreadPoolExecutor(1) as pool, pytest.raises(SystemExit) as raised:
        pool.submit(thread.close).result(SECONDS)
    assert raised.value.code == 3


def test_what_a_call_leaves_is_freed_without_the_collector(supervisor):
    """Neither one that returns nor one that raises. Its future once referred to itself, so each call cost the collector."""
    session = supervisor.start_session(model=ScriptedModel([fails(Authentication("no"))] * 9))
    session.status()
    gc.collect()
    before = {id(one) for one in gc.get_objects()}
    with without_collector():
        for call in (
            session.status,
            supervisor.statistics,
            lambda: session.approve("unknown"),
            lambda: session.ask("Hi"),
            lambda: session.run("Hi"),
            lambda: session.futures.ask("Hi").result(),
        ):
            with suppress(AgentrailError):
                call()
        kinds = InterruptibleFuture | AsyncStream
        until(lambda: {id(one) for one in gc.get_objects() if isinstance(one, kinds)} <= before)


def test_ctrl_c_while_it_closes_waits_for_the_end_and_is_raised():
    """The thread is gone all the same."""
    is_stopping = threading.Event()

    @agentrail.tool
    async def linger() -> str:
        """Take a moment to stop."""
        try:
            await trio.sleep_forever()
        finally:
            is_stopping.set()
            with trio.CancelScope(shield=True):
                await trio.sleep(0.3)

    def interrupt() -> None:
        assert is_stopping.wait(SECONDS)
        os.kill(os.getpid(), signal.SIGINT)

    hand = threading.Thread(target=interrupt)
    supervisor = blocking.Supervisor().open()
    session = supervisor.start_session(model=ScriptedModel([calls(("linger", {}))]), tools=[linger])
    session.prompt("Go")
    until(lambda: session.status().running_tools)
    hand.start()
    with pytest.raises(KeyboardInterrupt):
        supervisor.close()
    hand.join()
    assert repr(supervisor) == "<blocking.Supervisor closed>"


@pytest.mark.parametrize("is_told", [False, True])
def test_ctrl_c_as_close_begins_waits_for_the_end_too(monkeypatch, is_told):
    """Whether or not the thread was told to end before."""
    supervisor, soon = blocking.Supervisor().open(), SupervisorThread.soon

    def interrupted(self, *given):
        monkeypatch.setattr(SupervisorThread, "soon", soon)
        if is_told:
            soon(self, *given)
        raise KeyboardInterrupt

    monkeypatch.setattr(SupervisorThread, "soon", interrupted)
    with pytest.raises(KeyboardInterrupt):
        supervisor.close()
    assert repr(supervisor) == "<blocking.Supervisor closed>"


# --- asyncio


def test_an_asyncio_program_awaits_futures(supervisor):
    """Fifty tasks at once; what `asyncio.timeout` gives up is aborted, and errors come through as they are."""
    model = Gate()
    session, silent = supervisor.start_session(model=model), supervisor.start_session(model=Gate())

    async def ask(number: int) -> str:
        return await asyncio.wrap_future(session.futures.ask(f"{number}"))

    async def main() -> None:
        asking = [asyncio.create_task(ask(number)) for number in range(50)]
        await asyncio.sleep(0.01)
        model.open()
        assert await asyncio.gather(*asking) == [f"to {number}" for number in range(50)]

        with silent.subscribe(kinds=[AgentAbort]) as events:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await asyncio.wrap_future(silent.futures.ask("Hi"))
            assert isinstance(await asyncio.wrap_future(events.futures.next()), AgentAbort)

        given_up = asyncio.wrap_future(silent.futures.ask("Hi"))
        await asyncio.wrap_future(silent.futures.abort("enough"))
        with pytest.raises(CycleAborted, match="enough"):
            await given_up

    asyncio.run(main())


# --- a cycle


def test_a_cycle_is_streamed(supervisor):
    """Its events, its text, and its reply; left in the middle it goes on, or is aborted; a failure is raised from the text."""
    session = supervisor.start_session(model=ScriptedModel([says("a", "b"), says("c"), says("d"), says("e")]))
    with session.stream("Hi") as events:
        kinds = [type(event) for event in events]
    assert (kinds[-1], events.reply.text, events.reply.messages[0].ref) == (AgentEnd, "ab", events.ref)
    with session.stream("And") as events:
        assert "".join(events.text()) == "c"
    with session.stream("And") as events:
        pieces = events.text()
        assert next(pieces) == "d"
        pieces.close()
    assert session.ask("Last") == "e"

    session = supervisor.start_session(model=Gate())
    with session.subscribe(kinds=[AgentAbort]) as events:
        with session.stream("Hi", on_leave="abort") as cycle:
            next(cycle)
        assert isinstance(events.next(timeout_seconds=SECONDS), AgentAbort)
    with session.stream("Hi") as cycle:
        session.abort("enough")
        with pytest.raises(CycleAborted, match="enough"):
            list(cycle.text())
        with pytest.raises(CycleAborted, match="enough"):
            _ = cycle.reply


def test_a_text_that_is_forgotten_may_be_collected_in_the_thread_of_the_supervisor(supervisor):
    """The collector of cycles runs wherever something is made; a wait there would be for itself."""
    session = supervisor.start_session(model="demo:")
    with session.stream("Hi") as events:
        text = events.text()
        assert next(text)
        closed: Future[None] = Future()
        called_there = session.futures.prompt("Later")
        called_there.add_done_callback(lambda _: closed.set_result(text.close()))
        closed.result(SECONDS)
    assert session.ask("Again")


def test_a_text_that_is_cut_by_the_end_of_the_supervisor_says_so():
    """To a reader that comes back when all is over: the end of the text would say that this was the answer."""
    with blocking.Supervisor() as supervisor:
        session = supervisor.start_session(model=ScriptedModel([says("a", "b", "c", pause_seconds=0.2)]))
        events = session.stream("Hi").__enter__()
        text = events.text()
        assert next(text) == "a"
    with pytest.raises(SupervisorClosed, match="the supervisor was closed"):
        next(text)
    with pytest.raises(CycleAborted, match="the supervisor was closed"):
        _ = events.reply


def test_an_event_of_the_cycle_is_waited_for(supervisor):
    """By its class, or by a function, which is called in the other thread. A subscription that was left hears nothing more."""
    session = supervisor.start_session(model=Gate(is_open=True))
    with session.subscribe(kinds=[AgentEnd]) as events:
        pass
    session.prompt("Hi")
    assert session.wait_for(AgentEnd, timeout_seconds=SECONDS).messages[-1].text == "to Hi"
    waiting = session.futures.wait_for(lambda event: isinstance(event, AgentStart))
    assert isinstance(waiting.result(SECONDS), AgentStart)
    assert list(events) == []


# --- events


def test_events_are_iterated_over_until_the_session_ends(supervisor):
    """In their order, each with its number."""
    session = supervisor.start_session(model=ScriptedModel([says("a", "b"), says("c")]))
    with session.subscribe() as events:
        assert events.snapshot.last_seq == 1
        session.ask("Hi")
        session.ask("And")
        session.stop()
        seen = list(events)
    assert "".join(event.delta for event in seen if isinstance(event, MessageDelta)) == "abc"
    assert isinstance(seen[-1], SessionEnd)
    seqs = [event.meta.seq for event in seen if not event.meta.ephemeral]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    assert (events.dropped_deltas, events.is_rested) == (0, False)


def test_nothing_is_lost_by_a_wait_that_was_too_short(supervisor):
    """What comes later is given then. Two readers of one subscription are refused, and the first goes on waiting."""
    session = supervisor.start_session(model="demo:fast")
    with session.subscribe(kinds=[AgentEnd]) as events:
        with pytest.raises(ReplyTimeout, match=r"no event came within 0\.01 s"):
            events.next(timeout_seconds=0.01)
        with pytest.raises(OptionError, match="timeout_seconds is -1"):
            events.next(timeout_seconds=-1)
        waiting = events.futures.next()
        waiting.cancel()
        session.ask("Hi")
        assert isinstance(events.next(timeout_seconds=SECONDS), AgentEnd)

        first = events.futures.next()
        with pytest.raises(
            YourMove,
            match="another thread already reads this subscription: subscribe again, each subscription receives all events",
        ):
            events.next()
        session.ask("Hi")
        assert isinstance(first.result(SECONDS), AgentEnd)
        with pytest.raises(YourMove, match="already entered"):
            events.__enter__()
    with pytest.raises(YourMove, match="not entered"):
        session.subscribe().next()


def test_a_wait_that_is_cancelled_as_its_event_arrives_keeps_the_order(supervisor, monkeypatch):
    """Whether the next call comes before the event is put back or after it, this event is the first."""
    session = supervisor.start_session(model=Gate(is_open=True))
    with session.subscribe(kinds=[AgentEnd]) as events:
        later: list[Future[AgentEnd | None]] = []

        class GivenUp(InterruptibleFuture):
            """One whose caller gives up in the moment in which its event arrives, and then calls again."""

            def set_result(self, result: object) -> None:
                if isinstance(result, AgentEnd) and not later:
                    self.cancel()
                    later.append(events.futures.next())
                super().set_result(result)

        for number in range(3):
            session.ask(f"{number}")
        monkeypatch.setattr("agentrail.blocking.supervisor_thread.InterruptibleFuture", GivenUp)
        with pytest.raises(concurrent.futures.CancelledError):
            events.futures.next().result(SECONDS)
        until(lambda: later)
        first = later[0].result(SECONDS)
        answers = [event.messages[-1].text for event in (first, next(events), next(events))]
    assert answers == ["to 0", "to 1", "to 2"]


def test_a_reader_that_is_too_slow_is_cut_off(supervisor):
    """It gets what the buffer held, then the error with the number to go on after; the reader's side is bounded too."""
    session = supervisor.start_session(model=Gate(is_open=True))
    with session.subscribe(kinds=[AgentEnd], buffer=3) as events:
        for number in range(5):
            session.ask(f"{number}")
        given = []
        with pytest.raises(SubscriberTooSlow) as cut:
            given.extend(events)
        assert [event.messages[-1].text for event in given] == ["to 0", "to 1", "to 2"]
    with session.subscribe(after=cut.value.resume_after, kinds=[AgentEnd]) as events:
        assert next(events).messages[-1].text == "to 3"
    with session.subscribe(kinds=[AgentEnd]) as events:
        for number in range(100):
            session.ask(f"{number}")
        first = next(events)
        assert len(events._taken) == MAX_TAKEN  # noqa: SLF001 - what is bounded
        answers = [event.messages[-1].text for event in (first, *(next(events) for _ in range(99)))]
    assert answers == [f"to {number}" for number in range(100)]


def test_who_reads_when_the_supervisor_closes_gets_the_rest():
    """Also behind the block: what was published before the end is given, and then the iteration ends."""
    with blocking.Supervisor() as supervisor:
        session = supervisor.start_session(model=Gate(is_open=True))
        events = session.subscribe(kinds=[AgentEnd, SessionEnd]).__enter__()
        reports = supervisor.reports().__enter__()
        reader = ThreadPoolExecutor(1)
        waiting = reader.submit(list, supervisor.subscribe_all(kinds=[SessionEnd]).__enter__())
        session.ask("Hi")
    assert [type(event) for event in events] == [AgentEnd, SessionEnd]
    assert events.futures.next().result(0) is None
    assert list(reports) == []
    assert reports.dropped == 0
    assert [type(event) for event in waiting.result(SECONDS)] == [SessionEnd]
    events.__exit__(None, None, None)
    reader.shutdown()
