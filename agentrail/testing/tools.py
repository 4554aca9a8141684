"""Tools for tests, with one behaviour each: record, hang, crash, ignore a stop, or count effects."""

from collections.abc import Callable
from typing import Final

import trio
from attrs import define, field

from agentrail.abc import Ok, ToolContext, ToolOutcome
from agentrail.messages import JsonObject
from agentrail.tools.function import ToolTraits

_ANY_OBJECT: Final[JsonObject] = {"type": "object"}


@define(kw_only=True, eq=False)
class _Fake(ToolTraits):
    """The common part of all of them. The other attributes are those of `ToolTraits`.

    Attributes:
        started: Set when its first call starts.
        calls: Arguments of all calls so far, in order of their start.
    """

    description: str = "A tool for tests."
    parameters: JsonObject = field(factory=lambda: dict(_ANY_OBJECT))
    started: trio.Event = field(factory=trio.Event, init=False)
    calls: list[JsonObject] = field(factory=list, init=False)
    contexts: list[ToolContext] = field(factory=list, init=False)

    def _begin(self, arguments: JsonObject, ctx: ToolContext) -> None:
        self.calls.append(arguments)
        self.contexts.append(ctx)
        self.started.set()


@define(kw_only=True, eq=False)
class RecordingTool(_Fake):
    """A tool that answers at once and records its calls.

    Attributes:
        answer: Its answer: a text, an outcome, or a function from the arguments to one of these.
    """

    name: str = "record"
    answer: str | ToolOutcome | Callable[[JsonObject], str | ToolOutcome] = "recorded"

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Record the call, and answer."""
        self._begin(arguments, ctx)
        await trio.lowlevel.checkpoint()
        answer = self.answer(arguments) if callable(self.answer) else self.answer
        return Ok(text=answer) if isinstance(answer, str) else answer


@define(kw_only=True, eq=False)
class HangingTool(_Fake):
    """A tool that never returns, and ends as soon as it is cancelled.

    Attributes:
        stopped: Number of its calls that were cancelled and have ended.
    """

    name: str = "hang"
    stopped: int = field(default=0, init=False)

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Wait indefinitely."""
        self._begin(arguments, ctx)
        try:
            await trio.sleep_forever()
        finally:
            self.stopped += 1


@define(kw_only=True, eq=False)
class CrashingTool(_Fake):
    """A tool that raises.

    Attributes:
        error: The exception, which may be a group, or not an `Exception`.
    """

    name: str = "crash"
    error: BaseException = field(factory=lambda: ValueError("bad city"))

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Raise."""
        self._begin(arguments, ctx)
        await trio.lowlevel.checkpoint()
        raise self.error


@define(kw_only=True, eq=False)
class StubbornTool(_Fake):
    """A tool that ignores its cancellation for a while. Use it under a virtual clock.

    Attributes:
        deaf_seconds: Duration.
    """

    name: str = "stubborn"
    deaf_seconds: float = 60.0

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Sleep, ignoring cancellations, and answer."""
        self._begin(arguments, ctx)
        # Shielded on purpose. A real tool limits its shield to seconds rather than minutes.
        with trio.CancelScope(shield=True):
            await trio.sleep(self.deaf_seconds)
        return Ok(text="done at last")


@define(kw_only=True, eq=False)
class LedgerTool(_Fake):
    """A tool with a countable effect: for tests that an effect happens exactly once.

    Attributes:
        crashes: Number of next calls that raise after they have taken effect: the worst moment.
        effects: Operations that took effect, in order. An `idempotent` tool knows the ones it has done.
    """

    name: str = "ledger"
    crashes: int = 0
    effects: list[str] = field(factory=list, init=False)

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Take effect, and return the number of effects so far."""
        self._begin(arguments, ctx)
        await trio.lowlevel.checkpoint()
        if self.effect_class != "idempotent" or ctx.operation_id not in self.effects:
            self.effects.append(ctx.operation_id)
        if self.crashes > 0:
            self.crashes -= 1
            message = "crashed after its effect"
            raise RuntimeError(message)
        return Ok(text=f"{len(self.effects)} effects")

    def assert_each_once(self, expected: int) -> None:
        """Check that this many operations took effect, each of them once.

        Raises:
            AssertionError: More or fewer took effect, or one of them twice.
        """
        twice = sorted({one for one in self.effects if self.effects.count(one) > 1})
        assert not twice, f"operations that took effect more than once: {twice}"
        assert len(self.effects) == expected, f"expected {expected} effects, there were {len(self.effects)}"
