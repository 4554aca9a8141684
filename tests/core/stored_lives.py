"""What tests need to send states through bytes: plugins that come back, values that are compared with their classes."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from agentrail.core.protocol.effects import Effect
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.signals import Signal
from agentrail.core.session.machine import step
from agentrail.core.session.state import SessionState
from agentrail.core.session.state_codec import decode_session, encode_session
from agentrail.core.session.state_shapes import Resolve
from agentrail.core.stack.plugin import Plugin
from agentrail.frozen import FrozenDict, FrozenList
from tests.core.drawn_lives import steps, text_of

_MORE_FROZEN = frozenset({(MappingProxyType, dict), (FrozenDict, dict), (FrozenList, list), (float, int)})
"""What is read may be of these classes where what was written was of those."""


def plugins_of(state: SessionState) -> Resolve:
    """Give the very plugins of a state back, in the order in which they are asked for; several may have one name."""
    waiting: list[Any] = [member.plugin for member in state.data.stack.members]

    def resolve(record: PluginRecord) -> Plugin:
        plugin: Plugin = waiting.pop(0)
        assert plugin.name == record.name
        assert plugin.version == record.version
        return plugin

    return resolve


def through_bytes(state: SessionState) -> SessionState:
    """Write a state and read it; what comes back is equal, and written as before."""
    text = encode_session(state)
    back = decode_session(text, plugins_of(state), ask=state.data.stack.ask)
    assert back == state
    fault = differs(back, state)
    assert fault is None, fault
    assert encode_session(back) == text
    return back


def live_in_bytes(seed: int, signals: int, **in_play: Any) -> int:
    """Live a drawn life, and beside it the same one whose state goes through bytes at every step; count the steps.

    `in_play` is what `steps` takes besides.
    """
    return mirror_in_bytes(steps(seed, signals, **in_play))


def mirror_in_bytes(life: Iterable[tuple[Signal, SessionState, Sequence[Effect]]]) -> int:
    """Hold a life against the same one whose state goes through bytes at every step; count the steps."""
    mirror: SessionState | None = None
    number = 0
    for signal, state, effects in life:
        number += 1
        if mirror is not None:
            mirror, again = step(mirror, signal)
            assert mirror == state
            assert list(map(text_of, again)) == list(map(text_of, effects))
        mirror = through_bytes(state if mirror is None else mirror)
    return number


def differs(one: Any, other: Any, where: str = "$") -> str | None:
    """Say where two equal values are of different classes, so that one may be changed and the other one not."""
    kinds = (type(one), type(other))
    if kinds[0] is not kinds[1] and kinds not in _MORE_FROZEN:
        return f"{where}: {kinds}"
    if isinstance(one, msgspec.Struct):
        names = [name for name in one.__struct_fields__ if name not in {"plugin", "ask"}]
        pairs = ((f"{where}.{name}", getattr(one, name), getattr(other, name)) for name in names)
    elif isinstance(one, Mapping):
        if list(one) != list(other):
            return f"{where}: {list(one)} for {list(other)}"
        pairs = ((f"{where}.{name}", one[name], other[name]) for name in one)
    elif isinstance(one, tuple | list):
        pairs = ((f"{where}[{place}]", a, b) for place, (a, b) in enumerate(zip(one, other, strict=True)))
    elif hasattr(one, "messages"):
        return differs(one.messages[:], other.messages[:], where) or differs(one.open, other.open, where)
    else:
        return None
    return next((fault for place, a, b in pairs if (fault := differs(a, b, place)) is not None), None)
