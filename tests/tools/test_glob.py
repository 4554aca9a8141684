"""`glob`: how paths read."""

from agentrail.abc import Error, GlobResult, Ok
from agentrail.tools.glob import glob, render_paths
from tests.tools.rig import StubSandbox, context

FILES = {"src/a.py": "", "src/deep/b.py": "", "c.txt": ""}


async def test_paths_are_relative_and_sorted():
    """Directories end with a slash; names cannot break a line; where nothing fits the words say so; what the sandbox refuses is an error."""
    sandbox = StubSandbox(FILES)
    assert await glob.execute({"pattern": "**/*.py"}, context(sandbox)) == Ok(text="src/a.py\nsrc/deep/b.py")
    assert await glob.execute({"pattern": "*", "path": "src"}, context(sandbox)) == Ok(
        text="src/a.py\nsrc/deep/"
    )

    found = await glob.execute({"pattern": "*.md", "path": "src"}, context(sandbox))
    assert found == Ok(text='Nothing in src matches "*.md".')

    found = await glob.execute({"pattern": "*", "path": "nowhere"}, context(sandbox))
    assert isinstance(found, Error)

    text = render_paths(GlobResult(paths=("a\nb", "c"), truncated=True), pattern="*", path=".")
    assert text == "a\\nb\nc\n[2 paths shown, there are more. Narrow the pattern or the path.]"
