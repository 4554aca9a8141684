"""A session's view of its tools: names, schemas, and the validation of arguments.

A `ToolSpec` is the pure half of a tool.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal, NoReturn, TypeAlias

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
from agentrail.otp.child_specs import is_seconds
from agentrail.otp.guarded_calls import show
from agentrail.structs import Value, always_encoded

EffectClass: TypeAlias = Literal["pure", "idempotent", "reconcilable", "once"]
"""Whether a tool is safe to run twice. See docs/explanation/tools.md."""

MAX_ARGUMENTS_BYTES: Final = 1 << 20

FROM_SOURCE: Final = "@"
"""Beginning of the origin of a source's tools. No module has such a name."""

_set: Final = object.__setattr__  # for `Toolbox`, whose attributes no other code sets

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class _Memoized:
    """A slot next to the fields of a Struct: not part of the value, so it is not compared, copied, encoded or decoded."""

    __slots__ = ("_validator",)
    _validator: CompiledSchema


class ToolSpec(_Memoized, Value, frozen=True, kw_only=True, omit_defaults=True):
    """One tool, as described to the model and as used by the core to judge its calls.

    Attributes:
        name: `[A-Za-z0-9_-]{1,64}`, unique in a session.
        description: The text that the model reads.
        parameters: JSON Schema, draft 2020-12, of an object. Frozen: the tool keeps its own copy.
        killable: Whether a steer or a default abort stops it.
        effect_class: Whether it is safe to run twice.
        timeout_seconds: Per attempt. None for the session's own. For a question: how long it waits.
        max_retries: How often a call that raised is retried. None for the rule of its effect class and the session.
        polling: Whether it is meant to be repeated, and is not checked for loops.
        answered_by: The source of its result: its code, the user (the call is a question), a child session, the
            client, which has the code, or the session itself.
        origin: For a tool that was added to a running session and is kept: where its code is found again,
            `package.module:NAME`. For a tool of a source: the source and a digest of the tool's text. Empty for all others, which are
            supplied again when the session is restored.
    """

    name: str
    description: str
    parameters: JsonObject
    # `origin` came later, and is omitted if empty.
    killable: bool = always_encoded(True)
    effect_class: EffectClass = always_encoded("once")
    timeout_seconds: float | None = always_encoded(None)
    max_retries: int | None = always_encoded(None)
    polling: bool = always_encoded(False)
    answered_by: Literal["code", "user", "child", "client", "machine"] = always_encoded("code")
    origin: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "parameters", frozen_json(self.parameters))

    @property
    def shown_text(self) -> str:
        """The origin of a source's tool, which differs if the source changes the tool. Empty for all other tools."""
        return self.origin if self.origin.startswith(FROM_SOURCE) else ""

    def faults(self, arguments: JsonObject) -> tuple[str, ...]:
        """Return the faults of arguments, at most ten sentences, each with its path. Empty for valid ones."""
        validator = getattr(self, "_validator", None)
        if validator is None:
            validator = CompiledSchema(self.parameters)
            force_setattr(self, "_validator", validator)
        return validator.faults(arguments)

    def with_defaults(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments with the schema's defaults for missing properties, frozen. Given values are not changed."""
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
        """Refuse a tool that cannot be described to a model: a bad name, no description, an invalid schema."""
        if not _NAME.fullmatch(self.name):
            message = f"a tool is named {self.name!r}: expected 1 to 64 of A-Z a-z 0-9 _ -"
            raise ToolDefinitionError(message)
        if not self.description.strip():
            message = f"tool {self.name!r} has no description: describe what it does, so that the model can choose it"
            raise ToolDefinitionError(message)
        seconds = self.timeout_seconds
        if seconds is not None and not is_seconds(seconds, above_zero=True):
            message = f"tool {self.name!r} has timeout_seconds {show(seconds)}: expected a finite number above 0, or None"
            raise ToolDefinitionError(message)
        if self.parameters.get("type") != "object":
            message = f"the schema of tool {self.name!r} has type {self.parameters.get('type')!r}, expected 'object'"
            raise ToolDefinitionError(message)
        fault = fault_of_schema(self.parameters)
        if fault is not None:
            message = f"the schema of tool {self.name!r} {fault}"
            raise ToolDefinitionError(message)


class Toolbox:
    """The tools of a session, sorted by name, so that the order of attaching changes no byte of a request."""

    __slots__ = ("_by_name", "_encoded", "_generations", "_less", "_more", "_size", "generation", "specs")

    specs: tuple[ToolSpec, ...]
    generation: int
    """The number of the change that made this box. 0: none."""

    _by_name: Mapping[str, ToolSpec]
    _encoded: tuple[tuple[str, bytes], ...]
    _generations: Mapping[str, int]
    _less: "tuple[tuple[str, ...], Toolbox] | None"
    _more: "tuple[tuple[ToolSpec, ...], Toolbox] | None"
    _size: tuple[str | None, int] | None

    def __init__(
        self,
        specs: Iterable[ToolSpec] = (),
        generations: Mapping[str, int] = MappingProxyType({}),
        generation: int = 0,
    ) -> None:
        """Create a box from specs in any order.

        Args:
            specs: The tools.
            generations: The number of the change that added a tool, by name. 0 for the initial ones.
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
        _set(self, "_more", None)
        _set(self, "_encoded", ())

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuse: sessions share a box, and providers use it."""
        _refuse_change(name)

    def __delattr__(self, name: str) -> NoReturn:
        _refuse_change(name)

    def encoded(self, wire: str, encode: "Callable[[Toolbox], bytes]") -> bytes:
        """Return the list in a wire format. It is encoded at most once per format.

        Args:
            wire: The name of the format.
            encode: Returns the bytes. A pure function of the box.
        """
        for name, form in self._encoded:
            if name == wire:
                return form
        made = encode(self)
        _set(self, "_encoded", (*self._encoded, (wire, made)))
        return made

    def get(self, name: str) -> ToolSpec | None:
        """Return a tool by the name that the model wrote, or None."""
        return self._by_name.get(name)

    def size_with(self, system: str | None, measure: "Callable[[str | None, Toolbox], int]") -> int:
        """Return the size of the list with a system prompt before it. Cached, since both seldom change.

        Args:
            system: The prompt.
            measure: Returns the size. A pure function of both.
        """
        known = self._size
        if known is None or known[0] != system:
            known = (system, measure(system, self))
            _set(self, "_size", known)
        return known[1]

    def generation_of(self, name: str) -> int:
        """Return the number of the change that added a tool, which distinguishes it from earlier tools of that name."""
        return self._generations.get(name, 0)

    def changed(
        self, attach: Iterable[ToolSpec], detach: Iterable[str], generation: int, *, replace: bool
    ) -> "Toolbox":
        """Return a box with other tools.

        Args:
            attach: New ones. One with a known name replaces the tool of that name.
            detach: Names to remove. A name that is also attached stays.
            generation: Number of this change, for the new ones.
            replace: Whether only the new ones stay.
        """
        new = {spec.name: spec for spec in attach}
        gone = set(self._by_name) if replace else set(detach)
        kept = [spec for spec in self.specs if spec.name not in gone and spec.name not in new]
        generations = {spec.name: self.generation_of(spec.name) for spec in kept}
        return Toolbox([*kept, *new.values()], generations | dict.fromkeys(new, generation), generation)

    def handed_over(self, tools: "Toolbox", generation: int) -> "Toolbox":
        """Return a box with the tools of another agent, and with those of these tools that sessions answer.

        Args:
            tools: The tools of the agent.
            generation: The generation number to keep them under.
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
        """Return a box without some tools. The same names return the same box, so that it is encoded once.

        Args:
            names: Names to remove. Unknown ones are ignored.
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

    def joined(self, specs: tuple[ToolSpec, ...]) -> "Toolbox":
        """Return a box with further tools. The same specs return the same box, so that it is encoded once.

        Args:
            specs: The tools to add. One with a known name is ignored.
        """
        if not specs:
            return self
        known = self._more
        if known is None or known[0] is not specs:
            new = [spec for spec in specs if spec.name not in self._by_name]
            known = (specs, Toolbox([*self.specs, *new], self._generations, self.generation))
            _set(self, "_more", known)
        return known[1]

    def described(self, anew: Iterable[ToolSpec]) -> "Toolbox":
        """Return a box with the same tools, some of them with new descriptions. Unknown ones are ignored."""
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
        return iter(self.specs)

    def __len__(self) -> int:
        return len(self.specs)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Toolbox)
            and self.specs == other.specs
            and all(self.generation_of(name) == other.generation_of(name) for name in self.names)
        )

    def __hash__(self) -> int:
        """Hash by names: schemas are mappings and have no hash."""
        return hash(tuple(self._by_name))

    def __repr__(self) -> str:
        return f"Toolbox({', '.join(self._by_name)})"


def _refuse_change(name: str) -> NoReturn:
    message = f"a Toolbox is immutable, and so is its {name!r}: create a new one with `changed`"
    raise AttributeError(message)


def parse_arguments(text: str) -> JsonObject | str:
    """Decode the arguments that a model wrote. Return the fault as a text if they are invalid."""
    if not text:
        return EMPTY
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_ARGUMENTS_BYTES:
        return f"Malformed arguments: {size} bytes, at most {MAX_ARGUMENTS_BYTES} are allowed. Send less in one call."
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
    parsed = parse_arguments(text)
    if isinstance(parsed, str):
        return ToolCall(call_id=CallId(call_id), name=name, arguments=None, malformed=text)
    return ToolCall(call_id=CallId(call_id), name=name, arguments=parsed)
