"""What the tests of the shell play with: a supervisor without adapters, and readers of subscriptions."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import pytest
import trio

from agentrail.core.session.views import Status
from agentrail.events import Event
from agentrail.outside import RealMachine
from agentrail.runtime.event_subscription import Subscription
from agentrail.runtime.session_handle import Session
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.testing.cancelling import check_history
from agentrail.testing.clock import FakeClock, threads_hold
from agentrail.testing.models import FunctionModel, ScriptedModel, Turn, calls, says
from agentrail.testing.supervisors import open_nameless


def _run_on_virtual_time(main: Callable[[], Awaitable[Any]], **options: Any) -> Any:
    clock = FakeClock()
    with threads_hold(clock):
        return trio.run(main, **{**options, "clock": clock})


# A mark, and not the fixture `autojump_clock`: that works only as an argument, which no test would use.
on_virtual_time = pytest.mark.trio(run=_run_on_virtual_time)


def _run_bounded(main: Callable[..., Awaitable[Any]], *given: Any, **options: Any) -> Any:
    async def bounded() -> Any:
        with trio.fail_after(60):
            return await main(*given)

    return trio.run(bounded, **options)


# On the real clock, for what threads have a hand in: what hangs fails, and does not wait for ever.
on_bounded_time = pytest.mark.trio(run=_run_bounded)


class NoSandbox(MemorySandbox):
    """Has no files, runs nothing, and remembers whether it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = 0

    async def aclose(self) -> None:
        self.closed += 1
        await trio.lowlevel.checkpoint()


def open_bare() -> AbstractAsyncContextManager[SessionSupervisor]:
    """Open a supervisor that knows no model by its name, and no files."""
    return open_nameless(lambda _name, _root: NoSandbox())


def open_over(store: Any, **options: Any) -> AbstractAsyncContextManager[SessionSupervisor]:
    """Open a supervisor that keeps its sessions in a store, and knows no files."""
    return open_nameless(lambda _name, _root: NoSandbox(), store=store, **options)


def open_with(sandboxes: Iterable[NoSandbox]) -> AbstractAsyncContextManager[SessionSupervisor]:
    """Open a supervisor that gives each session the next of these sandboxes."""
    several = iter(sandboxes)

    def next_one(_name: str, _root: Path) -> NoSandbox:
        return next(several)

    return open_nameless(next_one)


def saying(*texts: str) -> ScriptedModel:
    """Make a model with one answer for each prompt."""
    return ScriptedModel([says(text) for text in texts])


def calling(*names: str, then: str = "done") -> ScriptedModel:
    """Make a model that calls these tools in one batch, and then says something."""
    return ScriptedModel([wants(*names), says(then)])


def wants(*names: str) -> Turn:
    """Make a turn that calls these tools without arguments."""
    return calls(*((name, {}) for name in names))


async def start_hanging(
    supervisor: SessionSupervisor, *tools: Any, then: str = "next", **options: Any
) -> Session:
    """Start a session in whose first cycle all these tools have begun and will not return."""
    model = calling(*(tool.name for tool in tools), then=then)
    session = await supervisor.start_session(model=model, tools=tools, **options)
    await session.prompt("Hi")
    for tool in tools:
        await tool.started.wait()
    return session


async def until(subscription: Subscription, kind: type[Event]) -> list[Event]:
    """Read up to the first event of a kind, that one included."""
    seen: list[Event] = []
    with trio.fail_after(60):
        async for event in subscription:
            seen.append(event)
            if isinstance(event, kind):
                return seen
    message = f"the session ended without {kind.__name__}; it published {seen}"
    raise AssertionError(message)


async def take(subscription: Subscription, count: int = 1) -> list[Event]:
    with trio.fail_after(60):
        return [await anext(subscription) for _ in range(count)]


async def rest(subscription: Subscription) -> list[Event]:
    with trio.fail_after(60):
        return [event async for event in subscription]


def kinds(events: Iterable[Event]) -> list[str]:
    """Give the names of the kinds, in order."""
    return [type(event).__name__ for event in events]


def kinds_in(store: Any, session: str = "s-1", scope: str = "") -> list[str]:
    return [record.kind for record in store.read(scope, session)]


async def result_texts(session: Session) -> list[str]:
    """Give the texts of the results of all calls, of a valid history."""
    messages = await session.messages()
    check_history(messages)
    return [result.text for message in messages for result in getattr(message, "results", ())]


async def until_status(session: Session, fits: Callable[[Status], bool]) -> Status:
    """Ask for the status until it fits. Not on virtual time, which stands still meanwhile."""
    with trio.fail_after(30):
        while not fits(status := await session.status()):
            await trio.lowlevel.checkpoint()
    return status


async def eventually(fits: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait for something that threads have a hand in."""
    with trio.fail_after(seconds):
        while not fits():  # noqa: ASYNC110 - it is set by threads
            await trio.sleep(0.002)


class Inline(RealMachine):
    """A machine whose worker threads are the loop, so that its steps are counted, and a virtual clock sees them."""

    async def offload(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        abandon_on_cancel: bool = False,
        limiter: Any = None,
    ) -> Any:
        """Call it, a step before and a step behind."""
        await trio.lowlevel.checkpoint()
        made = function(*args)
        await trio.lowlevel.checkpoint()
        return made

    def check_cancelled(self) -> None:
        """Do nothing: in the loop, nothing is cancelled between two steps."""


class Chunky(FunctionModel):
    """A provider that gives these chunks to each request, whatever they are; a number is a pause, an error is raised."""

    def __init__(self, *chunks: object) -> None:
        super().__init__(lambda _request: says())
        self.chunks = chunks

    @asynccontextmanager
    async def open_stream(self, request: Any) -> Any:
        await trio.lowlevel.checkpoint()

        async def given() -> Any:
            for chunk in self.chunks:
                if isinstance(chunk, BaseException):
                    raise chunk
                if isinstance(chunk, float):
                    await trio.sleep(chunk)
                else:
                    yield chunk

        stream = given()
        try:
            yield stream
        finally:
            await stream.aclose()


class only:  # noqa: N801 - reads like `subscribe`, in whose place it stands
    """Subscribe to a session, and read nothing but these kinds: the ends of cycles come unasked."""

    def __init__(self, session: Session, *kinds: type[Event], after: int | None = None) -> None:
        self._events = session.subscribe(kinds=kinds, after=after)
        self._kinds = kinds

    async def __aenter__(self) -> Self:
        await self._events.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._events.__aexit__(None, None, None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        while not isinstance(event := await anext(self._events), self._kinds):
            pass
        return event
