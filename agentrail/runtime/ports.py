"""What a session was given to work with: its adapters and its surroundings, in one value."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from attrs import define, field, frozen

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
)
from agentrail.core.policy.budget import NOTHING_SPENT, Budget, Spent
from agentrail.core.policy.response_format import ResponseFormat
from agentrail.core.protocol.effects import ResumeChild, SpawnChild, StartAgent
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import Signal, ToolFinished
from agentrail.core.session.agent_state import GENERAL_PURPOSE, AgentSpec
from agentrail.core.stack.plugin import Plugin
from agentrail.events import AbortReceipt, ChildReceipt
from agentrail.frozen import EMPTY, frozen_json
from agentrail.messages import JsonObject, SessionId
from agentrail.outside import Outside, current
from agentrail.runtime.above import InstructionsAbove
from agentrail.runtime.agent import SAYS_WHOSE
from agentrail.runtime.clock import now_ms
from agentrail.runtime.own_stores import NOTHING_OWN, OwnStores
from agentrail.runtime.scopes import NO_SCOPE, key_of
from agentrail.runtime.tool_specs import SpecOf
from agentrail.runtime.tool_threads import ToolThreads
from agentrail.runtime.withheld import Withheld
from agentrail.runtime.workspace import Workspace

NOTHING_STOPPED: Final = AbortReceipt()
"""What was stopped where nothing was at work."""


@frozen(kw_only=True)
class ReadyAgent:
    """An agent with all that it names found.

    Attributes:
        spec: What the core knows of it.
        max_turns: Model calls in one of its cycles; None for those of the session.
        tools: Its own by name; None for those of the session.
        plugins: Those besides the guards of the session; None for those of the session.
        result: What its answer to a call has to be; None: any text.
        user_data: What its tools see; None for that of the session.
        deps: What its tools work with; None for what those of the session do.
        replace_sections: Texts in place of sections of its prompt; None for those of the session.
    """

    spec: AgentSpec
    max_turns: int | None = None
    tools: Mapping[str, Tool] | None = None
    plugins: tuple[tuple[Plugin, JsonObject], ...] | None = None
    result: ResponseFormat | None = None
    user_data: JsonObject | None = None
    deps: object = field(default=None, repr=False, eq=False)
    replace_sections: JsonObject | None = None

    def data_below(self, above: JsonObject) -> JsonObject:
        """Give what its tools see below a session with this data: whose that is, its own does not say."""
        if self.user_data is None:
            return above
        return frozen_json({**self.user_data, **{name: above[name] for name in SAYS_WHOSE if name in above}})

    def deps_below(self, above: object) -> object:
        """Give what its tools work with below a session that works with this."""
        return above if self.deps is None else self.deps


GENERAL: Final = ReadyAgent(spec=AgentSpec(name=GENERAL_PURPOSE, description=""))
"""The agent that has what its session has."""

NO_READY_AGENTS: Final[Mapping[str, ReadyAgent]] = MappingProxyType({})
"""What a session has that was given none."""


@frozen(kw_only=True)
class Ports:
    """What a session was given to work with.

    Attributes:
        session_id: Whose they are.
        providers: By model string.
        tools: By name, and by the change of the session's tools that brought them; 0 for those of the start.
        find_provider: Turns a model string and provider options into a provider.
        spec_of: Says what a tool tells of itself to whom, checked.
        run_child: Lets a session of its own work for a call, or for a tool that runs.
        run_agent: Lets an agent work in the background, until its session has ended.
        resume_child: Lets a session that came back from its journal go on for a call.
        workspace: Gives the place where files are read and commands run.
        working_dir: The root of the file tools.
        user_data: The application's own data, frozen: what every tool, plugin and child is shown.
        deps: What the application gave its tools to work with.
        own: What its owner has remembered, and may read; its children share it.
        above: Reads the files for agents above its working directory; None where the sandbox is all that it has.
        provider_opts: By model string, the newest last: what a provider that is not in `providers` is found with.
        tool_timeout_seconds: For tools that name none.
        event_buffer_size: How many committed events are kept for subscribers that come back.
        group_id: The group that it belongs to, or None; its children belong to it too.
        scope: Where its id is the only one; its children are in it too.
        threads: Where tools that are plain functions run.
        context_providers: Who adds something to the requests of a turn, in the order in which they are asked.
        outside: The machine, or what stood for it where the supervisor was opened.
        agents: Those that may work for it, by name; the general one is not among them.
        host: What is asked about its calls, and told of them; `SessionConfig.host_hooks` says the same to the core.
        withheld: The secrets that it knows; its children know the same.
        key: What names it among the sessions of all scopes.
    """

    session_id: SessionId
    providers: dict[str, Provider]
    tools: dict[tuple[str, int], Tool]
    find_provider: ResolveProvider
    spec_of: SpecOf
    run_child: "RunChild"
    run_agent: "RunAgent"
    resume_child: "ResumeChildWork"
    workspace: Workspace
    working_dir: str
    user_data: JsonObject = EMPTY
    deps: object = field(default=None, repr=False, eq=False)
    own: OwnStores = field(default=NOTHING_OWN, repr=False, eq=False)
    above: InstructionsAbove | None = field(default=None, repr=False, eq=False)
    provider_opts: dict[str, Mapping[str, Any]] = field(factory=dict, repr=False)  # keys are among them
    tool_timeout_seconds: float = 300.0
    event_buffer_size: int = 1000
    group_id: str | None = None
    scope: str = NO_SCOPE
    threads: ToolThreads
    context_providers: tuple[ContextProvider, ...] = ()
    outside: Outside = field(factory=current)
    agents: Mapping[str, ReadyAgent] = NO_READY_AGENTS
    host: HostHooks = NO_HOST
    withheld: Withheld = field(factory=Withheld, repr=False, eq=False)

    key: str = field(init=False)

    @key.default
    def _key(self) -> str:
        return key_of(self.scope, self.session_id)


@frozen(kw_only=True)
class ChildWork:
    """What a session is to do that works for a call, or for its tool.

    Attributes:
        number: Which one of its incarnation, where a tool asked for it; None where it answers the call.
    """

    effect: SpawnChild
    number: int | None = None

    @property
    def agent(self) -> str:
        """Which agent does it."""
        return self.effect.agent

    @property
    def own_name(self) -> str:
        """What tells the session from others of its parent."""
        number = "" if self.number is None else f".{self.number}"
        return f".{self.effect.call_id}{number}"

    @property
    def request(self) -> ChildRequest:
        """What it is to do, and what it has for that."""
        wish = self.effect.wish
        if wish is None:
            return ChildRequest(prompt=str(self.effect.arguments.get("description", "")))
        return ChildRequest(
            prompt=wish.prompt,
            system_prompt=wish.system_prompt,
            tools=wish.tools,
            max_turns=wish.max_turns,
            agent=wish.agent,
            model=wish.model,
        )

    def finished(self, outcome: ToolOutcome, usage: "ChildUsage", started_at_ms: int) -> ToolFinished:
        """Make the one outcome that the effect owes, whatever became of the session."""
        return finished_child(self.effect.effect_id, outcome, usage, started_at_ms)


@frozen(kw_only=True)
class AgentWork:
    """What an agent is to do."""

    effect: StartAgent

    @property
    def agent(self) -> str:
        """Which agent does it."""
        return self.effect.agent

    @property
    def own_name(self) -> str:
        """What tells the session from others of its parent; no call is named like it."""
        return f":{self.effect.name}"

    @property
    def request(self) -> ChildRequest:
        """What it is to do first."""
        return ChildRequest(prompt=self.effect.task)


@define
class ChildUsage:
    """What the child of a call has used and what became of it; an object, so that the code that stops the call can read it too.

    Attributes:
        receipt: What was stopped with it, its own children included; empty until it is gone.
        session_id: Which session; None before it has begun.
    """

    spent: Spent = NOTHING_SPENT
    receipt: AbortReceipt = NOTHING_STOPPED
    session_id: SessionId | None = None

    @property
    def receipts(self) -> tuple[ChildReceipt, ...]:
        """What became of it and of the sessions below it, the deepest first; nothing of one that never began."""
        below = self.receipt
        if self.session_id is None:
            return below.children
        own = ChildReceipt(
            session_id=self.session_id,
            tasks_ended=below.tasks_ended,
            processes_reaped=below.processes_reaped,
            stuck=below.stuck,
            abandoned=below.abandoned,
        )
        return (*below.children, own)

    def add(self, receipt: AbortReceipt) -> None:
        """Count what was stopped. Not the ids of calls: they mean something in the child alone."""
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
    """Make the one outcome that is owed for a session that worked for a call, or for its tool."""
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
    """What leads to an agent while its task runs.

    Attributes:
        prompt: Lets it work on; None before it has begun.
        reason: Why it was told to end; None unless it was.
        usage: What it has used, and what became of it.
    """

    prompt: Callable[[str, Budget | None], None] | None = None
    reason: str | None = None
    usage: ChildUsage = field(factory=ChildUsage)


RunAgent: TypeAlias = Callable[[StartAgent, "Ports", Callable[[Signal], None], "AgentLine"], Awaitable[str]]
"""Carries a `StartAgent` out until the session of the agent has ended, and says why; delivers what it publishes."""

ResumeChildWork: TypeAlias = Callable[
    [ResumeChild, "Ports", Callable[[Signal], None], ChildUsage], Awaitable[ToolOutcome]
]
"""Carries a `ResumeChild` out to the end of the child, as `RunChild` does a `SpawnChild`."""

RunChild: TypeAlias = Callable[
    [ChildWork, Ports, Callable[[Signal], None], ChildUsage], Awaitable[ToolOutcome]
]
"""Carries a `SpawnChild` out to the end of the child, delivers what it publishes, notes what it used, and gives the result of
the call. For a tool it gives the last text, and raises what ended the child otherwise."""
