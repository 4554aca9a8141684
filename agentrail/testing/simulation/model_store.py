"""`ModelStore`: a model of a shared PostgreSQL, with its faults. Its answers are those of `MemoryStore`, one transaction after another."""

from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import Any, Final

import trio
from attrs import define, evolve, field

from agentrail import outside
from agentrail.abc.store import StoredSession, Taken, TakeOver
from agentrail.errors import AgentrailError, StoreUnavailable
from agentrail.stores.memory import MemoryStore
from agentrail.testing.faulty_store import WRITING_CALLS, Cut, CutStore
from agentrail.testing.seeded import BEGINNING
from agentrail.testing.simulation.facts import StoreCall, StoreTrouble
from agentrail.testing.simulation.log import WORLD, LifeLog, place_of_caller
from agentrail.testing.simulation.machine import NodeMachine
from agentrail.testing.simulation.store_calls import named_arguments, sentence_of, session_of
from agentrail.testing.simulation.tape import Tape

_WORST_FIRST: Final[Sequence[StoreTrouble]] = ("away", "full", "lost before", "lost after", "", "slow")


@define(eq=False)
class _Trouble:
    """A fault of the store, for some calls.

    Attributes:
        kind: What happens to the call: it is refused (`away`, `full`), itself or its answer is lost, or the answer is late.
        place: The only place that has it. None: every place.
        names: The only calls that have it. None: all.
        skipped: Number of such calls before it begins.
        left: Number of calls that it still affects.
        until: Its end on Trio's clock.
        late_seconds: How late the answer is, also that of a refusal.
        arguments: Arguments that the call gets instead of its own.
    """

    kind: StoreTrouble
    said: str = ""
    place: str | None = None
    names: Collection[str] | None = None
    skipped: int = 0
    left: float = inf
    until: float = inf
    late_seconds: float = 0.0
    arguments: dict[str, Any] = field(factory=dict)

    def strikes(self, place: str, name: str) -> bool:
        """Count a call, and return whether it is affected."""
        if self.place not in (None, place) or (self.names is not None and name not in self.names):
            return False
        if self.skipped > 0:
            self.skipped -= 1
            return False
        self.left -= 1
        return self.left >= 0


_MAX_ROWS: Final = 100_000
_CUT: Final = "the connection was cut"


class ModelStore(CutStore):
    """The store of all nodes of a world. A node reaches it through offloaded functions only, and so takes virtual time.

    A fault may be limited to a place, such as `node-0`, and to names of calls: `store.go_away(place="node-0", names=["beat"])`.

    Attributes:
        beginning: Date of the beginning of the life on its clock, in seconds since 1970.
        wrong_by_seconds: Difference between its own clock and the world's. `mend` leaves it, since a step back is a fault too.
        is_synchronous: Whether its standby has each commit before the answer, so that a failover loses none. A scenario may set it to False.
    """

    is_immediate: bool = False

    def __init__(
        self, tape: Tape, log: LifeLog, *, lease_ms: int = 15_000, now_ms: Callable[[], int] | None = None
    ) -> None:
        """Create an empty store.

        Args:
            tape: Draws of the life.
            log: Receives a line for each executed call.
            lease_ms: Same as that of the nodes.
            now_ms: Its own clock. By default the world's, wrong by `wrong_by_seconds`.
        """
        self.beginning: float = BEGINNING
        self.wrong_by_seconds: float = 0.0
        self.is_synchronous: bool = True
        self._log, self._lease_ms, self._now_ms = log, lease_ms, now_ms
        self._secret = tape.generator("secret of the store").randbytes(32)
        self._troubles: list[_Trouble] = []
        self._connected: dict[str, None] = {}
        self._commits: list[tuple[int, StoreCall]] = []
        self._replayed_ms: int | None = None
        self._answered: str | None = None  # place of the call that is logged
        self._is_cut = False  # its answer is lost
        super().__init__(self._open())

    def __repr__(self) -> str:
        """Return the number of commits."""
        return f"ModelStore(commits={len(self._commits)})"

    def rows(self) -> tuple[StoredSession, ...]:
        """Return all sessions, whatever is wrong with the store. For the world: no node sees this, and it is not logged."""
        return tuple(self._store.find(limit=_MAX_ROWS))

    # --- faults

    def go_away(
        self,
        seconds: float = inf,
        *,
        place: str | None = None,
        names: Collection[str] | None = None,
        said: str = "the connection was refused",
    ) -> None:
        """Refuse calls for some time, or until `mend`."""
        self._troubles.append(_Trouble("away", said, place, names, until=_now() + seconds))

    def fill(self, seconds: float = inf) -> None:
        """Refuse all calls that write, as with a full disk."""
        until = _now() + seconds
        self._troubles.append(_Trouble("full", "no space left on device", names=WRITING_CALLS, until=until))

    def exhaust(self, seconds: float = inf, *, place: str | None = None) -> None:
        """Refuse all calls of a place, or of all, because no connection is free."""
        self.go_away(seconds, place=place, said="sorry, too many clients already")

    def take_connection(self, place: str) -> None:
        """End the connection of a place, as an administrator does. It finds that out by its next call."""
        self._close_connection(place, "terminating connection due to administrator command")

    def lose_answer(
        self, place: str | None = None, nth: int = 1, when: Cut = "after", name: str | None = None
    ) -> None:
        """Lose one call of a place: before it is executed, or its answer. The caller cannot tell these apart.

        While such a call is logged, the first answer is its own.

        Args:
            place: Whose. None: of any place.
            nth: Which of its calls from now on, from 1.
            when: What is lost.
            name: Count only calls of this method.
        """
        if place and place == self._answered and (when, nth, name) == ("after", 1, None):
            self._is_cut = True
            return
        kind: StoreTrouble = "lost before" if when == "before" else "lost after"
        names = None if name is None else (name,)
        self._troubles.append(_Trouble(kind, _CUT, place, names, skipped=nth - 1, left=1))

    def slow(self, late_seconds: float, seconds: float = inf, *, place: str | None = None) -> None:
        """Delay answers. The calls are executed at once, so that the effect may be long before the answer."""
        until = _now() + seconds
        self._troubles.append(_Trouble("slow", place=place, until=until, late_seconds=late_seconds))

    def congest(self, place: str, late_seconds: float, seconds: float) -> None:
        """Delay answers to a place, that to its next heartbeat three times as long, and lose its later heartbeats."""
        self.slow(late_seconds, seconds, place=place)
        until, beats = _now() + seconds, ("beat",)
        self._troubles.append(
            _Trouble("slow", place=place, names=beats, left=1, late_seconds=2 * late_seconds)
        )
        self._troubles.append(_Trouble("lost before", _CUT, place, beats, skipped=1, until=until))

    def step_clock(self, seconds: float) -> None:
        """Set the clock forward, or back."""
        self.wrong_by_seconds += seconds

    def lock_rows(self, place: str) -> None:
        """Let the next claim or adoption of a place find all rows locked by other transactions. It skips them."""
        names = ("claim", "adopt_owed")
        self._troubles.append(_Trouble("", place=place, names=names, left=1, arguments={"limit": 0}))

    def restart(self, seconds: float) -> None:
        """Be away for some time. Each place finds its connection closed once."""
        facts = StoreCall("restart", {"seconds": seconds}, trouble="restarted")
        self._log.note("store", "restarts", place=WORLD, facts=facts)
        self._go_down(seconds)

    def _go_down(self, seconds: float) -> None:
        self.go_away(seconds)
        for place in self._connected:
            self._close_connection(place, "the server closed the connection unexpectedly")

    def _close_connection(self, place: str, said: str) -> None:
        self._troubles.append(_Trouble("lost before", said, place, left=1))

    def fail_over(self, lost_commits: int = 0, seconds: float = 1.0) -> None:
        """Continue on the standby after some time, which may lack the last commits.

        Args:
            lost_commits: How many it lacks.
            seconds: How long no server answers.

        Raises:
            ValueError: Your move: a synchronous standby lacks none.
        """
        if lost_commits and self.is_synchronous:
            message = f"a synchronous standby lacks no commits (got lost_commits={lost_commits}); set is_synchronous to False first"
            raise ValueError(message)
        kept = max(0, len(self._commits) - lost_commits)
        lost = tuple(call for _, call in self._commits[kept:])
        if lost:
            del self._commits[kept:]
            self._replay()
        facts = StoreCall("fail_over", {"lost_commits": len(lost)}, lost, "failed over")
        self._log.note("store", f"fails over and lacks {len(lost)} commits", place=WORLD, facts=facts)
        self._go_down(seconds)

    def mend(self) -> None:
        """End all faults. The clock stays as it is."""
        self._troubles.clear()

    # --- calls

    def take_many(self, wanted: Sequence[TakeOver]) -> tuple[Taken | AgentrailError, ...]:
        """Take many trees in one transaction. See `ManyTaker.take_many`."""
        answers: tuple[Taken | AgentrailError, ...] = self._call("take_many", wanted)
        return answers

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        trouble, at_ms = self._meet_trouble(name), self._read_clock()
        call = StoreCall(name, named_arguments(name, args, options) | trouble.arguments, None, trouble.kind)
        if call.is_executed:
            call = evolve(call, answer=self._outcome(call))
            if name in WRITING_CALLS and not isinstance(call.answer, Exception):
                self._commits.append((at_ms, call))
        self._answered = place_of_caller()
        self._log.note("store", sentence_of(call), session=session_of(call), facts=call)
        self._answered, is_cut, self._is_cut = None, self._is_cut, False
        if trouble.said or is_cut:
            raise StoreUnavailable(trouble.said or _CUT)
        if isinstance(call.answer, Exception):
            raise call.answer
        return call.answer

    def _meet_trouble(self, name: str) -> _Trouble:
        """Count a call, make its answer late, and return the worst trouble that it meets."""
        place, machine = place_of_caller(), outside.current()
        self._connected[place] = None
        self._troubles = [one for one in self._troubles if one.left > 0 and one.until > _now()]
        met = [one for one in self._troubles if one.strikes(place, name)]  # also counts hidden ones
        if isinstance(machine, NodeMachine):
            machine.late_seconds += sum(one.late_seconds for one in met)
        return min(met, key=lambda one: _WORST_FIRST.index(one.kind), default=_Trouble(""))

    def _outcome(self, call: StoreCall) -> Any:
        try:
            return self._execute(call.name, **call.arguments)
        except AgentrailError as error:
            return error

    def _execute(self, name: str, *args: Any, **options: Any) -> Any:
        return self._secret if name == "secret" else super()._execute(name, *args, **options)

    # --- the server

    def _open(self) -> MemoryStore:
        return MemoryStore(now_ms=self._read_clock, lease_ms=self._lease_ms, is_shared=True)

    def _read_clock(self) -> int:
        if self._replayed_ms is not None:
            return self._replayed_ms
        if self._now_ms is not None:
            return self._now_ms()
        return int((self.beginning + _now() + self.wrong_by_seconds) * 1000)

    def _replay(self) -> None:
        self._store = self._open()
        for at_ms, call in self._commits:
            self._replayed_ms = at_ms
            self._execute(call.name, **call.arguments)
        self._replayed_ms = None


def _now() -> float:
    return trio.current_time() if trio.lowlevel.in_trio_run() else 0.0
