"""`LargeResultOffload`: a result that is too large goes into a file; the model sees how it begins, and how to read on."""

from collections.abc import Sequence
from typing import Final

import attrs

from agentrail.core.policy.context import BYTES_PER_TOKEN
from agentrail.core.protocol.actions import Action, Continue, Emitted, ReplaceToolResult, Request, WriteFile
from agentrail.core.protocol.hooks import AfterTool, AfterToolBatch, AfterTurn, RequestDone, RequestFailed
from agentrail.core.stack.plugin import Context
from agentrail.events.tools import LargeResultOffloaded
from agentrail.messages import CallId
from agentrail.plugins.base import Plugin, on

FILE_TOOLS: Final = ("read_file", "write_file", "edit_file", "grep", "glob", "list_dir")
"""They page by themselves. Were `read_file` not among them, reading a kept result would make another one."""

PREVIEW_BYTES: Final = 2_000


@attrs.frozen(kw_only=True)
class OffloadedResult:
    """A result on its way into its file.

    Attributes:
        name: The tool.
        call_id: The call.
        path: Where it goes.
        text: All of it.
    """

    name: str
    call_id: str
    path: str
    text: str


@attrs.frozen(kw_only=True)
class Offload:
    """What is too large, and what has not been written yet.

    Attributes:
        token_limit: More than this is too large, at four bytes a token.
        excluded_tools: Whose results stay as they are.
        directory: Where the files go.
        count: How many results were too large so far; numbers their files.
        pending: The results that are not known to be written, oldest first.
    """

    token_limit: int
    excluded_tools: frozenset[str]
    directory: str
    count: int = 0
    pending: tuple[OffloadedResult, ...] = ()


class LargeResultOffload(Plugin[Offload]):
    """Puts results that are too large into files of the workspace, and shows the model how they begin."""

    priority = 320

    def init(
        self,
        *,
        token_limit: int = 20_000,
        excluded_tools: Sequence[str] = FILE_TOOLS,
        directory: str = "tool-results",
    ) -> Offload:
        """Take what is too large.

        Raises:
            ValueError: Your move: a limit below 1.
        """
        if token_limit < 1:
            message = f"token_limit is a number of tokens, 1 or more; got {token_limit}"
            raise ValueError(message)
        return Offload(
            token_limit=token_limit, excluded_tools=frozenset(excluded_tools), directory=directory.rstrip("/")
        )

    @on(AfterTool)
    def shorten(self, event: AfterTool, state: Offload, ctx: Context) -> Action[Offload]:
        """Show the model a preview. An action is one thing, so the file is asked for when the batch is done."""
        text = event.result.text
        limit_bytes = state.token_limit * BYTES_PER_TOKEN
        if event.name in state.excluded_tools or _size(text) <= limit_bytes:
            return Continue(state)
        count = state.count + 1
        # Counted, and not named after the call: what a vendor puts into a call id may be no file name.
        path = f"{state.directory}/{ctx.session_id}-{count}.txt"
        kept = OffloadedResult(name=event.name, call_id=event.call_id, path=path, text=text)
        preview = _preview(text, path, min(limit_bytes, PREVIEW_BYTES), can_page="read_file" in ctx.tools)
        return ReplaceToolResult(preview, attrs.evolve(state, count=count, pending=(*state.pending, kept)))

    @on(AfterToolBatch, AfterTurn)  # the latter because a batch that is aborted has no end of its own
    def write(self, event: AfterToolBatch | AfterTurn, state: Offload, ctx: Context) -> Action[Offload]:
        """Ask for the first file; its answer brings the next. Asked again, a file is written again, which is the same."""
        return _write_first(state)

    @on(RequestDone)
    def written(self, event: RequestDone, state: Offload, ctx: Context) -> Action[Offload]:
        """Say what became of a file, and go on with the next."""
        done = next((kept for kept in state.pending if kept.path == event.tag), None)
        if done is None:
            return Continue(state)
        rest = attrs.evolve(state, pending=tuple(kept for kept in state.pending if kept is not done))
        if isinstance(event.result, RequestFailed):
            why = event.result.error.message
            return _write_first(
                rest, ("large_result_lost", {"call_id": done.call_id, "path": done.path, "reason": why})
            )
        offloaded = LargeResultOffloaded(
            name=done.name, call_id=CallId(done.call_id), path=done.path, bytes=_size(done.text)
        )
        return _write_first(rest, offloaded)


def _write_first(state: Offload, *emits: Emitted) -> Action[Offload]:
    if not state.pending:
        return Continue(state, emits=emits)
    first = state.pending[0]
    return Request(WriteFile(path=first.path, text=first.text), first.path, state, emits=emits)


def _preview(text: str, path: str, max_bytes: int, *, can_page: bool) -> str:
    """Show how a result begins, in whole lines where its first one is short enough, and say where the rest is."""
    head = text.encode("utf-8", "surrogatepass")[:max_bytes].decode("utf-8", "ignore")
    whole_lines, line_break, _ = head.rpartition("\n")
    shown = whole_lines if line_break else head
    next_line = shown.count("\n") + 2 if line_break else 1
    total = text.removesuffix("\n").count("\n") + 1
    how = (
        f'Continue with read_file(path="{path}", offset={next_line}).'
        if can_page
        else "Read the file in parts."
    )
    return (
        f"{shown}\n\n[This is the beginning of a result of {_size(text):,} bytes and {total:,} lines. All of it is in "
        f"{path}. {how}]"
    )


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
