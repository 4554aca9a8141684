"""The quick way to flake8-async's rules finds what they find."""

import pytest

pytest.importorskip("flake8_async", reason="flake8-async is not installed: make install")

from scripts.trio_habits import RULES, find_habits

BROKEN = {
    "ASYNC101": "async def f():\n    with trio.CancelScope():\n        yield 1\n",
    "ASYNC102": "async def f():\n    try:\n        pass\n    finally:\n        await trio.sleep(1)\n",
    "ASYNC103": "async def f():\n    try:\n        pass\n    except BaseException:\n        pass\n",
    "ASYNC104": "async def f():\n    try:\n        pass\n    except trio.Cancelled:\n        return\n",
    "ASYNC113": "class A:\n    async def __aenter__(self):\n        self.nursery.start_soon(trio.serve_tcp)\n",
    "ASYNC119": "async def f():\n    async with trio.open_file('x'):\n        yield 1\n",
    "ASYNC121": "async def f():\n    async with trio.open_nursery():\n        return\n",
    "ASYNC122": "async def f():\n    scope = trio.fail_after(1)\n    await trio.sleep(0)\n    with scope:\n        pass\n",
}


def test_each_rule_that_is_asked_for_has_a_case():
    """A new rule gets a file that breaks it."""
    assert sorted(BROKEN) == sorted(RULES.split(","))


@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_rule_is_found(code):
    """A file that breaks one rule is found by that rule, and with its number in a comment it is allowed."""
    source = "import trio\n" + BROKEN[code]

    found = next(each for each in find_habits(source) if each.code == code)

    lines = source.splitlines()
    lines[found.line - 1] += f"  # noqa: {code} - the reason"
    assert code not in {each.code for each in find_habits("\n".join(lines))}


def test_a_comment_allows_its_own_rule_only():
    """The number of another rule, or none, allows nothing."""
    source = "import trio\n" + BROKEN["ASYNC104"].replace("Cancelled:", "Cancelled:  # noqa: ASYNC102")

    assert "ASYNC104" in {each.code for each in find_habits(source)}


def test_a_context_manager_may_yield_in_a_scope():
    """ASYNC101 is asked about the function too."""
    source = "import trio\n@contextmanager\ndef f():\n    with trio.CancelScope():\n        yield 1\n"

    assert [*find_habits(source)] == []
