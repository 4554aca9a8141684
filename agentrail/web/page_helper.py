"""Helper process that extracts text from untrusted bytes, one per document. Imports nothing of agentrail.

Reads one line of JSON, then the document to its end, and answers with one JSON document:

    {"kind": "html" | "pdf" | "text", "charset": "", "url": "", "max_characters": 50000}
    {"title": "", "pages": ["…"], "left_out": 0, "reader": "trafilatura" | "plain" | "pypdf" | "text", "fault": null}
"""

import codecs
import contextlib
import errno
import importlib.util
import io
import json
import os
import re
import signal
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from html import unescape
from html.parser import HTMLParser
from typing import Any

MAX_ADDRESS_SPACE = 768 << 20
CPU_SECONDS = 10
PATIENT_CPU_SECONDS = 5
"""CPU time in seconds after which the good reader is interrupted, if possible, and the plain one is used."""
MAX_HELPER_OUTPUT_BYTES = 64 << 20
NO_PDF_READER = "PDF cannot be read: the extra kb is not installed"

_CHARSETS = re.compile(
    r"utf-8|utf-16(-[lb]e)?|ascii|iso8859-\d+|cp\d+|koi8-[rtu]|mac-\w+|gb2312|gbk|gb18030|big5(hkscs)?|"
    r"shift_jis(_2004|x0213)?|euc_(jp|kr|jis_2004|jisx0213)|iso2022_(jp|kr)\w*|johab|tis-620|ptcp154|hz"
)
"""Charsets used by pages. Python knows more: some take time quadratic in the text, some are not character encodings."""
_META = re.compile(rb"<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{0,500})", re.IGNORECASE)
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


class OutOfTimeError(BaseException):
    """The first part of the CPU time is used up. A library's `except Exception` does not catch it."""


def main() -> None:
    confine()
    job = json.loads(sys.stdin.buffer.readline())
    content = sys.stdin.buffer.read()
    answer: dict[str, Any] = {"title": "", "pages": [], "left_out": 0, "reader": "", "fault": None}
    try:
        answer |= KIND_READERS[job["kind"]](content, job)
    except UnreadableBytes as error:
        answer["fault"] = str(error)
    except (MemoryError, RecursionError, OutOfTimeError):
        answer["fault"] = "it needs more memory or time than a document may take"
    answer["pages"], answer["left_out"] = cut(answer["pages"], job["max_characters"])
    sys.stdout.buffer.write(json.dumps(answer).encode())
    sys.stdout.buffer.flush()
    # Skips the cleanup of an interpreter that may hold a million objects.
    os._exit(0)


class UnreadableBytes(Exception):
    """The document cannot be read. The text states the reason, without text from the document."""


# --- restrictions of this process


def confine() -> None:
    """Limit memory and time, and drop network and processes."""
    with contextlib.suppress(ImportError):
        import resource  # noqa: PLC0415 - not on every system

        def limit(kind: int, soft: int, hard: int) -> None:
            with contextlib.suppress(ValueError, OSError):  # not settable, or already lower
                resource.setrlimit(kind, (soft, hard))

        limit(resource.RLIMIT_AS, MAX_ADDRESS_SPACE, MAX_ADDRESS_SPACE)
        limit(resource.RLIMIT_CPU, PATIENT_CPU_SECONDS, CPU_SECONDS)
        limit(resource.RLIMIT_CORE, 0, 0)
        limit(resource.RLIMIT_FSIZE, MAX_HELPER_OUTPUT_BYTES, MAX_HELPER_OUTPUT_BYTES)
        signal.signal(signal.SIGXCPU, _give_up)
    sys.addaudithook(_refuse)
    if sys.platform == "linux":
        # An old kernel, or a sandbox around us, may refuse: the hook still applies.
        with contextlib.suppress(Exception):
            _filter_calls()


def _give_up(_number: int, _frame: object) -> None:
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)  # it repeats every second, and the plain reader continues
    raise OutOfTimeError


def _refuse(event: str, _arguments: object) -> None:
    if event.startswith(
        ("socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.system", "pty.")
    ):
        message = f"{event} is not for this process"
        raise PermissionError(message)


# Numbers for x86_64 and aarch64: network, processes, memory of other processes, and io_uring, which can do
# all of it.
_CALLS = """
socket 41 198   connect 42 203   sendto 44 206   sendmsg 46 211   bind 49 200   socketpair 53 199   clone 56 220   fork 57 -
vfork 58 -   execve 59 221   kill 62 129   ptrace 101 117   process_vm_readv 310 270   process_vm_writev 311 271   execveat 322 281
pidfd_send_signal 424 424   io_uring_setup 425 425   clone3 435 435
"""
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


def _filter_calls() -> None:
    """Install a BPF filter (seccomp(2)), so that the kernel refuses calls from native libraries too."""
    import ctypes  # noqa: PLC0415 - only here

    column, architecture = _ARCHITECTURES[os.uname().machine]
    words = _CALLS.split()
    numbers = [int(one) for one in words[1 + column :: 3] if one != "-"]
    allow, refuse = 0x7FFF0000, 0x00050000 | errno.EPERM
    program = [
        (0x20, 0, 0, 4),
        (0x15, 1, 0, architecture),
        (0x06, 0, 0, refuse),
        (0x20, 0, 0, 0),
        (0x35, 0, 1, 0x40000000),
    ]
    program.append((0x06, 0, 0, refuse))
    for number in numbers:
        program += [(0x15, 0, 1, number), (0x06, 0, 0, refuse)]
    program.append((0x06, 0, 0, allow))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in program))
    filled = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    prctl = ctypes.CDLL(None).prctl
    prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS, required for a filter
    prctl(22, 2, filled, 0, 0)  # PR_SET_SECCOMP


# --- bytes to text


def decoded(content: bytes, charset: str) -> str:
    for mark, name in _MARKS:
        if content.startswith(mark):
            return content.decode(name, "replace")
    said = _META.search(content[:2_048])
    for name in (charset, said[1].decode() if said else ""):
        try:
            known = codecs.lookup(name).name
        except (LookupError, ValueError):
            continue
        if _CHARSETS.fullmatch(known):
            # Declared Latin-1 is decoded as Windows-1252, as in browsers.
            return content.decode("cp1252" if known in ("iso8859-1", "ascii") else known, "replace")
    return content.decode("utf-8", "replace")


def cut(pages: Iterable[str], max_characters: int) -> tuple[list[str], int]:
    kept: list[str] = []
    room, left_out = max_characters, 0
    for page in pages:
        kept.append(page[:room])
        left_out += max(len(page) - room, 0)
        room = max(room - len(page), 0)
    return kept, left_out


# --- readers


def read_text(content: bytes, job: dict[str, str]) -> dict[str, object]:
    text = decoded(content, job["charset"])
    if "\0" in text:
        message = "it is not text: it contains zero bytes"
        raise UnreadableBytes(message)
    return {"pages": [text], "reader": "text"}


def read_html(content: bytes, job: dict[str, str]) -> dict[str, object]:
    text = decoded(content, job["charset"]).replace("\0", "")
    found = _TITLE.search(text[:200_000])
    title = " ".join(unescape(found[1]).split()) if found else ""
    said = ""
    # The plain reader handles pages on which the parser fails.
    with contextlib.suppress(OutOfTimeError, Exception):
        said = _as_markdown(text, job["url"])
    if said.strip():
        return {"title": title, "pages": [said], "reader": "trafilatura"}
    return {"title": title, "pages": [plain_text(text)], "reader": "plain"}


def _as_markdown(text: str, url: str) -> str:
    if importlib.util.find_spec("trafilatura") is None:
        return ""
    import trafilatura  # noqa: PLC0415 - a fifth of a second, and only for this

    said = trafilatura.extract(
        text,
        url=url or None,
        output_format="markdown",
        include_links=True,
        include_tables=True,
        include_comments=False,
    )
    return said or ""


def read_pdf(content: bytes, _job: dict[str, str]) -> dict[str, object]:
    if importlib.util.find_spec("pypdf") is None:
        raise UnreadableBytes(NO_PDF_READER)
    try:
        title, pages = _pages_of(content)
    except Exception as error:  # noqa: BLE001 - whatever a parser says of a stranger's document
        message = f"it is not a readable PDF ({type(error).__name__})"
        raise UnreadableBytes(message) from None
    if pages is None:
        message = "it is encrypted: save it without a password"
        raise UnreadableBytes(message)
    return {"title": title, "pages": pages, "reader": "pypdf"}


def _pages_of(content: bytes) -> tuple[str, list[str] | None]:
    import pypdf  # noqa: PLC0415 - only for this

    document = pypdf.PdfReader(io.BytesIO(content))
    if document.is_encrypted and not document.decrypt(""):
        return "", None
    said = document.metadata
    title = str(said.title or "")[:500] if said is not None else ""
    return title, [page.extract_text() for page in document.pages]


KIND_READERS: dict[str, Callable[[bytes, dict[str, str]], dict[str, object]]] = {
    "html": read_html,
    "pdf": read_pdf,
    "text": read_text,
}

# --- plain text of HTML

_UNSEEN = frozenset({"script", "style", "noscript", "template", "svg", "math", "head", "iframe", "object"})
_INLINE = frozenset(
    {"a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "del", "dfn", "em", "font", "i", "img", "ins", "kbd", "label", "mark", "q", "s",
     "samp", "small", "span", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr"}
)  # fmt: skip


class _Plain(HTMLParser):
    """Collects the visible text of a page, one line per block. Nesting depth does not matter."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._unseen = ""  # the open tag to skip

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if not self._unseen and tag in _UNSEEN:
            self._unseen = tag
        elif not self._unseen and tag == "body":
            self._unseen = ""
        self._line(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == self._unseen:
            self._unseen = ""
        self._line(tag)

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.pieces.append(data)

    def _line(self, tag: str) -> None:
        if tag not in _INLINE:
            self.pieces.append("\n")


def plain_text(html: str) -> str:
    parser = _Plain()
    with contextlib.suppress(OutOfTimeError, AssertionError):
        # The parser raises on invalid input. The text up to there is kept.
        parser.feed(html)
        parser.close()
    return "\n".join(_lines("".join(parser.pieces)))


def _lines(text: str) -> Iterator[str]:
    was_empty = True
    for line in text.split("\n"):
        words = " ".join(line.split())
        if words or not was_empty:
            yield words
        was_empty = not words


if __name__ == "__main__":
    main()
