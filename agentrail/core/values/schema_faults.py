"""Is this a JSON Schema that one could judge by? It may come from anywhere, and be of any size. Pure.

The draft's own schema of schemas says so in a fifth of a millisecond for each part, which is seconds for a large one. So
each part is held against a table first that knows what is plainly right; the schema of schemas has the last word about the
others, and finds the words for what is wrong.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen
from jsonschema import Draft202012Validator, SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from agentrail.core.values.patterns import NoPattern, effort_of
from agentrail.messages import JsonObject

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

# Where schemas stand within a schema.
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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


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
"""What is rare enough that the draft is asked about it. What it does not know it does not mind."""

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
        **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"), _is_number),
        "multipleOf": lambda value: _is_number(value) and value > 0,
        **dict.fromkeys(("maxItems", "maxLength", "maxProperties"), _is_count),
        **dict.fromkeys(("minItems", "minLength", "minProperties"), _is_count),
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
    """Ends the look at a schema; the text is half a sentence."""


@frozen(kw_only=True)
class _Place:
    path: str
    schema: Any


def fault_of_schema(schema: JsonObject) -> str | None:
    """Say why this is no schema that one could judge by: half a sentence, whose subject is the schema; or None."""
    try:
        _look_through(schema, _count(schema))
    except _Fault as fault:
        return str(fault)
    return None


def _count(schema: object) -> int:
    """Refuse what is too large or too deep, before anything goes through it that costs more than counting."""
    parts = 0
    level: list[object] = [schema]
    for depth in range(MAX_SCHEMA_DEPTH):
        below: list[object] = []
        for one in level:
            if depth and isinstance(one, Mapping) and isinstance(one.get("$schema"), str):
                message = "has $schema below its root: leave it out, one dialect is known here"
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
    _check_keywords(_Place(path="$", schema=schema))  # first: its $id must be one, for what comes next
    root = DRAFT202012.create_resource(dict(schema))
    registry = _EMPTY.with_resource(root.id() or "", root)
    resolver = registry.resolver(root.id() or "")
    patterns: set[str] = set()
    references: set[str] = set()
    seen: set[int] = set()
    is_crawled = False
    asked = 0
    waiting = [_Place(path="$", schema=schema)]
    while waiting:
        place = waiting.pop()
        if isinstance(place.schema, bool) or id(place.schema) in seen:
            continue
        seen.add(id(place.schema))
        asked += _check_keywords(place)
        if asked > MAX_RARE_PARTS:
            message = f"has more than {MAX_RARE_PARTS} parts with keywords that are seldom used: say some of it in words"
            raise _Fault(message)
        _check_patterns(place, patterns)
        new = {place.schema[name] for name in ("$ref", "$dynamicRef") if name in place.schema} - references
        references |= new
        anchors = sum(not one.startswith("#/") for one in references)
        if anchors > MAX_ANCHORS:
            message = f"refers to more than {MAX_ANCHORS} anchors: use #/$defs/…"
            raise _Fault(message)
        if anchors and parts > MAX_PARTS_OF_ANCHORS:
            message = f"refers to an anchor, and has more than {MAX_PARTS_OF_ANCHORS:,} parts: use #/$defs/…"
            raise _Fault(message)
        if anchors and not is_crawled:
            resolver, is_crawled = _crawled(registry, root), True
        # What is referred to may stand where no schema is looked for.
        waiting += [_find(resolver, reference) for reference in sorted(new)]
        waiting += _below(place)


def _crawled(registry: Registry[Any], root: Any) -> Any:
    """Look for all anchors at once: otherwise each reference to one would go through the whole schema."""
    try:
        return registry.crawl().resolver(root.id() or "")
    except (ValueError, TypeError, AttributeError):
        message = "has an $id or an $anchor that is none"
        raise _Fault(message) from None


def _check_keywords(place: _Place) -> bool:
    """Hold a schema against the draft, without those within it; say whether the draft had to be asked."""
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
    """Look at the patterns of a place; they join those of the places before."""
    found = dict.fromkeys(place.schema.get("patternProperties", ()), "patternProperties")
    if "pattern" in place.schema:
        found[place.schema["pattern"]] = "pattern"
    patterns.update(found)
    if sum(len(pattern) + 50 for pattern in patterns) > MAX_PATTERN_WORK:
        message = f"has {len(patterns)} patterns or more, {MAX_PATTERN_WORK:,} characters at most: say some of it in words"
        raise _Fault(message)
    for pattern, keyword in found.items():
        try:
            effort_of(pattern)
        except NoPattern as fault:
            message = f"has no pattern at {place.path}.{keyword}, {pattern[:MAX_SHOWN]!r}: {fault}"
            raise _Fault(message) from None


def _find(resolver: Any, reference: str) -> _Place:
    shown = reference[:MAX_SHOWN]
    try:
        found = resolver.lookup(reference).contents
    except (Unresolvable, ValueError, LookupError, TypeError, AttributeError):
        # Of the last four: a pointer into a list that is no number, or through something that has no members.
        message = f"refers to {shown!r}: inline it, nothing is fetched"
        raise _Fault(message) from None
    if not isinstance(found, Mapping | bool):
        message = f"refers to {shown!r}, which is no schema"
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
