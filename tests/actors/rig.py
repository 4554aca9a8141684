"""The actors of the conformance scenarios, with one ordered log: W, F and Stubborn, and machines as tables.

Time is virtual, and each test ends with nothing left: no task, no descriptor, and no deadline that somebody forgot.
"""

import math
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Final, NoReturn

import pytest
import trio
import trio.testing
from attrs import define, field

from agentrail.actors import (
    IGNORE,
    Behaviour,
    Supervisor,
    cleanup_scope,
    current_actor,
    machine,
    open_supervisor,
    worker,
)
from agentrail.errors import SupervisorGaveUp
from agentrail.otp.child_specs import ChildSpec, StartRecipe, SupervisorFlags
from agentrail.otp.exits import ActorExit, ExitReason, Normal, Shutdown
from agentrail.otp.statem import Init
from agentrail.otp.supervision_types import Report
from agentrail.testing.orphans import no_orphans
from tests.otp.rig import Table


def _run_and_leave_nothing(main: Callable[[], Awaitable[Any]], **options: Any) -> Any:
    async def checked() -> Any:
        async with no_orphans():
            result = await main()
            await trio.testing.wait_all_tasks_blocked()
            left = trio.lowlevel.current_statistics().seconds_to_next_deadline
            assert left == math.inf, f"a timer is left, it would fire in {left:g} s"
        return result

    return trio.run(checked, **{**options, "clock": trio.testing.MockClock(autojump_threshold=0)})


# A mark, and not fixtures: those of pytest-trio work only as arguments, and a test would not use them.
on_virtual_time = pytest.mark.trio(run=_run_and_leave_nothing)


NORMAL: Final = Normal()
GAVE_UP: Final = Shutdown("max_restart_intensity")


class Boom(Exception):
    """What a child of these tests crashes with."""


def boom(text: str) -> NoReturn:
    raise Boom(text)


@contextmanager
def gives_up(reason: ExitReason = GAVE_UP) -> Iterator[None]:
    """Expect that the block of a supervisor is ended by it, and why."""
    try:
        yield
    except SupervisorGaveUp as error:
        assert error.reason == reason, "it ended for another reason"  # noqa: PT017 - the reader sees both reasons
    else:
        pytest.fail("the supervisor did not give up")


def is_boom(reason: object, name: object = None) -> bool:
    """Tell whether somebody crashed as told by `Stage.crash`."""
    return getattr(reason, "type", "").endswith("Boom") and name in {None, getattr(reason, "text", None)}


@define(eq=False)
class Instance:
    """One life of a child: what the test told it to do, and what it saw.

    Attributes:
        arguments: Behind its name, as it was started with them.
        told: Its stop reason, when it noticed that it was to go.
        began_at: When its init began.
    """

    arguments: tuple[object, ...]
    context: Any
    order: trio.Event = field(factory=trio.Event)
    outcome: ExitReason | Exception = NORMAL
    told: ExitReason | None = None
    began_at: float = field(factory=trio.current_time)
    ended_at: float | None = None


class Stage:
    """Makes children that write into one log, and lets them end as the test wants.

    Attributes:
        log: `init x`, `started x`, `stopping x` (it noticed a stop), `gone x` (its clean-up is over).
        plans: What the next starts of a child do: `up`, `fail`, `ignore`, `return`, a number (up after so many
            seconds), or `("fail", seconds)`. When there are no more, what `always` says, else `up`.
        cleanups: How many seconds the clean-up of a child takes, or the exception that it raises.
    """

    def __init__(self) -> None:
        self.log: list[str] = []
        self.reports: list[Report] = []
        self.instances: dict[Any, list[Instance]] = defaultdict(list)
        self.plans: dict[Any, deque[object]] = defaultdict(deque)
        self.always: dict[Any, object] = {}
        self.cleanups: dict[Any, float | Exception] = {}

    # --- children

    def start(self, name: object, *arguments: object) -> StartRecipe:
        return worker(self._serve, name, *arguments)

    def W(self, name: Any, *arguments: object, **options: Any) -> ChildSpec:  # noqa: N802 - as in the scenarios
        return ChildSpec(name, self.start(name, *arguments), **options)

    def F(self, name: Any, **options: Any) -> ChildSpec:  # noqa: N802 - as in the scenarios
        self.always[name] = "fail"
        return self.W(name, **options)

    def Stubborn(self, name: Any, **options: Any) -> ChildSpec:  # noqa: N802 - as in the scenarios
        """Make a child whose clean-up would last 60 s."""
        self.cleanups[name] = 60.0
        return self.W(name, **options)

    def crash(self, *names: object) -> None:
        """Let the newest instance of each crash; it does so at its next turn."""
        for name in names:
            self.end(name, Boom(str(name)))

    def end(self, name: object, outcome: ExitReason | Exception = NORMAL) -> None:
        """Let the newest instance return, exit with a reason, or raise."""
        instance = self.instances[name][-1]
        instance.outcome = outcome
        instance.order.set()

    async def _serve(self, name: Any, *arguments: object, task_status: Any) -> object:
        instance = Instance(arguments, current_actor())
        self.instances[name].append(instance)
        self.log.append(f"init {name}")
        try:
            if not await self._start(name, task_status):
                return None
            await instance.order.wait()
        finally:
            await self._leave(name, instance)
        match instance.outcome:
            case Normal():
                return None
            case Exception() as error:
                raise error
            case reason:
                raise ActorExit(reason)

    async def _start(self, name: Any, task_status: Any) -> bool:
        plan = self.plans[name].popleft() if self.plans[name] else self.always.get(name, "up")
        match plan:
            case float(seconds) | ("fail", float(seconds)):
                await trio.sleep(seconds)
        match plan:
            case "fail" | ("fail", _):
                boom(f"init of {name}")
            case "ignore":
                task_status.started(IGNORE)
            case "up" | float():
                self.log.append(f"started {name}")
                task_status.started(f"info of {name}")
                return True
        return False

    async def _leave(self, name: Any, instance: Instance) -> None:
        instance.told = instance.context.stop_reason
        if instance.told is not None:
            self.log.append(f"stopping {name}")
        try:
            match self.cleanups.get(name):
                case float(seconds):
                    with cleanup_scope():
                        await trio.sleep(seconds)
                case Exception() as error:
                    raise type(error)(*error.args)  # a new one: each raise adds to a traceback
        finally:
            instance.ended_at = trio.current_time()
            self.log.append(f"gone {name}")

    # --- supervisors

    @asynccontextmanager
    async def play(self, tabled: "Tabled", **options: Any) -> AsyncIterator[Any]:
        """Run one machine, `m`, and give its handle."""
        spec = ChildSpec("m", tabled.start, **{"restart": "temporary", **options})
        async with self.open(children=[spec]) as supervisor:
            yield supervisor.handle("m")

    def open(
        self, strategy: Any = "one_for_one", children: Any = (), **flags: Any
    ) -> "AbstractAsyncContextManager[Supervisor]":
        """Open a supervisor with the defaults of the scenarios: intensity 1 within 5 s."""
        return open_supervisor(self.flags(strategy, **flags), children, observer=self.reports.append)

    @staticmethod
    def flags(strategy: Any = "one_for_one", **flags: Any) -> SupervisorFlags:
        """Make flags with the defaults of the scenarios."""
        return SupervisorFlags(strategy, **{"intensity": 1, "period_seconds": 5.0, **flags})

    # --- what happened

    def seen(self, *words: str) -> list[str]:
        """Return what stands in the log, of these words, and forget all of it."""
        taken = [entry for entry in self.log if not words or entry.split()[0] in words]
        self.log.clear()
        return taken

    def kinds(self, *but: str) -> list[tuple[str, object]]:
        """Return kind and child of the reports so far, without those of progress."""
        return [(one.kind, one.child_id) for one in self.reports if one.kind not in {"progress", *but}]

    def alive(self, name: object) -> int:
        """Count the instances of a child that run."""
        return sum(instance.ended_at is None for instance in self.instances[name])


class Tabled(Table, Behaviour[Any, Any]):
    """A table as the behaviour of an actor. One object serves all incarnations, so the log is one.

    Attributes:
        first: What init answers, raises, or awaits before it does.
        ends: The reasons that `terminate` was called with.
        at_end: What `terminate` does besides: nothing, or raise this.
        performs: What `perform` was given.
    """

    def __init__(self, table: dict[Any, Any], enter: object = None, **options: Any) -> None:
        super().__init__(table, enter)
        self.first: Any = options.pop("first", Init("s1", None))
        self.at_end: Exception | None = options.pop("at_end", None)
        self.init_seconds: float = options.pop("init_seconds", 0.0)
        self.ends: list[ExitReason] = []
        self.performs: list[object] = []
        self.options = options

    @property
    def start(self) -> StartRecipe:
        made = machine(lambda: self)
        return made.with_options(**self.options) if self.options else made

    async def init(self) -> Any:
        """Give, or raise, what `first` is."""
        await trio.sleep(self.init_seconds)
        if isinstance(self.first, Exception):
            raise self.first
        return self.first

    async def perform(self, effect: Any, context: Any) -> Any:
        self.performs.append(effect)
        return await effect() if callable(effect) else None

    async def terminate(self, reason: ExitReason, state: Any, data: Any) -> None:
        self.ends.append(reason)
        if self.at_end is not None:
            raise self.at_end


settled = trio.testing.wait_all_tasks_blocked
"""Wait until everybody waits for something. Virtual time stands still meanwhile."""
"""Wait until everybody waits for something. Virtual time stands still meanwhile."""


async def cast(handle: Any, *messages: object) -> None:
    for message in messages:
        handle.cast(message)
    await settled()


def statuses(children: Any) -> dict[object, str]:
    """Say how each child is, of `which_children`."""
    return {child.id: child.status for child in children}
