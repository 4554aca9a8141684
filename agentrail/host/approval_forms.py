"""What a person is shown before a call may run, beside its arguments: the file as it is and as it would be, or the command line.

A preview is only told of the tools that come with agentrail, whose code is known; of others it would be a guess. It is worked out of
the file as it is now: its hash is told, so that a reader can see whether it has changed since. Nothing is written here.
"""

from functools import partial
from typing import Final, TypeAlias

import trio
from msgspec import UNSET

from agentrail import outside
from agentrail.abc import Refusal
from agentrail.core.session.asked_forms import ApprovalForm
from agentrail.errors import AgentrailError, FileUnknown
from agentrail.host.workspace_files import read_workspace
from agentrail.messages import JsonObject
from agentrail.plugins.shell_plain import PlainLine, read_plain
from agentrail.runtime.handle import Session
from agentrail.runtime.ruling import read_waiting_call
from agentrail.sandboxes.text_edit import Edited, decide_edit
from agentrail.structs import Value
from agentrail.tools.edit_file import edit_file
from agentrail.tools.shell import shell
from agentrail.tools.write_file import write_file
from agentrail.wire.rows import RowStep

MAX_PREVIEW_BYTES: Final = 256 << 10
"""How large a file may be, before and after, of which a preview is made."""

PREVIEW_SECONDS: Final = 5.0
"""How long reading the file may take: a person waits for the card."""


class DiffPreview(Value, frozen=True, kw_only=True, tag_field="kind", tag="diff"):
    """A file that the call would write.

    Attributes:
        path: As the call names it.
        before: What stands there now; empty for a file that is not there; None where it is not told.
        after: What would stand there; None where it is not told, or nothing would.
        before_sha256: Of the file as it is now, hexadecimal; None where there is none, or it was not read.
        fault: Why something is not told, or why the call would fail as things are; None where all is told.
    """

    path: str
    before: str | None
    after: str | None
    before_sha256: str | None
    fault: str | None = None


class CommandPreview(Value, frozen=True, kw_only=True, tag_field="kind", tag="command"):
    """A command that the call would run.

    Attributes:
        argv: The program and its arguments, where the line is one plain command whose words are known before it runs; else None.
        line: As it would be given to the shell.
        cwd: In which directory, relative to the workspace; None where the tool does not say.
    """

    argv: tuple[str, ...] | None
    line: str
    cwd: str | None


ApprovalPreview: TypeAlias = DiffPreview | CommandPreview


class ApprovalPage(Value, frozen=True, kw_only=True):
    """All that a person is shown who decides.

    Attributes:
        form: What the session knows of the call.
        path: From the root to the session whose call it is.
        first_words: What was said to the root first; None where that is not known.
        preview: What the call would do; None where that is not known.
    """

    form: ApprovalForm
    path: tuple[RowStep, ...]
    first_words: str | None
    preview: ApprovalPreview | None


async def read_approval(session: Session, approval_id: str) -> ApprovalPage:
    """Tell all of a call that waits for a person, in this session or in one that works for it.

    Cancellation: Nothing is lost by it.
    """
    waiting = await read_waiting_call(session, approval_id)
    arguments = waiting.form.approval.arguments
    preview: ApprovalPreview | None = None
    if waiting.tool is write_file or waiting.tool is edit_file:
        preview = await _preview_file(waiting.session, arguments, is_edit=waiting.tool is edit_file)
    else:
        cwd = f"{arguments.get('workdir', '.')}" if waiting.tool is shell else None
        preview = preview_of_command(arguments, cwd)
    path = tuple(
        [
            RowStep(session_id=one, title=title, first_words=words if place and words else UNSET)
            for place, (one, title, words) in enumerate(waiting.path)
        ]
    )
    words = waiting.path[0][2] if waiting.path else None
    return ApprovalPage(form=waiting.form, path=path, first_words=words, preview=preview)


def preview_of_command(arguments: JsonObject, cwd: str | None) -> CommandPreview | None:
    """Show a command; None for a call that runs none."""
    line = arguments.get("command")
    return CommandPreview(argv=argv_of(line), line=line, cwd=cwd) if isinstance(line, str) else None


def argv_of(line: str) -> tuple[str, ...] | None:
    """Give the words of a line that is one plain command; None for any other."""
    reading = read_plain(line)
    if not isinstance(reading, PlainLine) or len(reading.commands) > 1 or not set(line).isdisjoint("<>"):
        return None
    (command,) = reading.commands
    return None if command.patterns else command.words  # names of files may come of a pattern


async def _preview_file(session: Session, arguments: JsonObject, *, is_edit: bool) -> DiffPreview:
    path = f"{arguments.get('path', '')}"
    content: bytes | None = None
    digest, fault = None, None
    with trio.move_on_after(PREVIEW_SECONDS) as scope:
        try:
            file = await read_workspace(session, path)
            content, digest = file.content, file.sha256
        except FileUnknown:
            content = None if is_edit else b""
            fault = "the file is not there, or cannot be read" if is_edit else None
        except AgentrailError as error:
            fault = str(error)
    if scope.cancelled_caught:
        fault = f"reading the file took longer than {PREVIEW_SECONDS:g} s"
    if content is None or fault is not None:
        return DiffPreview(path=path, before=None, after=None, before_sha256=digest, fault=fault)
    if len(content) <= MAX_PREVIEW_BYTES:
        # The diff that an edit makes besides takes its time.
        preview = partial(preview_of_file, path, content, digest, arguments, is_edit=is_edit)
        return await outside.offload(preview)
    return preview_of_file(path, content, digest, arguments, is_edit=is_edit)


def preview_of_file(
    path: str, content: bytes, digest: str | None, arguments: JsonObject, *, is_edit: bool
) -> DiffPreview:
    """Show what a call would make of a file."""
    shown = _text_of(content)
    if shown is None:
        fault = "the file as it is now is no text, or too large to be shown"
        after = None if is_edit else _text_of(f"{arguments.get('content', '')}".encode("utf-8", "replace"))
        return DiffPreview(path=path, before=None, after=after, before_sha256=digest, fault=fault)
    made = _edited(shown, path, arguments) if is_edit else f"{arguments.get('content', '')}"
    if isinstance(made, Refusal):
        return DiffPreview(path=path, before=shown, after=None, before_sha256=digest, fault=made.message)
    if len(made) > MAX_PREVIEW_BYTES:
        fault = "what the file would become is too large to be shown beside what it is"
        return DiffPreview(path=path, before=shown, after=None, before_sha256=digest, fault=fault)
    return DiffPreview(path=path, before=shown, after=made, before_sha256=digest)


def _edited(text: str, path: str, arguments: JsonObject) -> str | Refusal:
    old, new = f"{arguments.get('old_string', '')}", f"{arguments.get('new_string', '')}"
    made: Edited | Refusal = decide_edit(
        text, old, new, replace_all=arguments.get("replace_all") is True, path=path
    )
    return made if isinstance(made, Refusal) else made.text


def _text_of(content: bytes) -> str | None:
    if len(content) > MAX_PREVIEW_BYTES or b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None
