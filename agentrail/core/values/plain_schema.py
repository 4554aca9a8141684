"""A quick yes for plain schemas.

Most tools take a few strings and numbers, and most models write them well. For schemas of plain keywords this compiles a
check that costs a twentieth of the validator's. It only ever says yes: a caller that hears no, or has a schema of other
keywords, asks the validator, which knows the whole standard and finds the words for what is wrong.
"""

# not compiled: it goes as deep as what it is given, and only interpreted functions end with a RecursionError

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from agentrail.frozen import FrozenDict, FrozenList

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
