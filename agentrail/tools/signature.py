"""What the signature of a function says to a model: its parameters as a JSON Schema, and the way back to Python values.

msgspec describes and converts the types, all in one struct; those that it does not know, such as a union of two classes or
a model of pydantic's, `agentrail.typed` does. This file reads the signature and what the docstring says of it, refuses what no
model could call, and knows no tool. Nothing is run here but annotations that were written as strings.
"""

import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, NoReturn, TypeAlias

import msgspec
from attrs import field, frozen

from agentrail.abc import ToolContext
from agentrail.errors import ToolDefinitionError, TypeFault
from agentrail.frozen import frozen_json
from agentrail.messages import JsonObject
from agentrail.structs import converter_of
from agentrail.typed import (
    Definitions,
    OutputFault,
    TypedValue,
    described_names,
    type_name,
    typed,
    with_whole_numbers,
)

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
        values = converter_of(self.struct, str_keys=True)(with_whole_numbers(dict(arguments)))
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
        name, annotation = parameter.name, _annotation_of(function, parameter)
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


def _annotation_of(function: Callable[..., object], parameter: inspect.Parameter) -> Any:
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
