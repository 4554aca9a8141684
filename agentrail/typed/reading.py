"""From an annotation to nodes, and what no JSON Schema describes: which type it is, where, and what to write instead."""

import collections.abc
import enum
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from agentrail.errors import TypeFault
from agentrail.typed.containers import Array, DictType, Places, UnionNode
from agentrail.typed.faults import type_name
from agentrail.typed.models import PydanticModel, is_model
from agentrail.typed.nodes import Family, Leaf, Named, Remarked, Schema, TypeNode
from agentrail.typed.records import TYPE_MARKS, ClassField, RecordType, class_fields, is_struct

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
"""What msgspec raises of types that it does not know; `NotImplementedError` and `RecursionError` are among the last."""
_NO_CLASS: Final = "use str, int, float, bool, lists, dicts, Literal, enums, or a class with fields"
_BOUNDS: Final = ("ge", "gt", "le", "lt", "multiple_of", "pattern", "min_length", "max_length", "tz")
_Metas: TypeAlias = tuple[msgspec.Meta, ...]


class TypeReader:
    """Reads one type. A class that it meets again is the same node, so a class may hold itself."""

    def __init__(self) -> None:
        """Begin without any."""
        self._met: dict[object, TypeNode] = {}

    def read(self, hint: Any, where: str) -> TypeNode:
        """Find out what a type is."""
        hint, metas = _unwrapped(hint)
        remarks = _remarks(metas)
        bounds = tuple(meta for meta in metas if _binds(meta))
        node = self._bare(hint, bounds, where)
        return Remarked(node, remarks) if remarks else node

    def _bare(self, hint: Any, bounds: _Metas, where: str) -> TypeNode:
        origin = typing.get_origin(hint)
        kind = hint if origin is None else origin
        if hint is Any or hint is object or isinstance(hint, typing.TypeVar):
            # A variable that nothing was put in is what it is bound to, or anything.
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
            return Array(
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
            record.take_fields(members, lambda one: self._member(one, where))
        if bounds:
            reason = "a class has neither size nor order"
            raise TypeFault(reason, where=where, way_out="bound its fields")
        return node

    def _member(self, one: ClassField, where: str) -> TypeNode:
        return self.read(one.hint, f"{where}.{one.name}")

    def _key(self, hint: Any) -> object:
        try:
            hash(hint)
        except TypeError:
            return repr(hint)
        # `Box[A | B]` equals `Box[B | A]`, and is not the same here: so the text counts too.
        return hint, repr(hint)

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
            return Array(type_name(hint), item, tuple, _sizes(list, bounds, where))
        if bounds:
            reason = "a tuple of places has its length"
            raise TypeFault(reason, where=where, way_out="leave the bounds out")
        items = [self.read(one, f"{where}[{at}]") for at, one in enumerate(arguments)]
        return Places(type_name(hint), items)

    def _table(self, hint: Any, bounds: _Metas, where: str) -> TypeNode:
        key, item = typing.get_args(hint) or (str, Any)
        keys = None if key is str or key is Any else leaf(*_unwrapped(key), f"{where}{{}}")
        if keys is not None and not keys.is_name:
            reason = f"`{type_name(key)}` is no name, and names are what JSON has in objects"
            raise TypeFault(reason, where=where, way_out="write `dict[str, …]`, or a list of pairs")
        return DictType(type_name(hint), keys, self.read(item, f"{where}{{}}"), _sizes(dict, bounds, where))

    # --- unions

    def _union(self, hint: Any, bounds: _Metas, where: str) -> TypeNode:
        scalars: list[Any] = []
        arrays: list[TypeNode] = []
        objects: list[TypeNode] = []
        tables: list[TypeNode] = []
        members = list(_members_of(hint))
        for member in members:
            bare, metas = _unwrapped(member)
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
                case DictType(), _:
                    tables.append(node)
                case _, "object":
                    objects.append(node)
                case _:
                    reason = f"`{node.name}` may be of any kind, and nothing tells it from the others"
                    raise TypeFault(reason, where=where, way_out="write it alone")
        for alike, name in ((arrays, "arrays"), (tables, "dicts")):
            if len(alike) > 1:
                reason = (
                    f"`{alike[0].name}` and `{alike[1].name}` are both {name}, and nothing tells them apart"
                )
                raise TypeFault(reason, where=where, way_out="write one of them")
        scalar = leaf(typing.Union[tuple(scalars)], (), where) if scalars else None  # noqa: UP007 - made at run time
        if scalar is not None and not (arrays or objects or tables):
            return scalar
        if scalar is None and len(arrays) + len(objects) + len(tables) == 1:
            return (*arrays, *objects, *tables)[0]
        # A dict takes any object, so it comes after the classes.
        name = " | ".join(type_name(_unwrapped(one)[0]) for one in members)
        return UnionNode(name, scalar, arrays[0] if arrays else None, (*objects, *tables))


def leaf(hint: Any, metas: _Metas, where: str) -> Leaf:
    """Let msgspec describe a type."""
    try:
        return Leaf(Annotated[(hint, *metas)] if metas else hint, type_name(hint))
    except _NO_SCHEMA as error:
        raise TypeFault(_reason(error), where=where, way_out=_way_out(hint)) from None


def _family_of(hint: Any) -> Family:
    """Say what a type will be written as, before it is read; of a union nothing, which is taken apart where it stands."""
    bare, _ = _unwrapped(hint)
    kind = typing.get_origin(bare) or bare
    if kind is tuple or any(kind is one for one in _ARRAYS):
        return "array"
    return "object" if any(kind is one for one in _TABLES) else "any"


def _reason(error: Exception) -> str:
    # The last line is the reason; the ones before speak of hooks that are not offered here.
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def _way_out(hint: Any) -> str:
    kind = typing.get_origin(hint) or hint
    if kind is collections.abc.Callable:
        return "JSON holds no functions, leave it out"
    if kind is typing.Union or kind is types.UnionType:
        return "write one of them"
    if isinstance(hint, str):
        return "give the type itself, in place of its name"
    if isinstance(kind, type) and kind.__module__ not in {
        "builtins",
        "typing",
        "collections",
        "collections.abc",
    }:
        return f"make `{kind.__name__}` a dataclass, or an attrs or msgspec class, or write what is in it"
    return _NO_CLASS


# --- what stands around a type


def _unwrapped(hint: Any) -> tuple[Any, _Metas]:
    """Take off what says something of a type and is none: `Annotated`, `NewType`, `Final`, `Required`."""
    metas: _Metas = ()
    while True:
        origin = typing.get_origin(hint)
        if origin is Annotated:
            hint, *extras = typing.get_args(hint)
            metas = (*_read_extras(extras), *metas)
        elif origin is Final or getattr(origin, "_name", None) in TYPE_MARKS:
            (hint,) = typing.get_args(hint)
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        else:
            return hint, metas


def _read_extras(extras: Iterable[Any]) -> Iterator[msgspec.Meta]:
    for extra in extras:
        if isinstance(extra, str):
            yield msgspec.Meta(description=extra)
        elif isinstance(extra, msgspec.Meta):
            yield extra


def _binds(meta: msgspec.Meta) -> bool:
    return any(getattr(meta, bound) is not None for bound in _BOUNDS)


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
        raise TypeFault(_reason(error), where=where, way_out="bound what is in it, or its length") from None
    least = [meta.min_length for meta in bounds if meta.min_length is not None]
    most = [meta.max_length for meta in bounds if meta.max_length is not None]
    return msgspec.Meta(min_length=max(least, default=None), max_length=min(most, default=None))


def _members_of(hint: Any) -> Iterator[Any]:
    """List what a union offers, with the unions in it taken apart, and those that a name stands for."""
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
