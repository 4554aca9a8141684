"""What types are made of. Each node knows its schema, and the way from JSON to Python and back.

What one JSON value says (texts, numbers, dates, enums) msgspec describes and converts, and all such members of a union at
once. What holds other values is a node of ours, in `containers`, `records` and `models`: msgspec takes no union of two classes,
and ignores members that most of them do not know. Which node a type is stands in `reading`.
"""

import abc
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from agentrail.errors import TypeFault
from agentrail.frozen import canonical_json
from agentrail.structs import converter_of
from agentrail.typed.faults import DecodingBudget, OutputFault, json_kind, lowered

Schema: TypeAlias = dict[str, Any]
Family: TypeAlias = Literal["any", "scalar", "array", "object"]
"""Which kinds of JSON a type is written as; a union asks that first."""

_REFERENCE: Final = "#/$defs/"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]")


class Definitions:
    """What stands under `$defs`: each class once, under a name of its own."""

    __slots__ = ("_names", "schemas")

    def __init__(self) -> None:
        """Begin without any."""
        self.schemas: dict[str, Schema] = {}
        self._names: dict[object, str] = {}

    def refer(self, key: object, name: str, describe: Callable[[], Schema]) -> Schema:
        """Refer to a schema that is described where it is not yet there."""
        known = self._names.get(key)
        if known is None:
            known = self._names[key] = self._free(name)
            self.schemas[known] = {}  # its place, and taken while it is described
            self.schemas[known] = describe()
        return {"$ref": f"{_REFERENCE}{known}"}

    def adopt(self, schema: Schema, nested: Mapping[str, Schema]) -> Schema:
        """Take in a schema that was made elsewhere, with what it refers to; a name that is taken becomes another one."""
        names: dict[str, str] = {}
        new: list[str] = []
        for name, part in nested.items():
            text = canonical_json(part)
            # Two that read the same are the same, unless what they refer to may differ.
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
    """Copy a schema with other names of definitions, also where a discriminator maps to them."""
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
    """A type, or a part of one.

    Attributes:
        python: The class of its values, where they have one that nothing else has.
    """

    name: str
    family: Family
    python: type | None = None

    @abc.abstractmethod
    def schema(self, definitions: Definitions) -> Schema:
        """Describe it, for where it stands within another."""

    def body(self, definitions: Definitions) -> Schema:
        """Describe it, for where nothing is around it: in place, and without a reference."""
        return self.schema(definitions)

    @abc.abstractmethod
    def decode(self, value: Any, path: str, budget: DecodingBudget) -> Any:
        """Make a Python value of JSON, or raise `OutputFault`, or `TooMuchDecoding` where the budget is spent."""

    @abc.abstractmethod
    def encode(self, value: Any, path: str) -> Any:
        """Make JSON of a Python value, or raise `TypeFault`."""

    def takes(self, value: object) -> bool:
        """Say whether a Python value may be one of this type; `encode` knows better."""
        return True


def not_of_type(node: TypeNode, value: object, path: str) -> TypeFault:
    """Say that a Python value is of another type."""
    return TypeFault(f"expected `{node.name}`, got `{type(value).__name__}`", where=path)


def to_plain(value: object, path: str) -> Any:
    """Let msgspec make JSON of a value, or raise `TypeFault`."""
    try:
        return msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeFault(lowered(str(error)), where=path) from None


class Leaf(TypeNode):
    """What msgspec describes and converts: one JSON value, or one of several kinds of them."""

    def __init__(self, hint: Any, name: str) -> None:
        """Take a type, with its constraints; `Any` is one too."""
        self.name: str = name
        self.hint = hint
        (self._schema,), self._nested = msgspec.json.schema_components([hint], ref_template="#/$defs/{name}")
        # In it, a default is the object itself.
        self._schema, self._nested = msgspec.to_builtins((self._schema, self._nested), str_keys=True)
        self._convert = converter_of(hint, str_keys=True)
        self._kinds = _kinds_of(self._schema, self._nested)
        self.family: Family = (
            "any" if self._kinds is None else "array" if "array" in self._kinds else "scalar"
        )

    @property
    def is_name(self) -> bool:
        """Whether it can be the name of a member: a text, or a number written as one."""
        return self._kinds is not None and self._kinds <= {"string", "integer", "number"}

    def schema(self, definitions: Definitions) -> Schema:
        """Take over what msgspec says."""
        return definitions.adopt(self._schema, self._nested)

    def decode(self, value: Any, path: str, budget: DecodingBudget) -> Any:
        """Convert it."""
        return self._converted(value, path)

    def _converted(self, value: Any, path: str) -> Any:
        # msgspec finds the words.
        try:
            made = self._convert(value)
        except msgspec.ValidationError as error:
            reason, _, inner = str(error).rpartition(" - at ")
            place = f"{path}{inner.strip('`').removeprefix('$')}" if reason else path
            raise OutputFault(self._worded(reason or str(error), value), path=place) from None
        if not self.may_be(value):
            # A number for a `Decimal`, which msgspec takes and the schema does not: it has lost digits already.
            kinds = " or ".join(sorted(self._kinds or ()))
            reason = f"expected `{self.name}` as {kinds}, got `{json_kind(value)}`"
            raise OutputFault(reason, path=path)
        return made

    def name_schema(self, definitions: Definitions) -> Schema:
        """Say of names which texts they may be; nothing where they are all, or are read as something else."""
        if self._kinds != frozenset({"string"}):
            return {}
        return {word: said for word, said in self.schema(definitions).items() if word != "type"}

    def may_be(self, value: object) -> bool:
        """Say whether a JSON value is of a kind that the type is written as."""
        return self._kinds is None or _kind_of(value) in self._kinds

    def _worded(self, sentence: str, value: object) -> str:
        choices = self._schema.get("enum")
        if choices is None and "$ref" in self._schema:
            choices = next(iter(self._nested.values())).get("enum")
        if choices is None:
            return lowered(sentence)
        offered = ", ".join(_in_json(choice) for choice in choices)
        return f"expected one of {offered}, got {_in_json(value)}"

    def encode(self, value: Any, path: str) -> Any:
        """Write it as msgspec does, and hold it against the type."""
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
    """Say which kinds of JSON a schema takes, as far as it says; None for all."""
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


class Remarked(TypeNode):
    """A type with remarks: a description, a title, examples."""

    def __init__(self, inner: TypeNode, remarks: Schema) -> None:
        """Take the type, and the keywords that stand beside it."""
        self.inner: TypeNode = inner
        self._remarks = remarks
        self.name: str = inner.name
        self.family: Family = inner.family
        self.python: type | None = inner.python

    def schema(self, definitions: Definitions) -> Schema:
        """Put the remarks beside what the type says, which they win over."""
        return {
            **self._remarks,
            **{k: v for k, v in self.inner.schema(definitions).items() if k not in self._remarks},
        }

    def body(self, definitions: Definitions) -> Schema:
        """The same, around the type in place."""
        return {**self.inner.body(definitions), **self._remarks}

    def decode(self, value: Any, path: str, budget: DecodingBudget) -> Any:
        """As the type does."""
        return self.inner.decode(value, path, budget)

    def encode(self, value: Any, path: str) -> Any:
        """As the type does."""
        return self.inner.encode(value, path)

    def takes(self, value: object) -> bool:
        """As the type does."""
        return self.inner.takes(value)


class Named(TypeNode):
    """A type with a name that stands under `$defs`, so that it may hold itself."""

    inner: TypeNode

    def __init__(self, name: str, family: Family) -> None:
        """Take the name, and what it will be written as; `inner` is set when the type behind the name is read."""
        self.name: str = name
        self.family: Family = family

    def schema(self, definitions: Definitions) -> Schema:
        """Refer to it."""
        return definitions.refer(self, self.name, lambda: self.body(definitions))

    def body(self, definitions: Definitions) -> Schema:
        """Describe the type."""
        return self.inner.body(definitions)

    def decode(self, value: Any, path: str, budget: DecodingBudget) -> Any:
        """As the type does."""
        return self.inner.decode(value, path, budget)

    def encode(self, value: Any, path: str) -> Any:
        """As the type does."""
        return self.inner.encode(value, path)

    def takes(self, value: object) -> bool:
        """As the type does."""
        return self.inner.takes(value)
