"""`MemoryLoader`: adds files such as `AGENTS.md` to the system prompt of every request."""

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
    """Includes memory files such as `AGENTS.md` in the system prompt, and follows their changes."""

    priority = 115
    sections: tuple[str, ...] = (SECTION,)

    def init(self, *, memory_files: Sequence[str] = ("AGENTS.md",), auto_reload: bool = True) -> MemoryFiles:
        """Set the files, relative to the working directory.

        Raises:
            ValueError: Your move: a single text instead of a list.
        """
        if isinstance(memory_files, str):
            message = f"memory_files must be a list of paths, such as [{memory_files!r}]; got a text"
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
            case FileText(text=text) if file in memory.files:
                # Agent files too, in journals of older versions.
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
