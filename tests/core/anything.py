"""Hypothesis strategies for any value of an annotation, made from the annotation: whatever a class gains is drawn at once."""

import functools
import types
from collections.abc import Mapping
from typing import Any, Final, Literal, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs
import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from agentrail.core.policy.budget import Budget, Price
from agentrail.core.protocol.tool_changes import UpdateContext, UpdateTodos
from agentrail.core.values.history import GrowingSet
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.events import Envelope, Event, EventBase, MessageDelta, SubagentEvent, Todo, ToolExecutionEnd
from agentrail.messages import SessionId

V = TypeVar("V")


JSON: Final[SearchStrategy[Any]] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
OBJECTS: Final = st.dictionaries(st.text(), JSON, max_size=3)

_numbers: Final = st.integers(min_value=0, max_value=2**62)
_ids: Final = st.text(min_size=1, max_size=8)
_floats: Final = st.floats(allow_nan=False, allow_infinity=False)
_SCALARS: Final[Mapping[Any, SearchStrategy[Any]]] = {
    str: st.text(max_size=20), int: st.integers(-(2**62), 2**62), float: _floats, bool: st.booleans(),
    type(None): st.none(),
    Any: st.none(),  # an object of this process, which nobody stores
}  # fmt: skip


def envelopes() -> SearchStrategy[Envelope]:
    """Where an event may stand: in a session, in a child, committed or not."""
    return st.builds(
        lambda path, seq, at_ms, ephemeral: Envelope(path[-1], seq, at_ms, path, ephemeral),
        st.lists(_ids.map(SessionId), min_size=1, max_size=3).map(tuple),
        _numbers,
        _numbers,
        st.booleans(),
    )


@functools.cache
def values_of(kind: type[V]) -> SearchStrategy[V]:
    """Any value of an attrs class or a Struct; each field is drawn, also where it has a default."""
    hints = get_type_hints(kind)
    fields = {name: _values(hints[name]) for name in _names_in(kind) if name != "meta"}
    if issubclass(kind, EventBase):
        fields["meta"] = st.none() | envelopes()
    return st.builds(kind, **fields)


def _names_in(kind: Any) -> list[str]:
    if attrs.has(kind):
        return [attribute.name for attribute in attrs.fields(kind) if attribute.init]
    return [field.name for field in msgspec.structs.fields(kind)]


def _values(hint: Any) -> SearchStrategy[Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if list[Any] in inner:  # nothing else of ours is a list
        return JSON
    if origin is Mapping:
        return (
            OBJECTS
            if list[Any] in get_args(inner[1])
            else st.dictionaries(_ids, _values(inner[1]), max_size=3)
        )
    if hint == Event:  # two kinds stand for all: the codec looks at them through the one door
        return st.deferred(
            lambda: values_of(MessageDelta) | values_of(ToolExecutionEnd) | values_of(SubagentEvent)
        )
    if isinstance(hint, NewType):
        return _values(hint.__supertype__)
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(_values, inner))
    if origin is tuple and inner[1:] != (...,):
        return st.tuples(*map(_values, inner))
    if origin is tuple:
        return st.lists(_values(inner[0]), max_size=3).map(tuple)
    if origin is GrowingSet:
        return st.lists(_values(inner[0]), max_size=3).map(_grown)
    if hint is Price:  # it refuses what is no price
        amounts = st.floats(0, 1e6)
        return st.builds(Price, input=amounts, output=amounts, cache_read=st.none() | amounts)
    if hint is Budget:  # it refuses one that limits nothing
        return st.builds(
            Budget, max_total_tokens=st.integers(1, 2**62), max_cost_usd=st.none() | st.floats(0.01, 1e6)
        )
    if hint is UpdateTodos:  # it refuses todos without a name, a content, or with a name that another has
        todos = st.builds(Todo, id=st.text(min_size=1).filter(str.strip), content=st.just("do it"))
        return st.builds(
            UpdateTodos, todos=st.lists(todos, max_size=3, unique_by=lambda todo: todo.id).map(tuple)
        )
    if hint is UpdateContext:  # it refuses what names nothing, and sections that are no text
        keys = st.text(min_size=1).filter(lambda key: key != "todos")
        return st.builds(UpdateContext, key=keys, value=st.none() | st.text())
    if hint is Toolbox:  # no struct; it refuses tools of one name
        specs = st.builds(
            ToolSpec, name=st.sampled_from("abc"), description=st.text(), parameters=st.just({})
        )
        return st.lists(specs, max_size=3, unique_by=lambda spec: spec.name).map(Toolbox)
    return _SCALARS[hint] if hint in _SCALARS else values_of(hint)


def _grown(items: list[Any]) -> GrowingSet[Any]:
    made: GrowingSet[Any] = GrowingSet()
    for item in items:
        made = made.added(item)
    return made
