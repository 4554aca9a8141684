"""Agents, as data: the agents that a session may use, and the state of those in the background."""

from typing import Final, Literal, TypeAlias

import msgspec

from agentrail.core.policy.budget import NOTHING_SPENT, Budget, Spent
from agentrail.core.protocol.effects import BegunAgent
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.request import EffectId, ModelFacts
from agentrail.core.values.history import GrowingSet
from agentrail.core.values.toolbox import Toolbox
from agentrail.messages import CallId, JsonObject, PromptRef

GENERAL_PURPOSE: Final = "general-purpose"
"""The agent that every session has: a copy of the session itself."""


def agent_wanted(arguments: JsonObject) -> str:
    """Return the name of the agent that a call's arguments request, whether or not it exists."""
    return str(arguments.get("subagent_type", GENERAL_PURPOSE))


HANDOFF_TOOL: Final = "handoff_to"
"""The tool that hands a session over to another agent."""

SLEEP_TOOL: Final = "sleep"
"""The tool that makes a session wait for a time."""

ANSWERED_BY_SESSIONS: Final = frozenset(
    {"spawn_agent", "send_input", "wait_agents", "close_agent", HANDOFF_TOOL, SLEEP_TOOL}
)
"""The tools whose calls a session answers itself."""


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An agent of a session, as far as it affects decisions of the core.

    Attributes:
        name: Unique among the agents of a session.
        description: The text by which the model chooses it.
        digest: Digest of its whole definition. Two agents of one digest behave alike.
        wake: Whether the end of one of its cycles starts a cycle of an idle session.
        handoff: Whether the session may be handed over to it.
        budget: What each of its cycles in the background may spend. None: a share of the remaining budget.
        system_prompt: Its own. None for that of the session.
        model: Its own. None for that of the session.
        tools: Its own. None for those of the session.
        permissions: Its own restrictions. None for the permissions of the session, which it can never exceed.
        plugins: Its plugins in addition to the guards of the session, which always stay. None for those of the
            session.
    """

    name: str
    description: str
    digest: str = ""
    background: bool = False
    wake: bool = False
    handoff: bool = False
    budget: Budget | None = None
    system_prompt: str | None = None
    model: ModelFacts | None = None
    tools: Toolbox | None = None
    permissions: JsonObject | None = None
    plugins: tuple[PluginRecord, ...] | None = None


class AgentLimits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Limits on agents in the background.

    Attributes:
        max_depth: Maximum depth of sessions below the root. An agent at the bottom starts none.
        max_agents: Running at once, per session.
        max_agents_total: Started in one cycle.
    """

    max_depth: int = 1
    max_agents: int = 8
    max_agents_total: int = 64


class ActingAgent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The agent that a session works as.

    Attributes:
        name: Its name. None: the session itself.
        prompt: The system prompt in place of the session's own. None: the session's own.
        next: The agent to hand over to before the next request. None: no handoff.
    """

    name: str | None = None
    prompt: str | None = None
    next: str | None = None
    note: str | None = None


ITSELF: Final = ActingAgent()
"""The session was never handed over."""


AgentStatus: TypeAlias = Literal["working", "idle", "closing", "stopping", "ended"]
"""Status of an agent: in a cycle, between cycles, in its last cycle, told to stop but still running, or ended."""


class AgentState(BegunAgent, frozen=True, kw_only=True, gc=False):
    """An agent in the background.

    Attributes:
        outcome: How its last cycle ended. None before the first has.
        answer: Its last text.
        spent: Its total usage that was counted so far.
        loan: The reservation of its current cycle. None between two cycles, and without a ledger.
        inputs: Inputs that wait until it is idle, oldest first. Empty unless it works.
        seen: The number of its last event that was passed on.
        sources: The sources named by its results and by those of sessions below it.
        reason: Why it has ended. None before.
    """

    status: AgentStatus = "working"
    outcome: Literal["finished", "aborted", "failed"] | None = None
    answer: str = ""
    turns: int = 0
    spent: Spent = NOTHING_SPENT
    loan: EffectId | None = None
    inputs: tuple[str, ...] = ()
    seen: int = 0
    reason: str | None = None
    sources: tuple[str, ...] = ()


class AgentWait(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A call that waits for agents or for a time, without slot or task. It ends with the agents or by its timer.

    Attributes:
        call_id: The call, which is `awaiting`.
        names: The agents that it waits for. Empty if it waits for a time.
        match: Whether it waits for all of them, or for the first.
        until: Whether it waits until they are idle, or have ended, or only for a time.
        timer: The timer that ends the wait. None: no time limit.
        expires_at_ms: Its time limit, in milliseconds since 1970. None: never.
    """

    call_id: CallId
    names: tuple[str, ...]
    match: Literal["all", "any"] = "all"
    until: Literal["idle", "closed", "time"] = "idle"
    timer: EffectId | None = None
    expires_at_ms: int | None = None


class Agents(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The state of all agents in the background.

    Attributes:
        states: The running ones, and the last ones that have ended, in the order in which they were started.
        waits: The calls that wait for agents or for a time, oldest first.
        names: All names ever used. None is used twice.
        cycle: The cycle in which `started` were counted.
        notes: Results that no call waited for. The model reads them before its next turn.
        is_waking: Whether one of `notes` starts a cycle if the current one finishes before the model has read it.
    """

    states: tuple[AgentState, ...] = ()
    waits: tuple[AgentWait, ...] = ()
    names: GrowingSet[str] = GrowingSet()
    cycle: PromptRef | None = None
    started: int = 0
    notes: tuple[str, ...] = ()
    is_waking: bool = False

    def find(self, name: str) -> AgentState | None:
        for state in self.states:
            if state.name == name:
                return state
        return None

    @property
    def has_any(self) -> bool:
        return bool(self.states or self.waits)

    @property
    def alive(self) -> tuple[AgentState, ...]:
        """The agents that have not ended."""
        return tuple([state for state in self.states if state.status != "ended"])


NO_AGENTS: Final = Agents()
"""No agent was ever started."""


def kinds_of(agents: tuple[AgentSpec, ...]) -> tuple[str, ...]:
    names = tuple(agent.name for agent in agents)
    return names if GENERAL_PURPOSE in names else (*names, GENERAL_PURPOSE)


def find_agent(agents: tuple[AgentSpec, ...], name: str) -> AgentSpec | None:
    for agent in agents:
        if agent.name == name:
            return agent
    return AgentSpec(name=GENERAL_PURPOSE, description="") if name == GENERAL_PURPOSE else None
