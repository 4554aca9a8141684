"""How a session goes on from an earlier record of another: what a fork is started with. Plain functions, and no loop.

A fork is a session like any other: its journal begins with all that it goes on with, so no other journal is needed to read it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs
import msgspec

from agentrail.core.session.branching import config_of_fork, forked_state
from agentrail.core.session.state import SessionConfig, SessionState
from agentrail.core.stack.loading import Ask, PluginStates
from agentrail.core.stack.plugin_code import part_entry
from agentrail.errors import OptionError, Unrevivable
from agentrail.messages import SessionId
from agentrail.runtime.options import SessionOptions, make_options
from agentrail.runtime.ports import Ports
from agentrail.runtime.resuming import missing_code, ports_of
from agentrail.runtime.reviving import PluginFinder
from agentrail.runtime.session import SessionCell

_OWN_OF_A_FORK: Final = frozenset({"messages", "scope"})
_CONFIG_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "model": ("model",),
    "fallback_models": ("fallbacks",),
    "base_prompt": ("system_prompt",),
    "prompt_mode": ("system_prompt", "prompt_mode"),
    "approval_timeout_seconds": ("approval_timeout_ms",),
    "tool_timeout_seconds": ("question_timeout_ms",),
    "agents": ("agents", "agent_limits"),
    "max_agents": ("agent_limits",),
    "max_agents_total": ("agent_limits",),
    "max_agent_depth": ("agent_limits",),
    "context_providers": ("gathers_context",),
}
"""Which fields an option decides that has another name there, or more than one."""

_FIELDS: Final = frozenset(SessionConfig.__struct_fields__) - {"session_id", "path"}


def options_of_fork(known: SessionOptions, session_id: SessionId, given: Mapping[str, Any]) -> SessionOptions:
    """Say what a fork is started with: as its parent was, but for what is wanted else.

    Raises:
        OptionError: Your move: options that cannot be, or that a fork has from its parent.
    """
    refused = sorted(_OWN_OF_A_FORK & given.keys())
    if refused:
        fault = f"{', '.join(refused)}: a fork has that of its parent; start_session begins anew, with messages of its own"
        raise OptionError([fault])
    as_before = {one.name: getattr(known, one.name) for one in attrs.fields(SessionOptions)}
    return make_options({**as_before, **given, "messages": (), "session_id": session_id})


def finder_for(cell: SessionCell, options: SessionOptions, ask: Ask) -> PluginFinder:
    """Find the code of plugins as the session has it, else as it was given, else where it was defined."""
    given = [part_entry(entry, ask)[0] for entry in options.plugins]
    return PluginFinder({plugin.name: plugin for plugin in (*given, *cell.plugins)})


def state_of_fork(
    then: SessionState, fresh: SessionState, given: Mapping[str, Any], at_ms: int
) -> SessionState:
    """Give what a fork begins with.

    Args:
        then: What its parent was behind the record.
        fresh: What a session would be that was started with its options.
        given: What is wanted otherwise than the parent has it, by option.
        at_ms: Now.
    """
    wanted = dict.fromkeys(name for option in given for name in _CONFIG_OF.get(option, (option,)))
    config = msgspec.structs.replace(
        config_of_fork(then.data.config, fresh.data.config.session_id),
        **{name: getattr(fresh.data.config, name) for name in wanted if name in _FIELDS},
    )
    fork = forked_state(then, config, at_ms)
    changed: dict[str, Any] = {}
    if "model" in given:
        changed["model"] = config.model
    if "tools" in given or "agents" in given:
        changed["tools"] = fresh.data.tools
    if "plugins" in given:
        changed |= {"stack": fresh.data.stack, "plugin_states": _states_kept(fork, fresh)}
    return msgspec.structs.replace(fork, data=msgspec.structs.replace(fork.data, **changed))


def take_code(state: SessionState, cell: SessionCell) -> None:
    """Let a live session have what an earlier state of it needs: a tool that was let go of since is taken by its name.

    Raises:
        Unrevivable: Your move: code that it had then is not there any more. Nothing was changed.
    """
    ports, tools = cell.ports, state.data.tools
    given = [] if cell.options is None else cell.options.tools
    by_name = {name: tool for (name, _), tool in ports.tools.items()} | {tool.name: tool for tool in given}
    known = attrs.evolve(ports, tools={**{(name, 0): tool for name, tool in by_name.items()}, **ports.tools})
    missing = missing_code(state, known)
    if missing:
        raise Unrevivable(state.data.config.session_id, missing=missing)
    for spec in tools:
        ports.tools.setdefault((spec.name, tools.generation_of(spec.name)), by_name[spec.name])


def _states_kept(fork: SessionState, fresh: SessionState) -> PluginStates:
    """Let a plugin that is given again know what it knew, where it is of the same version."""
    known = {
        member.name: (member.version, fork.data.plugin_states[member.name])
        for member in fork.data.stack.members
    }
    kept = {
        member.name: known[member.name][1]
        for member in fresh.data.stack.members
        if member.name in known and known[member.name][0] == member.version
    }
    return MappingProxyType({**fresh.data.plugin_states, **kept})


def ports_of_fork(state: SessionState, fresh: Ports, live: Ports) -> Ports:
    """Give a fork what it works with: what it was given, and what its parent has by now.

    Raises:
        Unrevivable: Your move: code that it needs is not there any more.
    """
    own = attrs.evolve(
        fresh,
        tools={**live.tools, **fresh.tools},
        providers={**live.providers, **fresh.providers},
        provider_opts={**live.provider_opts, **fresh.provider_opts},
    )
    ports = ports_of(state, own)
    missing = missing_code(state, ports)
    if missing:
        raise Unrevivable(state.data.config.session_id, missing=missing)
    return ports
