"""JSON has one number type, Python and msgspec have two: 3.0 is the integer 3."""

from collections.abc import Mapping

from agentrail.messages import JsonValue


def with_whole_numbers(value: JsonValue) -> JsonValue:
    """Make 3.0 the integer 3, all the way down. A float that is asked for is still a float."""
    # Before the match, whose check for mappings costs ten times as much.
    if type(value) is str or type(value) is int:
        return value
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [with_whole_numbers(item) for item in value]
        case dict() | Mapping():
            return {key: with_whole_numbers(item) for key, item in value.items()}
        case _:
            return value
