"""`@tool`: a function that the model may call.

The decorator reads the signature (`signature.py`), keeps the function callable, and makes of what it returns a result
(`outcome.py`). Timeouts, retries, approval and stopping are the runner's business and do not enter this file.
"""

import functools
import inspect
import math
import re
import typing
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, Literal, ParamSpec, TypeAlias, TypeVar, overload

import msgspec
import trio
from attrs import define, field, frozen

from agentrail import outside
from agentrail.abc import MAX_RESULT_BYTES, Error, Reconciled, ToolContext, ToolListing, ToolOutcome
from agentrail.core.values.toolbox import EffectClass
from agentrail.errors import ToolDefinitionError
from agentrail.logs import Logger
from agentrail.messages import JsonObject
from agentrail.otp.edges import is_async
from agentrail.tools.outcome import to_outcome
from agentrail.tools.returns import check_returned
from agentrail.tools.signature import Signature, read_signature
from agentrail.typed import OutputFault

P = ParamSpec("P")
R = TypeVar("R")

LOGGER: Final = Logger("agentrail.tools")

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

Describe: TypeAlias = Callable[[ToolListing], str]
"""Writes the description of a tool for one session; see `ToolListing`."""

Label: TypeAlias = Callable[[JsonObject], str]
"""Says in a few words, for people, what a call does."""

Reconcile: TypeAlias = Callable[[str, ToolContext], Awaitable[Reconciled]]
"""Finds out what became of an operation: `await reconcile(operation_id, ctx)`."""


_SLOW_SECONDS: Final = 0.05
"""How long a function may run in the event loop until it is named in the log."""

_QUIET_SECONDS: Final = 60.0
"""How long a tool that was named is not named again."""


@define
class _Slow:
    """When a tool was named last."""

    reported_at: float = -math.inf


@frozen(kw_only=True, eq=False)
class FunctionTool(Generic[P, R]):
    """A function and what the model is told of it. Satisfies `agentrail.abc.Tool`, and can be called like the function.

    Attributes:
        function: What was decorated.
        name: `[A-Za-z0-9_-]{1,64}`.
        description: What the model reads.
        killable: Whether a steer or a default abort may stop it.
        effect_class: What it promises about being run twice.
        timeout_seconds: Per attempt; None for the session's own.
        max_retries: How often a call that raised is made again; None for what the effect class and the session say.
        polling: Whether repeats are its nature.
        max_result_bytes: Of a longer text the middle is left out.
        thread: Whether a `def` runs in a worker thread; says nothing about an `async def`.
        abandonable: Whether a thread whose call was stopped is left behind.
        answered_by: `user` for a tool whose calls are questions, `client` for one that the client runs; it is never executed.
        reconcile: Finds out what became of an operation; None unless it is `reconcilable`.
    """

    function: Callable[P, R]
    name: str
    description: str | Describe
    killable: bool
    effect_class: EffectClass
    timeout_seconds: float | None
    max_retries: int | None
    polling: bool
    max_result_bytes: int
    thread: bool
    abandonable: bool
    answered_by: Literal["code", "user", "client"]
    reconcile: Reconcile | None = field(repr=False)
    _label: Label | None = field(repr=False)
    _signature: Signature = field(repr=False)
    _slow: _Slow = field(factory=_Slow, init=False, repr=False)
    _is_async: bool = field(init=False, repr=False, eq=False)

    @_is_async.default
    def _look_whether_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)  # once: it costs as much as half of a call

    @property
    def parameters(self) -> JsonObject:
        """JSON Schema of the arguments, made from the signature."""
        return self._signature.schema

    @property
    def wants_deps(self) -> type | None:
        """What a session must have been given as `deps` to have this tool: the `Pool` of `ToolContext[Pool]`; None for anything."""
        return self._signature.wants_deps

    @property
    def threaded(self) -> bool:
        """Whether it works in a worker thread."""
        return self.thread and not self._is_async

    def label(self, arguments: JsonObject) -> str:
        """Say in a few words, for people, what a call does."""
        return self.name if self._label is None else self._label(arguments)

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Call the function with arguments that fit the schema.

        Args:
            arguments: As the model sent them; converted to the annotated types.
            ctx: For the parameter that is annotated `ToolContext`, if there is one.

        Returns:
            What the function returned, as a result; an `Error` for a value that no schema can refuse, such as the 30th
            of February.

        Raises:
            ToolContractError: The tool author's move: the function returned what is no result.

        Cancellation: An `async def` is cancelled like any task. A worker thread cannot be: it learns of it from
            `ctx.check_cancelled()`, and is waited for unless it is abandonable. An inline function runs to its end.
        """
        # A function that awaits nothing would run although its call was stopped before it began.
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            given = self._signature.convert(arguments, ctx)
        except msgspec.ValidationError as error:
            return Error(text=f'Invalid arguments for "{self.name}": {_path_first(str(error))}')
        except OutputFault as fault:
            return Error(text=f'Invalid arguments for "{self.name}": {fault}')
        # The arguments come from a struct that was made of the function's own signature, which no type checker knows.
        function: Callable[..., Any] = self.function
        value: object
        if self._is_async:
            value = await function(**given)
        elif self.thread:
            value = await ctx.run_in_thread(
                functools.partial(function, **given), abandonable=self.abandonable
            )
        else:
            await trio.lowlevel.checkpoint()
            value = self._call_inline(functools.partial(function, **given))
        return to_outcome(self.name, value)

    def _call_inline(self, call: Callable[[], object]) -> object:
        began_at = outside.stopwatch()
        try:
            return call()
        finally:
            self._look_at_time(began_at, outside.stopwatch())

    def _look_at_time(self, began_at: float, now: float) -> None:
        """Name a tool that kept all sessions of the process from going on, once a minute."""
        took = now - began_at
        if took > _SLOW_SECONDS and now - self._slow.reported_at >= _QUIET_SECONDS:
            self._slow.reported_at = now
            LOGGER.warning(
                "tool %r blocked the event loop for %d ms, and all sessions with it: leave out thread=False, so that it "
                "runs in a worker thread",
                self.name,
                round(took * 1000),
            )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, as if it had not been decorated; for tests and for other code."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | Describe | None = None,
    effect_class: EffectClass = "once",
    timeout_seconds: float | None = None,
    killable: bool = True,
    max_retries: int | None = None,
    polling: bool = False,
    max_result_bytes: int = MAX_RESULT_BYTES,
    thread: bool = True,
    abandonable: bool = False,
    answered_by: Literal["code", "user", "client"] = "code",
    reconcile: Reconcile | None = None,
    label: Label | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(  # noqa: PLR0913 - one option per member of the port, each with a default
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | Describe | None = None,
    effect_class: EffectClass = "once",
    timeout_seconds: float | None = None,
    killable: bool = True,
    max_retries: int | None = None,
    polling: bool = False,
    max_result_bytes: int = MAX_RESULT_BYTES,
    thread: bool = True,
    abandonable: bool = False,
    answered_by: Literal["code", "user", "client"] = "code",
    reconcile: Reconcile | None = None,
    label: Label | None = None,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool of a function; with or without parentheses.

    The schema comes from the annotations; `Annotated[T, "text"]` describes a parameter, or the docstring does; `msgspec.Meta(...)`
    bounds it, and a parameter annotated `ToolContext` is filled in by the runner.

    Args:
        function: `async def`, which runs in the runner's task, or `def`, which runs in a worker thread.
        name: For the model; by default the function's.
        description: For the model; by default the first paragraph of the docstring. A function writes it for each session.
        effect_class: What the tool promises about being run twice.
        timeout_seconds: Per attempt; by default the session's own.
        killable: Whether a steer or a default abort may stop it.
        max_retries: How often a call that raised is made again, whatever its effect class says. Of a `once` tool a number
            says that raising means that nothing happened.
        polling: True for a tool whose repeats are its nature, so that no loop is looked for.
        max_result_bytes: Of a longer text the middle is left out.
        thread: False runs a `def` in the event loop, which stands still meanwhile: for short pure functions.
        abandonable: True leaves the thread of a call that was stopped behind, instead of waiting for it.
        answered_by: `user` makes each call a question to the user: `question` and perhaps `options` are its arguments,
            the answer is its result. `client` leaves each call to the client. Neither ever calls the function.
        reconcile: Finds out what became of an operation, before it is run again: `await reconcile(operation_id, ctx)`
            gives `Done(result)`, `NotDone()` or `Unknown()`. Required by `reconcilable`.
        label: Says in a few words, for people, what a call with these arguments does; by default the name.

    Returns:
        A tool that can still be called like the function.

    Raises:
        ToolDefinitionError: Your move: the message names the function, the parameter or what it returns, and the way out.
    """

    def decorate(function: Callable[P, R]) -> FunctionTool[P, R]:
        made = FunctionTool(
            function=_checked_function(function),
            name=function.__name__ if name is None else name,
            description=_description_of(function, description),
            killable=killable,
            effect_class=effect_class,
            timeout_seconds=timeout_seconds,
            max_retries=max_retries,
            polling=polling,
            max_result_bytes=max_result_bytes,
            thread=thread,
            abandonable=abandonable,
            answered_by=answered_by,
            reconcile=reconcile,
            label=label,
            signature=read_signature(function),
        )
        return _checked(made)

    return decorate if function is None else decorate(function)


def _checked_function(function: Callable[P, R]) -> Callable[P, R]:
    if not inspect.isroutine(function) or inspect.isbuiltin(function):
        message = (
            f"a tool is made of a function written with def or async def, got {function!r}: wrap it in one"
        )
        raise ToolDefinitionError(message)
    return function


def _checked(made: FunctionTool[P, R]) -> FunctionTool[P, R]:
    where = f"tool function {made.function.__qualname__!r}"
    message = None
    if not _NAME.fullmatch(made.name):
        message = f"{where} has the name {made.name!r}, expected 1 to 64 of A-Z a-z 0-9 _ -: give another with name="
    elif not made.description:
        message = f"{where} has no description: write a docstring, or give one with description="
    elif made.effect_class == "reconcilable" and made.reconcile is None:
        message = f"{where} is 'reconcilable', which needs a way to find out: give a function with reconcile="
    elif made.reconcile is not None and not is_async(made.reconcile):
        message = (
            f"{where} has reconcile={made.reconcile!r:.200}, expected an async function: write `async def`"
        )
    elif made.effect_class not in typing.get_args(EffectClass):
        known = ", ".join(map(repr, typing.get_args(EffectClass)))
        message = f"{where} has effect_class={made.effect_class!r}, expected one of {known}"
    elif made.timeout_seconds is not None and not 0 < made.timeout_seconds < math.inf:
        message = f"{where} has timeout_seconds={made.timeout_seconds!r}, expected a number above 0, or None"
    elif made.max_retries is not None and (type(made.max_retries) is not int or made.max_retries < 0):
        message = f"{where} has max_retries={made.max_retries!r}, expected a whole number from 0, or None"
    elif made.abandonable and not made.threaded:
        message = f"{where} is abandonable and runs in no thread: only a worker thread can be left behind"
    if message is not None:
        raise ToolDefinitionError(message)
    if made.answered_by == "code":  # otherwise it is never called
        check_returned(made.function)
    return made


def _description_of(function: Callable[..., object], given: str | Describe | None) -> str | Describe:
    if given is None:
        return _first_paragraph(function)
    return given.strip() if isinstance(given, str) else given


def _first_paragraph(function: Callable[..., object]) -> str:
    return " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())


def _path_first(fault: str) -> str:
    """Write a fault as the validator of the runner writes it: msgspec says the path at the end."""
    reason, _, path = fault.rpartition(" - at ")
    return f"{path.strip('`')}: {reason}" if reason else f"$: {fault}"
