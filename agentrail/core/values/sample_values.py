"""Values that a JSON Schema accepts, for models without understanding: those of tests, of the simulation and of `demo:`."""

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from attrs import define, field

from agentrail.messages import JsonValue

SchemaPart: TypeAlias = dict[str, Any]
"""A schema without references and variants."""

MAX_PARTS: Final = 10_000
_MAX_ITEMS: Final = 20
_MAX_CHARACTERS: Final = 1_000
_MAX_LEVELS: Final = 20
_LEVELS_WITH_MORE: Final = 3
"""Levels at which a value has more than it must: a tree of nodes would seldom end otherwise."""

_IN_ITS_FORM: Final[Mapping[object, str]] = MappingProxyType(
    {
        "base64": "YQ==",
        "date": "2026-01-31",
        "date-time": "2026-01-31T12:00:00Z",
        "decimal": "1.5",
        "duration": "P1D",
        "email": "ann@example.org",
        "time": "12:00:00Z",
        "uri": "https://example.org/",
        "uuid": "00000000-0000-4000-8000-000000000000",
    }
)

_BOUNDS: Final[Mapping[str, Callable[[Any, Any], bool]]] = MappingProxyType(
    {
        "minimum": operator.ge,
        "exclusiveMinimum": operator.gt,
        "maximum": operator.le,
        "exclusiveMaximum": operator.lt,
    }
)


@define(kw_only=True, eq=False)
class SampleValues:
    """Makes one value after the other for a valid schema. `not`, `if` and the like are not considered.

    Attributes:
        root: The schema in which references are resolved.
        choose: Chooses one of some options. The first is the plainest: without an optional property, not null.
        words: Texts to choose from.
        numbers: Numbers to choose from.
        matching: Makes a text for a pattern. None: patterns are not considered.
    """

    root: Mapping[str, Any]
    choose: Callable[[Sequence[Any]], Any] = operator.itemgetter(0)
    words: Sequence[str] = ("a",)
    numbers: Sequence[float] = (1, 0, 2, -1)
    matching: Callable[[str], str] | None = None
    _left: int = field(default=MAX_PARTS, init=False)

    def of(self, schema: object, level: int = 0) -> JsonValue:
        """Return a value. One of more than `MAX_PARTS` parts, or of too many levels, is not completed."""
        self._left -= 1
        if self._left < 0 or level > _MAX_LEVELS:
            return None
        known = self.resolved(schema, level)
        options = [known["const"]] if "const" in known else known.get("enum")
        if options:
            chosen: JsonValue = self.choose(options)
            return chosen
        match self.kind_of(known):
            case "object":
                return self._object(known, level)
            case "array":
                return self._array(known, level)
            case "integer":
                return self._number(known, int)
            case "number":
                return self._number(known, float)
            case "boolean":
                return bool(self.choose((False, True)))
            case "null":
                return None
            case _:
                return self._text(known)

    def resolved(self, schema: object, level: int = 0) -> SchemaPart:
        """Return a schema together with what it refers to, and with one of its variants: null ends a long chain."""
        known = _joined({}, schema)
        while self._left > 0:  # a variant may lead back to where it is
            if "$ref" in known:
                others = [self._referred(known.pop("$ref"))]
            elif "allOf" in known:
                others = known.pop("allOf")
            elif variants := known.pop("anyOf", None) or known.pop("oneOf", None):
                self._left -= len(variants)
                ends = [one for one in variants if _is_null(one)] if level >= _LEVELS_WITH_MORE else []
                others = [self.choose(ends or sorted(variants, key=_is_null))]
            else:
                break
            for other in others:
                known = _joined(known, other)
                self._left -= 1 + len(known["properties"]) + len(known["required"])
        return known

    def kind_of(self, known: SchemaPart) -> str:
        """Return the type of a value, of several one that is chosen."""
        kinds = known.get("type") or ("object" if known.get("properties") else "string")
        return kinds if isinstance(kinds, str) else str(self.choose(sorted(kinds, key="null".__eq__)))

    def _referred(self, reference: str) -> object:
        found: Any = self.root
        for part in unquote(reference).split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    def _object(self, known: SchemaPart, level: int) -> JsonValue:
        needed = known.get("required", ())
        properties = {**dict.fromkeys(needed), **known.get("properties", {})}
        made = {
            name: self.of(one, level + 1)
            for name, one in properties.items()
            if name in needed or (level < _LEVELS_WITH_MORE and self.choose((False, True)))
        }
        missing = min(known.get("minProperties", 0), _MAX_ITEMS) - len(made)
        others = known.get("additionalProperties")
        return made | {f"key_{number}": self.of(others, level + 1) for number in range(missing)}

    def _array(self, known: SchemaPart, level: int) -> JsonValue:
        first, others = known.get("prefixItems", ()), known.get("items")
        least = min(max(known.get("minItems", 0), len(first)), _MAX_ITEMS)
        most = min(known.get("maxItems", _MAX_ITEMS), least if others is False else least + 2)
        count = self.choose(range(least, most + 1)) if least < most and level < _LEVELS_WITH_MORE else least
        items = [self.of(first[n] if n < len(first) else others, level + 1) for n in range(count)]
        if not known.get("uniqueItems"):
            return items
        return [one for n, one in enumerate(items) if one not in items[:n]]

    def _number(self, known: SchemaPart, kind: type[int] | type[float]) -> JsonValue:
        step = known.get("multipleOf", 1)
        bounds = [known[name] for name in _BOUNDS if name in known]
        fitting: list[float] = []
        with suppress(OverflowError):  # an integer with more digits than a float can have
            near = [bound // step * step + by for bound in bounds for by in (0, step, -step)]
            between = [*bounds, sum(bounds) / len(bounds)] if kind is float and bounds else []
            fitting += [one for one in map(kind, (*self.numbers, *near, *between)) if _fits(one, known)]
        return kind(self.choose(list(dict.fromkeys(fitting)) or self.numbers))

    def _text(self, known: SchemaPart) -> str:
        if self.matching is not None and "pattern" in known:
            return self.matching(known["pattern"])
        form = _IN_ITS_FORM.get(known.get("format", known.get("contentEncoding")))
        if form is not None:
            return form
        least, most = known.get("minLength", 0), known.get("maxLength", _MAX_CHARACTERS)
        fitting = [word for word in self.words if least <= len(word) <= most]
        return str(self.choose(fitting or [self.words[0].ljust(min(least, most), "a")[:most]]))


def _joined(known: SchemaPart, schema: object) -> SchemaPart:
    more = schema if isinstance(schema, Mapping) else {}  # `true` accepts anything
    properties = {**known.get("properties", {}), **more.get("properties", {})}
    required = [*known.get("required", ()), *more.get("required", ())]
    return {**known, **more, "properties": properties, "required": required}


def _is_null(schema: object) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "null"


def _fits(number: float, known: SchemaPart) -> bool:
    is_multiple = "multipleOf" not in known or number % known["multipleOf"] == 0
    return is_multiple and all(fits(number, known[name]) for name, fits in _BOUNDS.items() if name in known)
