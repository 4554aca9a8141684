"""Every door by which somebody else's code comes into a session: each lets in one exception, and tells how it was answered."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, TypeAlias

import trio

from agentrail import ToolContext, plugins as p, tool
from agentrail.abc import Ok
from agentrail.errors import AgentrailError
from agentrail.messages import ToolMessage
from agentrail.runtime.session_handle import Session
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.supervisors import open_nameless
from agentrail.tools import builtin

Make: TypeAlias = Callable[[], BaseException]
"""Makes the exception anew: one that was raised once has a traceback."""


class Foreign(BaseException):
    """What some library raises that is no `Exception`."""


class Unprintable(Exception):
    def __init__(self, worse: type[BaseException]) -> None:
        self.worse = worse

    def __str__(self) -> str:
        raise self.worse

    __repr__ = __str__


class _Liar(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise GeneratorExit

    @property
    def __module__(cls) -> str:  # type: ignore[override]
        raise GeneratorExit


class Nameless(Exception, metaclass=_Liar):
    """Not even its class can be asked for its name."""


class SlyText(str):
    """A text with methods of its own."""

    __slots__ = ()

    def encode(self, *_: Any, **__: Any) -> bytes:
        raise Foreign

    __format__ = replace = __getitem__ = encode  # type: ignore[assignment]


class Sly(Exception):
    """What it says is of a class of its own."""

    def __str__(self) -> str:
        return SlyText("sly")


class LyingGroup(BaseExceptionGroup[BaseException]):
    """Says that it holds itself, and cannot be taken apart."""

    @property
    def exceptions(self) -> Any:
        return (self,)

    def derive(self, *_: Any) -> Any:
        raise Foreign

    split = subgroup = derive


def chained(count: int) -> BaseException:
    error: BaseException = ValueError("the first")
    for number in range(count):
        later = Foreign(f"number {number}") if number % 2 else KeyError(number)
        if number % 3:
            later.__cause__ = error
        else:
            later.__context__ = error
        error = later
    return error


def in_a_circle() -> BaseException:
    """Make an exception that led to itself."""
    one, other = ValueError("one"), Foreign("other")
    one.__cause__, other.__cause__ = other, one
    return one


def kept_cancellation() -> BaseException:
    kept: list[BaseException] = []

    async def keep_it() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled as cancelled:
                kept.append(cancelled)
                raise

    trio.run(keep_it)
    return kept[0]


_KEPT: Final = kept_cancellation()

PLAIN: Final[Mapping[str, Make]] = {
    "ValueError": lambda: ValueError("plain"),
    "GeneratorExit": GeneratorExit,
    "asyncio": lambda: asyncio.CancelledError("cancelled"),
    "foreign": lambda: Foreign("of a library"),
    "StopIteration": StopIteration,
    "StopAsyncIteration": StopAsyncIteration,
    "MemoryError": MemoryError,
    "a kept cancellation": lambda: _KEPT,
    "unprintable": lambda: Unprintable(Foreign),
    "unprintable, and leaves": lambda: Unprintable(SystemExit),
    "nameless": lambda: Nameless("x"),
    "sly": Sly,
    "surrogate": lambda: ValueError("\ud800\x00\x1b[31m"),
    "odd arguments": lambda: Foreign(object(), b"\xff", {1: Foreign}),
    "long": lambda: Foreign("x" * 1_000_000),
    "chained": lambda: chained(1_000),
    "in a circle": in_a_circle,
    "a group of one": lambda: BaseExceptionGroup("one", [Foreign("x")]),
    "a lying group": lambda: LyingGroup("liar", [Foreign("x")]),
}
"""What is nobody's but its author's."""


class Raises:
    """Raises what it was given when it is told to."""

    def __init__(self, make: Make) -> None:
        self.make = make
        self.times = 0

    def now(self, *_: Any, **__: Any) -> Any:
        self.times += 1
        raise self.make()


def calls_then(name: str, arguments: Mapping[str, Any] | None = None) -> FunctionModel:
    """Make a model that calls a tool once in each cycle, and says `done` then."""

    def answer(request: Any) -> Any:
        is_done = isinstance(request.messages[-1], ToolMessage)
        return says("done") if is_done else calls((name, arguments or {}))

    return FunctionModel(answer)


_bad: Final = partial(tool, name="bad", description="Bad.")


async def _ask(session: Session) -> None:
    with suppress(AgentrailError):
        await session.ask("go")


async def _call(supervisor: SessionSupervisor, one: Any, *, is_result: bool = True) -> None:
    session = await supervisor.start_session(model=calls_then(one.name), tools=[one])
    assert await session.ask("go") == "done"
    (result,) = (await session.messages())[2].results  # type: ignore[union-attr]
    assert result.is_error is is_result
    assert (await session.status()).restarts == 0
    await session.stop()


async def async_tool(supervisor: SessionSupervisor, raises: Raises) -> None:
    """In its task."""

    @_bad()
    async def bad() -> str:
        await trio.lowlevel.checkpoint()
        return str(raises.now())

    await _call(supervisor, bad)


async def inline_tool(supervisor: SessionSupervisor, raises: Raises) -> None:
    """A plain function in the loop."""

    @_bad(thread=False)
    def bad() -> str:
        return str(raises.now())

    await _call(supervisor, bad)


async def threaded_tool(supervisor: SessionSupervisor, raises: Raises) -> None:
    """A plain function in a worker thread."""

    @_bad()
    def bad() -> str:
        return str(raises.now())

    await _call(supervisor, bad)


class _Whole:
    """A tool that is an object, as anybody may write one."""

    name = "bad"
    description = "Bad."
    parameters: Mapping[str, Any] = {"type": "object", "properties": {}}
    killable = True
    effect_class: Any = "once"
    timeout_seconds: float | None = None
    max_retries = None
    polling = False
    answered_by = "code"

    async def execute(self, _arguments: Any, _ctx: ToolContext) -> Ok:
        await trio.lowlevel.checkpoint()
        return Ok(text="ok")


async def class_tool(supervisor: SessionSupervisor, raises: Raises) -> None:
    """An object with the members of a tool."""

    class Bad(_Whole):
        async def execute(self, _arguments: Any, _ctx: ToolContext) -> Ok:
            raises.now()
            return Ok(text="ok")

    await _call(supervisor, Bad())


async def traits_of_a_tool(supervisor: SessionSupervisor, raises: Raises) -> None:
    """What it says of itself, when a call begins."""
    looked: list[int] = []

    class Bad(_Whole):
        @property
        def threaded(self) -> bool:
            looked.append(1)
            # The first look is that of the session which is given the tool, and refuses one that it cannot read.
            return len(looked) > 1 and bool(raises.now())

    await _call(supervisor, Bad())
    assert len(looked) > 1


async def clean_up_of_a_tool(supervisor: SessionSupervisor, raises: Raises) -> None:
    """In `finally`, when it is stopped."""
    begun = trio.Event()

    @_bad()
    async def bad(ctx: ToolContext) -> str:
        try:
            begun.set()
            await trio.sleep_forever()
        finally:
            with ctx.cleanup_scope():
                await trio.lowlevel.checkpoint()
                raises.now()

    await _kill(supervisor, bad, begun)


async def _kill(supervisor: SessionSupervisor, one: Any, begun: trio.Event) -> None:
    session = await supervisor.start_session(model=calls_then(one.name), tools=[one])
    await session.prompt("go")
    await begun.wait()
    assert (await session.abort()).settled
    assert (await session.status()).restarts == 0
    await session.stop()


async def nursery_of_a_tool(supervisor: SessionSupervisor, raises: Raises) -> None:
    """Twice, in tasks of its own."""

    async def fail() -> None:
        raises.now()

    @_bad()
    async def bad() -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(fail)
            nursery.start_soon(fail)
        return ""

    await _call(supervisor, bad)


async def tool_that_is_killed(supervisor: SessionSupervisor, raises: Raises) -> None:
    """Its bug comes in one group with the cancellation."""
    begun = trio.Event()

    @_bad()
    async def bad() -> str:
        async def fail() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raises.now()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            begun.set()
            await trio.sleep_forever()

    await _kill(supervisor, bad, begun)


async def description_of_a_tool(supervisor: SessionSupervisor, raises: Raises) -> None:
    """The function that describes it, when it is attached."""
    described: list[int] = []

    def describe(_listing: Any) -> str:
        if described:
            raises.now()
        described.append(1)
        return "A tool."

    @tool(description=describe)
    async def bad() -> str:
        """Bad."""
        return ""

    session = await supervisor.start_session(model=says_ok(), tools=[bad])
    with suppress(AgentrailError):
        await session.attach_tools(bad)
    assert await session.ask("go") == "ok"


async def child_of_a_tool(supervisor: SessionSupervisor, raises: Raises) -> None:
    """A sub-agent whose tool raises; the parent's call is answered."""

    @_bad()
    async def bad() -> str:
        return str(raises.now())

    def answer(request: Any) -> Any:
        if isinstance(request.messages[-1], ToolMessage):
            return says("done")
        is_child = "child" in str(request.messages[0].content)
        return calls(("bad", {})) if is_child else calls(("task", {"description": "child"}))

    session = await supervisor.start_session(model=FunctionModel(answer), tools=[bad, *builtin("task")])
    assert await session.ask("go") == "done"


def says_ok() -> FunctionModel:
    """Make a model that says `ok` to everything."""
    return FunctionModel(lambda _: says("ok"))


def _plugin(raises: Raises, **hooks: type) -> type[p.Plugin[int]]:
    members: dict[str, Any] = {"init": lambda _self: 0, "__module__": __name__}

    def answer(_self: Any, event: Any, state: int, ctx: Any) -> Any:
        raises.now()

    for name, hook in hooks.items():
        members[name] = p.on(hook)(
            lambda self, event, state, ctx: answer(self, event, state, ctx)  # noqa: PLW0108 - one for each hook
        )
    return type("Bad", (p.Plugin,), members)


async def handlers_of_a_plugin(supervisor: SessionSupervisor, raises: Raises) -> None:
    """On each hook of a cycle."""

    @tool
    async def good() -> str:
        """Good."""
        return "good"

    hooks = {
        name: getattr(p, name)
        for name in ("BeforePrompt", "BeforeRequest", "AfterResponse", "BeforeTool", "AfterTool", "AfterTurn")
    }
    bad = _plugin(raises, **hooks)
    session = await supervisor.start_session(model=calls_then("good"), tools=[good], plugins=[bad])
    await _ask(session)
    assert (await session.status()).restarts == 0
    await session.stop()


async def life_of_a_plugin(supervisor: SessionSupervisor, raises: Raises) -> None:
    """Its start, another start, its options, its other version, its end."""

    class Bad(p.Plugin[int]):
        version = "1"
        is_bad = False

        def init(self, **_: Any) -> int:
            return raises.now() if self.is_bad else 0

        def on_config_update(self, options: Any, state: int) -> int:
            return int(raises.now())

        def on_session_end(self, state: int, ctx: Any) -> Any:
            raises.now()

    class Worse(Bad):
        name = "Worse"
        is_bad = True

    class Newer(Bad):
        name = "Bad"
        version = "2"

        def migrate(self, version: str, state: Any) -> int:
            return int(raises.now())

    with suppress(AgentrailError):
        await supervisor.start_session(model=says_ok(), plugins=[Worse])
    session = await supervisor.start_session(model=says_ok(), plugins=[Bad])
    for change in (
        lambda: session.attach_plugin(Worse),
        lambda: session.update_plugin_opts("Bad", strict=True),
        lambda: session.reload_plugin(Newer),
    ):
        with suppress(AgentrailError):
            await change()
    assert await session.ask("go") == "ok"
    assert (await session.status()).restarts == 0
    await session.stop()


async def provider(supervisor: SessionSupervisor, raises: Raises) -> None:
    """At each place where a stream can break, the last one when it is closed."""
    for place in ("open", "first", "middle", "close"):

        class Bad(FunctionModel):
            @asynccontextmanager
            async def open_stream(self, request: Any) -> Any:
                where = self.place  # type: ignore[attr-defined]
                if where == "open":
                    raises.now()
                async with super().open_stream(request) as chunks:

                    async def broken() -> Any:
                        if where == "first":
                            raises.now()
                        async for chunk in chunks:
                            yield chunk
                            if where == "middle":
                                raises.now()

                    stream = broken()
                    try:
                        yield stream
                    finally:
                        await stream.aclose()
                if where == "close":
                    raises.now()

        model = Bad(lambda _: says("ok"))
        model.place = place  # type: ignore[attr-defined]
        session = await supervisor.start_session(model=model)
        await _ask(session)
        assert (await session.status()).restarts == 0
        await session.stop()


class _Torn(MemorySandbox):
    def __init__(self, raises: Raises, *, also_close: bool = False) -> None:
        super().__init__()
        self.read = self.write = self.execute = raises.now  # type: ignore[method-assign]
        self._close = raises.now if also_close else lambda: None

    async def aclose(self) -> None:
        self._close()


class Reader(p.Plugin[str]):
    """Wants a file, and an answer of a model."""

    def init(self) -> str:
        return ""

    @p.on(p.BeforePrompt)
    def look(self, event: p.BeforePrompt, state: str, ctx: p.Context) -> p.Action[str]:
        return p.Request(p.ReadFile("notes.txt"), "notes", state)


class Caller(Reader):
    name = "Caller"

    @p.on(p.BeforePrompt)
    def look(self, event: p.BeforePrompt, state: str, ctx: p.Context) -> p.Action[str]:
        return p.Request(p.CallModel(prompt="what?"), "answer", state)


async def sandbox(supervisor: SessionSupervisor, raises: Raises) -> None:
    """A tool's use of it, and a plugin's."""
    for plugins in ([], [Reader]):
        session = await supervisor.start_session(
            model=calls_then("read_file", {"path": "x"}),
            tools=[*builtin("read_file")],
            plugins=plugins,
            sandbox=_Torn(raises),
            tool_max_retries=0,
        )
        assert await session.ask("go") == "done"
        assert (await session.status()).restarts == 0
        await session.stop()


async def request_of_a_plugin(supervisor: SessionSupervisor, raises: Raises) -> None:
    """The model that it asks breaks."""

    def answer(request: Any) -> Any:
        return raises.now() if "what?" in str(request.messages[-1].content) else says("ok")

    session = await supervisor.start_session(model=FunctionModel(answer), plugins=[Caller])
    assert await session.ask("go") == "ok"
    assert (await session.status()).restarts == 0


async def own_sandbox(supervisor: SessionSupervisor, raises: Raises) -> None:
    """The supervisor made it, and it can be neither used nor closed: see `open_torn`."""
    session = await supervisor.start_session(
        model=calls_then("read_file", {"path": "x"}), tools=[*builtin("read_file")], tool_max_retries=0
    )
    assert await session.ask("go") == "done"
    await session.stop()
    with trio.fail_after(60):
        await session.monitor().wait()


TOOLS: Final = (
    async_tool,
    inline_tool,
    threaded_tool,
    class_tool,
    clean_up_of_a_tool,
    nursery_of_a_tool,
    tool_that_is_killed,
    child_of_a_tool,
)
OTHERS: Final = (
    traits_of_a_tool,
    description_of_a_tool,
    handlers_of_a_plugin,
    life_of_a_plugin,
    provider,
    sandbox,
    own_sandbox,
    request_of_a_plugin,
)


DOORS: Final = {knock.__name__: knock for knock in (*TOOLS, *OTHERS)}
"""By name, what lets the exception in and holds what follows. `SystemExit` leaves those that are no tools."""


def open_torn(raises: Raises) -> AbstractAsyncContextManager[SessionSupervisor]:
    """Open a supervisor whose own sandboxes raise whatever is asked of them, and when they are closed."""
    return open_nameless(lambda _name, _root: _Torn(raises, also_close=True))
