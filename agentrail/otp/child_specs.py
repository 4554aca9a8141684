"""Child specs and supervisor flags, and the checks that reject them before anything starts."""

import copy
import enum
import operator
import sys
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from difflib import get_close_matches
from typing import Final, Literal, NoReturn, TypeAlias, TypeGuard, cast, get_args

from attrs import evolve, field, fields, frozen

from agentrail.errors import InvalidSpec
from agentrail.otp.guarded_calls import call_guarded, is_coroutine_function, is_plain_function, show

Restart: TypeAlias = Literal["permanent", "transient", "temporary"]
ChildKind: TypeAlias = Literal["worker", "supervisor"]
ShutdownTime: TypeAlias = float | Literal["brutal_kill", "infinity"]
StartTimeout: TypeAlias = float | Literal["infinity"]
Strategy: TypeAlias = Literal["one_for_one", "one_for_all", "rest_for_one", "dynamic"]
AutoShutdown: TypeAlias = Literal["never", "any_significant", "all_significant"]
IntensityPer: TypeAlias = Literal["supervisor", "child"]

_RESTARTS: Final = get_args(Restart)
_KINDS: Final = get_args(ChildKind)


# --- start functions


@frozen
class Arguments:
    """Arguments of a child's start function."""

    positional: tuple[object, ...] = ()
    keyword: Mapping[str, object] = field(factory=dict)

    def copied(self) -> "Arguments":
        """Return a copy with its own built-in containers at any depth. All other objects are shared on purpose."""
        if not self.positional and not self.keyword:
            return self
        seen: dict[int, object] = {}
        positional = tuple([_copied(value, seen) for value in self.positional])
        if not self.keyword and all(map(operator.is_, positional, self.positional)):  # nothing to copy
            return self
        return Arguments(positional, {name: _copied(value, seen) for name, value in self.keyword.items()})


NO_ARGUMENTS: Final = Arguments()


@frozen
class StartRecipe:
    """A start function with its arguments. `agentrail.actors` creates recipes. This module never calls them.

    Attributes:
        function: Function to call.
        arguments: Arguments of the call.
        kind: Default `kind` of a child spec with this recipe: `supervisor` for a subtree.
    """

    function: Callable[..., object]
    arguments: Arguments = NO_ARGUMENTS
    kind: ChildKind = "worker"


StartFunction: TypeAlias = StartRecipe | Callable[..., Awaitable[object]]


# --- specs and flags


class _Default(enum.Enum):
    """Marks a value that was not given. Its default depends on the kind of child."""

    DEFAULT = "default"


@frozen(init=False)
class ChildSpec:
    """Specification of a child. Every function that takes one also accepts a mapping with the same keys.

    Attributes:
        id: Name of the child at this supervisor. For a child of a dynamic supervisor it is only a label.
        start: How to start it: a recipe, or an async function, which makes it a worker.
        restart: `permanent` is restarted after any end, `transient` after an abnormal one, `temporary` never.
        significant: Whether its end can end the supervisor; see `SupervisorFlags.auto_shutdown`.
        shutdown_seconds: Time limit for a stop before the child is killed. `brutal_kill` does not ask first,
            `infinity` never kills. Default: 5, or `infinity` for a supervisor.
        kind: Worker or supervisor. Default: the recipe's kind, otherwise `worker`.
        start_timeout_seconds: Time limit for a start. Default: 30, or `infinity` for a supervisor.

    Raises:
        InvalidSpec: Your move: a field has an invalid value. `code` and `field` identify it.
    """

    id: Hashable
    start: StartFunction
    restart: Restart
    significant: bool
    shutdown_seconds: ShutdownTime
    kind: ChildKind
    start_timeout_seconds: StartTimeout

    def __init__(  # noqa: PLR0913, PLR0917 - the seven keys of a child spec, as in OTP
        self,
        id: Hashable,  # noqa: A002 - OTP's name for it, and the key of a mapping
        start: StartFunction,
        restart: Restart = "permanent",
        significant: bool = False,  # noqa: FBT001, FBT002 - a field of a record
        shutdown_seconds: ShutdownTime | _Default = _Default.DEFAULT,
        kind: ChildKind | _Default = _Default.DEFAULT,
        start_timeout_seconds: StartTimeout | _Default = _Default.DEFAULT,
    ) -> None:
        """Check the fields in order and set the defaults that depend on the kind."""
        _check_id(id)
        _check_start(start)
        _check_choice("restart", restart, _RESTARTS)
        if not isinstance(significant, bool):
            _refuse("significant", significant, "True or False")
        if kind is _Default.DEFAULT:
            kind = start.kind if isinstance(start, StartRecipe) else "worker"
        _check_choice("kind", kind, _KINDS)
        supervises = kind == "supervisor"
        if shutdown_seconds is _Default.DEFAULT:
            shutdown_seconds = "infinity" if supervises else 5.0
        elif not (shutdown_seconds in ("brutal_kill", "infinity") or is_amount(shutdown_seconds)):
            allowed = "seconds >= 0, 'brutal_kill' or 'infinity'"
            _refuse("shutdown_seconds", shutdown_seconds, allowed, code="invalid_shutdown")
        if start_timeout_seconds is _Default.DEFAULT:
            start_timeout_seconds = "infinity" if supervises else 30.0
        elif not (start_timeout_seconds == "infinity" or is_amount(start_timeout_seconds, above_zero=True)):
            allowed = "seconds above 0 or 'infinity'"
            _refuse("start_timeout_seconds", start_timeout_seconds, allowed, code="invalid_start_timeout")
        values = (id, start, restart, significant, shutdown_seconds, kind, start_timeout_seconds)
        self.__attrs_init__(*values)

    def without_arguments(self) -> "ChildSpec":
        """Return this spec without the arguments of its start function."""
        if isinstance(self.start, StartRecipe) and self.start.arguments != NO_ARGUMENTS:
            return self._started_by(evolve(self.start, arguments=NO_ARGUMENTS))
        return self

    def accepted(self) -> "ChildSpec":
        """Return this spec with its own copy of the arguments, which no other code can change."""
        if isinstance(self.start, StartRecipe):
            own = self.start.arguments.copied()
            if own is not self.start.arguments:
                return self._started_by(evolve(self.start, arguments=own))
        return self

    def _started_by(self, start: StartRecipe) -> "ChildSpec":
        spec = object.__new__(ChildSpec)  # its other fields were checked
        spec.__attrs_init__(
            self.id,
            start,
            self.restart,
            self.significant,
            self.shutdown_seconds,
            self.kind,
            self.start_timeout_seconds,
        )
        return spec


@frozen
class Backoff:
    """Wait before a restart: `min(maximum, initial * factor**n) * (1 + jitter * draw)` after n restarts in a row.

    Attributes:
        initial_seconds: The first wait, above 0.
        maximum_seconds: The longest wait without jitter, at least `initial_seconds`.
        factor: Growth of each wait over the previous one, at least 1.
        jitter: Largest share that a random draw adds, from 0 to 1.
        reset_after_seconds: Running time after which the count of restarts in a row resets. `None`: the mean of
            initial and maximum.
    """

    initial_seconds: float = 0.2
    maximum_seconds: float = 30.0
    factor: float = 2.0
    jitter: float = 0.2
    reset_after_seconds: float | None = None

    def __attrs_post_init__(self) -> None:
        first, most = is_amount(self.initial_seconds, above_zero=True), is_amount(self.maximum_seconds)
        is_longer = first and most and self.maximum_seconds >= self.initial_seconds
        resets = self.reset_after_seconds is None or is_amount(self.reset_after_seconds)
        checks = (
            ("initial_seconds", first, "seconds above 0"),
            ("maximum_seconds", is_longer, "seconds from initial_seconds"),
            ("factor", is_amount(self.factor) and self.factor >= 1, "a number from 1"),
            ("jitter", is_amount(self.jitter) and self.jitter <= 1, "a number from 0 to 1"),
            ("reset_after_seconds", resets, "seconds >= 0, or None"),
        )
        for name, is_right, allowed in checks:
            if not is_right:
                _refuse(name, getattr(self, name), allowed, code="invalid_backoff")


@frozen
class SupervisorFlags:
    """Settings of a supervisor.

    Attributes:
        strategy: Children affected by an exit. `one_for_one`: only that child. `one_for_all`: all children.
            `rest_for_one`: that child and those after it. `dynamic`: instances of one template, identified by
            their handles.
        intensity: Restarts allowed within `period_seconds`. One more makes the supervisor give up.
        period_seconds: Length of the period, finite and above 0. A restart exactly that old still counts.
        auto_shutdown: Which ends of significant children end the supervisor.
        backoff: Wait before restarts, or `None` for no wait.
        max_children: Limit on children at a time for a dynamic supervisor, including children being restarted.
        stuck_after_seconds: Time after a kill at which a child that is still running counts as `stuck`.
        stop_within_seconds: Time limit for a stop that was forced by a cancellation from outside.
        intensity_per: Scope of the restart count. `child`, for a dynamic supervisor only: each child has its
            own budget, and a child that exceeds it is given up alone. The effect is that of a separate
            supervisor with these flags above each child, without the memory of ten thousand supervisors.

    Raises:
        InvalidSpec: Your move: a flag has an invalid value.
    """

    strategy: Strategy
    intensity: int = 3
    period_seconds: float = 5.0
    auto_shutdown: AutoShutdown = "never"
    backoff: Backoff | None = None
    max_children: int | None = None
    stuck_after_seconds: float = 1.0
    stop_within_seconds: float = 60.0
    intensity_per: IntensityPer = "supervisor"

    def __attrs_post_init__(self) -> None:
        _check_choice("strategy", self.strategy, get_args(Strategy))
        if not is_whole(self.intensity, at_least=0):
            _refuse("intensity", self.intensity, "an integer >= 0")
        if not is_seconds(self.period_seconds, above_zero=True):
            _refuse("period_seconds", self.period_seconds, "finite seconds above 0", code="invalid_period")
        _check_choice("auto_shutdown", self.auto_shutdown, get_args(AutoShutdown))
        if not isinstance(self.backoff, Backoff | None):
            _refuse("backoff", self.backoff, "a Backoff or None")
        if self.max_children is not None and not is_whole(self.max_children, at_least=1):
            _refuse("max_children", self.max_children, "an integer >= 1, or None")
        if self.max_children is not None and self.strategy != "dynamic":
            allowed = f"None with strategy {self.strategy!r}: only a 'dynamic' supervisor limits its children"
            _refuse("max_children", self.max_children, allowed)
        stuck, within = self.stuck_after_seconds, self.stop_within_seconds
        if not is_amount(stuck):
            _refuse("stuck_after_seconds", stuck, "seconds >= 0", code="invalid_stuck_after")
        if not is_amount(within, above_zero=True):
            _refuse("stop_within_seconds", within, "seconds above 0", code="invalid_stop_within")
        _check_choice("intensity_per", self.intensity_per, get_args(IntensityPer))
        if self.intensity_per == "child" and self.strategy != "dynamic":
            allowed = f"'supervisor' with strategy {self.strategy!r}: only a 'dynamic' supervisor counts restarts for each child"
            _refuse("intensity_per", self.intensity_per, allowed)


Spec: TypeAlias = ChildSpec | Mapping[str, object]
"""A child spec, or a mapping with the same keys."""


# --- the check


def check_child_specs(
    specs: Iterable[Spec], *, flags: SupervisorFlags | None = None
) -> tuple[ChildSpec, ...]:
    """Check specs as a supervisor would before it starts any of them: each alone, then all together.

    Args:
        specs: Child specs, or mappings with the same keys.
        flags: Flags of the supervisor. Without them, rules that depend on the flags are not checked.

    Returns:
        The specs, with all defaults.

    Raises:
        InvalidSpec: Your move: a spec is invalid. Only the first error is reported. `code` and `field` identify
            it.

    Source: OTP, supervisor:check_childspecs/2.
    """
    checked = checked_specs(specs)
    if len(checked) == 1 and not checked[0].significant:  # a single spec, as in most calls
        return checked
    seen: set[Hashable] = set()
    for spec in checked:
        if spec.id in seen:
            message = f"two child specs have the id {show(spec.id)}: ids must be unique"
            raise InvalidSpec(message, code="duplicate_id", field="id")
        seen.add(spec.id)
    for spec in checked:
        _check_significant(spec, flags)
    if flags is not None and flags.strategy == "dynamic" and len(checked) != 1:
        message = f"a 'dynamic' supervisor takes exactly one child spec, its template; got {len(checked)}"
        raise InvalidSpec(message, code="one_template", field="children")
    return checked


def check_flags(flags: object) -> None:
    """Raise InvalidSpec unless this is a `SupervisorFlags`. Its values were checked when it was created."""
    if not isinstance(flags, SupervisorFlags):
        message = f"flags of a supervisor must be SupervisorFlags(strategy, …), got {show(flags)}"
        raise InvalidSpec(message, code="invalid_flags", field="flags")


def check_listener(name: str, listener: object) -> None:
    """Raise InvalidSpec for an async function, whose reports would be lost, or something that cannot be called."""
    if not is_plain_function(listener):
        _refuse(name, listener, "a function without `async`")


def checked_specs(children: object) -> tuple[ChildSpec, ...]:
    """Return specs, each checked alone."""
    if not isinstance(children, Iterable):
        _refuse("children", children, "child specs, or mappings with the same keys", code="invalid_spec")
    return tuple([_spec_of(spec) for spec in children])


def _spec_of(spec: object) -> ChildSpec:
    if isinstance(spec, ChildSpec):
        return spec
    if not isinstance(spec, Mapping):
        message = f"a child must be a ChildSpec or a mapping (got {show(spec)})"
        raise InvalidSpec(message, code="invalid_spec", field="children")
    known = [attribute.name for attribute in fields(ChildSpec)]
    for key in spec:
        if key not in known:
            near = get_close_matches(str(key), known, n=1, cutoff=0)
            message = f"unknown key {show(key)} in a child spec: did you mean {near[0]!r}?"
            raise InvalidSpec(message, code="unknown_field", field=str(key))
    for key in ("id", "start"):
        if key not in spec:
            message = (
                f"a child spec needs {key!r}, got only {', '.join(map(repr, spec)) or 'an empty mapping'}"
            )
            raise InvalidSpec(message, code=f"missing_{key}", field=key)
    # A mapping from outside: its values are checked at run time, not typed.
    make = cast("Callable[..., ChildSpec]", ChildSpec)
    return make(**spec)


def _check_significant(spec: ChildSpec, flags: SupervisorFlags | None) -> None:
    if not spec.significant:
        return
    if spec.restart == "permanent":
        message = (
            f"child {show(spec.id)} has significant=True with restart='permanent', and so never ends on its own: "
            f"make it 'transient' or 'temporary'"
        )
        raise InvalidSpec(message, code="bad_significant", field="significant")
    if flags is not None and flags.auto_shutdown == "never":
        message = f"child {show(spec.id)} has significant=True with auto_shutdown='never', which has no effect: set auto_shutdown to 'any_significant' or 'all_significant'"
        raise InvalidSpec(message, code="bad_significant", field="significant")


def _check_id(value: object) -> None:
    if call_guarded(lambda _: None, hash, value) is None:  # whatever it raises: the id is used as a key
        _refuse("id", value, "a hashable value", code="missing_id")
    if value is None:
        _refuse("id", value, "a hashable value other than None", code="missing_id")


def _check_start(start: object) -> None:
    if isinstance(start, StartRecipe):
        start = start.function
        if not callable(start):
            _refuse("start", start, "something that can be called")
    elif not is_coroutine_function(start):
        name = getattr(start, "__qualname__", None) or show(start)
        message = f"start of a child must be an async function, worker(), machine() or subtree(); got {name}"
        raise InvalidSpec(message, code="invalid_start", field="start")


def _check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        _refuse(name, value, "one of " + ", ".join(map(repr, allowed)))


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number, also as a float. A bool is not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def is_amount(value: object, *, above_zero: bool = False) -> TypeGuard[float]:
    """Return whether a value is an amount, such as of seconds or dollars: finite, also as a float, and not negative."""
    return is_number(value) and (value > 0 if above_zero else value >= 0)


def is_seconds(value: object, *, above_zero: bool = False) -> TypeGuard[float]:
    """Return whether a value is an amount of seconds, finite also in milliseconds."""
    return is_amount(value, above_zero=above_zero) and value <= sys.float_info.max / 1000


def is_whole(value: object, *, at_least: int) -> TypeGuard[int]:
    """Return whether a value is a whole number from this one on. A bool is not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= at_least


def _refuse(name: str, value: object, allowed: str, *, code: str | None = None) -> NoReturn:
    message = f"{name} is {show(value)}: expected {allowed}"
    raise InvalidSpec(message, code=code or f"invalid_{name}", field=name)


def _copied(value: object, seen: dict[int, object]) -> object:
    # Exact types only: a subclass is the caller's own object, which is shared.
    if id(value) in seen:
        return seen[id(value)]
    kind = type(value)
    if kind is list:
        items: list[object] = []
        seen[id(value)] = items  # before its contents: it may contain itself
        items.extend(_copied(item, seen) for item in cast("list[object]", value))
        return items
    if kind is dict:
        entries: dict[object, object] = {}
        seen[id(value)] = entries
        for key, item in cast("dict[object, object]", value).items():
            entries[key] = _copied(item, seen)
        return entries
    if kind is tuple:
        return tuple(_copied(item, seen) for item in cast("tuple[object, ...]", value))
    if kind is set or kind is bytearray:
        seen[id(value)] = own = copy.copy(value)  # shallow: elements of a set cannot change
        return own
    return value
