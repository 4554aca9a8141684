"""Ports of a session: its adapters and its environment, in one value."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec
from attrs import define, field, fields_dict, frozen
from msgspec.structs import force_setattr

from agentrail.abc import (
    NO_HOST,
    ChildRequest,
    ContextProvider,
    Error,
    HostHooks,
    Provider,
    ResolveProvider,
    Tool,
    ToolOutcome,
    ToolServer,
)
from agentrail.core.policy.budget import NOTHING_SPENT, Budget, Spent
from agentrail.core.policy.response_format import ResponseFormat
from agentrail.core.protocol.effects import ResumeChild, SpawnChild, StartAgent
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import Signal, ToolFinished
from agentrail.core.session.agent_records import GENERAL_PURPOSE, AgentSpec
from agentrail.core.stack.plugin import Plugin
from agentrail.events import AbortReceipt, ChildReceipt
from agentrail.frozen import EMPTY, frozen_json
from agentrail.messages import CallId, JsonObject, SessionId, TraceContext
from agentrail.outside import Outside, current
from agentrail.runtime.agent import SAYS_WHOSE, Agent
from agentrail.runtime.parent_instructions import InstructionsAbove
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_keys import NO_SCOPE, key_of
from agentrail.runtime.session_sandbox import Workspace
from agentrail.runtime.session_stores import NOTHING_OWN, OwnStores
from agentrail.runtime.tool_specs import SpecOf
from agentrail.runtime.tool_threads import ToolThreads
from agentrail.runtime.trace_reader import TraceReader
from agentrail.runtime.tree_secrets import Withheld
from agentrail.structs import picked_fields, struct_from

NOTHING_STOPPED: Final = AbortReceipt()
"""Receipt of an abort that stopped nothing."""


@frozen(kw_only=True)
class ReadyAgent:
    """An agent as given, and its resolved references. None in a field: that of the session."""

    spec: AgentSpec
    given: Agent
    tools: Mapping[str, Tool] | None = None
    plugins: tuple[tuple[Plugin, JsonObject], ...] | None = None
    result: ResponseFormat | None = None

    def data_below(self, above: JsonObject) -> JsonObject:
        """Return the data for its tools in a child of a session with this data. The owner is always that of the session."""
        own = self.given.user_data
        if own is None:
            return above
        return frozen_json({**own, **{name: above[name] for name in SAYS_WHOSE if name in above}})

    def deps_below(self, above: object) -> object:
        return above if self.given.deps is None else self.given.deps


GENERAL: Final = ReadyAgent(
    spec=AgentSpec(name=GENERAL_PURPOSE, description=""),
    given=Agent(name=GENERAL_PURPOSE, description="The session itself."),
)
"""The agent with the same options as its session."""

NO_READY_AGENTS: Final[Mapping[str, ReadyAgent]] = MappingProxyType({})
"""For a session without agents."""


class Ports(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Adapters and environment of a session.

    Attributes:
        providers: By model string.
        tools: By name, and by the change of the session's tools that added them. 0 for those of the start.
        from_sources: The present tools of its root's sources, by name.
        user_data: The application's own data, frozen. Visible to every tool, plugin and child.
        own: Memories, notes and knowledge of its owner. Shared with its children.
        above: Reads the instruction files above its working directory. None if it has only its sandbox.
        provider_opts: By model string, newest last: options for providers that are not in `providers`.
        event_buffer_size: Number of committed events kept for returning subscribers.
        withheld: The secrets that it knows, shared with its children.
        traces: Reads the trace contexts of its prompts, shared by all sessions of a supervisor.
        parent_trace: Trace of its prompts that bring none: that of its parent session, or None.
        key: Unique name among the sessions of all scopes.
    """

    session_id: SessionId
    providers: dict[str, Provider]
    tools: dict[tuple[str, int], Tool]
    from_sources: dict[str, Tool] = {}
    find_provider: ResolveProvider
    spec_of: SpecOf
    run_child: "RunChild"
    run_agent: "RunAgent"
    resume_child: "ResumeChildWork"
    workspace: Workspace
    working_dir: str
    user_data: JsonObject = EMPTY
    deps: object = None
    own: OwnStores = NOTHING_OWN
    above: InstructionsAbove | None = None
    provider_opts: dict[str, Mapping[str, Any]] = {}
    tool_timeout_seconds: float = 300.0
    event_buffer_size: int = 1000
    group_id: str | None = None
    scope: str = NO_SCOPE
    threads: ToolThreads
    context_providers: tuple[ContextProvider, ...] = ()
    outside: Outside = msgspec.field(default_factory=current)
    agents: Mapping[str, ReadyAgent] = NO_READY_AGENTS
    host: HostHooks = NO_HOST
    servers: tuple[ToolServer | str, ...] | None = ()
    withheld: Withheld = msgspec.field(default_factory=Withheld)
    traces: TraceReader = msgspec.field(default_factory=TraceReader)
    parent_trace: TraceContext | None = None
    key: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "key", key_of(self.scope, self.session_id))

    def __repr__(self) -> str:
        return f"Ports({self.key!r})"  # without keys of providers


def name_of_child(call_id: CallId, effect_id: EffectId) -> str:
    """Return the name of a session that a tool runs. Its number is never used again, even if the tool runs again after a crash."""
    return f".{call_id}.{effect_id[1:]}"


@frozen(kw_only=True)
class ChildWork:
    effect: SpawnChild

    @property
    def own_name(self) -> str:
        effect = self.effect
        return (
            f".{effect.call_id}" if effect.wish is None else name_of_child(effect.call_id, effect.effect_id)
        )

    @property
    def request(self) -> ChildRequest:
        wish = self.effect.wish
        if wish is None:
            return ChildRequest(prompt=str(self.effect.arguments.get("description", "")))
        return ChildRequest(**picked_fields(wish, *fields_dict(ChildRequest)))


@frozen(kw_only=True)
class AgentWork:
    effect: StartAgent

    @property
    def own_name(self) -> str:
        """Name that distinguishes the session from others of its parent. No call has such a name."""
        return f":{self.effect.name}"

    @property
    def request(self) -> ChildRequest:
        return ChildRequest(prompt=self.effect.task)


@define
class ChildUsage:
    """Usage (None: unknown) and outcome of a call's child session, shared with the code that stops the call."""

    spent: Spent | None = NOTHING_SPENT
    receipt: AbortReceipt = NOTHING_STOPPED
    session_id: SessionId | None = None

    @property
    def receipts(self) -> tuple[ChildReceipt, ...]:
        """Outcome of the session and its descendants, the deepest first. Empty if it never began."""
        below = self.receipt
        if self.session_id is None:
            return below.children
        own = struct_from(ChildReceipt, below, session_id=self.session_id)
        return (*below.children, own)

    def add(self, receipt: AbortReceipt) -> None:
        """Add stopped work, without the ids of calls, which are meaningful only in the child."""
        before = self.receipt
        self.receipt = AbortReceipt(
            tasks_ended=before.tasks_ended + receipt.tasks_ended,
            processes_reaped=before.processes_reaped + receipt.processes_reaped,
            stuck=(*before.stuck, *receipt.stuck),
            abandoned=(*before.abandoned, *receipt.abandoned),
            children=(*before.children, *receipt.children),
        )


def finished_child(
    effect_id: EffectId, outcome: ToolOutcome, usage: ChildUsage, started_at_ms: int
) -> ToolFinished:
    at_ms = now_ms()
    return ToolFinished(
        at_ms=at_ms,
        effect_id=effect_id,
        text=outcome.text,
        is_error=isinstance(outcome, Error),
        details=outcome.details,
        started_at_ms=started_at_ms,
        spent=usage.spent,
        ran_ms=max(at_ms - started_at_ms, 0),
    )


@define(eq=False)
class AgentLine:
    reason: str | None = None
    usage: ChildUsage = field(factory=ChildUsage)
    _send: Callable[[str, Budget | None], None] | None = None
    _early: list[tuple[str, Budget | None]] = field(factory=list)

    def prompt(self, text: str, budget: Budget | None) -> None:
        """Send a prompt, or keep it until the agent's session is connected."""
        if self._send is None:
            self._early.append((text, budget))
        else:
            self._send(text, budget)

    def connect(self, send: Callable[[str, Budget | None], None]) -> None:
        self._send = send
        for text, budget in self._early:
            send(text, budget)


RunAgent: TypeAlias = Callable[[StartAgent, "Ports", Callable[[Signal], None], "AgentLine"], Awaitable[str]]
"""Executes a `StartAgent` until the session of the agent has ended, and returns the reason. Delivers its events."""

ResumeChildWork: TypeAlias = Callable[
    [ResumeChild, "Ports", Callable[[Signal], None], ChildUsage], Awaitable[ToolOutcome]
]
"""Executes a `ResumeChild` to the end of the child, as `RunChild` does a `SpawnChild`."""

RunChild: TypeAlias = Callable[
    [ChildWork, Ports, Callable[[Signal], None], ChildUsage], Awaitable[ToolOutcome]
]
"""Executes a `SpawnChild` to the end of the child, delivers its events, records its usage, and returns the result of the call.
For a tool it returns the last text, and raises if the child ended in another way.
"""
