"""Conversion of annotations to nodes."""

import collections.abc
import enum
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from agentrail.errors import TypeFault
from agentrail.frozen import canonical_json
from agentrail.messages import JsonValue
from agentrail.otp.guarded_calls import repr_of
from agentrail.structs import converter_of
from agentrail.typed.pydantic_models import PydanticModel, is_model
from agentrail.typed.record_types import TYPE_MARKS, RecordType, class_fields, is_struct
from agentrail.typed.schema_nodes import (
    Definitions,
    Family,
    Leaf,
    Named,
    Remarked,
    Schema,
    TypeNode,
    not_of_type,
    to_plain,
)
from agentrail.typed.validation_errors import (
    MAX_CLASS_REASON,
    MAX_SHOWN_OF_VALUE,
    DecodingBudget,
    OutputFault,
    lowered,
    member,
    mismatch,
    type_name,
)

# Types that contain others: lists, sets, tuples and dictionaries, and unions.

_MAX_SAID: Final = 5


class _Array(TypeNode):
    """A list, a set, or a tuple of any length."""

    family: Family = "array"

    def __init__(
        self, name: str, item: TypeNode, make: Callable[[Iterable[Any]], Any], bounds: msgspec.Meta
    ) -> None:
        """Create the node. `make` builds the Python value from the items, `bounds` limits their number."""
        self.name: str = name
        self._item, self._make, self._bounds = item, make, bounds
        self.python: type | None = make if isinstance(make, type) else None

    def schema(self, definitions: Definitions) -> Schema:
        """Return the schema. It does not require unique items in a set: a duplicate needs no new model request."""
        made: Schema = {"type": "array"}
        if items := self._item.schema(definitions):
            made["items"] = items
        return made | _size_limits(self._bounds, "Items")

    def decode(self, value: Any, path: str, budget: DecodingBudget) -> Any:
        if not isinstance(value, list | tuple):
            raise mismatch(value, expected="array", path=path)
        if fault := _fault_of_size(self._bounds, "array", len(value)):
            raise OutputFault(fault, path=path)
        items = [self._item.decode(one, f"{path}[{at}]", budget) for at, one in enumerate(value)]
        try:
            return self._make(items)
        except TypeError as error:  # an unhashable item of a set
            raise OutputFault(lowered(str(error)), path=path) from None

    def encode(self, value: Any, path: str) -> JsonValue:
        if not self.takes(value):
            raise not_of_type(self, value, path)
        if fault := _fault_of_size(self._bounds, "array", len(value)):
            raise TypeFault(fault, where=path)
        if isinstance(value, set | frozenset):
            return sorted((self._item.encode(one, f"{path}[]") for one in value), key=canonical_json)
        return [self._item.encode(one, f"{path}[{at}]") for at, one in enumerate(value)]

    def takes(self, value: object) -> bool:
        return isinstance(value, set | frozenset | Sequence) and not isinstance(
            value, str | bytes | bytearray
        )


class Places(TypeNode):
    """A tuple with a type for each position."""

    family: Family = "array"
    python: type | None = tuple

    def __init__(self, name: str, items: Sequence[TypeNode]) -> None:
        self.name: str = name
        self._items = items

    def schema(self, definitions: Definitions) -> Schema:
        """Return the schema: a type per position, and no more items."""
        made: Schema = {"type": "array", "minItems": len(self._items), "maxItems": len(self._items)}
        if self._items:
            made |= {"prefixItems": [item.schema(definitions) for item in self._items], "items": False}
        return made

    def decode(self, value: Any, path: str, budget: DecodingBudget) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise mismatch(value, expected="array", path=path)
        if len(value) != len(self._items):
            reason = f"expected `array` of length {len(self._items)}, got {len(value)}"
            raise OutputFault(reason, path=path)
        pairs = zip(self._items, value, strict=True)
        return tuple(item.decode(one, f"{path}[{at}]", budget) for at, (item, one) in enumerate(pairs))

    def encode(self, value: Any, path: str) -> JsonValue:
        if not isinstance(value, list | tuple) or len(value) != len(self._items):
            raise not_of_type(self, value, path)
        pairs = zip(self._items, value, strict=True)
        return [item.encode(one, f"{path}[{at}]") for at, (item, one) in enumerate(pairs)]

    def takes(self, value: object) -> bool:
        return isinstance(value, tuple)


class _DictType(TypeNode):
    """A dictionary, whose keys are not fixed by the type."""

    family: Family = "object"
    python: type | None = dict

    def __init__(self, name: str, key: Leaf | None, item: TypeNode, bounds: msgspec.Meta) -> None:
        self.name: str = name
        self._key, self._item, self._bounds = key, item, bounds
        # msgspec reads a number from a string only in a key.
        self._names = converter_of(dict[key.hint if key else str, None], str_keys=True)  # type: ignore[misc]  # made at run time

    def schema(self, definitions: Definitions) -> Schema:
        """Return the schema of the values, and of the keys if they are constrained."""
        made: Schema = {"type": "object"}
        if self._key is not None and (names := self._key.name_schema(definitions)):
            made["propertyNames"] = names
        if values := self._item.schema(definitions):
            made["additionalProperties"] = values
        return made | _size_limits(self._bounds, "Properties")

    def decode(self, value: Any, path: str, budget: DecodingBudget) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise mismatch(value, expected="object", path=path)
        if fault := _fault_of_size(self._bounds, "object", len(value)):
            raise OutputFault(fault, path=path)
        return {
            self._decoded_key(key, path): self._item.decode(one, member(path, key), budget)
            for key, one in value.items()
        }

    def _decoded_key(self, key: str, path: str) -> Any:
        if self._key is None:
            return key
        try:
            (made,) = self._names({key: None})
        except msgspec.ValidationError as error:
            reason = f"the name {key!r:.{MAX_SHOWN_OF_VALUE}}: {lowered(str(error).partition(' - at ')[0])}"
            raise OutputFault(reason, path=path) from None
        return made

    def encode(self, value: Any, path: str) -> JsonValue:
        if not isinstance(value, Mapping):
            raise not_of_type(self, value, path)
        if fault := _fault_of_size(self._bounds, "object", len(value)):
            raise TypeFault(fault, where=path)
        made: dict[str, JsonValue] = {}
        for key, one in value.items():
            (name,) = to_plain({key: None}, path)
            try:
                self._decoded_key(name, path)
            except OutputFault as refused:
                raise TypeFault(refused.reason, where=refused.path) from None
            made[name] = self._item.encode(one, member(path, name))
        return made

    def takes(self, value: object) -> bool:
        return isinstance(value, Mapping)


def _size_limits(bounds: msgspec.Meta, of_what: str) -> Schema:
    sizes = {f"min{of_what}": bounds.min_length, f"max{of_what}": bounds.max_length}
    return {word: size for word, size in sizes.items() if size is not None}


def _fault_of_size(bounds: msgspec.Meta, kind: str, size: int) -> str | None:
    if bounds.min_length is not None and size < bounds.min_length:
        return f"expected `{kind}` of length >= {bounds.min_length}, got {size}"
    if bounds.max_length is not None and size > bounds.max_length:
        return f"expected `{kind}` of length <= {bounds.max_length}, got {size}"
    return None


class _UnionNode(TypeNode):
    """One of several types. If several are objects, they are tried in their written order."""

    def __init__(
        self, name: str, scalars: Leaf | None, array: TypeNode | None, objects: Sequence[TypeNode]
    ) -> None:
        """Create the node from members that differ by JSON kind, and the objects."""
        self.name: str = name
        self._scalars, self._array, self._objects = scalars, array, objects
        self.family: Family = "object" if scalars is None and array is None else "any"

    def schema(self, definitions: Definitions) -> Schema:
        offered = [node.schema(definitions) for node in (*self._objects, self._array) if node is not None]
        if self._scalars is not None:
            said = self._scalars.schema(definitions)
            offered += said["anyOf"] if said.keys() == {"anyOf"} else [said]
        return {"anyOf": offered}

    def decode(self, value: Any, path: str, budget: DecodingBudget) -> Any:
        """Return the first member that fits. If none fits, report the reason for each."""
        match value:
            case dict() if len(self._objects) > 1:
                return self._first_that_fits(value, path, budget)
            case dict() if self._objects:
                return self._objects[0].decode(value, path, budget)
            case list() | tuple() if self._array is not None:
                return self._array.decode(value, path, budget)
            case dict() | list() | tuple():
                raise mismatch(value, expected=self.name, path=path)
            case _ if self._scalars is not None and self._scalars.may_be(value):
                return self._scalars.decode(value, path, budget)
            case _:
                raise mismatch(value, expected=self.name, path=path)

    def _first_that_fits(self, value: Any, path: str, budget: DecodingBudget) -> Any:
        said: list[str] = []
        for node in self._objects:
            try:
                return node.decode(value, path, budget)
            except OutputFault as fault:
                reason = fault.reason if fault.path == path else str(fault)
                said.append(f"as `{node.name}`, {reason[:MAX_CLASS_REASON]}")
        reasons = "; ".join(said[:_MAX_SAID])
        reason = f"matches none of the {len(said)} allowed types: {reasons}"
        raise OutputFault(reason, path=path)

    def encode(self, value: Any, path: str) -> Any:
        """Encode with the member that has exactly this class, otherwise with any that accepts the value."""
        offered = (*self._objects, self._array, self._scalars)
        holding = [node for node in offered if node is not None and node.takes(value)]
        holding.sort(key=lambda node: node.python is not type(value))
        faults: list[TypeFault] = []
        for node in holding:
            try:
                return node.encode(value, path)
            except TypeFault as fault:
                if node is not self._scalars:  # it accepts everything, so its message would be misleading
                    faults.append(fault)
        raise faults[0] if faults else not_of_type(self, value, path)


_ARRAYS: Final[Mapping[Any, Callable[[Iterable[Any]], Any]]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Collection: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
}
_TABLES: Final = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_NO_SCHEMA: Final = (TypeError, ValueError, LookupError, NameError, AttributeError, RuntimeError)
"""Errors that msgspec raises for unsupported types, including `NotImplementedError` and `RecursionError`."""
_NO_CLASS: Final = "use str, int, float, bool, lists, dicts, Literal, enums, or a class with fields"
_BOUNDS: Final = ("ge", "gt", "le", "lt", "multiple_of", "pattern", "min_length", "max_length", "tz")
_WORDS: Final = ("description", *_BOUNDS[:-1])
_ELSEWHERE: Final = ("annotated_types", "pydantic")
_Metas: TypeAlias = tuple[msgspec.Meta, ...]


class TypeReader:
    """Reads one type. A class that occurs again is the same node, so a class may contain itself."""

    def __init__(self) -> None:
        self._met: dict[object, TypeNode] = {}

    def read(self, hint: Any, where: str) -> TypeNode:
        hint, metas = _unwrapped(hint)
        remarks = _remarks(metas)
        bounds = tuple(meta for meta in metas if any(getattr(meta, name) is not None for name in _BOUNDS))
        node = self._bare(hint, bounds, where)
        return Remarked(node, remarks) if remarks else node

    def _bare(self, hint: Any, bounds: _Metas, where: str) -> TypeNode:
        origin = typing.get_origin(hint)
        kind = hint if origin is None else origin
        if hint is Any or hint is object or isinstance(hint, typing.TypeVar):
            # A type variable without a value stands for its bound, or for anything.
            bound = getattr(hint, "__bound__", None)
            return Leaf(Any, "Any") if bound is None else self.read(bound, where)
        if kind is typing.Union or kind is types.UnionType:
            return self._union(hint, bounds, where)
        if type(kind).__name__ == "TypeAliasType":
            return self._alias(hint, kind, where)
        if kind is tuple:
            return self._tuple(hint, bounds, where)
        if any(kind is one for one in _ARRAYS):
            (item,) = typing.get_args(hint) or (Any,)
            return _Array(
                type_name(hint), self.read(item, f"{where}[]"), _ARRAYS[kind], _sizes(list, bounds, where)
            )
        if any(kind is one for one in _TABLES):
            return self._table(hint, bounds, where)
        return self._class(hint, kind, bounds, where)

    def _class(self, hint: Any, kind: Any, bounds: _Metas, where: str) -> TypeNode:
        key = self._key(hint)
        if key in self._met:
            node = self._met[key]
        elif is_model(kind):
            node = self._met[key] = PydanticModel(kind, where)
        elif isinstance(kind, enum.EnumMeta) or (is_struct(kind) and kind.__struct_config__.array_like):
            return leaf(hint, bounds, where)
        else:
            members = class_fields(kind, typing.get_args(hint), where)
            if members is None:
                return leaf(hint, bounds, where)
            node = self._met[key] = record = RecordType(kind, type_name(hint), key)
            record.take_fields(members, lambda one: self.read(one.hint, f"{where}.{one.name}"))
        if bounds:
            reason = "a class has no size or order"
            raise TypeFault(reason, where=where, way_out="bound its fields")
        return node

    def _key(self, hint: Any) -> object:
        try:
            hash(hint)
        except TypeError:
            return repr_of(hint)
        # `Box[A | B]` equals `Box[B | A]`, but the order matters here, so the text is part of the key.
        return hint, repr_of(hint)

    def _alias(self, hint: Any, kind: Any, where: str) -> TypeNode:
        key = self._key(hint)
        if key in self._met:
            return self._met[key]
        arguments = typing.get_args(hint)
        value = kind.__value__[arguments] if arguments else kind.__value__
        named = Named(type_name(hint), _family_of(value))
        self._met[key] = named
        named.inner = self.read(value, where)
        named.family = named.inner.family
        return named

    # --- containers

    def _tuple(self, hint: Any, bounds: _Metas, where: str) -> TypeNode:
        arguments = typing.get_args(hint)
        if not arguments and hint != tuple[()]:
            arguments = (Any, ...)
        if arguments[1:] == (...,):
            item = self.read(arguments[0], f"{where}[]")
            return _Array(type_name(hint), item, tuple, _sizes(list, bounds, where))
        if bounds:
            reason = "the length of this tuple is fixed"
            raise TypeFault(reason, where=where, way_out="remove the bounds")
        items = [self.read(one, f"{where}[{at}]") for at, one in enumerate(arguments)]
        return Places(type_name(hint), items)

    def _table(self, hint: Any, bounds: _Metas, where: str) -> TypeNode:
        key, item = typing.get_args(hint) or (str, Any)
        keys = None if key is str or key is Any else leaf(*_unwrapped(key), f"{where}{{}}")
        if keys is not None and not keys.is_name:
            reason = f"`{type_name(key)}` cannot be a key, because JSON objects need text keys"
            raise TypeFault(reason, where=where, way_out="write `dict[str, …]`, or a list of pairs")
        return _DictType(type_name(hint), keys, self.read(item, f"{where}{{}}"), _sizes(dict, bounds, where))

    # --- unions

    def _union(self, hint: Any, bounds: _Metas, where: str) -> TypeNode:
        scalars: list[Any] = []
        arrays: list[TypeNode] = []
        objects: list[TypeNode] = []
        tables: list[TypeNode] = []
        members = list(_members_of(hint))
        for one in members:
            bare, metas = _unwrapped(one)
            metas = metas if bare is type(None) else (*metas, *bounds)
            whole = Annotated[(bare, *metas)] if metas else bare
            node = self.read(whole, where)
            core = node.inner if isinstance(node, Remarked) else node
            match core, node.family:
                case Leaf(family="any"), _:
                    return core
                case _, "scalar":
                    scalars.append(whole)
                case _, "array":
                    arrays.append(node)
                case _DictType(), _:
                    tables.append(node)
                case _, "object":
                    objects.append(node)
                case _:
                    reason = f"`{node.name}` may be any value, so it cannot be told apart from the others"
                    raise TypeFault(reason, where=where, way_out="use it alone")
        for alike, name in ((arrays, "arrays"), (tables, "dicts")):
            if len(alike) > 1:
                reason = f"`{alike[0].name}` and `{alike[1].name}` are both {name} and cannot be told apart"
                raise TypeFault(reason, where=where, way_out="keep one of them")
        scalar = leaf(typing.Union[tuple(scalars)], (), where) if scalars else None  # noqa: UP007 - made at run time
        if scalar is not None and not (arrays or objects or tables):
            return scalar
        if scalar is None and len(arrays) + len(objects) + len(tables) == 1:
            return (*arrays, *objects, *tables)[0]
        # A dict accepts any object, so it comes after the classes.
        name = " | ".join(type_name(_unwrapped(one)[0]) for one in members)
        return _UnionNode(name, scalar, arrays[0] if arrays else None, (*objects, *tables))


def leaf(hint: Any, metas: _Metas, where: str) -> Leaf:
    try:
        return Leaf(Annotated[(hint, *metas)] if metas else hint, type_name(hint))
    except _NO_SCHEMA as error:
        raise TypeFault(_reason(error), where=where, way_out=_way_out(hint)) from None


def _family_of(hint: Any) -> Family:
    """Return the JSON kinds of a type before it is read. A union is `any`: it is taken apart where it is used."""
    bare, _ = _unwrapped(hint)
    kind = typing.get_origin(bare) or bare
    if kind is tuple or any(kind is one for one in _ARRAYS):
        return "array"
    return "object" if any(kind is one for one in _TABLES) else "any"


def _reason(error: Exception) -> str:
    # The last line is the reason. The ones before it mention hooks, which do not exist here.
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def _way_out(hint: Any) -> str:
    kind = typing.get_origin(hint) or hint
    if kind is collections.abc.Callable:
        return "JSON cannot hold functions, so remove it"
    if kind is typing.Union or kind is types.UnionType:
        return "keep one of them"
    if isinstance(hint, str):
        return "give the type itself, instead of its name"
    if isinstance(kind, type) and kind.__module__ not in {
        "builtins",
        "typing",
        "collections",
        "collections.abc",
    }:
        return f"make `{kind.__name__}` a dataclass, or an attrs or msgspec class, or spell out its fields"
    return _NO_CLASS


# --- wrappers of a type


def _unwrapped(hint: Any) -> tuple[Any, _Metas]:
    metas: _Metas = ()
    while True:
        origin = typing.get_origin(hint)
        if origin is Annotated:
            hint, *extras = typing.get_args(hint)
            metas = (*metas_in(extras), *metas)
        elif origin is Final or getattr(origin, "_name", None) in TYPE_MARKS:
            (hint,) = typing.get_args(hint)
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        else:
            return hint, metas


def metas_in(extras: Iterable[Any]) -> Iterator[msgspec.Meta]:
    """Yield what the extras of an `Annotated` say: descriptions, and bounds of msgspec, `annotated_types` and `pydantic.Field`."""
    for extra in extras:
        if isinstance(extra, str):
            yield msgspec.Meta(description=extra)
        elif isinstance(extra, msgspec.Meta):
            yield extra
        elif type(extra).__module__.partition(".")[0] in _ELSEWHERE:
            parts = (extra, *(getattr(extra, "metadata", None) or ()))
            said = ((word, getattr(part, word, None)) for part in parts for word in _WORDS)
            found: dict[str, Any] = {word: value for word, value in said if value is not None}
            try:
                yield msgspec.Meta(**found)
            except (TypeError, ValueError) as error:
                raise TypeFault(_reason(error), where=repr_of(extra), way_out="use msgspec.Meta") from None


def _remarks(metas: _Metas) -> Schema:
    said: Schema = {}
    for meta in metas:
        words = {word: getattr(meta, word) for word in ("title", "description", "examples")}
        said |= {word: value for word, value in words.items() if value is not None}
        said |= msgspec.to_builtins(meta.extra_json_schema or {}, str_keys=True)
    return said


def _sizes(kind: type, bounds: _Metas, where: str) -> msgspec.Meta:
    if not bounds:
        return msgspec.Meta()
    try:
        msgspec.json.schema(Annotated[(kind, *bounds)])
    except _NO_SCHEMA as error:
        raise TypeFault(_reason(error), where=where, way_out="bound its items, or its length") from None
    least = [meta.min_length for meta in bounds if meta.min_length is not None]
    most = [meta.max_length for meta in bounds if meta.max_length is not None]
    return msgspec.Meta(min_length=max(least, default=None), max_length=min(most, default=None))


def _members_of(hint: Any) -> Iterator[Any]:
    bare, _ = _unwrapped(hint)
    behind = bare
    seen: list[Any] = []
    while type(behind).__name__ == "TypeAliasType" and not any(behind is one for one in seen):
        seen.append(behind)
        behind, _ = _unwrapped(behind.__value__)
    if typing.get_origin(behind) is typing.Union or isinstance(behind, types.UnionType):
        for one in typing.get_args(behind):
            yield from _members_of(one)
    elif bare is not msgspec.UnsetType:
        yield hint
