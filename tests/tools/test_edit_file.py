"""`edit_file`: the diff it answers with, its refusals word for word, and whether an earlier attempt was made."""

import hashlib

import pytest
from attrs import evolve

from agentrail.abc import Done, Error, NotDone, Ok, Unknown
from agentrail.tools.edit_file import edit_file, reconcile
from tests.tools.rig import StubSandbox, context

BEFORE = "def f():\n    return 1\n"
AFTER = "def f():\n    return 2\n"


async def test_the_answer_is_the_diff():
    """Unified, with what became of the file in the details."""
    sandbox = StubSandbox({"a.py": BEFORE})
    arguments = {"path": "a.py", "old_string": "return 1", "new_string": "return 2"}
    assert await edit_file.execute(arguments, context(sandbox)) == Ok(
        text="--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return 2\n",
        details={
            "file": {
                "path": "a.py",
                "sha256_before": hashlib.sha256(BEFORE.encode()).hexdigest(),
                "sha256_after": hashlib.sha256(AFTER.encode()).hexdigest(),
            }
        },
    )
    assert (await sandbox.read("a.py")).text == AFTER


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "    return 7",
            "x",
            (
                "old_string was not found in a.py. Read the file again: spaces and line ends must match exactly."
                ' The nearest is line 2: "    return 1"'
            ),
        ),
        (
            "    ",
            "x",
            "old_string occurs 2 times in a.py (lines 2, 3). Add lines around it, or set replace_all.",
        ),
        ("", "x", "old_string is empty; use write_file to create a file."),
        ("return 1", "return 1", "old_string and new_string are the same."),
    ],
)
async def test_each_refusal_says_what_to_do(old, new, words):
    """The texts are those of the reference page, and the file stays as it was."""
    text = BEFORE + "    # end\n"
    sandbox = StubSandbox({"a.py": text})
    arguments = {"path": "a.py", "old_string": old, "new_string": new}
    assert await edit_file.execute(arguments, context(sandbox)) == Error(text=words)
    assert (await sandbox.read("a.py")).text == text


async def test_all_occurrences_on_request():
    """`replace_all` takes as many as there are."""
    sandbox = StubSandbox({"a": "x\nx\n"})
    arguments = {"path": "a", "old_string": "x", "new_string": "y", "replace_all": True}
    assert isinstance(await edit_file.execute(arguments, context(sandbox)), Ok)
    assert (await sandbox.read("a")).text == "y\ny\n"


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
