"""`PatchToolCalls`: reports repairs in the conversation that a session started with."""

from typing import Final

from agentrail.core.protocol.actions import Action, Continue
from agentrail.core.protocol.hooks import BeforeRequest
from agentrail.core.stack.plugin import Context
from agentrail.plugins.base import Plugin, on

MAX_REPORTED: Final = 100
"""Maximum number of repairs reported. For all of a thousand repairs, import the messages again."""


class PatchToolCalls(Plugin[bool]):
    """Publishes `history_repaired` before the first request, with the changes to the imported messages."""

    priority = 120

    def init(self) -> bool:
        """Return a state in which nothing was reported."""
        return False

    @on(BeforeRequest)
    def report(self, event: BeforeRequest, told: bool, ctx: Context) -> Action[bool]:  # noqa: FBT001 - a state is positional
        """Report the repairs once. A valid conversation needs no report."""
        if told or not ctx.repairs:
            return Continue(told)
        repairs = [
            {"code": repair.code, "position": repair.position, "call_id": repair.call_id}
            for repair in ctx.repairs[:MAX_REPORTED]
        ]
        payload = {"count": len(ctx.repairs), "repairs": repairs}
        return Continue(True, emits=(("history_repaired", payload),))  # noqa: FBT003 - a state is positional
