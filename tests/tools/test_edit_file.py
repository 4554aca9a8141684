"""`edit_file`: the diff it answers with, its refusals word for word, and whether an earlier attempt was made."""

import pytest
from attrs import evolve

from agentrail.abc import Done, NotDone, Ok, Unknown
from agentrail.tools.edit_file import reconcile
from tests.tools.rig import StubSandbox, context

BEFORE = "def f():\n    return 1\n"
AFTER = "def f():\n    return 2\n"


@pytest.mark.parametrize(
    ("text", "old", "new", "found"),
    [
        (BEFORE, "return 1", "return 2", NotDone()),
        (
            AFTER,
            "return 1",
            "return 2",
            Done(Ok(text="a has the new text already: an earlier attempt replaced it.")),
        ),
        ("other\n", "return 1", "return 2", Unknown()),
        (AFTER, "return 1", "", Unknown()),
        ("aa", "a", "aa", Unknown()),
        (
            "a\r\nc",
            "a\nb",
            "a\nc",
            Done(Ok(text="a has the new text already: an earlier attempt replaced it.")),
        ),
        (None, "a", "b", Unknown()),
    ],
    ids=["not done", "done", "neither", "a deletion", "alike before and after", "line ends", "no file"],
)
async def test_the_file_shows_what_became_of_an_attempt(text, old, new, found):
    """An attempt that crashed is run again only when the file shows that it did nothing."""
    sandbox = StubSandbox({} if text is None else {"a": text})
    arguments = {"path": "a", "old_string": old, "new_string": new}
    assert await reconcile("o1", evolve(context(sandbox), arguments=arguments)) == found
