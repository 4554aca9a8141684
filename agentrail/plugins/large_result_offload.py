"""`LargeResultOffload`: writes a large result to a file. The model sees its beginning and how to read the rest."""

from collections.abc import Sequence
from typing import Final

import attrs

from agentrail.core.policy.request_context import BYTES_PER_TOKEN, utf8_size
from agentrail.core.protocol.actions import Action, Continue, Emitted, ReplaceToolResult, Request, WriteFile
from agentrail.core.protocol.hooks import AfterTool, AfterToolBatch, AfterTurn, RequestDone, RequestFailed
from agentrail.core.stack.plugin import Context
from agentrail.events.tool_events import LargeResultOffloaded
from agentrail.messages import CallId
from agentrail.plugins.base import Plugin, on

FILE_TOOLS: Final = ("read_file", "write_file", "edit_file", "grep", "glob", "list_dir")
"""Tools that page themselves. Without `read_file` here, reading an offloaded result would offload it again."""

PREVIEW_BYTES: Final = 2_000


@attrs.frozen(kw_only=True)
class OffloadedResult:
    name: str
    call_id: str
    path: str
    text: str


@attrs.frozen(kw_only=True)
class Offload:
    """The limits, and the results not yet written.

    Attributes:
        token_limit: Larger results are offloaded, at four bytes a token.
        pending: Results not yet confirmed as written, oldest first.
    """

    token_limit: int
    excluded_tools: frozenset[str]
    directory: str
    count: int = 0
    pending: tuple[OffloadedResult, ...] = ()


class LargeResultOffload(Plugin[Offload]):
    """Writes large results to files of the workspace, and shows the model their beginning."""

    priority = 320

    def init(
        self,
        *,
        token_limit: int = 20_000,
        excluded_tools: Sequence[str] = FILE_TOOLS,
        directory: str = "tool-results",
    ) -> Offload:
        """Set the limits.

        Raises:
            ValueError: Your move: a limit below 1.
        """
        if token_limit < 1:
            message = f"token_limit must be a number of tokens, 1 or more; got {token_limit}"
            raise ValueError(message)
        return Offload(
            token_limit=token_limit, excluded_tools=frozenset(excluded_tools), directory=directory.rstrip("/")
        )

    @on(AfterTool)
    def shorten(self, event: AfterTool, state: Offload, ctx: Context) -> Action[Offload]:
        """Show the model a preview. A hook returns a single action, so the file is written at the end of the batch."""
        text = event.result.text
        limit_bytes = state.token_limit * BYTES_PER_TOKEN
        if event.name in state.excluded_tools or utf8_size(text) <= limit_bytes:
            return Continue(state)
        count = state.count + 1
        # Numbered rather than named after the call: a vendor's call id may not be a valid file name.
        path = f"{state.directory}/{ctx.session_id}-{count}.txt"
        kept = OffloadedResult(name=event.name, call_id=event.call_id, path=path, text=text)
        preview = _preview(text, path, min(limit_bytes, PREVIEW_BYTES), can_page="read_file" in ctx.tools)
        return ReplaceToolResult(preview, attrs.evolve(state, count=count, pending=(*state.pending, kept)))

    @on(AfterToolBatch, AfterTurn)  # AfterTurn, because an aborted batch has no end of its own
    def write(self, event: AfterToolBatch | AfterTurn, state: Offload, ctx: Context) -> Action[Offload]:
        """Request the first write. Its answer starts the next. A repeated request writes the same file again."""
        return _write_first(state)

    @on(RequestDone)
    def written(self, event: RequestDone, state: Offload, ctx: Context) -> Action[Offload]:
        """Report the outcome of a write, and continue with the next file."""
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
            name=done.name, call_id=CallId(done.call_id), path=done.path, bytes=utf8_size(done.text)
        )
        return _write_first(rest, offloaded)


def _write_first(state: Offload, *emits: Emitted) -> Action[Offload]:
    if not state.pending:
        return Continue(state, emits=emits)
    first = state.pending[0]
    return Request(WriteFile(path=first.path, text=first.text), first.path, state, emits=emits)


def _preview(text: str, path: str, max_bytes: int, *, can_page: bool) -> str:
    """Return the beginning of a result, in whole lines if its first line is short enough, and the location of the rest."""
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
        f"{shown}\n\n[This is the beginning of a result of {utf8_size(text):,} bytes and {total:,} lines. All of it is in "
        f"{path}. {how}]"
    )
