"""Forks of sessions, and the means to rewind to an earlier record. Called by session handles."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

import attrs
from msgspec.structs import replace

from agentrail.abc import Sandbox, Tool
from agentrail.core.journal.file_changes import FilesBehind
from agentrail.core.journal.fold import asked_by
from agentrail.core.session.cycle import with_tools_of_agents
from agentrail.core.session.fork import config_of_fork, forked_state
from agentrail.core.session.recovery import with_models
from agentrail.core.session.state import SessionConfig, SessionState
from agentrail.core.stack.loaded_stack import PluginStates
from agentrail.core.stack.plugin_code import part_entry
from agentrail.errors import OptionError, SessionRefused, Unrevivable
from agentrail.messages import SessionId
from agentrail.otp.child_specs import Restart
from agentrail.runtime.assembly import assemble, decide_refusal
from agentrail.runtime.file_restore import (
    RestoredFiles,
    copy_files,
    directory_of_fork,
    put_files_back,
    versioned_of,
)
from agentrail.runtime.journal_access import options_of_root
from agentrail.runtime.journal_state import Journal
from agentrail.runtime.journals import Journals
from agentrail.runtime.plugin_watch import PluginWatch
from agentrail.runtime.ports import Ports
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_loader import PluginFinder, stored_of
from agentrail.runtime.session_options import SessionOptions, faults_of_value, make_options
from agentrail.runtime.session_resume import missing_code, models_now, ports_of, take_first_object
from agentrail.runtime.session_sandbox import Workspace
from agentrail.runtime.shared_resources import Shared
from agentrail.runtime.tool_origins import GoneTool, gone_tool

T = TypeVar("T")

_OWN_OF_A_FORK: Final = frozenset({"messages", "scope"})
_CONFIG_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "model": ("model",),
    "fallback_models": ("fallbacks",),
    "base_prompt": ("system_prompt",),
    "prompt_mode": ("system_prompt", "prompt_mode"),
    "approval_timeout_seconds": ("approval_timeout_ms",),
    "tool_timeout_seconds": ("question_timeout_ms",),
    "agents": ("agents", "agent_limits"),
    "tools": ("agents", "agent_limits"),
    "max_agents": ("agent_limits",),
    "max_agents_total": ("agent_limits",),
    "max_agent_depth": ("agent_limits",),
    "context_providers": ("gathers_context",),
}
"""Config fields that an option decides, for options with another field name or several fields."""

_OF_THE_CODE: Final = ("gathers_context", "host_hooks")
_FIELDS: Final = frozenset(SessionConfig.__struct_fields__) - {"session_id", "path"}


@attrs.frozen(eq=False)
class Forks:
    _shared: Shared
    _journals: Journals
    _check_free: Callable[[str, SessionId], None] = attrs.field(kw_only=True)
    _begin: Callable[[SessionCell, Workspace, Restart], object] = attrs.field(kw_only=True)

    async def look_back(self, cell: SessionCell, read: Callable[[Journal], T]) -> T:
        return await self._journals.look_back(cell, read)

    async def restore_files(self, cell: SessionCell, number: int, *, force: bool) -> RestoredFiles:
        keeping, sandbox = self._shared.store_of("rewind"), versioned_of(cell, "rewind")
        behind = await self.look_back(cell, lambda journal: journal.files_behind(number))
        return await put_files_back(cell, sandbox, behind, keeping.store.blob, force=force)

    async def begin_fork(
        self,
        cell: SessionCell,
        at: int | None,
        turn: int | None,
        given: Mapping[str, Any],
        *,
        files: bool = False,
    ) -> SessionCell:
        keeping = self._shared.store_of("fork")
        known = options_of_root(cell, "fork")
        scope = cell.ports.scope
        wanted = given.get("session_id")
        wanted = f"s-{self._shared.dependencies.outside.ids(6)}" if wanted is None else wanted
        OptionError.raise_for(faults_of_value("session_id", wanted))
        if not files:
            return await self._fork_cell(cell, known, at, turn, {**given, "session_id": wanted})
        sandbox = versioned_of(cell, "fork")
        directory = directory_of_fork(given, known, cell.ports.working_dir, wanted)
        elsewhere = {name: value for name, value in given.items() if name != "working_dir"}
        _options_of_fork(known, SessionId(wanted), elsewhere)  # checked before anything is copied
        self._check_free(scope, SessionId(wanted))

        def look(journal: Journal) -> tuple[int, FilesBehind]:
            number = journal.number_of(at, turn)
            return number, journal.files_behind(number)

        number, behind = await self.look_back(cell, look)
        copied = await copy_files(sandbox, directory, behind, keeping.store.blob, wanted)
        fork: SessionCell | None = None
        try:
            place = await copied.place_for(known.sandbox)
            given = {**given, "session_id": wanted, "working_dir": directory, "sandbox": place}
            fork = await self._fork_cell(cell, known, number, None, given, own=copied.sandbox)
        finally:
            if fork is None:
                await copied.remove()  # noqa: ASYNC102 - shielded inside
        return fork

    async def _fork_cell(  # noqa: PLR0913 - the source, its state, and the options
        self,
        cell: SessionCell,
        known: SessionOptions,
        at: int | None,
        turn: int | None,
        given: Mapping[str, Any],
        *,
        own: Sandbox | None = None,
    ) -> SessionCell:
        keeping, parent, scope = self._shared.store_of("fork"), cell.ports.session_id, cell.ports.scope
        wanted = given["session_id"]
        options = _options_of_fork(known, SessionId(wanted), given)
        session_id = SessionId(options.session_id or "")
        self._check_free(scope, session_id)
        fresh, workspace = assemble(session_id, options, self._shared.dependencies)
        if own is not None and options.sandbox is own:
            workspace.take(own)
        watch = fresh.state.data.stack.ask
        assert isinstance(watch, PluginWatch)  # noqa: S101 - created by `assemble`
        plugins = [*(part_entry(entry, watch)[0] for entry in options.plugins), *cell.plugins]
        finder = PluginFinder({plugin.name: plugin for plugin in plugins})
        watch.find_others(finder)
        quiet = watch.quiet()
        at_ms = now_ms()

        def work() -> tuple[int, SessionState]:
            stored = stored_of(keeping.store, scope, parent)
            journal = Journal(keeping.store, stored, finder, quiet)
            number = journal.number_of(at, turn)
            return number, _state_of_fork(journal.state_behind(number), fresh.state, given, at_ms)

        number, state = await keeping.fold(work)
        state = _without_absent(asked_by(state, watch), cell.ports.tools)
        ports = _ports_of_fork(state, fresh.ports, cell.ports)
        model, config = with_models(state.data, models_now(state.data, ports.providers))
        changed = replace(state.data, model=model, config=config)
        fork = SessionCell(replace(state, data=changed), ports)
        watch.report_to(fork.mailbox)
        refused = decide_refusal(state, now_ms())
        if refused is not None:
            raise SessionRefused(session_id, refused)
        async with self._shared.beginnings.hold(fork.ports.key):
            self._check_free(scope, session_id)
            await self._shared.begin_journal(fork, forked_from=(parent, number))
            fork.options = options
            self._begin(fork, workspace, options.restart)
        return fork

    def make_ready(self, cell: SessionCell, then: SessionState) -> None:
        _take_code(then, cell)


def _options_of_fork(
    known: SessionOptions, session_id: SessionId, given: Mapping[str, Any]
) -> SessionOptions:
    refused = sorted(_OWN_OF_A_FORK & given.keys())
    if refused:
        fault = f"{', '.join(refused)}: a fork inherits this from its parent; start_session starts a new session with its own messages"
        raise OptionError([fault])
    as_before = {one.name: getattr(known, one.name) for one in attrs.fields(SessionOptions)}
    return make_options({**as_before, **given, "messages": (), "session_id": session_id})


def _state_of_fork(
    then: SessionState, fresh: SessionState, given: Mapping[str, Any], at_ms: int
) -> SessionState:
    chosen = [name for option in given for name in _CONFIG_OF.get(option, (option,))]
    now = fresh.data.config
    boxes = {agent.name: agent.tools for agent in now.agents}
    config = replace(
        config_of_fork(with_tools_of_agents(then.data.config, boxes), now.session_id),
        **{name: getattr(now, name) for name in dict.fromkeys((*_OF_THE_CODE, *chosen)) if name in _FIELDS},
    )
    fork = forked_state(then, config, at_ms)
    changed: dict[str, Any] = {"model": now.model} if "model" in given else {}
    if "tools" in given or "agents" in given:
        changed["tools"] = fresh.data.tools
    if "plugins" in given:
        changed |= {"stack": fresh.data.stack, "plugin_states": _states_kept(fork, fresh)}
    return replace(fork, data=replace(fork.data, **changed))


def _take_code(state: SessionState, cell: SessionCell) -> None:
    """Give a live session the code of an earlier state. A tool released since then is looked up by its name."""
    ports, tools = cell.ports, state.data.tools
    given = [] if cell.options is None else cell.options.tools
    by_name = {name: tool for (name, _), tool in ports.tools.items()} | {tool.name: tool for tool in given}
    known = replace(ports, tools={**{(name, 0): tool for name, tool in by_name.items()}, **ports.tools})
    missing = missing_code(state, known)
    if missing:
        raise Unrevivable(state.data.config.session_id, missing=missing)
    take_first_object(state.data.model.model, ports.providers)
    for spec in tools:
        tool = by_name.get(spec.name) or gone_tool(spec, ports.from_sources)
        ports.tools.setdefault((spec.name, tools.generation_of(spec.name)), tool)


def _without_absent(state: SessionState, known: Mapping[tuple[str, int], Tool]) -> SessionState:
    """Leave out the tools of sources that are not there. A source attaches them to the fork when it is."""
    box = state.data.tools
    absent = [
        spec.name
        for spec in box
        if spec.shown_text
        and isinstance(known.get((spec.name, box.generation_of(spec.name))), GoneTool | None)
    ]
    left = box.changed((), absent, box.generation, replace=False) if absent else box
    return replace(state, data=replace(state.data, tools=left))


def _states_kept(fork: SessionState, fresh: SessionState) -> PluginStates:
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


def _ports_of_fork(state: SessionState, fresh: Ports, live: Ports) -> Ports:
    own = replace(
        fresh,
        tools={**live.tools, **fresh.tools},
        providers={**live.providers, **fresh.providers},
        provider_opts={**live.provider_opts, **fresh.provider_opts},
    )
    missing = missing_code(state, own)
    if missing:
        raise Unrevivable(state.data.config.session_id, missing=missing)
    return ports_of(state, own, {})
