"""What starts an actor: an async function as a worker, or a behaviour as a machine; and how, by `with_options`."""

import enum
import functools
import inspect
from collections.abc import Awaitable, Callable
from types import FunctionType, MethodType
from typing import Any, Final, Generic, Literal, NoReturn, Protocol, TypeVar

import msgspec
from attrs import evolve, field, frozen

from agentrail.actors.handle import ActorCell, ActorContext, ActorHandle
from agentrail.actors.mailbox import Overflow, check_mailbox
from agentrail.errors import InvalidSpec
from agentrail.otp.child_specs import Arguments, StartRecipe
from agentrail.otp.edges import show
from agentrail.otp.exits import ExitReason, Normal, check_reason
from agentrail.otp.statem import DEFAULT_LIMITS, Init, Limits, MachineEvent, Transition

_NORMAL: Final = Normal()
S = TypeVar("S")
D = TypeVar("D")


class Ignore(enum.Enum):
    """The type of `IGNORE`."""

    IGNORE = "there is nothing to run"


IGNORE: Final = Ignore.IGNORE
"""What a start answers that went well and has nothing to run."""


@frozen
class InitStop:
    """What `init` answers to end the start: it failed, for this reason and with no noise.

    Attributes:
        reason: The cause that the starter is told.
    """

    reason: ExitReason = field(default=_NORMAL, validator=lambda _, __, reason: check_reason(reason))


@frozen(kw_only=True)
class MachineStatus:
    """What a machine shows of itself.

    Attributes:
        reason: Why it ended; `None` while it lives.
        event: The one that it handled last, in a report of its end.
        state: Of the machine.
        data: Of the machine.
        queue: Events that it would have handled next.
        postponed: Events that wait for a change of state.
        timers: What runs, by key.
    """

    reason: ExitReason | None = None
    event: object = None
    state: object = None
    data: object = None
    queue: object = ()
    postponed: object = ()
    timers: object = ()


def without_contents(status: MachineStatus) -> MachineStatus:
    """Keep type names and counts: nothing that anybody said."""
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
    """What a machine actor does. `init` and `handle` are its own, the rest has a default.

    `handle`, `enter`, `format_status` and `code_change` are plain functions without I/O; work is an effect, which goes
    into `Perform` and is done by `perform`.
    """

    state_enter: bool = False

    async def init(self) -> Init[S, D] | Ignore | InitStop:
        """Give the first state and data; the starter waits for it.

        Cancellation: A start that takes too long, or that no caller wants any more, is cancelled here.
        """
        message = f"{type(self).__name__} has no init: it gives the first state, Init(state, data)"
        raise NotImplementedError(message)

    def handle(self, event: MachineEvent, state: S, data: D) -> Transition[S, D]:
        """Decide what an event means in a state."""
        message = (
            f"{type(self).__name__} has no handle: it answers each event with a transition, such as Keep()"
        )
        raise NotImplementedError(message)

    def enter(self, old_state: S, state: S, data: D) -> Transition[S, D]:
        """Set up a state; called if `state_enter` is true."""
        message = f"{type(self).__name__} has state_enter and no enter"
        raise NotImplementedError(message)

    async def perform(self, effect: object, context: ActorContext) -> object:
        """Carry out an effect. What it returns comes back as `Info(value)`, in the order of the mailbox.

        With a tag, `Perform(effect, tag)`, it comes back as `Info(value, tag)`, always and once: so a machine tells two results
        apart, and hears of an effect that has no value. Without one `None` sends nothing, as of a function that has nothing
        to say, and an `Info` comes back as it is: `return Info(None)` says "done". What it raises, of any class, ends the
        actor with that reason.

        Cancellation: The end of the actor cancels it. What fails in its clean-up then is logged, and neither changes the
            reason nor keeps `terminate` from running.
        """
        message = f"{type(self).__name__} has no perform, and was to carry out a {type(effect).__name__}"
        raise NotImplementedError(message)

    async def terminate(self, reason: ExitReason, state: S, data: D) -> None:
        """Clean up; called once, on every end but a kill.

        Cancellation: Shielded; only a kill, or the shutdown time of an actor that was not asked to stop, cuts it.
        """

    def format_status(self, status: MachineStatus) -> MachineStatus:
        """Choose what of a status may be shown; by default no contents."""
        return without_contents(status)

    def code_change(self, old_version: object, state: S, data: D) -> tuple[S, D]:
        """Take over state and data of an older behaviour; by default as they are."""
        return state, data


class RegistryName(Protocol):
    """A key of a registry, for `Start.with_options`; made by `registry.name(key)`."""

    def register(self, handle: ActorHandle) -> None:
        """Take the name, or raise `AlreadyRegistered`."""
        ...


@frozen
class ActorView:
    """What an actor shows of itself in `Supervisor.tree()`, beyond what its supervisor knows.

    Attributes:
        phase: What it does, in its own word.
        mailbox: How many messages wait for it, if it reads them from a mailbox of its own.
        below: The supervisor of the children behind it, if it has any.
    """

    phase: str
    mailbox: int
    below: ActorHandle | None = None


class Options(msgspec.Struct, frozen=True):
    """How an actor is set up; see `Start.with_options`.

    Attributes of this library's own use:
        prepare: Called with the cell of each instance before it runs.
        look: Says how the child looks, also between two instances, and of a temporary one, whose spec keeps no arguments.
    """

    name: RegistryName | None = None
    capacity: int = 1000
    overflow: Overflow = "reject"
    limits: Limits = DEFAULT_LIMITS
    trap_exits: bool = False
    prepare: Callable[[ActorCell], None] | None = None
    look: Callable[[], ActorView] | None = None


Form = Literal["worker", "machine", "subtree"]

# One for all: each of ten thousand children would have its own.
_NO_OPTIONS: Final = Options()


@frozen
class Start(StartRecipe):
    """A way to start an actor, made by `worker`, `machine` or `subtree`.

    Attributes:
        form: Which of the three.
        options: As of `with_options`.
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
        """Return this start with other options; those not given have their defaults.

        Args:
            name: Taken before init, so that messages by name wait for it; free again when the actor is gone.
            capacity: How many messages from outside may wait.
            overflow: What becomes of one more, see `Mailbox`.
            limits: Of the machine.
            trap_exits: Exit signals come as notices, `Info(ExitSignal(…))`.

        Raises:
            InvalidSpec: Your move: `invalid_mailbox`; or `invalid_start`, an option that means nothing here: a worker
                and a supervisor take a name and nothing else.
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
                    what = "a worker, which reads no messages" if self.form == "worker" else "a supervisor"
                    _refuse_option(
                        option, value, f"nothing, since this is {what}: it is an option of machine()"
                    )
        return evolve(self, options=Options(name, capacity, overflow, limits, trap_exits))


def _refuse_option(name: str, value: object, allowed: str) -> NoReturn:
    message = f"{name} is {show(value)}, allowed is {allowed}"
    raise InvalidSpec(message, code="invalid_start", field=name)


def worker(function: Callable[..., Awaitable[object]], /, *args: object, **kwargs: object) -> Start:
    """Make a child of an async function. It has no mailbox: a stop cancels it.

    Args:
        function: With a parameter `task_status` it says itself when it is up, `task_status.started(info)`, or that
            there is nothing to run, `started(IGNORE)`. Else it counts as up before its first step.
        *args: For it; built-in containers are copied for each start.
        **kwargs: For it.

    Raises:
        InvalidSpec: Your move: it is no coroutine function.
    """
    target = function.func if isinstance(function, functools.partial) else function
    if not (inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(type(target).__call__)):
        name = getattr(function, "__qualname__", repr(function))
        message = f"worker() takes an async function, got {name}: write `async def`"
        raise InvalidSpec(message, code="invalid_start", field="start")
    return Start(function, Arguments(args, kwargs))


def machine(behaviour: Callable[..., Any], /, *args: object, **kwargs: object) -> Start:
    """Make a child of a behaviour, which each start makes anew: `machine(Door, …)` calls `Door(…)`.

    Raises:
        InvalidSpec: Your move: it cannot be called; an instance, say, where its class was meant.
    """
    given: object = behaviour
    if not callable(given):
        message = f"machine() takes a class, or what returns a behaviour; got {behaviour!r}"
        raise InvalidSpec(message, code="invalid_start", field="start")
    return Start(behaviour, Arguments(args, kwargs), form="machine")


def as_start(recipe: StartRecipe | Callable[..., Awaitable[object]]) -> Start:
    """Return what a child spec says as a start; a bare function is a worker."""
    return recipe if isinstance(recipe, Start) else worker(recipe)  # type: ignore[arg-type]  # checked by the spec


def is_up_when_begun(recipe: StartRecipe | Callable[..., object]) -> bool:
    """Tell whether a child is up as soon as its task is there: a worker that does not report itself, and whose name cannot be taken."""
    if not isinstance(recipe, Start):
        return not isinstance(recipe, StartRecipe) and not takes_task_status(recipe)
    options = recipe.options
    is_plain = recipe.form == "worker" and options.name is None and options.prepare is None
    return is_plain and not takes_task_status(recipe.function)


def takes_task_status(function: Callable[..., object]) -> bool:
    """Tell whether a worker reports its own start."""
    # A signature costs a third of a whole start. What it would say of a plain function, or of a method of one, stands
    # in the code object; what is decorated, partial or an object has to be asked.
    plain = function.__func__ if isinstance(function, MethodType) else function
    if isinstance(plain, FunctionType) and not vars(plain):
        code = plain.__code__
        return "task_status" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    try:
        return "task_status" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # some callables have no signature; they cannot report anything either
        return False
