"""JSON Schema of Python types, and conversion of values in both directions: for tool parameters, and for answers of a given type.

`typed` turns a type into a `TypedValue` with its schema, `decode` from JSON and `encode` to JSON. It supports
msgspec Structs, attrs classes, dataclasses, `TypedDict`s and `NamedTuple`s, unions of them, builtins and
containers. It also supports pydantic models if the application has imported pydantic, which is never imported
here. `described_names` reads descriptions of parameters and attributes from a docstring.

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
    agentrail.typed.validation_errors.OutputFault: $.people: expected `int`, got `str`

This package knows nothing of tools or sessions.
"""

from agentrail.typed.docstrings import described_names as described_names, described_whole as described_whole
from agentrail.typed.pydantic_models import is_model as is_model
from agentrail.typed.schema_nodes import Definitions as Definitions
from agentrail.typed.validation_errors import OutputFault as OutputFault, type_name as type_name
from agentrail.typed.value import (
    TypedValue as TypedValue,
    typed as typed,
    with_whole_numbers as with_whole_numbers,
)
