"""Exit reasons of an actor: a closed set of seven, made of text and numbers.

Nothing in here holds an exception, a traceback or a frame. Those keep the locals of every frame alive, and with
them prompts and keys, while a reason is kept for as long as a caller may query it. The useful facts are copied
as text.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final, Literal, TypeAlias, assert_never, get_args

from attrs import Attribute, field, frozen, validators

from agentrail.otp.guarded_calls import call_guarded, leaves, show
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
"""Limit on `Crashed.text`, in characters."""

TRACEBACK_LIMIT: Final = 20_000
"""Limit on `Crashed.traceback`, in characters."""

PARTS_LIMIT: Final = 50
"""Limit on `Crashed.parts`. A larger group keeps its first ones."""

CAUSES_LIMIT: Final = 50
"""Limit on nested causes of an `InitFailed`. A longer chain keeps the outermost ones and the root cause."""

InitFailure: TypeAlias = Literal["raised", "returned", "timeout", "stopped", "cancelled", "child"]
Redact: TypeAlias = Callable[[str], str]


def keep(text: str) -> str:
    """Return the text unchanged: the default redaction."""
    return text


def _is(*kinds: type) -> Any:
    # Exact types, same as for reasons: a subclass could bring its own code for hashing, comparing and
    # printing.
    def check(reason: object, attribute: "Attribute[Any]", value: object) -> None:
        if type(value) not in kinds:
            allowed = " or ".join(kind.__name__ for kind in kinds)
            message = f"{attribute.name} of {type(reason).__name__} is {show(value)}: expected {allowed}"
            raise TypeError(message)

    return check


def _are_parts(_: object, __: "Attribute[Any]", value: object) -> None:
    if type(value) is not tuple or any(type(part) is not Crashed or part.parts for part in value):
        message = f"parts of Crashed is {show(value)}, expected a tuple of Crashed without parts of their own"
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
        detail: Free text for the reason, such as "budget exhausted".
    """

    detail: str | None = field(default=None, validator=_is(str, type(None)))


@frozen
class Killed:
    """It was killed without a chance to clean up, or exceeded its shutdown time and then obeyed the kill."""


@frozen
class Crashed:
    """It raised an exception, or a machine broke a rule of its engine.

    Attributes:
        type: Qualified name of the exception's type, without `builtins`. For a broken rule the rule's name,
            such as `BadAction`.
        text: The message, at most `TEXT_LIMIT` characters.
        traceback: As Python prints it, without local variables, at most `TRACEBACK_LIMIT` characters; empty if
            nothing was raised.
        parts: The leaves of an exception group, from left to right, at any depth; at most `PARTS_LIMIT`.
        place: File and line where it was raised, or empty if nothing was raised. Excluded from comparison, because
            the traceback has the same information.
    """

    type: str = field(validator=_is(str))
    text: str = field(validator=_is(str))
    traceback: str = field(default="", validator=_is(str))
    parts: tuple["Crashed", ...] = field(default=(), validator=_are_parts)
    place: str = field(default="", validator=_is(str), eq=False)

    @classmethod
    def from_exception(cls, error: BaseException, *, redact: Redact = keep) -> "Crashed":
        """Copy the useful facts of an exception, as text.

        Args:
            error: Any exception. A group is flattened. Its own traceback still shows the nesting.
            redact: Receives a whole message or traceback and returns it without secrets. Called before anything
                is cut, because half a secret would not be recognised. If it raises, a placeholder replaces the
                text.

        Returns:
            A reason that refers neither to `error` nor to anything that `error` keeps alive.
        """
        parts: tuple[Crashed, ...] = ()
        if isinstance(error, BaseExceptionGroup):
            parts = tuple(cls._of_one(leaf, redact) for leaf in leaves(error)[:PARTS_LIMIT])
        return cls._of_one(error, redact, parts)

    @classmethod
    def of_rule(cls, name: str, text: str, *, redact: Redact = keep) -> "Crashed":
        """Return the crash for a broken rule without an exception; `redact` as for `from_exception`."""
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
        why: What happened instead. `child` if it is a supervisor that could not start one of its children.
        cause: Underlying reason, or `None`. With `child` it is the child's reason, so causes nest like the
            tree, at most `CAUSES_LIMIT` deep.
        child_id: Id of the failed child, with `child` only.
    """

    why: InitFailure = field(
        validator=validators.in_(("raised", "returned", "timeout", "stopped", "cancelled", "child"))
    )
    cause: "ExitReason | None" = field(default=None, validator=_is_cause)
    child_id: Hashable | None = field(default=None, validator=_is_hashable)

    def __attrs_post_init__(self) -> None:
        """Drop the middle of a long chain of causes, because comparing and printing recurse level by level."""
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
    """It did not obey the kill.

    Attributes:
        seconds: Time between the kill and its end, or the time without an end so far.
    """

    seconds: float = field(validator=_is(int, float))


ExitReason: TypeAlias = Normal | Shutdown | Killed | Crashed | InitFailed | NoProcess | Stuck
"""Closed: code that matches on it ends with `assert_never`."""

_REASONS: Final = frozenset(get_args(ExitReason))


class ActorExit(Exception):
    """Raise in a worker to end with a chosen reason. A machine returns `Stop(reason)` instead.

    Raises:
        TypeError: Your move: the value is not an exit reason.
    """

    def __init__(self, reason: ExitReason) -> None:
        check_reason(reason)
        super().__init__(describe(reason))
        self.reason = reason


def is_reason(value: object) -> bool:
    """Return whether this is one of the seven reasons. A user's own subclass is not, because the union is closed."""
    return type(value) in _REASONS


def check_reason(value: object) -> None:
    """Raise TypeError unless this is an exit reason. Code that compares, counts or prints reasons relies on this check.

    Raises:
        TypeError: Your move: the value is not an exit reason.
    """
    if not is_reason(value):
        message = f"an exit reason must be Normal(), Shutdown(detail), Killed(), Crashed(…) or another class of agentrail.otp.exits, got {show(value)}: for a text, use Shutdown(text)"
        raise TypeError(message)


def chosen_reason(leaving: ActorExit) -> ExitReason:
    """Return the reason of an `ActorExit`. If its `reason` was replaced later by another value, return a crash."""
    if is_reason(leaving.reason):
        return leaving.reason
    return Crashed.of_rule(
        "BadReason", f"ActorExit takes an exit reason, got {show(leaving.reason)}: use Shutdown(why)"
    )


def crash_of(reason: ExitReason | None) -> Crashed | None:
    """Return the crash that ended an actor, in its life or in its own start, or `None` if it ended for another reason."""
    if isinstance(reason, InitFailed) and reason.why == "raised":
        reason = reason.cause
    return reason if isinstance(reason, Crashed) else None


def is_clean(reason: ExitReason) -> bool:
    """Return whether this end is not a failure: it does not restart a `transient` child."""
    return isinstance(reason, Normal | Shutdown)


def describe(reason: ExitReason) -> str:
    """Return the reason in one line, for a log: no line breaks or control characters, causes and parts included."""
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
            return f"stuck: did not stop within {seconds:g} s"
        case _:
            assert_never(reason)


def _qualified_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _redacted(text: str, redact: Redact) -> str:
    # A bug in it must not end an actor or leak the text. `join` raises for a result that is not text, such as None.
    return call_guarded(_withhold, lambda: "".join((redact(text),)))


def _withhold(error: BaseException) -> str:
    return f"<withheld: redact raised {_qualified_name(error)}>"


def _cut(text: str, limit: int) -> str:
    """Cut the middle of a long text: a traceback begins with the place and ends with the error."""
    if len(text) <= limit:
        return text
    mark = f"\n[... {len(text)} characters, cut to {limit} ...]\n"
    head = (limit - len(mark)) // 2
    return text[:head] + mark + text[len(text) - (limit - len(mark) - head) :]


def _one_line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
