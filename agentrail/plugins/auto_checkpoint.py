"""`AutoCheckpoint`: marks points of a session that are worth returning to, and lists the old ones to drop."""

from collections.abc import Sequence
from typing import Final

import attrs

from agentrail.core.protocol.actions import Action, Continue
from agentrail.core.protocol.hooks import AfterTool, AfterTurn
from agentrail.core.stack.plugin import Context
from agentrail.plugins.base import Plugin, on

EVENTS: Final = ("finished", "aborted", "tool_failed")
"""Values for `on_events`: the end of a cycle, or a failed call."""


@attrs.frozen(kw_only=True)
class Mark:
    id: str
    at_ms: int


@attrs.frozen(kw_only=True)
class Marks:
    """When to make checkpoints, and the checkpoints that are kept.

    Attributes:
        every_n_turns: Number of turns between checkpoints, made at the end of the cycle. 0 for never.
        kept: Checkpoints that the host was not asked to drop, oldest first.
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
    """Publishes `checkpoint` after a number of turns and after named calls, and lists the checkpoints to drop."""

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
        """Set when to make checkpoints, and how long to keep each.

        Raises:
            ValueError: Your move: an unknown event, or a number that is too small.
        """
        unknown = sorted(set(on_events) - set(EVENTS))
        if unknown:
            message = f"on_events must be some of {', '.join(EVENTS)}; got {', '.join(unknown)}"
            raise ValueError(message)
        if every_n_turns < 0 or max_checkpoints < 1 or ttl_seconds <= 0:
            message = (
                "every_n_turns must be 0 or more, max_checkpoints 1 or more, ttl_seconds more than 0; got "
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
        """Count the turns of the cycle. A checkpoint in the middle of a cycle would have open calls."""
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
        """Mark the effect of a call at once: users return to this point, or to the point before it."""
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
