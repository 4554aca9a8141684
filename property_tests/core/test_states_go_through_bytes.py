"""What a session knows goes through bytes at every step of a random life, and the rest of the life is the same.

Two kinds of lives: those that `drawn_lives` draws from a seed, in which much is in play at once, and scripts of any signals
with stacks of drawn plugins. Then any value of each class that a state can hold, and bytes that somebody has spoilt.
"""

import json
from random import Random
from typing import Final, get_args, get_origin

from hypothesis import given, reject, settings, strategies as st

from agentrail.core.policy.budget import Budget
from agentrail.core.session.machine import step
from agentrail.core.session.state import (
    Remembered,
    SessionConfig,
    SessionData,
    SessionState,
    Stream,
    SuspendedHook,
)
from agentrail.core.session.state_codec import decode_session, encode_session
from agentrail.core.session.state_shapes import SHAPES, SPECS, Reading, Writing
from agentrail.core.stack.hook_outcome import Decisive, Outcome
from agentrail.core.wire.json_text import read_json
from agentrail.core.wire.shapes import Fields, written
from agentrail.errors import AgentrailError, CodecError, PluginError
from agentrail.testing import strategies
from agentrail.testing.checked_run import Run, Setup
from tests.core.anything import values_of
from tests.core.drawn_lives import steps, text_of
from tests.core.stored_lives import live_in_bytes, mirror_in_bytes, plugins_of, through_bytes
from tests.core.test_agents import SAID, lives
from tests.core.test_state_codec import spoilt_tree
from tests.core.worlds import WITH_CLIENT as TOOLS, agents_session, config

SEEDS: Final = st.integers(0, 2**32)
FEW: Final = settings(max_examples=max(settings().max_examples // 4, 5))


@FEW
@given(seed=SEEDS)
def test_a_drawn_life_in_bytes_is_the_same_life(seed):
    """Suspended cycles, open calls, held hooks, compactions, budgets, children, queues: effect for effect."""
    live_in_bytes(seed, 60, has_host=seed % 2 == 0)


@FEW
@given(seed=SEEDS)
def test_a_newer_life_in_bytes_is_the_same_life(seed):
    """With recoveries, gathered context, and calls that the client answers, beside all of those."""
    live_in_bytes(seed, 60, has_host=seed % 2 == 0, gathers_context=seed % 3 > 0, is_new=True)


@FEW
@given(
    drawn=st.lists(SAID, min_size=20, max_size=50),
    budget=st.sampled_from((None, 400, 100_000)),
)
def test_a_life_with_agents_in_bytes_is_the_same_life(drawn, budget):
    """Those that work, idle, wait and wake, waits for them, and the session that is handed over."""
    options = {} if budget is None else {"budget": Budget(max_total_tokens=budget), "max_output_tokens": 20}
    seen = lives(agents_session(**options), drawn)
    mirror_in_bytes((one.signal, one.after, one.effects) for one in seen)


@FEW
@given(data=st.data(), plugins=strategies.stacks(max_size=2))
def test_any_script_in_bytes_is_the_same_script(data, plugins):
    """With plugins that answer anything, and signals in any order: the same states, the same effects."""
    hooks = data.draw(st.sampled_from((frozenset(), frozenset({"before_tool", "after_tool"}))))
    run = Run(Setup(tools=TOOLS, config=config(host_hooks=hooks), entries=plugins))
    state = run.state
    for signal in data.draw(strategies.scripts(run.state)):
        before = through_bytes(state)
        state, effects = step(state, signal)
        mirror, again = step(before, signal)
        assert mirror == state
        assert list(map(text_of, again)) == list(map(text_of, effects))


def _classes() -> list[type]:
    SHAPES.of(SessionState)
    found = {kind for shape in SHAPES.known if isinstance(shape, Fields) for kind in shape.classes}
    return sorted(found - _IN_LIVES, key=lambda kind: kind.__name__)


_IN_LIVES: Final[frozenset[type]] = frozenset(
    {
        *(SessionState, SessionData, SessionConfig, Stream, SuspendedHook, Outcome, Remembered),
        *get_args(Decisive)[:-1],
        *(get_origin(member) for member in get_args(Decisive)[:-1]),
    }
)
"""What holds something that annotations alone do not tell how to draw."""


@given(data=st.data())
def test_any_value_of_a_class_comes_back(data):
    """Whatever stands in its fields."""
    kind = data.draw(st.sampled_from(_classes()))
    try:
        value = data.draw(values_of(kind))
    except AgentrailError:  # no budget, say
        reject()
    shape = SHAPES.of(kind)
    writing, reading = Writing(), Reading()
    plain = read_json(written(shape.encode(value, writing)))
    reading.specs = tuple(SPECS.item.decode(read_json(bytes(spec)), reading) for spec in writing.specs)
    assert shape.decode(plain, reading) == value


@FEW
@given(seed=SEEDS, spoil=SEEDS)
def test_spoilt_states_are_refused_by_name(seed, spoil):
    """One value changed anywhere in the state of a random life: a typed error, or another state that is as sound as any."""
    random = Random(spoil)  # noqa: S311 - a test is to draw the same again
    state = [state for _, state, _ in steps(seed, 40)][-1]
    text = encode_session(state)
    for _ in range(10):
        spoilt = json.dumps(spoilt_tree(json.loads(text), random))
        try:
            back = decode_session(spoilt, plugins_of(state))
        except (CodecError, PluginError, AssertionError):  # the last: by the resolver of this test
            continue
        assert decode_session(encode_session(back), plugins_of(back)) == back
