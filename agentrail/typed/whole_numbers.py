"""JSON has one number type, Python and msgspec have two: 3.0 is the integer 3."""

from collections.abc import Mapping
from typing import Final

from agentrail.messages import JsonValue

_AS_THEY_ARE: Final[frozenset[type]] = frozenset({str, int, bool, type(None)})


def with_whole_numbers(value: JsonValue) -> JsonValue:
    """Make 3.0 the integer 3, all the way down. A float that is asked for is still a float."""
    if type(value) in _AS_THEY_ARE:  # before the match, whose check for mappings costs ten times as much
        return value
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [with_whole_numbers(item) for item in value]
        case dict() | Mapping():
            # Asked here too, as in `frozen_json`: this is done with the arguments of each call.
            return {
                key: item if type(item) in _AS_THEY_ARE else with_whole_numbers(item)
                for key, item in value.items()
            }
        case _:
            return value
