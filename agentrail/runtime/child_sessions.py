"""Child sessions of a call, a tool or a background agent: start, find, resume and stop them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial, reduce
from typing import Literal

import trio
from attrs import define, field, frozen
from msgspec.structs import replace

from agentrail.abc import Error, ToolOutcome, timeout_seconds_of
from agentrail.core.policy.budget import NOTHING_SPENT, Budget, Spent, budget_left, spent_of
from agentrail.core.protocol.effects import ResumeChild, StartAgent
from agentrail.core.protocol.signals import AgentIdled, BudgetLent, ChildStarted, Prompt
from agentrail.core.session.child_sessions import sources_said_by
from agentrail.core.session.recovery import NEVER_BEGAN
from agentrail.core.session.state import Known
from agentrail.core.values.sources import WITHOUT_SOURCES, more_sources
from agentrail.errors import AgentrailError, SessionDown
from agentrail.events import (
    TERMINAL,
    AgentAbort,
    AgentEnd,
    AgentError,
    Event,
    EventsLost,
    ResponseComplete,
)
from agentrail.messages import PromptRef, SessionId, Text
from agentrail.otp.child_specs import Restart
from agentrail.runtime.child_calls import (
    MAX_SESSION_ID_CHARACTERS,
    Deliver,
    SeenOfChild,
    assemble_child,
    decide_answer,
    last_text_of,
    published_by,
    resume_for_call,
    run_for_call,
    run_for_tool,
)
from agentrail.runtime.journal_events import read_in_the_end, subscribed_in_the_end
from agentrail.runtime.plugin_watch import QuietWatch
from agentrail.runtime.ports import AgentLine, AgentWork, ChildUsage, ChildWork, Ports
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_journal import SessionJournal
from agentrail.runtime.session_keys import key_of
from agentrail.runtime.session_loader import PluginFinder, revive_ended
from agentrail.runtime.session_resume import child_ids_of
from agentrail.runtime.session_sandbox import Workspace
from agentrail.runtime.shared_resources import Shared
from agentrail.runtime.shutdown import CHILD_STOP_WITHIN_SECONDS, end_child, leave_quietly, stop_quietly
from agentrail.runtime.tool_calls import clean_text


@frozen(eq=False)
class ChildSessions:
    _shared: Shared
    _begin: Callable[[SessionCell, Workspace, Restart], Session] = field(kw_only=True)

    async def resume_child(
        self, effect: ResumeChild, ports: Ports, deliver: Deliver, usage: ChildUsage
    ) -> ToolOutcome:
        parent = self._shared.entries[ports.key].cell
        child_id = child_ids_of(ports.session_id, effect)[-1]
        entry = self._shared.live(key_of(ports.scope, child_id))
        journal = None if entry is None else entry.cell.journal
        if entry is None or journal is None:
            return await self._answer_of_ended(parent, child_id, effect, usage)
        cell = entry.cell
        usage.session_id = cell.ports.session_id
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            if is_untouched(cell):  # its process stopped after it started and before its prompt
                call = next(one for one in parent.state.data.batch if one.call.call_id == effect.call_id)
                prompt_cell(cell, str(call.arguments.get("description", "")), None)
            seconds = timeout_seconds_of(parent.tool_of(effect.call_id)) or ports.tool_timeout_seconds
            with cell.pending_calls.waited_for():
                return await resume_for_call(effect, Session(cell), _seen_of(cell, journal), deliver, seconds)
        finally:
            await _end_of_call(parent, cell, usage)  # noqa: ASYNC102 - shielded and bounded inside

    async def _answer_of_ended(
        self, parent: SessionCell, child_id: SessionId, effect: ResumeChild, usage: ChildUsage
    ) -> ToolOutcome:
        unknown = Error(
            text=f"[Outcome unknown: the session that worked for {effect.name} is not there any more]"
        )
        keeping, usage.spent = self._shared.keeping, None
        if keeping is None:
            return unknown
        # With its own watch and finder: a thread must not touch objects of the event loop.
        members = parent.state.data.stack.members
        finder = PluginFinder({member.name: member.plugin for member in members})
        watch = QuietWatch(
            child_id,
            parent.ports.user_data,
            self._shared.dependencies.outside,
            withheld=parent.ports.withheld,
        )
        watch.find_others(finder)
        read = partial(revive_ended, keeping.store, parent.ports.scope, child_id, finder, watch)
        try:
            revived = await read_in_the_end(partial(keeping.fold, read))
        except AgentrailError as error:
            return Error(text=f"{unknown.text[:-1]}: {clean_text(str(error))}]")
        if revived is None:
            # A child works only after it is stored and its start is reported. One whose name was too long has another id.
            if effect.child_ids or len(child_id) > MAX_SESSION_ID_CHARACTERS:
                return unknown
            usage.spent = NOTHING_SPENT
            return Error(text=NEVER_BEGAN)
        data = revived.state.data
        usage.spent = spent_of(data.usage, data.ledger)
        said = [event.message.text for event in revived.events if isinstance(event, ResponseComplete)]
        # The first end. Later ones result from stopping the child.
        end = next((event for event in revived.events if type(event) in TERMINAL), None)
        sources = reduce(more_sources, map(sources_said_by, revived.events), WITHOUT_SOURCES)
        return decide_answer(end, next((text for text in reversed(said) if text), ""), sources=sources)

    async def run_child(
        self, task: ChildWork, ports: Ports, deliver: Deliver, usage: ChildUsage
    ) -> ToolOutcome:
        parent = self._shared.entries[ports.key].cell
        open_child = partial(self._open_child, parent, usage)
        if task.effect.wish is not None:
            return await run_for_tool(task, open_child, deliver)
        seconds = timeout_seconds_of(parent.tool_of(task.effect.call_id)) or ports.tool_timeout_seconds
        return await run_for_call(task, open_child, deliver, seconds)

    @asynccontextmanager
    async def _open_child(
        self, parent: SessionCell, usage: ChildUsage, task: ChildWork
    ) -> AsyncIterator[Session]:
        cell: SessionCell | None = None
        try:
            await trio.lowlevel.checkpoint()
            cell = await self._begin_below(parent, task, "temporary")
            usage.session_id = cell.ports.session_id
            with cell.pending_calls.waited_for():
                yield Session(cell)
        finally:
            await _end_of_call(parent, cell, usage)  # noqa: ASYNC102 - shielded and bounded inside
        usage.session_id = None  # it ended on its own and was not stopped by an abort

    async def _begin_below(
        self, parent: SessionCell, work: ChildWork | AgentWork, restart: Restart
    ) -> SessionCell:
        cell = assemble_child(parent, work, fresh_id=f"s-{self._shared.dependencies.outside.ids(6)}")
        if self._shared.down is not None or self._shared.live(cell.ports.key) is not None:
            raise SessionDown(
                cell.ports.session_id, self._shared.down or "a session with this id is already alive"
            )
        is_over = trio.Event()
        parent.starting = (*parent.starting, is_over)
        try:
            await self._shared.begin_journal(cell)
            # The parent owns and closes the sandbox, so this workspace is never opened.
            workspace = Workspace(self._shared.dependencies.make_sandbox, "local", cell.ports.working_dir)
            self._begin(cell, workspace, restart)
        finally:
            parent.starting = tuple([one for one in parent.starting if one is not is_over])
            is_over.set()
        return cell

    async def run_agent(self, effect: StartAgent, ports: Ports, deliver: Deliver, line: AgentLine) -> str:
        """Run an agent until its session has ended.

        Cancellation: The agent and its work are aborted and stopped before the cancellation propagates. If the parent session has
            crashed, the agent stays alive.
        """
        parent, usage = self._shared.entries[ports.key].cell, line.usage
        cell, is_new = await self._agent_of(parent, AgentWork(effect=effect))
        usage.session_id = cell.ports.session_id
        state = parent.state.data.agents.find(effect.name)
        listener = _Listener(cell, effect, deliver)
        if state is not None:
            listener.is_owed = not is_new and state.status == "working"
            listener.spent = state.spent
        try:
            line.connect(partial(prompt_cell, cell))
            deliver(ChildStarted(at_ms=now_ms(), effect_id=effect.effect_id, child_id=cell.ports.session_id))
            # Uncommitted text is not forwarded: a hundred talking agents would fill the parent's mailbox.
            subscribe = partial(Session(cell).subscribe, after=effect.after, deltas=False)
            async with subscribed_in_the_end(subscribe) as events:
                if is_new:
                    prompt_cell(cell, effect.task, None)
                listener.look_for_loss(effect.after)
                async for event in events:
                    listener.hear(event)
            return cell.ending or "it ended"
        finally:
            usage.spent = spent_of(cell.state.data.usage, cell.state.data.ledger)
            if parent.crash is None:  # otherwise it is left to the next incarnation, or ends with the last
                await _end_below(parent, cell, usage)  # noqa: ASYNC102 - shielded and bounded inside

    async def _agent_of(self, parent: SessionCell, work: AgentWork) -> tuple[SessionCell, bool]:
        """Start the session of an agent, or return the one that survived a crash of its parent. Also return whether it needs its prompt."""
        session_id = work.effect.child_id or SessionId(f"{parent.ports.session_id}{work.own_name}")
        live = self._shared.live(key_of(parent.ports.scope, session_id))
        if live is not None and live.cell.state.data.config.path[:-1] == parent.state.data.config.path:
            # Its process may have stopped after it started and before its prompt.
            return live.cell, is_untouched(live.cell) and not live.cell.mailbox.has_mail()
        if work.effect.child_id is not None:
            raise SessionDown(session_id, self._shared.down or "it no longer exists")
        await trio.lowlevel.checkpoint_if_cancelled()
        return await self._begin_below(parent, work, "transient"), True

    def stop_agents(self, parent: SessionCell) -> None:
        scope, path = parent.ports.scope, parent.state.data.config.path
        for entry in tuple(self._shared.entries.values()):
            cell = entry.cell
            is_below = cell.ports.scope == scope and cell.state.data.config.path[:-1] == path
            if is_below and not cell.state.ended:
                self._shared.nursery.start_soon(
                    stop_quietly, cell, "the parent session has ended", name="stop"
                )


def _seen_of(cell: SessionCell, journal: SessionJournal) -> SeenOfChild:
    kept = cell.bus.kept
    is_over = is_idle(cell)
    kept_from = cell.bus.last_seq - len(kept)
    after = min(kept_from, journal.seen_up_to)
    if is_over and not any(type(event) in TERMINAL for event in kept):
        after = 0  # few events are kept; the journal has the end
    return SeenOfChild(after=after, heard=journal.seen_up_to, is_over=is_over)


async def _end_of_call(parent: SessionCell, cell: SessionCell | None, usage: ChildUsage) -> None:
    if cell is not None:
        await _end_below(parent, cell, usage)
    spent = usage.spent if cell is None or usage.spent is not NOTHING_SPENT else None  # None: it is suspended
    if parent.crash is not None and spent is not None:  # no outcome is delivered any more
        parent.spent_below = (*parent.spent_below, spent)


async def _end_below(parent: SessionCell, cell: SessionCell, usage: ChildUsage) -> None:
    """End a child session. If its parent only suspends and will be resumed from its journal, the child suspends too."""
    if parent.journal is not None and (parent.rested is not None or parent.journal.refusal is not None):
        with trio.move_on_after(CHILD_STOP_WITHIN_SECONDS, shield=True):
            await leave_quietly(cell, 0)
        return
    await end_child(cell, usage)


def prompt_cell(cell: SessionCell, text: str, budget: Budget | None) -> None:
    if budget is not None:
        cell.mailbox.put_notice(BudgetLent(at_ms=now_ms(), budget=budget))
    signal_id = cell.pending_calls.mint()
    content = (Text(text=text),)
    cell.mailbox.put_notice(
        Prompt(
            at_ms=now_ms(),
            signal_id=signal_id,
            ref=PromptRef(signal_id),
            content=content,
            trace=cell.ports.parent_trace,
        )
    )


def _bound_of(data: Known, before: Spent) -> Spent:
    """Return an agent's usage, with all that its own agents may still spend. Never less than `before`, which is booked."""
    now = spent_of(data.usage, data.ledger)
    tokens, nano_usd = now.tokens, now.nano_usd
    if data.ledger is not None and any(one.inputs for one in data.agents.alive):  # their next cycles
        left = budget_left(data.ledger)
        tokens += left.tokens or 0
        nano_usd += round((left.cost_usd or 0) * 1_000_000_000)
    tokens, nano_usd = max(tokens, before.tokens), max(nano_usd, before.nano_usd)
    return replace(now, tokens=tokens, nano_usd=nano_usd)


def is_untouched(cell: SessionCell) -> bool:
    data = cell.state.data
    return is_idle(cell) and data.last is None and not any(type(event) in TERMINAL for event in cell.bus.kept)


def is_idle(cell: SessionCell) -> bool:
    data = cell.state.data
    return data.cycle is None and data.held is None and not data.queue


@define(eq=False)
class _Listener:
    cell: SessionCell
    effect: StartAgent
    deliver: Deliver
    is_owed: bool = False
    spent: Spent = NOTHING_SPENT
    _last_text: str = ""
    _turns: int = 0

    def hear(self, event: Event) -> None:
        # If an end was among the lost events, another cycle has begun since, and its end is still to come.
        if isinstance(event, EventsLost):
            return
        self.deliver(published_by(self.cell.ports.session_id, self.effect.effect_id, event))
        if isinstance(event, ResponseComplete):
            self._turns += 1
            self._last_text = event.message.text or self._last_text
        match event:
            case AgentEnd(messages=messages):
                self._tell_end("finished", last_text_of(messages))
            case AgentError(error=error):
                self._tell_end("failed", f"{self._last_text}\n[It failed: {error.message}]")
            case AgentAbort(reason=reason):
                why = reason or "no reason given"
                self._tell_end("aborted", f"{self._last_text}\n[It was aborted: {why}]")
            case _:
                self.look_for_loss(0 if event.meta is None else event.meta.seq)

    def look_for_loss(self, seen: int) -> None:
        """Report a failed cycle if its prompt was lost with the process: everything was seen, and the agent is idle."""
        cell = self.cell
        is_at_rest = is_idle(cell) and not cell.mailbox.has_mail()
        if self.is_owed and is_at_rest and seen == cell.bus.last_seq == cell.state.data.seq:
            self._tell_end("failed", "[It failed: its last message was lost when the process stopped]")

    def _tell_end(self, outcome: Literal["finished", "aborted", "failed"], text: str) -> None:
        self.is_owed = False
        self.spent = _bound_of(self.cell.state.data, self.spent)
        self.deliver(
            AgentIdled(
                at_ms=now_ms(),
                effect_id=self.effect.effect_id,
                outcome=outcome,
                text=clean_text(text.strip()),
                turns=self._turns,
                spent=self.spent,
            )
        )
        self._last_text, self._turns = "", 0
