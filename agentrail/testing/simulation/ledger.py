"""Ledgers: outside worlds whose effects are counted. They outlive nodes, and the tools of a life write to them."""

from typing import Final, TypeVar

import trio
from attrs import define, field

from agentrail import outside
from agentrail.abc import Done, Error, NotDone, Ok, Reconciled, ToolContext, ToolOutcome, Unknown
from agentrail.core.policy.calls import hash_arguments
from agentrail.core.values.toolbox import EffectClass, ToolSpec
from agentrail.events import ToolExecutionEnd
from agentrail.messages import JsonObject
from agentrail.structs import picked_fields
from agentrail.testing.simulation.facts import LedgerEntry, Read
from agentrail.testing.simulation.faults import TOOL_TROUBLE
from agentrail.testing.simulation.inhabited_world import InhabitedWorld
from agentrail.testing.simulation.log import LifeLog
from agentrail.tools.function import ToolTraits

T = TypeVar("T")

_BEHAVIOURS: Final = (
    *(("well",) * 40),
    *("slow", "deaf", "huge result", "raise before", "raise after", "error", "result after stop"),
)
_OF_SPEC: Final = (
    *("name", "description", "parameters"),
    *("killable", "effect_class", "timeout_seconds", "answered_by"),
)
_DEAF_SECONDS: Final = 8.0
_HUGE: Final = "0123456789abcdef" * 8_192
_AMOUNT: Final[JsonObject] = {
    "type": "object",
    "properties": {"amount": {"type": "integer", "minimum": 1, "maximum": 1000}},
    "required": ["amount"],
}


@define(eq=False)
class EffectLedger:
    """An outside world, such as a bank. It never fails, and it counts.

    Attributes:
        name: Its name in the log.
        entries: All effects, in order.
    """

    name: str
    _log: LifeLog
    # Its tape draws how the tools behave. None: well.
    _world: InhabitedWorld | None = None
    entries: list[LedgerEntry] = field(init=False, factory=list)
    _operations: dict[str, list[int]] = field(init=False, factory=dict)  # with the epochs of its effects
    _tools: "dict[str, EffectTool]" = field(init=False, factory=dict)
    _is_each_once: bool = field(init=False, default=True)

    def tool(self, name: str, effect_class: EffectClass = "once", seconds: float = 1.0) -> "EffectTool":
        """Create a tool with an effect, at the beginning, in the middle or at the end of so many seconds."""
        made = EffectTool(name=name, effect_class=effect_class, seconds=seconds, ledger=self)
        self._tools[name] = made
        return made

    def tool_of(self, spec: ToolSpec, seconds: float = 1.0) -> "EffectTool":
        """Create a tool with the description of another one."""
        made = self._tools[spec.name] = EffectTool(
            **picked_fields(spec, *_OF_SPEC), seconds=seconds, ledger=self
        )
        return made

    def each_once(self) -> bool:
        """Return whether no operation took effect twice: of a `once` tool at all, of a `reconcilable` one under one owner. Cheap.

        A node that stalls directly before an effect can repeat one of the next owner. Only `ctx.fence` excludes that.
        """
        return self._is_each_once

    def at_least_once(self) -> bool:
        """Return whether each call that published a success took effect. Reads the whole log."""
        done = {(entry.fence[0], entry.call_id) for entry in self.entries}
        events = (
            line.facts.event if isinstance(line.facts, Read) else line.facts for line in self._log.lines
        )
        return all(
            event.meta is None or event.result.is_error or (event.meta.session_id, event.call_id) in done
            for event in events
            if isinstance(event, ToolExecutionEnd) and event.name in self._tools
        )

    def knows(self, operation_id: str) -> bool:
        """Return whether an operation took effect."""
        return operation_id in self._operations

    def write(self, tool: "EffectTool", ctx: ToolContext) -> None:
        """Take effect. A repetition of an `idempotent` tool is an entry too."""
        if getattr(outside.current(), "is_dead", False):
            return  # tasks of a dead node are cancelled at the end of a life, and must not act then
        entry = LedgerEntry(
            ledger=self.name,
            tool=tool.name,
            effect_class=tool.effect_class,
            operation_id=ctx.operation_id,
            call_id=ctx.call_id,
            attempt=ctx.attempt,
            arguments_hash=hash_arguments(ctx.arguments),
            fence=ctx.fence,
        )
        before = self._operations.setdefault(ctx.operation_id, [])
        is_again = bool(before) if tool.effect_class == "once" else ctx.fence[1] in before
        self._is_each_once &= not is_again or tool.effect_class in {"pure", "idempotent"}
        before.append(ctx.fence[1])
        self.entries.append(entry)
        said = f"{tool.name} {ctx.call_id} takes effect"
        self._log.note("tool", said, session=ctx.session_id, facts=entry)

    def draw(self, name: str, options: tuple[T, ...]) -> T:
        """Return one of the options. The first is the calm one."""
        world = self._world
        may_differ = world is not None and not world.is_calm and world.allows(TOOL_TROUBLE)
        return world.tape.choice(name, options) if world is not None and may_differ else options[0]


@define(kw_only=True, eq=False)
class EffectTool(ToolTraits):
    """A tool of a ledger, which may misbehave. See `EffectLedger.tool`."""

    description: str = "Changes the outside world."
    parameters: JsonObject = field(factory=lambda: dict(_AMOUNT))
    max_result_bytes: int = 16_384
    seconds: float
    ledger: EffectLedger

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Wait, take effect, wait, and answer."""
        name = f"tool[{ctx.session_id}/{ctx.call_id}]"
        how = self.ledger.draw(name, _BEHAVIOURS)
        before = self.ledger.draw(f"{name}.before", (0.0, 0.5, 1.0))
        seconds = {"slow": 10 * self.seconds, "deaf": _DEAF_SECONDS}.get(how, self.seconds)
        if how == "error":
            return Error(text="The amount is too high: try a lower one.")
        if how == "raise before":
            message = "refused"
            raise ConnectionRefusedError(message)
        with trio.CancelScope(shield=how == "deaf"):
            try:
                await trio.sleep(seconds * before)
                self.ledger.write(self, ctx)
                await trio.sleep(seconds * (1 - before))
            except trio.Cancelled:  # noqa: ASYNC103 - a tool that answers although it was stopped is a case of its own
                if how != "result after stop" or not self.ledger.knows(ctx.operation_id):
                    raise
        if how == "raise after":
            message = "reset"
            raise ConnectionResetError(message)
        return Ok(text=_HUGE if how == "huge result" else f"{self.name} is done")

    async def reconcile(self, operation_id: str, ctx: ToolContext) -> Reconciled:
        """Look into the ledger, which is unavailable at times."""
        await trio.lowlevel.checkpoint()
        name = f"tool[{ctx.session_id}/{ctx.call_id}].ledger"
        if self.ledger.draw(name, (*("there",) * 9, "away")) == "away":
            return Unknown()
        return Done(Ok(text=f"{self.name} is done")) if self.ledger.knows(operation_id) else NotDone()
