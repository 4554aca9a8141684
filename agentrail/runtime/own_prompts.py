"""A handle that remembers what it sent, so that who gives up a call can stop the cycle of that very prompt, and no other."""

from contextlib import suppress
from typing import Any

from agentrail.core.protocol.signals import AbortCycle, Asked, Prompt
from agentrail.errors import SessionDown, StoreUnavailable
from agentrail.messages import PromptRef
from agentrail.runtime.arguments import Blocks
from agentrail.runtime.clock import now_ms
from agentrail.runtime.handle import Session


class OwnPrompts(Session):
    """A handle for one call: what is prompted through it can be taken back."""

    __slots__ = ("_sent",)

    def __init__(self, session: Session) -> None:
        """Make one for the session of another handle."""
        super().__init__(session._cell)  # noqa: SLF001 - of the same class
        self._sent: tuple[PromptRef, ...] = ()

    async def abort_sent(self, reason: str) -> None:
        """Stop the cycle that works on what was sent; a prompt that still waits leaves the queue, what has ended stays as it is.

        Sent behind the prompt into the same mailbox, and decided on in the step that takes it: whatever cycle runs by then, no
        other is stopped.

        Cancellation: It is stopped all the same, once the first step was made.
        """
        for ref in self._sent:
            signal = AbortCycle(
                at_ms=now_ms(),
                signal_id=self._cell.pending_calls.mint(),
                reason=reason,
                wait=False,
                ref=ref,
            )
            # Then nothing of it runs any more, or it was stopped and cannot be written down yet.
            with suppress(SessionDown, StoreUnavailable):
                await self._cell.pending_calls.ask(signal, self._post)

    def _prompt(self, blocks: Blocks, **options: Any) -> Prompt:
        made = super()._prompt(blocks, **options)
        self._sent = (*self._sent, made.ref)
        return made

    def _post(self, signal: Asked) -> None:
        # As a notice, which no bound keeps out: a mailbox that is full takes it all the same.
        self._cell.mailbox.put_notice(signal)
        self._cell.request_wake()
