"""Nodes that represent types. Each node has its schema and converts in both directions."""

import abc
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from agentrail.errors import TypeFault
from agentrail.frozen import canonical_json
from agentrail.structs import converter_of
from agentrail.typed.validation_errors import (
    MAX_SHOWN_OF_VALUE,
    DecodingBudget,
    OutputFault,
    json_kind,
    lowered,
)

Schema: TypeAlias = dict[str, Any]
Family: TypeAlias = Literal["any", "scalar", "array", "object"]
"""JSON kinds of a type. A union checks this first."""

_REFERENCE: Final = "#/$defs/"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]")


class Definitions:
    """The schemas under `$defs`: each class once, under its own name."""

    __slots__ = ("_names", "schemas")

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}
        self._names: dict[object, str] = {}

    def refer(self, key: object, name: str, describe: Callable[[], Schema]) -> Schema:
        """Return a reference to a schema. It is described on first use."""
        known = self._names.get(key)
        if known is None:
            known = self._names[key] = self._free(name)
            self.schemas[known] = {}  # reserves the name while the schema is being described
            self.schemas[known] = describe()
        return {"$ref": f"{_REFERENCE}{known}"}

    def adopt(self, schema: Schema, nested: Mapping[str, Schema]) -> Schema:
        """Add an external schema with its definitions. Names that are already used are changed."""
        names: dict[str, str] = {}
        new: list[str] = []
        for name, part in nested.items():
            text = canonical_json(part)
            # Equal schemas are the same definition, unless their references may differ.
            key = ("adopted", name, text, canonical_json(dict(nested)) if b'"$ref"' in text else b"")
            if key not in self._names:
                self._names[key] = self._free(name)
                self.schemas[self._names[key]] = {}
                new.append(name)
            names[name] = self._names[key]
        for name in new:
            self.schemas[names[name]] = _renamed(nested[name], names)
        adopted: Schema = _renamed(schema, names)
        return adopted

    def _free(self, name: str) -> str:
        plain = _NOT_IN_NAMES.sub("_", name)
        number, free = 2, plain
        while free in self.schemas:
            number, free = number + 1, f"{plain}_{number}"
        return free


def _renamed(part: Any, names: Mapping[str, str]) -> Any:
    match part:
        case str() if part.startswith(_REFERENCE):
            name = part.removeprefix(_REFERENCE)
            return f"{_REFERENCE}{names.get(name, name)}"
        case list() | tuple():
            return [_renamed(one, names) for one in part]
        case Mapping():
            return {key: _renamed(one, names) for key, one in part.items()}
        case _:
            return part


class TypeNode(abc.ABC):
    """A type or a part of one."""

    name: str
    family: Family
    python: type | None = None

    @abc.abstractmethod
    def schema(self, definitions: Definitions) -> Schema:
        """Return its schema for use within another."""

    def body(self, definitions: Definitions) -> Schema:
        return self.schema(definitions)

    @abc.abstractmethod
    def decode(self, value: Any, path: str, budget: DecodingBudget) -> Any:
        """Convert JSON to a Python value.

        Raises:
            OutputFault: The value does not have this type.
            TooMuchDecoding: The budget is spent.
        """

    @abc.abstractmethod
    def encode(self, value: Any, path: str) -> Any:
        """Convert a Python value to JSON.

        Raises:
            TypeFault: The value does not have this type.
        """

    def takes(self, value: object) -> bool:
        return True


def not_of_type(node: TypeNode, value: object, path: str) -> TypeFault:
    return TypeFault(f"expected `{node.name}`, got `{type(value).__name__}`", where=path)


def to_plain(value: object, path: str) -> Any:
    """Convert a value to JSON with msgspec, or raise `TypeFault`."""
    try:
        return msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeFault(lowered(str(error)), where=path) from None


class Leaf(TypeNode):
    """A type described and converted by msgspec: one JSON value, possibly of several kinds."""

    def __init__(self, hint: Any, name: str) -> None:
        self.name: str = name
        self.hint = hint
        (self._schema,), self._nested = msgspec.json.schema_components([hint], ref_template="#/$defs/{name}")
        # msgspec returns a default as the object itself.
        self._schema, self._nested = msgspec.to_builtins((self._schema, self._nested), str_keys=True)
        self._convert = converter_of(hint, str_keys=True)
        self._kinds = _kinds_of(self._schema, self._nested)
        self.family: Family = (
            "any" if self._kinds is None else "array" if "array" in self._kinds else "scalar"
        )

    @property
    def is_name(self) -> bool:
        """Whether it can be a member name: a string, or a number written as one."""
        return self._kinds is not None and self._kinds <= {"string", "integer", "number"}

    def schema(self, definitions: Definitions) -> Schema:
        return definitions.adopt(self._schema, self._nested)

    def decode(self, value: Any, path: str, budget: DecodingBudget) -> Any:
        return self._converted(value, path)

    def _converted(self, value: Any, path: str) -> Any:
        # The messages are msgspec's.
        try:
            made = self._convert(value)
        except msgspec.ValidationError as error:
            reason, _, inner = str(error).rpartition(" - at ")
            place = f"{path}{inner.strip('`').removeprefix('$')}" if reason else path
            raise OutputFault(self._worded(reason or str(error), value), path=place) from None
        if not self.may_be(value):
            # A number for a `Decimal`: msgspec accepts it, the schema does not, because it has already lost
            # digits.
            kinds = " or ".join(sorted(self._kinds or ()))
            reason = f"expected `{self.name}` as {kinds}, got `{json_kind(value)}`"
            raise OutputFault(reason, path=path)
        return made

    def name_schema(self, definitions: Definitions) -> Schema:
        """Return the constraints on member names, or nothing if all strings are allowed or names are converted."""
        if self._kinds != frozenset({"string"}):
            return {}
        return {word: said for word, said in self.schema(definitions).items() if word != "type"}

    def may_be(self, value: object) -> bool:
        """Return whether a JSON value has one of the kinds of this type."""
        return self._kinds is None or _kind_of(value) in self._kinds

    def _worded(self, sentence: str, value: object) -> str:
        choices = self._schema.get("enum")
        if choices is None and "$ref" in self._schema:
            choices = next(iter(self._nested.values())).get("enum")
        if choices is None:
            return lowered(sentence)
        offered = ", ".join(_in_json(choice) for choice in choices)
        return f"expected one of {offered}, got {_in_json(value):.{MAX_SHOWN_OF_VALUE}}"

    def encode(self, value: Any, path: str) -> Any:
        plain = to_plain(value, path)
        try:
            self._converted(plain, path)
        except OutputFault as fault:
            raise TypeFault(fault.reason, where=fault.path) from None
        return plain


def _in_json(value: object) -> str:
    return msgspec.json.encode(value).decode() if isinstance(value, str | int | None) else json_kind(value)


_KINDS: Final = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "null": "null"}


def _kind_of(value: object) -> str:
    return _KINDS.get(json_kind(value), json_kind(value))


def _kinds_of(schema: Schema, nested: Mapping[str, Schema]) -> frozenset[str] | None:
    """Return the JSON kinds that a schema accepts, or None for all."""
    if "$ref" in schema:
        return _kinds_of(nested[schema["$ref"].removeprefix(_REFERENCE)], nested)
    if "anyOf" in schema:
        each = [_kinds_of(one, nested) for one in schema["anyOf"]]
        return None if None in each else frozenset[str]().union(*(one for one in each if one is not None))
    if "enum" in schema:
        return frozenset(_kind_of(one) for one in schema["enum"])
    match schema.get("type"):
        case "number":
            return frozenset({"number", "integer"})
        case str(kind):
            return frozenset({kind})
        case _:
            return None


class _Wrapper(TypeNode):
    """A type that converts as the one inside."""

    inner: TypeNode

    def decode(self, value: Any, path: str, budget: DecodingBudget) -> Any:
        return self.inner.decode(value, path, budget)

    def encode(self, value: Any, path: str) -> Any:
        return self.inner.encode(value, path)

    def takes(self, value: object) -> bool:
        return self.inner.takes(value)


class Remarked(_Wrapper):
    """A type with annotations: a description, a title, examples."""

    def __init__(self, inner: TypeNode, remarks: Schema) -> None:
        self.inner = inner
        self._remarks = remarks
        self.name: str = inner.name
        self.family: Family = inner.family
        self.python: type | None = inner.python

    def schema(self, definitions: Definitions) -> Schema:
        return {
            **self._remarks,
            **{k: v for k, v in self.inner.schema(definitions).items() if k not in self._remarks},
        }

    def body(self, definitions: Definitions) -> Schema:
        return {**self.inner.body(definitions), **self._remarks}


class Named(_Wrapper):
    """A named type under `$defs`, so that it may contain itself. `inner` is set once it has been read."""

    def __init__(self, name: str, family: Family) -> None:
        self.name: str = name
        self.family: Family = family

    def schema(self, definitions: Definitions) -> Schema:
        return definitions.refer(self, self.name, lambda: self.body(definitions))

    def body(self, definitions: Definitions) -> Schema:
        return self.inner.body(definitions)
