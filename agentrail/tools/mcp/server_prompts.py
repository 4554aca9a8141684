"""The prompts that an MCP server lists: names of their commands, typed arguments, and messages as the user's words. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from agentrail.errors import CommandError
from agentrail.tools.mcp.call_result import text_of_block
from agentrail.tools.mcp.tool_listing import MAX_TOOL_TITLE_CHARACTERS, cleaned, safe_name

MAX_PROMPTS: Final = 500
MAX_PROMPT_MESSAGE_BYTES: Final = 1 << 20
_OTHER: Final = re.compile(r"[^a-z0-9_-]")
_WORD: Final = re.compile(r"""("[^"]*+"|'[^']*+'|\S*+)\s*+""")


@frozen(kw_only=True)
class ListedPrompt:
    """A prompt as its server describes it. `arguments` says by name which ones are required."""

    name: str
    remote_name: str
    description: str
    arguments: Mapping[str, bool]

    @property
    def hint(self) -> str:
        shown = {cleaned(name, MAX_TOOL_TITLE_CHARACTERS): needed for name, needed in self.arguments.items()}
        return " ".join(f"<{name}>" if needed else f"[{name}]" for name, needed in shown.items())

    def read_arguments(self, text: str) -> dict[str, str]:
        """Read typed arguments: in their order or as `name=value`, quoted if they have blanks. The last one takes the rest.

        Raises:
            CommandError: The user's move: a required argument is missing, or there are none. The message shows the usage.
        """
        left, rest = list(self.arguments), text.strip()
        given: dict[str, str] = {}
        while left and rest:
            name, is_named, value = rest.partition("=")
            if not is_named or name not in left:
                name, value = left[0], rest
            left.remove(name)
            word = _WORD.match(value) if left else None
            given[name] = _unquoted(value.strip() if word is None else word[1])
            rest = "" if word is None else value[word.end() :]
        if rest or any(self.arguments[name] for name in left):
            raise CommandError(f"usage: /{self.name} {self.hint}".rstrip())
        return given


def _unquoted(word: str) -> str:
    is_quoted = len(word) > 1 and word[0] in "\"'" and word.find(word[0], 1) == len(word) - 1
    return word[1:-1] if is_quoted else word


def read_prompts(server: str, raw: Iterable[Any]) -> tuple[ListedPrompt, ...]:
    """Read the prompts of a server. Of two with one name the first counts."""
    found: dict[str, ListedPrompt] = {}
    for one in raw:
        remote = one.get("name") if isinstance(one, Mapping) else None
        if not isinstance(remote, str) or len(found) == MAX_PROMPTS:
            continue
        name = f"{server}:{safe_name(remote.lower(), _OTHER).lstrip('_-')}"
        listed = one.get("arguments")
        arguments = {
            argument["name"]: argument.get("required") is True
            for argument in (listed if isinstance(listed, list) else ())
            if isinstance(argument, Mapping) and isinstance(argument.get("name"), str)
        }
        said = one.get("description") or one.get("title") or f"A prompt of the server {server}."
        found.setdefault(
            name,
            ListedPrompt(name=name, remote_name=remote, description=cleaned(str(said)), arguments=arguments),
        )
    return tuple(found.values())


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
