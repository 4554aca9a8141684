"""Files that an editor has open: read and written through it, after this machine's sandbox has judged each path."""

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set as AbstractSet
from pathlib import Path
from typing import Any, Final

import trio

from agentrail.abc import (
    EditResult,
    ExecuteOptions,
    ExecuteResult,
    FileWrite,
    ReadResult,
    Refusal,
    WriteResult,
)
from agentrail.sandboxes.fallback import ShellFallback
from agentrail.sandboxes.files import hash_bytes
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.text import read_page
from agentrail.sandboxes.text_edit import decide_edit

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
        told = {"command": "sh", "args": ["-c", command], "cwd": self._place(options.workdir)}
        made = await self._ask("terminal/create", {**told, "outputByteLimit": _MAX_OUTPUT_BYTES})
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
