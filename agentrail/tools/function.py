"""`@tool`: a function that the model may call.

The decorator reads the signature, keeps the function callable, and makes of what it returns a result
(`outcome.py`). Timeouts, retries, approval and stopping are the runner's business and do not enter this file.
"""

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
    ToolUpdate,
)
from agentrail.core.values.foreign import Raised, attempt
from agentrail.core.values.importing import NO_OUTPUT
from agentrail.core.values.toolbox import EffectClass
from agentrail.errors import ToolContractError, ToolDefinitionError, TypeFault
from agentrail.frozen import frozen_json, too_large
from agentrail.logs import Logger
from agentrail.messages import JsonObject, JsonValue
from agentrail.otp.edges import is_async
from agentrail.structs import converter_of
from agentrail.typed import (
    Definitions,
    OutputFault,
    TypedValue,
    described_names,
    is_model,
    type_name,
    typed,
)
from agentrail.typed.value import AS_THEY_ARE, with_whole_numbers

# What a decorated function returned, as what a tool returns. Values in, values out; no tool is known here.

WORDS: Final = (
    *(datetime.date, datetime.time, datetime.timedelta),  # a `datetime` is a `date`
    *(uuid.UUID, decimal.Decimal, PurePath),
)
"""What JSON says as a text."""


def to_outcome(name: str, value: object) -> ToolOutcome:
    """Make a result of what a tool's function returned.

    Args:
        name: The tool's, for the message.
        value: `Ok`, `Error`, `ToolUpdate`, text, None; a mapping, list, tuple, set, number or bool; an object of a dataclass, of attrs,
            msgspec or pydantic; an enum, a date or time, a UUID, a `Decimal` or a path. Of what JSON says as a text the text is
            given, without quotes; sets are sorted.

    Returns:
        `Ok`, `Error` or `ToolUpdate`, whose text is never empty, unless it has pictures, and whose details are plain JSON.

    Raises:
        ToolContractError: The tool author's move: anything else, or something inside that JSON has no word for.
    """
    if type(value) is str:
        return Ok(text=value or NO_OUTPUT)
    if type(value) is int:  # before the match, whose check for mappings costs ten times as much
        return Ok(text=str(value))
    match value:
        case ToolUpdate(changes=changes, text=text, details=details):
            _check_text(name, text)
            return ToolUpdate(*changes, text=text or NO_OUTPUT, details=_details(name, details))
        case Ok(text=text, details=details, images=images) if images:
            _check_text(name, text)
            # Where that is what it was nothing is made anew: pictures would be looked at again.
            plain = _details(name, details)
            return value if plain is details else Ok(text=text, details=plain, images=images)
        case Ok(text=text, details=details) | Error(text=text, details=details):
            _check_text(name, text)
            return type(value)(text=text or NO_OUTPUT, details=_details(name, details))
        case None:
            return Ok(text=NO_OUTPUT)
        case str():
            # The text itself, also of an enum of strings, whose `str()` would be "Color.RED".
            return Ok(text=str.__str__(value) or NO_OUTPUT)
        case Mapping() | list() | tuple() | bool() | int() | float() | msgspec.Struct():
            return Ok(text=_to_text(name, value))
        case set() | frozenset():
            # In another process the same words stand in another order, and a result should read the same.
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
        message = f"tool {name!r} returned a result whose text is {_kind(text)}: make it text, str(…)"
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
        # The standard library's encoder judges, because msgspec's writes null where it should say NaN.
        json.dumps(plain, allow_nan=False)
    except RecursionError:
        message = (
            f"tool {name!r} returned {_kind(value)} that is nested too deeply, or holds itself: flatten it"
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
    expected = f"tool {name!r} returned {_kind(value)}, expected text, JSON, Ok, Error or Effect"
    if hasattr(value, "__await__"):
        close = getattr(value, "close", None)
        if close is not None:
            close()  # a coroutine: Python would warn that it was never awaited, on top of this message
        return f"{expected}: await it, in an `async def`"
    if hasattr(value, "__anext__") or hasattr(value, "__next__"):
        return f"{expected}: collect it first, as in list(…)"
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{expected}: decode it first"
    return f"{expected}: wrap it, Ok(text=str(value))"


def _kind(value: object) -> str:
    return f"a value of type {type(value).__name__}"


# Whether the annotation of what a function returns shows a value that no model can read. Such a tool would fail on its first call, and
# nothing would mend it; so it is refused when it is made. What does not say what comes is let through: `Any`, a protocol, an abstract
# class, a name that cannot be resolved. What values become stands in `to_outcome`.


_BYTES: Final = (bytes, bytearray, memoryview)
_CONTAINERS: Final = (list, tuple, set, frozenset, collections.abc.Mapping)
_SAYS_NOTHING: Final = (object, Any, None, type(None), typing.NoReturn, typing.Never, Ok, Error, ToolUpdate)
_COLLECT: Final = "collect it first, as in list(…)"
_AWAIT: Final = "await it, in an `async def`"
_WRAP: Final = "return text, data, an object of a dataclass, or Ok(text=str(value))"


def check_returned(function: Callable[..., object]) -> None:
    """Refuse a function whose annotation shows that what it returns is no result.

    Raises:
        ToolDefinitionError: The tool author's move; names the function, the annotation, and what to return instead.
    """
    hint = _annotation_of(function)
    if hint is str or hint is None:  # most are
        return
    found = _fault_of(hint, set())
    if found is None:
        return
    culprit, way_out = found
    inside = "" if culprit is hint else f", and `{type_name(culprit)}` is in it"
    message = (
        f"tool function {function.__qualname__!r} returns `{type_name(hint)}` by its annotation{inside}, "
        f"which no model can read: {way_out}"
    )
    raise ToolDefinitionError(message)


def _annotation_of(function: Callable[..., object]) -> Any:
    """Resolve the annotation; `Any` where there is none, or it does not resolve."""
    hint = getattr(function, "__annotations__", {}).get("return", Any)
    if hint is str or hint is None:
        return hint
    # As for parameters: the names of the function that was wrapped, and one annotation at a time.
    holder = types.SimpleNamespace(__annotations__={"return": hint})
    hints = _hints_of(holder, getattr(inspect.unwrap(function), "__globals__", {}))
    return hints.get("return", Any)


def _hints_of(holder: object, scope: dict[str, Any] | None = None) -> Mapping[str, Any]:
    """Resolve annotations; none where one does not resolve."""
    # A text that is run may raise anything, which says nothing of what is returned.
    hints = attempt(functools.partial(typing.get_type_hints, holder, globalns=scope, include_extras=True))
    return {} if isinstance(hints, Raised) else hints


def _fault_of(hint: Any, seen: set[Any], *, is_inside: bool = False) -> tuple[Any, str] | None:
    """Give the type that cannot be encoded, and what to return instead; None where there is none to be seen.

    Args:
        hint: The annotation, or a part of it.
        seen: The classes whose fields were looked at; they may hold themselves.
        is_inside: Whether it is a part.
    """
    origin = typing.get_origin(hint)
    kind = hint if origin is None else origin
    if origin is Annotated or hasattr(hint, "__supertype__"):
        bare = hint.__origin__ if origin is Annotated else hint.__supertype__
        return _fault_of(bare, seen, is_inside=is_inside)
    if kind is typing.Union or kind is types.UnionType:
        return _first_fault(typing.get_args(hint), seen, is_inside=is_inside)
    if kind is collections.abc.Callable:
        return hint, "call it, and return what comes of it"
    if not isinstance(kind, type) or kind in _SAYS_NOTHING:
        return None
    if issubclass(kind, _BYTES):
        # What stands deeper is written as base64.
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
    """Whether what is returned is of a class below, of which some are data."""
    if inspect.isabstract(kind) or getattr(kind, "_is_protocol", False):
        return True
    all_below: list[type] = type.__subclasses__(kind)
    return any(_is_encodable(below) or _may_be_anything(below) for below in all_below)


def _parts_of(hint: Any, kind: Any, seen: set[Any]) -> Iterator[Any]:
    """Give what stands in a type: between its brackets, or in its fields as far as they resolve."""
    yield from (one for one in typing.get_args(hint) if one is not ...)
    has_fields = attrs.has(kind) or dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct)
    if has_fields and kind not in seen:
        seen.add(kind)
        yield from _hints_of(kind).values()


# What the signature of a function says to a model: its parameters as a JSON Schema, and the way back to Python values. msgspec
# describes and converts the types, all in one struct; those that it does not know, such as a union of two classes or a model of
# pydantic's, `agentrail.typed` does. This file reads the signature and what the docstring says of it, refuses what no model could call,
# and knows no tool. Nothing is run here but annotations that were written as strings.


_Field: TypeAlias = tuple[str, Any] | tuple[str, Any, Any]
"""A parameter: its name, its annotation, and its default if it has one."""

_NONE: Final[Mapping[str, TypedValue[Any]]] = types.MappingProxyType({})
"""What most functions have of parameters that msgspec does not know; one for all, since sessions have tools of their own."""

_Texts: TypeAlias = tuple[tuple[str, str], ...]
"""What the docstring says of parameters."""


@frozen(kw_only=True)
class Signature:
    """The parameters of a function, for the model and back.

    Attributes:
        schema: JSON Schema, draft 2020-12, of one object; types of their own stand under `$defs`.
        struct: The msgspec struct with a field per parameter.
        context_names: The parameters that get the `ToolContext`; no part of the schema.
        adapted: The parameters of types that msgspec does not know; the struct takes anything for them.
        wants_deps: What the session must have been given, where the context says so: the `Pool` of `ToolContext[Pool]`.
    """

    schema: JsonObject
    struct: type[msgspec.Struct]
    context_names: tuple[str, ...]
    adapted: Mapping[str, TypedValue[Any]] = field(default=_NONE, eq=False)
    wants_deps: type | None = None

    def convert(self, arguments: JsonObject, ctx: ToolContext) -> dict[str, Any]:
        """Turn arguments that fit the schema into keyword arguments of the annotated types.

        Raises:
            msgspec.ValidationError: The model's move: a value that no schema can refuse, such as the 30th of February.
            OutputFault: The same, of a parameter that msgspec does not know.
        """
        plain: JsonValue = dict(arguments)
        if not AS_THEY_ARE.issuperset(map(type, arguments.values())):
            plain = with_whole_numbers(plain)
        values = converter_of(self.struct, str_keys=True)(plain)
        given = {name: getattr(values, name) for name in self.struct.__struct_fields__}
        for name, kind in self.adapted.items():
            if name in arguments:
                given[name] = kind.decode(arguments[name], path=f"$.{name}")
            else:
                del given[name]  # the function has its default
        return given | dict.fromkeys(self.context_names, ctx)


def read_signature(function: Callable[..., object]) -> Signature:
    """Describe the parameters of a function.

    Raises:
        ToolDefinitionError: The tool author's move; names the function, the parameter and the way out.
    """
    fields: list[_Field] = []
    context_names: list[str] = []
    adapted: dict[str, TypedValue[Any]] = {}
    wants_deps: object = None
    for parameter in inspect.signature(function).parameters.values():
        name, annotation = parameter.name, _signature_annotation_of(function, parameter)
        context = _bare(annotation)
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
    if all(map(_is_shareable, fields)):
        struct, schema = _describe_once(function.__name__, tuple(fields), texts)
    else:
        struct, schema = _describe(function, fields, adapted, texts)
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
            _refuse(function, f"*{name}", "collects arguments that have no names: take one list instead")
        case inspect.Parameter.VAR_KEYWORD:
            _refuse(function, f"**{name}", "takes any name, and a model needs to know which: write them out")
        case inspect.Parameter.POSITIONAL_ONLY:
            _refuse(function, name, "is positional-only, and arguments come by name: remove the slash")
        case _:
            if parameter.annotation is inspect.Parameter.empty:
                _refuse(function, name, f"has no annotation: write its type, such as `{name}: str`")
    return _resolve(function, parameter)


def _resolve(function: Callable[..., object], parameter: inspect.Parameter) -> Any:
    if _is_plain(parameter.annotation):
        return parameter.annotation
    # One at a time, so that the message can name the parameter, and a return annotation need not resolve at all.
    # The line is typing's own way to evaluate strings, also nested ones as in list["Point"].
    holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return typing.get_type_hints(holder, globalns=scope, include_extras=True)[parameter.name]
    except NameError as error:
        fault = f"has the annotation {parameter.annotation!r}, and {error}: define that name at the top of the module"
        _refuse(function, parameter.name, fault)
    except (SyntaxError, TypeError) as error:
        _refuse(
            function,
            parameter.name,
            f"has the annotation {parameter.annotation!r}, which is no type: {error}",
        )


def _check_parameter(
    function: Callable[..., object], parameter: inspect.Parameter, annotation: Any
) -> TypedValue[Any] | None:
    """Refuse a type that no schema describes, and a default that is not of it; give the type where msgspec does not know it."""
    if _is_plain(annotation):
        if parameter.default is not inspect.Parameter.empty:
            _check_default(function, parameter, annotation, None)
        return None
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
        fault = f"has the mutable default {default!r}, shared by all calls: write `| None = None`"
        _refuse(function, parameter.name, fault)
    try:
        if kind is not None:
            kind.decode(kind.encode(default))
        else:
            converter_of(annotation, str_keys=True)(msgspec.to_builtins(default, str_keys=True))
    except (TypeError, msgspec.ValidationError, TypeFault, OutputFault) as error:
        # Its schema would tell the model of a default with which every call fails.
        fault = f"has the default {default!r}, which is not of its own type ({error}): change one of them"
        _refuse(function, parameter.name, fault)


def _is_plain(annotation: Any) -> bool:
    """Whether this is one of the types that most parameters have, of which nothing has to be looked for."""
    return any(annotation is kind for kind in (str, int, float, bool))


def _bare(annotation: Any) -> Any:
    return typing.get_args(annotation)[0] if typing.get_origin(annotation) is Annotated else annotation


def _with_descriptions(annotation: Any) -> Any:
    """Make `Annotated[T, "text"]` what msgspec understands, at any depth: `Annotated[T, Meta(description="text")]`."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        extras = (
            msgspec.Meta(description=extra) if isinstance(extra, str) else extra for extra in arguments[1:]
        )
        return Annotated[(_with_descriptions(arguments[0]), *extras)]
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
    function: Callable[..., object],
    fields: Sequence[_Field],
    adapted: Mapping[str, TypedValue[Any]],
    texts: _Texts,
) -> tuple[type[msgspec.Struct], JsonObject]:
    known = [_loosened(one) if one[0] in adapted else one for one in fields]
    struct = _define(function.__name__, known)
    try:
        return struct, _schema(struct, fields, adapted, texts)
    except KeyError as error:
        message = f"tool function {function.__qualname__!r} uses two types of one name ({error}): rename one of them"
        raise ToolDefinitionError(message) from None


def _loosened(field: _Field) -> _Field:
    """What the struct knows of a parameter that msgspec does not: its name, and whether it may be left out."""
    return (field[0], Any, msgspec.UNSET) if field[2:] else (field[0], Any)


def _is_shareable(field: _Field) -> bool:
    """Whether equal fields mean the same: the annotation is plain, and so is the default, if there is one.

    Not a float, since `0.0` equals `-0.0`; so a float parameter that shares has a default that is an integer.
    """
    return _is_plain(field[1]) and all(type(default) in {str, int, bool} for default in field[2:])


@functools.lru_cache(maxsize=256)
def _describe_once(
    name: str, fields: tuple[_Field, ...], texts: _Texts
) -> tuple[type[msgspec.Struct], JsonObject]:
    """Describe parameters that function after function has, such as a tool that is made for each session.

    Args:
        name: Of the function.
        fields: All of them shareable. Two that are equal have defaults of one class, that of the annotation.
        texts: What its docstring says of them.
    """
    struct = _define(name, fields)
    return struct, _schema(struct, fields, {}, texts)


def _define(function: str, fields: Sequence[_Field]) -> type[msgspec.Struct]:
    # A name with spaces, because msgspec fails on two types of one name and no type of the user can have this one.
    name = f"the arguments of {function}"
    return msgspec.defstruct(name, fields, forbid_unknown_fields=True, kw_only=True)


def _schema(
    struct: type[msgspec.Struct],
    fields: Sequence[_Field],
    adapted: Mapping[str, TypedValue[Any]],
    texts: _Texts,
) -> JsonObject:
    (outermost,), nested = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    # msgspec puts the struct itself behind a reference; some vendors take nothing but an object at the top.
    schema = nested.pop(outermost["$ref"].rpartition("/")[2])
    del schema["title"]
    # A default stands there as the very object: one that is a tuple would be no array for a validator.
    schema, nested = msgspec.json.decode(msgspec.json.encode((schema, nested)))
    if adapted:
        schema, nested = _with_adapted(schema, nested, fields, adapted)
    properties = schema["properties"]
    for name, text in texts:
        if not _is_described(properties[name]):
            properties[name] = {"description": text, **properties[name]}
    return frozen_json({**schema, "$defs": nested} if nested else schema)


def _with_adapted(
    schema: dict[str, Any],
    nested: dict[str, Any],
    fields: Sequence[_Field],
    adapted: Mapping[str, TypedValue[Any]],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Put what `agentrail.typed` says of parameters where msgspec knows nothing."""
    definitions = Definitions()
    schema = definitions.adopt(schema, nested)
    for name, _, *defaults in fields:
        if (kind := adapted.get(name)) is not None:
            schema["properties"][name] = described = kind.schema_among(definitions)
            described |= {"default": kind.encode(defaults[0])} if defaults else {}
    return schema, definitions.schemas


def _is_described(schema: Mapping[str, Any]) -> bool:
    """Whether the annotation has a description; one before `| None` stands within."""
    return "description" in schema or any("description" in one for one in schema.get("anyOf", ()))


def _refuse(function: Callable[..., object], parameter: str, fault: str) -> NoReturn:
    message = f"parameter {parameter!r} of tool function {function.__qualname__!r} {fault}"
    raise ToolDefinitionError(message)


P = ParamSpec("P")
R = TypeVar("R")

LOGGER: Final = Logger("agentrail.tools")

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

Describe: TypeAlias = Callable[[ToolListing], str]
"""Writes the description of a tool for one session; see `ToolListing`."""

Label: TypeAlias = Callable[[JsonObject], str]
"""Says in a few words, for people, what a call does."""

Reconcile: TypeAlias = Callable[[str, ToolContext], Awaitable[Reconciled]]
"""Finds out what became of an operation: `await reconcile(operation_id, ctx)`."""


_SLOW_SECONDS: Final = 0.05
"""How long a function may run in the event loop until it is named in the log."""

_QUIET_SECONDS: Final = 60.0
"""How long a tool that was named is not named again."""


@define
class _Slow:
    """When a tool was named last."""

    reported_at: float = -math.inf


@frozen(kw_only=True, eq=False)
class FunctionTool(Generic[P, R]):
    """A function and what the model is told of it. Satisfies `agentrail.abc.Tool`, and can be called like the function.

    Attributes:
        function: What was decorated.
        name: `[A-Za-z0-9_-]{1,64}`.
        description: What the model reads.
        killable: Whether a steer or a default abort may stop it.
        effect_class: What it promises about being run twice.
        timeout_seconds: Per attempt; None for the session's own.
        max_retries: How often a call that raised is made again; None for what the effect class and the session say.
        polling: Whether repeats are its nature.
        max_result_bytes: Of a longer text the middle is left out.
        thread: Whether a `def` runs in a worker thread; says nothing about an `async def`.
        abandonable: Whether a thread whose call was stopped is left behind.
        answered_by: `user` for a tool whose calls are questions, `client` for one that the client runs; it is never executed.
        reconcile: Finds out what became of an operation; None unless it is `reconcilable`.
    """

    function: Callable[P, R]
    name: str
    description: str | Describe
    killable: bool
    effect_class: EffectClass
    timeout_seconds: float | None
    max_retries: int | None
    polling: bool
    max_result_bytes: int
    thread: bool
    abandonable: bool
    answered_by: Literal["code", "user", "client"]
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
        """JSON Schema of the arguments, made from the signature."""
        return self._signature.schema

    @property
    def wants_deps(self) -> type | None:
        """What a session must have been given as `deps` to have this tool: the `Pool` of `ToolContext[Pool]`; None for anything."""
        return self._signature.wants_deps

    @property
    def threaded(self) -> bool:
        """Whether it works in a worker thread."""
        return self.thread and not self._is_async

    def label(self, arguments: JsonObject) -> str:
        """Say in a few words, for people, what a call does."""
        return self.name if self._label is None else self._label(arguments)

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Call the function with arguments that fit the schema.

        Args:
            arguments: As the model sent them; converted to the annotated types.
            ctx: For the parameter that is annotated `ToolContext`, if there is one.

        Returns:
            What the function returned, as a result; an `Error` for a value that no schema can refuse, such as the 30th
            of February.

        Raises:
            ToolContractError: The tool author's move: the function returned what is no result.

        Cancellation: An `async def` is cancelled like any task. A worker thread cannot be: it learns of it from
            `ctx.check_cancelled()`, and is waited for unless it is abandonable. An inline function runs to its end.
        """
        # A function that awaits nothing would run although its call was stopped before it began.
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            given = self._signature.convert(arguments, ctx)
        except msgspec.ValidationError as error:
            return Error(text=f'Invalid arguments for "{self.name}": {_path_first(str(error))}')
        except OutputFault as fault:
            return Error(text=f'Invalid arguments for "{self.name}": {fault}')
        # The arguments come from a struct that was made of the function's own signature, which no type checker knows.
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
        began_at = outside.stopwatch()
        try:
            return call()
        finally:
            self._look_at_time(began_at, outside.stopwatch())

    def _look_at_time(self, began_at: float, now: float) -> None:
        """Name a tool that kept all sessions of the process from going on, once a minute."""
        took = now - began_at
        if took > _SLOW_SECONDS and now - self._slow.reported_at >= _QUIET_SECONDS:
            self._slow.reported_at = now
            LOGGER.warning(
                "tool %r blocked the event loop for %d ms, and all sessions with it: leave out thread=False, so that it "
                "runs in a worker thread",
                self.name,
                round(took * 1000),
            )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, as if it had not been decorated; for tests and for other code."""
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
    """Make a tool of a function; with or without parentheses.

    The schema comes from the annotations; `Annotated[T, "text"]` describes a parameter, or the docstring does; `msgspec.Meta(...)`
    bounds it, and a parameter annotated `ToolContext` is filled in by the runner.

    Args:
        function: `async def`, which runs in the runner's task, or `def`, which runs in a worker thread.
        name: For the model; by default the function's.
        description: For the model; by default the first paragraph of the docstring. A function writes it for each session.
        effect_class: What the tool promises about being run twice.
        timeout_seconds: Per attempt; by default the session's own.
        killable: Whether a steer or a default abort may stop it.
        max_retries: How often a call that raised is made again, whatever its effect class says. Of a `once` tool a number
            says that raising means that nothing happened.
        polling: True for a tool whose repeats are its nature, so that no loop is looked for.
        max_result_bytes: Of a longer text the middle is left out.
        thread: False runs a `def` in the event loop, which stands still meanwhile: for short pure functions.
        abandonable: True leaves the thread of a call that was stopped behind, instead of waiting for it.
        answered_by: `user` makes each call a question to the user: `question` and perhaps `options` are its arguments,
            the answer is its result. `client` leaves each call to the client. Neither ever calls the function.
        reconcile: Finds out what became of an operation, before it is run again: `await reconcile(operation_id, ctx)`
            gives `Done(result)`, `NotDone()` or `Unknown()`. Required by `reconcilable`.
        label: Says in a few words, for people, what a call with these arguments does; by default the name.

    Returns:
        A tool that can still be called like the function.

    Raises:
        ToolDefinitionError: Your move: the message names the function, the parameter or what it returns, and the way out.
    """

    def decorate(function: Callable[P, R]) -> FunctionTool[P, R]:
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
        message = (
            f"a tool is made of a function written with def or async def, got {function!r}: wrap it in one"
        )
        raise ToolDefinitionError(message)
    return function


def _checked(made: FunctionTool[P, R]) -> FunctionTool[P, R]:
    where = f"tool function {made.function.__qualname__!r}"
    message = None
    if not _NAME.fullmatch(made.name):
        message = f"{where} has the name {made.name!r}, expected 1 to 64 of A-Z a-z 0-9 _ -: give another with name="
    elif not made.description:
        message = f"{where} has no description: write a docstring, or give one with description="
    elif made.effect_class == "reconcilable" and made.reconcile is None:
        message = f"{where} is 'reconcilable', which needs a way to find out: give a function with reconcile="
    elif made.reconcile is not None and not is_async(made.reconcile):
        message = (
            f"{where} has reconcile={made.reconcile!r:.200}, expected an async function: write `async def`"
        )
    elif made.effect_class not in typing.get_args(EffectClass):
        known = ", ".join(map(repr, typing.get_args(EffectClass)))
        message = f"{where} has effect_class={made.effect_class!r}, expected one of {known}"
    elif made.timeout_seconds is not None and not 0 < made.timeout_seconds < math.inf:
        message = f"{where} has timeout_seconds={made.timeout_seconds!r}, expected a number above 0, or None"
    elif made.max_retries is not None and (type(made.max_retries) is not int or made.max_retries < 0):
        message = f"{where} has max_retries={made.max_retries!r}, expected a whole number from 0, or None"
    elif made.abandonable and not made.threaded:
        message = f"{where} is abandonable and runs in no thread: only a worker thread can be left behind"
    if message is not None:
        raise ToolDefinitionError(message)
    if made.answered_by == "code":  # otherwise it is never called
        check_returned(made.function)
    return made


def _description_of(function: Callable[..., object], given: str | Describe | None) -> str | Describe:
    if given is None:
        return _first_paragraph(function)
    return given.strip() if isinstance(given, str) else given


def _first_paragraph(function: Callable[..., object]) -> str:
    return " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())


def _path_first(fault: str) -> str:
    """Write a fault as the validator of the runner writes it: msgspec says the path at the end."""
    reason, _, path = fault.rpartition(" - at ")
    return f"{path.strip('`')}: {reason}" if reason else f"$: {fault}"
