"""How the lines of a scenario are read and written: by the same parts, so that reader and writer cannot disagree.

A `Line` is a class and, in one text, the places of its fields: `signal_id "reason" kill=kill_tools clear_queue= [late]`. A
bare word is a field by its place, one in quotes a text, `key=field` an option and `[flag:field]` a word that is there or not.
How a value is written follows from its type, and what is left out has the default of its class. What a particular signal
means does not enter this file.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

import msgspec
from attrs import evolve, field, frozen

from agentrail.testing.scenario_words import LineWords, quote

_BARE: Final = re.compile(r"[^\s\"{\[][^\s\"]*")
_TOKEN: Final = re.compile(
    r"""@(?P<special>\w+) | "(?P<text>\w+)" | \[(?P<flag>\w+):?(?P<flagged>\w*)=?(?P<value>\w*)\]
    | (?P<key>\w+)=(?P<option>\w*)\??(?P<default>\S*) | (?P<name>\w+)\+?(?P<also>\w*)""",
    re.VERBOSE,
)
_MISSING: Final = inspect.Parameter.empty


@frozen
class WordForm:
    """How one value stands in a word.

    Attributes:
        expected: What a reader expects, for the message about something else.
        decode: Makes a value of what stands there; a `ValueError`, `LookupError` or `TypeError` refuses it.
        encode: The inverse.
        empty: The value of a field that is left out and has no default.
    """

    expected: str
    decode: Callable[[Any], Any]
    encode: Callable[[Any], str]
    empty: Any = _MISSING


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


TEXT: Final = WordForm("a text", str, lambda text: text if _BARE.fullmatch(text) else quote(text), "")
JSON: Final = WordForm("JSON", lambda value: value, _json, {})
LIST: Final = WordForm("a JSON list", tuple, _json, ())
_COUNT: Final = WordForm("a whole number", int, str, 0)
_COUNT_OR_NONE: Final = WordForm(
    "a whole number or none",
    lambda text: None if text == "none" else int(text),
    lambda value: "none" if value is None else str(value),
)


def _choice(words: Mapping[str, Any]) -> WordForm:
    values = {value: word for word, value in words.items()}
    return WordForm("|".join(words), words.__getitem__, values.__getitem__)


def _listed(form: WordForm, kind: type) -> WordForm:
    return WordForm(
        f"{form.expected},…",
        lambda text: kind(map(form.decode, filter(None, text.split(",")))),
        lambda values: ",".join(map(form.encode, sorted(values) if kind is frozenset else values)),
        kind(),
    )


_PLAIN: Final[Mapping[Any, WordForm]] = {
    str: TEXT,
    int: _COUNT,
    float: WordForm("a number", float, str),
    bool: _choice({"yes": True, "no": False}),
}


def _form_of(hint: Any, forms: Mapping[Any, WordForm]) -> WordForm:
    hint = getattr(hint, "__supertype__", hint)  # of a NewType
    if hint in forms or hint in _PLAIN:
        return forms.get(hint) or _PLAIN[hint]
    members = [member for member in get_args(hint) if member is not NoneType]
    match get_origin(hint):
        case kind if kind is Literal:
            return _choice({word: word for word in members})
        case kind if kind in {tuple, frozenset}:
            return _listed(_form_of(members[0], forms), kind)
        case kind if kind in {UnionType, Union} and not any(get_origin(one) is dict for one in members):
            form = _form_of(members[0], forms)
            or_none = _COUNT_OR_NONE if form is _COUNT else evolve(form, empty=None)
            return or_none if NoneType in get_args(hint) else form
        case _:
            return JSON


def _made_defaults(kind: type[Any]) -> Mapping[str, Callable[[], Any]]:
    """Give the functions that make the defaults of some fields, of which a signature says only that there are some."""
    if not issubclass(kind, msgspec.Struct):
        return {}
    made = ((one.name, one.default_factory) for one in msgspec.structs.fields(kind))
    return {name: make for name, make in made if make is not msgspec.NODEFAULT}


@frozen
class Part:
    """One part of a line: a field, or a few that belong together.

    Attributes:
        read: Takes words, and puts the fields that they stand for beside those that are there; raises `ScenarioError`.
        write: Gives the words for a value that has the fields.
        usage: What stands there, for messages.
    """

    read: Callable[[LineWords, dict[str, Any]], None]
    write: Callable[[Any], Iterator[str]]
    usage: str


@frozen
class Line:
    """A kind of value, and the parts that its words are read by and written by.

    Attributes:
        kind: Its class.
        grammar: The places of its fields, in the order of writing; options and flags are read wherever they stand.
        special: What the grammar names with an `@`: a part, or for the field of that name a line, or one for each of its kinds.
        forms: How values of some types stand in a word.
        fixed: Fields that have no words.
    """

    kind: type[Any]
    grammar: str = ""
    special: Mapping[str, "Part | Line | Mapping[str, Line]"] = field(factory=dict)
    forms: Mapping[Any, WordForm] = field(factory=dict)
    fixed: Mapping[str, Any] = field(factory=dict)
    parts: tuple[Part, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make the parts."""
        tokens = (token.groupdict("") for token in _TOKEN.finditer(self.grammar))
        object.__setattr__(self, "parts", tuple(map(self._part, tokens)))

    def read(self, words: LineWords, **fields: Any) -> Any:
        """Make a value of the words that the parts take.

        Raises:
            ScenarioError: Your move: a word is missing, or is not what was expected.
        """
        for part in self.parts:
            part.read(words, fields)
        return self.kind(**self.fixed, **fields)

    def write(self, value: Any) -> Iterator[str]:
        """Give the words for a value."""
        for part in self.parts:
            yield from part.write(value)

    @property
    def usage(self) -> str:
        """What a line of the kind looks like, for messages."""
        return " ".join(part.usage for part in self.parts)

    def _part(self, token: Mapping[str, str]) -> Part:
        match token:
            case {"special": name} if name:
                special = self.special[name]
                return special if isinstance(special, Part) else within(name, special)
            case {"text": name} if name:
                return _text(name, *self._kind_of(name))
            case {"flag": word, "flagged": other} if word:
                return _flag(other or word, word, token["value"] or not self._kind_of(other or word)[1])
            case {"key": key, "option": other} if key:
                return option(key, *self._kind_of(other or key), name=other, unless_said=token["default"])
            case _:
                return _name(token["name"], self._kind_of(token["name"])[0], token["also"])

    def _kind_of(self, name: str) -> tuple[WordForm, Any]:
        """Give the form and the default of a field."""
        parameter = inspect.signature(self.kind).parameters[name]
        made = _made_defaults(self.kind).get(name)
        return _form_of(parameter.annotation, self.forms), parameter.default if made is None else made()


def free(
    usage: str, read: Callable[[LineWords], Mapping[str, Any]], write: Callable[[Any], Iterator[str]]
) -> Part:
    """Make a part of what only one kind of line has: words that depend on their order, or on each other."""
    return Part(lambda words, fields: fields.update(read(words)), write, usage)


def within(name: str, line: Line | Mapping[str, Line]) -> Part:
    """Make a part of a line for the value of one field, or of one for each of its kinds, with the name of the kind before it."""

    def read(words: LineWords, fields: dict[str, Any]) -> None:
        fields[name] = line.read(words) if isinstance(line, Line) else _named(words, line).read(words)

    def write(value: Any) -> Iterator[str]:
        inner = getattr(value, name)
        if isinstance(line, Line):
            return line.write(inner)
        kind, found = next((kind, one) for kind, one in line.items() if one.kind is type(inner))
        return iter((kind, *found.write(inner)))

    return Part(read, write, line.usage if isinstance(line, Line) else f"{'|'.join(line)} …")


def option(
    key: str, form: WordForm, default: Any = _MISSING, *, name: str = "", unless_said: str = ""
) -> Part:
    """Make a part of `key=value`.

    Args:
        key: Its name.
        form: How the value stands there.
        default: What its absence means, in the class.
        name: The field; the key, unless it says something else.
        unless_said: What its absence means here, as it would be written; `@field` is what that field says.
    """
    name, other = name or key, unless_said.removeprefix("@")
    decoder = evolve(form, decode=json.loads) if form.expected == JSON.expected else form  # of a bare word

    def read(words: LineWords, fields: dict[str, Any]) -> None:
        pair = words.take_option(key)
        if pair is not None:
            is_bare = isinstance(pair.value, str) and not pair.quoted
            fields[name] = _decoded(words, f"{key}=", decoder if is_bare else form, pair.value)
        elif unless_said:
            fields[name] = form.decode(other) if other == unless_said else fields[other]
        elif default is _MISSING:
            fields[name] = form.empty

    def write(value: Any) -> Iterator[str]:
        said, usual = getattr(value, name), default
        if unless_said:
            usual = form.decode(other) if other == unless_said else getattr(value, other)
        if said != usual:
            yield f"{key}={form.encode(said)}"

    return Part(read, write, f"{key}={form.expected if '|' in form.expected else '…'}")


def _name(name: str, form: WordForm, also: str) -> Part:
    def read(words: LineWords, fields: dict[str, Any]) -> None:
        word = words.take_name()
        if word is None:
            expected = f"expected {form.expected} for {name}, got nothing"
            raise words.fault(expected)
        fields[name] = _decoded(words, f"{name}: ", form, word)
        fields.update({also: fields[name]} if also else {})

    return Part(read, lambda value: iter((form.encode(getattr(value, name)),)), name)


def _text(name: str, form: WordForm, default: Any) -> Part:
    def read(words: LineWords, fields: dict[str, Any]) -> None:
        text = words.take_text()
        if text is not None or default is _MISSING:
            fields[name] = form.empty if text is None else text

    def write(value: Any) -> Iterator[str]:
        text = getattr(value, name)
        return iter(()) if text is None else iter((quote(text),))

    return Part(read, write, f'"{name}"')


def _flag(name: str, word: str, meaning: Any) -> Part:
    return Part(
        lambda words, fields: fields.update({name: meaning} if words.take_flag(word) else {}),
        lambda value: iter((word,) if getattr(value, name) == meaning else ()),
        f"[{word}]",
    )


def _named(words: LineWords, lines: Mapping[str, Line]) -> Line:
    name = words.take_name()
    if name is None or name not in lines:
        *others, last = lines
        expected = f"expected {', '.join(others)} or {last}, and what they say; got {name or 'nothing'}"
        raise words.fault(expected)
    return lines[name]


def _decoded(words: LineWords, what: str, form: WordForm, written: Any) -> Any:
    try:
        return form.decode(written)
    except (ValueError, LookupError, TypeError):
        expected = f"expected {what}{form.expected}, got {written!r}"
        raise words.fault(expected) from None
