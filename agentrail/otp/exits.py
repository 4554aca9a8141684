"""Why an actor ended: seven reasons, closed, made of text and numbers.

Nothing in here holds an exception, a traceback or a frame. They keep the locals of every frame alive, and with them
prompts and keys; a reason is kept for as long as a caller may ask for it. What is worth knowing is copied as text.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final, Literal, TypeAlias, assert_never, get_args

from attrs import Attribute, field, frozen, validators

from agentrail.otp.edges import call_guarded, leaves, show
from agentrail.otp.tracebacks import innermost_line, message_of, print_exception

__all__ = [
    "CAUSES_LIMIT",
    "PARTS_LIMIT",
    "TEXT_LIMIT",
    "TRACEBACK_LIMIT",
    "ActorExit",
    "Crashed",
    "ExitReason",
    "InitFailed",
    "InitFailure",
    "Killed",
    "NoProcess",
    "Normal",
    "Redact",
    "Shutdown",
    "Stuck",
    "check_reason",
    "chosen_reason",
    "crash_of",
    "describe",
    "is_clean",
    "is_reason",
    "keep",
    "leaves",
]

TEXT_LIMIT: Final = 2_000
"""The longest `Crashed.text`, in characters."""

TRACEBACK_LIMIT: Final = 20_000
"""The longest `Crashed.traceback`, in characters."""

PARTS_LIMIT: Final = 50
"""The most `Crashed.parts`; of a larger group the first ones."""

CAUSES_LIMIT: Final = 50
"""The most causes behind one `InitFailed`; of more the outermost, and the one that all began with."""

InitFailure: TypeAlias = Literal["raised", "returned", "timeout", "stopped", "cancelled", "child"]
Redact: TypeAlias = Callable[[str], str]


def keep(text: str) -> str:
    """Redact nothing: the text as it is."""
    return text


def _is(*kinds: type) -> Any:
    # Exact types, as for reasons: what is hashed, compared and printed by others may bring no code of its own.
    def check(reason: object, attribute: "Attribute[Any]", value: object) -> None:
        if type(value) not in kinds:
            allowed = " or ".join(kind.__name__ for kind in kinds)
            message = f"{attribute.name} of {type(reason).__name__} is {show(value)}, allowed is {allowed}"
            raise TypeError(message)

    return check


def _are_parts(_: object, __: "Attribute[Any]", value: object) -> None:
    if type(value) is not tuple or any(type(part) is not Crashed or part.parts for part in value):
        message = f"parts of Crashed is {show(value)}, allowed is a tuple of Crashed that have no parts of their own"
        raise TypeError(message)


def _is_cause(_: object, __: "Attribute[Any]", value: object) -> None:
    if value is not None:
        check_reason(value)


def _is_hashable(_: object, __: "Attribute[Any]", value: object) -> None:
    hash(value)


@frozen
class Normal:
    """It returned, or stopped itself without a reason. Clean."""


@frozen
class Shutdown:
    """It was asked to end, or ended on purpose. Clean.

    Attributes:
        detail: Why, in its own words: "budget exhausted".
    """

    detail: str | None = field(default=None, validator=_is(str, type(None)))


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
        parts: Of an exception group its leaves, from left to right, however deep they were; at most `PARTS_LIMIT`.
        place: File and line where it was raised; empty if nothing was. It says no more than the traceback does, so two
            crashes that differ in nothing else are equal.
    """

    type: str = field(validator=_is(str))
    text: str = field(validator=_is(str))
    traceback: str = field(default="", validator=_is(str))
    parts: tuple["Crashed", ...] = field(default=(), validator=_are_parts)
    place: str = field(default="", validator=_is(str), eq=False)

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
            parts = tuple(cls._of_one(leaf, redact) for leaf in leaves(error)[:PARTS_LIMIT])
        return cls._of_one(error, redact, parts)

    @classmethod
    def of_rule(cls, name: str, text: str, *, redact: Redact = keep) -> "Crashed":
        """Name the rule that was broken, where nothing was raised; `redact` as for `from_exception`."""
        return cls(type=name, text=_cut(_redacted(text, redact), TEXT_LIMIT))

    @classmethod
    def _of_one(cls, error: BaseException, redact: Redact, parts: tuple["Crashed", ...] = ()) -> "Crashed":
        return cls(
            type=_qualified_name(error),
            text=_cut(_redacted(message_of(error), redact), TEXT_LIMIT),
            traceback=_cut(_redacted(print_exception(error), redact), TRACEBACK_LIMIT),
            parts=parts,
            place=_redacted(innermost_line(error), redact),
        )


@frozen
class InitFailed:
    """It never started.

    Attributes:
        why: What happened instead; `child`, if it is a supervisor that could not start one of its children.
        cause: The reason behind it, if there is one. With `child` it is the child's, so causes nest like the tree; at
            most `CAUSES_LIMIT` deep.
        child_id: The culprit, with `child` only.
    """

    why: InitFailure = field(
        validator=validators.in_(("raised", "returned", "timeout", "stopped", "cancelled", "child"))
    )
    cause: "ExitReason | None" = field(default=None, validator=_is_cause)
    child_id: Hashable | None = field(default=None, validator=_is_hashable)

    def __attrs_post_init__(self) -> None:
        """Leave out the causes in the middle of too many: what compares and prints them walks down, level by level."""
        behind, depth = self.cause, 0
        while isinstance(behind, InitFailed):
            behind, depth = behind.cause, depth + 1
        if depth >= CAUSES_LIMIT:
            object.__setattr__(self, "cause", behind)


@frozen
class NoProcess:
    """There was no actor to begin with. Only in `Down` and in errors: no actor ends like this."""


@frozen
class Stuck:
    """It did not even obey the kill.

    Attributes:
        seconds: How long after the kill it ended, or how long it had not ended when this was said.
    """

    seconds: float = field(validator=_is(int, float))


ExitReason: TypeAlias = Normal | Shutdown | Killed | Crashed | InitFailed | NoProcess | Stuck
"""Closed: a caller that matches on it ends with `assert_never`."""

_REASONS: Final = frozenset(get_args(ExitReason))


class ActorExit(Exception):
    """Raised by a worker to end with a chosen reason; a machine returns `Stop(reason)` instead.

    Raises:
        TypeError: Your move: that is no exit reason.
    """

    def __init__(self, reason: ExitReason) -> None:
        check_reason(reason)
        super().__init__(describe(reason))
        self.reason = reason


def is_reason(value: object) -> bool:
    """Tell whether this is one of the seven: a class of the user's own is none, since the union is closed."""
    return type(value) in _REASONS


def check_reason(value: object) -> None:
    """Refuse what is no exit reason, where it is given: what compares, counts or prints reasons takes them as they are.

    Raises:
        TypeError: Your move.
    """
    if not is_reason(value):
        message = (
            f"an exit reason is one of Normal(), Shutdown(detail), Killed(), Crashed(…) and the other three of "
            f"agentrail.otp.exits, got {show(value)}: Shutdown(why) says it in words"
        )
        raise TypeError(message)


def chosen_reason(leaving: ActorExit) -> ExitReason:
    """Return the reason that an actor left with; what was put in its place later, and is none, is a crash."""
    if is_reason(leaving.reason):
        return leaving.reason
    return Crashed.of_rule(
        "BadReason", f"ActorExit takes an exit reason, got {show(leaving.reason)}: Shutdown(why)"
    )


def crash_of(reason: ExitReason | None) -> Crashed | None:
    """Return the crash that an actor ended with, in its life or in its own start; `None` if that is not why it ended."""
    if isinstance(reason, InitFailed) and reason.why == "raised":
        reason = reason.cause
    return reason if isinstance(reason, Crashed) else None


def is_clean(reason: ExitReason) -> bool:
    """Tell whether this end is no failure: it restarts no `transient` child."""
    return isinstance(reason, Normal | Shutdown)


def describe(reason: ExitReason) -> str:
    """Say it in one line, for a log: no line breaks, no control characters, causes and parts included."""
    match reason:
        case Normal():
            return "normal"
        case Shutdown(detail=str(detail)):
            return f"shutdown: {_one_line(detail)}"
        case Shutdown():
            return "shutdown"
        case Killed():
            return "killed"
        case Crashed(type=name, text=text, parts=parts, place=place):
            said = f"crashed: {name}: {_one_line(text)}" if text else f"crashed: {name}"
            if parts:
                return f"{said} [{'; '.join(describe(part) for part in parts)}]"
            return f"{said} ({_one_line(place)})" if place else said
        case InitFailed(why=why, cause=cause, child_id=child_id):
            said = (
                f"init failed: child {_one_line(show(child_id))}" if why == "child" else f"init failed: {why}"
            )
            return said if cause is None else f"{said}: {describe(cause)}"
        case NoProcess():
            return "no process"
        case Stuck(seconds=seconds):
            return f"stuck: had not obeyed the kill after {seconds:g} s"
        case _:
            assert_never(reason)


def _qualified_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _redacted(text: str, redact: Redact) -> str:
    return call_guarded(_withhold, redact, text)  # neither may its bug end an actor, nor the text get out


def _withhold(error: BaseException) -> str:
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
