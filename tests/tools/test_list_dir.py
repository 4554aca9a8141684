"""`list_dir`: the text that a model reads."""

from agentrail.abc import DirectoryEntry, Error, ListResult, Ok, Refusal
from agentrail.tools.list_dir import list_dir, render_listing
from tests.tools.rig import StubSandbox, context


async def test_each_kind_has_its_line():
    """Directories end in a slash, files have sizes, links have targets; the rest is called by its kind."""
    sandbox = StubSandbox(
        entries=ListResult(
            entries=(
                DirectoryEntry(name="src", kind="dir"),
                DirectoryEntry(name="README.md", kind="file", size_bytes=1234),
                DirectoryEntry(name="x", kind="link", target="y"),
                DirectoryEntry(name="pipe", kind="other"),
            )
        )
    )
    outcome = await list_dir.execute({}, context(sandbox))
    assert outcome == Ok(text="[dir]  src/\n[file] README.md (1234 bytes)\n[link] x -> y\n[other] pipe")
    assert sandbox.asked == ["."]


async def test_a_refusal_is_an_error():
    """The sandbox's sentence is fit for the model."""
    refused = Refusal(code="file_not_found", message="No such directory: src.")
    sandbox = StubSandbox(entries=ListResult(error=refused))
    assert await list_dir.execute({"path": "src"}, context(sandbox)) == Error(text="No such directory: src.")


def test_an_empty_directory_says_so():
    """No tool answers with nothing."""
    assert render_listing(()) == "[The directory is empty.]"


def test_a_thousand_entries_are_shown_at_most():
    """The last line says how many there are."""
    lines = render_listing([DirectoryEntry(name=f"f{n}", kind="file") for n in range(1001)]).splitlines()
    assert len(lines) == 1001
    assert lines[999] == "[file] f999 (0 bytes)"
    assert lines[1000] == "[1,000 of 1,001 entries shown. List a subdirectory to see less at once.]"
    assert len(render_listing([DirectoryEntry(name="f", kind="file")] * 1000).splitlines()) == 1000


def test_names_cannot_break_the_line():
    """A file may be called anything: what a terminal would obey, and what is no Unicode, is shown escaped."""
    text = render_listing([
        DirectoryEntry(name="a\n[dir] b\x1b[2J", kind="dir"),
        DirectoryEntry(name="caf\udce9 é", kind="link", target="\r"),
    ])  # fmt: skip
    assert text == "[dir]  a\\n[dir] b\\x1b[2J/\n[link] caf\\udce9 é -> \\r"
