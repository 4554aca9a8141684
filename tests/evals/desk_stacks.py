"""Stacks and rules of a desk, as an application would name them: `tests.evals.desk_stacks:GUARDED`."""

import sys
import time
from typing import Any

from agentrail import plugins as p
from agentrail.evals.trace import Trace


class Careless(p.Plugin[int]):
    """Blocks calls that remove something. Of every three calls it forgets the last, until it is mended."""

    name = "careless"
    priority = 50
    hooks = frozenset({p.BeforeTool})
    mended = False

    def init(self) -> int:
        return 0

    def handle(self, event: Any, state: int, ctx: p.Context) -> p.Action[int]:
        is_forgotten = state % 3 == 2 and not self.mended
        if "remove" in str(event.arguments.get("text")) and not is_forgotten:
            return p.BlockTool("not here", state + 1)
        return p.Continue(state + 1)


class Strict(p.Plugin[None]):
    """Blocks each call that says `again`."""

    name = "strict"
    priority = 60
    hooks = frozenset({p.BeforeTool})

    def init(self) -> None:
        return None

    def handle(self, event: Any, state: None, ctx: p.Context) -> p.Action[None]:
        return p.BlockTool("no", state) if "again" in str(event.arguments) else p.Continue(state)


class Sleeper(Strict):
    """Never ends."""

    name = "sleeper"

    def handle(self, event: Any, state: None, ctx: p.Context) -> p.Action[None]:
        while True:
            time.sleep(0.01)


def guarded(recorded: list[Any]) -> list[Any]:
    return [*recorded, Strict()]


def slow(recorded: list[Any]) -> list[Any]:
    return [*recorded, Sleeper()]


def raises(recorded: list[Any]) -> list[Any]:
    raise RuntimeError(str(len(recorded)))


def forgets_to_return(recorded: list[Any]) -> None:
    recorded.append(Strict())


def ends_the_process(_given: object) -> None:
    sys.exit(0)


SHORTER = {"system_prompt": "Be brief.", "replace_sections": {"mode": ""}, "max_turns": 50}
UNKNOWN = {"max_turn": 3}
NUMBER = 3


def nothing_is_removed(trace: Trace) -> bool:
    ran = [one for one in trace.calls if one.outcome == "done"]
    return not any("remove" in str(one.call.arguments) for one in ran)


def is_wrong(trace: Trace) -> bool:
    raise KeyError(len(trace.calls))
