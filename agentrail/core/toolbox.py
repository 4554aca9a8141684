"""What a session knows of its tools: names, schemas, and whether arguments are as the schema says.

A `ToolSpec` is the pure half of a tool; the half that does something stays with the runner. Nothing that executes
enters this file, and no schema is ever fetched: validators get an empty registry, because jsonschema would otherwise
load a `$ref` to another document from the network.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from attrs import field, frozen
from jsonschema import Draft202012Validator, SchemaError
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from agentrail.core.plain_schema import Check, quick_check
from agentrail.errors import ToolDefinitionError
from agentrail.messages import CallId, JsonObject, JsonValue, ToolCall

EffectClass: TypeAlias = Literal["pure", "idempotent", "reconcilable", "once"]
"""What a tool promises about being run twice; see docs/explanation/tools.md."""

MAX_FAULTS: Final = 10
MAX_FAULT_CHARACTERS: Final = 500
MAX_ARGUMENTS_BYTES: Final = 1 << 20

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
"""Half of a character, escaped or bare: no wire takes it, so it becomes U+FFFD where its other half is missing."""

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


@frozen(kw_only=True)
class ToolSpec:
    """One tool, as the model is told of it and as the core judges its calls.

    Attributes:
        name: `[A-Za-z0-9_-]{1,64}`, unique in a session.
        description: What the model reads.
        parameters: JSON Schema, draft 2020-12, of an object.
        killable: Whether a steer or a default abort stops it.
        effect_class: What it promises about being run twice.
        timeout_seconds: Per attempt; None for the session's own. Of a question: how long it waits.
        max_retries: How often a call that raised is made again; None for what its effect class and the session say.
        polling: Whether repeats are its nature, so that nobody looks for loops.
        answered_by: What gives the result: its code, or the user, whom the call is a question to.
    """

    name: str
    description: str
    parameters: JsonObject
    killable: bool = True
    effect_class: EffectClass = "once"
    timeout_seconds: float | None = None
    max_retries: int | None = None
    polling: bool = False
    answered_by: Literal["code", "user"] = "code"
    _validator: Any = field(default=None, init=False, eq=False, repr=False)

    def faults(self, arguments: JsonObject) -> tuple[str, ...]:
        """Say what is wrong with the arguments, at most ten sentences, each with its path; nothing when all is well."""
        validator, is_plainly_fine = self._compiled()
        if is_plainly_fine is not None and is_plainly_fine(arguments):
            return ()
        try:
            if validator.is_valid(arguments):
                return ()
            errors = sorted(validator.iter_errors(arguments), key=_place_of)
        except (Unresolvable, OverflowError, RecursionError) as error:
            # A reference to nowhere, a number that no float holds, a schema or a value without an end: refused, since
            # what cannot be judged may not run.
            return (f"$: cannot be judged ({type(error).__name__}): send less, and simpler values",)
        sentences = [_sentence(error) for error in errors[:MAX_FAULTS]]
        if len(errors) > MAX_FAULTS:
            sentences.append(f"and {len(errors) - MAX_FAULTS} more")
        return tuple(sentences)

    def with_defaults(self, arguments: JsonObject) -> JsonObject:
        """Fill in the schema's defaults for properties that are missing; the given arguments are not touched."""
        properties = self.parameters.get("properties")
        if not isinstance(properties, Mapping):
            return arguments
        missing = {
            name: schema["default"]
            for name, schema in properties.items()
            if name not in arguments and isinstance(schema, Mapping) and "default" in schema
        }
        return {**arguments, **missing} if missing else arguments

    def check(self) -> None:
        """Refuse a tool that no model can be told of: a bad name, no description, a schema that is none.

        Raises:
            ToolDefinitionError: The tool author's move; of a schema the message has the path of the fault.
        """
        if not _NAME.fullmatch(self.name):
            message = f"a tool is named {self.name!r}: expected 1 to 64 of A-Z a-z 0-9 _ -"
            raise ToolDefinitionError(message)
        if not self.description.strip():
            message = f"tool {self.name!r} has no description: say what it does, the model chooses by that"
            raise ToolDefinitionError(message)
        seconds = self.timeout_seconds
        if seconds is not None and not 0 < seconds < math.inf:
            message = f"tool {self.name!r} has timeout_seconds {seconds!r}: expected a finite number above 0, or None"
            raise ToolDefinitionError(message)
        if self.parameters.get("type") != "object":
            message = f"the schema of tool {self.name!r} has type {self.parameters.get('type')!r}, expected 'object'"
            raise ToolDefinitionError(message)
        schema = dict(self.parameters)
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            message = (
                f"the schema of tool {self.name!r} is not draft 2020-12 at {error.json_path}: {error.message}"
            )
            raise ToolDefinitionError(message) from None
        resolver = _EMPTY.resolver_with_root(DRAFT202012.create_resource(schema))
        for reference in _references(schema):
            try:
                resolver.lookup(reference)
            except Unresolvable:
                message = (
                    f"the schema of tool {self.name!r} refers to {reference!r}: inline it, nothing is fetched"
                )
                raise ToolDefinitionError(message) from None

    def _compiled(self) -> tuple[Draft202012Validator, Check | None]:
        if self._validator is None:
            # A memo, like the encoded form of a message: compiling costs a hundred times what judging costs.
            validator = _Validator(dict(self.parameters), registry=_EMPTY)
            object.__setattr__(self, "_validator", (validator, quick_check(self.parameters)))
        return self._validator  # type: ignore[no-any-return]  # Any, because attrs would make it part of the value


class Toolbox:
    """The tools of a session, sorted by name, so that attaching in another order changes no byte of a request."""

    __slots__ = ("_by_name", "_generations", "encoded", "generation", "specs")

    def __init__(
        self,
        specs: Iterable[ToolSpec] = (),
        generations: Mapping[str, int] = MappingProxyType({}),
        generation: int = 0,
    ) -> None:
        """Take specs in any order.

        Args:
            specs: The tools.
            generations: The change of the session's tools that brought a tool, by name; 0 for those of the start.
            generation: The last change.

        Raises:
            ToolDefinitionError: Your move: two tools of one name.
        """
        self._generations = generations
        self.generation = generation
        """Which change of a session's tools made this box; 0: none."""
        self.specs = tuple(sorted(specs, key=lambda spec: spec.name))
        self._by_name = {spec.name: spec for spec in self.specs}
        if len(self._by_name) != len(self.specs):
            names = [spec.name for spec in self.specs]
            double = sorted({name for name in names if names.count(name) > 1})
            message = f"two tools are named {', '.join(map(repr, double))}: names are unique in a session"
            raise ToolDefinitionError(message)
        self.encoded: dict[str, bytes] = {}
        """The list in each wire format that asked for it; a memo that belongs to the providers."""

    def get(self, name: str) -> ToolSpec | None:
        """Look a tool up by the name that the model wrote."""
        return self._by_name.get(name)

    def generation_of(self, name: str) -> int:
        """Say which change brought the tool of a name; tells it from others that had the name before."""
        return self._generations.get(name, 0)

    def changed(
        self, attach: Iterable[ToolSpec], detach: Iterable[str], generation: int, *, replace: bool
    ) -> "Toolbox":
        """Return a box with other tools.

        Args:
            attach: New ones; one of a name that is there takes its place.
            detach: Names that go; a name among those that are attached too stays.
            generation: Of the new ones.
            replace: Whether only the new ones stay.
        """
        new = {spec.name: spec for spec in attach}
        gone = set(self._by_name) if replace else set(detach)
        kept = [spec for spec in self.specs if spec.name not in gone and spec.name not in new]
        generations = {spec.name: self.generation_of(spec.name) for spec in kept}
        return Toolbox([*kept, *new.values()], generations | dict.fromkeys(new, generation), generation)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(self._by_name)

    def __iter__(self) -> Iterator[ToolSpec]:
        """Give the specs by name."""
        return iter(self.specs)

    def __len__(self) -> int:
        """Count them."""
        return len(self.specs)

    def __eq__(self, other: object) -> bool:
        """Two boxes are equal when they hold equal specs, from the same changes."""
        return (
            isinstance(other, Toolbox)
            and self.specs == other.specs
            and all(self.generation_of(name) == other.generation_of(name) for name in self.names)
        )

    def __hash__(self) -> int:
        """Hash by names: schemas are mappings and have no hash."""
        return hash(tuple(self._by_name))

    def __repr__(self) -> str:
        """Show the names."""
        return f"Toolbox({', '.join(self._by_name)})"


def parse_arguments(text: str) -> JsonObject | str:
    """Read the arguments that a model wrote.

    Args:
        text: What came. The empty string counts as `{}`; nothing else is ever turned into `{}`.

    Returns:
        The object, or a sentence for the model that says what is wrong and near which words.
    """
    if not text:
        return {}
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_ARGUMENTS_BYTES:
        return f"Malformed arguments: {size} bytes, at most {MAX_ARGUMENTS_BYTES} are taken. Send less in one call."
    try:
        value: JsonValue = _DECODER.decode(text)
        if _SURROGATE.search(text):
            value = _without_surrogates(value)
    except json.JSONDecodeError as error:
        near = text[max(0, error.pos - 20) : error.pos + 20].replace("\n", " ")
        return f"Malformed arguments: {error.msg} at line {error.lineno} column {error.colno}, near: …{near}…"
    except (ValueError, RecursionError) as error:
        return f"Malformed arguments: {error}."
    if not isinstance(value, dict):
        return f"Malformed arguments: expected a JSON object, got {_kind(value)}."
    return value


def read_call(call_id: str, name: str, text: str) -> ToolCall:
    """Make a call of what a vendor sent.

    Args:
        call_id: The vendor's id of the call.
        name: The tool, as the model wrote it.
        text: The arguments, as the model wrote them. What is no JSON object is kept as text.
    """
    parsed = parse_arguments(text)
    if isinstance(parsed, str):
        return ToolCall(call_id=CallId(call_id), name=name, arguments=None, malformed=text)
    return ToolCall(call_id=CallId(call_id), name=name, arguments=parsed)


def _refuse_constant(name: str) -> JsonValue:
    message = f"{name} is not JSON"
    raise ValueError(message)


def _without_surrogates(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [_without_surrogates(item) for item in value]
        case dict():
            return {str(_without_surrogates(name)): _without_surrogates(item) for name, item in value.items()}
        case _:
            return value


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        message = f"{digits[:20]} is too large for a number"
        raise ValueError(message)
    return value


def _kind(value: JsonValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "a number"


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


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
"""Kept, because `json.loads` with these makes one per call."""
