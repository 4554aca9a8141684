"""`MemoryLoader`: what stands in files such as `AGENTS.md` is in the system prompt of every request."""

import html
import json
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from agentrail.core.protocol.actions import Action, Continue, Emitted, ReadFile, Request
from agentrail.core.protocol.hooks import (
    AfterTool,
    BeforeRequest,
    FileText,
    RequestDone,
    RequestFailed,
    SessionStarted,
)
from agentrail.core.stack.plugin import Context
from agentrail.messages import AssistantMessage, CallId
from agentrail.plugins.base import Plugin, on

MAX_FILE_CHARACTERS: Final = 40_000
"""Of one file. It is in every request of the session, so an operator who needs more wants a file that the model reads."""

SECTION: Final = "agent_memory"
"""The key of the section: the prompt mode `task` leaves out what stands under this name."""


@attrs.frozen(kw_only=True)
class MemoryFiles:
    """Files and what is in them.

    Attributes:
        files: In the order in which the model sees them.
        texts: What is in each; empty while that is not known, and when there is no such file.
        unread: Those that have to be read, or read again.
        auto_reload: Whether a file is read again after a call that names it.
    """

    files: tuple[str, ...]
    texts: tuple[str, ...]
    unread: tuple[str, ...] = ()
    auto_reload: bool = True


class MemoryLoader(Plugin[MemoryFiles]):
    """Puts memory files such as `AGENTS.md` into the system prompt, and keeps up with changes to them."""

    priority = 115

    def init(self, *, memory_files: Sequence[str] = ("AGENTS.md",), auto_reload: bool = True) -> MemoryFiles:
        """Take the files, relative to the working directory.

        Raises:
            ValueError: Your move: one text instead of a list of them.
        """
        if isinstance(memory_files, str):
            message = f"memory_files is a list of paths, such as [{memory_files!r}]; got a text"
            raise ValueError(message)  # noqa: TRY004 - the value is wrong: a text is a sequence of texts
        files = tuple(dict.fromkeys(memory_files))
        return MemoryFiles(files=files, texts=("",) * len(files), auto_reload=auto_reload)

    @on(SessionStarted)
    def read(self, event: SessionStarted, memory: MemoryFiles, ctx: Context) -> Action[MemoryFiles]:
        """Read all files, one after the other; also after a recovery, because they may have changed meanwhile."""
        return _read_next(attrs.evolve(memory, unread=memory.files))

    @on(RequestDone)
    def take(self, event: RequestDone, memory: MemoryFiles, ctx: Context) -> Action[MemoryFiles]:
        """Keep what is in a file, and go on with the next. What cannot be read stays as it was, and is reported."""
        file = event.tag
        left = tuple(other for other in memory.unread if other != file)
        match event.result:
            case FileText(text=text) if file in memory.files:
                known = zip(memory.files, memory.texts, strict=True)
                texts = tuple((text or "") if name == file else old for name, old in known)
                return _read_next(attrs.evolve(memory, texts=texts, unread=left))
            case RequestFailed(error=error):
                failed = ("memory_not_loaded", {"file": file, "reason": error.message})
                return _read_next(attrs.evolve(memory, unread=left), failed)
            case _:
                return Continue(memory)

    @on(BeforeRequest)
    def show(self, event: BeforeRequest, memory: MemoryFiles, ctx: Context) -> Action[MemoryFiles]:
        """Give the section, each time: another plugin's `Skip` may have taken back the last one."""
        return Continue(memory, context={SECTION: "\n\n".join(_sections(memory)) or None})

    @on(AfterTool)
    def reload(self, event: AfterTool, memory: MemoryFiles, ctx: Context) -> Action[MemoryFiles]:
        """Read what a call may have written, and what is still unread because a crash ate the answer."""
        named = _arguments_of(event.call_id, ctx) if memory.auto_reload else ""
        unread = tuple(file for file in memory.files if file in memory.unread or _name_of(file) in named)
        return _read_next(attrs.evolve(memory, unread=unread)) if unread else Continue(memory)


def _read_next(memory: MemoryFiles, *emits: Emitted) -> Action[MemoryFiles]:
    if not memory.unread:
        return Continue(memory, emits=emits)
    return Request(ReadFile(memory.unread[0]), memory.unread[0], memory, emits=emits)


def _sections(memory: MemoryFiles) -> Iterator[str]:
    for file, text in zip(memory.files, memory.texts, strict=True):
        if not text.strip():
            continue
        shown = text.strip()[:MAX_FILE_CHARACTERS]
        if len(shown) < len(text.strip()):
            shown += (
                f"\n[Only the first {MAX_FILE_CHARACTERS:,} characters are shown. The rest is in {file}.]"
            )
        # A file must not end its own section: what comes after would look like the words of the application.
        shown = shown.replace(f"</{SECTION}", f"&lt;/{SECTION}")
        yield f'<{SECTION} name="{html.escape(file)}">\n{shown}\n</{SECTION}>'


def _arguments_of(call_id: CallId, ctx: Context) -> str:
    """Give what a call was given, as text: a path, or a command line with the path somewhere in it."""
    for message in reversed(ctx.messages):
        if isinstance(message, AssistantMessage):
            found = next((call for call in message.calls if call.call_id == call_id), None)
            return "" if found is None else json.dumps(found.arguments, ensure_ascii=False)
    return ""


def _name_of(file: str) -> str:
    return file.rpartition("/")[2]
