"""Values of a session with a special JSON form: histories, toolboxes, stacks, decisions.

Shared values are written once.
"""

# not compiled: it recurses as deep as its input, and only interpreted functions end with a RecursionError

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar, get_args, get_origin

import msgspec

from agentrail.core.policy.response_format import ResponseFormat, fault_of_format
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.session.open_calls import CallState, OpenCalls
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
from agentrail.core.stack import plugin_state
from agentrail.core.stack.hook_outcome import Decision
from agentrail.core.stack.loaded_stack import (
    Ask,
    Member,
    PluginStates,
    Stack,
    attempt_as,
    call_handler as plainly,
    compile_stack,
    fault_of_state,
    restored_member,
)
from agentrail.core.stack.plugin import Plugin
from agentrail.core.stack.plugin_code import checked_code, plugin_origin
from agentrail.core.values.foreign_calls import Raised, attempt
from agentrail.core.values.history import GrowingSet, History, Log
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.core.wire.codec import SIGNAL_KINDS, decode_event, decode_signal, encode_event, encode_signal
from agentrail.core.wire.shapes import (
    Fixed,
    Misfit,
    PlainJson,
    Row,
    Shape,
    Shapes,
    brief_of,
    expected_kind,
    raise_misfit,
    step_down,
    without_doubles,
    written,
)
from agentrail.errors import AgentrailError, CodecError, PluginError
from agentrail.events import KINDS, UnknownEvent
from agentrail.frozen import frozen_value
from agentrail.messages import JsonObject, JsonValue, Message
from agentrail.otp.persistent_maps import NO_ENTRIES, Index, Table

Resolve: TypeAlias = (
    Mapping[str, Plugin | type[Plugin]] | Callable[[PluginRecord], Plugin | type[Plugin] | None]
)
"""Resolver of plugins: by their names, or by a function of their records. None means that the plugin is missing."""

NO_PLUGINS: Final[Resolve] = MappingProxyType({})

Encode: TypeAlias = Callable[[Any], bytes]
Decode: TypeAlias = Callable[[bytes], object]


# --- shared parts of one document


class Writing:
    """A document that is being written."""

    def __init__(self) -> None:
        self.specs: list[msgspec.Raw] = []
        self.plugins: list[PlainJson] = []
        self.first: Message | None = None
        self._numbers: dict[int, int] = {}
        self._by_bytes: dict[bytes, int] = {}

    def number_of(self, spec: ToolSpec) -> int:
        """Return the index of a spec in the list, and add a new one. Specs with equal content share one index."""
        # The state that is written holds the spec, so no other one can get its `id` meanwhile.
        number = self._numbers.get(id(spec))
        if number is None:
            form = _bytes_of(written, _SPEC.encode(spec, self))
            number = self._by_bytes.setdefault(form, len(self.specs))
            if number == len(self.specs):
                self.specs.append(msgspec.Raw(form))
            self._numbers[id(spec)] = number
        return number


class Reading:
    """A document that is being read."""

    def __init__(self, resolve: Resolve = NO_PLUGINS, ask: Ask = plainly) -> None:
        self.ask = ask
        self.specs: Sequence[ToolSpec] = ()
        self.first: Message | None = None
        self.stack: Stack = Stack(ask=ask)
        self.records: dict[str, PluginRecord] = {}
        self.by: object = None  # the plugin whose decision is being read
        self._resolve = resolve

    def restore(self, records: Sequence[PluginRecord]) -> None:
        self.records = {record.name: record for record in records}
        if len(self.records) != len(records):
            message = "two plugins have the same name"
            raise Misfit(message)
        members: list[Member] = []
        faults: list[str] = []
        for one in records:
            try:
                members.append(restored_member(self.plugin_of(one), one.options or {}, ask=self.ask))
            except PluginError as error:
                faults += error.faults
        if faults:  # all at once, because the user has to supply every missing one
            raise PluginError(faults)
        if members:
            self.stack = compile_stack(members, ask=self.ask)

    def plugin_of(self, record: PluginRecord) -> Plugin:
        found = (
            self._resolve.get(record.name) if isinstance(self._resolve, Mapping) else self._resolve(record)
        )
        if found is None:
            message = f"plugin {record.name!r} (version {record.version!r}, from {record.origin}) is missing: return it from resolve, or read this with the code that has it"
            raise PluginError([message])
        return checked_code(found, record, self.ask)

    def state_of(self, name: str, plain: PlainJson) -> Any:
        """Decode the state of a plugin. A state of another version goes through its `migrate`."""
        member = self.stack.find(name)
        if member is None:
            message = f"there is no plugin of this name among {', '.join(self.stack.names) or 'none'}"
            raise Misfit(message)
        before = self.records[name].version
        if before != member.version:
            return self._migrated(member, before, plain)
        state = attempt(plugin_state.decode_state, written(plain), member.state_type)
        if isinstance(state, Raised):
            message = (
                f"{state.error.message}; a plugin whose state type changes needs a new version and `migrate`"
            )
            raise Misfit(message)
        fault = fault_of_state(member, state) or _left_out(plain, written_state(state))
        if fault is not None:
            raise Misfit(fault)
        return state

    def _migrated(self, member: Member, before: str, plain: PlainJson) -> Any:
        state = attempt_as(self.ask, member.plugin.migrate, before, frozen_value(plain))
        if isinstance(state, Raised):
            fault: str | None = state.error.message
        else:
            fault = fault_of_state(member, state) or plugin_state.loses(state, member.state_type)
        if fault is not None:
            asked = f"plugin {member.name!r} is of version {member.version!r} and its state of {before!r}"
            raise PluginError(
                [f"{asked}, but migrate returned none: {fault}; read this with version {before!r}"]
            )
        return state


def written_state(state: object) -> PlainJson:
    fault = plugin_state.unstorable(state, "it")
    if fault is not None:
        raise Misfit(fault)
    return msgspec.json.decode(_bytes_of(plugin_state.encode_state, state))


def _left_out(given: PlainJson, taken: PlainJson, where: str = "$") -> str | None:
    """Return the first part of a state that was lost: classes of plugins may ignore fields that they do not know."""
    if isinstance(given, dict) and isinstance(taken, dict):
        pairs = ((f"{where}.{name}", item, taken.get(name, _left_out)) for name, item in given.items())
    elif isinstance(given, list) and isinstance(taken, list):
        pairs = ((f"{where}[{place}]", *pair) for place, pair in enumerate(zip(given, taken, strict=False)))
    else:
        return None
    for place, one, other in pairs:
        if other is _left_out:
            return f"{place} is in the stored state, but the plugin has no such field: give the plugin a new version"
        if (fault := _left_out(one, other, place)) is not None:
            return fault
    return None


def _bytes_of(encode: Callable[[Any], bytes], value: object) -> bytes:
    try:
        return encode(value)
    except UnicodeEncodeError:
        raise unwritable(value) from None


def unwritable(plain: PlainJson) -> Misfit:
    """Return the misfit of the text with half of a surrogate pair. There is at least one."""
    parts = (
        plain.items()
        if isinstance(plain, Mapping)
        else enumerate(plain)
        if isinstance(plain, list | tuple)
        else ()
    )
    for step, part in parts:
        for text in (step, part):
            try:
                written(text)
            except UnicodeEncodeError:
                return unwritable(text).at(
                    step if isinstance(step, int) else step.encode("utf-8", "replace").decode()
                )
    return Misfit("a lone surrogate, which UTF-8 cannot encode")


# --- special forms


class _History(Shape):
    """The messages. The open calls are derived from them."""

    classes, forms = frozenset({History}), frozenset({list})

    def __init__(self, shapes: Shapes) -> None:
        self._messages = Row(shapes.of(Message), Log)

    def encode(self, value: Any, table: Any) -> PlainJson:
        table.first = value.messages[0] if value.messages else None
        return self._messages.encode(value.messages, table)

    def decode(self, plain: PlainJson, table: Any) -> Any:
        messages = self._messages.decode(plain, table)
        table.first = messages[0] if messages else None
        try:
            return History.of(messages)
        except AgentrailError as error:
            raise Misfit(str(error)) from error


class _First:
    """Placeholder for the annotation of values that `_FirstMessage` writes."""


class _FirstMessage(Shape):
    """The first message of a conversation: true if it is the same object as in the history."""

    def __init__(self, shapes: Shapes) -> None:
        self._message = shapes.of(Message | None)

    def encode(self, value: Any, table: Any) -> PlainJson:
        return True if value is not None and value is table.first else self._message.encode(value, table)

    def decode(self, plain: PlainJson, table: Any) -> Any:
        return table.first if plain is True else self._message.decode(plain, table)


class _Spec(Shape):
    """A spec, as its number in the list of all."""

    classes, forms = frozenset({ToolSpec}), frozenset({int})

    def encode(self, value: Any, table: Any) -> PlainJson:
        return table.number_of(value)

    def decode(self, plain: PlainJson, table: Any) -> Any:
        if not 0 <= expected_kind(int, plain) < len(table.specs):
            raise_misfit(f"the number of one of {len(table.specs)} tools", plain)
        return table.specs[plain]


class _Toolbox(Shape):
    """The tools, and the generations of their changes."""

    classes, forms = frozenset({Toolbox}), frozenset({dict})

    def __init__(self, shapes: Shapes) -> None:
        self._parts = shapes.picked_fields(_ToolboxParts)

    def encode(self, value: Any, table: Any) -> PlainJson:
        brought = ((name, value.generation_of(name)) for name in value.names)
        parts = _ToolboxParts(
            tools=value.specs,
            brought_by={name: change for name, change in brought if change},
            generation=value.generation,
        )
        return self._parts.encode(parts, table)

    def decode(self, plain: PlainJson, table: Any) -> Any:
        parts = self._parts.decode(plain, table)
        try:
            return Toolbox(parts.tools, parts.brought_by, parts.generation)
        except AgentrailError as error:
            raise Misfit(str(error)) from error


class _ToolboxParts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    tools: tuple[ToolSpec, ...]
    brought_by: Mapping[str, int] = MappingProxyType({})
    generation: int = 0


class _Format(Shape):
    """The schema of an answer."""

    classes, forms = frozenset({ResponseFormat}), frozenset({dict})

    def encode(self, value: Any, table: Any) -> PlainJson:
        return _OBJECT.encode(value.schema, table)

    def decode(self, plain: PlainJson, table: Any) -> Any:
        schema = _OBJECT.decode(plain, table)
        fault = fault_of_format(schema)
        if fault is not None:
            raise Misfit(fault)
        return ResponseFormat(schema)


class _Stack(Shape):
    """The names of the plugins. Their records are in the list of all, which is read first."""

    classes, forms = frozenset({Stack}), frozenset({list})

    def encode(self, value: Any, table: Any) -> PlainJson:
        table.plugins = PLUGINS.encode(tuple(map(_record_of, value.members)), table)
        return list(value.names)

    def decode(self, plain: PlainJson, table: Any) -> Any:
        if plain != list(table.records):
            raise_misfit(f"the plugins of the document, {list(table.records)}", plain)
        return table.stack


class _States(Shape):
    """The states of the plugins of the stack, by their names."""

    classes, forms = frozenset({MappingProxyType, dict}), frozenset({dict})

    def encode(self, value: Any, table: Any) -> PlainJson:
        return {name: step_down(name, written_state, state) for name, state in value.items()}

    def decode(self, plain: PlainJson, table: Any) -> Any:
        given = expected_kind(dict, plain)
        missing = [name for name in table.stack.names if name not in given]
        if missing:
            message = f"the state of {missing[0]!r} is missing"
            raise Misfit(message)
        return MappingProxyType(
            {name: step_down(name, table.state_of, name, state) for name, state in given.items()}
        )


class _Decision(Shape):
    """A decision that ended a hook, and its plugin: the action carries a state of that plugin."""

    classes, forms = frozenset({Decision}), frozenset({dict})

    def __init__(self, shapes: Shapes) -> None:
        self._fields = shapes.picked_fields(Decision)

    def encode(self, value: Any, table: Any) -> PlainJson:
        return self._fields.encode(value, table)

    def decode(self, plain: PlainJson, table: Any) -> Any:
        table.by = plain.get("by") if type(plain) is dict else None
        return self._fields.decode(plain, table)


class _StateInAction(Shape):
    """The state in an action, which belongs to the plugin that decided."""

    def encode(self, value: Any, table: Any) -> PlainJson:
        return written_state(value)

    def decode(self, plain: PlainJson, table: Any) -> Any:
        return table.state_of(table.by, plain)


class _Coded(Shape):
    """A signal, as it is journaled, or an event, as it is published."""

    forms: frozenset[type] = frozenset({dict})

    def __init__(self, kind: type, tag: str, encode: Encode, decode: Decode) -> None:
        self.classes = frozenset({kind})
        self.tags = frozenset({("kind", tag)})
        self._encode, self._decode = encode, decode

    def encode(self, value: Any, table: Any) -> PlainJson:
        """Encode a value that decodes to itself. The codec changes values that JSON cannot represent, which is refused here."""
        try:
            form = self._encode(value)
            same = self._decode(form) == value
        except (TypeError, CodecError) as error:
            raise Misfit(str(error)) from error
        if not same:
            message = f"a {type(value).__name__} that JSON cannot represent: a lone surrogate, or a number that is not finite"
            raise Misfit(message)
        return msgspec.json.decode(form)

    def decode(self, plain: PlainJson, table: Any) -> Any:
        try:
            found = self._decode(written(plain))
        except CodecError as error:
            raise Misfit(str(error)) from error
        if isinstance(found, UnknownEvent):
            message = f"an event {found.kind!r} with unknown content"
            raise Misfit(message, is_news=True)
        return found


def _record_of(member: Member) -> PluginRecord:
    return PluginRecord(
        name=member.name, version=member.version, origin=plugin_origin(member.plugin), options=member.options
    )


class _Entries(Shape):
    """A `Table`, or an `Index`: pairs of key and value, in the order of the keys."""

    forms = frozenset({list})

    def __init__(self, pair: Shape, empty: Any) -> None:
        self._pairs = Row(pair)
        self._empty = empty
        self.classes = frozenset({type(empty)})

    def encode(self, value: Any, table: Any) -> PlainJson:
        pairs = self._pairs.encode(tuple(value.items()), table)
        return sorted(pairs, key=lambda pair: (isinstance(pair[0], str), pair[0]))

    def decode(self, plain: PlainJson, table: Any) -> Any:
        made = self._empty
        for key, value in self._pairs.decode(plain, table):
            if made.get(key) is not None or (type(key) is int and key not in _KEYS):
                message = f"the key {brief_of(key)} appears twice, or is not from 0 to 2**63"
                raise Misfit(message)
            made = made.put(key, value)
        return made


_KEYS: Final = range(2**63)


def _grown(items: Sequence[Any]) -> GrowingSet[Any]:
    made: GrowingSet[Any] = GrowingSet()
    for item in items:
        made = made.added(item)
    return without_doubles(made, items)


def _batch(calls: Sequence[CallState]) -> OpenCalls:
    ids = [state.call.call_id for state in calls]
    if len(set(ids)) != len(ids):
        message = f"two open calls share an id: {brief_of(ids)}"
        raise Misfit(message)
    return OpenCalls(calls)


_OWN: Final[Mapping[Any, Callable[[Shapes, Any], Shape]]] = MappingProxyType(
    {
        History: lambda shapes, _: _History(shapes),
        OpenCalls: lambda shapes, _: Row(shapes.of(CallState), OpenCalls, _batch),
        ToolSpec: lambda _, __: _Spec(),
        Toolbox: lambda shapes, _: _Toolbox(shapes),
        ResponseFormat: lambda _, __: _Format(),
        Stack: lambda _, __: _Stack(),
        PluginStates: lambda _, __: _States(),
        Decision: lambda shapes, _: _Decision(shapes),
        tuple[str, object]: lambda shapes, _: shapes.of(tuple[str, JsonValue]),
        _First: lambda shapes, _: _FirstMessage(shapes),
        Log: lambda shapes, inner: Row(shapes.of(inner[0]), Log),
        GrowingSet: lambda shapes, inner: Row(shapes.of(inner[0]), GrowingSet, _grown),
        Table: lambda shapes, inner: _Entries(Fixed((shapes.of(int), shapes.of(inner[0]))), Table()),
        Index: lambda shapes, inner: _Entries(Fixed(tuple(map(shapes.of, inner))), NO_ENTRIES),
    }
)


def _own_shape(shapes: Shapes, hint: Any) -> Shape | None:
    if isinstance(hint, TypeVar):  # the state in an action
        return _StateInAction()
    if hint in KINDS:
        return _Coded(hint, KINDS[hint], encode_event, decode_event)
    if hint in SIGNAL_KINDS:
        return _Coded(hint, SIGNAL_KINDS[hint], encode_signal, decode_signal)
    make = _OWN.get(hint) or _OWN.get(get_origin(hint))
    return None if make is None else make(shapes, get_args(hint))


LATER_FIELDS: Final = frozenset(
    {
        ("AgentSpec", "permissions"),
        ("AgentSpec", "plugins"),
        ("AgentState", "sources"),
        ("Agents", "is_waking"),
        ("Approval", "by"),
        ("CallState", "check"),
        ("CallState", "detached"),
        ("CallState", "due_at_ms"),
        ("CallState", "judged_by"),
        ("CallState", "resumption"),
        ("Cycle", "goes_on"),
        ("Cycle", "request_id"),
        ("Cycle", "settings"),
        ("HostCheck", "is_new"),
        ("Interaction", "by"),
        ("OfPluginRequest", "wanted"),
        ("Outcome", "is_decided"),
        ("PromptReceipt", "request_id"),
        ("PromptSettings", "instructions"),
        ("PromptSettings", "max_cost_usd"),
        ("PromptSettings", "tools"),
        ("Question", "schema"),
        ("Question", "url"),
        ("QueuedPrompt", "request_id"),
        ("QueuedPrompt", "settings"),
        ("QueuedPrompt", "trace"),
        ("QueuedPrompt", "via"),
        ("QueuedSteer", "request_id"),
        ("QueuedSteer", "via"),
        ("Resolved", "at_ms"),
        ("Resolved", "user"),
        ("Rule", "at_ms"),
        ("Rule", "breaks"),
        ("Rule", "exact"),
        ("Rule", "shown"),
        ("Search", "tags"),
        ("SessionConfig", "host_hooks"),
        ("SessionConfig", "replaced_sections"),
        ("SessionConfig", "rules"),
        ("SessionConfig", "scope"),
        ("SessionConfig", "wake_on_background_end"),
        ("SessionData", "context_tokens"),
        ("SessionData", "semantics"),
        ("SessionData", "title"),
        ("SteerReceipt", "request_id"),
        ("SuspendedHook", "notes"),
        ("Stream", "due_at_ms"),
        ("ToolSpec", "origin"),
        ("WantedApproval", "by"),
    }
)
"""Fields that the first stored states did not have, by class and field, sorted.

A state that does not use them is stored as it was before they were added. Each has its default in its class.
"""

SHAPES: Final = Shapes(
    _own_shape,
    {("Remembered", "receipt"): PromptReceipt | SteerReceipt, ("Outgoing", "first"): _First},
    LATER_FIELDS,
)
"""The form of each type in a session."""

_SPEC: Final = SHAPES.picked_fields(ToolSpec)
SPECS: Final = Row(_SPEC)
_PLUGIN: Final = SHAPES.of(PluginRecord)
PLUGINS: Final = Row(_PLUGIN)
_OBJECT: Final = SHAPES.of(JsonObject)


class Stacked(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The content of a document of `encode_stack`."""

    plugins: Stack
    states: PluginStates
