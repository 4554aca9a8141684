"""`MemoryLoader`: includes files such as `AGENTS.md` in the system prompt.

Agent files (`INSTRUCTION_NAMES`) are also looked up in parent directories, and in the directories that calls touch.
`core/values/instructions` selects and fits them. Other files are read by their given path.
"""

import html
import json
from collections.abc import Iterable, Iterator, Sequence, Set as AbstractSet
from typing import Final

import attrs

from agentrail.core.protocol.actions import (
    INSTRUCTION_NAMES,
    Action,
    Continue,
    Emitted,
    Intervene,
    ReadFile,
    ReadInstructions,
    Request,
)
from agentrail.core.protocol.hooks import (
    AfterTool,
    AfterToolBatch,
    BeforeCompact,
    BeforeRequest,
    BeforeTool,
    FileText,
    InstructionsFound,
    RequestDone,
    RequestFailed,
    SessionStarted,
)
from agentrail.core.stack.plugin import Context
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
from agentrail.messages import AssistantMessage, CallId, Message, Text, UserMessage
from agentrail.plugins.base import Plugin, on

# The files, and their text for the model.

SECTION: Final = "agent_memory"
"""Key of the section. The prompt mode `task` leaves out the section with this name."""

MAX_TOUCHED_DIRECTORIES: Final = 1_000
"""Maximum number of touched directories examined in one session: each is kept in the plugin's state."""

JOINED: Final = (
    "Calls have touched directories that have files for agents of their own. Each holds for what lies below its directory, and comes before "
    "those of directories above it."
)
BELOW: Final = "directories below"
"""Name of the request that reads directories below. It differs from every file of the option, because those are paths."""


@attrs.frozen(kw_only=True)
class JoinedFile:
    """A file of a directory below that the model has seen.

    Attributes:
        path: Relative to the working directory.
        size_bytes: Size of the part shown.
    """

    path: str
    size_bytes: int


@attrs.frozen(kw_only=True)
class ReachedDirectories:
    """The directories that a call is about to touch.

    Attributes:
        call_id: Id of the call.
        paths: Directories below, as in `MemoryFiles.touched`.
    """

    call_id: CallId
    paths: tuple[str, ...]


@attrs.frozen
class MemoryFiles:
    """Files and their contents.

    Attributes:
        files: In the order in which the model sees them. The first agent file name represents all of `names`.
        texts: Content of each file. Empty if it is unknown, or if there is no such file.
        unread: Files to read, or to read again.
        auto_reload: Whether a file is read again after a call that names it.
        names: Names of agent files, in order of precedence. Empty if none are wanted.
        found: Agent files from the user's down to the working directory, as shown, the farthest first.
        left_out: Files not shown for lack of room.
        touched: Directories below already examined, or being examined. At most `MAX_TOUCHED_DIRECTORIES`.
        joining: Their files to be shown before the next request.
        joining_left_out: Files that will only be named there.
        joined: Their files that were shown and are still in the conversation.
        reached: Directories below that running calls are about to touch.
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
    """Return the state before any file was read."""
    every = tuple(dict.fromkeys(wanted))
    agents = tuple(file for file in every if file in INSTRUCTION_NAMES)
    files = tuple(file for file in every if file not in agents[1:])
    return MemoryFiles(
        files=files, texts=("",) * len(files), auto_reload=auto_reload, names=names_in_order(agents)
    )


def with_text(memory: MemoryFiles, file: str, text: str) -> MemoryFiles:
    """Store the content of a file and mark it as read."""
    known = zip(memory.files, memory.texts, strict=True)
    texts = tuple(text if name == file else old for name, old in known)
    return attrs.evolve(memory, texts=texts, unread=tuple(one for one in memory.unread if one != file))


def with_upward(
    memory: MemoryFiles, file: str, found: InstructionsFound
) -> tuple[MemoryFiles, tuple[Emitted, ...]]:
    """Store the files from the user's down to the working directory. Also return the events to publish."""
    fitted = fit_instructions(found.files)
    after = attrs.evolve(with_text(memory, file, ""), found=fitted.files, left_out=fitted.left_out)
    return after, tuple(_said_of(found, fitted))


def with_below(memory: MemoryFiles, found: InstructionsFound) -> tuple[MemoryFiles, tuple[Emitted, ...]]:
    """Store files of directories below while there is room. Also return the events to publish."""
    taken = sum(one.size_bytes for one in memory.joined) + sum(map(_size_of, memory.joining))
    fitted = fit_instructions(found.files, max(0, MAX_INSTRUCTION_BYTES - taken))
    after = attrs.evolve(
        memory,
        joining=(*memory.joining, *fitted.files),
        joining_left_out=(*memory.joining_left_out, *fitted.left_out),
    )
    return after, tuple(_said_of(found, fitted))


def with_reached(memory: MemoryFiles, call: BeforeTool, working_dir: str) -> MemoryFiles:
    """Record the directories below that a call is about to touch for the first time."""
    reached = touched_directories(call.name, call.arguments, working_dir) if memory.names else ()
    paths = tuple(one for one in reached if one not in memory.touched)
    if not paths:
        return memory
    return attrs.evolve(
        memory, reached=(*memory.reached, ReachedDirectories(call_id=call.call_id, paths=paths))
    )


def newly_touched(memory: MemoryFiles, done: AbstractSet[CallId]) -> tuple[tuple[str, ...], MemoryFiles]:
    """Return the directories that the calls of a batch touched for the first time, and mark them as examined."""
    reached = dict.fromkeys(path for one in memory.reached if one.call_id in done for path in one.paths)
    room = MAX_TOUCHED_DIRECTORIES - len(memory.touched)
    new = tuple(path for path in reached if path not in memory.touched)[:room]
    return new, attrs.evolve(memory, touched=(*memory.touched, *new), reached=())


def say_joining(memory: MemoryFiles) -> tuple[str, MemoryFiles]:
    """Format the files that join the conversation, and mark them as joined. Empty if there are none."""
    if not memory.joining and not memory.joining_left_out:
        return "", memory
    lines = [JOINED, *map(_section_of, memory.joining)]
    if memory.joining_left_out:
        lines.append(line_of_left_out(map(html.escape, memory.joining_left_out)))
    now = (JoinedFile(path=file.path, size_bytes=_size_of(file)) for file in memory.joining)
    after = attrs.evolve(memory, joining=(), joining_left_out=(), joined=(*memory.joined, *now))
    return "\n\n".join(lines), after


def without(memory: MemoryFiles, messages: Sequence[Message]) -> MemoryFiles:
    """Let the files in these messages join again: the messages are about to leave the conversation."""
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
    """Format the section of the system prompt. None if no file has content."""
    return "\n\n".join(_sections(memory)) or None


def named_in(memory: MemoryFiles, words: str) -> tuple[str, ...]:
    """Return the files to read again: those named in the words, and those still unread."""
    return tuple(
        file
        for file in memory.files
        if file in memory.unread or any(one.rpartition("/")[2] in words for one in _names_of(file, memory))
    )


def _said_of(found: InstructionsFound, fitted: FittedInstructions) -> Iterator[Emitted]:
    """Return events for unreadable and truncated files. Without them, users would search for the cause in the model's behaviour."""
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
    # A file must not end its own section: the text after it would look like the application's own words.
    shown = fenced_in(file.text, SECTION)
    return f"{_opening_of(file.path)}\n{shown}\n</{SECTION}>"


def _opening_of(path: str) -> str:
    return f'<{SECTION} name="{html.escape(path)}">'


def _size_of(file: InstructionFile) -> int:
    return len(file.text.encode("utf-8", "surrogatepass"))


def _names_of(file: str, memory: MemoryFiles) -> Iterable[str]:
    return memory.names if file in INSTRUCTION_NAMES else (file,)


class MemoryLoader(Plugin[MemoryFiles]):
    """Includes memory files such as `AGENTS.md` in the system prompt, and follows their changes."""

    priority = 115
    sections: tuple[str, ...] = (SECTION,)

    def init(self, *, memory_files: Sequence[str] = ("AGENTS.md",), auto_reload: bool = True) -> MemoryFiles:
        """Set the files, relative to the working directory.

        Raises:
            ValueError: Your move: a single text instead of a list.
        """
        if isinstance(memory_files, str):
            message = f"memory_files is a list of paths, such as [{memory_files!r}]; got a text"
            raise ValueError(message)  # noqa: TRY004 - the value is wrong: a text is a sequence of texts
        return first_memory(memory_files, auto_reload=auto_reload)

    @on(SessionStarted)
    def read(self, event: SessionStarted, memory: MemoryFiles, ctx: Context) -> Action[MemoryFiles]:
        """Read all files, one after the other. Also after a recovery, because they may have changed meanwhile."""
        return _read_next(attrs.evolve(memory, unread=memory.files))

    @on(RequestDone)
    def take(self, event: RequestDone, memory: MemoryFiles, ctx: Context) -> Action[MemoryFiles]:
        """Store the content of a file, and read the next. An unreadable file stays as it was, and is reported."""
        file = event.tag
        match event.result:
            case FileText(text=text) if (
                file in memory.files
            ):  # agent files too, in journals of older versions
                return _read_next(with_text(memory, file, text or ""))
            case InstructionsFound() as found if file == BELOW:
                after, said = with_below(memory, found)
                return Continue(after, emits=said)
            case InstructionsFound() as found if file in memory.files:
                after, said = with_upward(memory, file, found)
                return _read_next(after, *said)
            case RequestFailed(error=error):
                failed = ("memory_not_loaded", {"file": file, "reason": error.message})
                left = tuple(other for other in memory.unread if other != file)
                return _read_next(attrs.evolve(memory, unread=left), failed)
            case _:
                return Continue(memory)

    @on(BeforeTool)
    def note_reached(self, event: BeforeTool, memory: MemoryFiles, ctx: Context) -> Action[MemoryFiles]:
        """Record the directories below that a call is about to touch for the first time, by its final arguments."""
        is_shown = ctx.prompt_mode == "full"
        return Continue(with_reached(memory, event, ctx.working_dir) if is_shown else memory)

    @on(AfterToolBatch)
    def look_below(self, event: AfterToolBatch, memory: MemoryFiles, ctx: Context) -> Action[MemoryFiles]:
        """Look for agent files in directories that the calls touched. The model continues when they are read."""
        new, after = newly_touched(memory, {one.call_id for one in event.results if not one.is_error})
        if not new:
            return Continue(after)
        return Request(ReadInstructions(names=memory.names, below=new), BELOW, after, wait=True)

    @on(BeforeRequest)
    def show(self, event: BeforeRequest, memory: MemoryFiles, ctx: Context) -> Action[MemoryFiles]:
        """Return the section with each request, because a `Skip` of another plugin may have removed it. Show joining files once."""
        context = {SECTION: show_memory(memory)}
        joining, after = say_joining(memory)
        return Intervene(joining, after, context=context) if joining else Continue(memory, context=context)

    @on(BeforeCompact)
    def forget(self, event: BeforeCompact, memory: MemoryFiles, ctx: Context) -> Action[MemoryFiles]:
        """Let files join again whose text is about to leave the conversation."""
        return Continue(without(memory, event.messages))

    @on(AfterTool)
    def reload(self, event: AfterTool, memory: MemoryFiles, ctx: Context) -> Action[MemoryFiles]:
        """Read files that a call may have written, and files whose answer was lost in a crash."""
        named = _arguments_of(event.call_id, ctx) if memory.auto_reload else ""
        unread = named_in(memory, named)
        return _read_next(attrs.evolve(memory, unread=unread)) if unread else Continue(memory)


def _read_next(memory: MemoryFiles, *emits: Emitted) -> Action[MemoryFiles]:
    if not memory.unread:
        return Continue(memory, emits=emits)
    file = memory.unread[0]
    wanted = ReadInstructions(names=memory.names) if file in INSTRUCTION_NAMES else ReadFile(file)
    return Request(wanted, file, memory, emits=emits)


def _arguments_of(call_id: CallId, ctx: Context) -> str:
    """Return the arguments of a call as text: a path, or a command line that contains the path."""
    for message in reversed(ctx.messages):
        if isinstance(message, AssistantMessage):
            found = next((call for call in message.calls if call.call_id == call_id), None)
            return "" if found is None else json.dumps(found.arguments, ensure_ascii=False)
    return ""
