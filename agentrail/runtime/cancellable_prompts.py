"""A handle that remembers its prompts, so that a caller that gives up can stop exactly the cycles of those prompts."""

from typing import Any

from agentrail.core.protocol.signals import Prompt
from agentrail.messages import PromptRef
from agentrail.runtime.arguments import Blocks
from agentrail.runtime.cycle_stream import abort_prompt
from agentrail.runtime.session_handle import Session


class OwnPrompts(Session):
    __slots__ = ("_sent",)

    def __init__(self, session: Session) -> None:
        super().__init__(session._cell)  # noqa: SLF001 - of the same class
        self._sent: tuple[PromptRef, ...] = ()

    async def abort_sent(self, reason: str) -> None:
        """Stop the cycle of the sent prompts. Queued prompts leave the queue, and ended cycles are left as they are.

        Sent after the prompt to the same mailbox, and matched against the cycle in the step that reads it. A cycle of
        another prompt is never stopped.

        Cancellation: The cycle is still stopped, once the first signal has been sent.
        """
        for ref in self._sent:
            await abort_prompt(self._cell, ref, reason, wait=False)

    def _prompt(self, blocks: Blocks, **options: Any) -> Prompt:
        made = super()._prompt(blocks, **options)
        self._sent = (*self._sent, made.ref)
        return made
