"""Makes text of HTML, PDF and text of strangers, in a process of its own for each document (`page_helper.py`).

It ends after ten seconds of its time, at 768 MiB, or with the call that waits for it; it has no network. Both ways to wait for it are
here: in the loop, and in a thread that may block.
"""

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeAlias

import msgspec
import trio

from agentrail import outside
from agentrail.distribution import install_command
from agentrail.processes import note_started, note_stopped
from agentrail.structs import decoder_of
from agentrail.web import page_helper

ForeignDocumentKind: TypeAlias = Literal["html", "pdf", "text"]

HELPER_SECONDS: Final = 15.0
"""For the whole of it, on the clock on the wall."""

_COMMAND: Final = (sys.executable, "-I", str(Path(__file__).with_name("page_helper.py")))
_PIECE_BYTES: Final = 65_536
_SMALL_BYTES: Final = 65_536
"""An answer of this size is read in the loop."""


class UnreadableDocument(Exception):
    """A document gives no text. The message says why, in words of our own, and what to do."""


class ReadJob(msgspec.Struct, frozen=True, kw_only=True):
    """How a document is to be read.

    Attributes:
        charset: What the server says of its characters; empty: nothing.
        url: Where it stands, for links in it; empty: nowhere.
        max_characters: How much text is kept, from the front.
    """

    kind: ForeignDocumentKind
    charset: str = ""
    url: str = ""
    max_characters: int = page_helper.MAX_HELPER_OUTPUT_BYTES // 8


class PageText(msgspec.Struct, frozen=True, kw_only=True):
    """What a document says.

    Attributes:
        title: Of the document; empty where it has none.
        pages: The text of each page; of what has no pages one. HTML is Markdown, where `reader` is `trafilatura`.
        left_out: How many characters are left out at the end.
    """

    title: str
    pages: tuple[str, ...]
    left_out: int
    reader: str
    fault: str | None = None


_PAGES: Final = decoder_of(PageText)


def document_kind_of(media_type: str, content: bytes) -> ForeignDocumentKind | None:
    """Say what a document is, by what its server says and, where that says nothing, by how it begins. None: not to be read."""
    head = content[:1_024].lstrip().lower()
    if media_type in ("", "application/octet-stream", "binary/octet-stream"):
        if head.startswith(b"%pdf-"):
            return "pdf"
        if head.startswith((b"<!doctype html", b"<html")):
            return "html"
        return None if b"\0" in head else "text"
    if media_type in ("text/html", "application/xhtml+xml"):
        return "html"
    if media_type in ("application/pdf", "application/x-pdf"):
        return "pdf"
    is_text = media_type.startswith("text/") or media_type.endswith(("+json", "+xml"))
    return "text" if is_text or media_type in _TEXTS else None


_TEXTS: Final = frozenset(
    f"application/{one}"
    for one in (
        "json",
        "xml",
        "javascript",
        "x-javascript",
        "ecmascript",
        "yaml",
        "x-yaml",
        "toml",
        "x-ndjson",
        "jsonl",
        "sql",
        "x-sh",
        "graphql",
    )
)


async def read_document(content: bytes, job: ReadJob) -> PageText:
    """Make text of a document, and wait for it in the loop.

    Cancellation: The process is killed and reaped before the cancellation travels on.
    """
    answer = b""
    with trio.move_on_after(HELPER_SECONDS):
        answer = await _ask_helper(content, job)
    if len(answer) <= _SMALL_BYTES:
        return _read_answer(answer)
    return await outside.offload(_read_answer, answer)


async def _ask_helper(content: bytes, job: ReadJob) -> bytes:
    process = await outside.processes().open(_COMMAND, stdout=subprocess.PIPE, **_options(subprocess.PIPE))
    note_started(process.pid)
    try:
        return await _talk(process, content, job)
    finally:
        was_alive = process.poll() is None
        process.kill()
        with trio.CancelScope(shield=True):  # it was killed: that takes milliseconds
            await process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    await trio.aclose_forcefully(stream)
        note_stopped(process.pid, ended=int(was_alive), left=frozenset())


async def _talk(process: trio.Process, content: bytes, job: ReadJob) -> bytes:
    asked, answers = process.stdin, process.stdout
    if asked is None or answers is None:  # pragma: no cover - they were asked for
        return b""
    answer = bytearray()

    async def write() -> None:
        # One that has ended, by its limits, reads no more: its answer says what became of it.
        with contextlib.suppress(trio.BrokenResourceError):
            await asked.send_all(_line_of(job))
            await asked.send_all(content)
        await asked.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        while piece := await answers.receive_some(_PIECE_BYTES):
            answer += piece
            if len(answer) > page_helper.MAX_HELPER_OUTPUT_BYTES:
                nursery.cancel_scope.cancel()
                answer.clear()
                break
    return bytes(answer)


def read_document_blocking(content: bytes, job: ReadJob) -> PageText:
    """Make text of a document, and block until it is there: for code that runs in a thread, or in no loop at all."""
    # Files and not pipes: no task has to write and read at once, and the kernel bounds what is written.
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as answers:
        asked.write(_line_of(job))
        asked.write(content)
        asked.seek(0)
        process = outside.processes().start(_COMMAND, stdout=answers, **_options(asked))
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=HELPER_SECONDS)
        finally:
            process.kill()
            process.wait()
        answers.seek(0)
        return _read_answer(answers.read())


def _options(stdin: int | IO[bytes]) -> dict[str, Any]:
    # Nothing of the environment is for it: keys stand there.
    return {"stdin": stdin, "stderr": subprocess.DEVNULL, "env": {}, "cwd": "/", "start_new_session": True}


def _line_of(job: ReadJob) -> bytes:
    return msgspec.json.encode(job) + b"\n"


def _read_answer(answer: bytes) -> PageText:
    try:
        read = _PAGES.decode(answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        message = "it takes more memory or time than a document may take"
        raise UnreadableDocument(message) from None
    if read.fault is not None:
        is_without_reader = read.fault == page_helper.NO_PDF_READER
        raise UnreadableDocument(
            f"{read.fault}: {install_command('kb')}" if is_without_reader else read.fault
        )
    return read
