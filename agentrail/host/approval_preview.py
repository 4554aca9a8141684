"""Preview of a call of agentrail's own tools that needs approval. Nothing is written here."""

from functools import partial
from typing import Final, TypeAlias

import trio
from msgspec import UNSET

from agentrail import outside
from agentrail.abc import Refusal
from agentrail.core.session.approval_details import ApprovalForm
from agentrail.errors import AgentrailError, FileUnknown
from agentrail.host.workspace_files import read_workspace
from agentrail.messages import JsonObject
from agentrail.plugins.shell_plain import PlainLine, read_plain
from agentrail.runtime.rule_queries import read_waiting_call
from agentrail.runtime.session_handle import Session
from agentrail.sandboxes.text_edit import Edited, decide_edit
from agentrail.structs import Value
from agentrail.tools.edit_file import edit_file
from agentrail.tools.shell import shell
from agentrail.tools.write_file import write_file
from agentrail.wire.rows import RowStep

MAX_PREVIEW_BYTES: Final = 256 << 10
"""Maximum size of a file in a preview, before and after, in bytes."""

PREVIEW_SECONDS: Final = 5.0
"""Time limit for reading the file, in seconds. The user is waiting for the preview."""


class DiffPreview(Value, frozen=True, kw_only=True, tag_field="kind", tag="diff"):
    """A file that the call would write.

    Attributes:
        before: Current content. Empty for a missing file. None if not shown.
        after: Content after the call. None if not shown, or if the call would write nothing.
        before_sha256: SHA-256 of the current file, hexadecimal. None if there is no file or it was not read.
        fault: Why something is not shown, or why the call would currently fail. None if everything is shown.
    """

    path: str
    before: str | None
    after: str | None
    before_sha256: str | None
    fault: str | None = None


class CommandPreview(Value, frozen=True, kw_only=True, tag_field="kind", tag="command"):
    """A command that the call would run.

    Attributes:
        argv: The program and its arguments, if the line is one plain command whose words are known in advance.
            Otherwise None.
        cwd: Working directory relative to the workspace. None if the tool does not state it.
    """

    argv: tuple[str, ...] | None
    line: str
    cwd: str | None


ApprovalPreview: TypeAlias = DiffPreview | CommandPreview


class ApprovalPage(Value, frozen=True, kw_only=True):
    """Everything shown to the user who decides."""

    form: ApprovalForm
    path: tuple[RowStep, ...]
    first_words: str | None
    preview: ApprovalPreview | None


async def read_approval(session: Session, approval_id: str) -> ApprovalPage:
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
    line = arguments.get("command")
    return CommandPreview(argv=argv_of(line), line=line, cwd=cwd) if isinstance(line, str) else None


def argv_of(line: str) -> tuple[str, ...] | None:
    reading = read_plain(line)
    if not isinstance(reading, PlainLine) or len(reading.commands) > 1 or not set(line).isdisjoint("<>"):
        return None
    (command,) = reading.commands
    return None if command.patterns else command.words  # a pattern may expand to file names


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
            fault = "the file does not exist or cannot be read" if is_edit else None
        except AgentrailError as error:
            fault = str(error)
    if scope.cancelled_caught:
        fault = f"reading the file took longer than {PREVIEW_SECONDS:g} s"
    if content is None or fault is not None:
        return DiffPreview(path=path, before=None, after=None, before_sha256=digest, fault=fault)
    preview = partial(preview_of_file, path, content, digest, arguments, is_edit=is_edit)
    # The diff that an edit also computes takes time.
    return await outside.offload(preview) if len(content) <= MAX_PREVIEW_BYTES else preview()


def preview_of_file(
    path: str, content: bytes, digest: str | None, arguments: JsonObject, *, is_edit: bool
) -> DiffPreview:
    shown = _text_of(content)
    if shown is None:
        fault = "the current file is not text, or is too large to be shown"
        after = None if is_edit else _text_of(f"{arguments.get('content', '')}".encode("utf-8", "replace"))
        return DiffPreview(path=path, before=None, after=after, before_sha256=digest, fault=fault)
    made = _edited(shown, path, arguments) if is_edit else f"{arguments.get('content', '')}"
    if isinstance(made, Refusal):
        return DiffPreview(path=path, before=shown, after=None, before_sha256=digest, fault=made.message)
    if len(made) > MAX_PREVIEW_BYTES:
        fault = "the changed file is too large to be shown next to the current one"
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
