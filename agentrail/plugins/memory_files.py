"""State of `MemoryLoader` about its files, and the text that the model reads. Pure; the hooks are in `memory_loader`."""

import html
from collections.abc import Iterable, Iterator, Sequence, Set as AbstractSet
from typing import Final

import attrs

from agentrail.core.policy.request_context import utf8_size
from agentrail.core.protocol.actions import INSTRUCTION_NAMES, Emitted
from agentrail.core.protocol.hooks import BeforeTool, InstructionsFound
from agentrail.core.values.instruction_order import (
    MAX_INSTRUCTION_BYTES,
    FittedInstructions,
    InstructionFile,
    fit_instructions,
    line_of_left_out,
    names_in_order,
    touched_directories,
)
from agentrail.core.values.untrusted_text import fenced_in
from agentrail.messages import CallId, Message, Text, UserMessage

SECTION: Final = "agent_memory"
"""Key of the section. The prompt mode `task` omits the section with this key."""

MAX_TOUCHED_DIRECTORIES: Final = 1_000
"""Maximum number of touched directories searched per session. Each is kept in the plugin's state."""

JOINED: Final = (
    "Calls have touched directories that have files for agents of their own. Each holds for what lies below its directory, and comes before "
    "those of directories above it."
)
BELOW: Final = "directories below"
"""Name of the request that reads those files. It cannot collide with a file of the option, because those are paths."""


@attrs.frozen(kw_only=True)
class JoinedFile:
    path: str
    size_bytes: int


@attrs.frozen(kw_only=True)
class ReachedDirectories:
    call_id: CallId
    paths: tuple[str, ...]


@attrs.frozen
class MemoryFiles:
    """The files and their text.

    Attributes:
        texts: Text of each file. Empty if it is not read yet or the file does not exist.
        names: Names of instruction files, in order of precedence. Empty if none are wanted.
        touched: Subdirectories already searched or being searched, at most `MAX_TOUCHED_DIRECTORIES`.
    """

    files: tuple[str, ...]
    texts: tuple[str, ...]
    unread: tuple[str, ...] = ()
    auto_reload: bool = True
    names: tuple[str, ...] = ()
    found: tuple[InstructionFile, ...] = ()
    left_out: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    joining: tuple[InstructionFile, ...] = ()
    joining_left_out: tuple[str, ...] = ()
    joined: tuple[JoinedFile, ...] = ()
    reached: tuple[ReachedDirectories, ...] = ()


def first_memory(wanted: Sequence[str], *, auto_reload: bool) -> MemoryFiles:
    """Return the state before any file is read."""
    every = tuple(dict.fromkeys(wanted))
    agents = tuple(file for file in every if file in INSTRUCTION_NAMES)
    files = tuple(file for file in every if file not in agents[1:])
    return MemoryFiles(
        files=files, texts=("",) * len(files), auto_reload=auto_reload, names=names_in_order(agents)
    )


def with_text(memory: MemoryFiles, file: str, text: str) -> MemoryFiles:
    known = zip(memory.files, memory.texts, strict=True)
    texts = tuple(text if name == file else old for name, old in known)
    return attrs.evolve(memory, texts=texts, unread=tuple(one for one in memory.unread if one != file))


def with_upward(
    memory: MemoryFiles, file: str, found: InstructionsFound
) -> tuple[MemoryFiles, tuple[Emitted, ...]]:
    """Record the files from the user's directory down to the working directory. Also returns the events to emit."""
    fitted = fit_instructions(found.files)
    after = attrs.evolve(with_text(memory, file, ""), found=fitted.files, left_out=fitted.left_out)
    return after, tuple(_said_of(found, fitted))


def with_below(memory: MemoryFiles, found: InstructionsFound) -> tuple[MemoryFiles, tuple[Emitted, ...]]:
    taken = sum(one.size_bytes for one in memory.joined) + sum(utf8_size(one.text) for one in memory.joining)
    fitted = fit_instructions(found.files, max(0, MAX_INSTRUCTION_BYTES - taken))
    after = attrs.evolve(
        memory,
        joining=(*memory.joining, *fitted.files),
        joining_left_out=(*memory.joining_left_out, *fitted.left_out),
    )
    return after, tuple(_said_of(found, fitted))


def with_reached(memory: MemoryFiles, call: BeforeTool, working_dir: str) -> MemoryFiles:
    reached = touched_directories(call.name, call.arguments, working_dir) if memory.names else ()
    paths = tuple(one for one in reached if one not in memory.touched)
    if not paths:
        return memory
    return attrs.evolve(
        memory, reached=(*memory.reached, ReachedDirectories(call_id=call.call_id, paths=paths))
    )


def newly_touched(memory: MemoryFiles, done: AbstractSet[CallId]) -> tuple[tuple[str, ...], MemoryFiles]:
    """Return the directories that finished calls touched for the first time, and mark them as searched."""
    reached = dict.fromkeys(path for one in memory.reached if one.call_id in done for path in one.paths)
    room = MAX_TOUCHED_DIRECTORIES - len(memory.touched)
    new = tuple(path for path in reached if path not in memory.touched)[:room]
    return new, attrs.evolve(memory, touched=(*memory.touched, *new), reached=())


def say_joining(memory: MemoryFiles) -> tuple[str, MemoryFiles]:
    """Return the text that joins the conversation, empty if there is none, and mark its files as joined."""
    if not memory.joining and not memory.joining_left_out:
        return "", memory
    lines = [JOINED, *map(_section_of, memory.joining)]
    if memory.joining_left_out:
        lines.append(line_of_left_out(map(html.escape, memory.joining_left_out)))
    now = (JoinedFile(path=file.path, size_bytes=utf8_size(file.text)) for file in memory.joining)
    after = attrs.evolve(memory, joining=(), joining_left_out=(), joined=(*memory.joined, *now))
    return "\n\n".join(lines), after


def without(memory: MemoryFiles, messages: Sequence[Message]) -> MemoryFiles:
    """Forget the files shown in these messages, which are about to leave the conversation, so that they can join again."""
    said = [
        block.text
        for message in messages
        if isinstance(message, UserMessage) and message.origin == "intervention"
        for block in message.content
        if isinstance(block, Text)
    ]
    gone = {one.path for one in memory.joined if any(_opening_of(one.path) in text for text in said)}
    folders = {path.rpartition("/")[0] for path in gone}
    return attrs.evolve(
        memory,
        joined=tuple(one for one in memory.joined if one.path not in gone),
        touched=tuple(one for one in memory.touched if one not in folders),
    )


def show_memory(memory: MemoryFiles) -> str | None:
    """Return the section of the system prompt. None if no file has text."""
    return "\n\n".join(_sections(memory)) or None


def named_in(memory: MemoryFiles, words: str) -> tuple[str, ...]:
    """Return the files to read again: those named in the words and those still unread."""
    return tuple(
        file
        for file in memory.files
        if file in memory.unread or any(one.rpartition("/")[2] in words for one in _names_of(file, memory))
    )


def _said_of(found: InstructionsFound, fitted: FittedInstructions) -> Iterator[Emitted]:
    """Yield events for unreadable and cut files, so that users do not blame the model for missing instructions."""
    for one in found.unread:
        yield ("memory_not_loaded", {"file": one.path, "reason": one.reason})
    if fitted.cut or fitted.left_out:
        yield ("memory_cut", {"cut": list(fitted.cut), "left_out": list(fitted.left_out)})


def _sections(memory: MemoryFiles) -> Iterator[str]:
    for file, text in zip(memory.files, memory.texts, strict=True):
        if file in INSTRUCTION_NAMES:
            if memory.left_out:
                yield line_of_left_out(memory.left_out)
            yield from map(_section_of, memory.found)
        yield from map(
            _section_of, fit_instructions([InstructionFile(path=file, text=text)], len(text) * 4).files
        )


def _section_of(file: InstructionFile) -> str:
    # A file must not end its own section: the text after it would look like the application's words.
    shown = fenced_in(file.text, SECTION)
    return f"{_opening_of(file.path)}\n{shown}\n</{SECTION}>"


def _opening_of(path: str) -> str:
    return f'<{SECTION} name="{html.escape(path)}">'


def _names_of(file: str, memory: MemoryFiles) -> Iterable[str]:
    return memory.names if file in INSTRUCTION_NAMES else (file,)
