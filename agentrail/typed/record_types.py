"""Classes with fields: msgspec Structs, attrs classes, dataclasses, `TypedDict`s and `NamedTuple`s.

All of them are objects in JSON, even a `NamedTuple`, because names tell a model more than positions.
"""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import msgspec
from attrs import Factory, field, frozen

from agentrail.errors import TypeFault
from agentrail.messages import JsonValue
from agentrail.typed.docstrings import described_names, described_whole
from agentrail.typed.schema_nodes import Definitions, Family, Schema, TypeNode, not_of_type
from agentrail.typed.validation_errors import (
    MAX_CLASS_REASON,
    MAX_SHOWN_OF_VALUE,
    DecodingBudget,
    OutputFault,
    json_kind,
    member,
    mismatch,
)

_NOTHING: Final = object()
TYPE_MARKS: Final = frozenset({"Required", "NotRequired", "ReadOnly"})
"""Wrappers of the type of a `TypedDict` key."""
_EMPTY_FACTORIES: Final = (list, dict, set, frozenset, tuple)


@frozen(kw_only=True, eq=False)
class ClassField:
    """One field. Its attribute and its argument usually have its name."""

    name: str
    attribute: str = field(default=Factory(lambda self: self.name, takes_self=True))
    argument: str = field(default=Factory(lambda self: self.name, takes_self=True))
    hint: Any
    is_required: bool
    default: Any = _NOTHING


class RecordType(TypeNode):
    """A class with fields."""

    family: Family = "object"

    def __init__(self, kind: Any, name: str, key: object) -> None:
        """Create the node without fields. They are added later, because they may contain the class itself."""
        self.name = name
        self._key = key
        self.python = kind
        self._members: Mapping[str, ClassField] = {}
        self._nodes: Mapping[str, TypeNode] = {}
        self._tag: tuple[str, str | int] | None = None
        if is_struct(kind):
            config = kind.__struct_config__
            self._tag = None if config.tag_field is None else (config.tag_field, config.tag)

    def take_fields(self, members: Iterable[ClassField], read: Callable[[ClassField], TypeNode]) -> None:
        self._members = {one.name: one for one in members}
        self._nodes = {name: read(one) for name, one in self._members.items()}

    # --- the schema

    def schema(self, definitions: Definitions) -> Schema:
        return definitions.refer(self._key, self.name, lambda: self.body(definitions))

    def body(self, definitions: Definitions) -> Schema:
        """Return the schema of its fields, with descriptions from the docstring if the type has none."""
        docstring = own_docstring(self.python)
        said = described_names(docstring)
        properties: dict[str, Schema] = {}
        if self._tag is not None:
            properties[self._tag[0]] = {"enum": [self._tag[1]]}
        for name, one in self._members.items():
            described = self._nodes[name].schema(definitions)
            if "description" not in described and one.attribute in said:
                described = {"description": said[one.attribute], **described}
            properties[name] = {**described, **self._default_of(name, one)}
        whole = described_whole(docstring)
        return {
            "title": self.name,
            **({"description": whole} if whole else {}),
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if self._is_required(name)],
            "additionalProperties": False,
        }

    def _default_of(self, name: str, one: ClassField) -> Schema:
        if one.default is _NOTHING:
            return {}
        try:
            return {"default": self._nodes[name].encode(one.default, "$")}
        except TypeFault:
            return {}  # usually None for a field that is set later: a model could not write it

    def _is_required(self, name: str) -> bool:
        one = self._members.get(name)
        return one is None or one.is_required

    # --- both directions

    def decode(self, value: Any, path: str, budget: DecodingBudget) -> Any:
        if not isinstance(value, dict):
            raise mismatch(value, expected="object", path=path)
        budget.pay()
        self._check_names(value, path)
        given = {
            self._members[name].argument: self._nodes[name].decode(one, member(path, name), budget)
            for name, one in value.items()
            if name in self._members
        }
        kind: Any = self.python
        try:
            return kind(**given)
        except (ValueError, TypeError) as error:  # from checks of the class itself
            reason = str(error)[:MAX_CLASS_REASON] or f"no `{self.name}`: the class refused it"
            raise OutputFault(reason, path=path) from None

    def _check_names(self, value: Mapping[str, Any], path: str) -> None:
        tag_field, tag = self._tag or (None, None)
        for name in value:
            if name not in self._members and name != tag_field:
                known = ", ".join(f"`{one}`" for one in self._members) or "none"
                reason = f"unknown field `{name:.{MAX_SHOWN_OF_VALUE}}`, expected one of {known}"
                raise OutputFault(reason, path=path)
        for name in (*([tag_field] if tag_field else ()), *self._members):
            if name not in value and self._is_required(name):
                reason = f"missing required field `{name}`"
                raise OutputFault(reason, path=path)
        if tag_field is not None and (type(value[tag_field]) is not type(tag) or value[tag_field] != tag):
            came = (
                value[tag_field] if isinstance(value[tag_field], str | int) else json_kind(value[tag_field])
            )
            reason = f"expected {tag!r}, got {came!r:.{MAX_SHOWN_OF_VALUE}}"
            raise OutputFault(reason, path=member(path, tag_field))

    def encode(self, value: Any, path: str) -> JsonValue:
        if not self.takes(value):
            raise not_of_type(self, value, path)
        made: dict[str, JsonValue] = {} if self._tag is None else {self._tag[0]: self._tag[1]}
        for name, one in self._members.items():
            held = (
                value.get(name, msgspec.UNSET) if isinstance(value, dict) else getattr(value, one.attribute)
            )
            if held is not msgspec.UNSET:
                made[name] = self._nodes[name].encode(held, member(path, name))
            elif one.is_required:
                reason = f"expected `{self.name}`, got one without `{name}`"
                raise TypeFault(reason, where=path)
        unknown = value.keys() - self._members.keys() if isinstance(value, dict) else None
        if unknown:
            names = ", ".join(map(repr, sorted(unknown)))
            reason = f"expected `{self.name}`, got one with {names}"
            raise TypeFault(reason, where=path)
        return made

    def takes(self, value: object) -> bool:
        """Return whether a value is an instance of the class, or any dictionary for a `TypedDict`."""
        kind: Any = self.python
        return isinstance(value, dict if is_typed_dict(kind) else kind)


# --- kinds of classes, and their docstrings


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def is_typed_dict(kind: Any) -> bool:
    """Return whether a class is a `TypedDict` of `typing` or of the backport package."""
    return isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__total__")


def is_named_tuple(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def own_docstring(kind: Any) -> str | None:
    docstring = vars(kind).get("__doc__") if isinstance(kind, type) else None
    made_up = f"{getattr(kind, '__name__', '')}("
    return None if not isinstance(docstring, str) or docstring.startswith(made_up) else docstring


def class_fields(kind: Any, arguments: tuple[Any, ...], where: str) -> Sequence[ClassField] | None:
    if is_struct(kind):
        return list(_struct_fields(kind, _hints(kind, arguments, where)))
    if isinstance(kind, type) and attrs.has(kind):
        return list(_attrs_fields(kind, _hints(kind, arguments, where), where))
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return list(_dataclass_fields(kind, _hints(kind, arguments, where), where))
    if is_typed_dict(kind):
        return list(_typed_dict_fields(kind, _hints(kind, arguments, where)))
    if is_named_tuple(kind):
        return list(_named_tuple_fields(kind, _hints(kind, arguments, where)))
    return None


def _struct_fields(kind: Any, hints: Mapping[str, Any]) -> Iterator[ClassField]:
    # Not `msgspec.structs.fields`, which fails for a recursive class defined inside a function.
    names = kind.__struct_fields__
    defaults = (msgspec.NODEFAULT,) * (len(names) - len(kind.__struct_defaults__)) + kind.__struct_defaults__
    for name, written, given in zip(names, kind.__struct_encode_fields__, defaults, strict=True):
        default = _made_by(given.factory) if type(given).__name__ == "Factory" else given
        yield ClassField(
            name=written,
            attribute=name,
            argument=name,
            hint=hints[name],
            is_required=given is msgspec.NODEFAULT,
            default=_NOTHING if default is msgspec.UNSET or default is msgspec.NODEFAULT else default,
        )


def _attrs_fields(kind: Any, hints: Mapping[str, Any], where: str) -> Iterator[ClassField]:
    if "__attrs_init__" in vars(kind):
        raise _own_init(kind, where)
    for one in attrs.fields(kind):
        if one.init:
            is_factory = isinstance(one.default, attrs.Factory)  # type: ignore[arg-type]  # a class, to who runs it
            default = _made_by(one.default.factory) if is_factory else one.default
            yield ClassField(
                name=one.alias,
                attribute=one.name,
                argument=one.alias,
                hint=hints.get(one.name, Any if one.type is None else one.type),
                is_required=one.default is attrs.NOTHING,
                default=_NOTHING if default is attrs.NOTHING else default,
            )


def _dataclass_fields(kind: Any, hints: Mapping[str, Any], where: str) -> Iterator[ClassField]:
    if not kind.__dataclass_params__.init:
        raise _own_init(kind, where)
    names = {one.name for one in dataclasses.fields(kind) if one.init}
    asked = inspect.signature(kind).parameters
    unknown = sorted(asked.keys() - names)
    if unknown:
        reason = "an `InitVar` is not stored in the object, so it cannot be encoded"
        raise TypeFault(reason, where=f"{where}.{unknown[0]}", way_out="make it a field")
    for one in dataclasses.fields(kind):
        if one.init:
            is_required = one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
            default = one.default if one.default is not dataclasses.MISSING else _made_by(one.default_factory)
            yield ClassField(name=one.name, hint=hints[one.name], is_required=is_required, default=default)


def _typed_dict_fields(kind: Any, hints: Mapping[str, Any]) -> Iterator[ClassField]:
    for name, hint in hints.items():
        is_required, bare = name in kind.__required_keys__, hint
        # Checked here too, because the class cannot read string annotations itself.
        while (mark := getattr(typing.get_origin(bare), "_name", None)) in TYPE_MARKS:
            is_required = is_required if mark == "ReadOnly" else mark == "Required"
            (bare,) = typing.get_args(bare)
        yield ClassField(name=name, hint=bare, is_required=is_required)


def _named_tuple_fields(kind: Any, hints: Mapping[str, Any]) -> Iterator[ClassField]:
    for name in kind._fields:
        default = kind._field_defaults.get(name, _NOTHING)
        hint = hints.get(name, Any)
        yield ClassField(name=name, hint=hint, is_required=default is _NOTHING, default=default)


def _made_by(factory: Any) -> Any:
    """Return the value of a factory for an empty container.

    Other factories may have side effects or depend on the time.
    """
    return factory() if factory in _EMPTY_FACTORIES else _NOTHING


def _own_init(kind: Any, where: str) -> TypeFault:
    reason = f"`{kind.__name__}` has its own `__init__`, whose parameters are unknown"
    return TypeFault(reason, where=where, way_out="remove `init=False`")


# --- annotations of a class


def _hints(kind: Any, arguments: tuple[Any, ...], where: str) -> Mapping[str, Any]:
    own = {kind.__name__: kind} | {one.__name__: one for one in getattr(kind, "__type_params__", ())}
    try:
        hints = typing.get_type_hints(kind, localns=own, include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        name, way_out = getattr(error, "name", None), "write a type"
        if isinstance(error, NameError):
            way_out = "define that name at the top of the module"
        raise TypeFault(str(error), where=f"{where}{_field_with(kind, name)}", way_out=way_out) from None
    bound = _variables(kind, arguments)
    return {name: _substituted(hint, bound[_owner(kind, name)]) for name, hint in hints.items()}


def _field_with(kind: Any, name: str | None) -> str:
    annotations = {
        k: v for base in reversed(kind.__mro__) for k, v in vars(base).get("__annotations__", {}).items()
    }
    found = (field for field, hint in annotations.items() if name and name in str(hint))
    return "".join(f".{field}" for field in list(found)[:1])


def _owner(kind: Any, name: str) -> Any:
    return next((base for base in kind.__mro__ if name in vars(base).get("__annotations__", {})), kind)


def _variables(kind: Any, arguments: tuple[Any, ...]) -> dict[Any, Mapping[Any, Any]]:
    """Return the values of the type variables of a class and of each of its base classes."""
    found: dict[Any, Mapping[Any, Any]] = {base: {} for base in kind.__mro__} | {kind: {}}
    _bind(kind, arguments, found)
    return found


def _bind(kind: Any, arguments: tuple[Any, ...], found: dict[Any, Mapping[Any, Any]]) -> None:
    bound = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=False))
    found[kind] = bound
    for base in vars(kind).get("__orig_bases__", ()):
        origin = typing.get_origin(base)
        if origin in found:
            _bind(origin, tuple(_substituted(one, bound) for one in typing.get_args(base)), found)


def _substituted(hint: Any, bound: Mapping[Any, Any]) -> Any:
    if isinstance(hint, typing.TypeVar):
        return bound.get(hint, hint)
    variables = getattr(hint, "__parameters__", ())
    if not bound or not variables or isinstance(hint, type):
        return hint
    return hint[tuple(bound.get(one, Any) for one in variables)]
