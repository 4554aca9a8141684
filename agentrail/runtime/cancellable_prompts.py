"""A handle that remembers its prompts, so that a caller that gives up can stop exactly the cycles of those prompts."""

from contextlib import suppress
from typing import Any

from agentrail.core.protocol.signals import AbortCycle, Prompt
from agentrail.errors import SessionDown, StoreUnavailable
from agentrail.messages import PromptRef
from agentrail.runtime.arguments import Blocks
from agentrail.runtime.session_clock import now_ms
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
            signal = AbortCycle(
                at_ms=now_ms(),
                signal_id=self._cell.pending_calls.mint(),
                reason=reason,
                wait=False,
                ref=ref,
            )
            # SessionDown: nothing is running any more. StoreUnavailable: it was stopped, and this cannot be
            # recorded yet.
            with suppress(SessionDown, StoreUnavailable):
                await self._cell.pending_calls.ask(signal, self._cell.send_notice)

    def _prompt(self, blocks: Blocks, **options: Any) -> Prompt:
        made = super()._prompt(blocks, **options)
        self._sent = (*self._sent, made.ref)
        return made
