"""`edit_file`: the diff it answers with, its refusals word for word, and whether an earlier attempt was made."""

from attrs import evolve

from agentrail.abc import Done, NotDone, Ok, Unknown
from agentrail.tools.edit_file import reconcile
from tests.tools.rig import StubSandbox, context

BEFORE = "def f():\n    return 1\n"
AFTER = "def f():\n    return 2\n"


async def test_the_file_shows_what_became_of_an_attempt():
    """An attempt that crashed is run again only when the file shows that it did nothing."""
    done = Done(Ok(text="a has the new text already: an earlier attempt replaced it."))
    for what, text, old, new, found in (
        ("not done", BEFORE, "return 1", "return 2", NotDone()),
        ("done", AFTER, "return 1", "return 2", done),
        ("neither", "other\n", "return 1", "return 2", Unknown()),
        ("a deletion", AFTER, "return 1", "", Unknown()),
        ("alike before and after", "aa", "a", "aa", Unknown()),
        ("line ends", "a\r\nc", "a\nb", "a\nc", done),
        ("no file", None, "a", "b", Unknown()),
    ):
        sandbox = StubSandbox({} if text is None else {"a": text})
        arguments = {"path": "a", "old_string": old, "new_string": new}
        assert await reconcile("o1", evolve(context(sandbox), arguments=arguments)) == found, what
