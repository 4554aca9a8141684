"""Why an actor ended: seven reasons, closed, made of text and numbers.

Nothing in here holds an exception, a traceback or a frame. They keep the locals of every frame alive, and with them
prompts and keys; a reason is kept for as long as somebody may ask for it. What is worth knowing is copied as text.
"""

import traceback
from collections.abc import Callable, Hashable
from typing import Final, Literal, TypeAlias, assert_never

from attrs import field, frozen, validators

from agentrail.otp.edges import contain

TEXT_LIMIT: Final = 2_000
"""The longest `Crashed.text`, in characters."""

TRACEBACK_LIMIT: Final = 20_000
"""The longest `Crashed.traceback`, in characters."""

InitFailure: TypeAlias = Literal["raised", "returned", "timeout", "stopped", "cancelled", "child"]
Redact: TypeAlias = Callable[[str], str]


def keep(text: str) -> str:
    """Redact nothing: the text as it is."""
    return text


@frozen
class Normal:
    """It returned, or stopped itself without a reason. Clean."""


@frozen
class Shutdown:
    """It was asked to end, or ended on purpose. Clean.

    Attributes:
        detail: Why, in its own words: "budget exhausted".
    """

    detail: str | None = None


@frozen
class Killed:
    """It was ended without grace, or overran its shutdown time and then obeyed."""


@frozen
class Crashed:
    """An exception left it, or a machine broke a rule of its engine.

    Attributes:
        type: Qualified name of the exception's type, without `builtins`; of a broken rule its name: `BadAction`.
        text: The message, at most `TEXT_LIMIT` characters.
        traceback: As Python prints it, without local variables, at most `TRACEBACK_LIMIT` characters; empty if
            nothing was raised.
        parts: Of an exception group all its leaves, from left to right, however deep they were.
    """

    type: str
    text: str
    traceback: str = ""
    parts: tuple["Crashed", ...] = ()

    @classmethod
    def from_exception(cls, error: BaseException, *, redact: Redact = keep) -> "Crashed":
        """Copy what is worth knowing about an exception, as text.

        Args:
            error: Any exception. A group is flattened; its own traceback still shows how it was nested.
            redact: Takes a whole message or traceback and returns it without secrets. Called before anything is
                cut off, since half a secret is not recognised. If it raises, a placeholder stands for the text.

        Returns:
            A reason that refers neither to `error` nor to anything that `error` holds on to.
        """
        parts: tuple[Crashed, ...] = ()
        if isinstance(error, BaseExceptionGroup):
            parts = tuple(cls._of_one(leaf, redact) for leaf in leaves(error))
        return cls._of_one(error, redact, parts)

    @classmethod
    def of_rule(cls, name: str, text: str, *, redact: Redact = keep) -> "Crashed":
        """Name the rule that was broken, where nothing was raised; `redact` as for `from_exception`."""
        return cls(type=name, text=_cut(_redacted(text, redact), TEXT_LIMIT))

    @classmethod
    def _of_one(cls, error: BaseException, redact: Redact, parts: tuple["Crashed", ...] = ()) -> "Crashed":
        # Not `str(error)`: this one survives a `__str__` that raises.
        printable = traceback.TracebackException.from_exception(error, capture_locals=False)
        _drop_columns(printable)
        return cls(
            type=_qualified_name(error),
            text=_cut(_redacted(str(printable), redact), TEXT_LIMIT),
            traceback=_cut(_redacted("".join(printable.format()), redact), TRACEBACK_LIMIT),
            parts=parts,
        )


@frozen
class InitFailed:
    """It never started.

    Attributes:
        why: What happened instead; `child`, if it is a supervisor that could not start one of its children.
        cause: The reason behind it, if there is one. With `child` it is the child's, so causes nest like the tree.
        child_id: The culprit, with `child` only.
    """

    why: InitFailure = field(
        validator=validators.in_(("raised", "returned", "timeout", "stopped", "cancelled", "child"))
    )
    cause: "ExitReason | None" = None
    child_id: Hashable | None = None


@frozen
class NoProcess:
    """There was nobody to begin with. Only in `Down` and in errors: no actor ends like this."""


@frozen
class Stuck:
    """It did not even obey the kill.

    Attributes:
        seconds: How long after the kill it ended, or how long it had not ended when this was said.
    """

    seconds: float


ExitReason: TypeAlias = Normal | Shutdown | Killed | Crashed | InitFailed | NoProcess | Stuck
"""Closed: whoever matches on it ends with `assert_never`."""


class ActorExit(Exception):
    """Raised by a worker to end with a chosen reason; a machine returns `Stop(reason)` instead."""

    def __init__(self, reason: ExitReason) -> None:
        super().__init__(describe(reason))
        self.reason = reason


def is_clean(reason: ExitReason) -> bool:
    """Tell whether this end is no failure: it restarts no `transient` child."""
    return isinstance(reason, Normal | Shutdown)


def describe(reason: ExitReason) -> str:
    """Say it in one line, for a log: no line breaks, no control characters, causes and parts included."""
    match reason:
        case Normal():
            return "normal"
        case Shutdown(detail=None):
            return "shutdown"
        case Shutdown(detail=detail):
            return f"shutdown: {_one_line(str(detail))}"
        case Killed():
            return "killed"
        case Crashed(type=name, text=text, parts=parts):
            said = f"crashed: {name}: {_one_line(text)}" if text else f"crashed: {name}"
            return f"{said} [{'; '.join(describe(part) for part in parts)}]" if parts else said
        case InitFailed(why=why, cause=cause, child_id=child_id):
            said = (
                f"init failed: child {_one_line(repr(child_id))}" if why == "child" else f"init failed: {why}"
            )
            return said if cause is None else f"{said}: {describe(cause)}"
        case NoProcess():
            return "no process"
        case Stuck(seconds=seconds):
            return f"stuck: had not obeyed the kill after {seconds:g} s"
        case _:
            assert_never(reason)


def leaves(error: BaseException) -> tuple[BaseException, ...]:
    """Return the exceptions in a group, from left to right; of anything else the exception itself.

    A nursery wraps even one failure in a group, and `except Exception` does not see what is inside: who judges an
    exception asks its leaves.
    """
    found: list[BaseException] = []
    waiting = [error]
    while waiting:
        current = waiting.pop()
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(reversed(current.exceptions))
        else:
            found.append(current)
    return tuple(found)


def _drop_columns(printable: traceback.TracebackException) -> None:
    # Without them no carets are drawn, for which Python would parse the line of each frame again: half of what it costs
    # to turn a crash into data, while a supervisor waits.
    for frame in printable.stack:
        frame.colno = None
    for other in (printable.__cause__, printable.__context__, *(printable.exceptions or ())):
        if other is not None:
            _drop_columns(other)


def _qualified_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _redacted(text: str, redact: Redact) -> str:
    return contain(_withhold, redact, text)  # neither may its bug end an actor, nor the text get out


def _withhold(error: Exception) -> str:
    return f"<withheld: redact raised {_qualified_name(error)}>"


def _cut(text: str, limit: int) -> str:
    """Take the middle out of what is too long: a traceback begins with the place and ends with the error."""
    if len(text) <= limit:
        return text
    mark = f"\n[... {len(text)} characters, cut to {limit} ...]\n"
    head = (limit - len(mark)) // 2
    return text[:head] + mark + text[len(text) - (limit - len(mark) - head) :]


def _one_line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
