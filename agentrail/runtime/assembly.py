"""From options to a session that has not begun: tools, plugins, models and a place for its files are looked up here."""

import logging
import os
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Final

from attrs import frozen

from agentrail.abc import Provider, ResolveProvider, ToolListing
from agentrail.core.policy.response_format import ResponseFormat
from agentrail.core.protocol.hooks import SessionStarted
from agentrail.core.protocol.signals import SessionBegan
from agentrail.core.session.machine import new_session, step
from agentrail.core.session.state import SessionConfig, SessionState
from agentrail.core.stack.loading import load_stack
from agentrail.messages import SessionId
from agentrail.runtime.models import decide_provider_opts, facts_of, find_provider, string_of
from agentrail.runtime.options import SessionOptions
from agentrail.runtime.plugin_watch import PluginWatch
from agentrail.runtime.ports import Ports, RunChild
from agentrail.runtime.session import SessionCell
from agentrail.runtime.tool_specs import ToolSpecs
from agentrail.runtime.tool_threads import ToolThreads
from agentrail.runtime.workspace import MakeSandbox, Workspace, is_unconfined

# One for all: Python makes an empty one of 200 bytes each time.
_NO_TOOLS: Final[frozenset[str]] = frozenset()

LOGGER: Final = logging.getLogger("agentrail.runtime")


@frozen(kw_only=True)
class Dependencies:
    """What a supervisor has for all its sessions.

    Attributes:
        resolve_provider: Turns a model string into a provider.
        make_sandbox: Makes the place where the files of a session are, when the first tool wants one.
        specs: What tools say of themselves.
        threads: Where tools that are plain functions run.
        run_child: Lets a session of its own work for a call, or for a tool that runs.
    """

    resolve_provider: ResolveProvider
    make_sandbox: MakeSandbox
    specs: ToolSpecs
    threads: ToolThreads
    run_child: RunChild


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
    given = None if isinstance(options.sandbox, str) else options.sandbox
    listing = ToolListing(
        session_id=session_id,
        model=string_of(options.model),
        working_dir=working_dir,
        user_data=options.user_data,
        is_unconfined=given is not None and is_unconfined(given),
    )
    # Before the model is looked for: two tools of one name are found first.
    toolbox, names = dependencies.specs.box_of(options.tools, listing)
    watch = PluginWatch(session_id, options.user_data)
    stack, plugin_states = load_stack(tuple(options.plugins), ask=watch)
    model, provider = find_provider(options.model, options.provider_opts, dependencies.resolve_provider)
    providers = {model: provider}
    provider_opts: dict[str, Mapping[str, Any]] = {model: options.provider_opts}
    for name in options.fallback_models:
        if name not in providers:
            providers[name] = dependencies.resolve_provider(name, decide_provider_opts(name, provider_opts))
    config = _config_of(session_id, options, (model, provider), providers, working_dir)
    named = options.sandbox if isinstance(options.sandbox, str) else "local"
    workspace = Workspace(dependencies.make_sandbox, named, working_dir, given=given)
    ports = Ports(
        session_id=session_id,
        providers=providers,
        tools={(name, 0): tool for name, tool in zip(names, options.tools, strict=True)},
        find_provider=dependencies.resolve_provider,
        spec_of=dependencies.specs.of,
        run_child=dependencies.run_child,
        open_sandbox=workspace.open,
        is_unconfined=workspace.is_unconfined,
        working_dir=working_dir,
        user_data=options.user_data,
        provider_opts=provider_opts,
        tool_timeout_seconds=options.tool_timeout_seconds,
        event_buffer_size=options.event_buffer_size,
        group_id=options.group_id,
        threads=dependencies.threads,
    )
    for warning in stack.warnings:
        LOGGER.warning("session %s: %s", session_id, warning)
    cell = SessionCell(new_session(config, toolbox, stack, plugin_states, messages=options.messages), ports)
    watch.report_to(cell.mailbox.put_notice)
    return cell, workspace


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
        system_prompt=options.system_prompt,
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
        working_dir=working_dir,
        user_data=options.user_data,
        group_id=options.group_id,
    )
