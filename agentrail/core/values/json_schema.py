"""JSON Schema, draft 2020-12: what is wrong with a value. Used for arguments and for answers.

No schema is ever fetched: validators get an empty registry, because jsonschema would otherwise load a `$ref` to another
document from the network. And whatever schema and value are, a judgement ends soon: see `bounded_schema`.
"""

from typing import Any, Final

from jsonschema.exceptions import ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

from agentrail.core.values.bounded_schema import (
    BoundedValidator,
    TooMuchWork,
    ValidationBudget,
    count_parts,
    name_patterns_of,
)
from agentrail.core.values.plain_schema import quick_check
from agentrail.core.values.schema_faults import MAX_FAULT_CHARACTERS, fault_of_schema
from agentrail.messages import JsonObject

__all__ = ["MAX_FAULTS", "CompiledSchema", "fault_of_schema"]

MAX_FAULTS: Final = 10

_MAX_COUNTED: Final = 100
_EMPTY: Final[Registry[Any]] = Registry()
_CANNOT_BE_JUDGED: Final = (
    *(Unresolvable, OverflowError, RecursionError, ValueError),
    *(LookupError, TypeError, AttributeError, ZeroDivisionError),
)
"""A reference to nowhere, a number that no float holds, a schema or a value without an end."""


class CompiledSchema:
    """A schema that is ready to judge values. To be kept: compiling costs a hundred times what judging costs."""

    __slots__ = ("_is_plainly_fine", "_name_patterns", "_parts", "_schema")

    def __init__(self, schema: JsonObject) -> None:
        """Compile a schema that `fault_of_schema` has nothing against."""
        # Its dialect is known, and naming it would make jsonschema leave our validator for its own.
        self._schema = {name: value for name, value in schema.items() if name != "$schema"}
        self._name_patterns = name_patterns_of(schema)
        self._parts = count_parts(schema)
        self._is_plainly_fine = quick_check(schema)

    def faults(self, value: object) -> tuple[str, ...]:
        """Say what is wrong with a value, at most ten sentences, each with its path; nothing when all is well."""
        if self._is_plainly_fine is not None and self._is_plainly_fine(value):
            return ()
        work = ValidationBudget(patterns=self._name_patterns, schema_parts=self._parts)
        errors: list[ValidationError] = []
        further = 0
        try:
            validator = BoundedValidator(self._schema, registry=_EMPTY, format_checker=work)
            for error in validator.iter_errors(value):
                if len(errors) < MAX_FAULTS:
                    errors.append(error)
                else:
                    further += 1
                if further == _MAX_COUNTED:
                    break
        except TooMuchWork:
            if not errors:
                return ("$: takes more work to judge than one call may: send less, and simpler values",)
            further = _MAX_COUNTED
        except _CANNOT_BE_JUDGED as error:
            # Refused, since what cannot be judged may not run.
            return (f"$: cannot be judged ({type(error).__name__}): send less, and simpler values",)
        sentences = [_sentence(error) for error in sorted(errors, key=_place_of)]
        if further:
            sentences.append(f"and {further} more" if further < _MAX_COUNTED else "and more")
        return tuple(sentences)


def _sentence(error: ValidationError) -> str:
    if error.validator == "required":
        name = error.message.removesuffix(" is a required property").strip("'\"")
        return f"{error.json_path}.{name} is required"
    return f"{error.json_path}: {error.message[:MAX_FAULT_CHARACTERS]}"


def _place_of(error: ValidationError) -> list[str]:
    return [str(step) for step in error.absolute_path]
