"""What of a session changes while it runs: its model, its tools. At once for the state; what is under way keeps its own."""

import msgspec

from agentrail.core.receipts import ToolsReceipt
from agentrail.core.signals import ChangeTools, SwitchModel
from agentrail.core.work import Work
from agentrail.events import ModelSwitched, ToolAttached, ToolDetached, ToolsUpdated


def switch_model(work: Work, signal: SwitchModel) -> None:
    """Ask another model from the next request on."""
    data = work.data
    before = data.model.model
    work.change(model=signal.model)
    cycle = data.cycle
    if cycle is not None:  # the fallbacks of the model before are not those of this one
        work.change(
            cycle=msgspec.structs.replace(cycle, attempts=msgspec.structs.replace(cycle.attempts, model=0))
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
    work.change(tools=after)
    for name in attached:
        work.publish(ToolAttached(name=name))
    for name in detached:
        work.publish(ToolDetached(name=name))
    if attached or detached:
        work.publish(ToolsUpdated(attached=attached, detached=detached))
    work.reply(signal.signal_id, ToolsReceipt(attached=attached, detached=detached, missing=missing))
