"""Documents of strangers become text in a process of their own: what is read, what it may do, and that it is gone with its call (G-029)."""

import importlib.util
import json
import re
import subprocess
import sys
import zlib

import psutil  # type: ignore[import-untyped]
import pytest
import trio
from hypothesis import given, strategies as st

from agentrail.distribution import install_command
from agentrail.process_account import ProcessAccount, keep_account
from agentrail.web import page_helper
from agentrail.web.page_text import (
    ReadJob,
    UnreadableDocument,
    document_kind_of,
    read_document,
    read_document_blocking,
)
from tests.runtime.rig import on_bounded_time
from tests.web.documents import HTML, assembled, pdf

FILLER = b"<p>A paragraph with enough words in it to be taken for something that a page says.</p>"


def in_helper(code):
    """Run code in a process that is confined as the helper is, and give what it printed."""
    wrapped = f"import runpy\nruns = runpy.run_path({page_helper.__file__!r})\nruns['confine']()\n{code}"
    done = subprocess.run(
        [sys.executable, "-I", "-c", wrapped], capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout.strip() or done.stderr


@on_bounded_time
async def test_pages_become_text_with_their_title():
    """HTML keeps headings, links and tables, a PDF its pages, and text is cut from its end with a count of the rest."""
    read = await read_document(HTML, ReadJob(kind="html", url="https://a.example/x"))
    assert (read.title, read.reader, read.left_out) == ("A & B", "trafilatura", 0)
    (text,) = read.pages
    assert "# Trains" in text
    assert "[for all others](https://a.example/second)" in text
    assert "| Bern | Thun |" in text
    assert "hidden" not in text
    read = read_document_blocking(pdf("First page", "Second page"), ReadJob(kind="pdf"))
    assert (read.title, read.pages, read.reader) == ("A title", ("First page", "Second page"), "pypdf")
    job = ReadJob(kind="text", charset="latin-1", max_characters=4)
    read = await read_document("äbcdef".encode("latin-1"), job)
    assert (read.pages, read.left_out) == (("äbcd",), 2)


@pytest.mark.parametrize(
    ("content", "job", "words"),
    [
        (b"\0\1\2", ReadJob(kind="text"), "zero bytes"),
        (b"%PDF-1.7 and no more", ReadJob(kind="pdf"), "not a readable PDF"),
        (pdf("x")[:-400], ReadJob(kind="pdf"), "not a readable PDF"),
        (assembled([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count 1/Kids[2 0 R]>>", b"<<>>", b"<<>>"]), ReadJob(kind="pdf"), "not a readable PDF"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_why(content, job, words):
    """In our own words, not in the document's."""
    with pytest.raises(UnreadableDocument, match=words):
        read_document_blocking(content, job)


@pytest.mark.parametrize(
    ("media_type", "content", "kind"),
    [
        ("text/html", b"", "html"), ("application/xhtml+xml", b"", "html"), ("application/pdf", b"", "pdf"), ("text/plain", b"<html>", "text"),
        ("application/json", b"", "text"), ("application/problem+json", b"", "text"), ("image/svg+xml", b"", "text"), ("image/png", b"", None),
        ("", b"%PDF-1.4", "pdf"), ("application/octet-stream", b" <!DOCTYPE html>", "html"), ("", b"words", "text"), ("", b"\0", None),
        ("application/zip", b"words", None), ("nonsense", b"", None),
    ],
)  # fmt: skip
def test_what_a_document_is_its_server_says_or_its_beginning(media_type, content, kind):
    """What is neither text nor HTML nor PDF is not read."""
    assert document_kind_of(media_type, content) == kind


@pytest.mark.parametrize(
    ("content", "charset", "text"),
    [
        ("ä".encode(), "", "ä"), ("ä".encode("latin-1"), "iso-8859-1", "ä"), (b"\x93x\x94", "latin-1", "“x”"), ("ä".encode("utf-8-sig"), "latin-1", "ä"),
        ("ä".encode("utf-16"), "", "ä"), ('<meta charset="koi8-r">ж'.encode("koi8-r"), "", '<meta charset="koi8-r">ж'), (b"\xff", "utf-8", "\ufffd"),
        ("日本".encode("shift_jis"), "Shift_JIS", "日本"), (b"+AGE-", "utf-7", "+AGE-"), (b"abc-", "punycode", "abc-"), (b"x", "no\0such", "x"),
        (b"x", "rot13", "x"), (b"x", "zlib", "x"), (b"x", "idna", "x"), (b"x", "unicode_escape", "x"),
    ],
)  # fmt: skip
def test_characters_are_read_as_somebody_says_and_by_no_codec_that_is_none_of_the_web(content, charset, text):
    """A mark in front wins, then the server, then the page. `punycode` and `idna` take time that grows with the square."""
    assert page_helper.decoded(content, charset) == text


def test_without_the_extra_a_page_becomes_plain_text(monkeypatch):
    """And a PDF an error with the name of the extra."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    read = page_helper.read_html(HTML, {"charset": "", "url": ""})
    assert read["reader"] == "plain"
    (text,) = read["pages"]
    assert text.splitlines()[:2] == ["Home", ""]
    assert "Second class is for all others, which" in text
    assert "hidden" not in text
    assert "A & B" not in text
    with pytest.raises(page_helper.UnreadableBytes, match="the extra kb is not installed") as caught:
        page_helper.read_pdf(b"", {})
    answer = json.dumps({"title": "", "pages": [], "left_out": 0, "reader": "", "fault": str(caught.value)})
    command = (sys.executable, "-I", "-c", f"print({answer!r})")
    monkeypatch.setattr("agentrail.web.page_text._COMMAND", command)
    with pytest.raises(UnreadableDocument, match=re.escape(install_command("kb"))):
        read_document_blocking(b"%PDF", ReadJob(kind="pdf"))


@given(st.text(alphabet="<>/ab=\"'!-[]&; \n", max_size=200))
def test_any_html_becomes_plain_text(html):
    """No crash, and no empty line beside another."""
    text = page_helper.plain_text(html)
    assert "\n\n\n" not in text


@given(st.lists(st.text("aß", max_size=9), max_size=9), st.integers(0, 40))
def test_a_cut_keeps_the_front_and_counts_the_rest(pages, room):
    """Whatever is on which page."""
    kept, left_out = page_helper.cut(pages, room)
    assert "".join(kept) == "".join(pages)[:room]
    assert left_out == max(len("".join(pages)) - room, 0)
    assert len(kept) == len(pages)


BEHIND_THE_INTERPRETER = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
said = []
for name, arguments in (("socket", (2, 1, 0)), ("socketpair", (1, 1, 0, None)), ("fork", ()), ("execv", (b"/bin/true", None)), ("kill", (1, 0))):
    assert getattr(libc, name)(*arguments) == -1, name
    said.append(errno.errorcode[ctypes.get_errno()])
print(said)"""


def test_it_has_no_network_starts_nothing_and_has_limits():
    """Python and, on Linux, the kernel refuse sockets and processes; 768 MiB of address space, ten seconds of a processor, no core."""
    for code in (
        "import socket; socket.socket()",
        "import socket; socket.getaddrinfo('localhost', 1)",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.system('true')",
        "import os; os.fork()",
    ):
        assert "PermissionError" in in_helper(code), code
    code = "import resource as r; print([r.getrlimit(one)[1] for one in (r.RLIMIT_AS, r.RLIMIT_CPU, r.RLIMIT_CORE)])"
    assert in_helper(code) == str([768 << 20, 10, 0])
    assert "MemoryError" in in_helper("bytearray(800 << 20)")
    if sys.platform == "linux":  # other systems have no filter for system calls
        assert in_helper(BEHIND_THE_INTERPRETER) == str(["EPERM"] * 5)


def test_it_sees_nothing_of_the_environment(monkeypatch):
    """Keys stand there. A document cannot read it, and neither can who takes the process over."""
    monkeypatch.setenv("SECRET_KEY", "sk-1")
    seen = []
    started = subprocess.Popen

    class Popen(started):
        def __init__(self, command, **options):
            seen.append((command, options))
            super().__init__(command, **options)

    monkeypatch.setattr(subprocess, "Popen", Popen)
    read_document_blocking(b"x", ReadJob(kind="text"))
    ((command, options),) = seen
    assert command[1] == "-I"
    assert options["env"] == {}


@on_bounded_time
async def test_it_is_gone_with_its_call():
    """Cancelled in the middle, it is killed and reaped before the cancellation travels on; its account says so."""
    account = ProcessAccount()
    nested = b"<html><body>" + b"".join(b"<a href='/x%d'>l%d</a>" % (one, one) for one in range(60_000))

    async def read():
        keep_account(account)
        await read_document(nested, ReadJob(kind="html"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        while not account.alive:  # noqa: ASYNC110 - the account is a value, and says nothing
            await trio.sleep(0.001)
        (pid,) = account.alive
        assert psutil.pid_exists(pid)
        nursery.cancel_scope.cancel()
    assert not psutil.pid_exists(pid)
    assert (account.alive, account.reaped) == (set(), 1)


@on_bounded_time
async def test_one_that_gives_no_answer_is_an_error(monkeypatch):
    """Whatever ended it; and what it says is bounded: one that talks without end is killed."""
    command = [sys.executable, "-I", "-c", "raise SystemExit(3)"]
    monkeypatch.setattr("agentrail.web.page_text._COMMAND", command)
    with pytest.raises(UnreadableDocument, match="more memory or time"):
        await read_document(b"x" * 1_000_000, ReadJob(kind="text"))
    with pytest.raises(UnreadableDocument, match="more memory or time"):
        read_document_blocking(b"x", ReadJob(kind="text"))
    monkeypatch.setattr("agentrail.web.page_helper.MAX_HELPER_OUTPUT_BYTES", 1 << 20)
    command[-1] = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    with pytest.raises(UnreadableDocument):
        await read_document(b"x", ReadJob(kind="text"))


def test_a_job_is_what_the_helper_reads():
    """One line of JSON in front of the document."""
    job = {"kind": "text", "charset": "", "url": "", "max_characters": 3}
    command = [sys.executable, "-I", page_helper.__file__]
    said = subprocess.run(
        command, input=json.dumps(job).encode() + b"\nabcd\n", capture_output=True, check=True
    )
    read = {"title": "", "pages": ["abc"], "left_out": 2, "reader": "text", "fault": None}
    assert json.loads(said.stdout) == read


HOSTILE = {
    "100,000 attributes": lambda: (b"<html><body><p " + b" ".join(b"a%d=x" % one for one in range(100_000)) + b">text</p>" + FILLER, "html"),
    "200,000 links": lambda: (b"<html><body>" + b"".join(b"<a href='/x%d'>l%d</a>" % (one, one) for one in range(200_000)) + FILLER, "html"),
    "50,000 nested tags": lambda: (b"<html><body>" + b"<div>" * 50_000 + b"deep" + FILLER, "html"),
    "unclosed comments": lambda: (b"<html><body>" + b"<!--" * 500_000 + FILLER, "html"),
    "a bomb": lambda: (_with_stream(zlib.compress(b"BT /F1 12 Tf 72 700 Td (" + b"x" * (64 << 20) + b") Tj ET")), "pdf"),
    "a circle of pages": lambda: (
        assembled([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count 9/Kids[3 0 R]>>", b"<</Type/Pages/Count 9/Kids[2 0 R]>>", b"<<>>"]), "pdf",
    ),
}  # fmt: skip


def _with_stream(content):
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count 1/Kids[5 0 R]>>", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>", b"<<>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 6 0 R/Resources<</Font<</F1 3 0 R>>>>>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(content), content),
    ]  # fmt: skip
    return assembled(objects)


@pytest.mark.check
@on_bounded_time
async def test_what_was_made_to_break_a_reader_gives_text_or_an_error():
    """G-029: all of them side by side, each within 15 s and 768 MiB of a process of its own, gone then; the loop goes on meanwhile."""
    documents = {name: make() for name, make in HOSTILE.items()}
    account, lags, said = ProcessAccount(), [], {}

    async def watch():
        while True:
            due = trio.current_time() + 0.005
            await trio.sleep_until(due)
            lags.append(trio.current_time() - due)

    async def read(name, content, kind):
        try:
            read = await read_document(content, ReadJob(kind=kind, max_characters=50_000))
        except UnreadableDocument as error:
            said[name] = str(error)
        else:
            said[name] = "".join(read.pages)

    keep_account(account)
    begun = trio.current_time()
    async with trio.open_nursery() as watching:
        watching.start_soon(watch)
        async with trio.open_nursery() as nursery:
            for name, (content, kind) in documents.items():
                nursery.start_soon(read, name, content, kind)
        watching.cancel_scope.cancel()
    assert trio.current_time() - begun < 17
    assert account.alive == set()
    assert said.keys() == documents.keys()
    assert all(0 < len(one) <= 50_000 for one in said.values())
    assert "deep" in said["50,000 nested tags"]
    lags.sort()
    # Of a machine with two cores that does other things as well, one turn in a hundred may be late for reasons of its own.
    assert lags[int(len(lags) * 0.99) - 1] < 0.05
