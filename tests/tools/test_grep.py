"""`grep`: how matches read, and that a search is bounded."""

from agentrail.abc import Error, GrepLine, GrepResult, Ok
from agentrail.tools.grep import grep, render_matches
from tests.tools.rig import StubSandbox, context

FILES = {
    "src/a.py": "one\ntwo\nthree\nfour\nfive\nsix\nTWO\n",
    "src/b.py": "two\n",
    "c.txt": "two\n",
}


async def test_matches_read_by_file():
    """A colon behind the number of a match, a dash behind that of a neighbour, `--` where lines are left out; how many were looked through."""
    ctx = context(StubSandbox(FILES))
    one = {"pattern": "two", "include": "*.py", "context_lines": 1, "ignore_case": True}
    more = "[1 match shown, there are more. Narrow the pattern or the path.]"
    for call, text in (
        (one, "src/a.py\n1-one\n2:two\n3-three\n--\n6-six\n7:TWO\n\nsrc/b.py\n1:two"),
        ({"pattern": "seven", "path": "src"}, 'No matches for "seven" in src (2 files).'),
        ({"pattern": "seven", "path": "c.txt"}, 'No matches for "seven" in c.txt (1 file).'),
        ({"pattern": "t", "max_results": 1, "context_lines": 0}, f"c.txt\n1:two\n{more}"),
    ):
        assert await grep.execute(call, ctx) == Ok(text=text)
    assert isinstance(await grep.execute({"pattern": "("}, ctx), Error)


def test_an_answer_stays_within_its_bounds():
    """50 KB in all, and no line of more than 2,000 characters; names cannot break a line."""
    lines = tuple(GrepLine(path="a\nb", number=n, text="x" * 3_000) for n in range(1, 101))
    text = render_matches(GrepResult(lines=lines, searched_files=1), pattern="x", path=".")
    assert len(text.encode()) < 51_000
    first, second, *_, last = text.split("\n")
    assert first == "a\\nb"
    assert second == f"1:{'x' * 2_000} [… 1,000 more characters in this line]"
    assert last == "[24 matches shown, there are more. Narrow the pattern or the path.]"
