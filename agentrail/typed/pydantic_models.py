"""Support for pydantic models. pydantic is detected among the imported modules and never imported here.

A model provides its own schema and validation.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentrail.core.values.json_schema import CompiledSchema
from agentrail.errors import TypeFault
from agentrail.frozen import canonical_json
from agentrail.messages import JsonValue
from agentrail.typed.schema_nodes import Definitions, Family, Schema, TypeNode, not_of_type
from agentrail.typed.validation_errors import MAX_CLASS_REASON, DecodingBudget, OutputFault, member

_MAX_FAULTS: Final = 3
_REFERENCE: Final = "#/$defs/"
_FAMILIES: Final[Mapping[Any, Family]] = {"object": "object", "array": "array"}
_VALUES: Final = frozenset({"const", "default", "enum", "examples", "discriminator", "required"})
_BY_NAME: Final = frozenset({"$defs", "properties", "patternProperties"})


def is_model(kind: object) -> bool:
    base = getattr(sys.modules.get("pydantic.main"), "BaseModel", None)
    return base is not None and isinstance(kind, type) and issubclass(kind, base)


class PydanticModel(TypeNode):
    def __init__(self, kind: Any, where: str) -> None:
        self.name: str = kind.__name__
        self.python = kind
        try:
            schema = _closed(kind.model_json_schema(ref_template=f"{_REFERENCE}{{model}}"))
        except Exception as error:  # noqa: BLE001 - pydantic's own errors cannot be named without importing it
            reason = str(error).partition("\n")[0][:MAX_CLASS_REASON]
            said = f"the pydantic model `{self.name}` has no JSON Schema ({reason})"
            raise TypeFault(said, where=where, way_out="change that field") from None
        self._judge = CompiledSchema(schema)
        self._nested: dict[str, Schema] = schema.pop("$defs", {})
        self._holds_itself = "$ref" in schema
        if self._holds_itself:
            self._reference: str = schema["$ref"]
            self._schema = self._nested[self._reference.removeprefix(_REFERENCE)]
        else:
            own = self.name if self.name not in self._nested else f"{self.name}_"
            self._reference = f"{_REFERENCE}{own}"
            self._schema = schema
            self._nested = {own: schema, **self._nested}
        self.family: Family = _FAMILIES.get(self._schema.get("type"), "any")

    def schema(self, definitions: Definitions) -> Schema:
        return definitions.adopt({"$ref": self._reference}, self._nested)

    def body(self, definitions: Definitions) -> Schema:
        own = self._reference.removeprefix(_REFERENCE)
        referred = {name: one for name, one in self._nested.items() if self._holds_itself or name != own}
        return definitions.adopt(self._schema, referred)

    def decode(self, value: Any, path: str, budget: DecodingBudget) -> Any:
        budget.pay()
        faults = self._judge.faults(value)
        if faults:
            raise _fault_of([_split(one) for one in faults[:_MAX_FAULTS]], path)
        kind: Any = self.python
        try:
            # As JSON, because only then a strict model accepts a string for a date.
            return kind.model_validate_json(canonical_json(value))
        except ValueError as error:
            raise _worded(error, path) from None

    def encode(self, value: Any, path: str) -> JsonValue:
        """Return the model as JSON, under its input names and without computed fields."""
        if not self.takes(value):
            raise not_of_type(self, value, path)
        try:
            plain: JsonValue = value.model_dump(mode="json", by_alias=True, round_trip=True)
        except (TypeError, ValueError) as error:
            raise TypeFault(str(error)[:MAX_CLASS_REASON], where=path) from None
        return plain

    def takes(self, value: object) -> bool:
        return self.python is not None and isinstance(value, self.python)


def _split(sentence: str) -> tuple[str, str]:
    """Split a validator message into place and reason: `$.a: 3 is no text`, `$.a is required`."""
    place, _, reason = sentence.partition(" is required" if sentence.endswith(" is required") else ": ")
    return place.removeprefix("$"), reason or "is required"


def _worded(error: ValueError, path: str) -> OutputFault:
    list_faults = getattr(error, "errors", None)
    if not callable(list_faults):
        return OutputFault(str(error)[:MAX_CLASS_REASON], path=path)
    return _fault_of(
        [(_place("", one["loc"]), one["msg"][:MAX_CLASS_REASON]) for one in list_faults()[:_MAX_FAULTS]], path
    )


def _fault_of(said: Sequence[tuple[str, str]], path: str) -> OutputFault:
    (place, reason), *others = said
    reasons = [reason, *(f"{path}{place}: {reason}" for place, reason in others)]
    return OutputFault("; ".join(reasons), path=f"{path}{place}")


def _place(path: str, steps: tuple[str | int, ...]) -> str:
    for step in steps:
        path = f"{path}[{step}]" if isinstance(step, int) else member(path, step)
    return path


def _closed(schema: Any) -> Any:
    """Forbid unknown members, as for all other classes, unless the model allows them."""
    match schema:
        case list():
            return [_closed(one) for one in schema]
        case dict():
            made = {
                word: value if word in _VALUES else _closed_below(word, value)
                for word, value in schema.items()
            }
            if made.get("type") == "object" and "properties" in made:
                made.setdefault("additionalProperties", False)
            return made
        case _:
            return schema


def _closed_below(word: str, value: Any) -> Any:
    if word in _BY_NAME and isinstance(value, dict):
        return {name: _closed(one) for name, one in value.items()}
    return _closed(value)
