"""Recipes that start an actor: an async function as a worker, or a behaviour as a machine, with `with_options`."""

import enum
import inspect
from collections.abc import Awaitable, Callable
from types import FunctionType, MethodType
from typing import Any, Final, Generic, Literal, NoReturn, Protocol, TypeVar

import msgspec
from attrs import evolve, field, frozen

from agentrail.actors.actor_handle import ActorCell, ActorContext, ActorHandle
from agentrail.actors.mailbox import Overflow, check_mailbox
from agentrail.errors import InvalidSpec
from agentrail.otp.child_specs import Arguments, StartRecipe
from agentrail.otp.exits import ExitReason, Normal, check_reason
from agentrail.otp.guarded_calls import is_coroutine_function, show
from agentrail.otp.statem import DEFAULT_LIMITS, Init, Limits, MachineEvent, Transition

_NORMAL: Final = Normal()
S = TypeVar("S")
D = TypeVar("D")


class Ignore(enum.Enum):
    """The type of `IGNORE`."""

    IGNORE = "nothing to run"


IGNORE: Final = Ignore.IGNORE
"""Result of a successful start that has nothing to run."""


@frozen
class InitStop:
    """Result of an `init` that fails quietly: the start ends with this reason, and no crash is reported.

    Attributes:
        reason: The cause, reported to the starter.
    """

    reason: ExitReason = field(default=_NORMAL, validator=lambda _, __, reason: check_reason(reason))


@frozen(kw_only=True)
class MachineStatus:
    """The status that a machine shows.

    Attributes:
        reason: Why it ended. `None` while it lives.
        event: The last event that it handled, in a report of its end.
        state: State of the machine.
        data: Data of the machine.
        queue: Events that it would have handled next.
        postponed: Events that wait for a change of state.
        timers: Running timers, by key.
    """

    reason: ExitReason | None = None
    event: object = None
    state: object = None
    data: object = None
    queue: object = ()
    postponed: object = ()
    timers: object = ()


def without_contents(status: MachineStatus) -> MachineStatus:
    return MachineStatus(
        reason=status.reason,
        event=type(status.event).__name__,
        state=type(status.state).__name__,
        data=type(status.data).__name__,
        queue=_count(status.queue),
        postponed=_count(status.postponed),
        timers=_count(status.timers),
    )


def _count(value: object) -> object:
    return len(value) if isinstance(value, tuple) else type(value).__name__


class Behaviour(Generic[S, D]):
    """The behaviour of a machine actor. `init` and `handle` are required. The rest has defaults.

    `handle`, `enter`, `format_status` and `code_change` do no I/O: return work in `Perform`, and `perform` carries it
    out.
    """

    state_enter: bool = False

    async def init(self) -> Init[S, D] | Ignore | InitStop:
        """Return the first state and data. The starter waits for it.

        Cancellation: Cancelled when the start takes too long or its caller has given up.
        """
        message = (
            f"{type(self).__name__} has no init: write one that returns the first state, Init(state, data)"
        )
        raise NotImplementedError(message)

    def handle(self, event: MachineEvent, state: S, data: D) -> Transition[S, D]:
        """Return the transition for an event in a state."""
        message = f"{type(self).__name__} has no handle: write one that returns a transition for each event, such as Keep()"
        raise NotImplementedError(message)

    def enter(self, old_state: S, state: S, data: D) -> Transition[S, D]:
        """Return the transition for entering a state. Called if `state_enter` is true."""
        message = f"{type(self).__name__} has state_enter but no enter"
        raise NotImplementedError(message)

    async def perform(self, effect: object, context: ActorContext) -> object:
        """Carry out an effect. Its result arrives as `Info(value)`, in the order of the mailbox.

        With a tag, `Perform(effect, tag)`, exactly one `Info(value, tag)` arrives, even if the value is `None`. Without a tag,
        `None` sends no message, and a returned `Info` arrives unchanged. An exception of any class ends the actor with that
        reason.

        Cancellation: Cancelled at the end of the actor. An error in its clean-up is then logged; it neither changes the
            reason nor prevents `terminate`.
        """
        message = f"{type(self).__name__} has no perform, but must carry out a {type(effect).__name__}"
        raise NotImplementedError(message)

    async def terminate(self, reason: ExitReason, state: S, data: D) -> None:
        """Clean up. Called once, on every end except a kill.

        Cancellation: Shielded. Only a kill cuts it, or the shutdown time of an actor that was not asked to stop.
        """

    def format_status(self, status: MachineStatus) -> MachineStatus:
        """Return the part of a status that may be shown. By default no contents."""
        return without_contents(status)

    def code_change(self, old_version: object, state: S, data: D) -> tuple[S, D]:
        """Convert state and data from an older behaviour. By default unchanged."""
        return state, data


class RegistryName(Protocol):
    """A key of a registry, for `Start.with_options`. Created by `registry.name(key)`."""

    def register(self, handle: ActorHandle) -> None: ...


@frozen
class ActorView:
    """The actor's own entry in `Supervisor.tree()`, in addition to the supervisor's information.

    Attributes:
        phase: Its current activity, in its own words.
        mailbox: Number of waiting messages, if it has a mailbox of its own.
        below: Supervisor of its children, if it has any.
    """

    phase: str
    mailbox: int
    below: ActorHandle | None = None


class Options(msgspec.Struct, frozen=True):
    """Options of an actor. See `Start.with_options`.

    Attributes of this library's own use:
        prepare: Called with the cell of each instance before it runs.
        look: Returns the child's view, also between two instances. Called with the object whose method starts the child, so that
            all children share one function.
    """

    name: RegistryName | None = None
    capacity: int = 1000
    overflow: Overflow = "reject"
    limits: Limits = DEFAULT_LIMITS
    trap_exits: bool = False
    prepare: Callable[[ActorCell], None] | None = None
    look: Callable[[Any], ActorView] | None = None


Form = Literal["worker", "machine", "subtree"]

# One shared object: otherwise each of ten thousand children would have its own.
_NO_OPTIONS: Final = Options()


@frozen
class Start(StartRecipe):
    """A recipe that starts an actor, created by `worker`, `machine` or `subtree`.

    Attributes:
        form: Which of the three.
        options: The options from `with_options`.
    """

    form: Form = "worker"
    options: Options = _NO_OPTIONS

    def with_options(
        self,
        *,
        name: RegistryName | None = None,
        capacity: int = 1000,
        overflow: Overflow = "reject",
        limits: Limits = Limits(),  # noqa: B008 - frozen
        trap_exits: bool = False,
    ) -> "Start":
        """Return this start with other options. Options not given have their defaults.

        Args:
            name: Registered before `init`, so that messages by name wait for it. Freed at the end of the actor.
            capacity: How many messages from outside may wait.
            overflow: Policy for messages beyond the capacity. See `Mailbox`.
            limits: Limits of the machine.
            trap_exits: Whether exit signals arrive as notices, `Info(ExitSignal(…))`.

        Raises:
            InvalidSpec: Your move: `invalid_mailbox`; or `invalid_start`, an option that does not apply: a worker
                and a supervisor accept only a name.
        """
        check_mailbox(capacity, overflow)
        if not isinstance(limits, Limits):
            _refuse_option("limits", limits, "Limits(…)")
        if not isinstance(trap_exits, bool):
            _refuse_option("trap_exits", trap_exits, "True or False")
        if name is not None and not callable(getattr(name, "register", None)):
            _refuse_option("name", name, "what registry.name(key) returns, or None")
        if self.form != "machine":
            given = {"capacity": capacity, "overflow": overflow, "limits": limits, "trap_exits": trap_exits}
            for option, value in given.items():
                if value != getattr(_NO_OPTIONS, option):
                    what = (
                        "a worker, which does not read messages" if self.form == "worker" else "a supervisor"
                    )
                    _refuse_option(
                        option, value, f"nothing, because this is {what}: it is an option of machine()"
                    )
        return evolve(self, options=Options(name, capacity, overflow, limits, trap_exits))


def _refuse_option(name: str, value: object, allowed: str) -> NoReturn:
    message = f"{name} is {show(value)}: expected {allowed}"
    raise InvalidSpec(message, code="invalid_start", field=name)


def worker(function: Callable[..., Awaitable[object]], /, *args: object, **kwargs: object) -> Start:
    """Create a child from an async function. It has no mailbox, and a stop cancels it.

    Args:
        function: With a parameter `task_status`, it reports its own start: `task_status.started(info)`, or
            `started(IGNORE)` if it has nothing to run. Otherwise it counts as started before its first step.
        *args: Positional arguments. Built-in containers are copied for each start.
        **kwargs: Keyword arguments, copied likewise.

    Raises:
        InvalidSpec: Your move: `function` is not a coroutine function.
    """
    if not is_coroutine_function(function):
        name = getattr(function, "__qualname__", repr(function))
        message = f"worker() takes an async function, got {name}: write `async def`"
        raise InvalidSpec(message, code="invalid_start", field="start")
    return Start(function, Arguments(args, kwargs))


def machine(behaviour: Callable[..., Any], /, *args: object, **kwargs: object) -> Start:
    """Create a child from a behaviour. Each start creates a new object: `machine(Door, …)` calls `Door(…)`.

    Raises:
        InvalidSpec: Your move: `behaviour` is not callable, for example an instance instead of its class.
    """
    given: object = behaviour
    if not callable(given):
        message = f"machine() takes a class, or a function that returns a behaviour; got {show(behaviour)}"
        raise InvalidSpec(message, code="invalid_start", field="start")
    return Start(behaviour, Arguments(args, kwargs), form="machine")


def as_start(recipe: StartRecipe | Callable[..., Awaitable[object]]) -> Start:
    return recipe if isinstance(recipe, Start) else worker(recipe)  # type: ignore[arg-type]  # checked by the spec


def is_up_when_begun(recipe: StartRecipe | Callable[..., object]) -> bool:
    """Return whether a child is up as soon as its task exists: a worker that does not report its start and has no name."""
    if not isinstance(recipe, Start):
        return not isinstance(recipe, StartRecipe) and not takes_task_status(recipe)
    options = recipe.options
    is_plain = recipe.form == "worker" and options.name is None and options.prepare is None
    return is_plain and not takes_task_status(recipe.function)


def takes_task_status(function: Callable[..., object]) -> bool:
    # `inspect.signature` costs a third of a whole start. For a plain function, or a method of one, the code object has the
    # same information. Decorated functions, partials and objects need the signature.
    plain = function.__func__ if isinstance(function, MethodType) else function
    if isinstance(plain, FunctionType) and not vars(plain):
        code = plain.__code__
        return "task_status" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    try:
        return "task_status" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # some callables have no signature, so they cannot report anything either
        return False
