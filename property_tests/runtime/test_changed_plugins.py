"""Whatever plugins a session has in each of its lives: no `once` call of a prompt runs twice, and no acknowledged prompt is lost."""

import random
from collections import Counter
from typing import Any, Final

import trio
import trio.testing
from attrs import frozen
from hypothesis import given, strategies as st

from agentrail.abc import Ok, ToolContext, ToolOutcome
from agentrail.core.values.toolbox import EffectClass
from agentrail.errors import SessionNotFound, StoreUnavailable
from agentrail.messages import JsonObject, Text, ToolMessage, UserMessage
from agentrail.runtime.session_handle import Session
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import RecordingTool
from scripts.crash_sessions import CHANGES, Change, Changing


@frozen
class Life:
    """One process that works with the session, until it is killed.

    Attributes:
        change: What its plugin does.
        prompts: How often it prompts.
        steps: After how many checkpoints it is killed.
    """

    change: Change
    prompts: int
    steps: int


LIVES = st.lists(
    st.builds(Life, change=st.sampled_from(CHANGES), prompts=st.integers(0, 3), steps=st.integers(0, 120)),
    min_size=2,
    max_size=5,
)


class KillableStore(MemoryStore):
    """A store that takes nothing of a killed process; no snapshot hides what newer code folds."""

    is_killed = False

    def append(self, batch: Any) -> Any:
        """Take records, as long as the process lives."""
        if self.is_killed:
            message = "killed"
            raise StoreUnavailable(message)
        return super().append(batch)

    def put_snapshot(self, snapshot: Any) -> None:
        """Keep none."""


EFFECT_CLASSES: Final[tuple[EffectClass, ...]] = ("once", "idempotent")


class Ledger(RecordingTool):
    """Counts what acted on the world, by prompt."""

    def __init__(self, name: EffectClass, ran: Counter[str]) -> None:
        """Count there."""
        super().__init__(name=name, effect_class=name)
        self._ran = ran

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Act, and take some time for it."""
        del ctx
        self._ran[f"{self.name} {arguments.get('prompt')}"] += 1
        for _ in range(5):
            await trio.lowlevel.checkpoint()
        return Ok(text="done")


def _text_of(message: UserMessage) -> str:
    return "".join(part.text for part in message.content if isinstance(part, Text))


def _answer(request: Any) -> Any:
    last = request.messages[-1]
    if isinstance(last, ToolMessage):
        return says("done")
    return calls(("once", {"prompt": _text_of(last)}), ("idempotent", {}))


async def _rest(session: Session) -> None:
    with trio.fail_after(600):
        while (status := await session.status()).phase != "idle" or status.queued:  # noqa: ASYNC110 - it is asked
            await trio.sleep(0.01)


async def _live(lives: list[Life]) -> None:
    store, ran, acknowledged = KillableStore(lease_ms=0), Counter[str](), list[str]()
    for number, life in enumerate([*lives, Life("nothing", 0, -1)]):
        plugin = Changing(life.change, random.Random(number), is_slow=False)  # noqa: S311 - it is never asked
        given_now: dict[str, Any] = {
            "model": FunctionModel(_answer),
            "tools": [Ledger(name, ran) for name in EFFECT_CLASSES],
            "plugins": [plugin],
        }
        async with open_nameless(store=store, store_patience=0.1) as supervisor:
            try:
                session = await supervisor.resume_session("s", on_drift="go_on", **given_now)
            except SessionNotFound:
                session = await supervisor.start_session(session_id="s", **given_now)
            for count in range(life.prompts):
                text = f"{number}-{count}"
                await session.prompt(text, client_id=text)
                acknowledged.append(text)
            for _ in range(life.steps):
                await trio.lowlevel.checkpoint()
            if life.steps < 0:
                await _rest(session)
                messages = await session.messages()
                said = [_text_of(one) for one in messages if isinstance(one, UserMessage)]
                assert said == acknowledged, "an acknowledged prompt is lost, doubled, or out of order"
            store.is_killed = True
        store.is_killed = False
    twice = {call: count for call, count in ran.items() if call.startswith("once ") and count > 1}
    assert not twice, f"these ran more than once: {twice}"


@given(lives=LIVES)
def test_no_change_of_plugins_repeats_or_loses_anything(lives: list[Life]) -> None:
    """Lives of random length, with random plugins, are killed at random steps; the last one answers what is left."""
    trio.run(_live, lives, clock=trio.testing.MockClock(autojump_threshold=0))
