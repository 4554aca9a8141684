"""`PatchToolCalls`: says what had to be repaired in the conversation that a session began with.

The repair itself is the importer's (`core/values/importing.py`), because a session cannot even hold a conversation with a call
that has no result. What is left for a plugin is that the operator hears of it.
"""

from typing import Final

from agentrail.core.protocol.actions import Action, Continue
from agentrail.core.protocol.hooks import BeforeRequest
from agentrail.core.stack.plugin import Context
from agentrail.plugins.base import Plugin, on

MAX_REPORTED: Final = 100
"""A caller that wants all of a thousand repairs imports the messages once more."""


class PatchToolCalls(Plugin[bool]):
    """Publishes `history_repaired` before the first request, with what was changed in the imported messages."""

    priority = 120

    def init(self) -> bool:
        """Begin with nothing told."""
        return False

    @on(BeforeRequest)
    def report(self, event: BeforeRequest, told: bool, ctx: Context) -> Action[bool]:  # noqa: FBT001 - a state is positional
        """Tell it once; of a conversation that was valid there is nothing to tell."""
        if told or not ctx.repairs:
            return Continue(told)
        repairs = [
            {"code": repair.code, "position": repair.position, "call_id": repair.call_id}
            for repair in ctx.repairs[:MAX_REPORTED]
        ]
        payload = {"count": len(ctx.repairs), "repairs": repairs}
        return Continue(True, emits=(("history_repaired", payload),))  # noqa: FBT003 - a state is positional
