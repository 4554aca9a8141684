"""Structured answers: the final text of a cycle is JSON that matches the session's `response_format`.

A vendor's JSON mode helps but is not trusted: the session always validates.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from agentrail.core.values.json_schema import CompiledSchema, NotJson, decode_strictly, fault_of_schema
from agentrail.errors import ErrorInfo
from agentrail.frozen import frozen_json
from agentrail.messages import JsonObject, JsonValue
from agentrail.otp.guarded_calls import repr_of

REPAIR_NOTE: Final = "[Your answer is not of the required format: {faults}. Answer again with the complete JSON document and nothing else.]"

ENVELOPE: Final = "value"
"""Name of the only member of the object around a value that is not always an object. Vendors accept only an object at the top."""

_FENCED: Final = re.compile(
    r"^```(?:json)?[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE | re.IGNORECASE
)
_FENCE_END: Final = re.compile(r"^```[ \t]*$", re.MULTILINE)


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The answer is valid."""

    value: JsonValue


class RepairTurn(msgspec.Struct, frozen=True, gc=False):
    """The model gets a turn to correct its answer."""

    note: str


class Rejected(msgspec.Struct, frozen=True, gc=False):
    """The cycle fails."""

    error: ErrorInfo


AnswerVerdict: TypeAlias = Accepted | RepairTurn | Rejected


class ResponseFormat:
    """The compiled schema of final answers. One is made per session, and equal schemas make equal ones."""

    __slots__ = ("_faults_of", "schema")

    def __init__(self, schema: JsonObject) -> None:
        """Compile a schema in which `fault_of_format` found no fault."""
        self.schema: JsonObject = frozen_json(schema)
        self._faults_of = CompiledSchema(self.schema)

    def check(self, text: str, *, repaired: bool, misfit: str | None = None) -> AnswerVerdict:
        try:
            _, value = _read(text)
        except NotJson as error:
            return self._refusal((f"no JSON: {error}".removesuffix("."),), repaired=repaired)
        if _is_bare(value, self.schema):
            value = {ENVELOPE: value}
        faults = self._faults_of.faults(value)
        # It is more specific: for a union of classes, a schema only reports that none matches.
        if misfit is not None:
            faults = (misfit,)
        return self._refusal(faults, repaired=repaired) if faults else Accepted(value)

    def _refusal(self, faults: tuple[str, ...], *, repaired: bool) -> RepairTurn | Rejected:
        said = "; ".join(faults)
        if not repaired:
            return RepairTurn(REPAIR_NOTE.format(faults=said))
        message = f"the answer does not match response_format, and no turn is left to correct it: {said}"
        return Rejected(ErrorInfo(code="response_format", message=message))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResponseFormat) and self.schema == other.schema

    def __hash__(self) -> int:
        """Hash by the names of the schema's keywords. The rest may not be hashable."""
        return hash(frozenset(self.schema))

    def __repr__(self) -> str:
        return f"ResponseFormat({self.schema!r})"


def fault_of_format(schema: object) -> str | None:
    """Return why a value is not a valid option `response_format`, as a sentence for `OptionError`, or None."""
    if not isinstance(schema, Mapping):
        return f"response_format is {repr_of(schema)}: expected a JSON Schema as a dict, or None"
    fault = fault_of_schema(schema)
    return None if fault is None else f"response_format {fault}"


def enclosed(schema: JsonValue) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {ENVELOPE: schema},
        "required": [ENVELOPE],
        "additionalProperties": False,
    }


def document_in(text: str, schema: JsonObject | None = None) -> str:
    """Return the JSON document of an answer: the whole text, or its one fenced block. If neither is JSON, return the text itself.

    This is the text that was validated. A fence would break every decoder.
    """
    try:
        document, value = _read(text)
    except NotJson:
        return text
    is_bare = schema is not None and _is_bare(value, schema)
    return f'{{"{ENVELOPE}": {document}}}' if is_bare else document


def _is_bare(value: JsonValue, schema: JsonObject) -> bool:
    """Whether a model without native schemas has left out the object around the value."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or properties.keys() != {ENVELOPE}:
        return False
    if any(schema.get(name) != wanted for name, wanted in enclosed(properties[ENVELOPE]).items()):
        return False
    if not isinstance(value, dict):
        return True
    # An object may be the value itself: one of a union of classes.
    judge = CompiledSchema(schema)
    return bool(judge.faults(value)) and not judge.faults({ENVELOPE: value})


def _read(text: str) -> tuple[str, JsonValue]:
    """Find and decode the document: all of the text, otherwise the content of its only fence."""
    whole = text.strip()
    try:
        return whole, decode_strictly(whole)
    except NotJson:
        # Many models use a fence, whatever the prompt. With two blocks it is unclear which one is meant.
        # Up to the last end of a fence: behind it, the search for an end would read all of the rest at each beginning.
        last = max([found.end() for found in _FENCE_END.finditer(text)], default=0)
        blocks: list[str] = _FENCED.findall(text, 0, last)
        if len(blocks) != 1:
            raise
        return blocks[0].strip(), decode_strictly(blocks[0])
