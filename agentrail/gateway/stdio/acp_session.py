"""One session in an editor: everything that it is shown, in order, the prompts that it waits for, and the files that it has open.

Files are read and written through the editor, after this machine's sandbox has judged each path.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set as AbstractSet
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import trio
from attrs import define, field
from msgspec.structs import replace

from agentrail.abc import (
    EditResult,
    ExecuteOptions,
    ExecuteResult,
    FileWrite,
    ReadResult,
    Refusal,
    WriteResult,
)
from agentrail.actors.deferred_error import Kept
from agentrail.errors import AgentrailError, StoreUnavailable, SubscriberTooSlow
from agentrail.events import (
    AgentStart,
    Approval,
    AskUser,
    ClientCall,
    CompactEnd,
    CompactStart,
    Event,
    EventsLost,
    ModelSwitched,
    PluginOptsUpdated,
    PromptQueued,
    PromptReceived,
    PromptTaken,
    SteeringApplied,
    SteeringReceived,
)
from agentrail.messages import Text, UserBlock
from agentrail.protocols import acp
from agentrail.protocols.response_changes import Frame, Frames
from agentrail.protocols.response_state import Bridged, Response
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_rows import window_of
from agentrail.sandboxes.fallback import ShellFallback
from agentrail.sandboxes.files import hash_bytes
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.text import read_page
from agentrail.sandboxes.text_edit import decide_edit

if TYPE_CHECKING:
    from agentrail.host.requests import HostRequest, RequestRecord

AskedOfEditor: TypeAlias = Approval | AskUser
_BUFFER: Final = 4_096
PERMISSIONS: Final = "Permissions"


@define(eq=False)
class EditorPrompt:
    """A `session/prompt` that is not answered yet."""

    before: "EditorPrompt | None" = None
    admitted: trio.Event = field(factory=trio.Event)
    cancelled: trio.Event = field(factory=trio.Event)
    request: "HostRequest | None" = None


@define(eq=False)
class EditorSession:
    """A session that an editor has open.

    Attributes:
        ask: Called with each new question or approval, and its call.
        shown: Number of the last event that was shown.
        words: Questions for an editor without forms, oldest first. Each prompt answers one.
        request_id: Request of the last cycle. None before one, and if the editor did not send it.
    """

    session: Session
    cwd: str
    send: Callable[[Frame], Awaitable[None]]
    ask: Callable[["EditorSession", str, AskedOfEditor], None]
    compacts: bool = False
    when_busy: str = "interrupt"
    prompts: list[EditorPrompt] = field(factory=list)
    last: EditorPrompt | None = None
    words: list[AskUser] = field(factory=list)
    request_id: str | None = None
    shown: int = 0
    is_over: bool = False
    asked: dict[str, AskedOfEditor] = field(factory=dict)
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    view: acp.AcpView = field(init=False)
    _closed_id: str = ""
    _compaction: str = ""
    _changed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)
    _aborting: trio.Lock = field(factory=trio.Lock)
    _said: dict[str, Sequence[UserBlock]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        window = window_of(self.session) or 0
        self.view = acp.AcpView(session_id=self.session.session_id, cwd=self.cwd, window=window)

    def changed(self) -> None:
        self._changed.unpark_all()

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not (is_so() or self.is_over):
            await self._changed.park()

    def add_prompt(self) -> EditorPrompt:
        self.last = EditorPrompt(before=self.last)
        self.prompts.append(self.last)
        return self.last

    def abort_soon(self, prompts: Sequence[EditorPrompt], reason: str) -> Callable[[], Awaitable[None]]:
        """Mark prompts as cancelled. The result aborts their work, and returns when it has ended."""
        for one in prompts:
            one.cancelled.set()

        async def abort() -> None:
            async with self._aborting:
                with suppress(AgentrailError):  # the session has ended
                    await self.session.abort(reason, clear_queue=True, wait=True)

        return abort

    async def result_of(self, request: "HostRequest") -> "RequestRecord":
        """Wait for the end of a request and for everything that it shows, or for a question in words."""
        failure = Kept()
        async with trio.open_nursery() as nursery:

            async def wait(for_it: Callable[[], Awaitable[object]]) -> None:
                try:
                    await for_it()
                except StoreUnavailable as error:  # raised below: the nursery would put it into a group
                    failure.error = error
                nursery.cancel_scope.cancel(reason="the turn is over")

            nursery.start_soon(wait, request.outcome)
            nursery.start_soon(wait, partial(self.until, lambda: bool(self.words)))
        failure.release()
        record = request.record
        if not record.has_ended and self.words:
            return replace(record, status="completed")
        async with self._aborting:  # an abort has settled when it returns
            pass
        await self.until(lambda: self.shown >= (record.end_seq or 0))
        return record

    async def follow(
        self, *, replays: bool, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Show the session until it ends or `scope` is cancelled. Reports when the past is over."""
        state = Bridged(Response(read_text=self.session.reads_answers()), self.view)
        past = (await self.session.status()).last_seq
        waits_for_past = True
        with self.scope:
            while True:
                with suppress(SubscriberTooSlow):  # what it missed comes again, without deltas
                    async with self.session.subscribe(after=self.shown, buffer=_BUFFER) as events:
                        async for event in events:
                            number = 0 if event.meta is None else event.meta.seq
                            is_past = waits_for_past and number <= past
                            state = await self._show(state, event, is_past=is_past, replays=replays)
                            self.shown = max(self.shown, number)
                            if waits_for_past and self.shown >= past:
                                waits_for_past = False
                                self._look_at_questions(state.response)
                                task_status.started()
                            self.changed()
                    break
        if waits_for_past:  # it was detached, or has ended
            task_status.started()
        self.is_over = True
        self.changed()

    async def _show(
        self, state: Bridged[acp.AcpView], event: Event, *, is_past: bool, replays: bool
    ) -> Bridged[acp.AcpView]:
        said = self._words_before(event) if is_past else ()
        state, frames = acp.ACP.fold(state, event)
        response = state.response
        if response.end is not None and not response.is_paused and response.response_id != self._closed_id:
            self._closed_id = response.response_id
            frames = (*frames, *acp.ACP.close(state))
        match event:  # also outside of a cycle
            case EventsLost(to_seq=number):
                self.shown = number
            case AgentStart(request_id=request_id):
                self.request_id = request_id
            case CompactStart(meta=meta) if meta is not None:
                self._compaction = f"c{meta.seq}"
                frames = (*frames, *self._compacting("in_progress"))
            case CompactEnd():
                frames = (*frames, *self._compacting("completed"))
            case _:
                pass
        if not is_past and isinstance(event, ModelSwitched | PluginOptsUpdated):
            with suppress(AgentrailError):  # the session has ended since
                frames = (*frames, *await self.settings_changed())
        for frame in (*said, *frames) if replays or not is_past else ():
            await self.send(frame)
        if not is_past:
            self._look_at_questions(response)
        return state

    def _compacting(self, status: str) -> Frames:
        fields = {"compactionId": self._compaction, "status": status}
        update = acp.acp_update(self.session.session_id, "compaction_update", **fields)
        return (update,) if self.compacts and self._compaction else ()

    def _words_before(self, event: Event) -> Frames:
        match event:
            case PromptReceived(ref=ref, content=content) | PromptQueued(ref=ref, content=content):
                self._said[ref] = content
            case SteeringReceived(ref=ref, text=text):
                self._said[ref] = (Text(text=text),)
            case AgentStart(ref=ref) | PromptTaken(ref=ref):
                return acp.user_chunks(self.session.session_id, self._said.pop(ref, ()))
            case SteeringApplied(refs=refs):
                steers = [block for ref in refs for block in self._said.pop(ref, ())]
                return acp.user_chunks(self.session.session_id, steers)
            case _:
                pass
        return ()

    def _look_at_questions(self, response: Response) -> None:
        for name in [name for name in self.asked if name not in response.asked]:
            del self.asked[name]  # a late answer is dropped
        for name, (call_id, what) in response.asked.items():
            if name not in self.asked and not isinstance(what, ClientCall):
                self.asked[name] = what
                self.ask(self, call_id, what)
        self.words = [one for one in self.words if one.ref in self.asked]  # others were answered elsewhere

    # --- settings

    async def settings_changed(self) -> Frames:
        fields, shown = await self.settings(), partial(acp.acp_update, self.session.session_id)
        options = shown("config_option_update", configOptions=fields["configOptions"])
        if "modes" not in fields:
            return (options,)
        return (shown("current_mode_update", currentModeId=fields["modes"]["currentModeId"]), options)

    async def settings(self) -> dict[str, Any]:
        mode = await self.permissions("mode", "default")
        shown = None if mode is None else f"{mode}"
        return acp.session_settings((await self.session.status()).model, shown, self.when_busy)

    async def permissions(self, option: str, usual: str | None = None) -> object:
        """Return an option of the permissions, or None if the session has none."""
        for one in (await self.session.status()).plugins:
            if one.name == PERMISSIONS:
                return one.options.get(option) or usual
        return None


# --- files of an editor

AskEditor = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Sends a request to the editor, with its method and parameters. Returns the result, or a `Refusal`."""

_MAX_OUTPUT_BYTES: Final = 64 << 10
_RELEASE_SECONDS: Final = 2.0
_NO_TERMINAL: Final = Refusal(code="io_error", message="The editor opened no terminal.")
_ALLOWED: Final = Refusal(code="unsupported", message="This write is only judged.")


class _Judge:
    """A keeper that lets no write happen, so that a sandbox judges it and does nothing."""

    async def keep(self, changes: Sequence[FileWrite], contents: Mapping[str, bytes]) -> Refusal | None:
        return _ALLOWED

    def take_back(self, changes: Sequence[FileWrite]) -> None:
        pass

    async def keep_command(self) -> Refusal | None:
        return None


class ClientFiles(LocalSandbox):
    """A directory whose text files are those of an editor, with unsaved changes.

    Searches and commands see the files on disk. Earlier versions of files are not kept, because the editor keeps them.
    """

    def __init__(
        self, root: Path, ask: AskEditor, offers: AbstractSet[str], shell_fallback: ShellFallback
    ) -> None:
        """Open a directory. `offers` has `readTextFile`, `writeTextFile` and `terminal`; the rest is done here."""
        super().__init__(root, shell_fallback=shell_fallback)
        self._ask = ask
        self._offers = offers

    @property
    def is_unconfined(self) -> bool:
        return "terminal" in self._offers or super().is_unconfined

    @property
    def capabilities(self) -> frozenset[str]:
        return super().capabilities - {"versions"}

    async def read(self, path: str, *, offset: int = 1, limit: int | None = None) -> ReadResult:
        if "readTextFile" not in self._offers:
            return await super().read(path, offset=offset, limit=limit)
        text = await self._text_in_editor(path)
        if isinstance(text, Refusal):
            return ReadResult(error=text)
        data = text.encode("utf-8", "replace")
        return read_page([data], offset=offset, limit=limit, path=path, size_bytes=len(data))

    async def write(self, path: str, content: str) -> WriteResult:
        if "writeTextFile" not in self._offers:
            return await super().write(path, content)
        judged = await LocalSandbox.write(self.kept_by(_Judge()), path, content)
        if judged.error is not _ALLOWED:
            return judged
        is_new = not await self.exists(path)
        asked = await self._ask("fs/write_text_file", {"path": self._place(path), "content": content})
        if isinstance(asked, Refusal):
            return WriteResult(error=asked)
        data = content.encode("utf-8", "replace")
        lines = content.count("\n") + (not content.endswith("\n"))
        return WriteResult(is_new=is_new, total_lines=lines, size_bytes=len(data), sha256=hash_bytes(data))

    async def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> EditResult:
        if "readTextFile" not in self._offers:
            return await super().edit(path, old, new, replace_all=replace_all)
        text = await self._text_in_editor(path)
        if isinstance(text, Refusal):
            return EditResult(error=text)
        edited = decide_edit(text, old, new, replace_all=replace_all, path=path)
        if isinstance(edited, Refusal):
            return EditResult(error=edited)
        written = await self.write(path, edited.text)
        before = hash_bytes(text.encode("utf-8", "replace"))
        return EditResult(
            replacements=edited.replacements,
            diff=edited.diff,
            sha256=written.sha256,
            sha256_before=before,
            error=written.error,
        )

    async def execute(self, command: str, options: ExecuteOptions) -> ExecuteResult:
        if "terminal" not in self._offers:
            return await super().execute(command, options)
        listed = await self.list_dir(options.workdir)
        if listed.error is not None:
            return ExecuteResult(error=listed.error)
        began_at = trio.current_time()
        fields = {"command": "sh", "args": ["-c", command], "cwd": self._place(options.workdir)}
        made = await self._ask("terminal/create", {**fields, "outputByteLimit": _MAX_OUTPUT_BYTES})
        if isinstance(made, Refusal) or not isinstance(made, dict):
            return ExecuteResult(error=made if isinstance(made, Refusal) else _NO_TERMINAL)
        terminal = {"terminalId": made.get("terminalId")}
        try:
            with trio.move_on_after(options.timeout_seconds) as limit:
                await self._ask("terminal/wait_for_exit", terminal)
            if limit.cancelled_caught:
                await self._ask("terminal/kill", terminal)
            said = await self._ask("terminal/output", terminal)
        finally:
            with trio.move_on_after(_RELEASE_SECONDS, shield=True):  # which ends the command, too
                await self._ask("terminal/release", terminal)
        if isinstance(said, Refusal) or not isinstance(said, dict):
            return ExecuteResult(error=said if isinstance(said, Refusal) else _NO_TERMINAL)
        status = said.get("exitStatus")
        code = status.get("exitCode") if isinstance(status, dict) else None
        return ExecuteResult(
            output=f"{said.get('output', '')}",
            exit_code=code if type(code) is int else None,
            duration_ms=round((trio.current_time() - began_at) * 1e3),
            truncated=said.get("truncated") is True,
            timed_out=limit.cancelled_caught,
        )

    async def _text_in_editor(self, path: str) -> str | Refusal:
        """Return a text. A file that is only in the editor so far was judged too: its place is allowed."""
        judged = (await super().read(path, limit=1)).error
        if judged is not None and judged.code != "file_not_found":
            return judged
        asked = await self._ask("fs/read_text_file", {"path": self._place(path)})
        if isinstance(asked, Refusal):
            return judged or asked
        text = asked.get("content") if isinstance(asked, dict) else None
        return text if isinstance(text, str) else Refusal(code="io_error", message="The editor sent no text.")

    def _place(self, path: str) -> str:
        return str(self._path.joinpath(*self._names_of(path)))
