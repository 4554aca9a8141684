"""What of a session changes while it runs: its model, its tools, its plugins.

Models and tools change at once for the state; what is under way keeps its own. Plugins change between two cycles only, so
no hook of an old version, or with old options, runs afterwards.
"""

import msgspec

from agentrail.core.protocol.signals import (
    ChangeModel,
    ChangePlugins,
    ChangeTools,
    ToolSourceReported,
    UpdatePluginOpts,
)
from agentrail.core.session import calls
from agentrail.core.session.hooking import context_of
from agentrail.core.session.projection import model_of
from agentrail.core.session.receipts import ToolsReceipt
from agentrail.core.session.state import OptsUpdate, Phase
from agentrail.core.session.step_context import StepContext
from agentrail.core.stack.loading import PluginEntry
from agentrail.core.stack.narrowing import narrow_stack
from agentrail.core.stack.plugin_changes import (
    attach_plugin,
    decide_update,
    detach_plugin,
    find_plugin,
    reload_plugin,
)
from agentrail.core.stack.plugin_code import find_code
from agentrail.core.stack.rehearsal import rehearsal_of
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import PluginError
from agentrail.events import ModelSwitched, ToolAttached, ToolDetached, ToolSourceChanged, ToolsUpdated


def switch_model(step: StepContext, signal: ChangeModel) -> None:
    """Ask another model from the next request on. The one that is asked already is none, and is not told to subscribers."""
    data = step.data
    before = model_of(data).model  # where one has failed, that of the fallback
    if signal.model.model == before == data.model.model and not signal.opts_changed:
        step.reply(signal.signal_id, None)
        return
    step.data.model = signal.model
    step.data.tools = data.tools.described(signal.described)
    cycle = data.cycle
    if cycle is not None:  # the fallbacks of the model before are not those of this one
        step.data.cycle = msgspec.structs.replace(
            cycle, attempts=msgspec.structs.replace(cycle.attempts, model=0)
        )
    step.publish(
        ModelSwitched(
            from_model=before,
            to_model=signal.model.model,
            provider_opts_changed=signal.opts_changed,
            by="user",
        )
    )
    step.reply(signal.signal_id, None)


def change_tools(step: StepContext, signal: ChangeTools) -> None:
    """Attach and detach tools, all in one step; names that are not there are told, and are no error."""
    before = step.data.tools
    step.data.tools = before.changed(signal.attach, signal.detach, signal.generation, replace=signal.replace)
    attached = tuple(spec.name for spec in sorted(signal.attach, key=lambda spec: spec.name))
    missing = tuple(name for name in signal.detach if before.get(name) is None)
    detached = say_tools_changed(step, before, attached)
    step.reply(signal.signal_id, ToolsReceipt(attached=attached, detached=detached, missing=missing))


def say_tools_changed(step: StepContext, before: Toolbox, attached: tuple[str, ...]) -> tuple[str, ...]:
    """Publish which tools came and which went.

    Args:
        step: The step, which has the new ones.
        before: The ones so far.
        attached: The names of those that came, sorted; some may have been there, of another make.

    Returns:
        The names of those that went.
    """
    detached = tuple([name for name in before.names if step.data.tools.get(name) is None])
    for name in attached:
        step.publish(ToolAttached(name=name))
    for name in detached:
        step.publish(ToolDetached(name=name))
    if attached or detached:
        step.publish(ToolsUpdated(attached=attached, detached=detached))
    return detached


def tell_of_tool_source(step: StepContext, signal: ToolSourceReported) -> None:
    """Tell subscribers how a source of tools stands. The state keeps nothing of it: what tools there are stands in there already."""
    step.publish(ToolSourceChanged(source=signal.source, state=signal.state, reason=signal.reason))
    step.reply(signal.signal_id, None)


def update_plugin_opts(step: StepContext, phase: Phase, signal: UpdatePluginOpts) -> Phase:
    """Take new options of a plugin; they are applied in idle, where of two for one field the last counts."""
    try:
        find_plugin(step.data.stack, signal.plugin)
    except PluginError as error:
        step.refuse(signal.signal_id, error)
        return phase
    if signal.narrows:
        return _narrow(step, phase, signal)
    waiting = {update.plugin: update.options for update in step.data.updates}
    waiting[signal.plugin] = {**waiting.get(signal.plugin, {}), **signal.options}
    step.data.updates = tuple(OptsUpdate(plugin=name, options=options) for name, options in waiting.items())
    if phase is Phase.IDLE:
        apply_updates(step)
    step.reply(signal.signal_id, None)
    return phase


def _narrow(step: StepContext, phase: Phase, signal: UpdatePluginOpts) -> Phase:
    """Let rules of the session above hold from here on, also for calls that wait for an approval."""
    try:
        changed = narrow_stack(step.data.stack, step.data.plugin_states, signal.options)
    except PluginError as error:
        step.refuse(signal.signal_id, error)
        return phase
    step.data.stack = changed.stack
    step.data.plugin_states = changed.states
    for state in step.data.batch:
        if state.judged_by:
            calls.put(step, msgspec.structs.replace(state, judged_by=()))
    step.reply(signal.signal_id, None)
    return phase


def apply_updates(step: StepContext) -> None:
    """Apply the option updates that waited for idle, unless a cycle is only suspended."""
    if not step.data.updates or step.data.cycle is not None:
        return
    updates = step.data.updates
    step.data.updates = ()
    for update in updates:
        data = step.data
        changed = decide_update(
            data.stack, update.plugin, update.options, data.plugin_states, context_of(step)
        )
        step.data.stack = changed.stack
        step.data.plugin_states = changed.states
        for event in changed.events:
            step.publish(event)


def change_plugins(step: StepContext, signal: ChangePlugins) -> None:
    """Attach, detach or reload a plugin."""
    data = step.data
    if data.cycle is not None:
        waits = "a cycle waits for a person: decide, or abort it, before plugins change"
        step.refuse(signal.signal_id, PluginError([waits]))
        return
    try:
        match signal.change:
            case "attach":
                change = attach_plugin(data.stack, data.plugin_states, _code_of(step, signal))
            case "detach":
                change = detach_plugin(data.stack, data.plugin_states, signal.name)
            case _:
                rehearsal = rehearsal_of(data.history.messages, context_of(step))
                entry = _code_of(step, signal)
                change = reload_plugin(data.stack, data.plugin_states, entry, rehearsal=rehearsal)
    except PluginError as error:
        step.refuse(signal.signal_id, error)
        return
    step.data.stack = change.stack
    step.data.plugin_states = change.states
    step.reply(signal.signal_id, None)


def _code_of(step: StepContext, signal: ChangePlugins) -> PluginEntry:
    """Find what a change brings; without options of its own a plugin that is loaded anew keeps the old ones."""
    record = signal.entry
    if record is None:
        raise PluginError([f"{signal.change} names no plugin: say which one is to come"])
    plugin = find_code(step.data.stack.ask, signal.signal_id, record)
    return plugin if record.options is None else (plugin, record.options)
