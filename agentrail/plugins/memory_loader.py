"""`MemoryLoader`: what stands in files such as `AGENTS.md` is in the system prompt of every request.

Files for agents (`INSTRUCTION_NAMES`) are looked for upward too, and in the directories that calls touch. What of them is shown is decided in
`core/values/instructions`, and how it reads in `memory_files`; other files are read as they are named.
"""

import json
from collections.abc import Sequence

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
from agentrail.messages import AssistantMessage, CallId
from agentrail.plugins.base import Plugin, on
from agentrail.plugins.memory_files import (
    BELOW,
    SECTION,
    MemoryFiles,
    first_memory,
    named_in,
    newly_touched,
    say_joining,
    show_memory,
    with_below,
    with_reached,
    with_text,
    with_upward,
    without,
)


class MemoryLoader(Plugin[MemoryFiles]):
    """Puts memory files such as `AGENTS.md` into the system prompt, and keeps up with changes to them."""

    priority = 115
    sections: tuple[str, ...] = (SECTION,)

    def init(self, *, memory_files: Sequence[str] = ("AGENTS.md",), auto_reload: bool = True) -> MemoryFiles:
        """Take the files, relative to the working directory.

        Raises:
            ValueError: Your move: one text instead of a list of them.
        """
        if isinstance(memory_files, str):
            message = f"memory_files is a list of paths, such as [{memory_files!r}]; got a text"
            raise ValueError(message)  # noqa: TRY004 - the value is wrong: a text is a sequence of texts
        return first_memory(memory_files, auto_reload=auto_reload)

    @on(SessionStarted)
    def read(self, event: SessionStarted, memory: MemoryFiles, ctx: Context) -> Action[MemoryFiles]:
        """Read all files, one after the other; also after a recovery, because they may have changed meanwhile."""
        return _read_next(attrs.evolve(memory, unread=memory.files))

    @on(RequestDone)
    def take(self, event: RequestDone, memory: MemoryFiles, ctx: Context) -> Action[MemoryFiles]:
        """Keep what is in a file, and go on with the next. What cannot be read stays as it was, and is reported."""
        file = event.tag
        match event.result:
            case FileText(text=text) if (
                file in memory.files
            ):  # of files for agents too, in journals of older versions
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
        """Note which directories below a call is about to touch for the first time, with the arguments that it runs with."""
        is_shown = ctx.prompt_mode == "full"
        return Continue(with_reached(memory, event, ctx.working_dir) if is_shown else memory)

    @on(AfterToolBatch)
    def look_below(self, event: AfterToolBatch, memory: MemoryFiles, ctx: Context) -> Action[MemoryFiles]:
        """Look for files for agents in directories that the calls have touched; the model goes on when they are read."""
        new, after = newly_touched(memory, {one.call_id for one in event.results if not one.is_error})
        if not new:
            return Continue(after)
        return Request(ReadInstructions(names=memory.names, below=new), BELOW, after, wait=True)

    @on(BeforeRequest)
    def show(self, event: BeforeRequest, memory: MemoryFiles, ctx: Context) -> Action[MemoryFiles]:
        """Give the section, each time: another plugin's `Skip` may have taken back the last one. And say once what has joined."""
        context = {SECTION: show_memory(memory)}
        joining, after = say_joining(memory)
        return Intervene(joining, after, context=context) if joining else Continue(memory, context=context)

    @on(BeforeCompact)
    def forget(self, event: BeforeCompact, memory: MemoryFiles, ctx: Context) -> Action[MemoryFiles]:
        """Let files join again whose text is about to leave the conversation."""
        return Continue(without(memory, event.messages))

    @on(AfterTool)
    def reload(self, event: AfterTool, memory: MemoryFiles, ctx: Context) -> Action[MemoryFiles]:
        """Read what a call may have written, and what is still unread because a crash ate the answer."""
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
    """Give what a call was given, as text: a path, or a command line with the path somewhere in it."""
    for message in reversed(ctx.messages):
        if isinstance(message, AssistantMessage):
            found = next((call for call in message.calls if call.call_id == call_id), None)
            return "" if found is None else json.dumps(found.arguments, ensure_ascii=False)
    return ""
