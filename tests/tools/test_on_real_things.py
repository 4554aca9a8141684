"""The file tools on what is really there: this repository, a huge file, fifty thousand files, bytes that are no text."""

import os
import re

import pytest

from agentrail.abc import Error, Ok
from agentrail.sandboxes.local import LocalSandbox
from agentrail.tools import builtin
from tests.checkout import CHECKOUT, only_in_a_checkout
from tests.thinned import IS_NIGHTLY
from tests.tools.rig import context


async def use(sandbox, name, **arguments):
    (tool,) = builtin(name)
    return await tool.execute(arguments, context(sandbox))


@pytest.fixture
async def repository():
    sandbox = LocalSandbox(CHECKOUT)
    yield sandbox
    await sandbox.aclose()


@pytest.fixture
async def workspace(tmp_path):
    sandbox = LocalSandbox(tmp_path)
    yield sandbox
    await sandbox.aclose()


@only_in_a_checkout
async def test_a_reader_finds_its_way(repository):
    """From the root to a file, to a name in it, to the files that use it."""
    listing = await use(repository, "list_dir")
    assert "[dir]  agentrail/" in listing.text.splitlines()
    assert re.search(r"^\[file\] pyproject\.toml \(\d+ bytes\)$", listing.text, re.MULTILINE)
    found = await use(repository, "glob", pattern="agentrail/tools/*_file.py")
    assert found == Ok(
        text="agentrail/tools/changed_file.py\nagentrail/tools/edit_file.py\nagentrail/tools/read_file.py\n"
        "agentrail/tools/write_file.py"
    )
    page = await use(repository, "read_file", path="agentrail/tools/read_file.py", limit=1)
    first, last = page.text.splitlines()
    assert first == '1\t"""The tool `read_file`: a text file of the workspace, in pages of numbered lines."""'
    assert re.fullmatch(r"\[Lines 1-1 of \d+\. Continue with offset=2\.\]", last)
    uses = await use(
        repository, "grep", pattern="^def render_page", path="agentrail", include="*.py", context_lines=0
    )
    assert re.fullmatch(
        r"agentrail/tools/read_file\.py\n\d+:def render_page\(.*\) -> Ok \| Error:", uses.text
    )


async def test_a_file_is_made_edited_and_made_again(workspace, tmp_path):
    """The whole way of a small change, with the words that a model reads."""
    written = await use(workspace, "write_file", path="src/deep/a.py", content="one\ntwo\nthree\n")
    assert written.text == "Wrote 3 lines (14 bytes) to src/deep/a.py (new file)."
    edited = await use(workspace, "edit_file", path="src/deep/a.py", old_string="two", new_string="2")
    assert edited.text == ("--- src/deep/a.py\n+++ src/deep/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n")
    back = await use(workspace, "write_file", path="src/deep/a.py", content="one\ntwo\nthree\n")
    assert back.text == "Wrote 3 lines (14 bytes) to src/deep/a.py."
    first, second, third = (one.details["file"] for one in (written, edited, back))
    assert first["sha256_before"] is None
    assert second["sha256_before"] == third["sha256_after"] == first["sha256_after"]
    assert third["sha256_before"] == second["sha256_after"]
    assert (tmp_path / "src/deep/a.py").read_text() == "one\ntwo\nthree\n"


async def test_line_ends_and_marks_stay(workspace, tmp_path):
    """A file of Windows, with a byte order mark, is edited as the model sees it and stays what it is."""
    (tmp_path / "w.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert (await use(workspace, "read_file", path="w.txt")).text == "1\tone\n2\ttwo"
    await use(workspace, "edit_file", path="w.txt", old_string="one\ntwo", new_string="1\n2\n3")
    assert (tmp_path / "w.txt").read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n3\r\n"


async def test_bytes_that_are_no_text(workspace, tmp_path):
    """The session never sees broken text; type and size are said."""
    (tmp_path / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00" + bytes(12_335))
    (tmp_path / "old.txt").write_bytes("Grüße".encode("latin-1"))
    (tmp_path / "wide.txt").write_bytes("Grüße\n".encode("utf-16"))
    assert await use(workspace, "read_file", path="logo.png") == Error(
        text='"logo.png" is not text (image/png, 12,345 bytes).'
    )
    broken = await use(workspace, "read_file", path="old.txt")
    assert isinstance(broken, Error)
    assert '"old.txt" is not text' in broken.text
    assert await use(workspace, "read_file", path="wide.txt") == Ok(text="1\tGrüße")
    for path in ("logo.png", "old.txt"):
        assert isinstance(await use(workspace, "edit_file", path=path, old_string="a", new_string="b"), Error)
    found = await use(workspace, "grep", pattern="Gr")
    assert found == Ok(text="wide.txt\n1:Grüße")


async def test_names_that_break_lines(workspace, tmp_path):
    """Whatever a file is called, an answer has one line for it."""
    (tmp_path / "a\nb\x1b[2J.txt").write_text("needle\n")
    listing = await use(workspace, "list_dir")
    assert listing.text == "[file] a\\nb\\x1b[2J.txt (7 bytes)"
    found = await use(workspace, "glob", pattern="*.txt")
    assert found.text == "a\\nb\\x1b[2J.txt"


async def test_a_file_of_two_hundred_megabytes(workspace, tmp_path):
    """It is neither read nor edited nor searched, and says what to do instead; it can be replaced."""
    with (tmp_path / "huge.log").open("wb") as file:
        file.truncate(200_000_000)
    refused = Error(
        text="huge.log has 200,000,000 bytes, at most 50,000,000 are read. Look at a part with a command."
    )
    assert await use(workspace, "read_file", path="huge.log") == refused
    assert await use(workspace, "edit_file", path="huge.log", old_string="a", new_string="b") == refused
    assert (await use(workspace, "grep", pattern="a")).text.startswith('No matches for "a" in .')
    written = await use(workspace, "write_file", path="huge.log", content="small\n")
    assert written.text == "Wrote 1 line (6 bytes) to huge.log."


@pytest.mark.check
async def test_fifty_thousand_files(workspace, tmp_path):
    """Each answer is bounded, and says that there is more; CI makes a fifth of them."""
    for number in range(50 if IS_NIGHTLY else 10):
        directory = tmp_path / f"d{number:02}"
        directory.mkdir()
        for name in range(1_000):
            os.close(os.open(directory / f"{name:03}.txt", os.O_CREAT | os.O_WRONLY))
    (tmp_path / "d07" / "500.txt").write_text("the needle\n")
    (tmp_path / "d07" / "extra.txt").touch()
    listing = (await use(workspace, "list_dir", path="d07")).text.splitlines()
    assert len(listing) == 1_001
    assert listing[-1] == "[1,000 of 1,001 entries shown. List a subdirectory to see less at once.]"
    paths = (await use(workspace, "glob", pattern="**/*.txt")).text.splitlines()
    assert paths[:2] == ["d00/000.txt", "d00/001.txt"]
    assert paths[-1] == "[500 paths shown, there are more. Narrow the pattern or the path.]"
    found = await use(workspace, "grep", pattern="needle", path="d07", context_lines=0)
    assert found == Ok(text="d07/500.txt\n1:the needle")
