"""`check_tool` passes for our tools, and names the rule that a broken one breaks."""

import subprocess
from typing import ClassVar, cast

import pytest
import trio

from agentrail.abc import ExecuteResult, Ok
from agentrail.testing.check_tool import check_tool
from agentrail.testing.tools import RecordingTool
from agentrail.tools import builtin
from agentrail.tools.function import tool
from tests.tools.rig import CTX, StubSandbox, context

ARGUMENTS = {
    "ask_user": {"question": "Which one?", "options": ["a", "b"]},
    "compact_conversation": {"reason": "a new part begins"},
    "edit_file": {"path": "a.txt", "old_string": "one", "new_string": "two"},
    "glob": {"pattern": "**/*.txt"},
    "grep": {"pattern": "one", "include": "*.txt"},
    "list_dir": {},
    "read_file": {"path": "a.txt", "limit": 1},
    "shell": {"command": "true"},
    "task": {"description": "Count the files."},
    "write_file": {"path": "b/c.txt", "content": "x"},
    "write_todos": {"todos": [{"id": "1", "content": "Read", "status": "pending"}]},
}


@tool
async def shout(a: int) -> str:
    """Say it louder."""
    return f"{a}!"


@tool
def whisper(a: int) -> str:
    """Say it lower."""
    return f"{a}."


@pytest.mark.parametrize("one", [*builtin(), shout, whisper], ids=lambda one: one.name)
async def test_our_tools_keep_to_the_port(one):
    """Each built-in tool, with files in memory; a decorated function that awaits nothing, and one in a thread."""
    sandbox = StubSandbox({"a.txt": "one\n"}, result=ExecuteResult(exit_code=0))
    await check_tool(one, ARGUMENTS.get(one.name, {"a": 1}), context(sandbox))


class Bad(RecordingTool):
    """A tool with something wrong in it."""

    max_retries: int | None = None
    max_result_bytes: int = 10


def _label(text):
    return type("Labelled", (Bad,), {"label": lambda _self, _arguments: text})()


class Spoiling(RecordingTool):
    async def execute(self, arguments, ctx):
        await trio.lowlevel.checkpoint()
        arguments["a"] = 2
        return Ok(text="ok")


class Patient(RecordingTool):
    """Asks, and takes every end of the waiting for an answer."""

    async def execute(self, arguments, ctx):
        await trio.lowlevel.checkpoint()
        try:
            await ctx.ask_user("Which one?")
        except trio.Cancelled:
            return Ok(text="nobody")
        return Ok(text="ok")


class Littering(RecordingTool):
    left: ClassVar[list[subprocess.Popen[bytes]]] = []

    async def execute(self, arguments, ctx):
        await trio.lowlevel.checkpoint()
        self.left.append(subprocess.Popen(["sleep", "60"]))  # noqa: ASYNC220 - it is the fault
        return Ok(text="ok")


class Deaf(RecordingTool):
    async def execute(self, arguments, ctx):
        return Ok(text="ok")


class Moody(RecordingTool):
    asked = 0

    def __getattribute__(self, name):
        if name == "description":
            type(self).asked += 1
            return f"Asked {type(self).asked} times."
        return super().__getattribute__(name)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (RecordingTool(name="bad name"), "expected 1 to 64 of A-Z a-z 0-9 _ -"),
        (RecordingTool(description=" "), "has no description"),
        (RecordingTool(parameters={"type": "array"}), "expected 'object'"),
        (
            RecordingTool(parameters={"type": "object", "properties": {"a": {"type": "string"}}}),
            "are such as its schema allows",
        ),
        (Moody(), "describes itself with the same bytes"),
        (RecordingTool(effect_class="reconcilable"), "it is reconcilable but has no `reconcile`"),
        (type("Eager", (Bad,), {"max_retries": -1})(), "max_retries is -1"),
        (type("Silent", (Bad,), {"max_result_bytes": 0})(), "max_result_bytes is 0"),
        (_label(""), "label returned the empty text"),
        (_label("a\nb"), "label returned several lines"),
        (_label("a" * 201), "label returned 201 characters"),
        (_label(None), "label returned a value of type NoneType"),
        (RecordingTool(answer=cast("str", 7)), "it returned a value of type int"),
        (RecordingTool(answer=Ok(text=cast("str", 7))), "its text is a value of type int"),
        (RecordingTool(answer=Ok(text="a", details=cast("str", {1j}))), "its details are not JSON"),
        (Spoiling(), "it changed its arguments"),
        (Patient(), "Stopped while it waits for a process, an answer or another session it ends"),
        (Littering(), "all processes that it had started are gone. left: process"),
        (Deaf(), "Cancelled before it begins it does nothing"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_broken_rule_is_named(one, words):
    """With the tool, the rule, and what came instead."""
    with pytest.raises(AssertionError) as caught:
        await check_tool(one, {"a": 1}, CTX)
    while Littering.left:
        Littering.left[-1].kill()
        Littering.left.pop().wait()
    assert "breaks a rule: " in str(caught.value)
    assert words in str(caught.value)
