"""What people may say to a session: blocks of the right types, not empty, within the limits."""

from collections.abc import Iterable
from typing import Final, TypeAlias

import attrs
from msgspec.structs import astuple

from agentrail.abc import ChildRequest
from agentrail.errors import OptionError, PromptError
from agentrail.messages import MAX_PROMPT_BYTES, Content, FileRef, Image, Text, UserBlock

Blocks: TypeAlias = tuple[UserBlock, ...]

MAX_CLIENT_ID_CHARACTERS: Final = 256


def decide_blocks(content: Content) -> Blocks:
    """Make blocks of what a user gave.

    Raises:
        PromptError: Your move: empty, over 1 MB, no text and no blocks, or with a block of unknown type, or one that
            holds something else than text.
    """
    blocks = (Text(text=content),) if isinstance(content, str) else _checked(content)
    size = sum(len(_words(block).encode("utf-8", "surrogatepass")) for block in blocks)
    if not any(_words(block).strip() for block in blocks):
        message = "the prompt is empty: say something, 1 byte to 1 MB of text"
        raise PromptError(message)
    if size > MAX_PROMPT_BYTES:
        message = (
            f"the prompt has {size} bytes, at most {MAX_PROMPT_BYTES} are taken: put the rest into a file"
        )
        raise PromptError(message)
    return blocks


def words_in_blocks(blocks: Blocks) -> str:
    """Give what of blocks are words, and the names of files: what a rule about words is held against."""
    return "\n".join(_words(block) for block in blocks if not isinstance(block, Image))


def _checked(content: object) -> Blocks:
    if not isinstance(content, Iterable):
        message = f"a prompt is {content!r:.200}: expected text, or several Text, Image and FileRef blocks"
        raise PromptError(message)
    blocks = []
    for block in content:
        if not isinstance(block, Text | Image | FileRef):
            message = f"a prompt has {block!r:.200}: expected text, or Text, Image and FileRef blocks"
            raise PromptError(message)
        if not all(isinstance(value, str) for value in astuple(block)):
            message = f"a prompt has {block!r:.200}: expected text in each field of a block"
            raise PromptError(message)
        blocks.append(block)
    return tuple(blocks)


def _words(block: UserBlock) -> str:
    match block:
        case Text(text=text):
            return text
        case Image(data=data):
            return data
        case FileRef(path=path):
            return path


def decide_text(text: object) -> str:
    """Take the text of a steer or an answer.

    Raises:
        PromptError: Your move: no text, empty, or over 1 MB.
    """
    if not isinstance(text, str):
        message = f"expected text, got {text!r}"
        raise PromptError(message)
    decide_blocks(text)
    return text


def decide_client_id(client_id: object) -> str | None:
    """Take the name that a sender gives its message.

    Raises:
        OptionError: Your move: no text, empty, or over 256 characters.
    """
    return None if client_id is None else require_client_id(client_id)


def require_client_id(client_id: object) -> str:
    """Take the name of a message that has one.

    Raises:
        OptionError: Your move: no text, empty, or over 256 characters.
    """
    if not isinstance(client_id, str) or not 1 <= len(client_id) <= MAX_CLIENT_ID_CHARACTERS:
        raise OptionError(
            [f"client_id is {client_id!r:.80}: expected a text of 1 to {MAX_CLIENT_ID_CHARACTERS} characters"]
        )
    return client_id


def decide_child(request: ChildRequest) -> ChildRequest:
    """Take what a tool wants of a session of its own: of each field the type, and of its prompt the size.

    Raises:
        PromptError: Your move: a prompt that is no text, empty, or over 1 MB.
        OptionError: Your move: a field of another type; all that are wrong are named.
    """
    decide_text(request.prompt)
    faults = []
    system_prompt: object = request.system_prompt
    if not isinstance(system_prompt, str | None):
        faults.append(f"system_prompt is {system_prompt!r:.80}: expected text")
    names = _names(request.tools)
    if names is None and request.tools is not None:
        faults.append(f"tools is {request.tools!r:.80}: expected several names of tools")
    turns: object = request.max_turns
    if isinstance(turns, bool) or not isinstance(turns, int | None):
        faults.append(f"max_turns is {turns!r:.80}: expected a whole number, 1 or more")
    agent: object = request.agent
    if not isinstance(agent, str | None):
        faults.append(f"agent is {agent!r:.80}: expected the name of an agent")
    model: object = request.model
    if model is not None and (not isinstance(model, str) or ":" not in model):
        faults.append(f"model is {model!r:.80}: expected a text such as 'openai:gpt-5-mini'")
    if faults:
        raise OptionError(faults)
    return attrs.evolve(request, tools=names)


def _names(given: object) -> tuple[str, ...] | None:
    if isinstance(given, str) or not isinstance(given, Iterable):
        return None
    names = tuple(given)
    return names if all(isinstance(name, str) for name in names) else None
