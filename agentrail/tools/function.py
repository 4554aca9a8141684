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
from typing import Final, Generic, ParamSpec, TypeVar, overload

import msgspec
import trio
from attrs import field, frozen

from agentrail.abc import Error, ToolContext, ToolOutcome
from agentrail.core.toolbox import EffectClass
from agentrail.errors import ToolDefinitionError
from agentrail.messages import JsonObject
from agentrail.tools.outcome import to_outcome
from agentrail.tools.signature import Signature, read_signature

P = ParamSpec("P")
R = TypeVar("R")

MAX_TOOL_THREADS: Final = 40

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

# A key, not a limiter: each Trio run makes its own, so nothing is process-wide. Not Trio's default limiter, because
# tools that block for minutes would then starve whoever else needs a thread, such as name resolution.
_threads: Final[trio.lowlevel.RunVar[trio.CapacityLimiter]] = trio.lowlevel.RunVar("agentrail_tool_threads")


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
        thread: Whether a `def` runs in a worker thread; says nothing about an `async def`.
    """

    function: Callable[P, R]
    name: str
    description: str
    killable: bool
    effect_class: EffectClass
    timeout_seconds: float | None
    thread: bool
    _signature: Signature = field(repr=False)

    @property
    def parameters(self) -> JsonObject:
        """JSON Schema of the arguments, made from the signature."""
        return self._signature.schema

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

        Cancellation: An `async def` is cancelled like any task. A worker thread cannot be: it is waited for, and learns
            of it from `trio.from_thread.check_cancelled()`. An inline function runs to its end.
        """
        try:
            given = self._signature.convert(arguments, ctx)
        except msgspec.ValidationError as error:
            return Error(text=f'Invalid arguments for "{self.name}": {_path_first(str(error))}')
        # The arguments come from a struct that was made of the function's own signature, which no type checker knows.
        call = functools.partial(typing.cast("Callable[..., object]", self.function), **given)
        if inspect.iscoroutinefunction(self.function):
            value = await typing.cast("Awaitable[object]", call())
        elif self.thread:
            value = await trio.to_thread.run_sync(call, limiter=_thread_limiter())
        else:
            await trio.lowlevel.checkpoint()
            value = call()
        return to_outcome(self.name, value)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, as if it had not been decorated; for tests and for other code."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect_class: EffectClass = "once",
    timeout_seconds: float | None = None,
    killable: bool = True,
    thread: bool = True,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(  # noqa: PLR0913 - one option per member of the port, each with a default
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect_class: EffectClass = "once",
    timeout_seconds: float | None = None,
    killable: bool = True,
    thread: bool = True,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool of a function; with or without parentheses.

    The schema comes from the annotations; `Annotated[T, "text"]` describes a parameter, `msgspec.Meta(...)` bounds it,
    and a parameter annotated `ToolContext` is filled in by the runner.

    Args:
        function: `async def`, which runs in the runner's task, or `def`, which runs in a worker thread.
        name: For the model; by default the function's.
        description: For the model; by default the first paragraph of the docstring.
        effect_class: What the tool promises about being run twice.
        timeout_seconds: Per attempt; by default the session's own.
        killable: Whether a steer or a default abort may stop it.
        thread: False runs a `def` in the event loop, which stands still meanwhile: for short pure functions.

    Returns:
        A tool that can still be called like the function.

    Raises:
        ToolDefinitionError: Your move: the message names the function, the parameter and the way out.
    """

    def decorate(function: Callable[P, R]) -> FunctionTool[P, R]:
        _check_function(function)
        made = FunctionTool(
            function=function,
            name=function.__name__ if name is None else name,
            description=_first_paragraph(function) if description is None else description.strip(),
            killable=killable,
            effect_class=effect_class,
            timeout_seconds=timeout_seconds,
            thread=thread,
            signature=read_signature(function),
        )
        _check(made)
        return made

    return decorate if function is None else decorate(function)


def _check_function(function: object) -> None:
    if not inspect.isroutine(function) or inspect.isbuiltin(function):
        message = (
            f"a tool is made of a function written with def or async def, got {function!r}: wrap it in one"
        )
        raise ToolDefinitionError(message)


def _check(made: FunctionTool[P, R]) -> None:
    where = f"tool function {made.function.__qualname__!r}"
    message = None
    if not _NAME.fullmatch(made.name):
        message = f"{where} has the name {made.name!r}, expected 1 to 64 of A-Z a-z 0-9 _ -: give another with name="
    elif not made.description:
        message = f"{where} has no description: write a docstring, or give one with description="
    elif made.effect_class == "reconcilable":
        message = f"{where} is 'reconcilable', which needs a method `reconcile`: write the tool as a class"
    elif made.effect_class not in typing.get_args(EffectClass):
        known = ", ".join(map(repr, typing.get_args(EffectClass)))
        message = f"{where} has effect_class={made.effect_class!r}, expected one of {known}"
    elif made.timeout_seconds is not None and not 0 < made.timeout_seconds < math.inf:
        message = f"{where} has timeout_seconds={made.timeout_seconds!r}, expected a number above 0, or None"
    if message is not None:
        raise ToolDefinitionError(message)


def _first_paragraph(function: Callable[..., object]) -> str:
    return " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())


def _path_first(fault: str) -> str:
    """Write a fault as the validator of the runner writes it: msgspec says the path at the end."""
    reason, _, path = fault.rpartition(" - at ")
    return f"{path.strip('`')}: {reason}" if reason else f"$: {fault}"


def _thread_limiter() -> trio.CapacityLimiter:
    try:
        return _threads.get()
    except LookupError:
        limiter = trio.CapacityLimiter(MAX_TOOL_THREADS)
        _threads.set(limiter)
        return limiter
