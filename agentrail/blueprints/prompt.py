"""The system prompt of a blueprint, layer by layer: base, capabilities, the blueprint's own words. Plain functions; no file is read.

Behind them, while a session runs, stand the mode and what plugins add, sorted by key. What changes from request to request stands in none
of them: it goes behind the conversation, so that a vendor's cache of what stands in front holds.
"""

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set as AbstractSet
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeAlias

from attrs import field, frozen

from agentrail.core.policy.context import fixed_tokens_of
from agentrail.core.session.state import PromptMode
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import OptionError
from agentrail.frozen import EMPTY, frozen_json
from agentrail.otp.edges import call_guarded
from agentrail.otp.leaving import describe_bug

BASE_KEY: Final = "base"
OWN_KEY: Final = "blueprint"
MODE_KEY: Final = "mode"
RESERVED_KEYS: Final = frozenset({BASE_KEY, OWN_KEY, MODE_KEY, "tools"})
"""Keys of layers, which no section may take."""

NOT_FOR_TASKS: Final = frozenset({"skills", "memory", "agent_memory"})
"""Keys that the mode `task` leaves out."""

_PLACE: Final = re.compile(r"\$(\$?)\{([A-Za-z_][A-Za-z0-9_]{0,63})\}")
_COMMENT: Final = re.compile(r"\s*<!--.*?-->[ \t]*(?:\r?\n)*", re.DOTALL)


@frozen(kw_only=True)
class PromptContext:
    """What a section that is a function may look at. The same one gives the same text.

    Attributes:
        agent: What the blueprint is called.
        prompt_mode: Which layers there are.
        model: The model string; None where it is not known yet, or is no text.
        tools: What the model may call, by name, in order.
        agents: Who may work for it, by name.
        capabilities: Which bundles it has.
        values: What `user_data["prompt"]` says; read-only.
    """

    agent: str
    prompt_mode: PromptMode = "full"
    model: str | None = None
    tools: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    values: Mapping[str, Any] = EMPTY


Section: TypeAlias = str | Callable[[PromptContext], str | None]
"""A text, in which `${name}` stands for a value; or a pure function that gives one, which is taken as it is, or None for no section."""


def _frozen_sections(sections: Mapping[str, Section]) -> Mapping[str, Section]:
    return MappingProxyType(dict(sections))


@frozen(kw_only=True)
class PromptLayers:
    """What a blueprint says of its prompt, beside its own text.

    Attributes:
        sections: More of its own, by keys; they stand behind its text, in this order.
        replace: Other texts in place of sections, by their keys; `base` and `blueprint` are keys too. An empty one removes it.

    Raises:
        OptionError: Your move: something in it is no text, or takes a key of the layers.
    """

    sections: Mapping[str, Section] = field(default=EMPTY, converter=_frozen_sections)
    replace: Mapping[str, Any] = field(default=EMPTY, converter=frozen_json)

    def __attrs_post_init__(self) -> None:
        """Refuse what cannot be."""
        faults = faults_of_sections(self.sections)
        faults += [
            f"prompt.replace of {key!r:.80} is no text"
            for key, text in self.replace.items()
            if not isinstance(text, str)
        ]
        if faults:
            raise OptionError(faults)


@frozen(kw_only=True)
class PromptPart:
    """A section before it is written.

    Attributes:
        is_filled: Whether `${name}` in it stands for a value.
    """

    key: str
    source: str
    section: Section
    is_filled: bool = True


@frozen(kw_only=True)
class PromptSection:
    """A section as it is sent.

    Attributes:
        key: What it is replaced by.
        source: Whose it is, for people.
        text: What it says; never empty.
    """

    key: str
    source: str
    text: str

    @property
    def tokens(self) -> int:
        """How long it is, estimated at four bytes a token."""
        return fixed_tokens_of(self.text, Toolbox())


def faults_of_sections(sections: Mapping[Any, Any]) -> list[str]:
    """Say what is wrong with sections, a sentence each."""
    faults = []
    for key, section in sections.items():
        if not isinstance(section, str) and not callable(section):
            faults.append(f"section {key!r:.80} is no text, and no function that gives one")
        elif not isinstance(key, str) or not key or key in RESERVED_KEYS:
            faults.append(
                f"section {key!r:.80} has a key of the layers ({', '.join(sorted(RESERVED_KEYS))}), or none"
            )
    return faults


def decide_sections(
    parts: Sequence[PromptPart],
    context: PromptContext,
    replace: Mapping[str, str],
    later: Collection[str] = (),
) -> tuple[PromptSection, ...]:
    """Write all sections."""
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
    if faults:
        raise OptionError(faults)
    return tuple(written)


def decide_replaced(
    replace: Mapping[str, str], written: AbstractSet[str], context: PromptContext
) -> Mapping[str, str]:
    """Write the texts that stand in place of what plugins add while a session runs, by key; an empty one removes a section."""
    found: dict[str, str] = {}
    faults: list[str] = []
    for key in replace:
        if key not in written:
            part = PromptPart(key=key, source="prompt.replace", section=replace[key])
            try:
                found[key] = _written(part, context)
            except OptionError as error:
                faults += error.faults
    if faults:
        raise OptionError(faults)
    return found


def join_prompt(sections: Sequence[PromptSection]) -> str:
    """Put sections one behind the other, a blank line between them."""
    return "\n\n".join(section.text for section in sections)


def fill_in(text: str, values: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Put values in the places of their names, once: what a value says is looked at no more."""
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
    """Take the comment away that a file begins with: it is for people."""
    found = _COMMENT.match(text)
    return text if found is None else text[found.end() :]


def _written(part: PromptPart, context: PromptContext) -> str:
    if isinstance(part.section, str):
        if not part.is_filled:
            return part.section
        text, faults = fill_in(part.section, context.values)
        if faults:
            raise OptionError([f"section {part.key!r} ({part.source}): {fault}" for fault in faults])
        return text

    def refuse(error: BaseException) -> NoReturn:
        raise OptionError(
            [f"section {part.key!r} ({part.source}): its function failed: {describe_bug(error)}"]
        ) from error

    given: object = call_guarded(refuse, part.section, context)
    if given is not None and not isinstance(given, str):
        kind = type(given).__name__
        raise OptionError(
            [f"section {part.key!r} ({part.source}): its function gave {kind}: expected text or None"]
        )
    return given or ""


def _is_wanted(key: str, placed: Mapping[str, PromptPart], mode: PromptMode) -> bool:
    match mode:
        case "full":
            return True
        case "task":
            return key != BASE_KEY and key not in NOT_FOR_TASKS
        case _:  # the tools are named by the session itself
            own = list(placed)
            return key == OWN_KEY or (OWN_KEY in placed and own.index(key) > own.index(OWN_KEY))


def _no_such_section(key: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    guess = f"did you mean {near[0]!r}" if near else f"there are {', '.join(known)}"
    return (
        f"prompt.replace has {key!r:.80}, and there is no such section: {guess}; a plugin of yours that adds one while a session runs says its "
        f"key in its member `sections`"
    )


def _no_value(name: str, value: object, values: Mapping[str, Any]) -> str:
    if name in values:
        return f"${{{name}}} is a value of type {type(value).__name__} in user_data.prompt: expected text or a number"
    near = difflib.get_close_matches(name, values, n=1)
    guess = f", did you mean ${{{near[0]}}}" if near else ""
    return f"${{{name}}} has no value{guess}: put it into user_data.prompt, or write $${{{name}}} for the words themselves"


def values_for_prompt(user_data: object) -> Mapping[str, Any]:
    """Give what `${name}` stands for: the mapping `prompt` of the application's data; none where there is none."""
    values = user_data.get("prompt") if isinstance(user_data, Mapping) else None
    return values if isinstance(values, Mapping) else EMPTY


def capability_parts(name: str, sections: Mapping[str, Section], *, built_in: bool) -> Iterator[PromptPart]:
    """Give the sections of a capability."""
    source = f"capability {name}, built in" if built_in else f"capability {name}"
    for key, section in sections.items():
        yield PromptPart(key=key, source=source, section=section, is_filled=not built_in)
