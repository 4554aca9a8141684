"""`@tool`: turns a function into a tool for models."""

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import functools
import inspect
import json
import math
import operator
import re
import types
import typing
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any, Final, Generic, Literal, NoReturn, ParamSpec, TypeAlias, TypeVar, overload

import attrs
import msgspec
import trio
from attrs import define, field, frozen

from agentrail import outside
from agentrail.abc import (
    MAX_RESULT_BYTES,
    Error,
    Ok,
    Reconciled,
    ToolContext,
    ToolListing,
    ToolOutcome,
    ToolQuestion,
    ToolUpdate,
)
from agentrail.core.values.foreign_calls import Raised, attempt
from agentrail.core.values.import_history import NO_OUTPUT
from agentrail.core.values.toolbox import EffectClass
from agentrail.errors import ToolContractError, ToolDefinitionError, TypeFault
from agentrail.frozen import frozen_json, not_json, too_large
from agentrail.logs import Logger
from agentrail.messages import JsonObject, JsonValue
from agentrail.otp.field_rules import Count, CountOrZero, TimeLimit, faults_of_fields
from agentrail.otp.guarded_calls import is_async, is_plain_function, show
from agentrail.structs import converter_of
from agentrail.typed import (
    Definitions,
    OutputFault,
    TypedValue,
    described_names,
    described_whole,
    is_model,
    type_name,
    typed,
)
from agentrail.typed.annotations import metas_in
from agentrail.typed.value import AS_THEY_ARE, with_whole_numbers

# Conversion of return values to results. Values in, values out, independent of tools.

WORDS: Final = (
    *(datetime.date, datetime.time, datetime.timedelta),  # a `datetime` is a `date`
    *(uuid.UUID, decimal.Decimal, PurePath),
)
"""Types that JSON represents as a text."""

_INT64: Final = range(-(2**63), 2**63)  # longer ones are checked: Python writes no number of 4,301 digits


def to_outcome(name: str, value: object) -> ToolOutcome:
    """Convert the return value of a tool's function to a result.

    Args:
        name: Name of the tool, for the message.
        value: `Ok`, `Error`, `ToolUpdate`, `ToolQuestion`, text or None. Also a mapping, list, tuple, set, number or bool, and an
            object of a dataclass, of attrs, msgspec or pydantic. Also an enum, a date or time, a UUID, a `Decimal` or a
            path. Values that JSON represents as a text become that text, without quotes. Sets are sorted.

    Returns:
        `Ok`, `Error`, `ToolUpdate` or `ToolQuestion`. Its text is never empty unless it has pictures, and its details are plain JSON.

    Raises:
        ToolContractError: The tool author's move: any other value, or one that contains something JSON cannot
            represent.
    """
    if type(value) is str:
        return Ok(text=value or NO_OUTPUT)
    # Before the match, whose check for mappings is ten times slower.
    if type(value) is int and value in _INT64:
        return Ok(text=str(value))
    match value:
        case ToolUpdate(changes=changes, text=text, details=details):
            _check_text(name, text)
            return ToolUpdate(*changes, text=text or NO_OUTPUT, details=_details(name, details))
        case Ok(text=text, details=details, images=images) if images:
            _check_text(name, text)
            # If nothing changed, the object is reused: a new one would validate its pictures again.
            plain = _details(name, details)
            return value if plain is details else Ok(text=text, details=plain, images=images)
        case Ok(text=text, details=details) | Error(text=text, details=details):
            _check_text(name, text)
            return type(value)(text=text or NO_OUTPUT, details=_details(name, details))
        case None:
            return Ok(text=NO_OUTPUT)
        case ToolQuestion():
            return value
        case str():
            # The text itself, also for an enum of strings, whose `str()` would be "Color.RED".
            return Ok(text=str.__str__(value) or NO_OUTPUT)
        case Mapping() | list() | tuple() | bool() | int() | float() | msgspec.Struct():
            return Ok(text=_to_text(name, value))
        case set() | frozenset():
            # The order of a set differs between processes, but equal results should read the same.
            return Ok(text=_to_text(name, value, is_sorted=True))
        case _ if attrs.has(type(value)) or dataclasses.is_dataclass(type(value)) or is_model(type(value)):
            return Ok(text=_to_text(name, value))
        case enum.Enum():
            return to_outcome(name, value.value)
        case _ if isinstance(value, WORDS):
            return Ok(text=str(_to_json(name, value)) or NO_OUTPUT)
        case _:
            raise ToolContractError(_explain(name, value))


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        message = f"tool {name!r} returned a result whose text is {_kind(text)}: convert it with str(…)"
        raise ToolContractError(message)


def _to_text(name: str, value: object, *, is_sorted: bool = False) -> str:
    return json.dumps(_to_json(name, value, is_sorted=is_sorted), ensure_ascii=False, separators=(",", ":"))


def _details(name: str, details: object) -> JsonValue:
    size = too_large(details)
    if size is not None:
        message = f"tool {name!r} returned details of {size}: write them to a file, and give its path in the details"
        raise ToolContractError(message)
    return _to_json(name, details)


def _to_json(name: str, value: object, *, is_sorted: bool = False) -> JsonValue:
    order: Literal["deterministic"] | None = "deterministic" if is_sorted else None
    try:
        plain = msgspec.to_builtins(value, enc_hook=_to_plain, str_keys=True, order=order)
        # The standard library's encoder checks, because msgspec writes null for NaN.
        json.dumps(plain, allow_nan=False)
    except RecursionError:
        message = (
            f"tool {name!r} returned {_kind(value)} that is nested too deeply, or contains itself: flatten it"
        )
        raise ToolContractError(message) from None
    except (TypeError, ValueError) as error:
        message = f"tool {name!r} returned {_kind(value)} that is not JSON: {error}"
        raise ToolContractError(message) from None
    return plain  # type: ignore[no-any-return]  # what json.dumps takes is a JsonValue


def _to_plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, PurePath):
        return str(value)
    if is_model(type(value)):
        model: Any = value
        return model.model_dump(mode="json")
    message = f"objects of type {type(value).__name__} have no JSON form"
    raise TypeError(message)


def _explain(name: str, value: object) -> str:
    expected = (
        f"tool {name!r} returned {_kind(value)}, expected text, JSON, Ok, Error, ToolUpdate or ToolQuestion"
    )
    if hasattr(value, "__await__"):
        close = getattr(value, "close", None)
        if close is not None:
            close()  # a coroutine: otherwise Python would also warn that it was never awaited
        return f"{expected}: await it, in an `async def`"
    if hasattr(value, "__anext__") or hasattr(value, "__next__"):
        return f"{expected}: collect it first, as in list(…)"
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{expected}: decode it first"
    return f"{expected}: wrap it in Ok(text=str(value))"


def _kind(value: object) -> str:
    return f"a value of type {type(value).__name__}"


# Check whether a return annotation contains a type that no model can read. Such a tool would fail on every
# call, so it is refused when it is made. Inconclusive annotations are accepted: `Any`, a protocol, an
# abstract class, an unresolvable name. `to_outcome` defines the conversion of values.


_BYTES: Final = (bytes, bytearray, memoryview)
_CONTAINERS: Final = (list, tuple, set, frozenset, collections.abc.Mapping)
_SAYS_NOTHING: Final = (
    object,
    Any,
    None,
    type(None),
    typing.NoReturn,
    typing.Never,
    Ok,
    Error,
    ToolUpdate,
    ToolQuestion,
)
_COLLECT: Final = "collect it first, as in list(…)"
_AWAIT: Final = "await it, in an `async def`"
_WRAP: Final = "return text, data, an object of a dataclass, or Ok(text=str(value))"


def check_returned(function: Callable[..., object]) -> None:
    """Refuse a function whose return annotation is not a valid result.

    Raises:
        ToolDefinitionError: The tool author's move: names the function, the annotation, and what to return instead.
    """
    hint = _annotation_of(function)
    if hint is None or _is_plain(hint):  # most are
        return
    found = _fault_of(hint, set())
    if found is None:
        return
    culprit, way_out = found
    inside = "" if culprit is hint else f", which contains `{type_name(culprit)}`"
    message = f"tool function {function.__qualname__!r} returns `{type_name(hint)}` by its annotation{inside}, which a model cannot read: {way_out}"
    raise ToolDefinitionError(message)


def _annotation_of(function: Callable[..., object]) -> Any:
    """Resolve the annotation. `Any` if there is none, or it does not resolve."""
    hint = getattr(function, "__annotations__", {}).get("return", Any)
    if hint is None or _is_plain(hint):
        return hint
    # As for parameters: in the namespace of the wrapped function, and one annotation at a time.
    holder = types.SimpleNamespace(__annotations__={"return": hint})
    hints = _hints_of(holder, getattr(inspect.unwrap(function), "__globals__", {}))
    return hints.get("return", Any)


def _hints_of(holder: object, scope: dict[str, Any] | None = None) -> Mapping[str, Any]:
    """Resolve annotations. Empty if one does not resolve."""
    # Evaluating a text may raise anything, which does not mean that the return type is wrong.
    hints = attempt(functools.partial(typing.get_type_hints, holder, globalns=scope, include_extras=True))
    return {} if isinstance(hints, Raised) else hints


def _fault_of(hint: Any, seen: set[Any], *, is_inside: bool = False) -> tuple[Any, str] | None:
    """Return the type that cannot be encoded, and what to return instead. None if there is no visible fault."""
    origin = typing.get_origin(hint)
    kind = hint if origin is None else origin
    if origin is Annotated or hasattr(hint, "__supertype__"):
        bare = hint.__origin__ if origin is Annotated else hint.__supertype__
        return _fault_of(bare, seen, is_inside=is_inside)
    if kind is typing.Union or kind is types.UnionType:
        return _first_fault(typing.get_args(hint), seen, is_inside=is_inside)
    if kind is collections.abc.Callable:
        return hint, "call it, and return the result"
    if not isinstance(kind, type) or kind in _SAYS_NOTHING:
        return None
    if issubclass(kind, _BYTES):
        # Nested bytes are encoded as base64.
        return None if is_inside else (hint, "decode it first, as in data.decode()")
    if _is_encodable(kind):
        return _first_fault(_parts_of(hint, kind, seen), seen, is_inside=True)
    if issubclass(kind, collections.abc.Awaitable):
        return hint, _AWAIT
    if issubclass(kind, collections.abc.Iterator | collections.abc.AsyncIterable):
        return hint, _COLLECT
    return None if _may_be_anything(kind) else (hint, _WRAP)


def _first_fault(hints: Iterable[Any], seen: set[Any], *, is_inside: bool) -> tuple[Any, str] | None:
    return next((found for one in hints if (found := _fault_of(one, seen, is_inside=is_inside))), None)


def _is_encodable(kind: type) -> bool:
    known = (str, int, float, enum.Enum, msgspec.Struct, *_CONTAINERS, *WORDS)
    return issubclass(kind, known) or attrs.has(kind) or dataclasses.is_dataclass(kind) or is_model(kind)


def _may_be_anything(kind: type) -> bool:
    """Return whether a subclass may be returned, and some subclasses are data."""
    if inspect.isabstract(kind) or getattr(kind, "_is_protocol", False):
        return True
    all_below: list[type] = type.__subclasses__(kind)
    return any(_is_encodable(below) or _may_be_anything(below) for below in all_below)


def _parts_of(hint: Any, kind: Any, seen: set[Any]) -> Iterator[Any]:
    """Yield the types inside a type: its type arguments, or its fields if they resolve."""
    yield from (one for one in typing.get_args(hint) if one is not ...)
    has_fields = attrs.has(kind) or dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct)
    if has_fields and kind not in seen:
        seen.add(kind)
        yield from _hints_of(kind).values()


# A function signature for models: parameters as a JSON Schema, and conversion back to Python values. msgspec
# describes and converts the types, all in one struct. `agentrail.typed` handles types unknown to msgspec,
# such as a union of two classes or a pydantic model. This code reads the signature and the parameter texts of
# the docstring, and refuses parameters that no model could pass. It is independent of tools. Only annotations
# written as strings are evaluated.


_Field: TypeAlias = tuple[str, Any] | tuple[str, Any, Any]
"""A parameter: its name, its annotation, and its default if it has one."""

_NONE: Final[Mapping[str, TypedValue[Any]]] = types.MappingProxyType({})
"""Shared empty mapping: few functions have parameters unknown to msgspec, and sessions may have their own tools."""

_Texts: TypeAlias = tuple[tuple[str, str], ...]
"""Parameter texts of the docstring."""


@frozen(kw_only=True)
class Signature:
    schema: JsonObject
    struct: type[msgspec.Struct]
    context_names: tuple[str, ...]
    adapted: Mapping[str, TypedValue[Any]] = field(default=_NONE, eq=False)
    wants_deps: type | None = None

    @functools.cached_property
    def _to_struct(self) -> Callable[[Any], msgspec.Struct]:
        return converter_of(self.struct, str_keys=True)  # made at the first call: it takes longer than a use

    def convert(self, arguments: JsonObject, ctx: ToolContext) -> dict[str, Any]:
        """Convert arguments that match the schema to keyword arguments of the annotated types.

        Raises:
            msgspec.ValidationError: The model's move: a value that no schema can refuse, such as the 30th of February.
            OutputFault: The same, for a parameter of a type unknown to msgspec.
        """
        plain: JsonValue = dict(arguments)
        if not AS_THEY_ARE.issuperset(map(type, arguments.values())):
            plain = with_whole_numbers(plain)
        given = msgspec.structs.asdict(self._to_struct(plain))
        for name, kind in self.adapted.items():
            if name in arguments:
                given[name] = kind.decode(arguments[name], path=f"$.{name}")
            else:
                del given[name]  # the function has its default
        return given | dict.fromkeys(self.context_names, ctx) if self.context_names else given


def read_signature(function: Callable[..., object]) -> Signature:
    """Describe the parameters of a function.

    Raises:
        ToolDefinitionError: The tool author's move: names the function, the parameter and the remedy.
    """
    fields: list[_Field] = []
    context_names: list[str] = []
    adapted: dict[str, TypedValue[Any]] = {}
    wants_deps: object = None
    for parameter in inspect.signature(function).parameters.values():
        name, annotation = parameter.name, _signature_annotation_of(function, parameter)
        context = typing.get_args(annotation)[0] if typing.get_origin(annotation) is Annotated else annotation
        if context is ToolContext or typing.get_origin(context) is ToolContext:
            context_names.append(name)
            wants_deps = next(iter(typing.get_args(context)), wants_deps)
            continue
        annotation = _with_descriptions(annotation)
        kind = _check_parameter(function, parameter, annotation)
        if kind is not None:
            adapted[name] = kind
        has_default = parameter.default is not inspect.Parameter.empty
        fields.append((name, annotation, parameter.default) if has_default else (name, annotation))
    said = described_names(function.__doc__)
    texts = tuple((one[0], said[one[0]]) for one in fields if one[0] in said) if said else ()
    try:
        if all(map(_is_shareable, fields)):
            struct, schema = _describe_once(function.__name__, tuple(fields), texts)
        else:
            struct, schema = _describe(function.__name__, fields, adapted, texts)
    except KeyError as error:
        message = f"tool function {function.__qualname__!r} uses two types with the same name ({error}): rename one of them"
        raise ToolDefinitionError(message) from None
    except (RuntimeError, TypeError, ValueError) as error:
        message = f"tool function {function.__qualname__!r} has a name such as '__x', or a text that is not Unicode ({error}): replace it"
        raise ToolDefinitionError(message) from None
    return Signature(
        schema=schema,
        struct=struct,
        context_names=tuple(context_names),
        adapted=adapted or _NONE,
        wants_deps=wants_deps if isinstance(wants_deps, type) else None,
    )


# --- one parameter


def _signature_annotation_of(function: Callable[..., object], parameter: inspect.Parameter) -> Any:
    name = parameter.name
    match parameter.kind:
        case inspect.Parameter.VAR_POSITIONAL:
            _refuse(function, f"*{name}", "collects arguments without names: take a single list instead")
        case inspect.Parameter.VAR_KEYWORD:
            _refuse(
                function, f"**{name}", "takes any name, but a model needs to know the names: write them out"
            )
        case inspect.Parameter.POSITIONAL_ONLY:
            _refuse(function, name, "is positional-only, but arguments are passed by name: remove the slash")
        case _ if parameter.annotation is inspect.Parameter.empty and name == "self":
            _refuse(
                function, name, "has no annotation: make a tool of an instance's method, tool(desk.refund)"
            )
        case _ if parameter.annotation is inspect.Parameter.empty:
            usual = "ToolContext" if name == "ctx" else "str"
            _refuse(function, name, f"has no annotation: write its type, such as `{name}: {usual}`")
    if _is_plain(parameter.annotation):
        return parameter.annotation
    # One at a time, so that the message can name the parameter, and a return annotation need not resolve. The
    # next line is typing's own way to evaluate strings, including nested ones as in list["Point"].
    holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return typing.get_type_hints(holder, globalns=scope, include_extras=True)[parameter.name]
    except NameError as error:
        fault = f"has the annotation {parameter.annotation!r}, and {error}: define that name at the top of the module"
        _refuse(function, parameter.name, fault)
    except (SyntaxError, TypeError) as error:
        fault = f"has the annotation {parameter.annotation!r}, which is not a type: {error}"
        _refuse(function, parameter.name, fault)


def _check_parameter(
    function: Callable[..., object], parameter: inspect.Parameter, annotation: Any
) -> TypedValue[Any] | None:
    """Refuse a type that no schema describes, or a default of another type. Returns the type if msgspec does not know it."""
    if _is_plain(annotation):
        if parameter.default is not inspect.Parameter.empty:
            _check_default(function, parameter, annotation, None)
        return None
    if annotation is typing.ClassVar or typing.get_origin(annotation) is typing.ClassVar:
        _refuse(function, parameter.name, "is a ClassVar, which no caller can pass: write its type alone")
    if (flag := _flag_in(annotation, set())) is not None:
        _refuse_type(function, parameter, f"`{flag.__name__}` is a flag", "take a list of an Enum's members")
    kind = None
    alone = f"the parameter {parameter.name!r}"
    try:
        msgspec.json.schema(msgspec.defstruct(alone, [("value", annotation)]))
    except KeyError as error:  # two types of one name
        _refuse_type(function, parameter, str(error))
    except (TypeError, ValueError, NameError, AttributeError, RuntimeError):
        try:
            kind = typed(annotation)
        except TypeFault as fault:
            is_deep = fault.where != type_name(annotation)
            reason = f"{fault.where}: {fault.reason}" if is_deep else fault.reason
            _refuse_type(function, parameter, reason, fault.way_out)
    if parameter.default is not inspect.Parameter.empty:
        _check_default(function, parameter, annotation, kind)
    return kind


def _flag_in(hint: Any, seen: set[Any]) -> type | None:
    kind = typing.get_origin(hint) or hint
    if isinstance(kind, enum.EnumMeta):
        return kind if issubclass(kind, enum.Flag) else None
    parts = _parts_of(hint, kind, seen) if isinstance(kind, type) else typing.get_args(hint)
    return next((flag for one in parts if (flag := _flag_in(one, seen))), None)


def _refuse_type(
    function: Callable[..., object], parameter: inspect.Parameter, reason: str, way_out: str = ""
) -> NoReturn:
    way_out = way_out or "use str, int, float, bool, lists, dicts, Literal, enums, or a msgspec.Struct"
    _refuse(function, parameter.name, f"has a type that no JSON Schema describes ({reason}): {way_out}")


def _check_default(
    function: Callable[..., object],
    parameter: inspect.Parameter,
    annotation: Any,
    kind: TypedValue[Any] | None,
) -> None:
    default = parameter.default
    try:
        hash(default)
    except TypeError:
        fault = f"has the mutable default {show(default)}, shared by all calls: write `| None = None`"
        _refuse(function, parameter.name, fault)
    try:
        if kind is not None:
            kind.decode(kind.encode(default))
        else:
            converter_of(annotation, str_keys=True)(msgspec.to_builtins(default, str_keys=True))
    except (TypeError, msgspec.ValidationError, TypeFault, OutputFault) as error:
        # Its schema would show the model a default with which every call fails.
        fault = f"has the default {show(default)}, which is not of its own type ({error}): change one of them"
        _refuse(function, parameter.name, fault)


def _is_plain(annotation: Any) -> bool:
    """Return whether this is one of the plain types of most parameters, which need no further check."""
    return any(annotation is kind for kind in (str, int, float, bool))


def _with_descriptions(annotation: Any) -> Any:
    """Convert extras to msgspec's form, at any depth: `Annotated[T, "text"]` to `Annotated[T, Meta(description="text")]`."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        bare, extras = _with_descriptions(arguments[0]), tuple(metas_in(arguments[1:]))
        return Annotated[(bare, *extras)] if extras else bare
    if origin is None or origin is typing.Literal:
        return annotation
    inner = tuple(_with_descriptions(argument) for argument in arguments)
    if inner == arguments:
        return annotation
    if origin in {typing.Union, types.UnionType}:
        return functools.reduce(operator.or_, inner)
    return origin[inner]


# --- the whole


def _describe(
    name: str, fields: Sequence[_Field], adapted: Mapping[str, TypedValue[Any]], texts: _Texts
) -> tuple[type[msgspec.Struct], JsonObject]:
    # The types that msgspec does not know are anything to it. What is optional stays so.
    known: list[Any] = [
        (one[0], Any, msgspec.UNSET)[: len(one)] if one[0] in adapted else one for one in fields
    ]
    # A name with spaces, because msgspec fails on two types of one name, and no user type can have this one.
    struct = msgspec.defstruct(f"the arguments of {name}", known, forbid_unknown_fields=True, kw_only=True)
    return struct, _schema(struct, fields, adapted, texts)


def _is_shareable(field: _Field) -> bool:
    """Return whether equal fields mean the same: a plain annotation, and a plain default if there is one.

    Float defaults are excluded, because `0.0` equals `-0.0`. So a shared float parameter has an integer default.
    """
    return _is_plain(field[1]) and all(type(default) in {str, int, bool} for default in field[2:])


@functools.lru_cache(maxsize=256)
def _describe_once(
    name: str, fields: tuple[_Field, ...], texts: _Texts
) -> tuple[type[msgspec.Struct], JsonObject]:
    """Describe parameters that many functions share, such as a tool that is made for each session."""
    return _describe(name, fields, _NONE, texts)


def _schema(
    struct: type[msgspec.Struct],
    fields: Sequence[_Field],
    adapted: Mapping[str, TypedValue[Any]],
    texts: _Texts,
) -> JsonObject:
    (outermost,), nested = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    # msgspec references the struct itself, but some vendors only accept an object at the top level.
    schema = nested.pop(outermost["$ref"].rpartition("/")[2])
    del schema["title"]
    # Defaults are still Python objects here: for a validator, a tuple would not be an array. An infinite number has no
    # JSON, and msgspec would write null, with which every call would fail.
    parts = [part for one in (schema, *nested.values()) for part in one.get("properties", {}).values()]
    for part in parts:
        if "default" in part and not_json(msgspec.to_builtins(part["default"], str_keys=True)):
            del part["default"]
    schema, nested = msgspec.json.decode(msgspec.json.encode((schema, nested)))
    if adapted:
        schema, nested = _with_adapted(schema, nested, fields, adapted)
    properties = schema["properties"]
    for name, text in texts:
        # The text of an annotation comes first. With `| None`, it is nested.
        places = (properties[name], *properties[name].get("anyOf", ()))
        if not any("description" in place for place in places):
            properties[name] = {"description": text, **properties[name]}
    return frozen_json({**schema, "$defs": nested} if nested else schema)


def _with_adapted(
    schema: dict[str, Any],
    nested: dict[str, Any],
    fields: Sequence[_Field],
    adapted: Mapping[str, TypedValue[Any]],
) -> tuple[dict[str, Any], dict[str, Any]]:
    definitions = Definitions()
    schema = definitions.adopt(schema, nested)
    for name, _, *defaults in fields:
        if (kind := adapted.get(name)) is not None:
            schema["properties"][name] = described = kind.schema_among(definitions)
            described |= {"default": kind.encode(defaults[0])} if defaults else {}
    return schema, definitions.schemas


def _refuse(function: Callable[..., object], parameter: str, fault: str) -> NoReturn:
    message = f"parameter {parameter!r} of tool function {function.__qualname__!r} {fault}"
    raise ToolDefinitionError(message)


P = ParamSpec("P")
R = TypeVar("R")

LOGGER: Final = Logger("agentrail.tools")

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

Describe: TypeAlias = Callable[[ToolListing], str]
"""Writes the description of a tool for one session. See `ToolListing`."""

Label: TypeAlias = Callable[[JsonObject], str]
"""Returns a short description of a call for users."""

Reconcile: TypeAlias = Callable[[str, ToolContext], Awaitable[Reconciled]]
"""Determines the outcome of an operation: `await reconcile(operation_id, ctx)`."""


_SLOW_SECONDS: Final = 0.05
"""Time in the event loop after which a function is reported in the log, in seconds."""

_QUIET_SECONDS: Final = 60.0
"""Minimum interval between two reports of a tool, in seconds."""


@define
class _Slow:
    reported_at: float = -math.inf


@define(kw_only=True, eq=False)
class ToolTraits:
    """What a session reads of a tool, with the usual values."""

    name: str
    description: str | Describe
    killable: bool = True
    effect_class: EffectClass = "once"
    timeout_seconds: TimeLimit | None = None
    answered_by: Literal["code", "user", "client"] = "code"


@frozen(kw_only=True, eq=False)
class FunctionTool(ToolTraits, Generic[P, R]):
    """A function and its description for the model. Satisfies `agentrail.abc.Tool`, and can be called like the function.

    Attributes:
        name: `[A-Za-z0-9_-]{1,64}`.
        killable: Whether a steer or a default abort may stop it.
        timeout_seconds: Time limit per attempt. None: the session's own.
        max_retries: Number of retries after an exception. None: determined by the effect class and the session.
        max_result_bytes: Size limit of the text. The middle of a longer one is omitted.
        thread: Whether a `def` runs in a worker thread. No effect for an `async def`.
        abandonable: Whether the thread of a stopped call is abandoned.
        answered_by: `user` for a tool whose calls are questions, `client` for one that the client runs. It is never
            executed.
        reconcile: Determines the outcome of an operation. None unless it is `reconcilable`.
    """

    function: Callable[P, R]
    max_retries: CountOrZero | None
    polling: bool
    max_result_bytes: Count
    thread: bool
    abandonable: bool
    reconcile: Reconcile | None = field(repr=False)
    _label: Label | None = field(repr=False)
    _signature: Signature = field(repr=False)
    _slow: _Slow = field(factory=_Slow, init=False, repr=False)
    _is_async: bool = field(init=False, repr=False, eq=False)

    @_is_async.default
    def _look_whether_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)  # once: it costs as much as half of a call

    @property
    def parameters(self) -> JsonObject:
        return self._signature.schema

    @property
    def wants_deps(self) -> type | None:
        """Required type of the session's `deps`: the `Pool` of `ToolContext[Pool]`. None: any type."""
        return self._signature.wants_deps

    @property
    def threaded(self) -> bool:
        return self.thread and not self._is_async

    def label(self, arguments: JsonObject) -> str:
        return self.name if self._label is None else self._label(arguments)

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Call the function with arguments that match the schema.

        Args:
            arguments: Arguments from the model. Converted to the annotated types.
            ctx: Passed to the parameter annotated `ToolContext`, if there is one.

        Returns:
            The function's result, or an `Error` for a value that no schema can refuse, such as the 30th of February.

        Raises:
            ToolContractError: The tool author's move: the return value is not a valid result.

        Cancellation: An `async def` is cancelled like any task. A worker thread cannot be cancelled: it is notified by
        `ctx.check_cancelled()`, and is waited for unless it is abandonable. An inline function runs to its end.
        """
        # Otherwise a function without awaits would run even if its call was stopped before it began.
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            given = self._signature.convert(arguments, ctx)
        except msgspec.ValidationError as error:
            reason, _, path = str(error).rpartition(" - at ")
            place = path.replace("`", "") if reason else "$"
            return Error(text=f'Invalid arguments for "{self.name}": {place}: {reason or error}')
        except OutputFault as fault:
            return Error(text=f'Invalid arguments for "{self.name}": {fault}')
        # The arguments come from a struct derived from the function's own signature, which type checkers do
        # not know.
        function: Callable[..., Any] = self.function
        value: object
        if self._is_async:
            value = await function(**given)
        elif self.thread:
            value = await ctx.run_in_thread(
                functools.partial(function, **given), abandonable=self.abandonable
            )
        else:
            await trio.lowlevel.checkpoint()
            value = self._call_inline(functools.partial(function, **given))
        return to_outcome(self.name, value)

    def _call_inline(self, call: Callable[[], object]) -> object:
        """Call, and log a tool that blocked all sessions of the process, at most once a minute."""
        began_at = outside.stopwatch()
        try:
            return call()
        finally:
            now = outside.stopwatch()
            took = now - began_at
            if took > _SLOW_SECONDS and now - self._slow.reported_at >= _QUIET_SECONDS:
                self._slow.reported_at = now
                LOGGER.warning(
                    "tool %r blocked the event loop for %d ms, and all sessions with it: remove thread=False, so that it runs in a worker thread",
                    self.name,
                    round(took * 1000),
                )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | Describe | None = None,
    effect_class: EffectClass = "once",
    timeout_seconds: float | None = None,
    killable: bool = True,
    max_retries: int | None = None,
    polling: bool = False,
    max_result_bytes: int = MAX_RESULT_BYTES,
    thread: bool = True,
    abandonable: bool = False,
    answered_by: Literal["code", "user", "client"] = "code",
    reconcile: Reconcile | None = None,
    label: Label | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(  # noqa: PLR0913 - one option per member of the port, each with a default
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | Describe | None = None,
    effect_class: EffectClass = "once",
    timeout_seconds: float | None = None,
    killable: bool = True,
    max_retries: int | None = None,
    polling: bool = False,
    max_result_bytes: int = MAX_RESULT_BYTES,
    thread: bool = True,
    abandonable: bool = False,
    answered_by: Literal["code", "user", "client"] = "code",
    reconcile: Reconcile | None = None,
    label: Label | None = None,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool of a function. Works with or without parentheses.

    The schema comes from the annotations. `Annotated[T, "text"]` or the docstring describes a parameter,
    `msgspec.Meta(...)` constrains it, and the runner fills in a parameter annotated `ToolContext`.

    Args:
        function: `async def`, which runs in the runner's task, or `def`, which runs in a worker thread.
        name: Name for the model. Default: the function's name.
        description: Description for the model. Default: the first paragraph of the docstring. A function writes it for each session.
        effect_class: The tool's guarantee about repeated execution.
        timeout_seconds: Time limit per attempt, in seconds. Default: the session's own.
        killable: Whether a steer or a default abort may stop it.
        max_retries: Number of retries after an exception, for any effect class. For a `once` tool, a number declares that an exception means no effect.
        polling: True for a tool whose repeated calls are normal, which disables loop detection.
        max_result_bytes: Size limit of the text. The middle of a longer one is omitted.
        thread: False runs a `def` in the event loop, which blocks meanwhile: for short pure functions.
        abandonable: True abandons the thread of a stopped call instead of waiting for it.
        answered_by: `user` makes each call a question to the user: `question` and optionally `options` are its
            arguments, the answer is its result. `client` leaves each call to the client. Neither ever calls the function.
        reconcile: Determines the outcome of an operation before it is repeated: `await reconcile(operation_id, ctx)`
            returns `Done(result)`, `NotDone()` or `Unknown()`. Required by `reconcilable`.
        label: Returns a short description of a call with these arguments for users. Default: the name.

    Returns:
        A tool that can still be called like the function.

    Raises:
        ToolDefinitionError: Your move: the message names the function, the parameter or the return type, and the remedy.
    """

    # Quoted: otherwise each tool would build these two types, which takes longer than its schema.
    def decorate(function: "Callable[P, R]") -> "FunctionTool[P, R]":
        made = FunctionTool(
            function=_checked_function(function),
            name=function.__name__ if name is None else name,
            description=_description_of(function, description),
            killable=killable,
            effect_class=effect_class,
            timeout_seconds=timeout_seconds,
            max_retries=max_retries,
            polling=polling,
            max_result_bytes=max_result_bytes,
            thread=thread,
            abandonable=abandonable,
            answered_by=answered_by,
            reconcile=reconcile,
            label=label,
            signature=read_signature(function),
        )
        return _checked(made)

    return decorate if function is None else decorate(function)


def _checked_function(function: Callable[P, R]) -> Callable[P, R]:
    if not inspect.isroutine(function) or inspect.isbuiltin(function):
        message = f"a tool is a function written with def or async def, got {show(function)}: wrap it in one"
        raise ToolDefinitionError(message)
    return function


def _checked(made: FunctionTool[P, R]) -> FunctionTool[P, R]:
    if (fault := next(_faults_of_tool(made), None)) is not None:
        message = f"tool function {made.function.__qualname__!r} {fault}"
        raise ToolDefinitionError(message)
    if made.answered_by == "code":  # otherwise it is never called
        check_returned(made.function)
    return made


def _faults_of_tool(made: Any) -> Iterator[str]:
    if not isinstance(made.name, str) or not _NAME.fullmatch(made.name):
        yield f"has the name {show(made.name)}, expected 1 to 64 of A-Z a-z 0-9 _ -: give another name with name="
    if not made.description:
        yield "has no description: write a docstring, or give one with description="
    if not isinstance(made.description, str) and not is_plain_function(made.description):
        yield f"has description={show(made.description)}, expected a text, or a function without `async`"
    if made._label is not None and not is_plain_function(made._label):  # noqa: SLF001 - of this module
        yield f"has label={show(made._label)}, expected a function without `async`"  # noqa: SLF001 - as above
    if made.effect_class == "reconcilable" and made.reconcile is None:
        yield "is 'reconcilable', which needs a way to find out: give a function with reconcile="
    if made.reconcile is not None and not is_async(made.reconcile):
        yield f"has reconcile={show(made.reconcile)}, expected an async function: write `async def`"
    checked = ("effect_class", "timeout_seconds", "max_retries", "max_result_bytes", "answered_by")
    for fault in faults_of_fields(
        made, FunctionTool, *checked, "killable", "polling", "thread", "abandonable"
    ):
        yield f"has {fault.replace(' is ', '=', 1).replace(': expected', ', expected')}"
    if made.abandonable and not made.threaded:
        yield "is abandonable but does not run in a thread: only a worker thread can be abandoned"


def _description_of(function: Callable[..., object], given: str | Describe | None) -> str | Describe:
    if given is None:
        text = inspect.getdoc(function) or ""
        return " ".join((described_whole(text) or text).split("\n\n")[0].split())
    return given.strip() if isinstance(given, str) else given
