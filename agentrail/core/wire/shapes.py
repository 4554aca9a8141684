"""Shapes: the JSON form of annotated types, for encoding and decoding.

Derived from annotations, so no field is forgotten.
"""

# not compiled: it recurses as deep as its input, and only interpreted functions end with a RecursionError

import enum
import math
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType, NoneType
from typing import (
    Any,
    ClassVar,
    Final,
    Literal,
    NewType,
    NoReturn,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs
import msgspec

from agentrail.errors import AgentrailError
from agentrail.frozen import FrozenDict, FrozenList, TooDeep, frozen_value, not_json
from agentrail.structs import tag_name

T = TypeVar("T")
C = TypeVar("C", bound=Collection[Any])

PlainJson: TypeAlias = Any
"""Values that `msgspec.json` encodes directly: dictionaries, lists, texts, numbers, booleans, None, or `msgspec.Raw`."""

MAX_DIGITS: Final = 3_000
"""Maximum length of a whole number. `not_json` allows about as many, and Python needs ever more time for longer ones."""
_MAX_BITS: Final = 9_900
_MAX_SHOWN_BITS: Final = 128
_MAX_SHOWN: Final = 8

_MAPPINGS: Final = frozenset({dict, FrozenDict, MappingProxyType})
_NAMES: Final[Mapping[type, str]] = MappingProxyType(
    {
        str: "a text",
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        NoneType: "null",
        list: "an array",
        dict: "an object",
    }
)


class Misfit(Exception):
    """A value, or JSON, does not match the shape. Collects its path on the way up. The codec makes a `CodecError` of it.

    Attributes:
        fault: The expected and the actual value.
        is_news: Whether a newer version may have written it.
    """

    def __init__(self, fault: str, *, is_news: bool = False) -> None:
        super().__init__(fault)
        self.fault = fault
        self.is_news = is_news
        self._steps: list[str | int] = []

    def at(self, step: str | int) -> "Misfit":
        self._steps.append(step)
        return self

    @property
    def path(self) -> str:
        """Its path: `$.data.history[3].content`."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(self._steps))
        return "$" + "".join(steps)


class Shape:
    """Encodes and decodes values of one type. `table` holds the shared parts of one document, for shapes that refer to them.

    Attributes:
        classes: The classes whose instances it encodes.
        forms: The classes of plain values that it decodes.
        tags: For an object: the pairs of field and word that identify it. Empty if it has none.
    """

    classes: frozenset[type] = frozenset()
    forms: frozenset[type] = frozenset()
    tags: frozenset[tuple[str, str]] = frozenset()

    def encode(self, value: Any, table: Any, /) -> PlainJson:
        raise NotImplementedError

    def decode(self, plain: PlainJson, table: Any, /) -> Any:
        raise NotImplementedError


def brief_of(value: object) -> str:
    """Return a short text of a value for an error, or its kind if it is large."""
    if isinstance(value, str | float | bool | NoneType):
        return f"{value!r:.60}"
    if isinstance(value, int):
        return str(value) if value.bit_length() < _MAX_SHOWN_BITS else "a number of many digits"
    return _NAMES.get(type(value), type(value).__name__)


def raise_misfit(expected: str, given: object, *, is_news: bool = False, at: str | None = None) -> NoReturn:
    misfit = Misfit(f"expected {expected}, got {brief_of(given)}", is_news=is_news)
    raise misfit if at is None else misfit.at(at)


def expected_kind(kind: type, plain: object) -> Any:
    """Return a plain value after a check of its kind."""
    if type(plain) is not kind:
        raise_misfit(_NAMES[kind], plain)
    return plain


# --- single values


class _Scalar(Shape):
    """Texts, booleans, None, unchanged in JSON."""

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self.classes = self.forms = frozenset({kind})

    def encode(self, value: Any, table: Any) -> PlainJson:
        return value if type(value) is self._kind else expected_kind(self._kind, value)

    decode = encode


class _Whole(Shape):
    classes = forms = frozenset({int})

    def encode(self, value: Any, table: Any) -> PlainJson:
        if type(value) is not int:
            expected_kind(int, value)
        if value.bit_length() > _MAX_BITS:
            message = f"a number of more than {MAX_DIGITS} digits"
            raise Misfit(message)
        return value

    decode = encode


class _Float(Shape):
    """Always written with a point, so that equal values are equal bytes, and `2` is decoded as a float."""

    classes = forms = frozenset({float, int})

    def encode(self, value: Any, table: Any) -> PlainJson:
        if type(value) is float or type(value) is int:
            try:
                number = float(value)
            except OverflowError:
                number = math.inf
            if math.isfinite(number):
                return number
        raise_misfit("a finite number", value)

    decode = encode


class _Words(Shape):
    """One of some words, or of other literal values."""

    def __init__(self, words: tuple[Any, ...]) -> None:
        self._words = words
        self.classes = self.forms = frozenset(map(type, words))

    def encode(self, value: Any, table: Any) -> PlainJson:
        if value in self._words and type(value) in self.forms:
            return value
        raise_misfit(f"one of {', '.join(map(repr, self._words))}", value, is_news=True)

    decode = encode


class _Member(Shape):
    """A member of an enumeration, by its value."""

    def __init__(self, kind: type[enum.Enum]) -> None:
        self._by_value = {member.value: member for member in kind}
        self._words = _Words(tuple(self._by_value))
        self.classes = frozenset({kind})
        self.forms = self._words.forms

    def encode(self, value: Any, table: Any) -> PlainJson:
        if type(value) in self.classes:
            return value.value
        raise_misfit(f"one of {', '.join(map(str, self._by_value.values()))}", value)

    def decode(self, plain: PlainJson, table: Any) -> Any:
        return self._by_value[self._words.decode(plain, table)]


class Json(Shape):
    """Any JSON, or an object of it: unchanged, in its own order, frozen when it is decoded."""

    def __init__(
        self, forms: frozenset[type] = frozenset({dict, list, str, int, float, bool, NoneType})
    ) -> None:
        self.forms = forms
        self.classes: frozenset[type] = (
            forms
            | ({FrozenDict, MappingProxyType} if dict in forms else set())
            | ({FrozenList, tuple} if list in forms else set())
        )

    def encode(self, value: Any, table: Any) -> PlainJson:
        fault = not_json(value, "it")
        if fault is not None:
            raise Misfit(fault)
        return self._checked(value, self.classes)

    def decode(self, plain: PlainJson, table: Any) -> Any:
        try:
            return frozen_value(self._checked(plain, self.forms))
        except TooDeep as error:
            raise Misfit(str(error)) from error

    def _checked(self, value: object, kinds: frozenset[type]) -> Any:
        if type(value) not in kinds:
            raise_misfit(" or ".join(sorted(_NAMES[form] for form in self.forms)), value)
        return value


# --- several values


class Row(Shape):
    """An array of one kind of values, converted to any container."""

    forms: frozenset[type] = frozenset({list})

    def __init__(
        self, item: Shape, kind: type = tuple, make: Callable[[list[Any]], Any] | None = None
    ) -> None:
        """Create the shape from the item's shape, the container class, and its constructor from a list, if it is not the class."""
        self.item: Shape = item
        self._kind, self._make = kind, make or kind
        self.classes: frozenset[type] = frozenset({kind})

    def encode(self, value: Any, table: Any) -> PlainJson:
        if type(value) is not self._kind:
            raise_misfit(self._kind.__name__, value)
        return _each(self.item.encode, value, table)

    def decode(self, plain: PlainJson, table: Any) -> Any:
        return self._make(_each(self.item.decode, expected_kind(list, plain), table))


def _each(convert: Callable[[Any, Any], Any], items: Any, table: Any) -> list[Any]:
    made: list[Any] = []
    try:
        for item in items:
            made.append(convert(item, table))  # noqa: PERF401 - the length is the index of a failed item
    except Misfit as misfit:
        raise misfit.at(len(made)) from None
    return made


class _SetOf(Row):
    """A set, sorted by the encoded members, because the order of a set differs in each process."""

    def __init__(self, item: Shape) -> None:
        super().__init__(item, frozenset, lambda items: without_doubles(frozenset(items), items))

    def encode(self, value: Any, table: Any) -> PlainJson:
        items: list[Any] = super().encode(value, table)
        try:
            return sorted(items, key=written)
        except UnicodeEncodeError:
            # Half of a surrogate pair: the whole document fails to encode, and reports it.
            return items


def without_doubles(made: C, items: Sequence[Any]) -> C:
    """Return a set that was made of these items."""
    if len(made) != len(items):
        message = "a set contains a member twice"
        raise Misfit(message)
    return made


class Fixed(Shape):
    """A tuple of fixed length, each place with its own shape."""

    classes: frozenset[type] = frozenset({tuple})
    forms: frozenset[type] = frozenset({list})

    def __init__(self, places: tuple[Shape, ...]) -> None:
        self._places = places

    def encode(self, value: Any, table: Any) -> PlainJson:
        if type(value) is not tuple:
            raise_misfit("a tuple", value)
        return self._convert("encode", value, table)

    def decode(self, plain: PlainJson, table: Any) -> Any:
        return tuple(self._convert("decode", expected_kind(list, plain), table))

    def _convert(self, way: str, items: Any, table: Any) -> list[Any]:
        if len(items) != len(self._places):
            message = f"expected {len(self._places)} values, got {len(items)}"
            raise Misfit(message)
        pairs = iter(zip(self._places, items, strict=True))
        return _each(lambda pair, shared: getattr(pair[0], way)(pair[1], shared), pairs, table)


class _MapOf(Shape):
    """A mapping from texts. Its order is kept, because it may mean recency, and iteration must be the same as before."""

    classes = _MAPPINGS
    forms = frozenset({dict})

    def __init__(self, item: Shape) -> None:
        self._item = item

    def encode(self, value: Any, table: Any) -> PlainJson:
        if type(value) not in _MAPPINGS:
            raise_misfit("a mapping", value)
        return _fields(
            ((expected_kind(str, name), self._item.encode, item) for name, item in value.items()), table
        )

    def decode(self, plain: PlainJson, table: Any) -> Any:
        items = ((name, self._item.decode, item) for name, item in expected_kind(dict, plain).items())
        return MappingProxyType(_fields(items, table))


def _fields(items: Iterator[tuple[str, Callable[[Any, Any], Any], Any]], table: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, convert, item in items:
        try:
            made[name] = convert(item, table)
        except Misfit as misfit:
            raise misfit.at(name) from None
    return made


class Fields(Shape):
    """An object with all fields of a Struct or an attrs class."""

    forms: frozenset[type] = frozenset({dict})

    def __init__(
        self,
        kind: type,
        fields: Mapping[str, Shape],
        tag: tuple[str, str] | None,
        later: frozenset[str] = frozenset(),
    ) -> None:
        self._kind = kind
        self._later = {name: default for name, default in _defaults(kind) if name in later}
        self._fields = tuple(fields.items())
        self._by_name = fields
        self._required = _required(kind)
        self._tag = tag
        self.classes: frozenset[type] = frozenset({kind})
        self.tags: frozenset[tuple[str, str]] = frozenset({tag} if tag else ())
        if tag is not None and tag[0] in fields:
            message = f"{kind.__name__} has a field {tag[0]!r}, which is reserved for the tag of the class"
            raise TypeError(message)

    def encode(self, value: Any, table: Any) -> PlainJson:
        if type(value) is not self._kind:
            raise_misfit(self._kind.__name__, value)
        made: dict[str, Any] = {} if self._tag is None else {self._tag[0]: self._tag[1]}
        name = ""
        try:
            for name, shape in self._fields:
                given = getattr(value, name)
                if name not in self._later or given != self._later[name]:
                    made[name] = shape.encode(given, table)
        except Misfit as misfit:
            raise misfit.at(name) from None
        return made

    def decode(self, plain: PlainJson, table: Any) -> Any:
        given: dict[str, Any] = expected_kind(dict, plain)
        tag_field, word = self._tag or (None, None)
        if tag_field is not None and given.get(tag_field) != word:
            raise_misfit(repr(word), given.get(tag_field), is_news=True, at=tag_field)
        missing = [name for name in self._required if name not in given]
        if missing:
            message = f"the field {missing[0]!r} is missing"
            raise Misfit(message)
        made: dict[str, Any] = {}
        name = ""
        try:
            for name, item in given.items():
                shape = self._by_name.get(name)
                if shape is not None:
                    made[name] = shape.decode(item, table)
                elif name != tag_field:
                    message = f"{self._kind.__name__} has no field of this name"
                    raise Misfit(message, is_news=True)  # noqa: TRY301 - named below
        except Misfit as misfit:
            raise misfit.at(name) from None
        try:
            return self._kind(**made)
        except AgentrailError as error:  # such as a negative amount
            raise Misfit(str(error)) from error


def _required(kind: Any) -> tuple[str, ...]:
    if attrs.has(kind):
        return tuple(field.name for field in attrs.fields(kind) if field.default is attrs.NOTHING)
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.required)


def _defaults(kind: Any) -> Iterator[tuple[str, Any]]:
    if not attrs.has(kind):
        yield from ((field.name, field.default) for field in msgspec.structs.fields(kind))


def _in_order(kinds: frozenset[type]) -> list[type]:
    return sorted(kinds, key=lambda kind: kind.__qualname__)


class _OneOf(Shape):
    """A union. The JSON identifies the member: by the kind of the value, or for objects by a tag."""

    def __init__(self, options: tuple[Shape, ...], hint: Any) -> None:
        self._by_class = {kind: option for option in options for kind in _in_order(option.classes)}
        self._by_tag: dict[tuple[str, Any], Shape] = {
            tag: option for option in options for tag in sorted(option.tags)
        }
        self._tag_fields = tuple(dict.fromkeys(field for field, _ in self._by_tag))
        untagged = [(form, one) for one in options if not one.tags for form in _in_order(one.forms)]
        self._by_form = dict(untagged)
        loose = [form for form, _ in untagged]
        classes = [kind for option in options for kind in _in_order(option.classes)]
        if max(_most(loose), _most(classes)) > 1 or (dict in loose and self._by_tag):
            message = f"the members of {hint} cannot be told apart once encoded"
            raise TypeError(message)
        self.classes = frozenset(self._by_class)
        self.forms = frozenset(form for option in options for form in option.forms)
        self.tags = frozenset(self._by_tag)

    def encode(self, value: Any, table: Any) -> PlainJson:
        option = self._by_class.get(type(value))
        if option is None:
            wanted = sorted(_NAMES.get(kind, kind.__name__) for kind in self.classes)
            raise_misfit(_some_of(wanted), value)
        return option.encode(value, table)

    def decode(self, plain: PlainJson, table: Any) -> Any:
        option = self._by_form.get(type(plain))
        if option is None and type(plain) is dict:
            tags = ((field, tag) for field in self._tag_fields if isinstance(tag := plain.get(field), str))
            option = next((self._by_tag[tag] for tag in tags if tag in self._by_tag), None)
        if option is None:
            words = {*(_NAMES[form] for form in self._by_form), *(repr(word) for _, word in self._by_tag)}
            message = f"expected {_some_of(sorted(words))}, got {_shown_kind(plain, self._tag_fields)}"
            raise Misfit(message, is_news=type(plain) is dict)
        return option.decode(plain, table)


def _some_of(words: list[str]) -> str:
    more = f" or {len(words) - _MAX_SHOWN} more" if len(words) > _MAX_SHOWN else ""
    return " or ".join(words[:_MAX_SHOWN]) + more


def _most(kinds: list[type]) -> int:
    return max(map(kinds.count, kinds), default=0)


def _shown_kind(plain: PlainJson, tag_fields: tuple[str, ...]) -> str:
    words = [brief_of(plain[field]) for field in tag_fields if field in plain] if type(plain) is dict else []
    return words[0] if words else brief_of(plain)


def step_down(step: str | int, function: Callable[..., T], *args: Any) -> T:
    """Call a function that may raise `Misfit`, and add this step to its path."""
    try:
        return function(*args)
    except Misfit as misfit:
        raise misfit.at(step) from None


def written(plain: PlainJson) -> bytes:
    return _encoder.encode(plain)


def _as_object(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    message = f"{type(value).__name__} is not JSON"
    raise TypeError(message)


_encoder: Final = msgspec.json.Encoder(enc_hook=_as_object)


# --- from annotations to shapes

Special: TypeAlias = Callable[["Shapes", Any], Shape | None]


@attrs.define(eq=False)
class Shapes:
    """The shapes of annotations, each made once."""

    _PLAIN: ClassVar[Mapping[Any, Shape]] = MappingProxyType(
        {str: _Scalar(str), bool: _Scalar(bool), NoneType: _Scalar(NoneType), int: _Whole(), float: _Float()}
    )

    _special: Special
    _of_fields: Mapping[tuple[str, str], Any] = MappingProxyType({})
    _later: frozenset[tuple[str, str]] = frozenset()
    _known: dict[Any, Shape] = attrs.field(init=False, factory=lambda: dict(Shapes._PLAIN))

    @property
    def known(self) -> tuple[Shape, ...]:
        return tuple(self._known.values())

    def of(self, hint: Any) -> Shape:
        found = self._known.get(hint)
        if found is None:
            found = self._known[hint] = self._special(self, hint) or self._made(hint)
        return found

    def picked_fields(self, kind: Any, *, must_tell: bool = False) -> Fields:
        hints = get_type_hints(kind)
        names = [
            field.name for field in (attrs.fields(kind) if attrs.has(kind) else msgspec.structs.fields(kind))
        ]
        fields: dict[str, Shape] = {}
        for name in names:
            hint = self._of_fields.get((kind.__name__, name), hints[name])
            try:
                fields[name] = self.of(hint)
            except TypeError as error:
                error.add_note(f"as {kind.__name__}.{name}")
                raise
        config = getattr(kind, "__struct_config__", None)
        tag = None if config is None or config.tag is None else (config.tag_field, config.tag)
        later = frozenset(name for name in names if (kind.__name__, name) in self._later)
        return Fields(kind, fields, tag or (("kind", tag_name(kind.__name__)) if must_tell else None), later)

    def _made(self, hint: Any) -> Shape:
        origin, inner = get_origin(hint), get_args(hint)
        if isinstance(hint, NewType):
            return self.of(hint.__supertype__)
        if origin in {Union, types.UnionType}:
            return self._union(hint, inner)
        if origin is Literal:
            return _Words(inner)
        if origin is tuple:
            if inner[1:] == (...,):
                return Row(self.of(inner[0]))
            return Fixed(tuple(map(self.of, inner)))
        if origin is frozenset:
            return _SetOf(self.of(inner[0]))
        if origin is Mapping and self.of(inner[0]) is self._PLAIN[str]:
            value = self.of(inner[1])
            return Json(frozenset({dict})) if isinstance(value, Json) else _MapOf(value)
        kind = origin or hint
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return _Member(kind)
        if isinstance(kind, type) and (issubclass(kind, msgspec.Struct) or attrs.has(kind)):
            return self.picked_fields(kind)
        message = f"a value of {hint} has no stored form: give it a shape in `state_codec`"
        raise TypeError(message)

    def _union(self, hint: Any, members: tuple[Any, ...]) -> Shape:
        if list[Any] in members:  # no field of ours is a list: this is the inside of JSON
            return Json()
        if all(get_origin(member) in _MAPPINGS for member in members):
            return self.of(Mapping[get_args(members[0])])  # type: ignore[misc]  # what only the running program knows
        words = tuple(
            word for member in members if get_origin(member) is Literal for word in get_args(member)
        )
        others = [member for member in members if get_origin(member) is not Literal]
        by_shape = {self.of(member): member for member in others}  # two kinds of ids have the same JSON type
        objects = sum(dict in shape.forms for shape in by_shape)
        told = [
            self.picked_fields(get_origin(member) or member, must_tell=True)
            if objects > 1 and isinstance(shape, Fields) and not shape.tags
            else shape
            for shape, member in by_shape.items()
        ]
        return _OneOf((*told, *((_Words(words),) if words else ())), hint)
