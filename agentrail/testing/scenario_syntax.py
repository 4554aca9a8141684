"""The syntax of scenario lines: words, texts in quotes and options, read and written by the same parts."""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin

import msgspec
from attrs import evolve, field, frozen

# Words are separated by spaces. A text is quoted, as in JSON, and `key=value` is an option. The meaning of the words is defined
# in `scenario_signals` and `scenario_head`.


def scenario_name(kind: str) -> str:
    """Return the word for a signal with this journal `kind`. Class names may change, and files must stay valid."""
    return "".join(part.capitalize() for part in kind.split("_"))


class ScenarioError(ValueError):
    """A scenario cannot be parsed. The message names the line, the expected words and the actual ones."""


@frozen
class Said:
    text: str


@frozen
class Pair:
    key: str
    value: Any
    quoted: bool = False


ScenarioWord: TypeAlias = str | Said | Pair

_BARE_WORD: Final = re.compile(r"[^\s\"=]+")
_VALUE: Final = re.compile(r"[^\s\"]*")
_JSON: Final = json.JSONDecoder()


def split_words(text: str) -> tuple[ScenarioWord, ...]:
    words: list[ScenarioWord] = []
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
        elif text[position] == '"':
            said, position = _json_at(text, position)
            words.append(Said(said))
        else:
            bare = _BARE_WORD.match(text, position)
            if bare is None:
                message = f"expected a name before '=' at column {position + 1} of {text!r}"
                raise ScenarioError(message)
            position = bare.end()
            if text[position : position + 1] != "=":
                words.append(bare[0])
            elif text[position + 1 : position + 2] in ('"', "{", "["):
                value, position = _json_at(text, position + 1)
                words.append(Pair(bare[0], value, quoted=isinstance(value, str)))
            else:
                plain = _VALUE.match(text, position + 1)
                assert plain is not None  # it matches the empty string too
                position = plain.end()
                text_behind = ""
                if text[position : position + 1] == '"':  # block:"not today"
                    text_behind, position = _json_at(text, position)
                words.append(Pair(bare[0], plain[0] + text_behind))
    return tuple(words)


def quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def name_word(text: str) -> str:
    """Return a name unchanged if it is one word, otherwise as a quoted text."""
    return text if _BARE_WORD.fullmatch(text) else quote(text)


def _json_at(text: str, position: int) -> tuple[Any, int]:
    try:
        return _JSON.raw_decode(text, position)
    except json.JSONDecodeError as error:
        message = f"expected JSON at column {position + 1} of {text!r}: {error.msg}"
        raise ScenarioError(message) from None


@frozen
class LineWords:
    """The words of a line that no part has consumed yet. Words left at the end are an error."""

    text: str
    left: list[ScenarioWord]
    grammar: str = ""

    @classmethod
    def of(cls, text: str, grammar: str = "") -> "LineWords":
        return cls(text, list(split_words(text)), grammar)

    def take_name(self) -> str | None:
        return next(self.take_all(lambda word: isinstance(word, str), 1), None)

    def take_text(self) -> str | None:
        return next((word.text for word in self.take_all(lambda word: isinstance(word, Said), 1)), None)

    def take_option(self, key: str) -> Pair | None:
        return next(self.take_all(lambda word: isinstance(word, Pair) and word.key == key, 1), None)

    def take_flag(self, flag: str) -> bool:
        return any(self.take_all(lambda word: word == flag, 1))

    def take_all(self, wanted: Callable[[ScenarioWord], bool], limit: int | None = None) -> Iterator[Any]:
        """Consume the matching words in order, up to a limit."""
        taken = list(islice(filter(wanted, self.left), limit))
        for word in taken:
            self.left.remove(word)
        return iter(taken)

    def fault(self, expected: str) -> ScenarioError:
        written = f"; it is written {self.grammar}" if self.grammar else ""
        return ScenarioError(f"{self.text!r}: {expected}{written}")

    def check_that_all_was_read(self, kind: str) -> None:
        if self.left:
            left = ", ".join(map(_as_written, self.left))
            message = f"{kind} takes no {left}"
            raise self.fault(message)


def _as_written(word: ScenarioWord) -> str:
    match word:
        case Said(text):
            return quote(text)
        case Pair(key):
            return key
        case _:
            return word


def unless(usual: bool, word: str) -> Iterator[str]:  # noqa: FBT001 - reads as a sentence where it is used
    """Yield the word, unless it states the default."""
    if not usual:
        yield word


# A `Line` is a class and a text with the places of its fields: `signal_id "reason" kill=kill_tools clear_queue= [late]`. A
# bare word is a positional field, a quoted one a text, `key=field` an option, and `[flag:field]` an optional word. The type of
# a field determines its notation, and an omitted field has the default of its class. This module knows no particular signal.

_BARE: Final = re.compile(r"[^\s\"{\[][^\s\"]*")
_TOKEN: Final = re.compile(
    r"""@(?P<special>\w+) | "(?P<text>\w+)" | \[(?P<flag>\w+):?(?P<flagged>\w*)=?(?P<value>\w*)\]
    | (?P<key>\w+)=(?P<option>\w*)\??(?P<default>\S*) | (?P<name>\w+)\+?(?P<also>\w*)""",
    re.VERBOSE,
)
_MISSING: Final = inspect.Parameter.empty


@frozen
class WordForm:
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
    """Return the default factories of fields. A signature shows only that such defaults exist."""
    if not issubclass(kind, msgspec.Struct):
        return {}
    made = ((one.name, one.default_factory) for one in msgspec.structs.fields(kind))
    return {name: make for name, make in made if make is not msgspec.NODEFAULT}


@frozen
class Part:
    """One part of a line: a field, or several that belong together."""

    read: Callable[[LineWords, dict[str, Any]], None]
    write: Callable[[Any], Iterator[str]]
    usage: str


@frozen
class Line:
    kind: type[Any]
    grammar: str = ""
    special: Mapping[str, "Part | Line | Mapping[str, Line]"] = field(factory=dict)
    forms: Mapping[Any, WordForm] = field(factory=dict)
    fixed: Mapping[str, Any] = field(factory=dict)
    parts: tuple[Part, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        tokens = (token.groupdict("") for token in _TOKEN.finditer(self.grammar))
        object.__setattr__(self, "parts", tuple(map(self._part, tokens)))

    def read(self, words: LineWords, **fields: Any) -> Any:
        for part in self.parts:
            part.read(words, fields)
        return self.kind(**self.fixed, **fields)

    def write(self, value: Any) -> Iterator[str]:
        for part in self.parts:
            yield from part.write(value)

    @property
    def usage(self) -> str:
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
        parameter = inspect.signature(self.kind).parameters[name]
        made = _made_defaults(self.kind).get(name)
        return _form_of(parameter.annotation, self.forms), parameter.default if made is None else made()


def free(
    usage: str, read: Callable[[LineWords], Mapping[str, Any]], write: Callable[[Any], Iterator[str]]
) -> Part:
    """Return a part for one kind of line, with words that depend on their order or on each other."""
    return Part(lambda words, fields: fields.update(read(words)), write, usage)


def within(name: str, line: Line | Mapping[str, Line]) -> Part:
    """Return a part that nests a line for one field. If there is a line per kind, the name of the kind precedes it."""

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
        expected = f"expected {', '.join(others)} or {last}, with their values; got {name or 'nothing'}"
        raise words.fault(expected)
    return lines[name]


def _decoded(words: LineWords, what: str, form: WordForm, written: Any) -> Any:
    try:
        return form.decode(written)
    except (ValueError, LookupError, TypeError):
        expected = f"expected {what}{form.expected}, got {written!r}"
        raise words.fault(expected) from None
