"""`evaluate`: runs the cases of a dataset as sessions under one supervisor, and scores their traces."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

import trio
from attrs import define, evolve, field

from agentrail import errors, events
from agentrail.abc import Error, effect_class_of, name_of
from agentrail.abc.store import Store
from agentrail.actors.deferred_error import ungrouped
from agentrail.app import open_supervisor
from agentrail.blueprints import Blueprint
from agentrail.core.policy.budget import Budget
from agentrail.evals.dataset import Case, Dataset
from agentrail.evals.report import CaseRun, EvalReport
from agentrail.evals.scorers import Judge, Score, Scorer, score_of, scorer_name
from agentrail.evals.trace import Trace, trace_of
from agentrail.events import Event
from agentrail.messages import SessionId, TokenUsage
from agentrail.otp.guarded_calls import is_plain_function, show
from agentrail.runtime.event_subscription import Subscription
from agentrail.runtime.session_handle import Session
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.structs import picked_fields

EvalTask: TypeAlias = Blueprint | Callable[[Case], Blueprint]
"""The agent under test, or a function that returns the one for each run of a case, for example with its own scripted model."""

_PAGE: Final = 5_000
_MAX_EVENTS: Final = 100_000
_NO_USER: Final = "no user can be asked in an eval"


async def evaluate(  # noqa: PLR0913 - the settings of an eval
    dataset: Dataset,
    task: EvalTask,
    scorers: Sequence[Scorer | Judge],
    *,
    repeats: int = 1,
    max_concurrency: int = 8,
    store: str | Store = "memory:",
    supervisor: SessionSupervisor | None = None,
    budget: Budget | None = None,
    timeout_seconds: float = 300.0,
    fresh: bool = False,
    on_run: Callable[[CaseRun], object] = id,
) -> EvalReport:
    """Run each case, and score its trace. A case that fails, crashes or exceeds its time scores 0.

    A case whose session in the store is done is only scored, so an eval that was killed continues where it was. The ids of sessions follow from
    the dataset, the case, the repeat and the task's options, apart from code.

    Args:
        dataset: The cases.
        task: The agent under test.
        scorers: At least one, with different names.
        repeats: Runs of each case.
        max_concurrency: Maximum number of sessions at a time.
        store: Store of the sessions, same as `open_supervisor`.
        supervisor: Supervisor with a store, in place of `store`.
        budget: Limit of all sessions together, with those of judges. Each is lent an equal share of the rest.
        timeout_seconds: Time limit of a case.
        fresh: Whether to run cases again that have finished.
        on_run: Called with each run when it is scored.

    Returns:
        The runs, in the order of the dataset.

    Raises:
        OptionError: Your move: no scorers, two with one name, a number out of range, or an async `on_run`.
        AgentrailError: A session could not be started, for example without a key, or the store is unavailable.

    Cancellation: Running sessions end. Finished ones stay in the store.
    """
    if not is_plain_function(on_run):
        raise errors.OptionError([f"on_run is {show(on_run)}: expected a function without `async`"])
    _check(scorers, repeats=repeats, max_concurrency=max_concurrency, timeout_seconds=timeout_seconds)
    jobs = _jobs_of(dataset, task, repeats)
    found: dict[int, CaseRun] = {}
    left = iter(enumerate(jobs))
    with ungrouped():
        given = open_supervisor(store=store) if supervisor is None else nullcontext(supervisor)
        async with given as opened, trio.open_nursery() as nursery:
            workers = min(max_concurrency, len(jobs))  # each is lent a share of the budget
            runner = _Runner(opened, dataset.name, scorers, budget, workers, timeout_seconds, fresh)

            async def work() -> None:
                for place, job in left:
                    found[place] = await runner.run(*job)
                    on_run(found[place])

            for _ in range(workers):
                nursery.start_soon(work)
    return EvalReport(name=dataset.name, runs=tuple(found[place] for place in range(len(jobs))))


def _check(scorers: Sequence[Scorer | Judge], **numbers: float) -> None:
    names = [scorer_name(one) for one in scorers]
    if not names or len({*names}) < len(names) or not all(one > 0 for one in numbers.values()):
        given = ", ".join(f"{name} {one}" for name, one in {"scorers": names, **numbers}.items())
        raise errors.OptionError([f"{given}: expected scorers with different names, and numbers above 0"])


def _jobs_of(dataset: Dataset, task: EvalTask, repeats: int) -> list[tuple[Case, int, Mapping[str, Any]]]:
    shared = task.options() if isinstance(task, Blueprint) else {}
    return [
        (case, repeat, shared if isinstance(task, Blueprint) else task(case).options())
        for case in dataset.cases
        for repeat in range(1, repeats + 1)
    ]


def session_id_of(*parts: object) -> str:
    """Return the id of a session of an eval. Options count with their plain parts, and tools with their specification."""

    def plain(one: Any) -> object:
        if isinstance(one, Mapping):
            return dict(one)
        return [getattr(one, part, None) for part in ("name", "description", "parameters", "__name__")]

    text = json.dumps(parts, default=plain, sort_keys=True, skipkeys=True)
    return f"eval-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@define(eq=False)
class _Runner:
    supervisor: SessionSupervisor
    name: str
    scorers: Sequence[Scorer | Judge]
    budget: Budget | None
    slots: int
    timeout_seconds: float
    fresh: bool
    used: TokenUsage = field(factory=TokenUsage)
    lent: dict[str, Budget] = field(factory=dict)

    async def run(self, case: Case, repeat: int, options: Mapping[str, Any]) -> CaseRun:
        session_id = session_id_of(self.name, case.id, case.prompts, repeat, options)
        approve = case.metadata.get("approve", ())
        trace, is_reused = await self._trace(session_id, options, case.prompts, approve)
        scores: dict[str, Score] = {}
        for one in self.scorers:
            if isinstance(one, Judge) and trace.outcome == "done":
                asked = one.question(trace, case)
                judge_id = session_id_of(session_id, one.options(), asked)
                scores[one.name] = one.verdict((await self._trace(judge_id, one.options(), (asked,)))[0])
            else:
                scores[scorer_name(one)] = score_of(one, trace, case)
        return CaseRun(
            case=case.id,
            repeat=repeat,
            session=session_id,
            is_reused=is_reused,
            scores=scores,
            tokens=trace.usage.total,
            cost_usd=trace.usage.cost_usd,
            **picked_fields(trace, "outcome", "error", "turns", "milliseconds"),
        )

    async def _trace(
        self, session_id: str, options: Mapping[str, Any], prompts: Sequence[str], approve: Sequence[str] = ()
    ) -> tuple[Trace, bool]:
        """Return the trace of a session that has finished, or of a new one, and whether it had finished."""
        try:
            trace, is_reused = await self._run_session(session_id, options, prompts, approve), False
        except errors.AlreadyExists:
            trace, is_reused = await self._recorded(session_id, options), True
            if self.fresh or trace.outcome != "done" or trace.cycles < len(prompts):
                await self.supervisor.delete_session(session_id)
                trace, is_reused = await self._run_session(session_id, options, prompts, approve), False
        self.used += trace.usage
        effects = {name_of(tool): effect_class_of(tool) for tool in options.get("tools", ())}
        return evolve(trace, effects=effects), is_reused

    async def _run_session(
        self, session_id: str, options: Mapping[str, Any], prompts: Sequence[str], approve: Sequence[str]
    ) -> Trace:
        try:
            lent = {"session_id": session_id, "budget": self._lend(session_id, options.get("budget"))}
            session = await self.supervisor.start_session(**{**options, **lent})
            heard: list[Event] = []
            async with session.subscribe(after=0, deltas=False, buffer=_MAX_EVENTS) as live:
                with suppress(errors.SessionDown):
                    with trio.move_on_after(self.timeout_seconds) as limit:
                        for prompt in prompts:
                            await session.prompt(prompt)
                            if not await _follow(session, live, heard, approve):
                                break
                    if limit.cancelled_caught:
                        reason = f"the time limit of {self.timeout_seconds:g} s"
                        await session.abort(reason, kill_tools="all", clear_queue=True)
                    await session.stop("the eval has its trace")
                heard += [event async for event in live]
            trace = trace_of(heard)
            return trace if trace.outcome != "open" else evolve(trace, outcome="crashed", error="it ended")
        except errors.SessionRefused as error:
            return Trace(outcome="crashed", error=str(error))
        finally:
            self.lent.pop(session_id, None)

    async def _recorded(self, session_id: str, options: Mapping[str, Any]) -> Trace:
        found, after, plugins = list[Event](), 0, options.get("plugins", ())
        while True:
            page = await self.supervisor.events_page(session_id, after=after, limit=_PAGE, plugins=plugins)
            found, after = [*found, *page.events], page.last
            if not page.more:
                return trace_of(found)

    def _lend(self, session_id: str, own: Budget | None) -> Budget | None:
        """Return the budget of a session: its own, and an equal share of the rest. All together never exceed the whole."""
        if self.budget is None:
            return own
        limits: dict[str, Any] = {}
        for name, used in ("max_cost_usd", self.used.cost_usd or 0.0), ("max_total_tokens", self.used.total):
            whole, limits[name] = getattr(self.budget, name), getattr(own, name, None)
            if whole is not None:
                rest = whole - used - sum(getattr(one, name) for one in self.lent.values())
                share = rest / (self.slots - len(self.lent))
                share = math.floor(share) if name == "max_total_tokens" else share
                if share <= 0:
                    raise errors.SessionRefused(SessionId(session_id), "the budget of the eval is spent")
                limits[name] = min(share, limits[name] or share)
        self.lent[session_id] = evolve(self.budget, **limits)
        return self.lent[session_id]


async def _follow(session: Session, live: Subscription, heard: list[Event], approve: Sequence[str]) -> bool:
    """Keep the events of a cycle, and decide what only a user could. Return whether it ended as `done`.

    Calls of tools that match a pattern are approved, and everything else is refused.
    """
    async for event in live:
        heard.append(event)
        if isinstance(event, events.AgentEnd | events.AgentAbort | events.AgentError):
            return isinstance(event, events.AgentEnd)
        inner: Event = event
        while isinstance(inner, events.SubagentEvent):
            inner = inner.event
        with suppress(errors.InteractionError):  # a deadline decided it
            match inner:
                case events.ApprovalRequired(approval=asked):
                    if any(fnmatchcase(asked.tool, one) for one in approve):
                        await session.approve(asked.id)
                    else:
                        await session.reject(asked.id, _NO_USER, auto_resume=True)
                case events.AskUser(ref=ref):
                    await session.decline(ref, _NO_USER)
                case events.ClientCall(ref=ref):
                    await session.answer(ref, Error(text=_NO_USER))
                case _:
                    pass
    return False
