"""What an actor raised, as its exit reason; and what of it may not end there."""

from collections.abc import Callable

import trio

from agentrail.otp.edges import leaves
from agentrail.otp.exits import ActorExit, Crashed, ExitReason, Redact, chosen_reason


def reason_of_raised(
    error: BaseException, redact: Redact, interrupt: Callable[[BaseException], None]
) -> tuple[ExitReason | None, trio.Cancelled | None]:
    """Take apart what was caught at the edge of an actor.

    Only Trio's own cancellation, `KeyboardInterrupt` and `SystemExit` may leave. Whatever else is no `Exception` is a
    crash like any other. Not by `BaseExceptionGroup.split`: that walks every path to every leaf.

    Args:
        error: Any exception.
        redact: Takes secrets out of texts.
        interrupt: Takes a `KeyboardInterrupt` or `SystemExit`, which leaves by way of the root of the tree.

    Returns:
        How the actor ended by what it raised, `None` if that was only cancelled; and the cancellation, to be raised.
    """
    parts = leaves(error)
    for part in parts:
        if isinstance(part, KeyboardInterrupt | SystemExit):
            interrupt(part)
    cancelled = next((part for part in parts if isinstance(part, trio.Cancelled)), None)
    if cancelled is not None:
        parts = tuple(part for part in parts if not isinstance(part, trio.Cancelled))
        if not parts:
            return None, cancelled
        error = parts[0] if len(parts) == 1 else BaseExceptionGroup("beside a cancellation", parts)
    first = parts[0]
    if isinstance(first, ActorExit) and all(isinstance(part, ActorExit) for part in parts):
        return chosen_reason(first), cancelled
    return Crashed.from_exception(error, redact=redact), cancelled
