"""Plain values to typed forms, or all faults with their paths.

Scalars are never coerced: `max_turns = "3"` is a text, and `1` is not `true`. In front matter all scalars are texts, parsed as the expected type.
"""

import functools
import math
import re
from collections import abc
from collections.abc import Callable, Collection, Iterator, Mapping
from types import GenericAlias
from typing import Any, Final, Literal, NoReturn, TypeAlias, get_args, get_origin

import attrs
from attrs import frozen
from cattrs import (
    BaseValidationError,
    ClassValidationError,
    Converter,
    ForbiddenExtraKeysError,
    IterableValidationError,
)
from cattrs.gen import make_dict_structure_fn, override

from agentrail.config.key_filter import hide_keys
from agentrail.config.schema import (
    FileForm,
    HeaderForm,
    McpAuthForm,
    McpForm,
    PluginForm,
    PromptForm,
    SecretForm,
)
from agentrail.config.toml_positions import ConfigPath
from agentrail.errors.name_guesses import guess_name, near_name

PathFault: TypeAlias = tuple[ConfigPath, str]
_Hook: TypeAlias = Callable[[Any, Any], Any]

_MAX_SHOWN: Final = 40
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}(?:\.[0-9]{1,18})?(?:e[+-]?[0-9]{1,3})?")
_WORDS: Final[Mapping[str, bool]] = {"true": True, "false": False}


class _Unfit(Exception):
    """A value has the wrong type."""


@frozen(kw_only=True)
class _Table:
    env: str | None = None
    file: str | None = None


@frozen(kw_only=True)
class _FileTable:
    file: str


@frozen(kw_only=True)
class _PromptTable:
    text: str | None = None
    file: str | None = None
    replace: Mapping[str, str] | None = None


def structure_file(
    tree: Mapping[str, Any], *, only_texts: bool = False
) -> tuple[FileForm | None, list[PathFault]]:
    try:
        return (_of_texts() if only_texts else _strict()).structure(tree, FileForm), []
    except BaseValidationError as error:
        return None, [*_faults_in(error, ())]


def structure_server(value: object) -> tuple[McpForm | None, list[PathFault]]:
    """Read the table of an MCP server. Apart from its file, because an untrusted one is not read."""
    try:
        return _strict().structure(value, McpForm), []
    except BaseValidationError as error:
        return None, [*_faults_in(error, ())]
    except _Unfit as error:
        return None, [((), str(error))]


def show_value(value: object) -> str:
    match value:
        case str():
            text = hide_keys(value)
            return f"the text {text[:_MAX_SHOWN] + '…' if len(text) > _MAX_SHOWN else text!r}"
        case Mapping():
            return "a table"
        case list():
            return "a list"
        case bool():
            return str(value).lower()
        case _:
            return f"{value}"


# --- faults


def _faults_in(error: BaseException, path: ConfigPath) -> Iterator[PathFault]:
    match error:
        case ClassValidationError():
            noted, others = error.group_exceptions()
            for below, attribute in noted:
                yield from _faults_in(below, (*path, _written(attribute.name)))
            for below in others:
                yield from _faults_in(below, path)
        case IterableValidationError():
            for below, item in error.group_exceptions()[0]:
                yield from _faults_in(below, (*path, item.index))
        case ForbiddenExtraKeysError():
            known = [_written(one.name) for one in attrs.fields(error.cl)]
            for name in sorted(error.extra_fields):
                yield (*path, name), no_such_key(name, known)
        case KeyError():
            yield path, "is missing: write it"
        case _:
            yield path, str(error)


def _written(name: str) -> str:
    return name.removesuffix("_")


def no_such_key(name: str, known: Collection[str]) -> str:
    return f"unknown key, {guess_name(name, known)}"


# --- hooks: called with a value and the expected type


def _refuse(expected: str, value: object, hint: str = "") -> NoReturn:
    message = f"expected {expected}, got {show_value(value)}{hint}"
    raise _Unfit(message)


def _text(value: Any, _: Any) -> str:
    if not isinstance(value, str):
        _refuse("a text", value)
    return value


def _flag(value: Any, _: Any) -> bool:
    if not isinstance(value, bool):
        _refuse("true or false", value)
    return value


def _whole(value: Any, _: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse("a whole number", value)
    return value


def _number(value: Any, _: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        _refuse("a finite number", value)
    return value


def _flag_of_text(value: Any, _: Any) -> bool:
    if not isinstance(value, str) or value not in _WORDS:
        _refuse("true or false", value)
    return _WORDS[value]


def _whole_of_text(value: Any, _: Any) -> int:
    if not isinstance(value, str) or not _WHOLE.fullmatch(value):
        _refuse("a whole number", value)
    return int(value)


def _number_of_text(value: Any, _: Any) -> float:
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        _refuse("a number", value)
    return _number(float(value), float)


def _one_of(value: Any, kind: Any) -> Any:
    known = get_args(kind)
    if not isinstance(value, str) or value not in known:
        hint = near_name(value, known, ": did you mean {!r}") if isinstance(value, str) else ""
        _refuse(f"one of {', '.join(known)}", value, hint)
    return value


def _secret_of(value: Any, converter: Converter) -> SecretForm:
    if not isinstance(value, dict):  # the value is not shown: it is a key
        message = 'expected { env = "NAME" } or { file = "path" }: never write a secret into the file itself'
        raise _Unfit(message)
    read = converter.structure(value, _Table)
    if (read.env is None) is (read.file is None):
        message = 'expected one of { env = "NAME" } and { file = "path" }'
        raise _Unfit(message)
    return SecretForm(env=read.env, file=read.file)


def _prompt_of(value: Any, converter: Converter) -> PromptForm:
    if isinstance(value, str):
        return PromptForm(text=value)
    if not isinstance(value, dict):
        _refuse('a text, or { file = "path" }', value)
    if not value:
        return PromptForm(file=converter.structure(value, _FileTable).file)
    read = converter.structure(value, _PromptTable)
    if read.text is not None and read.file is not None:
        message = "there are two prompts, text and file: remove one"
        raise _Unfit(message)
    return PromptForm(text=read.text, file=read.file, replace=read.replace)


def _header_of(value: Any, converter: Converter) -> HeaderForm:
    if isinstance(value, str):
        return HeaderForm(text=value)
    return HeaderForm(secret=_secret_of(value, converter))


@frozen(kw_only=True)
class _BearerTable:
    bearer: SecretForm


def _auth_of(value: Any, converter: Converter) -> McpAuthForm:
    if isinstance(value, dict):
        return McpAuthForm(bearer=converter.structure(value, _BearerTable).bearer)
    if value != "oauth":
        message = 'expected "oauth" or { bearer = { env = "NAME" } }'
        raise _Unfit(message)
    return McpAuthForm(oauth=True)


# --- converters


def _comes_from(origin: Any) -> Callable[[Any], bool]:
    def is_one(kind: Any) -> bool:
        found: Any = get_origin(kind)
        return found is origin

    return is_one


def _converter(scalars: Mapping[type, _Hook], *, splits: bool) -> Converter:
    converter = Converter(forbid_extra_keys=True, detailed_validation=True)
    for kind, hook in scalars.items():
        converter.register_structure_hook(kind, hook)
    converter.register_structure_hook_func(_comes_from(Literal), _one_of)

    def tuple_of(kind: Any) -> _Hook:
        items: Any = GenericAlias(list, (get_args(kind)[0],))
        made = converter.get_structure_hook(items)
        return _guarded(lambda value, _: tuple(made(value, items)), list, splits=splits)

    def mapping_of(kind: Any) -> _Hook:
        table: Any = GenericAlias(dict, get_args(kind))
        made = converter.get_structure_hook(table)
        return _guarded(lambda value, _: made(value, table), dict, splits=False)

    def record_of(kind: Any) -> _Hook:
        renamed: Any = {
            one.name: override(rename=_written(one.name))
            for one in attrs.fields(kind)
            if one.name != _written(one.name)
        }
        made = make_dict_structure_fn(
            kind, converter, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=True, **renamed
        )
        return _guarded(made, dict, splits=False)

    converter.register_structure_hook_factory(_comes_from(tuple), tuple_of)
    converter.register_structure_hook_factory(_comes_from(abc.Mapping), mapping_of)
    converter.register_structure_hook_factory(attrs.has, record_of)
    plugin = converter.get_structure_hook(PluginForm)
    converter.register_structure_hook(
        PluginForm,
        lambda value, kind: PluginForm(use=value) if isinstance(value, str) else plugin(value, kind),
    )
    converter.register_structure_hook(SecretForm, lambda value, _: _secret_of(value, converter))
    converter.register_structure_hook(PromptForm, lambda value, _: _prompt_of(value, converter))
    converter.register_structure_hook(McpAuthForm, lambda value, _: _auth_of(value, converter))
    converter.register_structure_hook(HeaderForm, lambda value, _: _header_of(value, converter))
    return converter


_CALLED: Final[Mapping[type, str]] = {list: "a list", dict: "a table"}


def _guarded(made: _Hook, wanted: type, *, splits: bool) -> _Hook:
    def hook(value: Any, kind: Any) -> Any:
        if splits and wanted is list and isinstance(value, str):
            value = [part.strip() for part in value.split(",")] if value.strip() else []
        if not isinstance(value, wanted):
            _refuse(_CALLED[wanted], value)
        return made(value, kind)

    return hook


# Created on first use and cached: a converter generates code for each form, which takes 0.1 s.
@functools.cache
def _strict() -> Converter:
    return _converter({str: _text, bool: _flag, int: _whole, float: _number}, splits=False)


@functools.cache
def _of_texts() -> Converter:
    hooks = {str: _text, bool: _flag_of_text, int: _whole_of_text, float: _number_of_text}
    return _converter(hooks, splits=True)
