"""JSON Schema, draft 2020-12: faults of a value. Used for arguments and for answers."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from attrs import frozen
from jsonschema import Draft202012Validator, SchemaError
from jsonschema.exceptions import ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from agentrail.core.values.bounded_schema import (
    BoundedValidator,
    TooMuchWork,
    ValidationBudget,
    count_parts,
    name_patterns_of,
)
from agentrail.core.values.patterns import NoPattern, effort_of
from agentrail.frozen import MAX_CONTAINERS, FrozenDict, FrozenList, not_json
from agentrail.messages import JsonObject, JsonValue
from agentrail.otp.child_specs import is_whole

# Validity of a JSON Schema, which may come from anywhere, and have any size. Pure.  The draft's meta-schema
# needs a fifth of a millisecond for each part, which is seconds for a large schema. So each part is first
# checked against a table of clearly valid forms. The meta-schema decides about the others, and supplies the
# error messages.

MAX_SCHEMA_PARTS: Final = 10_000
MAX_SCHEMA_DEPTH: Final = 100
MAX_PATTERN_WORK: Final = 6_000  # characters of all patterns, and fifty more for each
MAX_ANCHORS: Final = 10
MAX_PARTS_OF_ANCHORS: Final = 1_000

MAX_FAULT_CHARACTERS: Final = 500
MAX_SHOWN: Final = 200

_EMPTY: Final[Registry[Any]] = Registry()
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_Check = Callable[[Any], bool]

# Positions of schemas within a schema.
_ONE: Final = frozenset(
    (
        *("additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames"),
        *("then", "unevaluatedItems", "unevaluatedProperties"),
    )
)
_LISTS: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_BY_NAME: Final = frozenset(("$defs", "definitions", "dependentSchemas", "patternProperties", "properties"))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_bound(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _are_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_text, value)) and len(set(value)) == len(value)


def _is_anchor(value: str) -> bool:
    return _PLAIN_NAME.fullmatch(value) is not None


_ASKED: Final = frozenset(
    (
        "$id",
        "$schema",
        "$vocabulary",
        "$dynamicRef",
        "$recursiveAnchor",
        "$recursiveRef",
        "dependencies",
        "dependentRequired",
    )
)
"""Rare keywords, which are checked by the draft. It ignores unknown ones."""

MAX_RARE_PARTS: Final = 200

_KINDS: Final = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))

_PLAINLY_FINE: Final[Mapping[str, _Check]] = MappingProxyType(
    {
        "type": lambda value: (
            (isinstance(value, str) and value in _KINDS)
            or (_are_names(value) and bool(value) and set(value) <= _KINDS)
        ),
        **dict.fromkeys(("$anchor", "$dynamicAnchor"), lambda value: _is_text(value) and _is_anchor(value)),
        **dict.fromkeys(("contentEncoding", "contentMediaType"), _is_text),
        **dict.fromkeys(("$comment", "$ref", "description", "format", "pattern", "title"), _is_text),
        **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"), _is_bound),
        "multipleOf": lambda value: _is_bound(value) and value > 0,
        **dict.fromkeys(("maxItems", "maxLength", "maxProperties"), partial(is_whole, at_least=0)),
        **dict.fromkeys(("minItems", "minLength", "minProperties"), partial(is_whole, at_least=0)),
        **dict.fromkeys(("deprecated", "readOnly", "uniqueItems", "writeOnly"), _is_flag),
        "required": _are_names,
        **dict.fromkeys(("enum", "examples"), lambda value: isinstance(value, list | tuple)),
        **dict.fromkeys(("const", "default"), lambda _: True),
        **dict.fromkeys(sorted(_ONE), lambda value: isinstance(value, Mapping | bool)),
        **dict.fromkeys(sorted(_LISTS), lambda value: isinstance(value, list | tuple) and len(value) > 0),
        **dict.fromkeys(sorted(_BY_NAME), lambda value: isinstance(value, Mapping)),
    }
)


class _Fault(Exception):
    """Ends the check of a schema. The text is half a sentence."""


@frozen(kw_only=True)
class _Place:
    path: str
    schema: Any


def fault_of_schema(schema: JsonObject) -> str | None:
    """Return why a schema is invalid, as half a sentence with the schema as its subject, or None."""
    try:
        parts = _count(schema)
        if (unlike := not_json(schema)) is not None:
            return f"is not JSON: {unlike}"
        _look_through(schema, parts)
    except _Fault as fault:
        return str(fault)
    return None


def _count(schema: object) -> int:
    """Refuse a schema that is too large or too deep, before any check that costs more than counting."""
    parts = 0
    level: list[object] = [schema]
    for depth in range(MAX_SCHEMA_DEPTH):
        below: list[object] = []
        for one in level:
            if depth and isinstance(one, Mapping) and isinstance(one.get("$schema"), str):
                message = "has $schema below its root: remove it, because only one dialect is supported"
                raise _Fault(message)
            inner = list(one.values() if isinstance(one, Mapping) else one)  # type: ignore[call-overload]
            parts += 1 + len(inner)
            if parts > MAX_SCHEMA_PARTS:
                message = f"has more than {MAX_SCHEMA_PARTS:,} parts: describe less, or in words"
                raise _Fault(message)
            below += [each for each in inner if isinstance(each, Mapping | list | tuple)]
        if not below:
            return parts
        level = below
    message = f"is nested deeper than {MAX_SCHEMA_DEPTH} levels: use $defs"
    raise _Fault(message)


def _look_through(schema: JsonObject, parts: int) -> None:
    # First, because its $id must be valid for the next lines.
    _check_keywords(_Place(path="$", schema=schema))
    root = DRAFT202012.create_resource(dict(schema))
    registry = _EMPTY.with_resource(root.id() or "", root)
    resolver = registry.resolver(root.id() or "")
    patterns: set[str] = set()
    found: dict[str, _Place] = {}
    in_place: dict[int, list[int]] = {}
    is_crawled = False
    asked = anchors = 0
    waiting = [_Place(path="$", schema=schema)]
    while waiting:
        place = waiting.pop()
        if isinstance(place.schema, bool) or id(place.schema) in in_place:
            continue
        asked += _check_keywords(place)
        if asked > MAX_RARE_PARTS:
            message = f"has more than {MAX_RARE_PARTS} parts with rare keywords: describe some of it in words"
            raise _Fault(message)
        _check_patterns(place, patterns)
        named = [place.schema[name] for name in ("$ref", "$dynamicRef") if name in place.schema]
        new = [one for one in dict.fromkeys(named) if one not in found]
        anchors += sum(not one.startswith("#/") for one in new)
        if anchors > MAX_ANCHORS:
            message = f"refers to more than {MAX_ANCHORS} anchors: use #/$defs/…"
            raise _Fault(message)
        if anchors and parts > MAX_PARTS_OF_ANCHORS:
            message = f"refers to an anchor, and has more than {MAX_PARTS_OF_ANCHORS:,} parts: use #/$defs/…"
            raise _Fault(message)
        if anchors and not is_crawled:
            resolver, is_crawled = _crawled(registry, root), True
        # A reference may point to a place where no schema is expected.
        found |= {reference: _find(resolver, reference) for reference in new}
        in_place[id(place.schema)] = [
            id(one) for one in (*(found[one].schema for one in named), *place.schema.get("allOf", ()))
        ]
        waiting += [found[one] for one in new]
        waiting += _below(place)
    try:
        TopologicalSorter(in_place).prepare()
    except CycleError:
        message = "refers to itself in place, so that no value can be validated: refer to it from a property"
        raise _Fault(message) from None


def _crawled(registry: Registry[Any], root: Any) -> Any:
    """Collect all anchors at once. Otherwise each reference to one would search the whole schema."""
    try:
        return registry.crawl().resolver(root.id() or "")
    except (ValueError, TypeError, AttributeError):
        message = "has an invalid $id or $anchor"
        raise _Fault(message) from None


def _check_keywords(place: _Place) -> bool:
    """Check a schema without its subschemas against the draft. Return whether the meta-schema was needed."""
    shallow: dict[str, Any] = {}
    is_plain = True
    for name, value in place.schema.items():
        check = _PLAINLY_FINE.get(name)
        fits = name not in _ASKED if check is None else check(value)
        shallow[name] = shallow_value = _without_inner(name, value) if fits else value
        is_plain = is_plain and fits and _is_plain_inside(name, shallow_value)
    if is_plain:
        return False
    try:
        Draft202012Validator.check_schema(shallow)
    except SchemaError as error:
        path = place.path + error.json_path.removeprefix("$")
        message = f"is not draft 2020-12 at {path}: {error.message[:MAX_FAULT_CHARACTERS]}"
        raise _Fault(message) from None
    return True


def _without_inner(name: str, value: Any) -> Any:
    if name in _ONE:
        return True
    if name in _LISTS:
        return [_stub(one) for one in value]
    if name in _BY_NAME:
        return {key: _stub(one) for key, one in value.items()}
    return value


def _stub(value: object) -> object:
    return True if isinstance(value, Mapping | bool) else value


def _is_plain_inside(name: str, shallow: Any) -> bool:
    if name in _LISTS:
        return all(one is True for one in shallow)
    return name not in _BY_NAME or all(one is True for one in shallow.values())


def _check_patterns(place: _Place, patterns: set[str]) -> None:
    """Check the patterns of a place, and add them to those of earlier places."""
    found = dict.fromkeys(place.schema.get("patternProperties", ()), "patternProperties")
    if "pattern" in place.schema:
        found[place.schema["pattern"]] = "pattern"
    patterns.update(found)
    if sum(len(pattern) + 50 for pattern in patterns) > MAX_PATTERN_WORK:
        message = f"has {len(patterns)} patterns or more, {MAX_PATTERN_WORK:,} characters at most: describe some of it in words"
        raise _Fault(message)
    for pattern, keyword in found.items():
        try:
            effort_of(pattern)
        except NoPattern as fault:
            message = f"has an invalid pattern at {place.path}.{keyword}, {pattern[:MAX_SHOWN]!r}: {fault}"
            raise _Fault(message) from None


def _find(resolver: Any, reference: str) -> _Place:
    shown = reference[:MAX_SHOWN]
    try:
        found = resolver.lookup(reference).contents
    except (Unresolvable, ValueError, LookupError, TypeError, AttributeError):
        # The last four: a pointer with a non-number into a list, or through a value without members.
        message = f"refers to {shown!r}: inline it, because references are not fetched"
        raise _Fault(message) from None
    if not isinstance(found, Mapping | bool):
        message = f"refers to {shown!r}, which is not a schema"
        raise _Fault(message)
    return _Place(path=f"$ref {shown}", schema=found)


def _below(place: _Place) -> Iterator[_Place]:
    for name, value in place.schema.items():
        path = f"{place.path}{_step(name)}"
        if name in _ONE:
            yield _Place(path=path, schema=value)
        elif name in _LISTS:
            yield from (_Place(path=f"{path}[{at}]", schema=one) for at, one in enumerate(value))
        elif name in _BY_NAME:
            yield from (_Place(path=f"{path}{_step(key)}", schema=one) for key, one in value.items())


def _step(name: str) -> str:
    return f".{name}" if _PLAIN_NAME.fullmatch(name) else f"[{name!r}]"


# A fast check for plain schemas, at a twentieth of the validator's cost.  It can only accept. A value that it
# does not accept, or a schema with other keywords, goes to the validator, which knows the whole standard and
# names the faults.

# not compiled: it recurses as deep as its input, and only interpreted functions end with a RecursionError


_QuickCheck: TypeAlias = Callable[[object], bool]

_OBJECTS: Final = frozenset({FrozenDict, dict})
_ARRAYS: Final = frozenset({FrozenList, list})
_SILENT: Final = frozenset({"description", "title", "default", "examples"})
_PLAIN: Final = frozenset({"type", "properties", "required", "additionalProperties", "items", "enum"})


def quick_check(schema: object) -> _QuickCheck | None:
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
    return type(value) is int  # 3.0 is one as well, but models seldom write it: left to the validator


def _is_number(value: object) -> bool:
    return type(value) is int or type(value) is float


_TYPES: Final[Mapping[str, _QuickCheck]] = {
    "string": lambda value: type(value) is str,
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: type(value) is bool,
    "object": lambda value: type(value) in _OBJECTS,
    "array": lambda value: type(value) in _ARRAYS,
    "null": lambda value: value is None,
}


def _type_check(wanted: object) -> _QuickCheck | None:
    if wanted is None:
        return _takes_anything
    return _TYPES.get(wanted) if isinstance(wanted, str) else None


def _enum_check(wanted: object) -> _QuickCheck | None:
    if wanted is None:
        return _takes_anything
    # Only texts: JSON and Python disagree on the equality of numbers.
    if not isinstance(wanted, list) or not all(isinstance(one, str) for one in wanted):
        return None
    texts = frozenset(wanted)
    return lambda value: type(value) is str and value in texts


def _items_check(schema: object) -> _QuickCheck | None:
    each = quick_check(schema)
    if each is None or each is _takes_anything:
        return each
    return lambda value: not isinstance(value, list) or all(each(item) for item in value)


def _object_check(schema: Mapping[str, object]) -> _QuickCheck | None:
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    others = schema.get("additionalProperties", True)
    if not isinstance(properties, Mapping) or not isinstance(required, list) or not isinstance(others, bool):
        return None
    if not properties and not required and others:
        return _takes_anything
    checks: dict[str, _QuickCheck] = {}
    for name, below in properties.items():
        check = quick_check(below)
        if check is None:
            return None
        checks[name] = check
    needed = frozenset(required)

    def takes(value: object) -> bool:
        if not isinstance(value, dict):
            return True  # these keywords apply to objects only
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


MAX_FAULTS: Final = 10

_MAX_COUNTED: Final = 100
_CANNOT_BE_JUDGED: Final = (
    *(Unresolvable, OverflowError, RecursionError, ValueError),
    *(LookupError, TypeError, AttributeError, ZeroDivisionError),
)
"""An unresolvable reference, a number too large for a float, a schema or a value without an end."""


class CompiledSchema:
    """A compiled schema. Keep it: compiling costs a hundred times as much as a check."""

    __slots__ = ("_is_plainly_fine", "_name_patterns", "_parts", "_schema")

    def __init__(self, schema: JsonObject) -> None:
        """Compile a schema in which `fault_of_schema` found no fault."""
        # Its dialect is known, and naming it would make jsonschema switch from our validator to its own.
        self._schema = {name: value for name, value in schema.items() if name != "$schema"}
        self._name_patterns = name_patterns_of(schema)
        self._parts = count_parts(schema)
        self._is_plainly_fine = quick_check(schema)

    def faults(self, value: object) -> tuple[str, ...]:
        """Return the faults of a value, at most ten sentences, each with its path. Empty for a valid value."""
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
                return ("$: takes too much work to validate: send less, or simpler values",)
            further = _MAX_COUNTED
        except _CANNOT_BE_JUDGED as error:
            # Refused, since a value that cannot be judged must not run.
            return (f"$: cannot be validated ({type(error).__name__}): send less, or simpler values",)
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
# Matches all intact text at once, and each half pair on its own: one match per escape would take five times
# as long.
_ESCAPE: Final = re.compile(
    r"((?:[^\\]++|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\(?!u[dD][89a-fA-F][0-9a-fA-F]{2}).)++)"
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}",
    re.DOTALL,
)
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
"""Half of a surrogate pair, escaped or bare. No wire format accepts it, so a single one becomes U+FFFD."""

# An unterminated text matches to its end, so that nothing is read twice.
_TEXTS: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)


class NotJson(ValueError):
    """The text is not JSON. The message has the fault, its place, and the words near it."""


def decode_strictly(text: str) -> JsonValue:
    containers = _containers_in(text)
    if containers > MAX_CONTAINERS:
        message = (
            f"{containers} objects and arrays, at most {MAX_CONTAINERS} are allowed. Send less in one call."
        )
        raise NotJson(message)
    try:
        if _SURROGATE.search(text):
            text = without_half_pairs(text)
        # Python's float is ten times as fast as ours, which checks for infinity.
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
    # Each run of so many digits covers one of these places.
    for place in range(_MANY_DIGITS - 1, len(text), _MANY_DIGITS):
        found = _DIGITS.match(text, place, place + _MANY_DIGITS)
        if found:
            before = text[place - _MANY_DIGITS + 1 : place]
            if len(before) - len(before.rstrip("0123456789")) + found.end() - place >= _MANY_DIGITS:
                return True
    return False


def _containers_in(text: str) -> int:
    """Count the beginnings of objects and arrays. Brackets in texts count only if the total stays below the limit."""
    count = text.count("{") + text.count("[")
    if count <= MAX_CONTAINERS:
        return count
    outside = _TEXTS.sub("", text)
    return outside.count("{") + outside.count("[")


def without_half_pairs(text: str) -> str:
    """Replace each half of a surrogate pair in a JSON text with U+FFFD, bare or escaped.

    In the text, because a walk through the decoded value takes a hundred times as long.
    """
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _ESCAPE.sub(lambda found: found[1] or "\\ufffd", whole)


def json_kind_of(value: JsonValue) -> str:
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
"""Kept, because `json.loads` with these creates one per call."""
