"""The door of the room: what users of actors write stands in it, and what its types promise an editor can complete.

What is not called in here is read: by mypy, which `make lint` runs over the tests too.
"""

import ast
from pathlib import Path

import agentrail.actors

ROOT = Path(__file__).parents[2]


def test_all_that_the_pages_import_stands_in_the_door():
    """Nobody who follows a page has to know which file a name lives in."""
    names = set(agentrail.actors.__all__)
    assert len(names) == len(agentrail.actors.__all__)
    inside = {
        alias.name
        for page in (ROOT / "docs" / "how-to").glob("*.md")
        for fence in page.read_text(encoding="utf-8").split("```python\n")[1:]
        for node in ast.walk(ast.parse(fence.split("\n```")[0]))
        if isinstance(node, ast.ImportFrom)
        and str(node.module).startswith(("agentrail.actors", "agentrail.otp"))
        for alias in node.names
    }
    assert inside
    assert inside <= names
