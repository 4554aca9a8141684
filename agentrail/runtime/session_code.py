"""Code that a session holds outside its state: tools, plugins being added, providers. Kept as long as it may be needed."""

from collections.abc import Mapping

from agentrail.abc import Tool
from agentrail.core.protocol.signals import ChangePlugins, SignalId
from agentrail.core.session.state import SessionState
from agentrail.core.stack.plugin import Plugin
from agentrail.core.stack.plugin_changes import find_plugin
from agentrail.runtime.model_lookup import Choice, is_object
from agentrail.runtime.pending_calls import PendingCalls
from agentrail.runtime.plugin_watch import PluginWatch
from agentrail.runtime.ports import Ports


class HeldCode:
    """The code held by a session."""

    __slots__ = ("_coming", "_tool_changes")

    state: SessionState
    ports: Ports
    pending_calls: PendingCalls
    _coming: tuple[SignalId, ...]
    _tool_changes: int

    def number_tool_change(self) -> int:
        self._tool_changes = max(self._tool_changes, self.state.data.tools.generation) + 1
        return self._tool_changes

    def add_tools(self, tools: Mapping[str, Tool], change: int) -> None:
        self.ports.tools.update({(name, change): tool for name, tool in tools.items()})

    def forget_tools(self) -> None:
        data = self.state.data
        used = {(spec.name, data.tools.generation_of(spec.name)) for spec in data.tools}
        used |= {(call.call.name, call.generation) for call in (*data.batch, *data.survivors)}
        for key in list(self.ports.tools):
            # Newer ones are pending in the mailbox. Those below 0 belong to agents, which may still start.
            if key not in used and 0 <= key[1] <= data.tools.generation:
                del self.ports.tools[key]

    def refuse_unknown_plugin(self, name: str) -> None:
        """Raise `PluginError` for a name that is not in the stack, unless waiting changes may add it."""
        if not self._coming and not any(isinstance(one, ChangePlugins) for one in self.state.postponed):
            find_plugin(self.state.data.stack, name)

    def add_plugin(self, change: SignalId, plugin: Plugin | None) -> None:
        watch = self.state.data.stack.ask
        if plugin is not None and isinstance(watch, PluginWatch):
            watch.keep(change, plugin)
            self._coming = (*self._coming, change)

    def forget_plugins(self, answered: SignalId) -> None:
        watch = self.state.data.stack.ask
        if answered not in self._coming or not isinstance(watch, PluginWatch):
            return
        waiting = {one.signal_id for one in self.state.postponed if isinstance(one, ChangePlugins)}
        behind = self._coming.index(answered) + 1
        over = [change for change in self._coming[:behind] if change not in waiting]
        for change in over:
            watch.forget(change)
        self._coming = tuple(change for change in self._coming if change not in over)

    def add_model(self, choice: Choice) -> None:
        providers, opts = self.ports.providers, self.ports.provider_opts
        for known in (providers, opts):
            known.pop(choice.name, None)
        providers[choice.name], opts[choice.name] = choice.provider, choice.opts
        self.ports.withheld.learn_options(choice.opts)
        self.ports.withheld.learn_from(choice.provider)

    def forget_models(self, newest: str) -> None:
        data = self.state.data
        used = {facts.model for facts in (data.model, data.config.model, *data.config.fallbacks)}
        used |= {data.stream.model} if data.stream is not None else set()
        for name in list(self.ports.providers):
            if name == newest:  # later ones are pending in the mailbox
                return
            if name not in used and is_object(name):
                del self.ports.providers[name]
                self.ports.provider_opts.pop(name, None)
