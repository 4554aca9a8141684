"""The part of a handle that changes a running session: its model, tools and plugins."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, cast

import msgspec
import trio

from agentrail.abc import Provider, Tool, ToolListing
from agentrail.actors.carried_work import carry_through
from agentrail.core.protocol.signals import (
    Asked,
    ChangeModel,
    ChangePlugins,
    ChangeTools,
    ToolSourceReported,
    UpdatePluginOpts,
)
from agentrail.core.session.receipts import ToolsReceipt
from agentrail.core.session.views import model_of
from agentrail.core.stack.inherited_stack import narrowing_of
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.core.stack.plugin_code import part_entry
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.errors import PluginError
from agentrail.events import ToolSourceState
from agentrail.frozen import not_json
from agentrail.messages import JsonObject
from agentrail.otp.guarded_calls import call_guarded
from agentrail.runtime.arguments import fault_of, faults_of_names, faults_of_source, faults_of_tools, refuse
from agentrail.runtime.model_lookup import decide_switch, facts_of
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_loader import fault_of_origin
from agentrail.runtime.session_options import faults_of_texts
from agentrail.runtime.session_queries import AskingHandle, change_below
from agentrail.runtime.tool_origins import GoneTool, fault_of_bare, source_origin, tool_origin


class ChangingHandle(AskingHandle):
    """A handle that changes its session."""

    __slots__ = ()

    async def _do_switch_model(self, model: str | Provider, provider_opts: Mapping[str, Any] | None) -> None:
        cell = self._cell
        await cell.awake()
        choice = decide_switch(model, provider_opts, cell.state.data.model.model, cell.ports)
        signal = ChangeModel(
            at_ms=now_ms(),
            signal_id=cell.pending_calls.mint(),
            model=facts_of(choice.name, choice.provider),
            opts_changed=choice.opts_changed,
            described=_describe_for(cell, choice.name),
        )
        hold, forget = partial(cell.add_model, choice), partial(cell.forget_models, choice.name)
        await cell.pending_calls.ask_through(signal, cell.send, hold, forget)

    async def attach_tools(self, *tools: Tool) -> ToolsReceipt:
        """Add tools for the model, all at once. A tool replaces an existing one of the same name.

        Running calls keep the tools they started with.

        Args:
            *tools: Tools that the model can call from now on.

        Returns:
            The names of all tools after the change.

        Raises:
            OptionError: Your move: an argument is not a tool, for example a list of tools. Or the session is kept in a
                store, and another process could not find the tool again. Expected a name in a module, or a class
                created without arguments. Nothing was attached.
            ToolDefinitionError: Your move: a schema is invalid, or two tools have the same name. Nothing was attached.
            SessionDown: The session has ended.

        Cancellation: The change remains in effect.
        """
        return await self._change_tools(tools, (), replace=False)

    async def detach_tools(self, *names: str) -> ToolsReceipt:
        """Remove tools, all at once. Running calls keep theirs.

        Args:
            *names: Names of the tools. Unknown names are listed in the receipt and are not an error.

        Raises:
            OptionError: Your move: an argument is not a name, for example a list of names. Nothing was detached.
            SessionDown: The session has ended.

        Cancellation: The change remains in effect.
        """
        refuse(*faults_of_names(names))
        return await self._change_tools((), names, replace=False)

    async def replace_tools(self, *tools: Tool) -> ToolsReceipt:
        """Replace all tools of the model by these, all at once.

        Args, Returns, Raises, Cancellation: See `attach_tools`.
        """
        return await self._change_tools(tools, (), replace=True)

    async def report_tool_source(
        self, source: str, state: ToolSourceState, *, reason: str | None = None
    ) -> None:
        """Publish the status of a source of tools: a server, a process, or a plugin system.

        It changes no tools. Each call publishes an event, so call it once per change of state.

        Args:
            source: Name of the source, 1 to 200 characters, the same in all its reports.
            state: `connecting`, `ready`, `restarting`, `parked`, `needs_login`, `changed` or `closed`.
            reason: Human-readable cause, at most 1,000 characters. It is published, so it must not contain keys.

        Raises:
            OptionError: Your move: the name or the state is invalid, or the reason is not text or too long.
            MailboxFull: Your move: the session has not caught up with earlier messages. Try again later.
            SessionDown: The session has ended.

        Cancellation: The event is still published.
        """
        refuse(*faults_of_source(source, state, reason))
        signal_id = self._cell.pending_calls.mint()
        await self._ask(
            ToolSourceReported(at_ms=now_ms(), signal_id=signal_id, source=source, state=state, reason=reason)
        )

    async def update_plugin_opts(self, plugin: str, **options: Any) -> None:
        """Change options of a plugin: immediately if idle, otherwise when the session is idle again.

        `deny` and `ask` rules for permissions apply to the sessions below immediately, before their next call.

        The last waiting value of a field wins. `PluginOptsUpdated` reports the outcome.

        Args:
            plugin: Name of the plugin.
            **options: The options to change.

        Raises:
            PluginError: Your move: there is no plugin of this name.
            OptionError: Your move: a name is not text, or an option is a text in place of a list.
            SessionDown: The session has ended.

        Cancellation: Always a checkpoint for cancellation. After that, the update takes effect in all these sessions.
        """
        refuse(fault_of("plugin", plugin, str), not_json(options, "options"))
        signal = UpdatePluginOpts(
            at_ms=now_ms(), signal_id=self._cell.pending_calls.mint(), plugin=plugin, options=options
        )
        await trio.lowlevel.checkpoint_if_cancelled()
        await carry_through(partial(_update_everywhere, self._cell, signal))

    async def attach_plugin(self, plugin: PluginEntry) -> None:
        """Add a plugin to the stack, between two cycles. It is called after the other plugins of its priority.

        Args:
            plugin: A class, an instance, or one of them with its options.

        Raises:
            PluginError: Your move: it cannot be loaded, its name is taken, or a cycle waits for a user.
            OptionError: Your move: the session is kept in a store, and another process could not import the plugin, or an
                option is a text in place of a list.
            CallingSelf: Your move: a tool of this session made the call, and the cycle waits for that tool.
            SessionDown: The session has ended.

        Cancellation: The change remains in effect. Waits for the end of the running cycle.
        """
        await _change_plugins(self._cell, "attach", entry=plugin)

    async def detach_plugin(self, name: str) -> None:
        """Remove a plugin and its state from the stack, between two cycles.

        Raises:
            PluginError: Your move: there is no plugin of this name, or a cycle waits for a user.
            OptionError: Your move: the name is not text.
            CallingSelf: See `attach_plugin`.
            SessionDown: The session has ended.

        Cancellation: The change remains in effect. Waits for the end of the running cycle.
        """
        refuse(fault_of("name", name, str))
        await _change_plugins(self._cell, "detach", name=name)

    async def reload_plugin(self, plugin: PluginEntry) -> None:
        """Replace the code of the plugin of the same name, between two cycles. Its state is migrated.

        Args:
            plugin: The new code. Without options, the present ones are kept.

        The new code is rehearsed on the last 40 messages of the conversation, without carrying out its answers.

        Raises:
            PluginError: Your move: there is no plugin of this name, it cannot be loaded, `migrate` refused, it failed
                in the rehearsal, or a cycle waits for a user. The old plugin stays.
            CallingSelf: See `attach_plugin`.
            SessionDown: The session has ended.

        Cancellation: The change remains in effect. Waits for the end of the running cycle.
        """
        await _change_plugins(self._cell, "reload", entry=plugin)

    async def _change_tools(
        self,
        tools: tuple[Tool, ...],
        names: tuple[str, ...],
        *,
        replace: bool,
        sections: tuple[tuple[str, str | None], ...] = (),
    ) -> ToolsReceipt:
        refuse(*faults_of_tools(tools))
        cell = self._cell
        await cell.awake()
        specs = _specs_of(cell, tools)
        Toolbox(specs)  # reports duplicate names before anything is changed
        signal = ChangeTools(
            at_ms=now_ms(),
            signal_id=cell.pending_calls.mint(),
            attach=specs,
            detach=names,
            replace=replace,
            sections=sections,
            generation=cell.number_tool_change(),
        )
        by_name = {spec.name: tool for spec, tool in zip(specs, tools, strict=True)}
        hold = partial(cell.add_tools, by_name, signal.generation)
        asked = cell.pending_calls.ask_through(signal, cell.send, hold, cell.forget_tools)
        return cast("ToolsReceipt", await asked)


async def _change_plugins(
    cell: SessionCell,
    change: Literal["attach", "detach", "reload"],
    *,
    name: str = "",
    entry: PluginEntry | None = None,
) -> None:
    cell.pending_calls.refuse_self(f"{change}_plugin")
    await cell.awake()
    plugin = record = None
    if change != "detach":  # an entry of None is refused, and not taken for a detach
        plugin, record = part_entry(cast("PluginEntry", entry), cell.state.data.stack.ask)
        refuse(*faults_of_texts("plugin", plugin, record.options or {}))
    if record is not None and _is_stored(cell):
        refuse(fault_of_origin(record))
    signal = ChangePlugins(
        at_ms=now_ms(),
        signal_id=cell.pending_calls.mint(),
        change=change,
        name=name if record is None else record.name,
        entry=record,
    )

    def send(asked: Asked) -> None:
        if change != "attach":  # now, and not when the cycle has ended
            cell.refuse_unknown_plugin(signal.name)
        cell.send(asked)

    hold = partial(cell.add_plugin, signal.signal_id, plugin)
    forget = partial(cell.forget_plugins, signal.signal_id)
    await cell.pending_calls.ask_through(signal, send, hold, forget)


async def _update_everywhere(cell: SessionCell, signal: UpdatePluginOpts) -> None:
    """Update the options of a session's plugin. Rules that narrow reach all sessions below, which could make a call that they forbid."""
    await cell.awake()
    member = cell.state.data.stack.find(signal.plugin)
    refuse(*faults_of_texts("plugin", member and member.plugin, signal.options))
    await cell.pending_calls.ask(signal, cell.send)
    rules = narrowing_of(cell.visible.data.stack, signal.plugin, signal.options)
    if rules is not None:
        await change_below(cell, partial(_narrow, plugin=signal.plugin, rules=rules))


async def _narrow(cell: SessionCell, plugin: str, rules: JsonObject) -> bool:
    signal = UpdatePluginOpts(
        at_ms=now_ms(), signal_id=cell.pending_calls.mint(), plugin=plugin, options=rules, narrows=True
    )
    with suppress(PluginError):  # a session without such a plugin is not guarded by it
        await cell.pending_calls.ask(signal, cell.send)
    return True


def _is_stored(cell: SessionCell) -> bool:
    """Return whether another process may restore the session. An immediate store ends with this process."""
    return cell.journal is not None and not cell.journal.writer.store.is_immediate


def _specs_of(cell: SessionCell, tools: Sequence[Tool]) -> tuple[ToolSpec, ...]:
    """Describe tools for the model and for the store. Raise `OptionError` if a stored session could not find one again."""
    is_kept = cell.journal is not None
    origins = [source_origin(tool) or (tool_origin(tool) if is_kept else None) for tool in tools]
    if _is_stored(cell):
        refuse(*(fault_of_bare(tool) for tool, origin in zip(tools, origins, strict=True) if origin is None))
    listing = partial(_listing, cell, model_of(cell.state.data).model)
    specs = [cell.ports.spec_of(tool, listing) for tool in tools]
    return tuple(
        [
            msgspec.structs.replace(spec, origin=origin) if origin else spec
            for spec, origin in zip(specs, origins, strict=True)
        ]
    )


def _describe_for(cell: SessionCell, model: str) -> tuple[ToolSpec, ...]:
    ports, box = cell.ports, cell.state.data.tools
    tools = [ports.tools[spec.name, box.generation_of(spec.name)] for spec in box]
    listing = partial(_listing, cell, model)
    return tuple(
        msgspec.structs.replace(spec, description=ports.spec_of(tool, listing).description)
        for spec, tool in zip(box, tools, strict=True)
        if _is_described_for_models(tool)
    )


def _is_described_for_models(tool: Tool) -> bool:
    return callable(call_guarded(lambda _: None, getattr, tool, "description"))


def renew_tools(cell: SessionCell) -> ChangeTools | None:
    """Give a restored session the tools that its code has now. Return the change to record, or None if they are the same."""
    data, known = cell.state.data, cell.ports.agents
    box = data.tools
    found = [(spec, cell.ports.tools.get((spec.name, box.generation_of(spec.name)))) for spec in box]
    gone = tuple([spec.name for spec, tool in found if isinstance(tool, GoneTool)])
    # A source reports the changes of its tools itself, and what has no code here is answered elsewhere. Calls of the
    # machine's tools are answered by the session, whose own agents their schemas list.
    kept = [
        (spec, tool)
        for spec, tool in found
        if not (spec.shown_text or tool is None or spec.name in gone or spec.answered_by == "machine")
    ]
    changed = [(now, tool) for spec, tool in kept if (now := _spec_now(cell, spec, tool)) != spec]
    agents = [
        (one.name, None if own is None else own.specs)
        for one in data.config.agents
        if one.handoff and one.name in known and (own := known[one.name].spec.tools) != one.tools
    ]
    if not gone and not changed and not agents:
        return None
    generation = cell.number_tool_change() if changed else box.generation
    cell.add_tools({spec.name: tool for spec, tool in changed}, generation)
    return ChangeTools(
        at_ms=now_ms(),
        signal_id=cell.pending_calls.mint(),
        attach=tuple([spec for spec, _ in changed]),
        detach=gone,
        generation=generation,
        agents=tuple(agents),
    )


def _spec_now(cell: SessionCell, spec: ToolSpec, tool: Tool) -> ToolSpec:
    listing = partial(_listing, cell, model_of(cell.state.data).model)
    now = call_guarded(lambda _: spec, cell.ports.spec_of, tool, listing)  # the tree is already taken over
    described = spec.description if _is_described_for_models(tool) else now.description
    return msgspec.structs.replace(now, description=described, origin=spec.origin)


def _listing(cell: SessionCell, model: str) -> ToolListing:
    ports = cell.ports
    return ToolListing(
        session_id=ports.session_id,
        model=model,
        working_dir=ports.working_dir,
        user_data=ports.user_data,
        is_unconfined=ports.workspace.is_unconfined(),
        agents=tuple((one.name, one.description) for one in cell.state.data.config.agents),
    )
