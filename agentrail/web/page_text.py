"""Text extraction from untrusted HTML, PDF and text, in a limited process per document (`page_helper.py`)."""

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
from agentrail.process_account import note_started, note_stopped
from agentrail.structs import decoder_of
from agentrail.web import page_helper

ForeignDocumentKind: TypeAlias = Literal["html", "pdf", "text"]

HELPER_SECONDS: Final = 15.0
"""Time limit for the whole call, wall clock, in seconds."""

_COMMAND: Final = (sys.executable, "-I", str(Path(__file__).with_name("page_helper.py")))
_PIECE_BYTES: Final = 65_536
_SMALL_BYTES: Final = 65_536
"""An answer up to this size is decoded in the loop."""


class UnreadableDocument(Exception):
    """A document yields no text. The message states the reason and the remedy, without text from the document."""


class ReadJob(msgspec.Struct, frozen=True, kw_only=True):
    """Instructions for reading a document.

    Attributes:
        charset: Charset from the server. Empty if not given.
        url: Address of the document, for links in it. Empty if none.
    """

    kind: ForeignDocumentKind
    charset: str = ""
    url: str = ""
    max_characters: int = page_helper.MAX_HELPER_OUTPUT_BYTES // 8


class PageText(msgspec.Struct, frozen=True, kw_only=True):
    """Text of a document.

    Attributes:
        title: Title of the document. Empty if it has none.
        pages: Text of each page, or a single text without pages. HTML becomes Markdown if `reader` is `trafilatura`.
        left_out: Number of characters omitted at the end.
    """

    title: str
    pages: tuple[str, ...]
    left_out: int
    reader: str
    fault: str | None = None


_PAGES: Final = decoder_of(PageText)


def document_kind_of(media_type: str, content: bytes) -> ForeignDocumentKind | None:
    """Return the kind of a document, from its media type or first bytes. None: it cannot be read."""
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
        # A helper that hit its limits reads no more. Its answer states the outcome.
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
    """Extract the text of a document and block until it is available."""
    # Files rather than pipes: no simultaneous writing and reading is needed, and the kernel limits the size.
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
    # The environment is empty, because it may contain keys.
    return {"stdin": stdin, "stderr": subprocess.DEVNULL, "env": {}, "cwd": "/", "start_new_session": True}


def _line_of(job: ReadJob) -> bytes:
    return msgspec.json.encode(job) + b"\n"


def _read_answer(answer: bytes) -> PageText:
    try:
        read = _PAGES.decode(answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        message = "it needs more memory or time than one document may use"
        raise UnreadableDocument(message) from None
    if read.fault is not None:
        is_without_reader = read.fault == page_helper.NO_PDF_READER
        raise UnreadableDocument(
            f"{read.fault}: {install_command('kb')}" if is_without_reader else read.fault
        )
    return read
