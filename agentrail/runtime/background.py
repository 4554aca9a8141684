"""An agent in the background: a session that is started or found again, prompted cycle by cycle, listened to, and stopped.

Its task belongs to the session that asked for it, and not to the call: it ends when the agent is closed, or with that session.
Where that session crashes, the agent is left alive, and its next incarnation asks for it once more.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Literal, TypeAlias

from attrs import define

from agentrail.core.policy.budget import Budget, spent_of
from agentrail.core.protocol.effects import StartAgent
from agentrail.core.protocol.signals import (
    AgentIdled,
    BudgetLent,
    ChildPublished,
    ChildStarted,
    Prompt,
)
from agentrail.events import (
    TERMINAL,
    AgentAbort,
    AgentEnd,
    AgentError,
    Event,
    EventsLost,
    ResponseComplete,
)
from agentrail.messages import PromptRef, Text
from agentrail.runtime.children import Deliver, last_text_of
from agentrail.runtime.clock import now_ms
from agentrail.runtime.handle import Session
from agentrail.runtime.ports import AgentLine, AgentWork
from agentrail.runtime.session import SessionCell
from agentrail.runtime.tool_calls import clean_text

OpenAgent: TypeAlias = Callable[[AgentWork], AbstractAsyncContextManager[tuple[SessionCell, bool]]]
"""Starts the session of an agent, or finds it, and says whether it is new. Leaving the block stops it, shielded and bounded,
unless the session above has crashed."""


async def run_agent(work: AgentWork, open_agent: OpenAgent, deliver: Deliver, line: AgentLine) -> str:
    """Let an agent work until its session has ended.

    Args:
        work: What it is to do.
        open_agent: Starts its session, or finds it.
        deliver: Puts what it publishes into the mailbox of the session above.
        line: Is told how to prompt it, for what comes later.

    Returns:
        Why it has ended, without having been told to.

    Raises:
        AgentrailError: It could not begin.

    Cancellation: The agent is aborted with all that it runs, and stopped, before the cancellation travels on; unless the
        session above has crashed, which leaves it alive.
    """
    effect = work.effect
    async with open_agent(work) as (cell, is_new):
        line.prompt = partial(prompt_cell, cell)
        child_id = cell.ports.session_id
        deliver(ChildStarted(at_ms=now_ms(), effect_id=effect.effect_id, child_id=child_id))
        listener = _Listener(cell, effect, deliver)
        # What is not committed is not passed on: a hundred agents that talk would fill the mailbox above.
        async with Session(cell).subscribe(after=effect.after, deltas=False) as events:
            if is_new:
                prompt_cell(cell, effect.task, None)
            async for event in events:
                listener.hear(event)
        return cell.ending or "it ended"


def prompt_cell(cell: SessionCell, text: str, budget: Budget | None) -> None:
    """Put a prompt into the mailbox of an agent, behind what it is lent for it."""
    if budget is not None:
        cell.mailbox.put_notice(BudgetLent(at_ms=now_ms(), budget=budget))
    signal_id = cell.pending_calls.mint()
    content = (Text(text=text),)
    cell.mailbox.put_notice(
        Prompt(at_ms=now_ms(), signal_id=signal_id, ref=PromptRef(signal_id), content=content)
    )


def is_untouched(cell: SessionCell) -> bool:
    """Say whether a session was never prompted, as far as is known: nothing of a cycle is there, nor waits."""
    data = cell.state.data
    return is_idle(cell) and data.last is None and not any(type(event) in TERMINAL for event in cell.bus.kept)


def is_idle(cell: SessionCell) -> bool:
    """Say whether a session has no cycle, and no prompt that waits."""
    data = cell.state.data
    return data.cycle is None and data.held is None and not data.queue


@define(eq=False)
class _Listener:
    """Passes on what an agent publishes, and tells the end of each of its cycles."""

    cell: SessionCell
    effect: StartAgent
    deliver: Deliver
    _last_text: str = ""
    _turns: int = 0

    def hear(self, event: Event) -> None:
        """Take one event."""
        # An end that was lost among them is that of a cycle behind which another one has begun, whose end is still to come.
        if isinstance(event, EventsLost):
            return
        effect_id = self.effect.effect_id
        self.deliver(
            ChildPublished(
                at_ms=now_ms(), effect_id=effect_id, event=event, child_id=self.cell.ports.session_id
            )
        )
        if isinstance(event, ResponseComplete):
            self._turns += 1
            self._last_text = event.message.text or self._last_text
        if type(event) in TERMINAL:
            self._tell_end(event)

    def _tell_end(self, event: Event) -> None:
        data = self.cell.state.data
        outcome: Literal["finished", "aborted", "failed"]
        match event:
            case AgentEnd(messages=messages):
                outcome, text = "finished", last_text_of(messages)
            case AgentError(error=error):
                outcome, text = "failed", f"{self._last_text}\n[It failed: {error.message}]"
            case AgentAbort(reason=reason):
                outcome, text = (
                    "aborted",
                    f"{self._last_text}\n[It was aborted: {reason or 'no reason given'}]",
                )
            case _:
                message = f"{type(event).__name__} ends no cycle"
                raise AssertionError(message)
        self.deliver(
            AgentIdled(
                at_ms=now_ms(),
                effect_id=self.effect.effect_id,
                outcome=outcome,
                text=clean_text(text.strip()),
                turns=self._turns,
                spent=spent_of(data.usage, data.ledger),
            )
        )
        self._last_text, self._turns = "", 0
