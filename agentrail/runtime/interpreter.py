"""The interpreter: effect → port call → signal. It executes and reports, and makes no decisions."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias

import msgspec
import trio
from attrs import define, field, fields_dict, frozen
from msgspec.structs import replace

from agentrail.abc import Error, HostCall, HostCallEnd, HostVerdict, Provider, ProviderContext, ToolOutcome
from agentrail.core.protocol.actions import Wanted
from agentrail.core.protocol.effects import (
    AskHost,
    CancelPluginRequest,
    CancelStream,
    ClearTimer,
    CloseAgent,
    Effect,
    End,
    GatherContext,
    KillTools,
    PromptAgent,
    Publish,
    Refuse,
    ReplyToCaller,
    ResumeChild,
    RunPluginRequest,
    RunTool,
    SetProviderOpts,
    SetTimer,
    SpawnChild,
    StartAgent,
    StartStream,
    Teardown,
    TellHost,
    stall_timer_of,
)
from agentrail.core.protocol.hooks import RequestFailed, RequestResult
from agentrail.core.protocol.request import Chunk, Completed, EffectId, ModelRequest, UsageUpdate
from agentrail.core.protocol.signals import (
    AgentEnded,
    ContextGathered,
    HostJudged,
    HostTold,
    LateValue,
    PluginRequestFinished,
    ResponseCompleted,
    Signal,
    StreamFailed,
    StreamStarted,
    TeardownFinished,
    ToolFinished,
    ToolWantsChild,
)
from agentrail.core.session.response import HEARD_CHUNKS
from agentrail.core.session.state import SessionData, SessionState
from agentrail.errors import AgentrailError, ErrorInfo, ProviderError
from agentrail.events import AbortReceipt, LeftBehind
from agentrail.frozen import not_json, thawed, too_large
from agentrail.messages import TokenUsage
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.exits import keep
from agentrail.otp.guarded_calls import call_guarded
from agentrail.outside import jitter
from agentrail.process_account import keep_account
from agentrail.runtime.call_processes import Processes
from agentrail.runtime.chunk_buffer import ChunkBuffer, let_read
from agentrail.runtime.context_gatherer import ContextGatherer
from agentrail.runtime.crashes import (
    PortCrashed,
    TaskGroup,
    crash_edge,
    decide_child_crash,
    decide_provider_crash,
    info_of,
)
from agentrail.runtime.error_scrubber import Scrub
from agentrail.runtime.event_bus import EventBus
from agentrail.runtime.event_subscription import HeldStream
from agentrail.runtime.model_lookup import check_chunk, priced, provide_model, readable
from agentrail.runtime.pending_calls import PendingCalls
from agentrail.runtime.plugin_requests import run_plugin_request
from agentrail.runtime.ports import AgentLine, ChildUsage, ChildWork, Ports, finished_child
from agentrail.runtime.session_clock import SessionTimers, now_ms
from agentrail.runtime.session_journal import KeptJournal
from agentrail.runtime.tool_calls import LEASE_OVER, BegunCall, ToolCallRunner, clean_text
from agentrail.structs import picked_fields

# --- The two gates of the host. An exception of a hook before a call denies it; one after a call is logged.


@define(eq=False)
class Turnstile:
    """Starts tasks in the order of their tickets. Trio starts those of one pass in any order."""

    _last: trio.Event | None = field(init=False, default=None)

    def number(self) -> "Ticket":
        last = self._last
        ticket = Ticket(None if last is None or last.is_set() else last)
        self._last = ticket.begun
        return ticket


@define(eq=False)
class Ticket:
    """The right of one task to begin. It must be used or given up, or no later task would begin."""

    _before: trio.Event | None
    begun: trio.Event = field(init=False, factory=trio.Event)

    async def use(self) -> None:
        """Wait until the previous task has begun. Code up to the next checkpoint runs before all later tasks."""
        if self._before is not None:
            await self._before.wait()
        self.begun.set()

    def give_up(self) -> None:
        """Let the next task begin. Safe to repeat."""
        self.begun.set()


async def ask_host(
    effect: AskHost, ports: Ports, scope: trio.CancelScope, ticket: Ticket, scrub: Scrub = keep
) -> HostJudged | None:
    hook = ports.host.before_tool
    if hook is None:  # the session had another host
        ticket.give_up()
        return decide_verdict(effect, HostVerdict())
    decide = partial(_decide_crash, f'Not run: the host could not judge this call of "{effect.name}"')
    try:
        with scope:
            await ticket.use()
            try:
                with crash_edge(decide, scrub=scrub):
                    return decide_verdict(effect, await hook(_call_of(effect, ports)))
            except PortCrashed as crashed:
                return decide_verdict(effect, HostVerdict(deny=crashed.error.message))
    finally:
        ticket.give_up()
    return None


async def tell_host(effect: TellHost, ports: Ports, scope: trio.CancelScope, scrub: Scrub = keep) -> None:
    hook = ports.host.after_tool
    if hook is None:
        return
    decide = partial(_decide_crash, f'the host failed to handle the end of a call of "{effect.name}"')
    call = _call_of(effect, ports)
    end = HostCallEnd(
        **picked_fields(call, *fields_dict(HostCall)),
        result=effect.result.text,
        is_error=effect.result.is_error,
        duration_ms=effect.ran_ms,
    )
    with suppress(PortCrashed), crash_edge(decide, scrub=scrub), scope:
        await hook(end)


def decide_verdict(effect: AskHost, returned: object) -> HostJudged:
    if not isinstance(returned, HostVerdict):
        message = f"before_tool returned {type(returned).__name__}, expected HostVerdict: HostVerdict() lets the call run"
        raise TypeError(message)
    if returned.input is not None:
        _check_input(returned.input)
    return HostJudged(
        at_ms=now_ms(),
        effect_id=effect.effect_id,
        deny=None if returned.deny is None else clean_text(returned.deny),
        arguments=returned.input,
        by=clean_text(returned.by),
    )


def _check_input(given: Mapping[str, Any]) -> None:
    size = too_large(given)
    if size is not None:
        message = f"before_tool returned an input of {size}: write it to a file, and give its path"
        raise ValueError(message)
    fault = not_json(given)
    if fault is not None:
        message = f"before_tool returned an input that is not JSON: {fault}"
        raise TypeError(message)


def _call_of(effect: AskHost | TellHost, ports: Ports) -> HostCall:
    return HostCall(
        session_id=ports.session_id,
        root_session_id=effect.path[0],
        call_id=effect.call_id,
        tool_name=effect.name,
        input=thawed(effect.arguments),
        user_data=ports.user_data,
        request_id=effect.request_id,
    )


def _decide_crash(what: str, error: BaseException) -> ErrorInfo:
    return ErrorInfo(code="host_crashed", message=clean_text(f"{what} ({describe_bug(error)})."))


TEARDOWN_MS: Final = 5_000
"""Milliseconds that an abort waits for stopped work before it reports it as stuck."""


class SignsOfLife(msgspec.Struct, frozen=True):
    chunks: object
    buffer: ChunkBuffer

    @property
    def pinged_at(self) -> float | None:
        signs = (getattr(self.chunks, "pinged_at", None), self.buffer.touched_at)
        return max((sign for sign in signs if isinstance(sign, float)), default=None)


@frozen
class _BegunNow:
    pinged_at: float


MailboxItem: TypeAlias = Signal | ChunkBuffer
"""An item of a session's mailbox."""


@define(eq=False)
class _Open:
    name: str
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    began_at: float = field(factory=trio.current_time)
    processes: Processes | None = None  # for a tool call
    child_usages: Sequence[ChildUsage] = ()  # of child sessions of a call; streams share the default
    agent: AgentLine | None = None  # for a background agent
    late_value: LateValue | None = None  # for a tool that completed although it was stopped
    effect: RunTool | StartStream | None = None  # for a tool call or a stream
    is_untrusted: bool = False  # stopped because another node may own the session

    def left_behind(self, now: float, *, is_gone: bool = False) -> tuple[LeftBehind, ...]:
        """Return the work left behind: each live process, and the work itself unless it ended or is one of them."""
        age_ms = round((now - self.began_at) * 1000)
        left = self.processes.account.left() if self.processes is not None else []
        if not left and not is_gone:
            return (LeftBehind(name=self.name, age_ms=age_ms),)
        return tuple(LeftBehind(name=f"{self.name}{at}", age_ms=age_ms, pid=pid) for at, pid in left)


@define(eq=False)
class _Teardown:
    effect: Teardown
    stopped: Mapping[EffectId, _Open]
    begun_at: float = field(factory=trio.current_time)


@define(eq=False, repr=False, weakref_slot=False)
class Interpreter:
    """Carries out the effects of one session. Requires a Trio run. Without a journal, streams are always read."""

    _task_group: TaskGroup
    _ports: Ports
    _bus: EventBus
    _pending_calls: PendingCalls
    _journal: KeptJournal | None = None
    _calls: ToolCallRunner = field(init=False)
    _context: ContextGatherer | None = field(init=False)
    _open: dict[EffectId, _Open] = field(init=False, factory=dict)
    _teardowns: tuple[_Teardown, ...] = field(init=False, default=())
    # Created for the first question to a host: most sessions have none.
    _turnstile: Turnstile | None = field(init=False, default=None)
    timers: SessionTimers = field(init=False, factory=SessionTimers)

    def __attrs_post_init__(self) -> None:
        self._calls = ToolCallRunner(self._ports, self._pending_calls, self._task_group, self._journal)
        self._context = _gatherer_of(self._ports, self._task_group)

    def carry_out(self, effect: Effect, state: SessionState) -> None:
        match effect:
            case Publish(event):
                self._bus.publish(event)
            case ReplyToCaller(to, value):
                self._pending_calls.answer(to, value)
            case RunTool(effect_id=effect_id, name=name):
                self._start(effect_id, name, self._run_tool, effect, state.data).effect = effect
            case StartStream():
                traces = self._ports.traces
                self._start_stream(effect, traces.of_requests(state.data) if traces.tells_providers else "")
            case Refuse(to, error):
                self._pending_calls.refuse(to, error)
            case CancelStream(effect_id=effect_id):
                self._stop(effect_id, "cancelled by the session")
            case SpawnChild(wish=ToolWantsChild()):
                # The tool's own task runs it, so that the end of the tool also ends the child.
                self._calls.grant(effect)
            case SpawnChild() | ResumeChild():
                self._start_child(effect)
            case AskHost(effect_id=effect_id, name=name):
                self._turnstile = self._turnstile or Turnstile()
                self._start(effect_id, f"host: {name}", self._ask_host, effect, self._turnstile.number())
            case TellHost(effect_id=effect_id, name=name):
                self._start(effect_id, f"host: {name}", self._tell_host, effect)
            case StartAgent() | PromptAgent() | CloseAgent():
                self._carry_out_for_agent(effect)
            case KillTools(effect_ids=effect_ids):
                for effect_id in effect_ids:
                    self._stop(effect_id, "killed by the session")
            case SetTimer(effect_id=effect_id, at_ms=at_ms):
                self.timers.set(effect_id, at_ms)
            case ClearTimer(effect_id=effect_id):
                self.timers.cancel(effect_id)
            case RunPluginRequest(effect_id=effect_id, refused=ErrorInfo() as refused):
                result = RequestFailed(error=refused)
                self._task_group.deliver(
                    PluginRequestFinished(at_ms=now_ms(), effect_id=effect_id, result=result)
                )
            case RunPluginRequest(effect_id=effect_id, wanted=wanted):
                self._start(effect_id, type(wanted).__name__, self._run_plugin_request, effect_id, wanted)
            case CancelPluginRequest(effect_id=effect_id):
                self._stop(effect_id, "no longer needed")
            case GatherContext(effect_id=effect_id):
                self._start(effect_id, "context", self._gather, effect)
            case SetProviderOpts(model=model, provider_opts=opts):
                # Resolved when it is used: an invalid provider option is the fault of that request.
                self._ports.provider_opts[model] = opts
                self._ports.withheld.learn_options(opts)
                self._ports.providers.pop(model, None)
            case Teardown():
                self._begin_teardown(effect)
            case End():
                pass  # the actor checks the state

    def give_up(self, effect: Effect) -> None:
        """Finish an effect that was stopped while it waited for its record. It still owes an outcome."""
        match effect:
            case SpawnChild(wish=ToolWantsChild()):
                self._calls.give_back(effect)
            case RunTool() | SpawnChild():
                self._task_group.deliver(_never_begun(effect))
            case ResumeChild():  # its session was restored first, so it is alive, and ends with this
                self._start_child(effect)
                self._stop(effect.effect_id, "stopped before it started")
            case StartAgent():  # as above
                self._start_agent(effect)
                self._close_agent(effect.effect_id, "stopped before it started")
            case _:
                pass  # no outcome is expected from cancelled ones

    def end_restored(self, effects: Sequence[Effect], *, agents: bool) -> None:
        """End the sessions below that were restored for these effects, which are not carried out any more."""
        for effect in effects:
            if isinstance(effect, ResumeChild) or (agents and isinstance(effect, StartAgent)):
                self.give_up(effect)

    # --- streams

    def _start_stream(self, effect: StartStream, traceparent: str) -> None:
        request = effect.request
        if traceparent:
            request = replace(request, traceparent=traceparent)
        if effect.context is not None and self._context is not None:
            request = self._context.join(request, effect.context)
        timer = stall_timer_of(request.attempt)
        self.timers.set(timer, effect.look_at_ms)
        if self._journal is not None:
            # It may have waited for its record longer than the silence limit, so the limit starts now.
            self.timers.watch(timer, _BegunNow(trio.current_time()))
        opened = self._start(
            request.attempt, request.model, self._run_stream, request, timer, effect.is_quiet
        )
        opened.effect = effect

    async def _run_stream(
        self,
        opened: _Open,
        request: ModelRequest,
        timer: EffectId,
        is_quiet: bool,  # noqa: FBT001 - argument of a task
    ) -> None:
        buffer = ChunkBuffer(request.attempt)
        outcome: ResponseCompleted | StreamFailed | None = None
        scrub, model = self._task_group.scrub, request.model
        try:
            with crash_edge(decide_provider_crash, ProviderError, scrub=scrub, about=model), opened.scope:
                _, provider = self._model_of(model)
                async with provider.open_stream(request) as given:
                    if call_guarded(lambda _: None, getattr, provider, "secrets", None):
                        self._ports.withheld.learn_from(provider)  # its key may have just been read
                    chunks = given if self._journal is None else HeldStream(given, self._journal.writer)
                    self.timers.watch(timer, SignsOfLife(chunks, buffer))
                    completed = await self._deliver_chunks(buffer, chunks, is_quiet=is_quiet)
                if completed is None:
                    said = f"the provider of {model} ended a stream without its terminal chunk"
                    outcome = _failed(buffer, ErrorInfo(code="protocol_error", message=said, retryable=True))
                else:
                    outcome = readable(_completed(request.attempt, completed), model)
        except ProviderError as error:
            outcome = _failed(buffer, info_of(error))
        except PortCrashed as crashed:
            outcome = _failed(buffer, crashed.error)
        if outcome is None:
            outcome = _failed(buffer, _UNTRUSTED if opened.is_untrusted else _CANCELLED)
        self.timers.cancel(timer)
        usage = priced(outcome.usage, model, self._ports.providers.get(model))
        self._task_group.deliver(outcome if usage is outcome.usage else replace(outcome, usage=usage))
        self._closed(request.attempt, opened)

    async def _deliver_chunks(
        self, buffer: ChunkBuffer, chunks: AsyncIterator[Chunk], *, is_quiet: bool
    ) -> Completed | None:
        """Read a stream to its end, also past its terminal chunk, so that its connection can be reused."""
        started = False
        completed = None
        async for chunk in chunks:
            if buffer.is_burst:
                await let_read(buffer)
            if not started:
                started = True
                if is_quiet:  # its session is not notified of the start, which may report a price
                    buffer.usage = TokenUsage(cost_usd=None)
                else:
                    self._task_group.deliver(StreamStarted(at_ms=now_ms(), effect_id=buffer.effect_id))
            if isinstance(chunk, Completed):
                completed = completed or chunk
            elif completed is None and _taken_in(buffer, chunk) and not is_quiet:
                self._task_group.deliver(buffer)
        return completed

    # --- tools

    async def _run_tool(self, opened: _Open, effect: RunTool, known: SessionData) -> None:
        began = BegunCall(effect=effect, known=known, scope=opened.scope)
        processes = opened.processes = Processes(self._task_group, self._task_group.scrub)
        keep_account(processes.account)  # for this task and all its child tasks
        opened.child_usages = usages = list[ChildUsage]()
        finished = await self._calls.run(began, processes, usages)
        if opened.is_untrusted:
            finished = without_lease(finished)
        opened.late_value = finished.value
        self._task_group.deliver(finished)
        self._closed(effect.effect_id, opened)

    # --- children

    def _start_child(self, effect: SpawnChild | ResumeChild) -> None:
        self._start(effect.effect_id, effect.name, self._run_child, effect)

    async def _run_child(self, opened: _Open, effect: SpawnChild | ResumeChild) -> None:
        started_at_ms = now_ms()
        outcome: ToolOutcome = Error(text="[Stopped]")
        usage = ChildUsage()
        opened.child_usages = (usage,)
        decide = partial(decide_child_crash, effect.name)
        ports, deliver = self._ports, self._task_group.deliver
        try:
            with crash_edge(decide, scrub=self._task_group.scrub), opened.scope, self._pending_calls.inside():
                if isinstance(effect, ResumeChild):
                    outcome = await ports.resume_child(effect, ports, deliver, usage)
                else:
                    outcome = await ports.run_child(ChildWork(effect=effect), ports, deliver, usage)
        except PortCrashed as crashed:
            outcome = Error(text=clean_text(crashed.error.message))
        deliver(finished_child(effect.effect_id, outcome, usage, started_at_ms))
        self._closed(effect.effect_id, opened)

    # --- the host

    async def _ask_host(self, opened: _Open, effect: AskHost, ticket: Ticket) -> None:
        judged = await ask_host(effect, self._ports, opened.scope, ticket, self._task_group.scrub)
        if judged is not None:  # a withdrawn question needs no answer
            self._task_group.deliver(judged)
        self._closed(effect.effect_id, opened)

    async def _tell_host(self, opened: _Open, effect: TellHost) -> None:
        await tell_host(effect, self._ports, opened.scope, self._task_group.scrub)
        self._task_group.deliver(HostTold(at_ms=now_ms(), effect_id=effect.effect_id))
        self._closed(effect.effect_id, opened)

    def _carry_out_for_agent(self, effect: StartAgent | PromptAgent | CloseAgent) -> None:
        match effect:
            case StartAgent():
                self._start_agent(effect)
            case PromptAgent(effect_id=effect_id):
                opened = self._open.get(effect_id)
                # Otherwise it has ended, which is in the mailbox.
                if opened is not None and opened.agent is not None:
                    opened.agent.prompt(effect.text, effect.budget)
            case CloseAgent(effect_id=effect_id, reason=reason):
                self._close_agent(effect_id, reason)

    def _start_agent(self, effect: StartAgent) -> None:
        line = AgentLine()
        self._start(effect.effect_id, effect.name, self._run_agent, effect, line).agent = line

    async def _run_agent(self, opened: _Open, effect: StartAgent, line: AgentLine) -> None:
        usage = line.usage
        opened.child_usages = (usage,)
        reason: str | None = None
        decide = partial(decide_child_crash, effect.name)
        try:
            with crash_edge(decide, AgentrailError, scrub=self._task_group.scrub), opened.scope:
                deliver = self._task_group.deliver
                reason = await self._ports.run_agent(effect, self._ports, deliver, line)
        except AgentrailError as error:
            reason = f"it could not start: {error}"
        except PortCrashed as crashed:
            reason = crashed.error.message
        self._task_group.deliver(
            AgentEnded(
                at_ms=now_ms(),
                effect_id=effect.effect_id,
                reason=clean_text(reason or line.reason or "stopped"),
                is_lost=reason is not None,
                # At its first start it has a budget. Later, a missing session may have spent something.
                spent=None if usage.session_id is None and effect.budget is None else usage.spent,
                receipt=usage.receipt,
            )
        )
        self._closed(effect.effect_id, opened)

    def _close_agent(self, effect_id: EffectId, reason: str) -> None:
        opened = self._open.get(effect_id)
        if opened is not None and opened.agent is not None:
            opened.agent.reason = reason
        self._stop(effect_id, reason)

    # --- requests of plugins

    async def _run_plugin_request(self, opened: _Open, effect_id: EffectId, wanted: Wanted) -> None:
        result: RequestResult | None = None
        with opened.scope:
            result = await run_plugin_request(
                effect_id,
                wanted,
                self._ports.workspace.open,
                self._model_of,
                self._task_group.scrub,
                own=self._ports.own,
                above=self._ports.above,
            )
        if result is not None:  # a cancelled request needs no answer
            self._task_group.deliver(
                PluginRequestFinished(at_ms=now_ms(), effect_id=effect_id, result=result)
            )
        self._closed(effect_id, opened)

    # --- context

    async def _gather(self, opened: _Open, effect: GatherContext) -> None:
        gathered: ContextGathered | None = ContextGathered(at_ms=now_ms(), effect_id=effect.effect_id)
        if self._context is not None:
            gathered = None
            with opened.scope:
                gathered = await self._context.gather(effect)
        if gathered is not None:  # a cancelled one is not awaited
            self._task_group.deliver(gathered)
        self._closed(effect.effect_id, opened)

    def _model_of(self, name: str | None) -> tuple[str, Provider]:
        providers = self._ports.providers
        if name is None:
            return next(iter(providers.items()))
        return name, provide_model(name, self._ports)

    # --- stopping

    def _begin_teardown(self, effect: Teardown) -> None:
        # Looked up now: its receipt also describes work that has ended by then.
        stopped = {one: self._open[one] for one in effect.stopped if one in self._open}
        teardown = _Teardown(effect, stopped)
        self._teardowns += (teardown,)
        self.timers.set(effect.effect_id, now_ms() + TEARDOWN_MS)
        self.timers.watch(effect.effect_id, partial(self._finish_teardown, teardown))
        self._look_at_teardowns()

    def _look_at_teardowns(self) -> None:
        """Finish those whose work has ended. The last of it does that itself: a task that waits for it would be a detour."""
        for teardown in self._teardowns:
            if self._open.keys().isdisjoint(teardown.stopped):
                self._finish_teardown(teardown)

    def _finish_teardown(self, teardown: _Teardown) -> None:
        effect, stopped, now = teardown.effect, teardown.stopped, trio.current_time()
        self._teardowns = tuple([one for one in self._teardowns if one is not teardown])
        self.timers.cancel(effect.effect_id)
        works = stopped.values()
        values = tuple([opened.late_value for opened in works if opened.late_value is not None])
        done = [value.call_id for value in values]
        usages = [usage for opened in works for usage in opened.child_usages]
        below = ChildUsage()  # work of the child sessions of the calls
        for usage in usages:
            below.add(usage.receipt)
        running = [one for one in stopped if one in self._open]
        reaped = [opened.processes.account.reaped for opened in works if opened.processes is not None]
        stuck = [opened.left_behind(now, is_gone=one not in running) for one, opened in stopped.items()]
        abandoned = [one.left_behind(now) for one in works if self._ports.threads.is_abandoned(one.scope)]
        receipt = AbortReceipt(
            tasks_ended=len(effect.stopped) - len(running) + below.receipt.tasks_ended,
            processes_reaped=sum(reaped) + below.receipt.processes_reaped,
            stuck=(*chain(*stuck), *below.receipt.stuck),
            abandoned=(*chain(*abandoned), *below.receipt.abandoned),
            children=tuple([child for usage in usages for child in usage.receipts]),
            committed=(*effect.committed, *done),
            unknown=tuple([call_id for call_id in effect.unknown if call_id not in done]),
            survivors=effect.survivors,
            milliseconds=round((now - teardown.begun_at) * 1000),
        )
        self._task_group.deliver(
            TeardownFinished(at_ms=now_ms(), effect_id=effect.effect_id, receipt=receipt, values=values)
        )

    def left_behind(self) -> tuple[LeftBehind, ...]:
        now = trio.current_time()
        opened = tuple(self._open.values())
        own = tuple(left for one in opened for left in one.left_behind(now))
        return own + tuple(
            left for one in opened for usage in one.child_usages for left in usage.receipt.stuck
        )

    def stop_untrusted(self) -> None:
        """Stop streams, and tools that are neither pure nor idempotent. Each reports an outcome, as if it had failed."""
        for effect_id, opened in tuple(self._open.items()):
            effect = opened.effect
            if effect is None or (isinstance(effect, RunTool) and self._calls.may_repeat(effect)):
                continue
            opened.is_untrusted = True
            self._stop(effect_id, "the lease of this node is over")

    def _stop(self, effect_id: EffectId, reason: str) -> None:
        opened = self._open.get(effect_id)
        if opened is not None:  # it may have just ended; its outcome is in the mailbox in that case
            opened.scope.cancel(reason=reason)
            if opened.processes is not None:
                opened.processes.stop()

    def _start(
        self, effect_id: EffectId, name: str, work: Callable[..., Awaitable[None]], *args: Any
    ) -> _Open:
        """Start the work of an effect in a task with a scope of its own. It begins in a later step of the event loop."""
        opened = self._open[effect_id] = _Open(name)
        self._task_group.start_soon(work, opened, *args, scope=opened.scope, name=name)
        return opened

    def _closed(self, effect_id: EffectId, opened: _Open) -> None:
        """Forget work whose outcome was delivered: a teardown that waited for it reports after it."""
        del self._open[effect_id]
        if not self._open:
            self._open.clear()  # an emptied dict keeps its table, a cost in ten thousand idle sessions
        if self._teardowns:
            self._look_at_teardowns()


_CANCELLED: Final = ErrorInfo(code="cancelled", message="the stream was cancelled")
_UNTRUSTED: Final = ErrorInfo(
    code="lease_over",
    message="the stream was closed: the store could not be reached, and another node may own the session",
    retryable=True,
)


def without_lease(finished: ToolFinished) -> ToolFinished:
    """Return the outcome of a call that was stopped because its node lost its lease. A result that it had by then stays."""
    if finished.value is not None:
        text, is_error = finished.value.text, finished.value.is_error
        return replace(finished, text=text, is_error=is_error, late=False, value=None)
    return replace(finished, text=LEASE_OVER) if finished.ran_ms is not None else finished


def _never_begun(effect: RunTool | SpawnChild) -> ToolFinished:
    now, spent = now_ms(), ChildUsage().spent if isinstance(effect, SpawnChild) else None
    return ToolFinished(
        at_ms=now, effect_id=effect.effect_id, text="[Stopped]", is_error=True, started_at_ms=now, spent=spent
    )


def _completed(attempt: EffectId, chunk: Completed) -> ResponseCompleted:
    return ResponseCompleted(
        at_ms=now_ms(),
        effect_id=attempt,
        message=chunk.message,
        usage=chunk.usage,
        stop_reason=chunk.stop_reason,
        jitter=0.0 if chunk.message.content else jitter(),
    )


def _failed(buffer: ChunkBuffer, error: ErrorInfo) -> StreamFailed:
    return StreamFailed(
        at_ms=now_ms(), effect_id=buffer.effect_id, error=error, usage=buffer.usage, jitter=jitter()
    )


def _taken_in(buffer: ChunkBuffer, chunk: Chunk) -> bool:
    check_chunk(chunk)
    if type(chunk) in HEARD_CHUNKS:
        return buffer.add(chunk)
    return buffer.note(chunk) if isinstance(chunk, UsageUpdate) else buffer.touch()


def _gatherer_of(ports: Ports, task_group: TaskGroup) -> ContextGatherer | None:
    if not ports.context_providers:
        return None
    about = ProviderContext(session_id=ports.session_id, user_data=ports.user_data)
    return ContextGatherer(ports.context_providers, about, task_group.scrub)
