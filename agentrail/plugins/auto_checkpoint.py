"""`AutoCheckpoint`: says when a session is worth coming back to, and which of the older such places can go.

A plugin stores nothing. It publishes the plugin event `checkpoint`, whose number in the session is the place; the host that
keeps journals keeps that place, and lets go of those in `dropped`.
"""

from collections.abc import Sequence
from typing import Final

import attrs

from agentrail.core.protocol.actions import Action, Continue
from agentrail.core.protocol.hooks import AfterTool, AfterTurn
from agentrail.core.stack.plugin import Context
from agentrail.plugins.base import Plugin, on

EVENTS: Final = ("finished", "aborted", "tool_failed")
"""What `on_events` takes: how a cycle ended, and that a call failed."""


@attrs.frozen(kw_only=True)
class Mark:
    """A checkpoint that is kept.

    Attributes:
        id: Its name, unique in the session.
        at_ms: When it was made.
    """

    id: str
    at_ms: int


@attrs.frozen(kw_only=True)
class Marks:
    """When to make checkpoints, and those that are kept.

    Attributes:
        every_n_turns: After so many turns, at the end of the cycle; 0 for never.
        on_tools: After each call of these that went well.
        on_events: On these of `EVENTS`.
        max_checkpoints: So many are kept at most.
        ttl_ms: How long each is kept.
        turns: Since the last one at the end of a cycle.
        count: How many there were so far; numbers them.
        kept: Those that no host was told to drop, oldest first.
    """

    every_n_turns: int
    on_tools: frozenset[str]
    on_events: frozenset[str]
    max_checkpoints: int
    ttl_ms: int
    turns: int = 0
    count: int = 0
    kept: tuple[Mark, ...] = ()


class AutoCheckpoint(Plugin[Marks]):
    """Publishes `checkpoint` after every so many turns, after the calls that you name, and says which ones can go."""

    priority = 700

    def init(
        self,
        *,
        every_n_turns: int = 10,
        on_tools: Sequence[str] = (),
        on_events: Sequence[str] = (),
        max_checkpoints: int = 50,
        ttl_seconds: float = 2_592_000,
    ) -> Marks:
        """Take when to make one, and for how long each is kept.

        Raises:
            ValueError: Your move: an event that there is not, or a number that is too small.
        """
        unknown = sorted(set(on_events) - set(EVENTS))
        if unknown:
            message = f"on_events takes {', '.join(EVENTS)}; got {', '.join(unknown)}"
            raise ValueError(message)
        if every_n_turns < 0 or max_checkpoints < 1 or ttl_seconds <= 0:
            message = (
                "every_n_turns is 0 or more, max_checkpoints 1 or more, ttl_seconds more than 0; got "
                f"{every_n_turns}, {max_checkpoints}, {ttl_seconds}"
            )
            raise ValueError(message)
        return Marks(
            every_n_turns=every_n_turns,
            on_tools=frozenset(on_tools),
            on_events=frozenset(on_events),
            max_checkpoints=max_checkpoints,
            ttl_ms=round(ttl_seconds * 1000),
        )

    @on(AfterTurn)
    def after_turn(self, event: AfterTurn, marks: Marks, ctx: Context) -> Action[Marks]:
        """Count the turns of the cycle; a checkpoint in the middle of one would be a place with calls open."""
        marks = attrs.evolve(marks, turns=marks.turns + ctx.turn)
        if 0 < marks.every_n_turns <= marks.turns:
            why = f"{marks.turns} turns"
        elif event.outcome in marks.on_events:
            why = event.outcome
        else:
            return Continue(marks)
        return _checkpoint(attrs.evolve(marks, turns=0), why, ctx)

    @on(AfterTool)
    def after_tool(self, event: AfterTool, marks: Marks, ctx: Context) -> Action[Marks]:
        """Mark what a call did at once: that is what one wants to come back to, or to before it."""
        failed = event.result.is_error
        is_due = "tool_failed" in marks.on_events if failed else event.name in marks.on_tools
        return _checkpoint(marks, f"tool {event.name}", ctx) if is_due else Continue(marks)


def _checkpoint(marks: Marks, why: str, ctx: Context) -> Action[Marks]:
    count = marks.count + 1
    made = Mark(id=f"{ctx.session_id}-{count}", at_ms=ctx.now_ms)
    alive = [mark for mark in marks.kept if mark.at_ms + marks.ttl_ms > ctx.now_ms]
    kept = (*alive, made)[-marks.max_checkpoints :]
    said = {
        "id": made.id,
        "reason": why,
        "at_ms": made.at_ms,
        "expires_at_ms": made.at_ms + marks.ttl_ms,
        "turn": ctx.turn,
        "messages": len(ctx.messages),
        "total_tokens": ctx.total_tokens,
        "dropped": [mark.id for mark in marks.kept if mark not in kept],
    }
    return Continue(attrs.evolve(marks, count=count, kept=kept), emits=(("checkpoint", said),))
