"""What is stepped is what its bytes say: whatever values a signal is made of, it is settled once, and comes back from a journal as it is."""

from typing import get_args

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from agentrail.core.protocol.signals import Signal
from agentrail.core.wire import normalize
from agentrail.core.wire.codec import decode_signal, encode_signal
from agentrail.core.wire.normalize import settled
from agentrail.testing import strategies
from property_tests.core.test_hostile_signals import made
from tests.core.anything import values_of
from tests.core.stored_lives import differs

KINDS = get_args(Signal)
SOUND = {"at_ms": 1, "effect_id": "t1", "signal_id": "q-1"}
FOREIGN = tuple(kind for kind in KINDS if kind not in normalize._OF_THE_SHELL)  # noqa: SLF001 - what is not looked at


@pytest.mark.parametrize("kind", FOREIGN, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_a_signal_of_hostile_values_is_what_its_bytes_say(kind, data):
    """Halves of characters, numbers that are none, numbers of a thousand digits, deep JSON: settled, they come back."""
    drawn = data.draw(made(kind))
    minted = {name: value for name, value in SOUND.items() if name in kind.__struct_fields__}
    signal = settled(replace(drawn, **minted))
    back = decode_signal(encode_signal(signal))
    assert back == signal
    assert differs(back, signal) is None
    assert settled(signal) is signal


@given(signal=st.one_of(*map(values_of, KINDS)))
def test_a_sound_signal_is_given_back_as_it_is(signal):
    """The very one: nothing is copied, and nothing is written."""
    assert settled(signal) is signal
    assert decode_signal(encode_signal(signal)) == signal


def test_only_what_the_shell_mints_is_not_looked_at():
    """Ids, times, and numbers that it draws: none of these kinds has a text or JSON of a caller, a tool or a model."""
    names = {name for kind in normalize._OF_THE_SHELL for name in kind.__struct_fields__}  # noqa: SLF001 - as above
    assert names == {"at_ms", "signal_id", "effect_id", "jitter", "pinged_at_ms"}
    assert SOUND.keys() == normalize.MINTED


@given(signal=strategies.signals())
def test_so_are_those_that_lives_are_made_of(signal):
    """What the strategies draw is what a shell sends."""
    assert settled(signal) is signal
