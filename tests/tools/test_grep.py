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
    """A colon behind the number of a match, a dash behind that of a neighbour, `--` where lines are left out."""
    found = await grep.execute(
        {"pattern": "two", "include": "*.py", "context_lines": 1, "ignore_case": True},
        context(StubSandbox(FILES)),
    )
    assert found == Ok(text="src/a.py\n1-one\n2:two\n3-three\n--\n6-six\n7:TWO\n\nsrc/b.py\n1:two")


async def test_nothing_found():
    """How many files were looked through is said, so that a wrong path is noticed."""
    sandbox = StubSandbox(FILES)
    found = await grep.execute({"pattern": "seven", "path": "src"}, context(sandbox))
    assert found == Ok(text='No matches for "seven" in src (2 files).')
    found = await grep.execute({"pattern": "seven", "path": "c.txt"}, context(sandbox))
    assert found == Ok(text='No matches for "seven" in c.txt (1 file).')


async def test_too_many_matches():
    """The answer says that there are more, and what to do."""
    found = await grep.execute(
        {"pattern": "t", "max_results": 1, "context_lines": 0}, context(StubSandbox(FILES))
    )
    assert found == Ok(text="c.txt\n1:two\n[1 match shown, there are more. Narrow the pattern or the path.]")


async def test_a_pattern_that_is_none():
    """The model reads what is wrong with it."""
    found = await grep.execute({"pattern": "("}, context(StubSandbox(FILES)))
    assert isinstance(found, Error)


def test_an_answer_stays_within_its_bounds():
    """50 KB in all, and no line of more than 2,000 characters; names cannot break a line."""
    lines = tuple(GrepLine(path="a\nb", number=n, text="x" * 3_000) for n in range(1, 101))
    text = render_matches(GrepResult(lines=lines, searched_files=1), pattern="x", path=".")
    assert len(text.encode()) < 51_000
    first, second, *_, last = text.split("\n")
    assert first == "a\\nb"
    assert second == f"1:{'x' * 2_000} [… 1,000 more characters in this line]"
    assert last == "[24 matches shown, there are more. Narrow the pattern or the path.]"
