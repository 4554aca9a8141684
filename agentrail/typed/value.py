"""One type, ready for use: its schema, and the way from JSON and back."""

import functools
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar, final, overload

from agentrail.core.policy.response_format import ENVELOPE, enclosed
from agentrail.core.values.json_schema import NotJson, decode_strictly, fault_of_schema
from agentrail.errors import TypeFault
from agentrail.frozen import frozen_json, not_json
from agentrail.messages import JsonObject, JsonValue
from agentrail.typed.faults import DecodingBudget, OutputFault, TooMuchDecoding, mismatch, type_name
from agentrail.typed.nodes import Definitions, Schema
from agentrail.typed.reading import TypeReader

# JSON has one number type, Python and msgspec have two: 3.0 is the integer 3.

AS_THEY_ARE: Final[frozenset[type]] = frozenset({str, int, bool, type(None)})
"""Types of values that have no whole number to make."""


def with_whole_numbers(value: JsonValue) -> JsonValue:
    """Make 3.0 the integer 3, all the way down. A float that is asked for is still a float."""
    if type(value) in AS_THEY_ARE:  # before the match, whose check for mappings costs ten times as much
        return value
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [with_whole_numbers(item) for item in value]
        case dict() | Mapping():
            # Asked here too, as in `frozen_json`: this is done with the arguments of each call.
            return {
                key: item if type(item) in AS_THEY_ARE else with_whole_numbers(item)
                for key, item in value.items()
            }
        case _:
            return value


T = TypeVar("T")


@final
class TypedValue(Generic[T]):
    """A type that JSON can say. Made by `typed`, and shared.

    Attributes:
        schema: JSON Schema, draft 2020-12, frozen. Objects refuse members that they do not name.
        is_object: Whether all values of it are JSON objects, as the schema says at its top.
        wire_schema: The schema, where that is of one object; else of an object with one member, `value`, of that schema,
            because vendors take nothing but an object at the top.
    """

    __slots__ = ("_name", "_node", "is_object", "schema", "wire_schema")

    schema: JsonObject
    wire_schema: JsonObject

    def __init__(self, kind: Any) -> None:
        """Read a type; `typed` does, and keeps what it made."""
        self._name = type_name(kind)
        definitions = Definitions()
        try:
            self._node = TypeReader().read(kind, self._name)
            body = self._node.body(definitions)
        except RecursionError:
            reason, way_out = "it stands for itself, or is nested too deeply", "put a class in between"
            raise TypeFault(reason, where=self._name, way_out=way_out) from None
        nested = {"$defs": definitions.schemas} if definitions.schemas else {}
        self.is_object: bool = body.get("type") == "object"
        # Looked at in its longer form, which holds the other.
        self.wire_schema = self._checked({**(body if self.is_object else enclosed(body)), **nested})
        self.schema = self.wire_schema if self.is_object else frozen_json(body | nested)

    def _checked(self, schema: Schema) -> JsonObject:
        fault = not_json(schema)
        if fault is not None:
            reason = f"its schema is no JSON: {fault}"
            raise TypeFault(reason, where=self._name, way_out="give another default")
        frozen = frozen_json(schema)
        fault = fault_of_schema(frozen)
        if fault is not None:
            reason = f"its schema {fault}"
            raise TypeFault(reason, where=self._name, way_out="bound it less, or in a description")
        return frozen

    def decode(self, value: JsonValue, *, path: str = "$") -> T:
        """Make a value of JSON that fits the schema. `3.0` is the integer 3."""
        try:
            plain = with_whole_numbers(value)
            made: T = self._node.decode(plain, path, DecodingBudget(plain))
        except RecursionError:
            reason = "it is nested too deeply: send a simpler value"
            raise OutputFault(reason, path=path) from None
        except TooMuchDecoding:
            reason = "it takes more work to judge than one value may: send a simpler one"
            raise OutputFault(reason, path=path) from None
        return made

    def decode_wire(self, value: JsonValue) -> T:
        """Make a value of JSON that fits `wire_schema`."""
        if self.is_object:
            return self.decode(value)
        if not isinstance(value, dict):
            raise mismatch(value, expected="object", path="$")
        if value.keys() != {ENVELOPE}:
            reason = f"expected an object with `{ENVELOPE}` and nothing else"
            raise OutputFault(reason, path="$")
        return self.decode(value[ENVELOPE], path=f"$.{ENVELOPE}")

    def decode_text(self, text: str) -> T:
        """Make a value of a JSON text that fits `wire_schema`: without a fence, and with nothing around it."""
        try:
            value = decode_strictly(text)
        except NotJson as error:
            reason = f"no JSON: {error}"
            raise OutputFault(reason, path="$") from None
        return self.decode_wire(value)

    def encode(self, value: T) -> JsonValue:
        """Make JSON of a value, that fits the schema."""
        try:
            plain: JsonValue = self._node.encode(value, "$")
        except RecursionError:
            reason = "it holds itself, or is nested too deeply"
            raise TypeFault(reason, where="$") from None
        fault = not_json(plain)
        if fault is not None:
            raise TypeFault(fault, where=self._name)
        return plain

    def schema_among(self, definitions: Definitions) -> dict[str, Any]:
        """Give the schema for a place in a larger one; classes come under its `$defs`."""
        return self._node.schema(definitions)

    def __repr__(self) -> str:
        """Show the type."""
        return f"TypedValue({self._name})"


@overload
def typed(kind: type[T]) -> TypedValue[T]: ...


@overload
def typed(kind: Any) -> TypedValue[Any]: ...


def typed(kind: Any) -> TypedValue[Any]:
    """Read a type, once: of equal types it is the same object."""
    try:
        # `A | B` equals `B | A`, and is not the same here: so the text counts too.
        return _read_once(kind, repr(kind))
    except TypeError:
        return TypedValue(kind)  # it cannot be a key


@functools.lru_cache(maxsize=256)
def _read_once(kind: Any, _text: str) -> TypedValue[Any]:
    return TypedValue(kind)
