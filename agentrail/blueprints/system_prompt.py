"""The system prompt of a blueprint: base, capabilities, own text.

While a session runs, the mode and the plugins' sections follow, sorted by key. Text that changes between requests goes after the conversation, to keep prompt
caches valid.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set as AbstractSet
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeAlias

from attrs import field, frozen

from agentrail.core.policy.request_context import fixed_tokens_of
from agentrail.core.session.state import PromptMode
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import OptionError
from agentrail.errors.name_guesses import guess_name, near_name
from agentrail.frozen import EMPTY, FrozenDict
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.guarded_calls import call_guarded, repr_of
from agentrail.runtime.session_options import frozen_mapping

BASE_KEY: Final = "base"
OWN_KEY: Final = "blueprint"
MODE_KEY: Final = "mode"
RESERVED_KEYS: Final = frozenset({BASE_KEY, OWN_KEY, MODE_KEY, "tools"})
"""Keys of layers, which sections cannot use."""

NOT_FOR_TASKS: Final = frozenset({"skills", "memory", "agent_memory"})
"""Keys omitted in the mode `task`."""

_PLACE: Final = re.compile(r"\$(\$?)\{([A-Za-z_][A-Za-z0-9_]{0,63})\}")
_COMMENT: Final = re.compile(r"\s*<!--.*?-->[ \t]*(?:\r?\n)*", re.DOTALL)


@frozen(kw_only=True)
class PromptContext:
    """Input of a section that is a function. Equal contexts must give equal texts.

    Attributes:
        agent: Name of the blueprint.
        prompt_mode: Selects the layers.
        model: The model string. None if unknown or not a text.
        tools: Names of its tools, in order.
        agents: Names of the agents that may work for it.
        capabilities: Names of its bundles.
        values: The mapping `user_data["prompt"]`, read-only.
    """

    agent: str
    prompt_mode: PromptMode = "full"
    model: str | None = None
    tools: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    values: Mapping[str, Any] = EMPTY


Section: TypeAlias = str | Callable[[PromptContext], str | None]
"""A text with `${name}` placeholders, or a pure function that returns the final text, or None for no section."""


def all_sections(sections: Mapping[str, Section]) -> Mapping[str, Section]:
    given: Any = sections
    return MappingProxyType(dict(given)) if isinstance(given, Mapping) else given


@frozen(kw_only=True)
class PromptLayers:
    """Prompt additions of a blueprint.

    Attributes:
        sections: Further sections by key, after its own text.
        replace: Replacements for sections, by key, also `base` and `blueprint`. An empty text removes a section.

    Raises:
        OptionError: Your move: not a text, or a key reserved for a layer.
    """

    sections: Mapping[str, Section] = field(default=EMPTY, converter=all_sections)
    replace: Mapping[str, Any] = field(default=EMPTY, converter=frozen_mapping)

    def __attrs_post_init__(self) -> None:
        faults = faults_of_sections(self.sections)
        given: Any = self.replace
        if isinstance(given, FrozenDict):
            wrong = [key for key, text in given.items() if not isinstance(text, str)]
            faults += [f"prompt.replace of {repr_of(key):.80} is not text" for key in wrong]
        else:
            faults.append("prompt.replace is not a mapping, or nested too deeply: expected texts by keys")
        OptionError.raise_for(faults)


@frozen(kw_only=True)
class PromptPart:
    key: str
    source: str
    section: Section
    is_filled: bool = True


@frozen(kw_only=True)
class PromptSection:
    """A rendered section.

    Attributes:
        key: Key for replacements.
        source: Origin of the section, for display.
        text: Its text, never empty.
    """

    key: str
    source: str
    text: str

    @property
    def tokens(self) -> int:
        """Estimated tokens, at four bytes each."""
        return fixed_tokens_of(self.text, Toolbox())


def faults_of_sections(sections: Any) -> list[str]:
    if not isinstance(sections, Mapping):
        return [f"sections is {repr_of(sections):.80}: expected texts, or functions that return one, by key"]
    faults: list[str] = []
    for key, section in sections.items():
        if not isinstance(section, str) and not callable(section):
            faults.append(f"section {repr_of(key):.80} is neither text nor a function that returns text")
        elif not isinstance(key, str) or not key or key in RESERVED_KEYS:
            faults.append(
                f"section {repr_of(key):.80} has a key that is reserved for the layers ({', '.join(sorted(RESERVED_KEYS))}), or none"
            )
    return faults


def decide_sections(
    parts: Sequence[PromptPart],
    context: PromptContext,
    replace: Mapping[str, str],
    later: Collection[str] = (),
) -> tuple[PromptSection, ...]:
    placed: dict[str, PromptPart] = {}
    for part in parts:
        placed[part.key] = part
    known = dict.fromkeys([*placed, *later])
    faults = [_no_such_section(key, known) for key in replace if key not in known]
    written = []
    for part in placed.values():
        if not _is_wanted(part.key, placed, context.prompt_mode):
            continue
        if part.key in replace:
            source = f"prompt.replace, in place of {part.source}"
            part = PromptPart(key=part.key, source=source, section=replace[part.key])  # noqa: PLW2901 - that is what it does
        try:
            text = _written(part, context)
        except OptionError as error:
            faults += error.faults
            continue
        if text:
            written.append(PromptSection(key=part.key, source=part.source, text=text))
    OptionError.raise_for(faults)
    return tuple(written)


def decide_replaced(
    replace: Mapping[str, str], written: AbstractSet[str], context: PromptContext
) -> Mapping[str, str]:
    """Render the replacements for sections that plugins add, by key. An empty text removes a section."""
    found: dict[str, str] = {}
    faults: list[str] = []
    for key in replace:
        if key not in written:
            part = PromptPart(key=key, source="prompt.replace", section=replace[key])
            try:
                found[key] = _written(part, context)
            except OptionError as error:
                faults += error.faults
    OptionError.raise_for(faults)
    return found


def join_prompt(sections: Sequence[PromptSection]) -> str:
    return "\n\n".join(section.text for section in sections)


def fill_in(text: str, values: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Replace `${name}` placeholders with values, once."""
    faults: dict[str, None] = {}

    def value_of(found: re.Match[str]) -> str:
        escaped, name = found.groups()
        if escaped:
            return f"${{{name}}}"
        value = values.get(name)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            faults[_no_value(name, value, values)] = None
            return ""
        return str(value)

    return _PLACE.sub(value_of, text), list(faults)


def without_comment(text: str) -> str:
    """Remove the comment at the beginning of a file."""
    found = _COMMENT.match(text)
    return text if found is None else text[found.end() :]


def _written(part: PromptPart, context: PromptContext) -> str:
    if isinstance(part.section, str):
        if not part.is_filled:
            return part.section
        text, faults = fill_in(part.section, context.values)
        OptionError.raise_for([f"section {part.key!r} ({part.source}): {fault}" for fault in faults])
        return text

    def refuse(error: BaseException) -> NoReturn:
        raise OptionError(
            [f"section {part.key!r} ({part.source}): its function failed: {describe_bug(error)}"]
        ) from error

    given: object = call_guarded(refuse, part.section, context)
    if given is not None and not isinstance(given, str):
        kind = type(given).__name__
        raise OptionError(
            [f"section {part.key!r} ({part.source}): its function returned {kind}: expected text or None"]
        )
    return given or ""


def _is_wanted(key: str, placed: Mapping[str, PromptPart], mode: PromptMode) -> bool:
    match mode:
        case "full":
            return True
        case "task":
            return key != BASE_KEY and key not in NOT_FOR_TASKS
        case _:  # the session itself lists the tools
            own = list(placed)
            return key == OWN_KEY or (OWN_KEY in placed and own.index(key) > own.index(OWN_KEY))


def _no_such_section(key: str, known: Mapping[str, object]) -> str:
    return f"prompt.replace has {key!r:.80}, which is not a section: {guess_name(key, known)}; a plugin that adds a section while a session runs lists its key in its attribute `sections`"


def _no_value(name: str, value: object, values: Mapping[str, Any]) -> str:
    if name in values:
        return f"${{{name}}} is a value of type {type(value).__name__} in user_data.prompt: expected text or a number"
    guess = near_name(name, values, ", did you mean ${{{}}}")
    return f"${{{name}}} has no value{guess}: put it into user_data.prompt, or write $${{{name}}} for the literal text"


def values_for_prompt(user_data: object) -> Mapping[str, Any]:
    """Return the mapping `prompt` of the application's data, or an empty one."""
    values = user_data.get("prompt") if isinstance(user_data, Mapping) else None
    return values if isinstance(values, Mapping) else EMPTY


def capability_parts(name: str, sections: Mapping[str, Section], *, built_in: bool) -> Iterator[PromptPart]:
    source = f"capability {name}, built in" if built_in else f"capability {name}"
    for key, section in sections.items():
        yield PromptPart(key=key, source=source, section=section, is_filled=not built_in)
