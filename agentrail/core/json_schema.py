"""JSON Schema, draft 2020-12: is this a schema, and what is wrong with a value. Used for arguments and for answers.

No schema is ever fetched: validators get an empty registry, because jsonschema would otherwise load a `$ref` to another
document from the network.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from jsonschema import Draft202012Validator, SchemaError
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from agentrail.core.plain_schema import quick_check
from agentrail.messages import JsonObject

MAX_FAULTS: Final = 10
MAX_FAULT_CHARACTERS: Final = 500

_NO_SCHEMAS: Final = frozenset({"const", "enum", "default", "examples"})
"""Keywords whose values are data: what looks like a reference there is none."""

_EMPTY: Final[Registry[Any]] = Registry()


def _is_integer(_checker: object, value: object) -> bool:
    # JSON has one number type: 3.0 is an integer here, True is none.
    return not isinstance(value, bool) and (
        isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    )


_Validator: Final = extend(  # type: ignore[no-untyped-call]  # its stubs say nothing
    Draft202012Validator, type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer)
)


class CompiledSchema:
    """A schema that is ready to judge values. To be kept: compiling costs a hundred times what judging costs."""

    __slots__ = ("_is_plainly_fine", "_validator")

    def __init__(self, schema: JsonObject) -> None:
        """Compile a schema that `fault_of_schema` has nothing against."""
        self._validator = _Validator(dict(schema), registry=_EMPTY)
        self._is_plainly_fine = quick_check(schema)

    def faults(self, value: object) -> tuple[str, ...]:
        """Say what is wrong with a value, at most ten sentences, each with its path; nothing when all is well."""
        if self._is_plainly_fine is not None and self._is_plainly_fine(value):
            return ()
        try:
            if self._validator.is_valid(value):
                return ()
            errors = sorted(self._validator.iter_errors(value), key=_place_of)
        except (Unresolvable, OverflowError, RecursionError) as error:
            # A reference to nowhere, a number that no float holds, a schema or a value without an end: refused, since
            # what cannot be judged may not run.
            return (f"$: cannot be judged ({type(error).__name__}): send less, and simpler values",)
        sentences = [_sentence(error) for error in errors[:MAX_FAULTS]]
        if len(errors) > MAX_FAULTS:
            sentences.append(f"and {len(errors) - MAX_FAULTS} more")
        return tuple(sentences)


def fault_of_schema(schema: JsonObject) -> str | None:
    """Say why this is no schema that one could judge by: half a sentence, whose subject is the schema; or None."""
    try:
        Draft202012Validator.check_schema(dict(schema))
    except SchemaError as error:
        return f"is not draft 2020-12 at {error.json_path}: {error.message}"
    resolver = _EMPTY.resolver_with_root(DRAFT202012.create_resource(dict(schema)))
    for reference in _references(schema):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            return f"refers to {reference!r}: inline it, nothing is fetched"
    return None


def _sentence(error: ValidationError) -> str:
    if error.validator == "required":
        name = error.message.removesuffix(" is a required property").strip("'\"")
        return f"{error.json_path}.{name} is required"
    return f"{error.json_path}: {error.message[:MAX_FAULT_CHARACTERS]}"


def _place_of(error: ValidationError) -> list[str]:
    return [str(step) for step in error.absolute_path]


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            if key in {"$ref", "$dynamicRef"} and isinstance(value, str):
                yield value
            elif key not in _NO_SCHEMAS:
                yield from _references(value)
    elif isinstance(schema, list | tuple):
        for value in schema:
            yield from _references(value)
