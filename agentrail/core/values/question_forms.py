"""Forms for the user, and their answers. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from agentrail.frozen import frozen_json, too_large
from agentrail.messages import JsonObject

MAX_FIELDS: Final = 50
MAX_CHOICES: Final = 200
MAX_FORM_CHARACTERS: Final = 50_000
MAX_ANSWER_CHARACTERS: Final = 100_000
MAX_URL_CHARACTERS: Final = 2_000

FormField: TypeAlias = Mapping[str, Any]

_LARGEST: Final = 2**53
"""The largest number that every JSON reader represents exactly."""
_OF_A_FORM: Final = frozenset(
    {"type", "properties", "required", "title", "description", "additionalProperties", "$schema"}
)
_OF_EVERY_FIELD: Final = frozenset({"type", "title", "description", "default"})
_OF_A_NUMBER: Final = frozenset({"minimum", "maximum"})
_OF_A_TEXT: Final = frozenset({"minLength", "maxLength", "format"})
_OF_A_CHOICE: Final = frozenset({"enum", "enumNames", "oneOf"})
_OF_CHOICES: Final = frozenset({"items", "minItems", "maxItems"})
_WORDS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "string": _OF_EVERY_FIELD | _OF_A_TEXT | _OF_A_CHOICE,
        "number": _OF_EVERY_FIELD | _OF_A_NUMBER,
        "integer": _OF_EVERY_FIELD | _OF_A_NUMBER,
        "boolean": _OF_EVERY_FIELD,
        "array": _OF_EVERY_FIELD | _OF_CHOICES,
    }
)
"""The keywords of a field, by its type."""
_FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "email": "an e-mail address",
        "uri": "an address such as https://example.org",
        "date": "a date such as 2026-07-28",
        "date-time": "a time such as 2026-07-28T12:00:00Z",
    }
)
_ITEMS: Final = ({"type", "enum"}, {"type", "anyOf"}, {"enum"}, {"anyOf"})
_LEAST_AND_MOST: Final = (("minLength", "maxLength"), ("minItems", "maxItems"), ("minimum", "maximum"))
_EMAIL: Final = re.compile(r"[^@\s]{1,200}@[^@\s]{1,200}")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}:\S+")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_CONTROL: Final = re.compile(r"[\x00-\x20\x7f\ud800-\udfff]")


# --- valid forms


def fault_of_form(schema: object) -> str | None:
    """Return the defect of a form, in words that follow its name, or None for a form that can be shown."""
    if not isinstance(schema, Mapping):
        return f"is {_shown(schema)}: expected a JSON Schema of a flat object"
    size = too_large(schema, max_characters=MAX_FORM_CHARACTERS)
    if size is not None:
        return f"has {size}: ask for less at a time"
    if schema.get("type") != "object":
        return f"has type {_shown(schema.get('type'))}: expected 'object'"
    strange = sorted(str(name) for name in schema if name not in _OF_A_FORM)
    if strange:
        return f"has {_listed(strange)}: a form may have only type, properties and required, with flat fields"
    if schema.get("additionalProperties", False) is not False:
        return (
            "has additionalProperties: expected False, because a user fills in only the fields that are shown"
        )
    wrong = [name for name in ("title", "description", "$schema") if not _is_text(schema.get(name, ""))]
    if wrong:
        return f"has a {wrong[0]} that is not text"
    fields = schema.get("properties")
    if not isinstance(fields, Mapping) or not 1 <= len(fields) <= MAX_FIELDS:
        return f"has no properties, or too many: expected 1 to {MAX_FIELDS} fields by their names"
    for name, field in fields.items():
        fault = _fault_of_field(field) if isinstance(name, str) and name.strip() else "has no name"
        if fault is not None:
            return f"has a field {_shown(name)} that {fault}"
    required = schema.get("required", ())
    if not isinstance(required, list | tuple) or not all(one in fields for one in required if _is_text(one)):
        return f"has required {_shown(required)}: expected names of its fields, {_listed(list(fields))}"
    if not all(map(_is_text, required)):
        return f"has required {_shown(required)}: expected names"
    return None


def _fault_of_field(field: object) -> str | None:
    if not isinstance(field, Mapping):
        return f"is {_shown(field)}: expected an object such as {{'type': 'string'}}"
    kind = field.get("type", "string" if {"enum", "oneOf"} & field.keys() else None)
    if not isinstance(kind, str) or kind not in _WORDS:
        return f"has type {_shown(kind)}: expected string, number, integer, boolean or array"
    strange = sorted(str(name) for name in field if name not in _WORDS[kind])
    if strange:
        return f"has {_listed(strange)}: a field of type {kind} takes {', '.join(sorted(_WORDS[kind]))}"
    wrong = [name for name in ("title", "description") if not _is_text(field.get(name, ""))]
    if wrong:
        return f"has a {wrong[0]} that is not text"
    fault = _fault_of_bounds(field) or _fault_of_choices(field)
    if fault is None and "default" in field:
        misfit = _misfit(field, field["default"])
        fault = None if misfit is None else f"has the default {_shown(field['default'])}: expected {misfit}"
    return fault


def _fault_of_bounds(field: FormField) -> str | None:
    for name in ("minLength", "maxLength", "minItems", "maxItems"):
        if not (type(field.get(name, 0)) is int and field.get(name, 0) >= 0):
            return f"has {name} {_shown(field[name])}: expected a whole number from 0"
    for name in ("minimum", "maximum"):
        if not _is_number(field.get(name, 0)):
            return f"has {name} {_shown(field[name])}: expected a number"
    for least, most in _LEAST_AND_MOST:
        if least in field and most in field and field[least] > field[most]:
            return f"has {least} above its {most}: no value would fit"
    known = field.get("format", "date")
    if not isinstance(known, str) or known not in _FORMATS:
        return f"has format {_shown(known)}: expected one of {', '.join(_FORMATS)}"
    return None


def _fault_of_choices(field: FormField) -> str | None:
    if field.get("type") == "array":
        items = field.get("items")
        if (
            not isinstance(items, Mapping)
            or {*items} not in _ITEMS
            or items.get("type", "string") != "string"
        ):
            return "has items that are no choice: expected {'type': 'string', 'enum': […]}, or {'anyOf': […]}"
        field = {"enum": items["enum"]} if "enum" in items else {"oneOf": items["anyOf"]}
    if "enum" not in field and "oneOf" not in field:
        return "has enumNames but no enum" if "enumNames" in field else None
    if "enum" in field and "oneOf" in field:
        return "has enum and oneOf: expected one of them"
    listed = field.get("enum", field.get("oneOf"))
    if not isinstance(listed, list | tuple) or not 1 <= len(listed) <= MAX_CHOICES:
        return f"has choices that are not a list of 1 to {MAX_CHOICES}"
    if "oneOf" in field and not all(
        isinstance(one, Mapping) and one.keys() <= {"const", "title"} for one in listed
    ):
        return "has a oneOf whose members are not all {'const': …, 'title': …}"
    choices = choices_of(field)
    if not all(map(_is_text, choices)) or len(set(choices)) != len(choices):
        return "has choices that are not all texts, each once"
    names = field.get("enumNames", choices)
    if not isinstance(names, list | tuple) or len(names) != len(choices) or not all(map(_is_text, names)):
        return "has enumNames that are not one text for each choice"
    return None


def fault_of_url(url: object) -> str | None:
    """Return the defect of an address for the user, in words that follow its name, or None."""
    if not isinstance(url, str) or len(url) > MAX_URL_CHARACTERS or _CONTROL.search(url):
        return f"is {_shown(url)}: expected an address of at most {MAX_URL_CHARACTERS} characters, without spaces"
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        is_good = False
    return None if is_good else f"is {_shown(url)}: expected one that begins with https:// and a host"


# --- answers


def fields_of(schema: JsonObject) -> Mapping[str, FormField]:
    """Return the fields of a valid form, by their names, in the order of the form."""
    fields: Mapping[str, FormField] = schema["properties"]  # type: ignore[assignment]  # as was judged
    return fields


def choices_of(field: FormField) -> tuple[str, ...]:
    field = field.get("items", field)
    named = field.get("oneOf", field.get("anyOf"))
    return tuple(field.get("enum", ())) if named is None else tuple(one.get("const") for one in named)


def read_form(schema: JsonObject, given: object) -> JsonObject | str:
    fields = fields_of(schema)
    if not isinstance(given, Mapping):
        return f"this is a form: expected an object with {_described(fields)}; got {_shown(given)}"
    size = too_large(given, max_characters=MAX_ANSWER_CHARACTERS)
    if size is not None:
        return f"the answer has {size}: expected less"
    faults = [f"{_shown(name)} is not a field of this form" for name in given if name not in fields]
    required: Any = schema.get("required", ())
    read: dict[str, Any] = {}
    for name, field in fields.items():
        value = given.get(name)
        if value is None:  # not filled in
            if "default" in field:
                read[name] = _as_counted(field, field["default"])
            elif name in required:
                faults.append(f"{_shown(name)} is missing: expected {_expected(field)}")
            continue
        misfit = _misfit(field, value)
        if misfit is not None:
            faults.append(f"{_shown(name)} is {_shown(value)}: expected {misfit}")
        else:
            read[name] = _as_counted(field, value)
    if faults:
        shown = "; ".join(faults[:10])
        return f"{shown}; the form has {_described(fields)}"
    return frozen_json(read)


def _misfit(field: FormField, value: Any) -> str | None:
    """Return the expected value if a value does not fit its field, otherwise None."""
    choices = choices_of(field)
    kind = field.get("type", "string")
    if kind == "array":
        fits = isinstance(value, list | tuple) and _are_chosen(field, value, choices)
    elif choices:
        fits = isinstance(value, str) and value in choices
    elif kind == "boolean":
        fits = isinstance(value, bool)
    elif kind == "string":
        fits = isinstance(value, str) and _is_long_enough(field, value) and _is_of_format(field, value)
    else:
        fits = (
            _is_number(value) and (kind == "number" or float(value).is_integer()) and _is_within(field, value)
        )
    return None if fits else _expected(field)


def _as_counted(field: FormField, value: Any) -> Any:
    return int(value) if field.get("type") == "integer" else value


def _are_chosen(field: FormField, values: Sequence[Any], choices: tuple[str, ...]) -> bool:
    are_known = all(isinstance(one, str) and one in choices for one in values)
    is_each_once = are_known and len(set(values)) == len(values)
    return is_each_once and bool(
        field.get("minItems", 0) <= len(values) <= field.get("maxItems", len(values))
    )


def _is_long_enough(field: FormField, value: str) -> bool:
    most = field.get("maxLength", len(value))
    return bool(field.get("minLength", 0) <= len(value) <= most)


def _is_within(field: FormField, value: Any) -> bool:
    return bool(field.get("minimum", value) <= value <= field.get("maximum", value))


def _is_of_format(field: FormField, value: str) -> bool:
    match field.get("format"):
        case "email":
            return _EMAIL.fullmatch(value) is not None
        case "uri":
            return _URI.fullmatch(value) is not None
        case "date":
            return _DATE.fullmatch(value) is not None and _is_read(date.fromisoformat, value)
        case "date-time":
            return _DATE.match(value) is not None and "T" in value and _is_read(datetime.fromisoformat, value)
        case _:
            return True


def _is_read(read: Any, value: str) -> bool:
    try:
        read(value)
    except ValueError:
        return False
    return True


# --- words


def describe_field(name: str, field: FormField) -> str:
    """Return a description of a field for the user: its name, and its accepted values."""
    return f"{name} ({_expected(field)})"


def _described(fields: Mapping[str, FormField]) -> str:
    return ", ".join(describe_field(name, field) for name, field in fields.items())[:2_000]


def _expected(field: FormField) -> str:
    choices = choices_of(field)
    if choices:
        shown = ", ".join(map(repr, choices[:10])) + (" …" if len(choices) > 10 else "")  # noqa: PLR2004 - as many as are shown
        counted = " ".join(("a list", *_bounds(field, "minItems", "maxItems")))
        return f"{counted} of {shown}" if field.get("type") == "array" else f"one of {shown}"
    match field.get("type", "string"):
        case "boolean":
            return "true or false"
        case "string":
            what = _FORMATS.get(field.get("format", ""), "a text")
            return " ".join((what, *_bounds(field, "minLength", "maxLength", " characters")))
        case kind:
            what = "a whole number" if kind == "integer" else "a number"
            return " ".join((what, *_bounds(field, "minimum", "maximum")))


def _bounds(field: FormField, least: str, most: str, unit: str = "") -> Iterator[str]:
    if least in field and most in field:
        yield f"from {field[least]} to {field[most]}{unit}"
    elif least in field:
        yield f"from {field[least]}{unit}"
    elif most in field:
        yield f"up to {field[most]}{unit}"


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return is_one and -_LARGEST <= value <= _LARGEST  # type: ignore[operator]  # it is a number, and NaN is not between


def _shown(value: object) -> str:
    if isinstance(value, Mapping | list | tuple):
        return "an object" if isinstance(value, Mapping) else "a list"
    if isinstance(value, int) and abs(value) > _LARGEST:  # Python refuses to print numbers of many digits
        return "a number that is not finite"
    return f"{value!r:.100}"


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name)[:60] for name in names[:10])
