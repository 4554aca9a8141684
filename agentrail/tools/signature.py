"""What the signature of a function says to a model: its parameters as a JSON Schema, and the way back to Python values.

msgspec describes and converts the types; this file reads the signature, refuses what no model could call, and knows no
tool. Nothing is run here but annotations that were written as strings.
"""

import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NoReturn, TypeAlias

import msgspec
from attrs import frozen

from agentrail.abc import ToolContext
from agentrail.errors import ToolDefinitionError
from agentrail.frozen import frozen_json
from agentrail.messages import JsonObject, JsonValue

_Field: TypeAlias = tuple[str, Any] | tuple[str, Any, Any]
"""A parameter: its name, its annotation, and its default if it has one."""


@frozen(kw_only=True)
class Signature:
    """The parameters of a function, for the model and back.

    Attributes:
        schema: JSON Schema, draft 2020-12, of one object; types of their own stand under `$defs`.
        struct: The msgspec struct with a field per parameter.
        context_names: The parameters that get the `ToolContext`; no part of the schema.
    """

    schema: JsonObject
    struct: type[msgspec.Struct]
    context_names: tuple[str, ...]

    def convert(self, arguments: JsonObject, ctx: ToolContext) -> dict[str, Any]:
        """Turn arguments that fit the schema into keyword arguments of the annotated types.

        Raises:
            msgspec.ValidationError: The model's move: a value that no schema can refuse, such as the 30th of February.
        """
        values = msgspec.convert(_with_whole_numbers(dict(arguments)), self.struct, str_keys=True)
        given = {name: getattr(values, name) for name in self.struct.__struct_fields__}
        return given | dict.fromkeys(self.context_names, ctx)


def read_signature(function: Callable[..., object]) -> Signature:
    """Describe the parameters of a function.

    Raises:
        ToolDefinitionError: The tool author's move; names the function, the parameter and the way out.
    """
    fields: list[_Field] = []
    context_names: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        annotation = _annotation_of(function, parameter)
        if _bare(annotation) is ToolContext:
            context_names.append(parameter.name)
            continue
        annotation = _with_descriptions(annotation)
        if parameter.default is inspect.Parameter.empty:
            fields.append((parameter.name, annotation))
        else:
            fields.append((parameter.name, annotation, parameter.default))
        _check_parameter(function, parameter, annotation)
    if all(map(_is_shareable, fields)):
        struct, schema = _describe_once(function.__name__, tuple(fields))
    else:
        struct, schema = _describe(function, fields)
    return Signature(schema=schema, struct=struct, context_names=tuple(context_names))


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


def _check_parameter(function: Callable[..., object], parameter: inspect.Parameter, annotation: Any) -> None:
    if _is_plain(annotation):
        if parameter.default is not inspect.Parameter.empty:
            _check_default(function, parameter, annotation)
        return
    alone = f"the parameter {parameter.name!r}"
    try:
        msgspec.json.schema(msgspec.defstruct(alone, [("value", annotation)]))
    except (TypeError, KeyError) as error:
        # The last line is the reason; the ones before speak of hooks that are not offered here.
        reason = str(error).strip().splitlines()[-1]
        way_out = "use str, int, float, bool, lists, dicts, Literal, enums, or a msgspec.Struct"
        _refuse(function, parameter.name, f"has a type that no JSON Schema describes ({reason}): {way_out}")
    if parameter.default is not inspect.Parameter.empty:
        _check_default(function, parameter, annotation)


def _check_default(function: Callable[..., object], parameter: inspect.Parameter, annotation: Any) -> None:
    default = parameter.default
    try:
        hash(default)
    except TypeError:
        fault = f"has the mutable default {default!r}, shared by all calls: write `| None = None`"
        _refuse(function, parameter.name, fault)
    try:
        msgspec.convert(msgspec.to_builtins(default, str_keys=True), annotation, str_keys=True)
    except (TypeError, msgspec.ValidationError) as error:
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
    function: Callable[..., object], fields: Sequence[_Field]
) -> tuple[type[msgspec.Struct], JsonObject]:
    struct = _define(function.__name__, fields)
    try:
        return struct, _schema(struct)
    except KeyError as error:
        message = f"tool function {function.__qualname__!r} uses two types of one name ({error}): rename one of them"
        raise ToolDefinitionError(message) from None


def _is_shareable(field: _Field) -> bool:
    """Whether equal fields mean the same: the annotation is plain, and so is the default, if there is one.

    Not a float, since `0.0` equals `-0.0`; so a float parameter that shares has a default that is an integer.
    """
    return _is_plain(field[1]) and all(type(default) in {str, int, bool} for default in field[2:])


@functools.lru_cache(maxsize=256)
def _describe_once(name: str, fields: tuple[_Field, ...]) -> tuple[type[msgspec.Struct], JsonObject]:
    """Describe parameters that function after function has, such as a tool that is made for each session.

    Args:
        name: Of the function.
        fields: All of them shareable. Two that are equal have defaults of one class, that of the annotation.
    """
    struct = _define(name, fields)
    return struct, _schema(struct)


def _define(function: str, fields: Sequence[_Field]) -> type[msgspec.Struct]:
    # A name with spaces, because msgspec fails on two types of one name and no type of the user can have this one.
    name = f"the arguments of {function}"
    return msgspec.defstruct(name, fields, forbid_unknown_fields=True, kw_only=True)


def _schema(struct: type[msgspec.Struct]) -> JsonObject:
    (outermost,), nested = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    # msgspec puts the struct itself behind a reference; some vendors take nothing but an object at the top.
    schema = nested.pop(outermost["$ref"].rpartition("/")[2])
    del schema["title"]
    whole = {**schema, "$defs": nested} if nested else schema
    # A default stands there as the very object: one that is a tuple would be no array for a validator.
    return frozen_json(msgspec.json.decode(msgspec.json.encode(whole)))


def _with_whole_numbers(value: JsonValue) -> JsonValue:
    """Make 3.0 the integer 3: JSON has one number type, msgspec has two. A float parameter still gets its float."""
    # Before the match, whose check for mappings costs ten times as much.
    if type(value) is str or type(value) is int:
        return value
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_with_whole_numbers(item) for item in value]
        case Mapping():
            return {key: _with_whole_numbers(item) for key, item in value.items()}
        case _:
            return value


def _refuse(function: Callable[..., object], parameter: str, fault: str) -> NoReturn:
    message = f"parameter {parameter!r} of tool function {function.__qualname__!r} {fault}"
    raise ToolDefinitionError(message)
