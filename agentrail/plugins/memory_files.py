"""What `MemoryLoader` knows of its files, and the words in which the model reads them. Pure; the hooks stand beside, in `memory_loader`."""

import html
from collections.abc import Iterable, Iterator, Sequence, Set as AbstractSet
from typing import Final

import attrs

from agentrail.core.protocol.actions import INSTRUCTION_NAMES, Emitted
from agentrail.core.protocol.hooks import BeforeTool, InstructionsFound
from agentrail.core.values.fences import fenced_in
from agentrail.core.values.instructions import (
    MAX_INSTRUCTION_BYTES,
    FittedInstructions,
    InstructionFile,
    fit_instructions,
    line_of_left_out,
    names_in_order,
    touched_directories,
)
from agentrail.messages import CallId, Message, Text, UserMessage

SECTION: Final = "agent_memory"
"""The key of the section: the prompt mode `task` leaves out what stands under this name."""

MAX_TOUCHED_DIRECTORIES: Final = 1_000
"""How many directories that calls touch are looked at in one session: each of them stands in the plugin's state."""

JOINED: Final = (
    "Calls have touched directories that have files for agents of their own. Each holds for what lies below its directory, and comes before "
    "those of directories above it."
)
BELOW: Final = "directories below"
"""What the reading of those is called, as no file of the option is: those have paths."""


@attrs.frozen(kw_only=True)
class JoinedFile:
    """A file of a directory below that the model was shown.

    Attributes:
        path: Relative to the working directory.
        size_bytes: What was shown of it.
    """

    path: str
    size_bytes: int


@attrs.frozen(kw_only=True)
class ReachedDirectories:
    """What a call is about to touch.

    Attributes:
        call_id: The call.
        paths: Of directories below, as of `MemoryFiles.touched`.
    """

    call_id: CallId
    paths: tuple[str, ...]


@attrs.frozen
class MemoryFiles:
    """Files and what is in them.

    Attributes:
        files: In the order in which the model sees them; the first name for agents stands for all of `names`.
        texts: What is in each; empty while that is not known, and when there is no such file.
        unread: Those that have to be read, or read again.
        auto_reload: Whether a file is read again after a call that names it.
        names: What files for agents are called, in the order in which they count; empty where none are wanted.
        found: Those from the user's down to the working directory, as they are shown, the farthest first.
        left_out: Those that are not shown, because there is no room.
        touched: The directories below that were looked at, or are being looked at; at most `MAX_TOUCHED_DIRECTORIES`.
        joining: Files of those, as they will be shown before the next request.
        joining_left_out: Those that will only be named there.
        joined: Files of those that were shown, and stand in the conversation still.
        reached: Which directories below calls are about to touch that have not ended.
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
    """Say what is known before anything was read."""
    every = tuple(dict.fromkeys(wanted))
    agents = tuple(file for file in every if file in INSTRUCTION_NAMES)
    files = tuple(file for file in every if file not in agents[1:])
    return MemoryFiles(
        files=files, texts=("",) * len(files), auto_reload=auto_reload, names=names_in_order(agents)
    )


def with_text(memory: MemoryFiles, file: str, text: str) -> MemoryFiles:
    """Note what is in a file; it needs no reading any more."""
    known = zip(memory.files, memory.texts, strict=True)
    texts = tuple(text if name == file else old for name, old in known)
    return attrs.evolve(memory, texts=texts, unread=tuple(one for one in memory.unread if one != file))


def with_upward(
    memory: MemoryFiles, file: str, found: InstructionsFound
) -> tuple[MemoryFiles, tuple[Emitted, ...]]:
    """Note the files from the user's down to the working directory; gives what is to be said of them, too."""
    fitted = fit_instructions(found.files)
    after = attrs.evolve(with_text(memory, file, ""), found=fitted.files, left_out=fitted.left_out)
    return after, tuple(_said_of(found, fitted))


def with_below(memory: MemoryFiles, found: InstructionsFound) -> tuple[MemoryFiles, tuple[Emitted, ...]]:
    """Note files of directories below, as far as there is room; gives what is to be said of them, too."""
    taken = sum(one.size_bytes for one in memory.joined) + sum(map(_size_of, memory.joining))
    fitted = fit_instructions(found.files, max(0, MAX_INSTRUCTION_BYTES - taken))
    after = attrs.evolve(
        memory,
        joining=(*memory.joining, *fitted.files),
        joining_left_out=(*memory.joining_left_out, *fitted.left_out),
    )
    return after, tuple(_said_of(found, fitted))


def with_reached(memory: MemoryFiles, call: BeforeTool, working_dir: str) -> MemoryFiles:
    """Note which directories below a call is about to touch that were not looked at before."""
    reached = touched_directories(call.name, call.arguments, working_dir) if memory.names else ()
    paths = tuple(one for one in reached if one not in memory.touched)
    if not paths:
        return memory
    return attrs.evolve(
        memory, reached=(*memory.reached, ReachedDirectories(call_id=call.call_id, paths=paths))
    )


def newly_touched(memory: MemoryFiles, done: AbstractSet[CallId]) -> tuple[tuple[str, ...], MemoryFiles]:
    """Say which directories the calls of a batch have touched for the first time; from then on they were looked at."""
    reached = dict.fromkeys(path for one in memory.reached if one.call_id in done for path in one.paths)
    room = MAX_TOUCHED_DIRECTORIES - len(memory.touched)
    new = tuple(path for path in reached if path not in memory.touched)[:room]
    return new, attrs.evolve(memory, touched=(*memory.touched, *new), reached=())


def say_joining(memory: MemoryFiles) -> tuple[str, MemoryFiles]:
    """Write what joins the conversation; empty for nothing. From then on it has joined."""
    if not memory.joining and not memory.joining_left_out:
        return "", memory
    lines = [JOINED, *map(_section_of, memory.joining)]
    if memory.joining_left_out:
        lines.append(line_of_left_out(map(html.escape, memory.joining_left_out)))
    now = (JoinedFile(path=file.path, size_bytes=_size_of(file)) for file in memory.joining)
    after = attrs.evolve(memory, joining=(), joining_left_out=(), joined=(*memory.joined, *now))
    return "\n\n".join(lines), after


def without(memory: MemoryFiles, messages: Sequence[Message]) -> MemoryFiles:
    """Let files join again that these messages hold: they are about to leave the conversation."""
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
    """Write the section of the system prompt; None where no file says anything."""
    return "\n\n".join(_sections(memory)) or None


def named_in(memory: MemoryFiles, words: str) -> tuple[str, ...]:
    """Say which files have to be read again: those that some words name, and those that are unread still."""
    return tuple(
        file
        for file in memory.files
        if file in memory.unread or any(one.rpartition("/")[2] in words for one in _names_of(file, memory))
    )


def _said_of(found: InstructionsFound, fitted: FittedInstructions) -> Iterator[Emitted]:
    """Say what cannot be read, and what is not shown whole: else the reason is looked for in what the model does."""
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
    # A file must not end its own section: what comes after would look like the words of the application.
    shown = fenced_in(file.text, SECTION)
    return f"{_opening_of(file.path)}\n{shown}\n</{SECTION}>"


def _opening_of(path: str) -> str:
    return f'<{SECTION} name="{html.escape(path)}">'


def _size_of(file: InstructionFile) -> int:
    return len(file.text.encode("utf-8", "surrogatepass"))


def _names_of(file: str, memory: MemoryFiles) -> Iterable[str]:
    return memory.names if file in INSTRUCTION_NAMES else (file,)
