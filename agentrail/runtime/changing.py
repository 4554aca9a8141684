"""What of a session can be changed while it runs: its model, its tools, its plugins. The part of the handle that does it."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, cast

import msgspec

from agentrail.abc import Provider, Tool, ToolListing
from agentrail.core.protocol.signals import (
    ChangeModel,
    ChangeTools,
    ToolSourceReported,
    UpdatePluginOpts,
)
from agentrail.core.session.projection import model_of
from agentrail.core.session.receipts import ToolsReceipt
from agentrail.core.stack.loading import PluginEntry
from agentrail.core.stack.narrowing import narrowing_of
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.errors import PluginError, SessionDown
from agentrail.events import ToolSourceState
from agentrail.frozen import not_json
from agentrail.messages import JsonObject
from agentrail.otp.edges import call_guarded
from agentrail.runtime.arguments import (
    fault_of_text,
    faults_of_names,
    faults_of_source,
    faults_of_tools,
    refuse,
)
from agentrail.runtime.asking import AskingHandle
from agentrail.runtime.clock import now_ms
from agentrail.runtime.models import decide_switch, facts_of
from agentrail.runtime.reviving import fault_of_origin
from agentrail.runtime.session import SessionCell
from agentrail.runtime.tool_origins import fault_of_bare, tool_origin


class ChangingHandle(AskingHandle):
    """A handle that changes its session."""

    __slots__ = ()

    async def _do_switch_model(self, model: str | Provider, provider_opts: Mapping[str, Any] | None) -> None:
        await self._cell.awake()
        choice = decide_switch(model, provider_opts, self._cell.state.data.model.model, self._cell.ports)
        signal = ChangeModel(
            at_ms=now_ms(),
            signal_id=self._cell.pending_calls.mint(),
            model=facts_of(choice.name, choice.provider),
            opts_changed=choice.opts_changed,
            described=_describe_for(self._cell, choice.name),
        )
        self._cell.add_model(choice)
        await self._ask(signal)
        self._cell.forget_models(choice.name)

    async def attach_tools(self, *tools: Tool) -> ToolsReceipt:
        """Give the model more tools, all at once; one of a name that is there takes its place.

        The next request shows them. Calls that are under way keep the tools they began with.

        Args:
            *tools: What the model may call from now on.

        Returns:
            The names that are there now.

        Raises:
            OptionError: Your move: something that is no tool, such as a list of tools; or the session is kept in a store, and no other
                process would find the tool as it is: expected a name in a module, or a class that was given no arguments. Nothing was
                attached.
            ToolDefinitionError: Your move: a schema that is none, or two of one name; nothing was attached.
            SessionDown: The session has ended.

        Cancellation: The change stands.
        """
        return await self._change_tools(tools, (), replace=False)

    async def detach_tools(self, *names: str) -> ToolsReceipt:
        """Take tools away, all at once. Calls that are under way keep theirs.

        Args:
            *names: Which; those that are not there are listed in the receipt, and are no error.

        Raises:
            OptionError: Your move: something that is no name, such as a list of names; nothing was detached.
            SessionDown: The session has ended.

        Cancellation: The change stands.
        """
        refuse(*faults_of_names(names))
        return await self._change_tools((), names, replace=False)

    async def replace_tools(self, *tools: Tool) -> ToolsReceipt:
        """Give the model these tools and no others, all at once.

        Args, Returns, Raises, Cancellation: As of `attach_tools`.
        """
        return await self._change_tools(tools, (), replace=True)

    async def report_tool_source(
        self, source: str, state: ToolSourceState, *, reason: str | None = None
    ) -> None:
        """Let subscribers know how something stands that gives this session tools: a server, a process, a plugin system.

        For who writes such an adapter. It changes no tools, for which there are `attach_tools` and `detach_tools`, and is
        published as often as it is called: say a state when it begins, and once.

        Args:
            source: Its name, 1 to 200 characters: the same in all that is said of it.
            state: `connecting`, `ready`, `restarting`, `parked`, `needs_login`, `changed` or `closed`.
            reason: Why, for people, of 1,000 characters at most. It is published: no keys.

        Raises:
            OptionError: Your move: no name, a state that is none of these, a reason that is no text or too long.
            MailboxFull: Your move: the session has not caught up with what was sent. Try again later.
            SessionDown: The session has ended.

        Cancellation: It is published all the same.
        """
        refuse(*faults_of_source(source, state, reason))
        signal_id = self._cell.pending_calls.mint()
        await self._ask(
            ToolSourceReported(at_ms=now_ms(), signal_id=signal_id, source=source, state=state, reason=reason)
        )

    async def update_plugin_opts(self, plugin: str, **options: Any) -> None:
        """Give a plugin other options: at once in idle, else when the session is idle again.

        Rules of `deny` and `ask` that are given to permissions hold at once for the sessions below, before their next call.

        Of two updates that wait, the last value of a field counts. `PluginOptsUpdated` says what became of it.

        Args:
            plugin: Its name.
            **options: Those that change.

        Raises:
            PluginError: Your move: there is no plugin of this name.
            OptionError: Your move: a name that is no text.
            SessionDown: The session has ended.

        Cancellation: The update stands. Returns when it is noted.
        """
        refuse(fault_of_text("plugin", plugin), not_json(options, "options"))
        signal = UpdatePluginOpts(
            at_ms=now_ms(), signal_id=self._cell.pending_calls.mint(), plugin=plugin, options=options
        )
        await self._ask(signal)
        rules = narrowing_of(self._cell.visible.data.stack, plugin, options)
        if rules is not None:
            await _narrow_below(self._cell, plugin, rules)

    async def attach_plugin(self, plugin: PluginEntry) -> None:
        """Add a plugin to the stack, between two cycles; among those of its priority it is asked last.

        Args:
            plugin: A class, an instance, or one of them with its options.

        Raises:
            PluginError: Your move: it cannot be loaded, one of its name is there, or a cycle waits for a person.
            OptionError: Your move: the session is kept in a store, and another process could not import the plugin.
            CallingSelf: Your move: a tool of this session asked it, and the cycle waits for that tool.
            SessionDown: The session has ended.

        Cancellation: The change stands. Waits for the end of the running cycle.
        """
        await self._change_plugins("attach", entry=plugin)

    async def detach_plugin(self, name: str) -> None:
        """Take a plugin out of the stack, between two cycles, and its state with it.

        Raises:
            PluginError: Your move: there is none of this name, or a cycle waits for a person.
            OptionError: Your move: a name that is no text.
            CallingSelf: As of `attach_plugin`.
            SessionDown: The session has ended.

        Cancellation: The change stands. Waits for the end of the running cycle.
        """
        refuse(fault_of_text("name", name))
        await self._change_plugins("detach", name=name)

    async def reload_plugin(self, plugin: PluginEntry) -> None:
        """Put new code in the place of the plugin of the same name, between two cycles; its state is migrated.

        Args:
            plugin: The new code; without options those of the old one stay.

        The new code goes through the last 40 messages of the conversation once more, as a dry run whose answers are not
        carried out; it is let in only if it fails nowhere.

        Raises:
            PluginError: Your move: there is none of this name, it cannot be loaded, `migrate` refused, it failed in the
                rehearsal, or a cycle waits for a person. The old one stays.
            CallingSelf: As of `attach_plugin`.
            SessionDown: The session has ended.

        Cancellation: The change stands. Waits for the end of the running cycle.
        """
        await self._change_plugins("reload", entry=plugin)

    async def _change_plugins(
        self,
        change: Literal["attach", "detach", "reload"],
        *,
        name: str = "",
        entry: PluginEntry | None = None,
    ) -> None:
        self._cell.pending_calls.refuse_self(f"{change}_plugin")
        await self._cell.awake()
        with self._cell.changing_plugins(change, name, entry) as signal:
            if signal.entry is not None and _is_stored(self._cell):
                refuse(fault_of_origin(signal.entry))
            await self._ask(signal)

    async def _change_tools(
        self, tools: tuple[Tool, ...], names: tuple[str, ...], *, replace: bool
    ) -> ToolsReceipt:
        refuse(*faults_of_tools(tools))
        await self._cell.awake()
        origins = [tool_origin(tool) if self._cell.journal is not None else None for tool in tools]
        if _is_stored(self._cell):
            refuse(
                *(fault_of_bare(tool) for tool, origin in zip(tools, origins, strict=True) if origin is None)
            )
        ports = self._cell.ports
        listing = _listing(self._cell, model_of(self._cell.state.data).model)
        specs = tuple(ports.spec_of(tool, listing) for tool in tools)
        specs = tuple(
            msgspec.structs.replace(spec, origin=origin) if origin else spec
            for spec, origin in zip(specs, origins, strict=True)
        )
        Toolbox(specs)  # two of one name are found before anything is changed
        signal = ChangeTools(
            at_ms=now_ms(),
            signal_id=self._cell.pending_calls.mint(),
            attach=specs,
            detach=names,
            replace=replace,
            generation=self._cell.add_tools(
                {spec.name: tool for spec, tool in zip(specs, tools, strict=True)}
            ),
        )
        try:
            return cast("ToolsReceipt", await self._ask(signal))
        finally:
            self._cell.forget_tools()


async def _narrow_below(above: SessionCell, plugin: str, rules: JsonObject) -> None:
    for cell in tuple(above.below())[1:]:
        signal = UpdatePluginOpts(
            at_ms=now_ms(),
            signal_id=cell.pending_calls.mint(),
            plugin=plugin,
            options=rules,
            narrows=True,
        )
        # A session that has ended makes no more calls; one without such a plugin is not guarded by it.
        with suppress(SessionDown, PluginError):
            await AskingHandle(cell)._ask(signal)  # noqa: SLF001 - the base of this module's handle


def _is_stored(cell: SessionCell) -> bool:
    """Say whether another process may bring the session back: a store that is immediate ends with this one."""
    journal = cell.journal
    return journal is not None and not journal.writer.store.is_immediate


def _describe_for(cell: SessionCell, model: str) -> tuple[ToolSpec, ...]:
    """Let the tools that describe themselves by a function do it for another model."""
    ports, box = cell.ports, cell.state.data.tools
    tools = [ports.tools[spec.name, box.generation_of(spec.name)] for spec in box]
    listing = _listing(cell, model)
    return tuple(
        msgspec.structs.replace(ports.spec_of(tool, listing), origin=spec.origin)
        for spec, tool in zip(box, tools, strict=True)
        if callable(call_guarded(lambda _: None, getattr, tool, "description"))
    )


def _listing(cell: SessionCell, model: str) -> ToolListing:
    ports = cell.ports
    return ToolListing(
        session_id=ports.session_id,
        model=model,
        working_dir=ports.working_dir,
        user_data=ports.user_data,
        is_unconfined=ports.workspace.is_unconfined(),
        agents=tuple((one.spec.name, one.spec.description) for one in ports.agents.values()),
    )
