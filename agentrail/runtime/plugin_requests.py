"""Requests of plugins to the shell. Each ends in exactly one answer, even if it fails."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias, assert_never

import trio

from agentrail.abc import Memories, Provider, Refusal, Sandbox
from agentrail.abc.recall import MAX_LISTED
from agentrail.core.protocol.actions import (
    CallModel,
    KeepMemory,
    ReadFile,
    ReadInstructions,
    ReadNotes,
    Search,
    Wanted,
    WriteFile,
    WriteNotes,
)
from agentrail.core.protocol.hooks import (
    FileText,
    FileWritten,
    Found,
    InstructionsFound,
    MemoryKept,
    ModelAnswer,
    NotesIndex,
    RequestFailed,
    RequestResult,
    UnreadInstructions,
)
from agentrail.core.protocol.request import Chunk, Completed, EffectId, ModelRequest, UsageUpdate
from agentrail.core.values.instruction_order import MAX_READ_CHARACTERS, InstructionFile
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import AgentrailError, ErrorInfo, ProviderError
from agentrail.messages import Text, TokenUsage, UserMessage
from agentrail.otp.crash_text import describe_bug, words_of
from agentrail.otp.exits import keep
from agentrail.runtime.crashes import (
    PortCrashed,
    crash_edge,
    decide_provider_crash,
    decide_sandbox_crash,
    info_of,
)
from agentrail.runtime.error_scrubber import Scrub
from agentrail.runtime.model_lookup import priced
from agentrail.runtime.parent_instructions import InstructionsAbove
from agentrail.runtime.session_stores import NOTHING_OWN, OwnStores, decide_memory_crash, json_of_memory

# A path through a file, or out of the workspace, leads to no directory of it.
_ABSENT: Final = frozenset({"file_not_found", "invalid_path"})
_WORKING_DIRECTORY: Final = ("",)


async def read_instructions(
    wanted: ReadInstructions,
    sandbox: Callable[[], Sandbox],
    above: InstructionsAbove | None,
    scrub: Scrub,
) -> InstructionsFound:
    if not wanted.below and above is not None:
        with crash_edge(_decide_port_crash, scrub=scrub):
            return await above.read(wanted.names)
    directories = wanted.below or _WORKING_DIRECTORY
    with crash_edge(partial(decide_sandbox_crash, directories[0] or "."), AgentrailError, scrub=scrub):
        opened = sandbox()
    paths = [[f"{one}/{name}" if one else name for name in wanted.names] for one in directories]
    reads: dict[str, _Read] = {}
    async with trio.open_nursery() as nursery:
        for path in [path for of_one in paths for path in of_one]:
            nursery.start_soon(_read_into, reads, path, opened, scrub)
    return decide_found(paths, reads)


_Read = InstructionFile | UnreadInstructions | None


async def _read_into(reads: "dict[str, _Read]", path: str, sandbox: Sandbox, scrub: Scrub) -> None:
    try:
        with crash_edge(partial(decide_sandbox_crash, path), AgentrailError, scrub=scrub):
            read = await sandbox.read(path)
            refusal, text = read.error, read.text[:MAX_READ_CHARACTERS]
    except PortCrashed as crashed:
        reads[path] = UnreadInstructions(path=path, reason=crashed.error.message)
    except AgentrailError as error:
        reads[path] = UnreadInstructions(path=path, reason=words_of(error))
    else:
        if refusal is None:
            reads[path] = InstructionFile(path=path, text=text) if text.strip() else None
        elif refusal.code not in _ABSENT:
            reads[path] = UnreadInstructions(path=path, reason=refusal.message)


def decide_found(paths: Sequence[Sequence[str]], reads: "dict[str, _Read]") -> InstructionsFound:
    files: list[InstructionFile] = []
    unread: list[UnreadInstructions] = []
    for of_one in paths:
        for read in map(reads.get, of_one):
            if isinstance(read, InstructionFile):
                files.append(read)
                break
            if read is not None:
                unread.append(read)
    return InstructionsFound(files=tuple(files), unread=tuple(unread))


def _decide_port_crash(error: BaseException) -> ErrorInfo:
    message = f"the files above the working directory could not be read ({describe_bug(error)}): this is a bug, please report it"
    return ErrorInfo(code="instructions_crashed", message=message)


# Requests of plugins to the memories and notes of a session. Each ends in exactly one answer.


MOST_PRUNED: Final = 100
"""Maximum number of old memories that one request deletes, in addition to the one it adds. The next request continues."""


async def run_memory_request(
    wanted: Search | KeepMemory | ReadNotes | WriteNotes, own: OwnStores
) -> RequestResult:
    match wanted:
        case ReadNotes() if own.notes is not None:
            return NotesIndex(topics=await own.notes.topics())
        case WriteNotes() if own.notes is not None:
            added, topics = await own.notes.add(wanted.topic, wanted.facts, only_new=wanted.dedupe)
            return NotesIndex(topics=topics, added=added)
        case Search() if own.memories is not None:
            return await _search(wanted, own.memories)
        case KeepMemory() if own.memories is not None:
            return await _keep(wanted, own.memories)
        case Search(query=query):
            return _missing(f"this session has no memories in which {query!r:.200} could be searched")
        case KeepMemory():
            return _missing("this session cannot store memories")
        case _:
            message = "this session has no working notes: set memories= or notes= of its supervisor"
            return RequestFailed(error=ErrorInfo(code="no_notes", message=message))


def _missing(what: str) -> RequestFailed:
    message = f"{what}: set memories= of its supervisor"
    return RequestFailed(error=ErrorInfo(code="no_memory", message=message))


async def _search(wanted: Search, memories: Memories) -> RequestResult:
    said: list[str] = []
    found = await memories.telling(said.append).search(
        wanted.query, tags_all=wanted.tags, limit=wanted.max_entries
    )
    return Found(entries=tuple(map(json_of_memory, found)), words_only=said[0] if said else "")


async def _keep(wanted: KeepMemory, memories: Memories) -> RequestResult:
    await memories.put(wanted.text, tags=wanted.tags, entry_id=wanted.entry_id)
    if wanted.max_entries is not None:
        listed = await memories.newest(
            tags_all=wanted.tags, limit=min(wanted.max_entries + MOST_PRUNED, MAX_LISTED)
        )
        for old in listed[wanted.max_entries :]:
            await memories.delete(old.id)
    return MemoryKept(entry_id=wanted.entry_id)


FindModel: TypeAlias = Callable[[str | None], tuple[str, Provider]]
"""Returns the model with a name, or the session's own for None."""


async def run_plugin_request(  # noqa: PLR0913 - all that plugins may request
    effect_id: EffectId,
    wanted: Wanted,
    sandbox: Callable[[], Sandbox],
    find_model: FindModel,
    scrub: Scrub = keep,
    *,
    own: OwnStores = NOTHING_OWN,
    above: InstructionsAbove | None = None,
) -> RequestResult:
    try:
        match wanted:
            case ReadFile(path=path):
                with crash_edge(partial(decide_sandbox_crash, path), AgentrailError, scrub=scrub):
                    return await _read(wanted, sandbox())
            case WriteFile(path=path):
                with crash_edge(partial(decide_sandbox_crash, path), AgentrailError, scrub=scrub):
                    return await _write(wanted, sandbox())
            case CallModel():
                return await _call_model(effect_id, wanted, find_model, scrub)
            case Search() | KeepMemory() | ReadNotes() | WriteNotes():
                with crash_edge(decide_memory_crash, AgentrailError, scrub=scrub):
                    return await run_memory_request(wanted, own)
            case ReadInstructions():
                return await read_instructions(wanted, sandbox, above, scrub)
            case _:
                assert_never(wanted)
    except PortCrashed as crashed:
        return RequestFailed(error=crashed.error)
    except ProviderError as error:
        return RequestFailed(error=info_of(error))
    except AgentrailError as error:
        return RequestFailed(error=ErrorInfo(code="plugin_request_failed", message=words_of(error)))


async def _read(wanted: ReadFile, sandbox: Sandbox) -> RequestResult:
    read = await sandbox.read(wanted.path)
    if read.error is not None:
        return _missing_or_failed(wanted.path, read.error)
    return FileText(path=wanted.path, text=read.text)


def _missing_or_failed(path: str, refusal: Refusal) -> RequestResult:
    if refusal.code == "file_not_found":
        return FileText(path=path, text=None)
    return RequestFailed(error=ErrorInfo(code=refusal.code, message=refusal.message))


async def _write(wanted: WriteFile, sandbox: Sandbox) -> RequestResult:
    before = ""
    if wanted.append:
        read = await sandbox.read(wanted.path)
        if read.error is not None and read.error.code != "file_not_found":
            return _missing_or_failed(wanted.path, read.error)
        before = read.text
    text = before + wanted.text
    written = await sandbox.write(wanted.path, text)
    if written.error is not None:
        return RequestFailed(error=ErrorInfo(code=written.error.code, message=written.error.message))
    return FileWritten(path=wanted.path, written_bytes=len(wanted.text.encode()))


async def _call_model(
    effect_id: EffectId, wanted: CallModel, find_model: FindModel, scrub: Scrub
) -> RequestResult:
    asked = wanted.model or "the session's model"
    with crash_edge(partial(decide_provider_crash, asked), AgentrailError, scrub=scrub):
        name, provider = find_model(wanted.model)
    request = ModelRequest(
        attempt=effect_id,
        model=name,
        system=wanted.system,
        messages=(UserMessage(content=(Text(text=wanted.prompt),)),),
        tools=Toolbox(),
        max_output_tokens=wanted.max_output_tokens,
    )
    usage: TokenUsage | None = TokenUsage()
    message = f"the provider of {name} ended a stream without its terminal chunk"
    error = ErrorInfo(code="protocol_error", message=message)
    try:
        with crash_edge(partial(decide_provider_crash, name), ProviderError, scrub=scrub):
            async with provider.open_stream(request) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, Completed):
                        return ModelAnswer(text=chunk.message.text, usage=priced(chunk.usage, name, provider))
                    usage = decide_usage_so_far(usage, chunk)
    except ProviderError as failed:
        error = info_of(failed)
    except PortCrashed as crashed:
        error = crashed.error
    return RequestFailed(error=error, usage=None if usage is None else priced(usage, name, provider))


def decide_usage_so_far(known: TokenUsage | None, chunk: Chunk) -> TokenUsage | None:
    """Return the usage of a request that may end after this chunk: the last reported one, or unknown."""
    if isinstance(chunk, UsageUpdate):
        return chunk.usage
    return known if known is not None and known.total else None
