"""How plugins of sessions do, over all sessions of a scope: what lived is counted once, and of others nothing is seen."""

import math
import random

from agentrail import open_supervisor
from agentrail.plugins import Action, BeforePrompt, Context, Continue, Plugin, SessionStarted, on
from agentrail.runtime.hook_times import Durations
from agentrail.stores.memory import MemoryStore
from tests.runtime.rig import on_virtual_time, saying
from tests.thinned import each


class Careful(Plugin[int]):
    """Hears of a session's beginning, which is tried first, and stumbles over some prompts."""

    on_error = "open"

    def init(self) -> int:
        return 0

    @on(SessionStarted)
    def begin(self, event: SessionStarted, state: int, ctx: Context) -> Action[int]:
        return Continue(state)

    @on(BeforePrompt)
    def look(self, event: BeforePrompt, state: int, ctx: Context) -> Action[int]:
        if event.text == "stumble":
            message = "the rug"
            raise ValueError(message)
        return Continue(state)


def counted(supervisor, scope="acme"):
    return {
        hook.hook: (hook.calls, hook.failures)
        for one in supervisor.plugin_use(scope=scope)
        for hook in one.hooks
    }


@on_virtual_time
async def test_a_step_that_is_taken_to_see_is_counted_when_it_is_taken():
    """And a session that comes back counts what it lives from then on, not what its journal tells of the time before."""
    store = MemoryStore()
    async with open_supervisor(store=store) as supervisor:
        session = await supervisor.start_session(
            model=saying("a", "b"), plugins=[Careful], session_id="s-1", scope="acme"
        )
        await session.ask("stumble")
        assert counted(supervisor) == {"SessionStarted": (1, 0), "BeforePrompt": (1, 1)}
        (use,) = supervisor.plugin_use(scope="acme")
        assert (use.name, use.sessions) == ("Careful", 1)
        assert use.last_failure is not None
        assert "the rug" in use.last_failure.words
        assert supervisor.plugin_use(scope="else") == ()
        await session.stop()
        assert supervisor.plugin_use(scope="acme")[0].sessions == 0
    async with open_supervisor(store=store) as supervisor:
        other = await supervisor.start_session(
            model=saying("a"), plugins=[Careful], session_id="s-2", scope="acme"
        )
        await other.ask("Hi")
    async with open_supervisor(store=store) as supervisor:
        back = await supervisor.resume_session("s-2", model=saying("b"), plugins=[Careful], scope="acme")
        await back.ask("Hi again")
        assert counted(supervisor) == {"SessionStarted": (1, 0), "BeforePrompt": (1, 0)}


WIDEST = 2 ** (1 / 8)  # a class ends so much above where it begins


def filled(seconds):
    durations = Durations()
    for one in seconds:
        durations.note(one)
    return durations


def nearest(seconds, share):
    return sorted(seconds)[math.ceil(len(seconds) * share) - 1] * 1000


@each("share", [0.01, 0.5, 0.99, 1.0])
def test_a_percentile_is_never_too_little_and_hardly_too_much(share):
    """Held against a sorted list, over nine powers of ten."""
    draw = random.Random(15)  # noqa: S311 - the same numbers each time
    seconds = [10 ** draw.uniform(-6, 2.9) for _ in range(2_000)]
    told, real = filled(seconds).percentile_ms(share), nearest(seconds, share)
    assert real * 0.999_999 <= told <= real * WIDEST


def test_nothing_and_next_to_nothing_and_for_ever_have_a_place():
    """No duration raises, none makes more than a fixed number of classes."""
    assert Durations().percentile_ms(0.99) == 0.0
    durations = filled([0.0, 1e-12, 1e9])
    assert durations.count == 3
    assert durations.percentile_ms(0.5) == 0.001
    assert durations.percentile_ms(1.0) >= 1_000_000
    many = filled([draw * 1e-7 for draw in range(100_000)])
    assert len(many.classes) < 200
