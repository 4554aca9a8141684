"""What a session knows of its tools: names, schemas, and whether arguments are as the schema says.

A `ToolSpec` is the pure half of a tool; the half that does something stays with the runner. Nothing that executes
enters this file.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal, NoReturn, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from agentrail.core.values.json_schema import (
    CompiledSchema,
    NotJson,
    decode_strictly,
    fault_of_schema,
    json_kind_of,
)
from agentrail.errors import ToolDefinitionError
from agentrail.frozen import EMPTY, FrozenDict, TooDeep, frozen_json
from agentrail.messages import CallId, JsonObject, ToolCall
from agentrail.structs import Value

EffectClass: TypeAlias = Literal["pure", "idempotent", "reconcilable", "once"]
"""What a tool promises about being run twice; see docs/explanation/tools.md."""

MAX_ARGUMENTS_BYTES: Final = 1 << 20

_set: Final = object.__setattr__  # for `Toolbox`, whose attributes no other code sets

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class _Memoized:
    """A place beside the fields of a Struct: no part of the value, so it is not compared, copied, written or read."""

    __slots__ = ("_validator",)
    _validator: CompiledSchema


def _yes() -> bool:
    return True


def _once() -> EffectClass:
    return "once"


def _unset() -> None:
    return None


def _code() -> Literal["code"]:
    return "code"


class ToolSpec(_Memoized, Value, frozen=True, kw_only=True, omit_defaults=True):
    """One tool, as the model is told of it and as the core judges its calls.

    Attributes:
        name: `[A-Za-z0-9_-]{1,64}`, unique in a session.
        description: What the model reads.
        parameters: JSON Schema, draft 2020-12, of an object; frozen, so the tool may go on with its own.
        killable: Whether a steer or a default abort stops it.
        effect_class: What it promises about being run twice.
        timeout_seconds: Per attempt; None for the session's own. Of a question: how long it waits.
        max_retries: How often a call that raised is made again; None for what its effect class and the session say.
        polling: Whether repeats are its nature, so that no loops are looked for.
        answered_by: What gives the result: its code; the user, whom the call is a question to; a session of its own; the
            client, who has the code; or the session that calls it, of what it knows.
        origin: Of one that came while the session ran and is kept: where its code is found again, `package.module:NAME`. Empty of
            all others, which are given again by who brings the session back.
    """

    name: str
    description: str
    parameters: JsonObject
    # `origin` came later, and is left out where there is none; the defaults of the others are made, so they are always written.
    killable: bool = msgspec.field(default_factory=_yes)
    effect_class: EffectClass = msgspec.field(default_factory=_once)
    timeout_seconds: float | None = msgspec.field(default_factory=_unset)
    max_retries: int | None = msgspec.field(default_factory=_unset)
    polling: bool = msgspec.field(default_factory=bool)
    answered_by: Literal["code", "user", "child", "client", "machine"] = msgspec.field(default_factory=_code)
    origin: str = ""

    def __post_init__(self) -> None:
        """Freeze the schema: the tool goes on with its own."""
        force_setattr(self, "parameters", frozen_json(self.parameters))

    def faults(self, arguments: JsonObject) -> tuple[str, ...]:
        """Say what is wrong with the arguments, at most ten sentences, each with its path; nothing when all is well."""
        validator = getattr(self, "_validator", None)
        if validator is None:
            validator = CompiledSchema(self.parameters)
            force_setattr(self, "_validator", validator)
        return validator.faults(arguments)

    def with_defaults(self, arguments: JsonObject) -> JsonObject:
        """Fill in the schema's defaults for properties that are missing, and freeze it all; what was given is not touched."""
        properties = self.parameters.get("properties")
        if type(properties) is not FrozenDict and not isinstance(properties, Mapping):
            return frozen_json(arguments)
        missing = {
            name: schema["default"]
            for name, schema in properties.items()
            if name not in arguments and isinstance(schema, Mapping) and "default" in schema
        }
        return frozen_json({**arguments, **missing} if missing else arguments)

    def check(self) -> None:
        """Refuse a tool that no model can be told of: a bad name, no description, a schema that is none."""
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
        fault = fault_of_schema(self.parameters)
        if fault is not None:
            message = f"the schema of tool {self.name!r} {fault}"
            raise ToolDefinitionError(message)


class Toolbox:
    """The tools of a session, sorted by name, so that attaching in another order changes no byte of a request."""

    __slots__ = ("_by_name", "_encoded", "_generations", "_less", "_size", "generation", "specs")

    specs: tuple[ToolSpec, ...]
    generation: int
    """Which change of a session's tools made this box; 0: none."""

    _by_name: Mapping[str, ToolSpec]
    _encoded: tuple[tuple[str, bytes], ...]
    _generations: Mapping[str, int]
    _less: "tuple[tuple[str, ...], Toolbox] | None"
    _size: tuple[str | None, int] | None

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
        ordered = tuple(sorted(specs, key=lambda spec: spec.name))
        _set(self, "_generations", generations)
        _set(self, "generation", generation)
        _set(self, "specs", ordered)
        _set(self, "_by_name", {spec.name: spec for spec in ordered})
        if len(self._by_name) != len(self.specs):
            names = [spec.name for spec in self.specs]
            double = sorted({name for name in names if names.count(name) > 1})
            message = f"two tools are named {', '.join(map(repr, double))}: names are unique in a session"
            raise ToolDefinitionError(message)
        _set(self, "_size", None)
        _set(self, "_less", None)
        _set(self, "_encoded", ())

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuse: sessions share a box, and providers are given it."""
        _refuse_change(name)

    def __delattr__(self, name: str) -> NoReturn:
        """Refuse, as setting does."""
        _refuse_change(name)

    def encoded(self, wire: str, encode: "Callable[[Toolbox], bytes]") -> bytes:
        """Return the list in a wire format, encoding it at most once per format in its life.

        Args:
            wire: The name of the format.
            encode: Makes the bytes; a pure function of the box.
        """
        for name, form in self._encoded:
            if name == wire:
                return form
        made = encode(self)
        _set(self, "_encoded", (*self._encoded, (wire, made)))
        return made

    def get(self, name: str) -> ToolSpec | None:
        """Look a tool up by the name that the model wrote."""
        return self._by_name.get(name)

    def size_with(self, system: str | None, measure: "Callable[[str | None, Toolbox], int]") -> int:
        """Give the size of the list with a system prompt before it; a memo, since both seldom change.

        Args:
            system: The prompt.
            measure: Makes the size; a pure function of both.
        """
        known = self._size
        if known is None or known[0] != system:
            known = (system, measure(system, self))
            _set(self, "_size", known)
        return known[1]

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

    def handed_over(self, tools: "Toolbox", generation: int) -> "Toolbox":
        """Return a box with the tools of another agent, and of these the ones that no code of a caller's answers.

        Args:
            tools: Those of the agent.
            generation: Under which they are kept.
        """
        kept = [
            spec
            for spec in self.specs
            if spec.answered_by in {"machine", "child"} and spec.name not in tools.names
        ]
        brought_by = {spec.name: self.generation_of(spec.name) for spec in kept}
        return Toolbox(
            [*kept, *tools.specs], brought_by | dict.fromkeys(tools.names, generation), self.generation
        )

    def without(self, names: tuple[str, ...]) -> "Toolbox":
        """Return a box without some tools: the same one each time as long as they are the same, so that it is encoded once.

        Args:
            names: Those that go; a name that is not there is none.
        """
        if not names:
            return self
        known = self._less
        if known is None or known[0] != names:
            left = Toolbox(
                [spec for spec in self.specs if spec.name not in names], self._generations, self.generation
            )
            known = (names, left)
            _set(self, "_less", known)
        return known[1]

    def described(self, anew: Iterable[ToolSpec]) -> "Toolbox":
        """Return a box with the same tools, some of which say something else of themselves; others are left out."""
        by_name = {spec.name: spec for spec in anew}
        specs = [by_name.get(spec.name, spec) for spec in self.specs]
        if specs == list(self.specs):
            return self
        return Toolbox(specs, self._generations, self.generation)

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


def _refuse_change(name: str) -> NoReturn:
    message = f"a Toolbox cannot be changed, nor its {name!r}: make a new one with `changed`"
    raise AttributeError(message)


def parse_arguments(text: str) -> JsonObject | str:
    """Read the arguments that a model wrote."""
    if not text:
        return EMPTY
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_ARGUMENTS_BYTES:
        return f"Malformed arguments: {size} bytes, at most {MAX_ARGUMENTS_BYTES} are taken. Send less in one call."
    try:
        value = decode_strictly(text)
    except NotJson as error:
        return f"Malformed arguments: {error}"
    if not isinstance(value, dict):
        return f"Malformed arguments: expected a JSON object, got {json_kind_of(value)}."
    try:
        return frozen_json(value)
    except TooDeep as error:
        return f"Malformed arguments: {error}. Send simpler values."


def read_call(call_id: str, name: str, text: str) -> ToolCall:
    """Make a call of what a vendor sent."""
    parsed = parse_arguments(text)
    if isinstance(parsed, str):
        return ToolCall(call_id=CallId(call_id), name=name, arguments=None, malformed=text)
    return ToolCall(call_id=CallId(call_id), name=name, arguments=parsed)
