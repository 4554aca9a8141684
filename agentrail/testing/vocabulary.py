"""What is said in a drawn conversation: tools that fit the plugins, arguments that fit the tools, and words that matter.

A plugin looks for something: a tool, a path, a word. Drawing any text would hardly ever meet it, so the words that a
plugin's own code compares with are among those that people, models and tools say.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from types import CodeType
from typing import Any, Final

import attrs
import msgspec
from attrs import frozen
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from agentrail.core.stack.plugin import Plugin
from agentrail.core.values.toolbox import Toolbox, ToolSpec, read_call
from agentrail.messages import JsonObject, ToolCall

_MAX_WORDS: Final = 40
_MAX_TOOLS: Final = 6
_MAX_CHARACTERS: Final = 60
_LARGE: Final = 10**9
_TOOL_NAME: Final = re.compile(r"[a-z][a-z0-9_]{2,30}")
_KEYS: Final = ("path", "command", "text")
_BROKEN: Final = ('{"path": ', "[]", "")
_CALL_IDS: Final = ("c1", "c2", "c3")
_PLAIN_WORDS: Final = ("a", "b", "README.md")


def _takes(*required: str) -> JsonObject:
    properties: dict[str, Any] = {key: {"type": "string"} for key in _KEYS}
    return {"type": "object", "properties": properties, "required": list(required)}


COMMON_TOOLS: Final = (
    ToolSpec(name="read_file", description="", parameters=_takes("path"), effect_class="pure"),
    ToolSpec(name="shell", description="", parameters=_takes("command")),
    ToolSpec(name="write_file", description="", parameters=_takes("path", "text"), killable=False),
)
"""What is called unless the caller says what there is."""


@frozen(kw_only=True)
class Vocabulary:
    """What can be said.

    Attributes:
        tools: That a model may call.
        words: That matter to a plugin.
        numbers: That matter to a plugin.
    """

    tools: Toolbox
    words: tuple[str, ...] = _PLAIN_WORDS
    numbers: tuple[float, ...] = ()

    def texts(self) -> SearchStrategy[str]:
        """Draw what people, models and tools say."""
        return st.sampled_from(("Go on.", *self.words))

    def arguments(self, spec: ToolSpec) -> SearchStrategy[JsonObject]:
        """Draw arguments that fit a schema, as far as plain schemas go."""
        value = self._value(spec.parameters)
        return value if spec.parameters.get("properties") else st.just({})

    def calls(self) -> SearchStrategy[ToolCall]:
        """Draw calls as a model makes them: most can be run, some are broken, some are of a tool that is not there."""
        good = [self._call(st.just(spec.name), self.arguments(spec).map(json.dumps)) for spec in self.tools]
        names = st.sampled_from((*self.tools.names, "raed_file"))
        return st.one_of(*good, self._call(names, st.sampled_from(_BROKEN)))

    @staticmethod
    def _call(name: SearchStrategy[str], text: SearchStrategy[str]) -> SearchStrategy[ToolCall]:
        return st.builds(read_call, st.sampled_from(_CALL_IDS), name, text)

    def _value(self, schema: Mapping[str, Any]) -> SearchStrategy[Any]:
        if "enum" in schema:
            return st.sampled_from(list(schema["enum"]))
        kinds = schema.get("type", "string")
        match kinds if isinstance(kinds, str) else kinds[0]:
            case "object":
                needed = schema.get("required", ())
                each = {key: self._value(one) for key, one in schema.get("properties", {}).items()}
                optional = {key: one for key, one in each.items() if key not in needed}
                return st.fixed_dictionaries(
                    {key: each[key] for key in needed if key in each}, optional=optional
                )
            case "array":
                return st.lists(self._value(schema.get("items", {})), max_size=2)
            case "integer":
                return st.sampled_from((1, 0, 2, -1, *(math.floor(number) for number in self.numbers)))
            case "number":
                return st.sampled_from((1.0, 0.0, -1.0, *self.numbers))
            case "boolean":
                return st.booleans()
            case "null":
                return st.none()
            case _:
                return st.sampled_from((*_PLAIN_WORDS, *self.words))


def vocabulary_of(plugins: Sequence[Plugin], tools: Sequence[ToolSpec] | None) -> Vocabulary:
    """Find out what matters to some plugins.

    Args:
        plugins: The members of a stack.
        tools: That there are; for None the common ones, and one for each name that a plugin may mean.
    """
    constants = list(dict.fromkeys(chain.from_iterable(map(_constants_of, plugins))))
    words = [word for word in constants if isinstance(word, str) and 0 < len(word) <= _MAX_CHARACTERS]
    numbers = [
        float(number) for number in constants if isinstance(number, int | float) and abs(number) < _LARGE
    ]
    if tools is None:
        known = {spec.name for spec in COMMON_TOOLS}
        meant = (word for word in words if _TOOL_NAME.fullmatch(word) and word not in (*known, *_KEYS))
        more = [
            ToolSpec(name=name, description="", parameters=_takes()) for name in islice(meant, _MAX_TOOLS)
        ]
        tools = (*COMMON_TOOLS, *more)
    near = tuple(around for number in numbers[:_MAX_TOOLS] for around in (number, number + 1))
    chosen = tuple(sorted(words, key=len)[:_MAX_WORDS])
    return Vocabulary(tools=Toolbox(tools), words=(*_PLAIN_WORDS, *chosen), numbers=near)


def _constants_of(plugin: Plugin) -> Iterator[object]:
    """Give the texts and numbers that stand in a plugin's code and values."""
    yield from _flat(list(getattr(plugin, "__dict__", {}).values()))
    for cls in type(plugin).__mro__:
        if cls.__module__.startswith(
            ("agentrail.plugins.base", "agentrail.core", "abc", "builtins", "typing")
        ):
            continue
        yield from _flat(
            [value for name, value in vars(cls).items() if not name.startswith("_") and name != "name"]
        )


def _flat(values: Iterable[Any]) -> Iterator[object]:
    for value in values:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            yield value
        elif isinstance(value, tuple | list | frozenset | set):
            yield from _flat(sorted(value, key=repr) if isinstance(value, frozenset | set) else value)
        elif isinstance(value, Mapping):
            yield from _flat((*value.keys(), *value.values()))
        elif isinstance(value, msgspec.Struct):
            yield from _flat(msgspec.structs.astuple(value))
        elif attrs.has(type(value)):
            yield from _flat(attrs.astuple(value, recurse=False))
        elif callable(value) and hasattr(value, "__code__"):
            yield from _of_code(value.__code__, value.__globals__)
            yield from _flat((*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()))


def _of_code(code: CodeType, names: Mapping[str, Any]) -> Iterator[object]:
    # The first constant of a function is its docstring, or None; lambdas and the like have neither.
    for constant in code.co_consts if code.co_name.startswith("<") else code.co_consts[1:]:
        if isinstance(constant, CodeType):
            yield from _of_code(constant, names)
        else:
            yield from _flat([constant])
    for name in code.co_names:
        if isinstance(names.get(name), str | int | float | tuple | frozenset | Mapping):
            yield from _flat([names[name]])
