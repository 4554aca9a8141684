"""Agents, as data: which ones a session knows, and how those stand that work behind it.

What is decided about them stands in `agents`; nothing that runs enters this file.
"""

from typing import Final, Literal, TypeAlias

import msgspec

from agentrail.core.policy.budget import NOTHING_SPENT, Budget, Spent
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.request import EffectId, ModelFacts
from agentrail.core.values.history import GrowingSet
from agentrail.core.values.toolbox import Toolbox
from agentrail.messages import CallId, JsonObject, PromptRef, SessionId

GENERAL_PURPOSE: Final = "general-purpose"


def agent_wanted(arguments: JsonObject) -> str:
    """Name the agent that the arguments of a call ask for, whether or not it exists."""
    return str(arguments.get("subagent_type", GENERAL_PURPOSE))


"""The agent that every session has: a session with what its parent has."""


HANDOFF_TOOL: Final = "handoff_to"
"""The tool by which a session goes on as another agent."""

SLEEP_TOOL: Final = "sleep"
"""The tool by which a session waits for a time."""

ANSWERED_BY_SESSIONS: Final = frozenset(
    {"spawn_agent", "send_input", "wait_agents", "close_agent", HANDOFF_TOOL, SLEEP_TOOL}
)
"""The tools whose calls a session answers itself."""


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An agent that a session may let work, as far as the core decides by it.

    Attributes:
        name: Unique among the agents of a session.
        description: What the model chooses it by.
        digest: Of all that it is made of; two agents of one digest behave alike.
        background: Whether it may be started in the background.
        wake: Whether a cycle of it that ends while the session is idle starts one of the session.
        handoff: Whether the session may be handed over to it.
        budget: What each of its cycles in the background may spend; None: a share of what is left.
        system_prompt: Its own; None for that of the session.
        model: Its own; None for that of the session.
        tools: Its own; None for those of the session.
        permissions: What it may do of its own; None for all that the session may. It is never allowed more than that.
        plugins: Those besides the guards of the session, which always stay; None for those of the session.
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
    """How many agents may work in the background.

    Attributes:
        max_depth: How many sessions may stand below the root; an agent at the bottom starts none.
        max_agents: Alive at once, of one session.
        max_agents_total: Started in one cycle.
    """

    max_depth: int = 1
    max_agents: int = 8
    max_agents_total: int = 64


class ActingAgent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """As which of its agents a session works.

    Attributes:
        name: Which one; None: as what it was started as.
        prompt: The system prompt in the place of that of the start; None: that one.
        next: To which one it is handed over before the next request; None: to none.
        note: What was said with that.
    """

    name: str | None = None
    prompt: str | None = None
    next: str | None = None
    note: str | None = None


ITSELF: Final = ActingAgent()
"""It was never handed over."""


AgentStatus: TypeAlias = Literal["working", "idle", "closing", "stopping", "ended"]
"""Where an agent stands: in a cycle; behind one; in a cycle that is to be its last; told to stop, and not gone yet; gone."""


class AgentState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An agent that works in the background.

    Attributes:
        name: Unique among all that the session ever started.
        agent: Which agent it is.
        task: What it was started with.
        call_id: The call that started it.
        effect_id: What was asked for; open until it has ended.
        child_id: The session that it is; None before that has begun.
        status: Where it stands.
        outcome: How its last cycle ended; None before the first has.
        answer: What it said last.
        turns: Of its last cycle.
        spent: All that it has used, as far as it is counted.
        loan: What its present cycle is lent under; None between two cycles, and without a ledger.
        inputs: What waits until it is idle, oldest first; empty unless it works.
        seen: The number of its last event that was passed on.
        sources: What its results named as their sources, and those of sessions below it: what it has read.
        reason: Why it has ended; None before.
    """

    name: str
    agent: str
    task: str
    call_id: CallId
    effect_id: EffectId
    child_id: SessionId | None = None
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
    """A call that waits for agents, or for a time: no slot, no task; decided when one of them is idle or has ended, or by its timer.

    Attributes:
        call_id: The call, which is `awaiting`.
        names: Whom it waits for; none, where it waits for a time.
        match: Whether for all of them, or for the first.
        until: Whether until they are idle, or until they have ended; or for nothing but its time.
        timer: What ends the wait when that does not come; None: nothing does.
        expires_at_ms: When; None: never.
    """

    call_id: CallId
    names: tuple[str, ...]
    match: Literal["all", "any"] = "all"
    until: Literal["idle", "closed", "time"] = "idle"
    timer: EffectId | None = None
    expires_at_ms: int | None = None


class Agents(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that a session knows of agents in the background.

    Attributes:
        states: Those that are alive, and the last ones that have ended, in the order in which they were started.
        waits: The calls that wait for them, or for a time, oldest first.
        names: All that were ever given; none is given twice.
        cycle: The cycle in which `started` were counted.
        started: How many were started in that cycle.
        notes: What ended while nothing waited for it; the model reads it in front of its next turn.
        is_waking: Whether one of `notes` starts a cycle if the present one ends well before the model has read it.
    """

    states: tuple[AgentState, ...] = ()
    waits: tuple[AgentWait, ...] = ()
    names: GrowingSet[str] = GrowingSet()
    cycle: PromptRef | None = None
    started: int = 0
    notes: tuple[str, ...] = ()
    is_waking: bool = False

    def find(self, name: str) -> AgentState | None:
        """Find one by its name."""
        for state in self.states:
            if state.name == name:
                return state
        return None

    @property
    def has_any(self) -> bool:
        """Whether there is an agent, or a call that waits."""
        return bool(self.states or self.waits)

    @property
    def alive(self) -> tuple[AgentState, ...]:
        """Those that have not ended."""
        return tuple([state for state in self.states if state.status != "ended"])


NO_AGENTS: Final = Agents()
"""None was ever started."""


def kinds_of(agents: tuple[AgentSpec, ...]) -> tuple[str, ...]:
    """Give the names that `subagent_type` may have."""
    names = tuple(agent.name for agent in agents)
    return names if GENERAL_PURPOSE in names else (*names, GENERAL_PURPOSE)


def find_agent(agents: tuple[AgentSpec, ...], name: str) -> AgentSpec | None:
    """Find an agent by its name; the general one is there also where it was not given."""
    for agent in agents:
        if agent.name == name:
            return agent
    return AgentSpec(name=GENERAL_PURPOSE, description="") if name == GENERAL_PURPOSE else None
