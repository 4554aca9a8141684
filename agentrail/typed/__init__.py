"""Python types as JSON Schema, and values both ways: for the parameters of tools, and for answers of a given type.

`typed` makes of a type a `TypedValue`: its schema, `decode` from JSON, `encode` to JSON. It knows msgspec Structs, attrs
classes, dataclasses, `TypedDict`s and `NamedTuple`s, unions of them, builtins and containers, and pydantic's models where the
application has imported pydantic; it is never imported here. `described_names` reads what a docstring says of parameters
and attributes.

    >>> from dataclasses import dataclass
    >>> from agentrail.typed import OutputFault, typed
    >>> @dataclass
    ... class City:
    ...     name: str
    ...     people: int
    >>> city = typed(City)
    >>> city.decode_text('{"name": "Lisbon", "people": 545000}')
    City(name='Lisbon', people=545000)
    >>> city.schema["required"]
    ['name', 'people']
    >>> city.decode({"name": "Lisbon", "people": "many"})
    Traceback (most recent call last):
    agentrail.typed.faults.OutputFault: $.people: expected `int`, got `str`

No tool and no session enters this room.
"""

from agentrail.typed.docstrings import described_names as described_names, described_whole as described_whole
from agentrail.typed.faults import OutputFault as OutputFault, type_name as type_name
from agentrail.typed.models import is_model as is_model
from agentrail.typed.nodes import Definitions as Definitions
from agentrail.typed.value import (
    TypedValue as TypedValue,
    typed as typed,
    with_whole_numbers as with_whole_numbers,
)
