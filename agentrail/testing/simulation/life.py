"""`run(scenario, seed)`: lives one life, with every promise judged after each thing that happens."""

import inspect
import logging
import signal
import socket
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from traceback import extract_stack
from types import FrameType
from typing import Any, Final, TypeAlias

import trio
from attrs import evolve, frozen

from agentrail import logs
from agentrail.core.protocol.effects import Publish, Refuse, ReplyToCaller
from agentrail.core.session.state import SessionState
from agentrail.events import Event
from agentrail.otp.guarded_calls import what_leaves
from agentrail.outside import installed
from agentrail.remote.frame_codec import position_of
from agentrail.remote.read_position import RemoteReading
from agentrail.runtime import session_actor
from agentrail.runtime.event_bus import EventBus
from agentrail.runtime.interpreter import Interpreter
from agentrail.runtime.session_actor import SessionCell
from agentrail.testing.clock import FakeClock
from agentrail.testing.digest import Digest
from agentrail.testing.seams import Seam, around, wrapped
from agentrail.testing.seeded import NotRepeatable, seeded_order, why_not_repeatable
from agentrail.testing.simulation.census import Census
from agentrail.testing.simulation.checkers import standard_checkers
from agentrail.testing.simulation.disk_store import simulated_files, simulated_witnesses
from agentrail.testing.simulation.facts import INTERRUPTED, Closed, Logged, ReceivedAgain, SessionStep
from agentrail.testing.simulation.gods_eye import Checker
from agentrail.testing.simulation.log import WORLD, LifeLog, LogLine
from agentrail.testing.simulation.machine import NodeMachine, is_held
from agentrail.testing.simulation.nemesis import SimulatedCrash
from agentrail.testing.simulation.schedule import PORTFOLIO, Deadlock, Schedule, TaskOrder
from agentrail.testing.simulation.tape import Drawn, Tape
from agentrail.testing.simulation.world import World
from agentrail.testing.timer_signals import timer_signal

WorldScenario: TypeAlias = Callable[[World], Awaitable[object] | None]
"""Says what a world has, and who lives in it. It does not wait for the life."""

MAX_WORLD_NODES: Final = 50
MAX_LIFE_SECONDS: Final = 24 * 3600.0
SPIN_SECONDS: Final = 30.0
"""Time of the processor after which a step of a task counts as one without end."""


@frozen
class Broken:
    """A promise that a life broke.

    Attributes:
        checker: Name of the checker, or of the scenario's own check.
        said: What is wrong, as a sentence.
        at: Seconds of virtual time.
        line: Number of the line of the log at which it showed.
    """

    checker: str
    said: str
    at: float
    line: int


@frozen(kw_only=True)
class Shrunk:
    """What a life was shrunk from, and how.

    Attributes:
        faults: Number of faults in the life before.
        prompts: Number of prompts in the life before.
        lives: Number of lives that were tried.
        seconds: Time of the processor that it took.
    """

    faults: int
    prompts: int
    lives: int
    seconds: float


@frozen(kw_only=True)
class Report:
    """One life.

    Attributes:
        digest: BLAKE2b over all steps of tasks and all lines of the log: the same seed has the same.
        steps: Number of steps of tasks.
        virtual_seconds: How long it took in the world.
        broken: The first broken promise. None: all held.
        drawn: What was drawn and is not calm, to live it again: see `Tape`.
        shrunk: What it was shrunk from, if it was.
    """

    scenario: WorldScenario
    seed: object
    nodes: int
    seconds: float
    schedule: Schedule
    digest: str
    steps: int
    virtual_seconds: float
    log: LifeLog
    census: Census
    broken: Broken | None
    drawn: Mapping[str, Drawn]
    shrunk: Shrunk | None = None


class LifeInterrupted(KeyboardInterrupt):
    """Ctrl-C ended a life.

    Attributes:
        report: The life so far. Another life with its draws is the same one up to here, and then calm.
    """

    def __init__(self, report: Report) -> None:
        """Store the report."""
        super().__init__(f"seed {report.seed} was interrupted")
        self.report: Report = report


class _Judge:
    """Shows each line to all checkers, and keeps the first broken promise."""

    def __init__(self, world: World, checkers: tuple[Checker, ...]) -> None:
        self._world = world
        self._checkers = checkers
        self.broken: Broken | None = None
        self.error: Exception | None = None

    def see(self, line: LogLine) -> None:
        if self.broken is not None or self._world.is_over:
            return
        try:
            for checker in self._checkers:
                said = checker.see(line)
                if said is not None:
                    self.note_broken(checker.name, said)
            for name, check in self._world._always:  # noqa: SLF001 - one room
                self._ask(name, check)
        except Exception as error:  # the code that logs a line might handle it as an error of its own
            self.fail(error)
            raise

    def finish(self) -> None:
        try:
            for checker in self._checkers:
                for said in checker.finish():
                    self.note_broken(checker.name, said)
            for name, check in self._world._finally:  # noqa: SLF001 - one room
                self._ask(name, check)
        except Exception as error:
            self.fail(error)
            raise

    def _ask(self, name: str, check: Callable[[], object]) -> None:
        try:
            if inspect.isawaitable(check()):
                message = f"check {name!r} is async, and nothing awaits it: make it a plain function"
                raise TypeError(message)
        except AssertionError as error:
            self.note_broken(name, str(error) or f"{name} does not hold")

    def fail(self, error: Exception) -> None:
        """End the life with an error: of a checker, or because it would not be repeatable."""
        self.error = self.error or error
        self._world.end()

    def note_broken(self, name: str, said: str) -> None:
        if self.broken is None:
            lines = self._world.log.lines
            self.broken = Broken(name, said, lines[-1].at if lines else 0.0, len(lines) - 1)
            if trio.lowlevel.in_trio_run():
                self._world.end()


def check_life_size(nodes: int, hours: float) -> None:
    """Check the size of a world.

    Raises:
        ValueError: Your move: no nodes, too many, or a time that is not positive or more than a day.
    """
    if not 1 <= nodes <= MAX_WORLD_NODES or not 0 < hours * 3600 <= MAX_LIFE_SECONDS:
        message = f"nodes is {nodes!r} and hours is {hours!r}: expected 1 to {MAX_WORLD_NODES} nodes and at most 24 hours"
        raise ValueError(message)


def run(  # noqa: PLR0913 - what a life depends on, by keyword
    scenario: WorldScenario,
    seed: object,
    *,
    nodes: int = 1,
    hours: float = 0.1,
    schedule: Schedule = PORTFOLIO,
    given: Mapping[str, Drawn] | None = None,
    checkers: Callable[[World], tuple[Checker, ...]] | None = None,
    digest: Digest | None = None,
) -> Report:
    """Live one life of a scenario.

    Args:
        scenario: Says what the world has.
        seed: Any object with its own `str`.
        nodes: Number of nodes.
        hours: Virtual time, in hours, up to a day. The calm end comes after it.
        schedule: How the order of tasks is drawn.
        given: Draws of an earlier report. None: they come from the seed.
        checkers: Judges of the life. None: all standard ones.
        digest: Receives all steps and lines. None: a new one, which keeps no text.

    Raises:
        NotRepeatable: Your move: under this release of Trio a seed would mean nothing, or the life used a thread, a socket or a process.
        ValueError: Your move: no nodes, or a time that is not positive or more than a day.
        LifeInterrupted: Ctrl-C. It has the report of the life so far.
        BaseException: An exception of the scenario, or of a node: an error of the program, not a broken promise.
    """
    fault = why_not_repeatable()
    if fault is not None:
        raise NotRepeatable(fault)
    check_life_size(nodes, hours)
    tape = Tape(seed, given)
    order = TaskOrder(schedule, tape, is_held)
    digest = Digest() if digest is None else digest
    world = World(tape, order, nodes=nodes, seconds=hours * 3600)
    judge = _Judge(world, (checkers or standard_checkers)(world))
    census = Census()
    world.log.watchers += [partial(_write_down, digest), census.see, judge.see]
    with seeded_order(seed, order), installed(NodeMachine(seed, WORLD)):
        interrupted = _live(scenario, world, judge, [order, digest])
    if judge.error is not None:
        raise judge.error
    report = Report(
        scenario=scenario,
        seed=seed,
        nodes=nodes,
        seconds=world.seconds,
        schedule=schedule,
        digest=digest.hexdigest(),
        steps=order.steps,
        virtual_seconds=world.ended_at,
        log=world.log,
        census=census,
        broken=judge.broken,
        drawn=tape.drawn,
    )
    if interrupted:
        raise LifeInterrupted(report)
    return report


def _live(scenario: WorldScenario, world: World, judge: _Judge, instruments: list[Any]) -> bool:
    """Live a life to its end, and return whether it was interrupted. One that cannot end is broken."""

    async def live() -> None:
        stack.enter_context(wrapped(_refusals(judge)))
        setting_up = scenario(world)
        if inspect.isawaitable(setting_up):
            await setting_up
        stack.enter_context(wrapped(world.seams))
        stack.enter_context(world.network.installed())
        await world.live(judge.finish)

    endless = _EndlessSteps(judge)
    with (
        ExitStack() as stack,  # left after the run, whose last tasks may still use the network
        watching(world.log),
        hearing(world.log),
        simulated_files(),
        simulated_witnesses(),
        endless.interrupted(),
    ):
        try:
            # Ctrl-C in the midst of a step would break it, and be taken for an error of the program.
            trio.run(
                live,
                clock=FakeClock(),
                instruments=[*instruments, endless],
                restrict_keyboard_interrupt_to_checkpoints=True,
            )
        except trio.TrioInternalError as error:
            if not isinstance(error.__cause__, Deadlock):
                raise
            judge.note_broken("a life ends", str(error.__cause__))
        except (KeyboardInterrupt, BaseExceptionGroup) as error:
            if judge.error is not None:
                return False
            if what_leaves(error, (KeyboardInterrupt,)) is None:
                raise
            judge.note_broken(INTERRUPTED, "Ctrl-C")
            return judge.broken is not None and judge.broken.checker == INTERRUPTED
    return False


class _EndlessSteps(trio.abc.Instrument):
    """Interrupts code that takes the processor and never returns to the loop. Only the main thread gets signals."""

    def __init__(self, judge: _Judge) -> None:
        self._judge = judge
        self._is_heard = threading.current_thread() is threading.main_thread()

    def after_io_wait(self, timeout: float) -> None:
        """Start the timer anew. It must not ring in a life that continues: a signal wakes a task of Trio, which is a step more."""
        del timeout
        if self._is_heard:
            signal.setitimer(signal.ITIMER_VIRTUAL, SPIN_SECONDS)

    def interrupted(self) -> AbstractContextManager[None]:
        if not self._is_heard:
            return nullcontext()
        return timer_signal(signal.SIGVTALRM, signal.ITIMER_VIRTUAL, self._interrupt, SPIN_SECONDS)

    def _interrupt(self, _: int, frame: FrameType | None) -> None:
        at = "" if frame is None else f": see {frame.f_code.co_filename}:{frame.f_lineno}"
        self._judge.note_broken("a life ends", f"a step of a task has no end{at}")
        raise KeyboardInterrupt


def _refusals(judge: _Judge) -> list[Seam]:
    """Return seams that end a life for threads, sockets and processes of the machine, which no seed controls."""
    thread = threading.get_ident()

    def refusing(what: str, original: Any) -> Any:
        def refused(*given: Any, **named: Any) -> Any:
            if threading.get_ident() != thread:  # not of this life
                return original(*given, **named)
            own = {module.__file__ for module in (socket, subprocess, threading)}
            frames = [one for one in extract_stack()[:-1] if one.filename not in own]
            at = f"{frames[-1].filename}:{frames[-1].lineno}"
            error = NotRepeatable(f"a life must not {what}, which no seed controls: see {at}")
            judge.fail(error)
            raise error

        return refused

    return [
        (trio.to_thread, "run_sync", partial(refusing, "use a thread")),
        (threading.Thread, "start", partial(refusing, "start a thread")),
        (socket.socket, "__init__", partial(refusing, "open a socket")),
        (subprocess.Popen, "__init__", partial(refusing, "start a process")),
    ]


def _write_down(digest: Digest, line: LogLine) -> None:
    digest.note(line.kind, f"{line.at!r} {line.place} {line.session} {line.said}")


# --- what sessions do, written into the log of a life; the code of the product is unchanged

_LOGGER: Final = logging.getLogger("agentrail")

_NO_BUGS: Final = (SimulatedCrash.__name__, "CallRefused: 500 internal")
"""Errors that are faults of the world, or relayed from another node, which has logged its own."""


class _Writer(logging.Handler):
    def __init__(self, log: LifeLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        is_error = record.levelno >= logging.ERROR and not any(one in text for one in _NO_BUGS)
        self._log.note("log", "logs: " + text.split("\n", 1)[0], facts=Logged(is_error))


@contextmanager
def hearing(log: LifeLog) -> Iterator[None]:
    """Write warnings and errors of the product into a log, and nowhere else, during the block."""
    before = _LOGGER.handlers, _LOGGER.propagate
    _LOGGER.handlers, _LOGGER.propagate = [_Writer(log)], False
    try:
        # The program's own log is not read.
        with wrapped([(logs, "_structlog_set_up", lambda _: lambda: None)]):
            yield
    finally:
        _LOGGER.handlers, _LOGGER.propagate = before


@contextmanager
def watching(log: LifeLog) -> Iterator[None]:
    """Write the steps, effects and events of all sessions of the process into a log, during the block."""
    with wrapped((*_step_seams(log), *_effect_seams(log), *_event_seams(log))):
        yield


def _step_seams(log: LifeLog) -> tuple[Seam, ...]:
    noted: list[list[SessionStep]] = []

    def note(step: SessionStep) -> None:
        session, phase = step.before.data.config.session_id, step.after.phase.name
        log.note("step", f"steps {type(step.signal).__name__}: {phase}", session=session, facts=step)

    @around
    def steps(before: Any, state: SessionState, signal: Any) -> Any:
        after, effects = before(state, signal)
        made = SessionStep(state, signal, after, effects)
        if noted:
            noted[-1].append(made)
        else:
            note(made)
        return after, effects

    @around
    def notes(before: Any, journal: Any, state: SessionState, signal: Any) -> Any:
        noted.append([])
        try:
            stepped = before(journal, state, signal)
        finally:
            made = noted.pop()
        is_recorded = stepped.drafts and journal.refusal is None
        number = journal.tail.seq + len(stepped.drafts) if is_recorded else 0
        for one in made:
            note(evolve(one, record=number))
        return stepped

    return (session_actor, "step", steps), (session_actor, "_step_noted", notes)


def _effect_seams(log: LifeLog) -> tuple[Seam, ...]:
    @around
    def carries_out(before: Any, interpreter: Interpreter, effect: Any, state: SessionState) -> None:
        if not isinstance(effect, Publish):
            name = getattr(effect, "effect_id", "") or getattr(effect, "to", "")
            said = f"carries out {type(effect).__name__} {name}"
            log.note("effect", said, session=state.data.config.session_id, facts=effect)
        before(interpreter, effect, state)

    @around
    def tells(before: Any, cell: SessionCell, effect: Any) -> None:
        if isinstance(effect, ReplyToCaller | Refuse):
            said = f"carries out {type(effect).__name__} {effect.to}"
            log.note("effect", said, session=cell.ports.session_id, facts=effect)
        before(cell, effect)

    return (Interpreter, "carry_out", carries_out), (SessionCell, "_tell", tells)


def _event_seams(log: LifeLog) -> tuple[Seam, ...]:
    @around
    def publishes(before: Any, bus: EventBus, event: Event) -> None:
        meta = event.meta
        if meta is not None and not meta.ephemeral:
            said = f"publishes {type(event).__name__} {meta.seq}"
            log.note("event", said, session=bus.session_id, facts=event)
        before(bus, event)

    @around
    def closes(
        before: Any, bus: EventBus, reason: str, *, is_rested: bool = False, is_moved: bool = False
    ) -> None:
        facts = Closed(reason, is_rested=is_rested, is_moved=is_moved)
        log.note("note", f"closes: {reason}", session=bus.session_id, facts=facts)
        before(bus, reason, is_rested=is_rested, is_moved=is_moved)

    @around
    def takes(before: Any, reading: RemoteReading, event: Any) -> bool:
        seq, is_ephemeral = position_of(event)
        if reading.standing == "open" and not is_ephemeral and 0 < seq <= (reading.cursor or 0):
            facts = ReceivedAgain(seq)
            log.note("read", f"receives event {seq} again", session=reading.session_id, facts=facts)
        taken: bool = before(reading, event)
        return taken

    return (EventBus, "publish", publishes), (EventBus, "close", closes), (RemoteReading, "take_event", takes)
