"""Tools for tests, with one behaviour each: one answers and remembers, one hangs, one crashes, one will not stop, one counts.

Each is a complete `agentrail.abc.Tool`, takes any arguments, and can be renamed: `HangingTool(name="wait")`.
"""

from collections.abc import Callable
from typing import Final, Literal

import trio
from attrs import define, field

from agentrail.abc import Ok, ToolContext, ToolOutcome
from agentrail.core.values.toolbox import EffectClass
from agentrail.messages import JsonObject

_ANY_OBJECT: Final[JsonObject] = {"type": "object"}


@define(kw_only=True, eq=False)
class _Fake:
    """What all of them are to a session.

    Attributes:
        name: What a script calls it by.
        description: What the model would read.
        parameters: The schema; by default any object will do.
        killable: Whether a default abort stops it.
        effect_class: What it promises about being run twice.
        timeout_seconds: Per attempt; None for the session's own.
        answered_by: Who gives the result: its code, or the user, whom each call is a question to then.
        started: Set when its first call begins.
        calls: The arguments of all calls so far, in the order in which they began.
        contexts: What came along with them.
    """

    name: str
    description: str = "A tool for tests."
    parameters: JsonObject = field(factory=lambda: dict(_ANY_OBJECT))
    killable: bool = True
    effect_class: EffectClass = "once"
    timeout_seconds: float | None = None
    answered_by: Literal["code", "user", "client"] = "code"
    started: trio.Event = field(factory=trio.Event, init=False)
    calls: list[JsonObject] = field(factory=list, init=False)
    contexts: list[ToolContext] = field(factory=list, init=False)

    def _begin(self, arguments: JsonObject, ctx: ToolContext) -> None:
        self.calls.append(arguments)
        self.contexts.append(ctx)
        self.started.set()


@define(kw_only=True, eq=False)
class RecordingTool(_Fake):
    """A tool that answers at once and remembers what it was asked.

    Attributes:
        answer: What it says: a text, an outcome, or a function from the arguments to one of these.
    """

    name: str = "record"
    answer: str | ToolOutcome | Callable[[JsonObject], str | ToolOutcome] = "recorded"

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Remember, and answer."""
        self._begin(arguments, ctx)
        await trio.lowlevel.checkpoint()
        answer = self.answer(arguments) if callable(self.answer) else self.answer
        return Ok(text=answer) if isinstance(answer, str) else answer


@define(kw_only=True, eq=False)
class HangingTool(_Fake):
    """A tool that never returns, and ends as soon as it is cancelled.

    Attributes:
        stopped: How many of its calls were cancelled and are gone.
    """

    name: str = "hang"
    stopped: int = field(default=0, init=False)

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Wait for ever."""
        self._begin(arguments, ctx)
        try:
            await trio.sleep_forever()
        finally:
            self.stopped += 1


@define(kw_only=True, eq=False)
class CrashingTool(_Fake):
    """A tool that raises.

    Attributes:
        error: What it raises; in groups too, and what is no `Exception`.
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
    """A tool that does not hear its cancellation for a while. Use it under a virtual clock.

    Attributes:
        deaf_seconds: How long.
    """

    name: str = "stubborn"
    deaf_seconds: float = 60.0

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Sleep, deaf to everybody, and answer."""
        self._begin(arguments, ctx)
        # Deaf on purpose; a real tool bounds its shield by seconds, not minutes.
        with trio.CancelScope(shield=True):
            await trio.sleep(self.deaf_seconds)
        return Ok(text="done at last")


@define(kw_only=True, eq=False)
class LedgerTool(_Fake):
    """A tool with an effect that can be counted: for tests that something happens exactly once.

    Attributes:
        crashes: So many of its next calls raise when they have taken effect already: the worst moment.
        effects: The operations that took effect, in their order. An `idempotent` tool knows the ones it has done.
    """

    name: str = "ledger"
    crashes: int = 0
    effects: list[str] = field(factory=list, init=False)

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Take effect, and say how often that has happened."""
        self._begin(arguments, ctx)
        await trio.lowlevel.checkpoint()
        if self.effect_class != "idempotent" or ctx.operation_id not in self.effects:
            self.effects.append(ctx.operation_id)
        if self.crashes > 0:
            self.crashes -= 1
            message = "crashed behind its effect"
            raise RuntimeError(message)
        return Ok(text=f"{len(self.effects)} effects")

    def assert_each_once(self, expected: int) -> None:
        """Check that so many operations took effect, each of them once.

        Raises:
            AssertionError: There were more or fewer, or one of them took effect twice.
        """
        twice = sorted({one for one in self.effects if self.effects.count(one) > 1})
        assert not twice, f"operations that took effect more than once: {twice}"
        assert len(self.effects) == expected, f"expected {expected} effects, there were {len(self.effects)}"
