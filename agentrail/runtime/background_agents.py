"""`session.agents`: background agents for the program, with the same operations as the model's tools."""

import math
from collections.abc import Iterable
from typing import Any, Final, Literal, cast

import trio
from attrs import frozen

from agentrail.core.protocol.signals import AgentCommand
from agentrail.core.session.agent_calls import DEFAULT_WAIT_SECONDS
from agentrail.core.session.agent_records import AgentState, AgentStatus
from agentrail.errors import OptionError, SessionDown
from agentrail.events import TERMINAL, Event, EventsLost, SubagentEnd, SubagentEvent
from agentrail.messages import SessionId, TokenUsage
from agentrail.otp.field_rules import all_items
from agentrail.runtime.arguments import fault_of, fault_of_wait, refuse
from agentrail.runtime.event_subscription import Terms
from agentrail.runtime.event_waits import bounded
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_queries import AskingHandle
from agentrail.structs import picked_fields

_BUFFER: Final = 1024


@frozen(kw_only=True)
class BackgroundAgent:
    """Status of a background agent at the time of the call.

    Attributes:
        name: Its name, never reused in the session.
        status: `working`, `idle` between two cycles, `closing` after this cycle, `stopping` now, or `ended`.
        outcome: How its last cycle ended. None before the first end.
        answer: Its last answer: text, or the JSON of a structured result.
        usage: All tokens that it has used, and their cost.
        session_id: Its session. None before the session has started.
        reason: Why it has ended. None before that.
    """

    name: str
    agent: str
    task: str
    status: AgentStatus
    outcome: Literal["finished", "aborted", "failed"] | None
    answer: str
    turns: int
    usage: TokenUsage
    session_id: SessionId | None
    reason: str | None


class BackgroundAgents(AskingHandle):
    """The background agents of one session, from `Session.agents`. The session needs no running cycle."""

    __slots__ = ()

    async def spawn(self, agent: str, task: str, *, name: str | None = None) -> str:
        """Start an agent. It works until it is closed or the session ends.

        Raises:
            OptionError: Your move: there is no such background agent, the name was used before, or a limit is reached
                (depth, number alive, remaining budget). The message says which, and lists the agents alive.
            SessionDown, MailboxFull, StoreUnavailable: See `Session.prompt`.

        Cancellation: Once the message has been sent, the agent starts. Only its name is lost.
        """
        refuse(
            fault_of("agent", agent, str),
            fault_of("task", task, str),
            fault_of("name", name, str | None),
        )
        return await self._command("spawn", name=name or "", agent=agent, text=task)

    async def send(self, name: str, text: str) -> None:
        """Prompt an agent. A working agent reads it when it is idle, together with other messages sent meanwhile.

        Raises:
            OptionError: Your move: there is no such agent, it is closing or has ended, a hundred inputs are waiting
                already, or no budget is left.
            SessionDown, MailboxFull, StoreUnavailable: See `Session.prompt`.

        Cancellation: Once the message has been sent, it is delivered.
        """
        refuse(fault_of("name", name, str), fault_of("text", text, str))
        await self._command("send", name=name, text=text)

    async def wait(
        self,
        names: Iterable[str] | None = None,
        *,
        match: Literal["all", "any"] = "all",
        until: Literal["idle", "closed"] = "idle",
        timeout_seconds: float | None = DEFAULT_WAIT_SECONDS,
    ) -> tuple[BackgroundAgent, ...]:
        """Wait for agents. Their notes still reach the model: only the model's own call counts as waiting for them.

        Raises:
            OptionError: Your move: no agent ever had one of the names, or an argument is out of range.
            SessionDown: The session has ended.
            StoreUnavailable: The store does not accept records for now.

        Cancellation: Immediate. The agents keep working.
        """
        wanted = None if names is None else all_items(names)
        refuse(
            fault_of("names", wanted, tuple[str, ...] | None),
            None if match in ("all", "any") else f"match is {match!r:.200}: expected 'all' or 'any'",
            None if until in ("idle", "closed") else f"until is {until!r:.200}: expected 'idle' or 'closed'",
            fault_of_wait(timeout_seconds),
        )
        there = await self._states()
        if wanted is None:
            wanted = tuple(name for name, one in there.items() if one.status != "ended")
        unknown = [name for name in wanted if name not in self._cell.visible.data.agents.names]
        if unknown:
            raise OptionError(
                [f"no agent was ever called {unknown[0]!r:.80}: agents.list() returns the existing ones"]
            )

        def is_met() -> bool:
            met = [_is_there(there.get(name), until) for name in wanted]
            return any(met) if match == "any" and met else all(met)

        with trio.move_on_after(math.inf if timeout_seconds is None else timeout_seconds):
            terms = Terms(kinds=None, deltas=False, buffer=_BUFFER)
            async with self._cell.subscribe(terms, after=None) as events:
                with bounded(self._cell, lambda _: events.end()) as call:
                    there = await self._states()  # again: no event is missed after this
                    while not is_met():
                        try:
                            event = await anext(events)
                        except StopAsyncIteration:
                            raise call.error or SessionDown(
                                self._cell.ports.session_id, self._cell.ending or "ended"
                            ) from None
                        if _may_matter(event):
                            there = await self._states()
        return tuple(_shown(there[name]) for name in wanted if name in there)

    async def close(self, name: str, reason: str = "", *, now: bool = False) -> BackgroundAgent:
        """End an agent after its cycle, or immediately with `now`. Its unread messages are dropped.

        Raises:
            OptionError: Your move: there is no such agent, it has ended already, or a rewind undid its start.
            SessionDown, MailboxFull, StoreUnavailable: See `Session.prompt`.

        Cancellation: The agent is still closed.
        """
        refuse(
            fault_of("name", name, str),
            fault_of("reason", reason, str),
            fault_of("now", now, bool),
        )
        await self._command("close", name=name, text=reason, now=now)
        found = await self.wait([name], until="closed", timeout_seconds=None)
        if not found:
            raise OptionError([f"agent {name!r:.80} has ended, and a rewind of the session undid its start"])
        return found[0]

    async def list(self) -> tuple[BackgroundAgent, ...]:
        """Return all background agents in the order of their start. Of ended agents, only the last 64 are kept.

        Raises:
            SessionDown: The session has ended.

        Cancellation: Immediate.
        """
        return tuple(map(_shown, (await self._states()).values()))

    async def _states(self) -> dict[str, AgentState]:
        await self._look()
        return {one.name: one for one in self._cell.visible.data.agents.states}

    async def _command(self, action: Literal["spawn", "send", "close"], **given: Any) -> str:
        signal_id = self._cell.pending_calls.mint()
        signal = AgentCommand(at_ms=now_ms(), signal_id=signal_id, action=action, **given)
        return cast("str", await self._ask(signal))


def _is_there(state: AgentState | None, until: str) -> bool:
    # A forgotten agent ended long ago.
    return state is None or state.status == "ended" or (until == "idle" and state.status == "idle")


def _may_matter(event: Event) -> bool:
    """Whether an agent's status may have changed: its cycle or session has ended. The session was notified right after."""
    if isinstance(event, SubagentEvent):
        return type(event.event) in TERMINAL
    return isinstance(event, SubagentEnd | EventsLost)


def _shown(state: AgentState) -> BackgroundAgent:
    return BackgroundAgent(
        **picked_fields(state, "name", "agent", "task", "status", "outcome", "answer", "turns", "reason"),
        usage=state.spent.usage,
        session_id=state.child_id,
    )
