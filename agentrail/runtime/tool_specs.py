"""Specs of tools, checked once while they stay the same."""

import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import attrgetter, is_
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from agentrail.abc import Tool, ToolListing
from agentrail.core.session.agent_records import ANSWERED_BY_SESSIONS
from agentrail.core.values.toolbox import EffectClass, Toolbox, ToolSpec
from agentrail.errors import ToolDefinitionError
from agentrail.frozen import TooDeep, frozen_json, not_json
from agentrail.messages import JsonObject
from agentrail.otp.child_specs import is_whole
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.guarded_calls import call_guarded, is_async
from agentrail.runtime.session_options import TOOL_MEMBERS

MakeListing: TypeAlias = Callable[[], ToolListing]
"""Describes a session to the tools that write their description for it. Few do."""
SpecOf: TypeAlias = Callable[[Tool, MakeListing], ToolSpec]
"""Returns the checked spec of a tool for a session."""

MAX_KEPT: Final = 256
"""Number of specs kept for tools that are equal but not identical, as in a program that creates a tool per session."""


class ToolSpecs:
    """Checked specs of tools. Cached, because checking and compiling a schema costs more than a session."""

    def __init__(self) -> None:
        self._kept: weakref.WeakKeyDictionary[Tool, ToolSpec] = weakref.WeakKeyDictionary()
        self._by_content: dict[_Content, ToolSpec] = {}
        self._last_box: tuple[tuple[ToolSpec, ...], Toolbox] = ((), Toolbox())

    def box_of(self, tools: Iterable[Tool], listing: MakeListing) -> tuple[Toolbox, tuple[str, ...]]:
        """Return the frozen toolbox of a new session: that of the previous session, if the tools are the same."""
        specs = tuple([self.of(tool, listing) for tool in tools])
        known, box = self._last_box
        # Identical ones, not equal ones: `of` has compared them already.
        if len(specs) != len(known) or not all(map(is_, specs, known)):
            box = Toolbox(specs)
            self._last_box = (specs, box)
        return box, tuple([spec.name for spec in specs])

    def of(self, tool: Tool, listing: MakeListing) -> ToolSpec:
        # A tool without a hash, or with one that raises, is checked for each session.
        kept = call_guarded(lambda _: _NO_KEY, self._kept.get, tool)
        # Each member is the object that was checked, none of which can change. A computed text is another one.
        if kept and call_guarded(
            lambda _: False, lambda: all(map(is_, _read_members(tool), _read_members(kept)))
        ):
            return kept
        spec = _spec_of(tool, listing)
        if kept is None or kept != spec:  # a tool's spec may change over time, or between callers
            checked = self._checked(spec)
            _check_traits(tool, checked)
            if kept is _NO_KEY:
                return checked
            kept = self._kept[tool] = checked
        return kept

    def _checked(self, spec: ToolSpec) -> ToolSpec:
        content = _content_of(spec)
        known = None if content is None else self._by_content.pop(content, None)
        # The bytes of a schema do not show values that are no JSON. A schema is frozen, so the same object was checked.
        if known is None or known.parameters is not spec.parameters:
            _check_types(spec)
        if known is None:
            spec.check()
            known = spec
        if content is not None:
            self._by_content[content] = known  # move to the newest position
            if len(self._by_content) > MAX_KEPT:
                del self._by_content[next(iter(self._by_content))]
        return known


_Content: TypeAlias = tuple[object, ...]

_EXACT: Final = frozenset({str, int, float, bool, type(None)})
_members_of: Final[Callable[[ToolSpec], tuple[object, ...]]] = attrgetter(
    *(name for name in ToolSpec.__struct_fields__ if name != "parameters")
)


def _content_of(spec: ToolSpec) -> _Content | None:
    members = _members_of(spec)
    kinds = tuple(map(type, members))  # a dictionary treats `True` as `1`, and `1` as `1.0`
    if not _EXACT.issuperset(kinds):
        return None
    schema = call_guarded(lambda _: None, msgspec.json.encode, spec.parameters)
    return None if schema is None else (schema, kinds, *members)


_NO_KEY: Final[Any] = ()


def _spec_of(tool: Any, listing: MakeListing) -> ToolSpec:
    spec = call_guarded(partial(_refuse_reading, tool), _read_all, tool)
    described: Any = spec.description
    if not callable(described):
        return spec
    return replace(
        spec, description=call_guarded(partial(_refuse_description, spec.name), described, listing())
    )


def _read_all(tool: Any) -> ToolSpec:
    return ToolSpec(
        name=tool.name,
        description=tool.description,
        parameters=_schema_of(tool),
        **{name: getattr(tool, name, default) for name, default in _DEFAULTS.items()},
    )


def _schema_of(tool: Any) -> JsonObject:
    schema: Any = tool.parameters
    if not isinstance(schema, Mapping):
        message = f"the schema of tool {tool.name!r} is of type {type(schema).__name__}: expected a JSON Schema as a dict"
        raise ToolDefinitionError(message)
    try:
        return frozen_json(schema)
    except TooDeep as error:
        message = f"the schema of tool {tool.name!r} is {error}, or contains itself: simplify it"
        raise ToolDefinitionError(message) from None


_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "killable": True,
        "effect_class": "once",
        "timeout_seconds": None,
        "max_retries": None,
        "polling": False,
        "answered_by": "code",
    }
)
"""Defaults of members that a tool does not define."""
_read_members: Final[Callable[[Any], tuple[object, ...]]] = attrgetter(
    "name", "description", "parameters", *_DEFAULTS
)


def _refuse_reading(tool: Any, error: BaseException) -> NoReturn:
    if isinstance(error, ToolDefinitionError):
        raise error
    who = call_guarded(lambda _: f"<{type(tool).__name__}>", getattr, tool, "name", "")
    for member in (*TOOL_MEMBERS, *_DEFAULTS):
        call_guarded(partial(_refuse_member, who, member), _read, tool, member)
    message = f"tool {who!r} could be read once but not again: make its members plain attributes"
    raise ToolDefinitionError(message) from None


def _read(tool: Any, member: str) -> Any:
    return getattr(tool, member, None)


def _refuse_member(who: object, member: str, error: BaseException) -> NoReturn:
    message = f"reading {member!r} of tool {who!r} raised {describe_bug(error)}: make it a plain attribute"
    raise ToolDefinitionError(message) from None


def _refuse_description(who: str, error: BaseException) -> NoReturn:
    message = (
        f"the description of tool {who!r} raised {describe_bug(error)}: "
        "expected a function of a ToolListing that returns text"
    )
    raise ToolDefinitionError(message) from None


def _check_types(spec: Any) -> None:
    """Reject what a type checker would have rejected, since a tool may be a foreign object."""
    if not isinstance(spec.name, str):
        message = f"a tool is named {_shown(spec.name)}: expected a text"
        raise ToolDefinitionError(message)
    if not isinstance(spec.description, str):
        message = (
            f"the description of tool {spec.name!r} is {_shown(spec.description)}: "
            "expected a text, or a function of a ToolListing that returns one"
        )
        raise ToolDefinitionError(message)
    fault = not_json(spec.parameters)
    if fault is not None:
        message = f"the schema of tool {spec.name!r} is not JSON: {fault}"
        raise ToolDefinitionError(message)
    seconds, retries = spec.timeout_seconds, spec.max_retries
    _check(spec, "killable", isinstance(spec.killable, bool), "True or False")
    _check(spec, "polling", isinstance(spec.polling, bool), "True or False")
    _check(spec, "timeout_seconds", seconds is None or _is_number(seconds), "a number of seconds, or None")
    _check(
        spec, "max_retries", retries is None or is_whole(retries, at_least=0), "a whole number >= 0, or None"
    )
    _check(spec, "effect_class", *_one_of(spec.effect_class, get_args(EffectClass)))
    is_one = spec.answered_by != "machine" or spec.name in ANSWERED_BY_SESSIONS
    _check(spec, "answered_by", is_one, "'code', because sessions do not answer calls of that tool")
    _check(spec, "answered_by", *_one_of(spec.answered_by, ("code", "user", "child", "client", "machine")))


def _check_traits(tool: Tool, spec: ToolSpec) -> None:
    found = {
        member: call_guarded(partial(_refuse_member, spec.name, member), _read, tool, member)
        for member in ("max_result_bytes", "threaded", "label", "execute", "reconcile")
    }
    for member, is_right, expected in _TRAITS:
        _check(spec, member, is_right(found[member]), expected, found[member])
    if spec.effect_class == "reconcilable" and found["reconcile"] is None:
        message = (
            f"tool {spec.name!r} is 'reconcilable' and has no `reconcile(operation_id, ctx)`: "
            "give it one, or another effect_class"
        )
        raise ToolDefinitionError(message)


_TRAITS: Final[tuple[tuple[str, Callable[[Any], bool], str], ...]] = (
    (
        "max_result_bytes",
        lambda most: most is None or is_whole(most, at_least=1),
        "a whole number above 0",
    ),
    ("threaded", lambda threaded: threaded is None or isinstance(threaded, bool), "True or False"),
    ("label", lambda label: label is None or callable(label), "a method that takes the arguments"),
    ("execute", is_async, "an async method (`async def`) that takes arguments and a ToolContext"),
    ("reconcile", lambda one: one is None or is_async(one), "an async method (`async def`), or None"),
)
_ITS_OWN: Final = object()


def _check(spec: Any, member: str, is_right: bool, expected: str, value: object = _ITS_OWN) -> None:  # noqa: FBT001 - the result of the check
    if not is_right:
        came = _shown(getattr(spec, member) if value is _ITS_OWN else value)
        message = f"tool {spec.name!r} has {member} {came}: expected {expected}"
        raise ToolDefinitionError(message)


def _one_of(value: object, known: tuple[str, ...]) -> tuple[bool, str]:
    return isinstance(value, str) and value in known, f"one of {', '.join(map(repr, known))}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: object) -> str:
    return call_guarded(lambda _: f"<{type(value).__name__}>", repr, value)[:200]
