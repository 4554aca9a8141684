"""Our JSON Schema validator: jsonschema's, with a limit on the work of one judgement. Pure."""

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import create

from agentrail.core.values.patterns import NoPattern, effort_of

MAX_WORK: Final = 12_000
"""Limit on the work of one judgement. A unit is one keyword checked against one value: two or three microseconds."""

MAX_NESTED: Final = 180
"""Limit on keywords checked within keywords: each takes up to five frames, and Python allows a thousand."""

_STEPS_PER_UNIT: Final = 300  # of a regular expression
_CHARACTERS_PER_UNIT: Final = 300  # of a sentence that shows a value
_UNANCHORED: Final = 50  # for a reference that has to be searched in the whole schema

Keyword: TypeAlias = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]


class TooMuchWork(Exception):
    """A judgement would exceed its work limit."""


class ValidationBudget:
    """The remaining work of one judgement."""

    # A validator passes only this member to all validators below it, and formats are not judged.
    __slots__ = ("left", "nested", "patterns", "schema_parts")

    def __init__(self, *, patterns: tuple[str, ...], schema_parts: int) -> None:
        self.left: int = MAX_WORK
        self.nested: int = 0
        self.patterns: tuple[str, ...] = patterns
        self.schema_parts: int = schema_parts

    def pay(self, units: float) -> None:
        self.left -= int(units)
        if self.left < 0:
            raise TooMuchWork

    def pay_for_search(self, pattern: str, text: str) -> None:
        try:
            self.pay(min(effort_of(pattern).steps(len(text)) / _STEPS_PER_UNIT, MAX_WORK + 1) + 1)
        except NoPattern:
            raise TooMuchWork from None


def count_parts(value: object) -> int:
    count = 0
    waiting = [value]
    while waiting:
        one = waiting.pop()
        count += 1
        if isinstance(one, Mapping):
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
    return count


def name_patterns_of(schema: object) -> tuple[str, ...]:
    found: set[str] = set()
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            named = one.get("patternProperties")
            if isinstance(named, Mapping):
                found.update(named)
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
    return tuple(sorted(found))


def _is_integer(_checker: object, value: object) -> bool:
    # JSON has one number type: 3.0 is an integer here, True is not.
    return not isinstance(value, bool) and (
        isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    )


# --- costs of keywords, in addition to the one unit of each


def _size(value: object) -> int:
    return len(value) if isinstance(value, Mapping | list | tuple | str) else 0


def _cost_of_members(_work: ValidationBudget, keyword: Any, instance: Any, _schema: Any) -> float:
    # Only existing members are checked. Finding them costs a little for each possible one.
    return min(_size(keyword), _size(instance)) + _size(keyword) / 16


def _cost_of_each(_work: ValidationBudget, _keyword: Any, instance: Any, _schema: Any) -> float:
    return _size(instance) if not isinstance(instance, str) else 0


def _cost_of_comparing(_work: ValidationBudget, keyword: Any, instance: Any, _schema: Any) -> float:
    return count_parts(keyword) / 4 if isinstance(instance, Mapping | list) else _size(keyword) / 8


def _cost_of_listing(_work: ValidationBudget, keyword: Any, _instance: Any, _schema: Any) -> float:
    return _size(keyword) / 8


def _cost_of_a_pattern(work: ValidationBudget, keyword: Any, instance: Any, _schema: Any) -> float:
    if isinstance(instance, str):
        work.pay_for_search(keyword, instance)
    return 0


def _cost_of_names(patterns: Iterable[str], work: ValidationBudget, instance: Any) -> float:
    if not isinstance(instance, Mapping):
        return 0
    for pattern in patterns:
        for name in instance:
            work.pay_for_search(pattern, name)
    return len(instance)


def _cost_of_named(work: ValidationBudget, keyword: Any, instance: Any, _schema: Any) -> float:
    return _cost_of_names(keyword, work, instance)


def _cost_of_additional(work: ValidationBudget, keyword: Any, instance: Any, schema: Any) -> float:
    names = _cost_of_names(schema.get("patternProperties", ()), work, instance)
    return names if isinstance(keyword, Mapping) else names / 4


def _cost_of_what_is_left(work: ValidationBudget, _keyword: Any, instance: Any, _schema: Any) -> float:
    # Each member is searched in a list of the evaluated ones, by this part of the schema or another.
    size = _size(instance) if isinstance(instance, Mapping | list) else 0
    return _cost_of_names(work.patterns, work, instance) + size**2 / 200


def _cost_of_a_reference(work: ValidationBudget, keyword: Any, _instance: Any, _schema: Any) -> float:
    is_pointer = isinstance(keyword, str) and (keyword == "#" or keyword.startswith("#/"))
    return 5 if is_pointer else _UNANCHORED + work.schema_parts * 2


_COSTS: Final[Mapping[str, Callable[[ValidationBudget, Any, Any, Any], float]]] = MappingProxyType(
    {
        "$dynamicRef": _cost_of_a_reference,
        "$ref": _cost_of_a_reference,
        "additionalProperties": _cost_of_additional,
        "const": _cost_of_comparing,
        "contains": _cost_of_each,
        "dependentRequired": _cost_of_listing,
        "dependentSchemas": _cost_of_listing,
        "enum": _cost_of_comparing,
        "pattern": _cost_of_a_pattern,
        "patternProperties": _cost_of_named,
        "prefixItems": _cost_of_members,
        "properties": _cost_of_members,
        "propertyNames": _cost_of_each,
        "required": _cost_of_listing,
        "unevaluatedItems": _cost_of_what_is_left,
        "unevaluatedProperties": _cost_of_what_is_left,
    }
)


def _cost_of_nothing(_work: ValidationBudget, _keyword: Any, _instance: Any, _schema: Any) -> float:
    return 0


def _paid(name: str, validate: Keyword) -> Keyword:
    cost = _COSTS.get(name, _cost_of_nothing)

    @functools.wraps(validate)
    def keyword(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        work: ValidationBudget = validator.format_checker
        work.pay(1 + cost(work, value, instance, schema))
        work.nested += 1
        if work.nested > MAX_NESTED:  # a RecursionError in the native code below would be a panic
            raise TooMuchWork
        try:
            for error in validate(validator, value, instance, schema) or ():
                work.pay(1 + len(error.message) / _CHARACTERS_PER_UNIT)
                yield error
        finally:
            work.nested -= 1

    return keyword


# --- our own keywords


# jsonschema compares all pairs
def _unique_items(_validator: Any, wanted: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if wanted and isinstance(instance, list) and not _all_differ(instance, _validator.format_checker):
        yield ValidationError(f"{instance!r} has non-unique elements")


def _all_differ(items: list[Any], work: ValidationBudget) -> bool:
    kinds = set(map(type, items))
    if kinds <= {str} or kinds <= {int}:
        return len(set(items)) == len(items)
    work.pay(count_parts(items) / 2)
    return len({json.dumps(_one_number_type(item), sort_keys=True) for item in items}) == len(items)


def _one_number_type(item: object) -> object:
    """Normalise equal numbers, because 1 and 1.0 are equal in JSON. true and 1 are not."""
    match item:
        case float() if item.is_integer():
            return int(item)
        case list() | tuple():
            return [_one_number_type(one) for one in item]
        case Mapping():
            return {name: _one_number_type(one) for name, one in item.items()}
        case _:
            return item


def _items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(wanted, Mapping) or not isinstance(instance, list):
        yield from Draft202012Validator.VALIDATORS["items"](validator, wanted, instance, schema)
        return
    for index in range(len(schema.get("prefixItems", ())), len(instance)):
        # One by one: a caller that stops after ten faults has not paid for all.
        validator.format_checker.pay(1)
        yield from validator.descend(instance[index], wanted, path=index)


def _format(_validator: Any, _name: Any, _instance: Any, _schema: Any) -> None:
    """Formats are annotations only, as in the draft."""


def _in_order(schema: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
        return sorted(schema.items(), key=lambda item: item[0].startswith("unevaluated"))
    return schema.items()


_JUDGES: Final[Any] = Draft202012Validator.VALIDATORS
_KEYWORDS: Final[Mapping[str, Keyword]] = {
    **_JUDGES,
    "format": _format,
    "items": _items,
    "uniqueItems": _unique_items,
}

_create: Final[Any] = create  # its stubs are too strict
BoundedValidator: Final[Any] = _create(
    meta_schema=Draft202012Validator.META_SCHEMA,
    validators={name: _paid(name, validate) for name, validate in _KEYWORDS.items()},
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
    id_of=Draft202012Validator.ID_OF,
    applicable_validators=_in_order,
)
"""Create it with a `ValidationBudget` as its `format_checker`, one for each judgement.

No schema below the root may have `$schema`: jsonschema would switch from this class to that of the dialect.
"""
