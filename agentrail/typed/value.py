"""A type ready for use: its schema, and conversion from and to JSON."""

import functools
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar, final, overload

from agentrail.core.policy.response_format import ENVELOPE, enclosed
from agentrail.core.values.json_schema import NotJson, decode_strictly, fault_of_schema
from agentrail.errors import TypeFault
from agentrail.frozen import frozen_json, not_json
from agentrail.messages import JsonObject, JsonValue
from agentrail.otp.guarded_calls import repr_of
from agentrail.typed.annotations import TypeReader
from agentrail.typed.schema_nodes import Definitions, Schema
from agentrail.typed.validation_errors import (
    DecodingBudget,
    OutputFault,
    TooMuchDecoding,
    mismatch,
    type_name,
)

# JSON has one number type, Python and msgspec have two: 3.0 is the integer 3.

AS_THEY_ARE: Final[frozenset[type]] = frozenset({str, int, bool, type(None)})
"""Types of values without numbers to convert."""


def with_whole_numbers(value: JsonValue) -> JsonValue:
    """Return the value with every whole float as an integer, at any depth. A float type still accepts it."""
    if type(value) in AS_THEY_ARE:  # before the match, whose check for mappings costs ten times as much
        return value
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [with_whole_numbers(item) for item in value]
        case dict() | Mapping():
            # Checked here too, as in `frozen_json`, because this runs for the arguments of each call.
            return {
                key: item if type(item) in AS_THEY_ARE else with_whole_numbers(item)
                for key, item in value.items()
            }
        case _:
            return value


T = TypeVar("T")


@final
class TypedValue(Generic[T]):
    """A type that JSON can represent. Created by `typed`, and shared.

    Attributes:
        schema: JSON Schema, draft 2020-12, frozen. Objects refuse unknown members.
        is_object: Whether all its values are JSON objects, as the top level of the schema states.
        wire_schema: The schema itself for an object. Otherwise the schema of an object with one member,
            `value`, because vendors accept only objects at the top level.
    """

    __slots__ = ("_name", "_node", "is_object", "schema", "wire_schema")

    schema: JsonObject
    wire_schema: JsonObject

    def __init__(self, kind: Any) -> None:
        self._name = type_name(kind)
        definitions = Definitions()
        try:
            self._node = TypeReader().read(kind, self._name)
            body = self._node.body(definitions)
        except RecursionError:
            reason, way_out = "it refers to itself, or is nested too deeply", "put a class in between"
            raise TypeFault(reason, where=self._name, way_out=way_out) from None
        nested = {"$defs": definitions.schemas} if definitions.schemas else {}
        self.is_object: bool = body.get("type") == "object"
        # Checked in its longer form, which contains the other.
        self.wire_schema = self._checked({**(body if self.is_object else enclosed(body)), **nested})
        self.schema = self.wire_schema if self.is_object else frozen_json(body | nested)

    def _checked(self, schema: Schema) -> JsonObject:
        fault = not_json(schema)
        if fault is not None:
            reason = f"its schema is not JSON: {fault}"
            raise TypeFault(reason, where=self._name, way_out="give another default")
        frozen = frozen_json(schema)
        fault = fault_of_schema(frozen)
        if fault is not None:
            reason = f"its schema {fault}"
            raise TypeFault(
                reason, where=self._name, way_out="use fewer bounds, or describe them in the description"
            )
        return frozen

    def decode(self, value: JsonValue, *, path: str = "$") -> T:
        """Convert JSON that matches the schema to a value. `3.0` is the integer 3.

        Raises:
            OutputFault: The value does not match the schema, is nested too deeply, or needs too many decoding
                attempts.
        """
        try:
            plain = with_whole_numbers(value)
            made: T = self._node.decode(plain, path, DecodingBudget(plain))
        except RecursionError:
            reason = "it is nested too deeply: send a simpler value"
            raise OutputFault(reason, path=path) from None
        except TooMuchDecoding:
            reason = "it takes too much work to validate: send a simpler value"
            raise OutputFault(reason, path=path) from None
        return made

    def decode_wire(self, value: JsonValue) -> T:
        if self.is_object:
            return self.decode(value)
        if not isinstance(value, dict):
            raise mismatch(value, expected="object", path="$")
        if value.keys() != {ENVELOPE}:
            reason = f"expected an object with `{ENVELOPE}` and nothing else"
            raise OutputFault(reason, path="$")
        return self.decode(value[ENVELOPE], path=f"$.{ENVELOPE}")

    def decode_text(self, text: str) -> T:
        """Convert a JSON text that matches `wire_schema` to a value. Text or code fences around it are refused."""
        try:
            value = decode_strictly(text)
        except NotJson as error:
            reason = f"no JSON: {error}"
            raise OutputFault(reason, path="$") from None
        return self.decode_wire(value)

    def encode(self, value: T) -> JsonValue:
        """Convert a value to JSON that matches the schema.

        Raises:
            TypeFault: The value does not have this type, or cannot be written as JSON.
        """
        try:
            plain: JsonValue = self._node.encode(value, "$")
        except RecursionError:
            reason = "it contains itself, or is nested too deeply"
            raise TypeFault(reason, where="$") from None
        fault = not_json(plain)
        if fault is not None:
            raise TypeFault(fault, where=self._name)
        return plain

    def schema_among(self, definitions: Definitions) -> dict[str, Any]:
        """Return the schema for use within a larger one. Classes are added to its `$defs`."""
        return self._node.schema(definitions)

    def __repr__(self) -> str:
        return f"TypedValue({self._name})"


@overload
def typed(kind: type[T]) -> TypedValue[T]: ...


@overload
def typed(kind: Any) -> TypedValue[Any]: ...


def typed(kind: Any) -> TypedValue[Any]:
    try:
        # `A | B` equals `B | A`, but the order matters here, so the text is part of the key.
        return _read_once(kind, repr_of(kind))
    except TypeError:
        return TypedValue(kind)  # it cannot be a key


@functools.lru_cache(maxsize=256)
def _read_once(kind: Any, _text: str) -> TypedValue[Any]:
    return TypedValue(kind)
