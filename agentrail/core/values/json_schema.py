"""JSON Schema, draft 2020-12: what is wrong with a value. Used for arguments and for answers.

No schema is ever fetched: validators get an empty registry, because jsonschema would otherwise load a `$ref` to another
document from the network. And whatever schema and value are, a judgement ends soon: see `bounded_schema`.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from jsonschema.exceptions import ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

from agentrail.core.values.bounded_schema import (
    BoundedValidator,
    TooMuchWork,
    ValidationBudget,
    count_parts,
    name_patterns_of,
)
from agentrail.core.values.schema_faults import MAX_FAULT_CHARACTERS, fault_of_schema
from agentrail.frozen import MAX_CONTAINERS, FrozenDict, FrozenList
from agentrail.messages import JsonObject, JsonValue

# A fast check for plain schemas, at a twentieth of the validator's cost.
#
# It only ever accepts. A value that it does not accept, or a schema with other keywords, goes to the validator, which knows the whole
# standard and names the faults.

# not compiled: it goes as deep as what it is given, and only interpreted functions end with a RecursionError


Check: TypeAlias = Callable[[object], bool]

_OBJECTS: Final = frozenset({FrozenDict, dict})
_ARRAYS: Final = frozenset({FrozenList, list})
_SILENT: Final = frozenset({"description", "title", "default", "examples"})
_PLAIN: Final = frozenset({"type", "properties", "required", "additionalProperties", "items", "enum"})


def quick_check(schema: object) -> Check | None:
    """Compile a schema.

    Returns:
        A function that is true for values that the schema takes, and may be false for some that it takes too; None when
        the schema has a keyword that is not plain.
    """
    if schema is True:
        return _takes_anything
    if not isinstance(schema, Mapping) or not schema.keys() <= _SILENT | _PLAIN:
        return None
    checks = [
        _type_check(schema.get("type")),
        _enum_check(schema.get("enum")),
        _items_check(schema.get("items", True)),
        _object_check(schema),
    ]
    if any(check is None for check in checks):
        return None
    said = tuple(check for check in checks if check is not None and check is not _takes_anything)
    if len(said) == 1:
        return said[0]
    return lambda value: all(check(value) for check in said)


def _takes_anything(_value: object) -> bool:
    return True


def _is_integer(value: object) -> bool:
    return type(value) is int  # 3.0 is one as well, but models seldom write it: the validator may say so


def _is_number(value: object) -> bool:
    return type(value) is int or type(value) is float


_TYPES: Final[Mapping[str, Check]] = {
    "string": lambda value: type(value) is str,
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: type(value) is bool,
    "object": lambda value: type(value) in _OBJECTS,
    "array": lambda value: type(value) in _ARRAYS,
    "null": lambda value: value is None,
}


def _type_check(wanted: object) -> Check | None:
    if wanted is None:
        return _takes_anything
    return _TYPES.get(wanted) if isinstance(wanted, str) else None


def _enum_check(wanted: object) -> Check | None:
    if wanted is None:
        return _takes_anything
    # Only texts: of numbers, JSON and Python do not agree on which are equal.
    if not isinstance(wanted, list) or not all(isinstance(one, str) for one in wanted):
        return None
    texts = frozenset(wanted)
    return lambda value: type(value) is str and value in texts


def _items_check(schema: object) -> Check | None:
    each = quick_check(schema)
    if each is None or each is _takes_anything:
        return each
    return lambda value: not isinstance(value, list) or all(each(item) for item in value)


def _object_check(schema: Mapping[str, object]) -> Check | None:
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    others = schema.get("additionalProperties", True)
    if not isinstance(properties, Mapping) or not isinstance(required, list) or not isinstance(others, bool):
        return None
    if not properties and not required and others:
        return _takes_anything
    checks: dict[str, Check] = {}
    for name, below in properties.items():
        check = quick_check(below)
        if check is None:
            return None
        checks[name] = check
    needed = frozenset(required)

    def takes(value: object) -> bool:
        if not isinstance(value, dict):
            return True  # these keywords speak of objects only
        if not needed <= value.keys():
            return False
        for name, item in value.items():
            check = checks.get(name)
            if check is None:
                if not others:
                    return False
            elif not check(item):
                return False
        return True

    return takes


__all__ = ["MAX_FAULTS", "CompiledSchema", "fault_of_schema"]

MAX_FAULTS: Final = 10

_MAX_COUNTED: Final = 100
_EMPTY: Final[Registry[Any]] = Registry()
_CANNOT_BE_JUDGED: Final = (
    *(Unresolvable, OverflowError, RecursionError, ValueError),
    *(LookupError, TypeError, AttributeError, ZeroDivisionError),
)
"""A reference to nowhere, a number that no float holds, a schema or a value without an end."""


class CompiledSchema:
    """A schema that is ready to judge values. To be kept: compiling costs a hundred times what judging costs."""

    __slots__ = ("_is_plainly_fine", "_name_patterns", "_parts", "_schema")

    def __init__(self, schema: JsonObject) -> None:
        """Compile a schema that `fault_of_schema` has nothing against."""
        # Its dialect is known, and naming it would make jsonschema leave our validator for its own.
        self._schema = {name: value for name, value in schema.items() if name != "$schema"}
        self._name_patterns = name_patterns_of(schema)
        self._parts = count_parts(schema)
        self._is_plainly_fine = quick_check(schema)

    def faults(self, value: object) -> tuple[str, ...]:
        """Say what is wrong with a value, at most ten sentences, each with its path; nothing when all is well."""
        if self._is_plainly_fine is not None and self._is_plainly_fine(value):
            return ()
        work = ValidationBudget(patterns=self._name_patterns, schema_parts=self._parts)
        errors: list[ValidationError] = []
        further = 0
        try:
            validator = BoundedValidator(self._schema, registry=_EMPTY, format_checker=work)
            for error in validator.iter_errors(value):
                if len(errors) < MAX_FAULTS:
                    errors.append(error)
                else:
                    further += 1
                if further == _MAX_COUNTED:
                    break
        except TooMuchWork:
            if not errors:
                return ("$: takes more work to judge than one call may: send less, and simpler values",)
            further = _MAX_COUNTED
        except _CANNOT_BE_JUDGED as error:
            # Refused, since what cannot be judged may not run.
            return (f"$: cannot be judged ({type(error).__name__}): send less, and simpler values",)
        sentences = [_sentence(error) for error in sorted(errors, key=_place_of)]
        if further:
            sentences.append(f"and {further} more" if further < _MAX_COUNTED else "and more")
        return tuple(sentences)


def _sentence(error: ValidationError) -> str:
    if error.validator == "required":
        name = error.message.removesuffix(" is a required property").strip("'\"")
        return f"{error.json_path}.{name} is required"
    return f"{error.json_path}: {error.message[:MAX_FAULT_CHARACTERS]}"


def _place_of(error: ValidationError) -> list[str]:
    return [str(step) for step in error.absolute_path]


# Strict JSON from models: no NaN, no number beyond a float, no unpaired surrogate, and no repair, which would be a guess.

_LARGE_EXPONENT: Final = re.compile(r"[eE]\+?[0-9]{3}")
_DIGITS: Final = re.compile(r"[0-9]+")
_MANY_DIGITS: Final = 300
"""A number with fewer digits and a small exponent is finite."""
# All that is whole in one match, and each half in one of its own: one for each escape would take five times as long.
_ESCAPE: Final = re.compile(
    r"((?:[^\\]++|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\(?!u[dD][89a-fA-F][0-9a-fA-F]{2}).)++)"
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}",
    re.DOTALL,
)
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
"""Half of a character, escaped or bare: no wire takes it, so it becomes U+FFFD where its other half is missing."""

# One that never ends is taken to its end, so that nothing is looked at twice.
_TEXTS: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)


class NotJson(ValueError):
    """The text is no JSON; the message says what is wrong, where, and near which words."""


def decode_strictly(text: str) -> JsonValue:
    """Read a JSON text.

    Raises:
        NotJson: The model's move; also where it has more objects and arrays than may be made while others wait.
    """
    containers = _containers_in(text)
    if containers > MAX_CONTAINERS:
        message = (
            f"{containers} objects and arrays, at most {MAX_CONTAINERS} are taken. Send less in one call."
        )
        raise NotJson(message)
    try:
        if _SURROGATE.search(text):
            text = without_half_pairs(text)
        # Python's float is ten times as fast as one of ours that looks whether it is infinite.
        decoder = _CAREFUL if _may_be_infinite(text) else _QUICK
        value: JsonValue = decoder.decode(text)
        return value
    except json.JSONDecodeError as error:
        near = text[max(0, error.pos - 20) : error.pos + 20].replace("\n", " ")
        message = f"{error.msg} at line {error.lineno} column {error.colno}, near: …{near}…"
        raise NotJson(message) from None
    except (ValueError, RecursionError) as error:
        message = f"{error}."
        raise NotJson(message) from None


def _may_be_infinite(text: str) -> bool:
    if ("e" in text or "E" in text) and _LARGE_EXPONENT.search(text):
        return True
    for place in range(
        _MANY_DIGITS - 1, len(text), _MANY_DIGITS
    ):  # so many digits in a row cover one of these
        found = _DIGITS.match(text, place, place + _MANY_DIGITS)
        if found:
            before = text[place - _MANY_DIGITS + 1 : place]
            if len(before) - len(before.rstrip("0123456789")) + found.end() - place >= _MANY_DIGITS:
                return True
    return False


def _containers_in(text: str) -> int:
    """Count what begins an object or an array; marks in texts count only where they decide nothing."""
    count = text.count("{") + text.count("[")
    if count <= MAX_CONTAINERS:
        return count
    outside = _TEXTS.sub("", text)
    return outside.count("{") + outside.count("[")


def without_half_pairs(text: str) -> str:
    """Put U+FFFD where a JSON text has half of a surrogate pair, bare or escaped.

    In the text, because to go through what it says takes a hundred times as long.
    """
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _ESCAPE.sub(lambda found: found[1] or "\\ufffd", whole)


def json_kind_of(value: JsonValue) -> str:
    """Name the kind of a value, for a sentence."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case list():
            return "an array"
        case dict():
            return "an object"
        case _:
            return "a number"


def _refuse_constant(name: str) -> JsonValue:
    message = f"{name} is not JSON"
    raise ValueError(message)


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        message = f"{digits[:20]} is too large for a number"
        raise ValueError(message)
    return value


_CAREFUL: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
_QUICK: Final = json.JSONDecoder(parse_constant=_refuse_constant)
"""Kept, because `json.loads` with these makes one per call."""
