"""The prompts that an MCP server lists: names of their commands, typed arguments, and messages as the user's words. Pure."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from agentrail.core.values.source_prompt import SourcePrompt
from agentrail.errors import CommandError
from agentrail.tools.mcp.call_result import text_of_block
from agentrail.tools.mcp.tool_listing import MAX_TOOL_TITLE_CHARACTERS, cleaned, safe_name

MAX_PROMPTS: Final = 500
MAX_PROMPT_ARGUMENTS: Final = 50
MAX_PROMPT_MESSAGE_BYTES: Final = 1 << 20
_OTHER: Final = re.compile(r"[^a-z0-9_-]")
_WORD: Final = re.compile(r"""("[^"]*+"|'[^']*+'|\S*+)\s*+""")

AskForPrompt: TypeAlias = Callable[[str, Mapping[str, str]], Awaitable[str]]
"""Asks the server for the text of a prompt, given its name there and its arguments."""


def read_prompts(
    server: str, raw: Sequence[Mapping[str, Any]], ask: AskForPrompt
) -> tuple[SourcePrompt, ...]:
    """Read a valid list of prompts. Of two with one name the first counts."""
    found: dict[str, SourcePrompt] = {}
    for one in raw[:MAX_PROMPTS]:
        name = f"{server}:{safe_name(one['name'].lower(), _OTHER).lstrip('_-')}"
        listed = (one.get("arguments") or [])[:MAX_PROMPT_ARGUMENTS]
        declared = {each["name"]: each.get("required") is True for each in listed}
        shown = ((cleaned(each, MAX_TOOL_TITLE_CHARACTERS), needed) for each, needed in declared.items())
        hint = " ".join([f"<{each}>" if needed else f"[{each}]" for each, needed in shown])
        usage = f"usage: /{name} {hint}".rstrip()
        prompt = SourcePrompt(
            source=server,
            name=name,
            description=cleaned(one.get("description") or f"A prompt of the server {server}."),
            arguments=hint,
            expand=partial(_expand, usage, declared, partial(ask, one["name"])),
        )
        found.setdefault(name, prompt)
    return tuple(found.values())


async def _expand(
    usage: str, declared: Mapping[str, bool], ask: Callable[[Mapping[str, str]], Awaitable[str]], text: str
) -> str:
    return await ask(read_arguments(usage, declared, text))


def read_arguments(usage: str, declared: Mapping[str, bool], text: str) -> dict[str, str]:
    """Read typed arguments: in their order or as `name=value`, quoted if they have blanks. The last one takes the rest.

    Raises:
        CommandError: The user's move, with the usage: a required argument is missing, or none is declared.
    """
    left, rest = list(declared), text.strip()
    given: dict[str, str] = {}
    while left and rest:
        name, is_named, value = rest.partition("=")
        if not is_named or name not in left:
            name, value = left[0], rest
        left.remove(name)
        word = _WORD.match(value) if left else None
        given[name] = _unquoted(value.strip() if word is None else word[1])
        rest = "" if word is None else value[word.end() :]
    if rest or any(declared[name] for name in left):
        raise CommandError(usage)
    return given


def _unquoted(word: str) -> str:
    is_quoted = len(word) > 1 and word[0] in "\"'" and word.find(word[0], 1) == len(word) - 1
    return word[1:-1] if is_quoted else word


def text_of_prompt(server: str, prompt: str, result: Mapping[str, Any], read_with: str) -> str:
    """Return the messages of a valid result as words of the user, with the server's name. Other roles are only quoted."""
    parts = [f'[prompt "{cleaned(prompt, MAX_TOOL_TITLE_CHARACTERS)}" of the server "{server}"]']
    for one in result["messages"]:
        block, role = one["content"], one["role"]
        said = cleaned(_text_of(block, read_with), MAX_PROMPT_MESSAGE_BYTES)
        if role != "user":
            said = "\n> ".join((f"[quotation of the role {role}]", *said.split("\n")))
        parts.append(said)
    return "\n\n".join(parts)


def text_of_sampling(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the messages of a sampling as one prompt. With several, each has its role in front."""
    parts = []
    for one in messages:
        blocks = one["content"] if isinstance(one["content"], list) else [one["content"]]
        said = "\n\n".join([_text_of(block) for block in blocks])
        parts.append(said if len(messages) == 1 else f"{one['role']}: {said}")
    return "\n\n".join(parts)


def _text_of(block: Mapping[str, Any], read_with: str = "") -> str:
    return text_of_block(block, read_with) or f"[{block['type']}, which cannot be shown here]"
