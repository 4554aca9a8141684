"""Assembly of a session from its options, before its start: finds tools, plugins, models and the sandbox."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Final

import msgspec
from attrs import field, fields_dict, frozen
from msgspec.structs import replace

from agentrail.abc import (
    NO_HOST,
    FindInstructions,
    HostHooks,
    Provider,
    ResolveProvider,
    Tool,
    ToolContext,
    ToolListing,
    ToolOutcome,
)
from agentrail.core.policy.response_format import ResponseFormat
from agentrail.core.protocol.effects import Effect
from agentrail.core.protocol.hooks import SessionStarted
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.request import ModelFacts
from agentrail.core.protocol.signals import HostHook, SessionBegan, Signal
from agentrail.core.session.agent_records import HANDOFF_TOOL, AgentLimits, AgentSpec
from agentrail.core.session.cycle import change_of_agent, generation_of_agent
from agentrail.core.session.machine import new_session, step
from agentrail.core.session.state import SessionConfig, SessionState
from agentrail.core.stack.inherited_stack import narrows
from agentrail.core.stack.loaded_stack import PluginEntry, Stack, compile_stack, load_plugin, load_stack
from agentrail.core.stack.plugin import Plugin
from agentrail.core.stack.plugin_code import part_entry
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import OptionError, ToolContractError
from agentrail.frozen import EMPTY, same_json
from agentrail.logs import Logger
from agentrail.messages import JsonObject, SessionId
from agentrail.outside import Outside, current
from agentrail.runtime.agent import Agent
from agentrail.runtime.base_prompt import decide_system_prompt
from agentrail.runtime.deps import DepsFor, decide_deps, fault_of_deps
from agentrail.runtime.hook_times import PluginTallies
from agentrail.runtime.model_lookup import decide_provider_opts, facts_of, find_provider, string_of
from agentrail.runtime.parent_instructions import InstructionsAbove
from agentrail.runtime.plugin_watch import PluginWatch
from agentrail.runtime.ports import NO_READY_AGENTS, Ports, ReadyAgent, ResumeChildWork, RunAgent, RunChild
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_options import SessionOptions
from agentrail.runtime.session_sandbox import MakeSandbox, Workspace, is_unconfined
from agentrail.runtime.session_stores import NOTHING_OWN, OwnStores, StoreDesks
from agentrail.runtime.tool_specs import MakeListing, SpecOf, ToolSpecs
from agentrail.runtime.tool_threads import ToolThreads
from agentrail.runtime.trace_reader import TraceReader
from agentrail.runtime.tree_secrets import Withheld, handles_in
from agentrail.structs import picked_fields

# --- Ready agents: everything that agents name is resolved when the session is created.


def make_ready(
    agents: Sequence[Agent],
    listing: MakeListing,
    specs: ToolSpecs,
    find: Callable[[str], ModelFacts],
    stack: Stack,
) -> Mapping[str, ReadyAgent]:
    ready: dict[str, ReadyAgent] = {}
    for agent in agents:
        if agent.handoff and agent.permissions is not None and not narrows(stack):
            fault = f"agent {agent.name!r} has its own permissions and can take over the session, which has no plugin that enforces them: give the session the plugin Permissions"
            raise OptionError([fault])
        plugins = None if agent.plugins is None else _plugins_of(agent, stack)
        box, tools = None, None
        if agent.tools is not None:
            box, names = specs.box_of(agent.tools, listing)
            tools = dict(zip(names, agent.tools, strict=True))
        facts = None if agent.model is None else find(agent.model)
        ready[agent.name] = ReadyAgent(
            spec=_spec_of(agent, facts, box, plugins),
            given=agent,
            tools=tools,
            plugins=None
            if plugins is None
            else tuple([(one, record.options or {}) for one, record in plugins]),
            result=None if agent.result is None else ResponseFormat(agent.result),
        )
    return ready


def check_deps(agents: Sequence[Agent], deps: object) -> None:
    faults: list[str] = []
    for agent in agents:
        given = [deps if agent.deps is None else agent.deps, *([deps] if agent.handoff else [])]
        for tool in agent.tools or ():
            found = [fault for one in given if (fault := fault_of_deps(one, tool)) is not None]
            faults += [f"agent {agent.name!r}: {fault}" for fault in found[:1]]
    OptionError.raise_for(faults)


def tools_of_agents(
    specs: Sequence[AgentSpec], agents: Mapping[str, ReadyAgent]
) -> dict[tuple[str, int], Tool]:
    """Return the code of tools that come with a handoff. `specs` are in the order of the session, not of its code."""
    return {
        (name, generation_of_agent(place)): tool
        for place, spec in enumerate(specs)
        if spec.handoff and spec.name in agents
        for name, tool in (agents[spec.name].tools or {}).items()
    }


def warning_of_unused(agents: Mapping[str, ReadyAgent], tools: Toolbox) -> str | None:
    if not agents:
        return None
    unused = [name for name, agent in agents.items() if not (agent.spec.background or agent.spec.handoff)]
    boxes = [tools, *(agent.spec.tools for agent in agents.values() if agent.spec.handoff)]
    specs = [spec for box in boxes if box is not None for spec in box.specs]
    if not unused or any(spec.answered_by == "child" or spec.name == _SKILL for spec in specs):
        return None
    return (
        f"the model cannot start {', '.join(map(repr, unused))} of agents=: no tool of the session starts agents. Add TaskTool() to tools=, or "
        "give the agent background=True or handoff=True. Ignore this if a tool of yours starts it with ctx.run_session(agent=…)"
    )


_SKILL: Final = "skill"
"""The tool that opens skills. A skill can name the agent that performs it."""


def _plugins_of(agent: Agent, stack: Stack) -> tuple[tuple[Plugin, PluginRecord], ...]:
    made = [part_entry(entry, stack.ask) for entry in agent.plugins or ()]
    members = [load_plugin((plugin, record.options or {}), ask=stack.ask)[0] for plugin, record in made]
    compile_stack(members, ask=stack.ask)
    left: list[tuple[Plugin, PluginRecord]] = []
    faults: list[str] = []
    for one, (plugin, record) in zip(members, made, strict=True):
        guard = stack.find(one.name)
        if guard is None or not guard.guards:
            left.append((plugin, record))
        elif type(guard.plugin) is not type(plugin) or not same_json(guard.options, one.options):
            faults.append(
                f"agent {agent.name!r}: its plugin {one.name!r} has the name of a guard of the session, which cannot be replaced: rename it, or remove it"
            )
    OptionError.raise_for(faults)
    return tuple(left)


def _spec_of(
    agent: Agent,
    facts: ModelFacts | None,
    box: Toolbox | None,
    plugins: tuple[tuple[Plugin, PluginRecord], ...] | None,
) -> AgentSpec:
    records = None if plugins is None else tuple([record for _, record in plugins])
    return AgentSpec(
        **picked_fields(agent, "name", "description", "background", "wake", "handoff", "budget"),
        **picked_fields(agent, "system_prompt", "permissions"),
        digest=_digest_of(agent, box, records),
        model=facts,
        tools=box,
        # A session below gets the code itself. Only a handed-over session finds it by its record.
        plugins=records if agent.handoff else None,
    )


def _digest_of(agent: Agent, box: Toolbox | None, records: tuple[PluginRecord, ...] | None) -> str:
    tools = None
    if box is not None:
        tools = [
            {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
            for spec in box
        ]
    said: list[Any] = [
        agent.name,
        agent.description,
        agent.system_prompt,
        agent.model,
        tools,
        agent.max_turns,
    ]
    more = [agent.permissions, agent.result, records]
    said += [] if more == [None, None, None] else more  # omitted if unset, as in digests stored earlier
    return hashlib.sha256(msgspec.json.encode(said)).hexdigest()


# --- Tools for working with other agents. The session machine answers them, so their code never runs.

_NAME: Final[dict[str, Any]] = {
    "type": "string",
    "description": "The name of the agent, as spawn_agent gave it.",
}


@frozen(kw_only=True, eq=False)
class AgentTool:
    name: str
    description: str | Callable[[ToolListing], str]
    parameters: JsonObject
    max_depth: int = 1
    answered_by: str = field(default="machine", init=False)

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        message = (
            f"{self.name} is answered by the session {ctx.session_id!r}, not by code; got {dict(arguments)!r}"
        )
        raise ToolContractError(message)


def tools_for_agents(names: tuple[str, ...], max_depth: int) -> tuple[AgentTool, ...]:
    return (
        _tool(
            "spawn_agent",
            partial(_with_agents_named, _SPAWN, names),
            {"agent": {"type": "string", "enum": list(names)}, "task": _TASK, "name": _OWN},
            max_depth,
        ),
        _tool("send_input", _SEND, {"name": _NAME, "text": {"type": "string", "minLength": 1}}, max_depth),
        _tool("wait_agents", _WAIT, _WAIT_PARAMETERS, max_depth),
        _tool(
            "close_agent",
            _CLOSE,
            {"name": _NAME, "reason": {"type": "string"}, "now": {"type": "boolean", "default": False}},
            max_depth,
        ),
    )


def tool_for_handoff(names: tuple[str, ...]) -> AgentTool:
    properties = {"agent": {"type": "string", "enum": list(names)}, "note": _NOTE}
    return _tool(HANDOFF_TOOL, partial(_with_agents_named, _HANDOFF, names), properties, 0)


def _with_agents_named(said: str, names: tuple[str, ...], listing: ToolListing) -> str:
    lines = [f"- {name}: {description}" for name, description in listing.agents if name in names]
    return "\n".join((said, "Values of `agent`:", *lines))


_REQUIRED: Final[dict[str, list[str]]] = {
    "spawn_agent": ["agent", "task"],
    "send_input": ["name", "text"],
    "wait_agents": [],
    "close_agent": ["name"],
    HANDOFF_TOOL: ["agent"],
}


def _tool(
    name: str, description: str | Callable[[ToolListing], str], properties: dict[str, Any], max_depth: int
) -> AgentTool:
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": _REQUIRED[name],
        "additionalProperties": False,
    }
    return AgentTool(name=name, description=description, parameters=parameters, max_depth=max_depth)


_TASK: Final[dict[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "description": "What to do, what to know, and what to answer with; it does not know this conversation.",
}
_NOTE: Final[dict[str, Any]] = {
    "type": "string",
    "maxLength": 4_000,
    "description": "What the other agent should know that is not said in this conversation, which it reads.",
}
_HANDOFF: Final = (
    "Let another agent go on in your place, with this conversation: it has another system prompt, and may have other tools. "
    "Do it last, and once."
)
_OWN: Final[dict[str, Any]] = {
    "type": "string",
    "pattern": "^[A-Za-z0-9_-]{1,64}$",
    "description": "What to call it; without one it is given a name. No name is used twice.",
}
_SPAWN: Final = (
    "Start an agent in the background and go on: it works beside you, until you close it. Gives its name at once; "
    "wait_agents gives its answer."
)
_SEND: Final = "Tell an agent in the background more. One that is at work reads it when it is idle."
_WAIT: Final = "Wait until agents in the background are idle (or closed), and read what they said last. Without names: all that are alive."
_CLOSE: Final = "End an agent in the background: after what it is doing, or now."
_WAIT_PARAMETERS: Final[dict[str, Any]] = {
    "names": {"type": "array", "items": {"type": "string"}},
    "match": {"type": "string", "enum": ["all", "any"], "default": "all"},
    "until": {"type": "string", "enum": ["idle", "closed"], "default": "idle"},
    "timeout_seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 86_400, "default": 600},
}


# Shared: Python creates an empty set of 200 bytes each time.
_NO_TOOLS: Final[frozenset[str]] = frozenset()

LOGGER: Final = Logger("agentrail.runtime")


@frozen(kw_only=True)
class Dependencies:
    resolve_provider: ResolveProvider
    make_sandbox: MakeSandbox
    specs: ToolSpecs
    threads: ToolThreads
    traces: TraceReader = field(factory=TraceReader)
    run_child: RunChild
    host: HostHooks
    run_agent: RunAgent
    resume_child: ResumeChildWork
    outside: Outside = field(factory=current)
    deps_for: DepsFor | None = None
    tallies: PluginTallies = field(factory=PluginTallies)
    desks: StoreDesks | None = None
    instructions: FindInstructions | None = None
    spec_of: SpecOf = field(init=False)  # one bound method for all sessions

    @spec_of.default
    def _spec_of(self) -> SpecOf:
        return self.specs.of


_PORTS_SHARED: Final = tuple(name for name in fields_dict(Dependencies) if name in Ports.__struct_fields__)
_PORTS_GIVEN: Final = ("user_data", "tool_timeout_seconds", "event_buffer_size", "group_id", "scope")


def assemble(
    session_id: SessionId, options: SessionOptions, dependencies: Dependencies
) -> tuple[SessionCell, Workspace]:
    working_dir = _working_dir_of(options.working_dir)
    listing = partial(_listing_of, session_id, options, working_dir)
    # Before the model lookup, so that two tools of one name are reported first.
    tools = _with_agent_tools(options)
    toolbox, names = dependencies.specs.box_of(tools, listing)
    deps = decide_deps(options.deps, session_id, tools, dependencies.deps_for)
    check_deps(options.agents, deps)
    withheld = _withheld_of(options)
    watch = PluginWatch(session_id, options.user_data, dependencies.outside, withheld=withheld)
    stack, plugin_states = load_stack(_without_secrets(options.plugins, withheld), ask=watch)
    model, provider = find_provider(options.model, options.provider_opts, dependencies.resolve_provider)
    provider_opts: dict[str, Mapping[str, Any]] = (
        {model: options.provider_opts} if options.provider_opts else {}
    )
    providers = {model: provider}
    for name in options.fallback_models:
        if name not in providers:
            providers[name] = dependencies.resolve_provider(name, decide_provider_opts(name, provider_opts))
    config = _config_of(session_id, options, (model, provider), providers, working_dir)
    agents = _agents_of(options, listing, dependencies, (providers, provider_opts), stack)
    for name, agent in agents.items():
        for plugin, _ in agent.plugins or ():
            watch.keep(change_of_agent(name, plugin.name), plugin)
    if dependencies.host is not NO_HOST:
        config = replace(config, host_hooks=hooks_of(dependencies.host))
    config = _with_agents(config, options, agents)
    wanted = options.sandbox
    kind, given = (wanted, None) if isinstance(wanted, str) else ("local", wanted)
    workspace = Workspace(dependencies.make_sandbox, kind, working_dir, given=given)
    for one in providers.values():
        withheld.learn_from(one)
    ports = Ports(
        **picked_fields(dependencies, *_PORTS_SHARED),
        **picked_fields(options, *_PORTS_GIVEN),
        session_id=session_id,
        providers=providers,
        tools=tools_of_agents(config.agents, agents)
        | {(name, 0): tool for name, tool in zip(names, tools, strict=True)},
        find_provider=dependencies.resolve_provider,
        workspace=workspace,
        working_dir=working_dir,
        deps=deps,
        own=_own_of(session_id, options, dependencies.desks),
        above=_above_of(options.sandbox, working_dir, dependencies),
        provider_opts=provider_opts,
        context_providers=tuple(options.context_providers),
        agents=agents,
        servers=None if options.mcp is None else tuple(options.mcp),
        withheld=withheld,
    )
    for warning in filter(None, (*stack.warnings, warning_of_unused(agents, toolbox))):
        LOGGER.warning("session %s: %s", session_id, warning)
    known = [withheld.in_value(one) for one in (config, plugin_states, options.messages)]
    state = new_session(known[0], withheld.in_tools(toolbox), stack, known[1], messages=known[2])
    cell = SessionCell(state, ports)
    watch.report_to(cell.mailbox)
    return cell, workspace


def _working_dir_of(given: str | os.PathLike[str]) -> str:
    if given != _USUAL_DIRECTORY:
        return os.path.abspath(given)  # noqa: PTH100 - links are the sandbox's business
    try:
        return os.getcwd()  # noqa: PTH109 - a string
    except FileNotFoundError:
        raise OptionError(["working_dir is '.': there is no such directory"]) from None


_USUAL_DIRECTORY: Final = "."


def _own_of(session_id: SessionId, options: SessionOptions, desks: StoreDesks | None) -> OwnStores:
    """Return the stores of the session's owner, or none if the owner cannot be determined."""
    try:
        return NOTHING_OWN if desks is None else desks.of(session_id, options.scope, options.user_data)
    except OptionError as error:
        # The session can run without them. It then remembers and reads nothing, rather than another user's
        # data.
        LOGGER.warning("session %s has no memories or knowledge: %s", session_id, error)
        return NOTHING_OWN


def _above_of(sandbox: object, working_dir: str, dependencies: Dependencies) -> InstructionsAbove | None:
    """Return the reader of files above the working directory, or None if the files are not local or not the caller's."""
    # A caller's sandbox may be the directory of one user among those of others.
    kind, _, path = ("local" if sandbox is None else sandbox if isinstance(sandbox, str) else "").partition(
        ":"
    )
    if dependencies.instructions is None or kind != "local":
        return None
    return InstructionsAbove(
        find=dependencies.instructions, working_dir=path or working_dir, outside=dependencies.outside
    )


def _listing_of(session_id: SessionId, options: SessionOptions, working_dir: str) -> ToolListing:
    given = None if isinstance(options.sandbox, str) else options.sandbox
    return ToolListing(
        session_id=session_id,
        model=string_of(options.model),
        working_dir=working_dir,
        user_data=options.user_data,
        is_unconfined=given is not None and is_unconfined(given),
        agents=tuple((agent.name, agent.description) for agent in options.agents),
    )


def toolbox_of(options: SessionOptions) -> Toolbox:
    """Return the tools that a session with these options starts with."""
    listing = partial(
        _listing_of, SessionId(options.session_id or ""), options, os.fspath(options.working_dir)
    )
    return ToolSpecs().box_of(_with_agent_tools(options), listing)[0]


def _withheld_of(options: SessionOptions) -> Withheld:
    withheld = Withheld()
    withheld.learn(options.user_data)
    for agent in options.agents:
        withheld.learn(agent.user_data or EMPTY)
    withheld.learn_options(options.provider_opts)
    if options.sandbox is not None and not isinstance(options.sandbox, str):
        withheld.learn_from(options.sandbox)
    return withheld


def _without_secrets(plugins: Sequence[PluginEntry], withheld: Withheld) -> tuple[PluginEntry, ...]:
    """Remove secrets from plugin options: plugins belong to the core, which knows no secrets, and their options are recorded."""
    return tuple(
        [
            (entry[0], withheld.in_value(entry[1]))
            if isinstance(entry, tuple) and len(entry) == 2  # noqa: PLR2004 - a pair
            else entry
            for entry in plugins
        ]
    )


def _with_agents(
    config: SessionConfig, options: SessionOptions, agents: Mapping[str, ReadyAgent]
) -> SessionConfig:
    if not agents:
        return config
    limits = AgentLimits(
        max_depth=options.max_agent_depth,
        max_agents=options.max_agents,
        max_agents_total=options.max_agents_total,
    )
    specs = tuple([one.spec for one in agents.values()])
    return replace(config, agents=specs, agent_limits=limits)


def _with_agent_tools(options: SessionOptions) -> Sequence[Tool]:
    names = tuple([agent.name for agent in options.agents if agent.background])
    others = tuple([agent.name for agent in options.agents if agent.handoff])
    tools = options.tools
    if names:
        tools = (*tools, *tools_for_agents(names, options.max_agent_depth))
    return (*tools, tool_for_handoff(others)) if others else tools


def _agents_of(
    options: SessionOptions,
    listing: MakeListing,
    dependencies: Dependencies,
    known: tuple[dict[str, Provider], Mapping[str, Mapping[str, Any]]],
    stack: Stack,
) -> Mapping[str, ReadyAgent]:
    if not options.agents:
        return NO_READY_AGENTS
    providers, provider_opts = known

    def find(name: str) -> ModelFacts:
        if name not in providers:
            opts = decide_provider_opts(name, provider_opts)
            providers[name] = dependencies.resolve_provider(name, opts)
        return facts_of(name, providers[name])

    return make_ready(options.agents, listing, dependencies.specs, find, stack)


def decide_refusal(state: SessionState, at_ms: int) -> str | None:
    if not state.data.stack.listeners(SessionStarted):
        return None
    watch = state.data.stack.ask
    with watch.rehearsing() if isinstance(watch, PluginWatch) else nullcontext():
        after, _ = step(state, SessionBegan(at_ms=at_ms))
    return after.data.stopping


def decide_first_effects(state: SessionState, first: Signal) -> tuple[Effect, ...]:
    """Return the first effects of a restored session. The step is discarded, and its actor computes it again."""
    watch = state.data.stack.ask
    with watch.rehearsing() if isinstance(watch, PluginWatch) else nullcontext():
        return step(state, first)[1]


def hooks_of(host: HostHooks) -> frozenset[HostHook]:
    hooks: dict[HostHook, object] = {"before_tool": host.before_tool, "after_tool": host.after_tool}
    return frozenset(name for name, hook in hooks.items() if hook is not None)


KEPT_OPTIONS: Final = (
    *("max_turns", "on_max_turns", "compact_at_tokens", "max_output_tokens", "max_prompt_queue"),
    *("max_steering_queue", "max_parallel_tools", "tool_max_retries", "max_retries", "inline_tags"),
    *("budget", "prompt_mode", "group_id", "scope", "wake_on_background_end"),
)
"""Options that the core keeps unchanged."""


def _config_of(
    session_id: SessionId,
    options: SessionOptions,
    first: tuple[str, Provider],
    providers: dict[str, Provider],
    working_dir: str,
) -> SessionConfig:
    wanted = options.response_format
    return SessionConfig(
        **picked_fields(options, *KEPT_OPTIONS),
        session_id=session_id,
        path=(session_id,),
        model=facts_of(*first),
        system_prompt=decide_system_prompt(
            options.system_prompt, options.prompt_mode, base_prompt=options.base_prompt
        ),
        immune_tools=frozenset(map(str.__str__, options.immune_tools)) or _NO_TOOLS,
        approval_timeout_ms=round(options.approval_timeout_seconds * 1000) or None,
        question_timeout_ms=round(options.tool_timeout_seconds * 1000),
        fallbacks=tuple([facts_of(name, providers[name]) for name in options.fallback_models]),
        response_format=None if wanted is None else ResponseFormat(wanted),
        replaced_sections=options.replace_sections,
        working_dir=working_dir,
        user_data=options.user_data and handles_in(options.user_data),
        gathers_context=bool(options.context_providers),
    )
