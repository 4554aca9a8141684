"""The store writer: sends records of all sessions to the store in batches, from one thread at a time. No session waits.

Only `commit` blocks. A failed batch is retried, which is safe: writing the same records again has no effect.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn, Protocol, TypeVar, cast

import trio
from attrs import define, field, frozen

from agentrail.abc.store import Append, Standing, Store, Taken, TakeOver, take_all
from agentrail.core.journal.record import Record, codec_of
from agentrail.core.protocol.effects import (
    AskHost,
    CancelPluginRequest,
    CancelStream,
    ClearTimer,
    CloseAgent,
    Effect,
    GatherContext,
    KillTools,
    PromptAgent,
    Publish,
    Refuse,
    ReplyToCaller,
    ResumeChild,
    RunPluginRequest,
    RunTool,
    SetTimer,
    SpawnChild,
    StartAgent,
    StartStream,
    Teardown,
    TellHost,
    stall_timer_of,
)
from agentrail.core.protocol.request import EffectId
from agentrail.core.session.state import SessionState
from agentrail.errors import AgentrailError, StoreUnavailable
from agentrail.events import TERMINAL
from agentrail.logs import Logger
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.exits import keep
from agentrail.otp.guarded_calls import call_guarded
from agentrail.outside import Outside, current
from agentrail.runtime.crashes import MAX_CRASH_MESSAGE, log_crash

T = TypeVar("T")

LOGGER: Final = Logger("agentrail.runtime")
NO_ANSWER: Final = "it does not answer"
MAX_BATCH: Final = 512
"""Maximum number of sessions committed together."""

FIRST_PAUSE_SECONDS: Final = 0.02
LONGEST_PAUSE_SECONDS: Final = 0.5
"""Longest pause in seconds between two attempts while the store is unavailable."""

COMPANY_SECONDS: Final = 0.005
"""How long records that nothing urgent waits for stay in the queue, so that later ones share their commit."""

MAX_BUGS: Final = 3
"""Attempts at records written alone for which the store raises unexpected errors, before their session is given up."""


class WriterClient(Protocol):
    def written(self, up_to: int) -> None: ...

    def refused(self, error: AgentrailError) -> None:
        """Called when no more of its records will be accepted."""

    def kept_waiting(self) -> None: ...

    def standing(self) -> Standing: ...


@define(eq=False)
class WriterJob:
    of: WriterClient
    records: list[Record]
    number: int
    blobs: dict[str, bytes] = field(factory=dict)
    bugs: int = 0

    def append(self) -> Append:
        return Append(
            records=tuple(self.records),
            standing=self.of.standing(),
            codec=codec_of(self.records),
            blobs=self.blobs,
        )


@frozen
class StoreBug(Exception):
    said: str


def bug_told(
    doing: str, expected: type[AgentrailError] = AgentrailError
) -> Callable[[BaseException], NoReturn]:
    """Return an exception handler for `call_guarded`. Expected store errors propagate. Others are logged and become a `StoreBug`."""

    def tell(error: BaseException) -> NoReturn:
        if isinstance(error, expected):
            raise error
        said = describe_bug(error)[:MAX_CRASH_MESSAGE]
        log_crash(f"the store crashed in {doing}: {said}", error, keep)
        raise StoreBug(said) from None

    return tell


_TELL_BUG: Final = bug_told("an append", StoreUnavailable)


@frozen
class BatchOutcome:
    """Outcome of a batch.

    Attributes:
        answers: For each job None if it is durable, or why it never will be. Empty if the outcome is unknown.
        trouble: Why the outcome is unknown, as reported to callers. None if it is known.
        is_bug: Whether the store raised an unexpected error, so that one of the jobs may have caused it.
    """

    answers: tuple[AgentrailError | None, ...] = ()
    trouble: str | None = None
    is_bug: bool = False


@define(eq=False)
class _Call:
    function: Callable[[], Any]
    tree: TakeOver | None = None
    repeated: tuple[str, str] | None = None
    after: int = 0  # number of the last job that is written first
    is_wanted: bool = True
    done: trio.Event = field(factory=trio.Event)
    value: Any = None
    error: BaseException | None = None

    def fail(self, error: BaseException) -> None:
        self.error = error


class Writer:
    def __init__(self, store: Store, *, patience_seconds: float, outside: Outside | None = None) -> None:
        self.store: Store = store
        self.patience_seconds: float = patience_seconds
        self._outside = outside or current()
        # A thread of its own: all shared threads may be busy, and then no record would become durable.
        self._limiter = trio.CapacityLimiter(1)
        self._jobs: dict[WriterClient, WriterJob] = {}
        self._last_job = 0
        self._again: deque[WriterJob] = deque()  # retried one by one
        self._calls: deque[_Call] = deque()
        self.unanswered: dict[tuple[str, str], Callable[[], object]] = {}
        """Calls that are repeated, as the store has not answered them, by key."""
        self._repeat_at = -math.inf
        self._under_way: tuple[WriterJob, ...] = ()
        self._since: float | None = None
        self._trouble = NO_ANSWER
        self._has_work = trio.Event()
        self._due_at = math.inf  # when the records in the queue must be written
        self._parked = trio.CancelScope()
        self._is_back = trio.Event()
        self._is_back.set()
        self._is_empty = trio.Event()
        self._began = trio.Event()
        self.doubts: int = 0
        """Doubts of this node in its ownership now, see `runtime.trust`."""
        self.sent_doubts: int = 0
        """The same when the last batch was sent."""
        self.on_written: Callable[[float, int], None] | None = None
        """Called after each written batch with its duration in seconds and the bytes of its records' bodies."""

    # --- called by sessions

    def put(
        self,
        of: WriterClient,
        records: Sequence[Record],
        blobs: Mapping[str, bytes] | None = None,
        *,
        may_wait: bool = False,
    ) -> None:
        """Accept records without waiting. They are written whatever happens to the caller.

        Args:
            of: Their session.
            records: The records.
            blobs: Values that are stored next to them, by digest.
            may_wait: Whether they may wait for company. Otherwise everything in the queue is written now.
        """
        job = self._jobs.get(of)
        if job is None:
            self._last_job += 1
            job = self._jobs[of] = WriterJob(of, [], self._last_job)
        job.records.extend(records)
        if blobs:
            job.blobs.update(blobs)
        if not may_wait:
            self.hurry()
        elif self._due_at == math.inf:
            # The task that writes is not woken, only its alarm is set: it sleeps on if something urgent comes first.
            self._due_at = self._parked.deadline = trio.current_time() + COMPANY_SECONDS
            self._note_work()

    def hurry(self) -> None:
        """Write the records that wait for company now."""
        if self._jobs:
            self._due_at = -math.inf
            self._wake()

    async def call(self, function: Callable[[], T]) -> T:
        """Run another write of the store between two batches, and wait for it.

        Cancellation: A call that has not begun is not made. One that has begun completes, and its result is discarded.
        """
        return cast("T", await self._value_of(_Call(function)))

    async def take(self, wanted: TakeOver) -> Taken:
        """Take over a tree. Directly following requests in the queue are made in the same call of the store.

        Cancellation: A call that has not begun is not made. One that has begun completes, and its result is discarded.
        """
        take = partial(self.store.take, wanted.scope, wanted.root, wanted.node, wanted.cause)
        take = partial(take, force=wanted.force, silent=wanted.silent, tail=wanted.tail)
        return cast("Taken", await self._value_of(_Call(take, wanted)))

    async def _value_of(self, call: _Call) -> Any:
        if not self.is_available:
            await trio.lowlevel.checkpoint()
            raise self.unavailable_error()
        call.after = self._last_job if self._is_due else 0  # due records first: calls may come without end
        self._calls.append(call)
        self._wake()
        try:
            with trio.move_on_after(self.patience_seconds):
                await call.done.wait()
        finally:
            call.is_wanted = False
            if call in self._calls:
                self._calls.remove(call)
        if not call.done.is_set():
            message = f"the store did not answer within {self.patience_seconds:g} s: try again later"
            raise StoreUnavailable(message)
        if call.error is not None:
            errors, call.error = [call.error], None  # frames of its traceback refer to the call
            raise errors.pop()
        return call.value

    def post(self, function: Callable[[], object]) -> None:
        """Run another write of the store after all records and calls that were accepted before it. It returns at once."""
        if self.store.is_immediate:  # at once, so that later calls find it done
            call_guarded(lambda _: None, function)
            return
        self._calls.append(_Call(function, after=self._last_job))
        self._wake()

    def repeat(self, scope: str, name: str, function: Callable[[], object]) -> None:
        """Like `post`, and make the call again until the store has answered it or a later one of this key, or this node takes the tree `name`.

        A node that lives on must not keep a tree that it does not use.
        """
        if self.store.is_immediate:
            self.post(function)
            return
        self._calls.append(_Call(function, repeated=(scope, name), after=self._last_job))
        self._wake()

    def _wake(self) -> None:
        self._note_work()
        self._has_work.set()

    def _note_work(self) -> None:
        if self._is_empty.is_set():
            self._is_empty = trio.Event()

    @property
    def is_available(self) -> bool:
        return self._is_back.is_set()

    def unavailable_error(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"the store has not taken a record for {self.patience_seconds:g} s ({self._trouble}): nothing is acknowledged until it does, but work can still be stopped. Try again later, with the same client_id"
        )

    async def wait_available(self) -> None:
        while not self.is_available:
            await self._is_back.wait()

    async def wait_empty(self) -> None:
        self.hurry()
        while not self._is_empty.is_set():
            await self._is_empty.wait()

    # --- the three steps

    def take_batch(self) -> tuple[WriterJob, ...]:
        if self._again:
            self._under_way = (self._again.popleft(),)
            return self._under_way
        if len(self._jobs) <= MAX_BATCH:
            batch, self._jobs, self._due_at = tuple(self._jobs.values()), {}, math.inf
        else:
            first = [of for of, _ in zip(self._jobs, range(MAX_BATCH), strict=False)]
            batch = tuple([self._jobs.pop(of) for of in first])
        self._under_way = batch
        return batch

    def commit(self, appends: Sequence[Append]) -> BatchOutcome:
        """Write a batch. This blocks: it is the one step that belongs into a worker thread."""
        try:
            answers = call_guarded(_TELL_BUG, self.store.append, appends)
        except StoreUnavailable as error:
            return BatchOutcome(trouble=str(error))
        except StoreBug as bug:
            return BatchOutcome(trouble=f"the store raised {bug.said}", is_bug=True)
        return BatchOutcome(answers)

    def report(self, batch: Sequence[WriterJob], outcome: BatchOutcome) -> bool:
        """Report the outcome of a batch to the sessions. Return whether it is done. Otherwise it must be committed again."""
        if outcome.trouble is not None:
            self._trouble = outcome.trouble
            return outcome.is_bug and self._set_apart(batch, outcome.trouble)
        for job, answer in zip(batch, outcome.answers, strict=True):
            if answer is None:
                job.of.written(job.records[-1].seq)
            else:
                self._give_up(job, answer)
        self._done()
        return True

    def _set_apart(self, batch: Sequence[WriterJob], trouble: str) -> bool:
        """Retry each job of a batch alone, so that one that the store cannot handle does not affect the others."""
        if len(batch) > 1:
            self._again.extend(batch)
            self._under_way = ()
            return True
        job = batch[0]
        job.bugs += 1
        if job.bugs < MAX_BUGS:
            return False
        message = f"its journal cannot be written: {trouble}; please report it"
        self._give_up(job, StoreUnavailable(message))
        self._done()
        return True

    def _give_up(self, job: WriterJob, error: AgentrailError) -> None:
        self._jobs.pop(job.of, None)  # later records of it are dropped too
        job.of.refused(error)

    def _done(self) -> None:
        self._under_way = ()
        self._since = None
        self._trouble = NO_ANSWER
        self._is_back.set()

    # --- the driving task

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_patience, name="patience with the store")
            while True:
                await self._wait_for_work()
                if self.unanswered and trio.current_time() >= self._repeat_at:
                    # Before calls that wait already: one of them may take the same tree again.
                    self._calls.extendleft(_Call(one, repeated=key) for key, one in self.unanswered.items())
                    self.unanswered.clear()
                while self._calls and not self._is_early(self._calls[0]):
                    calls = [self._calls.popleft()]
                    # A take-over comes with all directly following ones. Batches run in between.
                    while calls[0].tree is not None and self._calls and self._calls[0].tree is not None:
                        calls.append(self._calls.popleft())
                    await self._carry_out(calls)
                if self._is_due or self._calls:  # calls that are left wait for records
                    await self._write(self.take_batch())

    @property
    def _is_due(self) -> bool:
        return bool(self._again or (self._jobs and self._due_at <= trio.current_time()))

    async def _wait_for_work(self) -> None:
        if self._calls or self._is_due:
            return
        if not self._jobs:  # written, or dropped with a session that was refused
            self._is_empty.set()
            self._due_at = math.inf
        self._has_work = trio.Event()
        repeat_at = self._repeat_at if self.unanswered else math.inf
        with trio.CancelScope(deadline=min(self._due_at, repeat_at)) as self._parked:
            await self._has_work.wait()

    async def _write(self, batch: tuple[WriterJob, ...]) -> None:
        appends = [job.append() for job in batch]
        pause = FIRST_PAUSE_SECONDS
        self._begin()
        # Not the stopwatch, which would draw: a run must be the same without metrics.
        began = trio.current_time()
        self.sent_doubts = self.doubts
        while not self.report(batch, await self._offload(partial(self.commit, appends))):
            await trio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            self.sent_doubts = self.doubts
        if self.on_written is not None:
            size = sum(len(record.body) for one in appends for record in one.records)
            self.on_written(trio.current_time() - began, size)

    def _begin(self) -> None:
        if self._since is None:
            self._since = trio.current_time()
            self._began.set()

    async def _offload(self, function: Callable[[], T]) -> T:
        if self.store.is_immediate:
            # In place: it takes no time. A virtual clock would not wait for a thread, and would time out before it started.
            await trio.lowlevel.checkpoint()
            return function()
        return await self._outside.offload(function, abandon_on_cancel=True, limiter=self._limiter)

    def _is_early(self, call: _Call) -> bool:
        oldest = self._again[0] if self._again else next(iter(self._jobs.values()), None)
        return oldest is not None and oldest.number <= call.after

    async def _carry_out(self, calls: Sequence[_Call]) -> None:
        self._begin()
        await self._offload(partial(_make_calls, self.store, calls))
        self._since = None
        # A failed call is not retried. Without records, nothing would notice that the store is back, so the next call tries it.
        failed = any(isinstance(call.error, StoreUnavailable) for call in calls)
        is_away = failed and bool(self._jobs or self._again)
        if not self.is_available and not is_away:
            self._done()
        for call in calls:
            call.done.set()
            key = call.repeated if call.tree is None else (call.tree.scope, call.tree.root)
            if key is not None:
                self.unanswered.pop(key, None)
            if call.repeated is not None and isinstance(call.error, StoreUnavailable):
                self.unanswered[call.repeated] = call.function
                self._repeat_at = trio.current_time() + LONGEST_PAUSE_SECONDS

    async def _watch_patience(self) -> None:
        while True:
            since = self._since
            if since is None or not self.is_available:
                self._began = trio.Event()
                await (self._began if since is None else self._is_back).wait()
                continue
            await trio.sleep_until(since + self.patience_seconds)
            if self._since == since:
                told = "the store has not taken a record for %g s (%s): sessions wait until it does, and can be stopped"
                LOGGER.warning(told, self.patience_seconds, self._trouble)
                self._is_back = trio.Event()
                for job in (*self._under_way, *self._again, *self._jobs.values()):
                    job.of.kept_waiting()


def _make_calls(store: Store, calls: Sequence[_Call]) -> None:
    """Make one call, or take over many trees at once. This blocks."""
    trees = [call.tree for call in calls if call.tree is not None]
    answers = call_guarded(lambda _: None, take_all, store, trees) if len(calls) > 1 else None
    if answers is not None and len(answers) == len(calls):
        for call, answer in zip(calls, answers, strict=True):
            call.value, call.error = answer, answer if isinstance(answer, AgentrailError) else None
        return
    for call in calls:
        if call.is_wanted:  # otherwise its caller waited for an earlier call, and gave up
            call.value = call_guarded(call.fail, call.function)


# The outbox of a session with a store: effects wait here until the records of their step are durable.
#
# So no effect that a crash could undo is published or started. Effects that stop work do not wait: they leave at once, even
# if the store hangs, and remove the stopped effects from the outbox. A request to a model may leave first too, see `may_be_overtaken`.
# No Trio, no store and no clock.

MAX_EPHEMERAL_BYTES: Final = 1 << 20
"""Maximum bytes of waiting events that are never replayed. Beyond it the oldest are dropped."""

_BYTES_OF_AN_EVENT: Final = 200
"""Approximate bytes of an event in addition to its texts."""

_STOPS: Final = frozenset({CancelStream, KillTools, CancelPluginRequest, ClearTimer, CloseAgent, Teardown})
"""Effects that leave at once. `Teardown` too: it waits for stopped work, and first checks what of that still exists."""

_UNHURRIED: Final = _STOPS | {Publish, SetTimer}
"""Effects whose record may wait for company. So may that of a request that has left."""

_OVERTAKEN: Final = frozenset({Publish, ReplyToCaller, Refuse, SetTimer})
"""Effects that do not change what a request sends, so it may leave before them."""

_TOLD: Final = frozenset({Publish, ReplyToCaller, Refuse})
"""Effects kept in the outbox of a session that crashed or ended: all others would start work."""

_BEGINS: Final = frozenset(
    {
        StartStream,
        RunTool,
        SpawnChild,
        ResumeChild,
        AskHost,
        TellHost,
        StartAgent,
        PromptAgent,
        SetTimer,
        RunPluginRequest,
        GatherContext,
    }
)


def may_wait(effects: Sequence[Effect], *, is_sent: bool) -> bool:
    """Return whether the record of a step may wait for company: nothing waits for it but events and timers.

    The end of a cycle is an answer, also to a caller that only reads events.

    Args:
        effects: The effects of the step.
        is_sent: Whether its request to a model has left.
    """
    for effect in effects:
        kind = type(effect)
        if kind is Publish:
            if type(effect.event) in TERMINAL:  # type: ignore[union-attr]  # the kind is compared for speed
                return False
        elif kind not in _UNHURRIED and not (is_sent and kind is StartStream):
            return False
    return True


@frozen
class Leaving:
    at_once: tuple[Effect, ...] = ()
    taken_out: tuple[Effect, ...] = ()


_NOTHING_LEAVES: Final = Leaving()


@define(eq=False)
class HeldStep:
    """A step whose effects wait.

    Attributes:
        effects: In order. None in the place of a removed one.
        begun: Ids under which some of them can be found.
    """

    number: int
    before: SessionState
    after: SessionState
    effects: list[Effect | None] = field(init=False, factory=list)
    left: int = field(init=False, default=0)
    begun: list[EffectId] = field(init=False, factory=list)


@define(eq=False)
class Outbox:
    ephemeral_bytes: int = field(init=False, default=0)
    thrown_away: int = field(init=False, default=0)
    # By step: nearly all effects of a step wait and leave together, and an entry for each would cost time in each cycle.
    _steps: deque[HeldStep] = field(init=False, factory=deque)
    # The few effects that are looked up: the step, and the index in it.
    _by_id: dict[EffectId, list[tuple[HeldStep, int]]] = field(init=False, factory=dict)
    _ephemeral: deque[tuple[HeldStep, int, int]] = field(init=False, factory=deque)

    @property
    def is_empty(self) -> bool:
        return not self._steps

    def waiting(self) -> Iterator[Effect]:
        for step in self._steps:
            for effect in step.effects[step.left :]:
                if effect is not None:
                    yield effect

    def may_be_overtaken(self, effects: Sequence[Effect]) -> bool:
        """Return whether the request among the effects of a step may leave before the others, and before everything that waits."""
        by_step = all(
            type(one) in _OVERTAKEN or type(one) in _STOPS or type(one) is StartStream for one in effects
        )
        return by_step and all(type(one) in _OVERTAKEN for one in self.waiting())

    def visible(self, now: SessionState) -> SessionState:
        return self._steps[0].before if self._steps else now

    def put(  # noqa: PLR0913 - what a step has
        self,
        number: int,
        effects: Sequence[Effect],
        before: SessionState,
        after: SessionState,
        *,
        is_recorded: bool,
        is_sent: bool = False,
    ) -> Leaving:
        """Hold back the effects of a step. Return those that leave at once: what stops work, and its request if `is_sent`."""
        if not is_recorded and not self._steps:
            return Leaving(at_once=tuple(effects))  # the step has no record, and nothing waits before it
        step = HeldStep(number, before, after)
        held = step.effects
        at_once: list[Effect] = []
        taken_out: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Publish):  # the most frequent case
                meta = effect.event.meta
                if meta is not None and meta.ephemeral:
                    self._note_ephemeral(step, effect)
            elif type(effect) in _STOPS:
                taken_out += self._take_out(effect)
                at_once.append(effect)
                continue
            elif is_sent and type(effect) is StartStream:
                at_once.append(effect)
                continue
            elif type(effect) in _BEGINS:
                effect_id = _begins(effect)
                step.begun.append(effect_id)
                self._by_id.setdefault(effect_id, []).append((step, len(held)))
            held.append(effect)
        if held or is_recorded:
            self._steps.append(step)
        while self.ephemeral_bytes > MAX_EPHEMERAL_BYTES:
            oldest, place, size = self._ephemeral.popleft()
            self.ephemeral_bytes -= size
            if place >= oldest.left:
                oldest.effects[place] = None
                self.thrown_away += 1
        return Leaving(tuple(at_once), tuple(taken_out)) if at_once else _NOTHING_LEAVES

    def leaving(
        self, durable: int, may_begin: Callable[[], bool] | None = None
    ) -> Iterator[tuple[Effect, SessionState]]:
        """Yield the effects whose records are durable, in order, each with the state after its step.

        While `may_begin` returns False, the first effect that would start work ends the iteration. None: all may begin.
        """
        steps = self._steps
        while steps and steps[0].number <= durable:
            step = steps[0]
            effects, after = step.effects, step.after
            for place in range(step.left, len(effects)):
                effect = effects[place]
                if may_begin is not None and type(effect) in _BEGINS and not may_begin():
                    return
                step.left = place + 1
                if effect is not None:
                    yield effect, after
            if steps and steps[0] is step:  # otherwise everything was dropped meanwhile
                steps.popleft()
                self._forget(step)

    def held_calls(self) -> Iterator[RunTool]:
        return (effect for effect in self.waiting() if isinstance(effect, RunTool))

    def callers(self) -> Iterator[ReplyToCaller | Refuse]:
        return (effect for effect in self.waiting() if isinstance(effect, ReplyToCaller | Refuse))

    def keep_what_is_told(self) -> tuple[Effect, ...]:
        """Remove and return all effects that would start work: the session crashed, or has ended. Publications and answers stay."""
        removed = tuple([effect for effect in self.waiting() if type(effect) not in _TOLD])
        for step in self._steps:
            step.effects[:] = [effect if type(effect) in _TOLD else None for effect in step.effects]
        self._by_id.clear()
        return removed

    def clear(self) -> None:
        for step in self._steps:  # one of them may be leaving
            step.effects[:] = [None] * len(step.effects)
        self._steps.clear()
        self._by_id.clear()
        self._ephemeral.clear()
        self.ephemeral_bytes = 0

    # --- lookup

    def _take_out(self, stop: Effect) -> Iterator[Effect]:
        for effect_id in _stopped_by(stop):
            for step, place in self._by_id.pop(effect_id, ()):
                effect = step.effects[place]
                if place >= step.left and effect is not None:
                    step.effects[place] = None
                    yield effect

    def _note_ephemeral(self, step: HeldStep, effect: Publish) -> None:
        texts = (getattr(effect.event, name) for name in effect.event.__struct_fields__)
        size = _BYTES_OF_AN_EVENT + sum(len(text) for text in texts if isinstance(text, str))
        self._ephemeral.append((step, len(step.effects), size))
        self.ephemeral_bytes += size

    def _forget(self, step: HeldStep) -> None:
        for effect_id in step.begun:
            places = self._by_id.get(effect_id)
            if places is not None and places[0][0] is step:  # steps are forgotten in order
                del places[0]
                if not places:
                    del self._by_id[effect_id]
        while self._ephemeral and self._ephemeral[0][0] is step:
            self.ephemeral_bytes -= self._ephemeral.popleft()[2]


def _begins(effect: Any) -> EffectId:
    effect_id: EffectId = effect.effect_id if type(effect) is not StartStream else effect.request.attempt
    if type(effect) is SpawnChild and effect.wish is not None:
        return effect.wish.effect_id  # the tool that requests it: it ends with that tool
    return effect_id


def _stopped_by(stop: Effect) -> tuple[EffectId, ...]:
    match stop:
        case CancelStream(effect_id=effect_id):
            return (effect_id, stall_timer_of(effect_id))
        case KillTools(effect_ids=effect_ids):
            return effect_ids
        case CancelPluginRequest(effect_id=effect_id) | ClearTimer(effect_id=effect_id):
            return (effect_id,)
        case CloseAgent(effect_id=effect_id):
            return (effect_id,)
        case _:
            return ()
