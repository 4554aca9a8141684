"""`list_dir`: the text that a model reads."""

from agentrail.abc import DirectoryEntry, Error, ListResult, Ok, Refusal
from agentrail.tools.list_dir import list_dir, render_listing
from tests.tools.rig import StubSandbox, context


async def test_each_kind_has_its_line():
    """Directories end in a slash, files have sizes, links have targets; a refusal is an error, in the sandbox's sentence."""
    entries = (
        DirectoryEntry(name="src", kind="dir"),
        DirectoryEntry(name="README.md", kind="file", size_bytes=1234),
        DirectoryEntry(name="x", kind="link", target="y"),
        DirectoryEntry(name="pipe", kind="other"),
    )
    sandbox = StubSandbox(entries=ListResult(entries=entries))
    outcome = await list_dir.execute({}, context(sandbox))
    assert outcome == Ok(text="[dir]  src/\n[file] README.md (1234 bytes)\n[link] x -> y\n[other] pipe")
    assert sandbox.asked == ["."]
    refused = Refusal(code="file_not_found", message="No such directory: src.")
    sandbox = StubSandbox(entries=ListResult(error=refused))
    assert await list_dir.execute({"path": "src"}, context(sandbox)) == Error(text="No such directory: src.")


def test_what_is_shown_is_bounded_and_stays_in_its_line():
    """A thousand entries, and how many there are; what a terminal would obey, and what is no Unicode, is shown escaped."""
    assert render_listing(()) == "[The directory is empty.]"
    lines = render_listing([DirectoryEntry(name=f"f{n}", kind="file") for n in range(1001)]).splitlines()
    assert len(lines) == 1001
    assert lines[999] == "[file] f999 (0 bytes)"
    assert lines[1000] == "[1,000 of 1,001 entries shown. List a subdirectory to see less at once.]"
    assert len(render_listing([DirectoryEntry(name="f", kind="file")] * 1000).splitlines()) == 1000
    hostile = DirectoryEntry(name="a\n[dir] b\x1b[2J", kind="dir")
    text = render_listing([hostile, DirectoryEntry(name="caf\udce9 é", kind="link", target="\r")])
    assert text == "[dir]  a\\n[dir] b\\x1b[2J/\n[link] caf\\udce9 é -> \\r"
