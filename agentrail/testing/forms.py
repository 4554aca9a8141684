"""A form, and what is filled into it, for tests that draw questions and answers."""

from typing import Final

from agentrail.messages import JsonObject

FORM: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "minimum": 0},
        "side": {"enum": ["left", "right"], "default": "left"},
        "sure": {"type": "boolean"},
    },
    "required": ["name"],
}
"""A form with a field of each kind."""
# Filled in well, by half, with what is of another form, and with nothing.
FILLED: Final[tuple[JsonObject, ...]] = (
    {"name": "Ada", "age": 36.0, "sure": True},
    {"age": -1, "side": "up"},
    {"street": "x"},
    {},
)
