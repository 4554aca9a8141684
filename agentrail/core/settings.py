"""What of a session changes while it runs: its model, its tools, its plugins.

Models and tools change at once for the state; what is under way keeps its own. Plugins change between two cycles only, so
no hook of an old version, or with old options, runs afterwards.
"""

import msgspec

from agentrail.core.hooking import context_of
from agentrail.core.plugin_changes import (
    attach_plugin,
    decide_update,
    detach_plugin,
    find_plugin,
    reload_plugin,
)
from agentrail.core.projection import model_of
from agentrail.core.receipts import ToolsReceipt
from agentrail.core.rehearsal import rehearsal_of
from agentrail.core.signals import ChangePlugins, ChangeTools, SwitchModel, UpdatePluginOpts
from agentrail.core.state import OptsUpdate, Phase
from agentrail.core.work import Work
from agentrail.errors import PluginError
from agentrail.events import ModelSwitched, ToolAttached, ToolDetached, ToolsUpdated


def switch_model(work: Work, signal: SwitchModel) -> None:
    """Ask another model from the next request on. The one that is asked already is none, and nobody hears of it."""
    data = work.data
    before = model_of(data).model  # where one has failed, that of the fallback
    if signal.model.model == before == data.model.model and not signal.opts_changed:
        work.reply(signal.signal_id, None)
        return
    work.data.model = signal.model
    work.data.tools = data.tools.described(signal.described)
    cycle = data.cycle
    if cycle is not None:  # the fallbacks of the model before are not those of this one
        work.data.cycle = msgspec.structs.replace(
            cycle, attempts=msgspec.structs.replace(cycle.attempts, model=0)
        )
    work.publish(
        ModelSwitched(
            from_model=before,
            to_model=signal.model.model,
            provider_opts_changed=signal.opts_changed,
            by="user",
        )
    )
    work.reply(signal.signal_id, None)


def change_tools(work: Work, signal: ChangeTools) -> None:
    """Attach and detach tools, all in one step; names that are not there are told, and are no error."""
    before = work.data.tools
    after = before.changed(signal.attach, signal.detach, signal.generation, replace=signal.replace)
    attached = tuple(spec.name for spec in sorted(signal.attach, key=lambda spec: spec.name))
    detached = tuple(name for name in before.names if after.get(name) is None)
    missing = tuple(name for name in signal.detach if before.get(name) is None)
    work.data.tools = after
    for name in attached:
        work.publish(ToolAttached(name=name))
    for name in detached:
        work.publish(ToolDetached(name=name))
    if attached or detached:
        work.publish(ToolsUpdated(attached=attached, detached=detached))
    work.reply(signal.signal_id, ToolsReceipt(attached=attached, detached=detached, missing=missing))


def update_plugin_opts(work: Work, phase: Phase, signal: UpdatePluginOpts) -> Phase:
    """Take new options of a plugin; they are applied in idle, where of two for one field the last counts."""
    try:
        find_plugin(work.data.stack, signal.plugin)
    except PluginError as error:
        work.refuse(signal.signal_id, error)
        return phase
    waiting = {update.plugin: update.options for update in work.data.updates}
    waiting[signal.plugin] = {**waiting.get(signal.plugin, {}), **signal.options}
    work.data.updates = tuple(OptsUpdate(plugin=name, options=options) for name, options in waiting.items())
    if phase is Phase.IDLE:
        apply_updates(work)
    work.reply(signal.signal_id, None)
    return phase


def apply_updates(work: Work) -> None:
    """Apply the option updates that waited for idle, unless a cycle is only suspended."""
    if not work.data.updates or work.data.cycle is not None:
        return
    updates = work.data.updates
    work.data.updates = ()
    for update in updates:
        data = work.data
        changed = decide_update(
            data.stack, update.plugin, update.options, data.plugin_states, context_of(work)
        )
        work.data.stack = changed.stack
        work.data.plugin_states = changed.states
        for event in changed.events:
            work.publish(event)


def change_plugins(work: Work, signal: ChangePlugins) -> None:
    """Attach, detach or reload a plugin."""
    data = work.data
    if data.cycle is not None:
        waits = "a cycle waits for a person: decide, or abort it, before plugins change"
        work.refuse(signal.signal_id, PluginError([waits]))
        return
    try:
        match signal.change:
            case "attach":
                change = attach_plugin(data.stack, data.plugin_states, signal.entry)
            case "detach":
                change = detach_plugin(data.stack, data.plugin_states, signal.name)
            case _:
                rehearsal = rehearsal_of(data.history.messages, context_of(work))
                change = reload_plugin(data.stack, data.plugin_states, signal.entry, rehearsal=rehearsal)
    except PluginError as error:
        work.refuse(signal.signal_id, error)
        return
    work.data.stack = change.stack
    work.data.plugin_states = change.states
    work.reply(signal.signal_id, None)
