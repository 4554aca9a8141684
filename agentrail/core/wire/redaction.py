"""Removal of secrets from values: a signal, a message, an answer of a plugin, and all of their parts. Pure."""

# not compiled: it recurses as deep as its input, and only interpreted functions end with a RecursionError

import copy
import dataclasses
from collections import Counter
from collections.abc import Mapping
from types import UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

import attrs
import msgspec
from msgspec.structs import fields, replace

from agentrail.core.policy.budget import Budget
from agentrail.core.protocol.signal_base import Stamped
from agentrail.core.values.secret_scrubber import KnownSecrets
from agentrail.core.wire.normalize import MINTED
from agentrail.events import Envelope
from agentrail.frozen import FrozenDict, FrozenList, frozen_value
from agentrail.messages import AssistantMessage, Image, Text, Thinking

V = TypeVar("V")

_AS_IS: Final[frozenset[type]] = frozenset({bool, int, float, type(None), bytes, Envelope, Budget})


def withheld(value: V, known: KnownSecrets) -> V:
    made: V = _value(value, known)
    return made


def _value(value: Any, known: KnownSecrets) -> Any:
    kind = type(value)
    if kind is str:
        return known.replaced(value)
    if kind in _AS_IS:
        return value
    if isinstance(value, msgspec.Struct):
        return _struct(value, known)
    if isinstance(value, Mapping):
        return _object(value, known)
    if isinstance(value, list | tuple | frozenset | set):
        return _members(value, known)
    if attrs.has(kind) or dataclasses.is_dataclass(kind):
        return _record(value, known)
    return value


def _struct(value: msgspec.Struct, known: KnownSecrets) -> msgspec.Struct:
    match value:
        case AssistantMessage():
            value = _message(value, known)
        case Image():
            return _image(value, known)
        case _:
            pass
    changes: dict[str, Any] = {}
    for name in _FIELDS.get(type(value)) or _fields_of(type(value)):
        item = getattr(value, name)
        made = _value(item, known)
        if made is not item:
            changes[name] = made
    return replace(value, **changes) if changes else value


def _message(message: AssistantMessage, known: KnownSecrets) -> AssistantMessage:
    """Check the visible text as one text, and the thinking as another: they are read and streamed that way."""
    content: list[Any] = list(message.content)
    for kind in (Text, Thinking):
        places = [place for place, block in enumerate(content) if type(block) is kind]
        pieces = [content[place].text for place in places]
        for place, piece, said in zip(places, pieces, known.replaced_pieces(pieces), strict=True):
            if said != piece:
                unsigned = {"signature": None} if kind is Thinking else {}
                content[place] = replace(content[place], text=said, **unsigned)
    is_same = all(one is other for one, other in zip(content, message.content, strict=True))
    return message if is_same else replace(message, content=tuple(content))


def _image(image: Image, known: KnownSecrets) -> Image:
    """Blacken the secret's place in a picture, which has to stay base64."""
    parts: list[str] = []
    done = 0
    for start, end in known.found_in(image.data):
        parts += (image.data[done:start], "A" * (end - start))
        done = end
    data = "".join([*parts, image.data[done:]]) if parts else image.data
    name = known.replaced(image.name)
    return image if (data, name) == (image.data, image.name) else replace(image, data=data, name=name)


def _object(value: Mapping[Any, Any], known: KnownSecrets) -> Any:
    made: dict[Any, Any] = {}
    used: Counter[Any] = Counter()
    is_same = True
    for name, item in value.items():
        said = first = _value(name, known)
        is_same = is_same and said is name
        while said in made:  # two names that were secrets
            used[first] += 1
            said = f"{first} {used[first] + 1}"
        made[said] = _value(item, known)
        is_same = is_same and made[said] is item
    if is_same:
        return value
    kind: Any = type(value)
    return frozen_value(made) if kind is FrozenDict else kind(made)


def _members(value: Any, known: KnownSecrets) -> Any:
    made = [_value(item, known) for item in value]
    if all(one is other for one, other in zip(made, value, strict=True)):
        return value
    kind: Any = type(value)
    if kind is FrozenList:
        return frozen_value(made)
    return kind._make(made) if hasattr(kind, "_make") else kind(made)


def _record(value: Any, known: KnownSecrets) -> Any:
    kind: Any = type(value)
    found = attrs.fields(kind) if attrs.has(kind) else dataclasses.fields(kind)
    changes: dict[str, Any] = {}
    for name in [field.name for field in found]:
        item = getattr(value, name)
        made = _value(item, known)
        if made is not item:
            changes[name] = made
    if not changes:
        return value
    other = copy.copy(value)
    for name, made in changes.items():
        object.__setattr__(other, name, made)  # it may be frozen, and its converters have run already
    return other


_FIELDS: Final[dict[type, tuple[str, ...]]] = {}


def _fields_of(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    minted = MINTED if issubclass(kind, Stamped) else frozenset()
    names = _FIELDS[kind] = tuple(
        [one.name for one in fields(kind) if one.name not in minted and not _is_closed(one.type)]
    )
    return names


def _is_closed(hint: Any) -> bool:
    """Return whether a field holds only numbers and words of a closed choice."""
    if get_origin(hint) in {Union, UnionType}:
        return all(map(_is_closed, get_args(hint)))
    return get_origin(hint) is Literal or hint in _AS_IS
