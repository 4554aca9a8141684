"""From options to a session that has not begun: tools, plugins, models and a place for its files are looked up here."""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final

import msgspec
from attrs import field, frozen

from agentrail.abc import NO_HOST, FindInstructions, HostHooks, Provider, ResolveProvider, Tool, ToolListing
from agentrail.core.policy.response_format import ResponseFormat
from agentrail.core.protocol.effects import Effect
from agentrail.core.protocol.hooks import SessionStarted
from agentrail.core.protocol.request import ModelFacts
from agentrail.core.protocol.signals import SessionBegan, Signal
from agentrail.core.session.agent_state import AgentLimits
from agentrail.core.session.machine import new_session, step
from agentrail.core.session.state import HostHook, SessionConfig, SessionState
from agentrail.core.stack.loading import PluginEntry, Stack, load_stack
from agentrail.errors import OptionError
from agentrail.frozen import EMPTY
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.outside import Outside, current
from agentrail.runtime.above import InstructionsAbove
from agentrail.runtime.agent_tools import tool_for_handoff, tools_for_agents
from agentrail.runtime.agents import (
    check_deps,
    keep_plugins,
    make_ready,
    tools_of_agents,
    warning_of_unused,
)
from agentrail.runtime.base_prompt import decide_system_prompt
from agentrail.runtime.deps import DepsFor, decide_deps
from agentrail.runtime.hook_times import PluginTallies
from agentrail.runtime.models import decide_provider_opts, facts_of, find_provider, string_of
from agentrail.runtime.own_stores import NOTHING_OWN, OwnStores, StoreDesks
from agentrail.runtime.plugin_watch import PluginWatch
from agentrail.runtime.ports import NO_READY_AGENTS, Ports, ReadyAgent, ResumeChildWork, RunAgent, RunChild
from agentrail.runtime.session import SessionCell
from agentrail.runtime.session_options import SessionOptions
from agentrail.runtime.tool_specs import SpecOf, ToolSpecs
from agentrail.runtime.tool_threads import ToolThreads
from agentrail.runtime.withheld import Withheld, handles_in
from agentrail.runtime.workspace import MakeSandbox, Workspace, is_unconfined

# One for all: Python makes an empty one of 200 bytes each time.
_NO_TOOLS: Final[frozenset[str]] = frozenset()

LOGGER: Final = Logger("agentrail.runtime")


@frozen(kw_only=True)
class Dependencies:
    """What a supervisor has for all its sessions.

    Attributes:
        resolve_provider: Turns a model string into a provider.
        make_sandbox: Makes the place where the files of a session are, when the first tool wants one.
        specs: What tools say of themselves.
        threads: Where tools that are plain functions run.
        run_child: Lets a session of its own work for a call, or for a tool that runs.
        run_agent: Lets an agent work in the background.
        resume_child: Lets a session that came back from its journal go on for a call.
        outside: The machine, or what stood for it where the supervisor was opened.
        host: What is asked about calls, and told of them.
        deps_for: Gives what the tools of a session work with that was started without; None for nothing.
        tallies: Where calls of session plugins are counted.
        desks: Where sessions remember, and look things up; None for nowhere.
        instructions: Gives what reads the files for agents above a working directory; None where none of them is read.
    """

    resolve_provider: ResolveProvider
    make_sandbox: MakeSandbox
    specs: ToolSpecs
    threads: ToolThreads
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


def assemble(
    session_id: SessionId, options: SessionOptions, dependencies: Dependencies
) -> tuple[SessionCell, Workspace]:
    """Make a session of its options. Nothing runs yet, and nothing is connected.

    Args:
        session_id: Its name.
        options: What it was started with.
        dependencies: What its supervisor has for it.

    Returns:
        The session, and the place to close when it is gone.

    Raises:
        ToolDefinitionError, PluginError, ModelNotFound, Authentication, OptionError: Your move; as of `start_session`.
    """
    working_dir = os.path.abspath(options.working_dir)  # noqa: PTH100 - links are the sandbox's business
    listing = _listing_of(session_id, options, working_dir)
    # Before the model is looked for: two tools of one name are found first.
    tools = _with_agent_tools(options)
    toolbox, names = dependencies.specs.box_of(tools, listing)
    deps = decide_deps(options.deps, session_id, tools, dependencies.deps_for)
    check_deps(options.agents, deps)
    withheld = _withheld_of(options)
    watch = PluginWatch(session_id, options.user_data, dependencies.outside, withheld=withheld)
    stack, plugin_states = load_stack(_without_secrets(options.plugins, withheld), ask=watch)
    model, provider = find_provider(options.model, options.provider_opts, dependencies.resolve_provider)
    provider_opts: dict[str, Mapping[str, Any]] = {model: options.provider_opts}
    providers = _providers_of({model: provider}, provider_opts, options, dependencies)
    config = _config_of(session_id, options, (model, provider), providers, working_dir)
    agents = _agents_of(options, listing, dependencies, (providers, provider_opts), stack)
    keep_plugins(agents, watch)
    config = _with_agents(_with_host(config, dependencies.host), options, agents)
    workspace = _workspace_of(options, working_dir, dependencies)
    for one in providers.values():
        withheld.learn_from(one)
    ports = Ports(
        session_id=session_id,
        providers=providers,
        tools=tools_of_agents(agents) | {(name, 0): tool for name, tool in zip(names, tools, strict=True)},
        find_provider=dependencies.resolve_provider,
        spec_of=dependencies.spec_of,
        run_child=dependencies.run_child,
        run_agent=dependencies.run_agent,
        resume_child=dependencies.resume_child,
        workspace=workspace,
        working_dir=working_dir,
        user_data=options.user_data,
        deps=deps,
        own=_own_of(session_id, options, dependencies.desks),
        above=_above_of(options.sandbox, working_dir, dependencies),
        provider_opts=provider_opts,
        tool_timeout_seconds=options.tool_timeout_seconds,
        event_buffer_size=options.event_buffer_size,
        group_id=options.group_id,
        scope=options.scope,
        threads=dependencies.threads,
        context_providers=tuple(options.context_providers),
        outside=dependencies.outside,
        agents=agents,
        host=dependencies.host,
        withheld=withheld,
    )
    _tell_warnings(session_id, (*stack.warnings, warning_of_unused(agents, toolbox)))
    known = [withheld.in_value(one) for one in (config, plugin_states, options.messages)]
    state = new_session(known[0], withheld.in_tools(toolbox), stack, known[1], messages=known[2])
    cell = SessionCell(state, ports)
    watch.report_to(cell.mailbox)
    return cell, workspace


def _own_of(session_id: SessionId, options: SessionOptions, desks: StoreDesks | None) -> OwnStores:
    """Give a session what its owner has; nothing where it cannot be said who that is."""
    try:
        return NOTHING_OWN if desks is None else desks.of(session_id, options.scope, options.user_data)
    except OptionError as error:
        # The session can do without: it remembers and reads nothing, rather than what is another user's.
        LOGGER.warning("session %s has no memories and no knowledge: %s", session_id, error)
        return NOTHING_OWN


def _above_of(sandbox: object, working_dir: str, dependencies: Dependencies) -> InstructionsAbove | None:
    """Say what sees the files above the working directory; nothing does where the files are not those of this machine, or the caller's."""
    # A sandbox that was brought may be the place of one user among those of others.
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


def _withheld_of(options: SessionOptions) -> Withheld:
    """Say which secrets a session knows from its start; those of its providers come when these are found."""
    withheld = Withheld()
    withheld.learn(options.user_data)
    for agent in options.agents:
        withheld.learn(agent.user_data or EMPTY)
    withheld.learn_options(options.provider_opts)
    if options.sandbox is not None and not isinstance(options.sandbox, str):
        withheld.learn_from(options.sandbox)
    return withheld


def _without_secrets(plugins: Sequence[PluginEntry], withheld: Withheld) -> tuple[PluginEntry, ...]:
    """Give plugins options without secrets: they are in the core, which knows none, and what they were given is written down."""
    if withheld.known is None:
        return tuple(plugins)
    return tuple(
        [
            (entry[0], withheld.in_value(entry[1]))
            if isinstance(entry, tuple) and len(entry) == _PAIR
            else entry
            for entry in plugins
        ]
    )


_PAIR: Final = 2


def _providers_of(
    providers: dict[str, Provider],
    provider_opts: Mapping[str, Mapping[str, Any]],
    options: SessionOptions,
    dependencies: Dependencies,
) -> dict[str, Provider]:
    """Find those of the models that may stand in for the first one."""
    for name in options.fallback_models:
        if name not in providers:
            providers[name] = dependencies.resolve_provider(name, decide_provider_opts(name, provider_opts))
    return providers


def _workspace_of(options: SessionOptions, working_dir: str, dependencies: Dependencies) -> Workspace:
    wanted = options.sandbox
    if isinstance(wanted, str):
        return Workspace(dependencies.make_sandbox, wanted, working_dir, given=None)
    return Workspace(dependencies.make_sandbox, "local", working_dir, given=wanted)


def _tell_warnings(session_id: SessionId, warnings: Iterable[str | None]) -> None:
    for warning in filter(None, warnings):
        LOGGER.warning("session %s: %s", session_id, warning)


def _with_host(config: SessionConfig, host: HostHooks) -> SessionConfig:
    return config if host is NO_HOST else msgspec.structs.replace(config, host_hooks=_hooks_of(host))


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
    return msgspec.structs.replace(config, agents=specs, agent_limits=limits)


def _with_agent_tools(options: SessionOptions) -> Sequence[Tool]:
    """Add the tools for agents in the background, and for handing the session over, where there are such agents."""
    names = tuple([agent.name for agent in options.agents if agent.background])
    others = tuple([agent.name for agent in options.agents if agent.handoff])
    tools = options.tools
    if names:
        tools = (*tools, *tools_for_agents(names, options.max_agent_depth))
    return (*tools, tool_for_handoff(others)) if others else tools


def _agents_of(
    options: SessionOptions,
    listing: ToolListing,
    dependencies: Dependencies,
    known: tuple[dict[str, Provider], Mapping[str, Mapping[str, Any]]],
    stack: Stack,
) -> Mapping[str, ReadyAgent]:
    """Find all that the agents of a session name; their models are kept with its own."""
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
    """Say why plugins will not let a session begin; None when they will.

    The first step is taken to see, and thrown away: it is a function, so the actor takes the same one again. To carry its
    effects out here would publish before anybody can subscribe.
    """
    if not state.data.stack.listeners(SessionStarted):
        return None
    watch = state.data.stack.ask
    with watch.rehearsing() if isinstance(watch, PluginWatch) else nullcontext():
        after, _ = step(state, SessionBegan(at_ms=at_ms))
    return after.data.stopping


def decide_first_effects(state: SessionState, first: Signal) -> tuple[Effect, ...]:
    """Say what a session that comes back asks for first. The step is taken to see, and thrown away: its actor takes the same one."""
    watch = state.data.stack.ask
    with watch.rehearsing() if isinstance(watch, PluginWatch) else nullcontext():
        return step(state, first)[1]


def _hooks_of(host: HostHooks) -> frozenset[HostHook]:
    hooks: dict[HostHook, object] = {"before_tool": host.before_tool, "after_tool": host.after_tool}
    return frozenset(name for name, hook in hooks.items() if hook is not None)


def _config_of(
    session_id: SessionId,
    options: SessionOptions,
    first: tuple[str, Provider],
    providers: dict[str, Provider],
    working_dir: str,
) -> SessionConfig:
    wanted = options.response_format
    return SessionConfig(
        session_id=session_id,
        path=(session_id,),
        model=facts_of(*first),
        system_prompt=decide_system_prompt(
            options.system_prompt, options.prompt_mode, base_prompt=options.base_prompt
        ),
        max_turns=options.max_turns,
        on_max_turns=options.on_max_turns,
        compact_at_tokens=options.compact_at_tokens,
        max_output_tokens=options.max_output_tokens,
        max_prompt_queue=options.max_prompt_queue,
        max_steering_queue=options.max_steering_queue,
        max_parallel_tools=options.max_parallel_tools,
        immune_tools=frozenset(options.immune_tools) or _NO_TOOLS,
        tool_max_retries=options.tool_max_retries,
        approval_timeout_ms=round(options.approval_timeout_seconds * 1000) or None,
        question_timeout_ms=round(options.tool_timeout_seconds * 1000),
        fallbacks=tuple(facts_of(name, providers[name]) for name in options.fallback_models),
        max_retries=options.max_retries,
        inline_tags=options.inline_tags,
        budget=options.budget,
        response_format=None if wanted is None else ResponseFormat(wanted),
        prompt_mode=options.prompt_mode,
        replaced_sections=options.replace_sections,
        working_dir=working_dir,
        user_data=options.user_data and handles_in(options.user_data),
        group_id=options.group_id,
        scope=options.scope,
        gathers_context=bool(options.context_providers),
        wake_on_background_end=options.wake_on_background_end,
    )
