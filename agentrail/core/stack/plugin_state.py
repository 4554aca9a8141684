"""States of plugins: frozen values that the codec can store.

Scalars, enumerations, tuples, frozen sets, frozen JSON, and frozen attrs classes and Structs of such values.
"""

# not compiled: it recurses as deep as its input, and only interpreted functions end with a RecursionError

import enum
import math
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Final, TypeAlias, Union, get_args, get_origin

import attrs
import msgspec
from msgspec.structs import replace

from agentrail.core.values.foreign_calls import Raised, attempt, foreign_message
from agentrail.frozen import FrozenDict, FrozenList
from agentrail.otp.guarded_calls import repr_of
from agentrail.structs import decoder_of

StateType: TypeAlias = Any
"""A class or an annotation such as `tuple[str, ...]`."""

_PLAIN: Final = frozenset({bool, NoneType, bytes})
# No named tuples: they are decoded without their names.
_ROWS: Final = frozenset({tuple, frozenset, FrozenList})
_INT64: Final = range(-(2**63), 2**64)


def unstorable(state: Any, where: str = "state") -> str | None:
    try:
        return _fault_in(state, where)
    except UnicodeEncodeError as error:
        return f"{where} has a lone surrogate in {error.object!r:.80}, which UTF-8 cannot represent"
    except RecursionError:
        return f"{where} is nested too deeply: make it flat"


def _fault_in(value: Any, where: str) -> str | None:
    if type(value) in _PLAIN:
        return None
    match value:  # the codec knows no classes derived from numbers and texts, such as those of numpy
        case str() if type(value) is str:
            return None if value.isascii() else _fault_in(value.encode(), where)  # a lone surrogate raises
        case enum.Enum():
            return _fault_in(value.value, f"{where}.value")
        case int() if type(value) is int:
            return None if value in _INT64 else f"{where} is a number of more than 64 bits"
        case float() if type(value) is float:
            return None if math.isfinite(value) else f"{where} is {value}, which JSON cannot represent"
        case frozenset() if type(value) in _ROWS:
            # Sorted, so that of two faults every process reports the same.
            row = enumerate(sorted(value, key=repr))
            return _first((item, f"{where}[{position}]") for position, item in row)
        case tuple() | FrozenList() if type(value) in _ROWS:
            return _first((item, f"{where}[{position}]") for position, item in enumerate(value))
        case FrozenDict():
            keys: tuple[object, ...] = tuple(value)
            wrong = next((key for key in keys if not isinstance(key, str)), None)
            if wrong is not None:
                return f"{where} has the key {repr_of(wrong)}; keys must be text"
            return _fault_in("".join(value), where) or _first(
                (item, f"{where}[{key!r}]") for key, item in value.items()
            )
        case MappingProxyType():
            return f"{where} is a mappingproxy, whose underlying mapping can change: use p.frozen_json"
        case dict() | list() | set() | bytearray():
            return f"{where} is a {type(value).__name__}, which can be changed: use a tuple, a frozenset, or p.frozen_json"
        case msgspec.Struct():
            if not value.__struct_config__.frozen:
                return f"{where} is a {type(value).__name__}, which can be changed: make it frozen=True"
            return _first((getattr(value, name), f"{where}.{name}") for name in value.__struct_fields__)
        case _ if attrs.has(type(value)):
            if not attrs.inspect(type(value)).is_frozen:
                return f"{where} is a {type(value).__name__}, which can be changed: make it @attrs.frozen"
            names = [attribute.name for attribute in attrs.fields(type(value))]
            private = next((name for name in names if name.startswith("_")), None)
            if private is not None:
                return f"{where}.{private} would be lost: the codec skips names that begin with an underscore"
            return _first((getattr(value, name), f"{where}.{name}") for name in names)
        case _:
            return f"{where} is a {type(value).__name__}: a state may contain frozen attrs classes, scalars, tuples and frozen mappings"


def encode_state(state: object) -> bytes:
    return msgspec.json.encode(state, enc_hook=dict, order="deterministic")


def decode_state(encoded: bytes, state_type: StateType) -> Any:
    return _frozen_again(decoder_of(state_type).decode(encoded))


def loses(state: object, state_type: StateType) -> str | None:
    """Return why the codec does not restore a state unchanged, or None if it does."""
    lost = attempt(_loss, state, state_type)  # its class may check its fields, or compare them
    if isinstance(lost, Raised):
        return f"state that cannot be read back as {_name_of(state_type)}: {lost.error.message}"
    return None if lost is None else foreign_message(str(lost))


def _loss(state: object, state_type: StateType) -> str | None:
    fault = unstorable(state)
    if fault is not None:
        return fault
    try:
        back = decode_state(encode_state(state), state_type)
    except (
        msgspec.MsgspecError,
        TypeError,
        NameError,
    ) as error:  # NameError: an annotation that cannot be resolved
        return f"state {state!r} cannot be read back as {_name_of(state_type)}: {error}"
    if back != state:
        return f"state {state!r} comes back from the codec as {back!r}: annotate its fields with the types that they hold"
    return None


def classes_of(state_type: StateType) -> tuple[type, ...]:
    """Return the classes of an annotation's instances. `(object,)` if it does not define them."""
    origin: Any = get_origin(state_type)
    if origin is Annotated:
        return classes_of(get_args(state_type)[0])
    if origin is Union or isinstance(state_type, UnionType):
        return tuple(found for member in get_args(state_type) for found in classes_of(member))
    # `Any` is a class since Python 3.11, and has no instances.
    if state_type is None or state_type is Any:
        return (object,) if state_type is Any else (NoneType,)
    found = origin or getattr(state_type, "__supertype__", state_type)
    return (found,) if isinstance(found, type) else (object,)


def _first(items: Any) -> str | None:
    return next((fault for item, where in items if (fault := _fault_in(item, where)) is not None), None)


def _frozen_again(value: Any) -> Any:
    match value:
        case dict():
            return FrozenDict((key, _frozen_again(item)) for key, item in value.items())
        case list():
            return FrozenList(map(_frozen_again, value))
        case tuple():
            return tuple(map(_frozen_again, value))
        case msgspec.Struct():
            names = value.__struct_fields__
            return replace(value, **{name: _frozen_again(getattr(value, name)) for name in names})
        case _ if attrs.has(type(value)):
            fields = attrs.fields(type(value))
            again = {field.alias: _frozen_again(getattr(value, field.name)) for field in fields if field.init}
            return attrs.evolve(value, **again)
        case _:
            return value


def _name_of(state_type: StateType) -> str:
    origin: Any = get_origin(state_type)
    return repr(state_type) if origin else getattr(state_type, "__name__", repr(state_type))
