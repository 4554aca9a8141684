"""What a model may ask of files, in sizes that nobody means: each is a value, soon, and nothing larger is made of it."""

import json
import math
import re

import pytest
import trio

from agentrail.abc import ExecuteOptions, GrepOptions, ProcessOptions, Refusal
from agentrail.errors import OptionError
from agentrail.sandboxes import files, memory
from agentrail.sandboxes.grep import decide_rules
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.sandboxes.path_patterns import (
    MAX_RULES,
    PatternFault,
    compile_pattern,
    expand_braces,
    read_ignore_file,
)
from agentrail.sandboxes.remote.operations import OpenRequest, UnreadableWire, decode_as
from agentrail.sandboxes.text_edit import MAX_REPLACEMENTS, Edited, decide_edit

MEGABYTE = 1_000_000
OPTIONS = GrepOptions(include=None, context_lines=0, max_results=5, ignore_case=False)


@pytest.fixture(params=["memory", "local"])
def sandbox(request, tmp_path):
    return MemorySandbox() if request.param == "memory" else LocalSandbox(tmp_path)


def _edit(text, old, new, **options):
    return decide_edit(text, old, new, replace_all=True, path="f", **options)


# --- options


@pytest.mark.parametrize(
    ("kind", "wrong", "told"),
    [
        (GrepOptions, {"max_results": 0}, "max_results is 0: expected a whole number >= 1"),
        (GrepOptions, {"context_lines": -1}, "context_lines is -1: expected a whole number >= 0"),
        (
            GrepOptions,
            {"include": 5, "ignore_case": 1},
            "include is 5: expected a text, or None; ignore_case is 1: expected True or False",
        ),
        (ExecuteOptions, {"timeout_seconds": -1}, "timeout_seconds is -1: expected finite seconds above 0"),
        (
            ExecuteOptions,
            {"timeout_seconds": math.inf},
            "timeout_seconds is inf: expected finite seconds above 0",
        ),
        (
            ExecuteOptions,
            {"workdir": None, "output_name": 7},
            "workdir is None: expected a text; output_name is 7: expected a text, or None",
        ),
        (
            ProcessOptions,
            {"timeout_seconds": math.nan},
            "timeout_seconds is nan: expected finite seconds above 0",
        ),
        (ProcessOptions, {"errors": "kept"}, "errors is 'kept': expected 'merged' or 'dropped'"),
        (ProcessOptions, {"env": {"KEY": 5}}, "env is of type dict: expected a mapping, each a text"),
    ],
)
def test_options_of_a_sandbox_are_checked_where_they_are_made(kind, wrong, told):
    """A search for -1 lines found none locally and all in memory, and a command of -1 seconds crashed."""
    with pytest.raises(OptionError, match=f"^{re.escape(told)}$"):
        kind(**wrong)


def test_a_process_of_no_time_is_refused_on_the_wire():
    """With the place of the fault in the request."""
    said = {"argv": ["cat"], "workdir": ".", "env": {}, "errors": "merged", "timeout_seconds": 1.5}
    assert decode_as(OpenRequest, json.dumps(said).encode()).timeout_seconds == 1.5
    with pytest.raises(UnreadableWire, match=r"shape, at \$\.timeout_seconds$"):
        decode_as(OpenRequest, json.dumps(said | {"timeout_seconds": 0}).encode())


# --- edits


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("a" * 40_000, "a", "bb"),
        ("a\n" * 20_000, "a", "b"),
        ("a\n" * 20_000, "\n", ""),
        ("\n" * 20_000, "\n", ""),
        ("a\r\n" * 20_000, "a", "b\nc"),
        ("ab" * 20_000, "b", ""),
    ],
)
def test_an_edit_looks_at_each_place_once(text, old, new, monkeypatch):
    """A line with a million places is no worse than a million lines."""
    searched = 0

    class Text(str):
        """Counts what is searched through for the end of a line."""

        __slots__ = ()

        def find(self, sub, start=0, *rest):
            nonlocal searched
            found = str.find(self, sub, start, *rest)
            searched += (len(self) if found < 0 else found) - start + 1
            return found

        def replace(self, *args):
            return Text(str.replace(self, *args))

    edited = _edit(Text(text), old, new)
    assert isinstance(edited, Edited)
    assert edited.text.replace("\r\n", "\n") == text.replace("\r\n", "\n").replace(old, new)
    assert len(edited.diff) < 5_000
    assert searched < 8 * len(text)


def test_an_edit_is_bounded_and_asks_whether_it_is_still_wanted():
    """Every few thousand places, in each thing that it does with them; over a million would take too much memory."""
    asked = 0

    def ask():
        nonlocal asked
        asked += 1

    _edit("a\n" * 100_000, "a", "b", check=ask)
    assert asked >= 20

    def leave():
        raise TimeoutError

    with pytest.raises(TimeoutError):
        _edit("a", "a", "b", check=leave)
    edited = _edit("a" * (MAX_REPLACEMENTS + 1), "a", "b")
    assert isinstance(edited, Refusal)
    assert "at most 1,000,000 are replaced at once" in edited.message


async def test_a_large_file_may_be_edited_and_not_grow(sandbox, monkeypatch):
    """It was there before. Of lines that are all alike only some are compared in full to find the nearest."""
    monkeypatch.setattr(files, "MAX_WRITTEN_BYTES", 100)
    await sandbox.write("f", "a" * 100)
    monkeypatch.setattr(files, "MAX_WRITTEN_BYTES", 10)
    assert (await sandbox.edit("f", "a", "b", replace_all=True)).error is None
    assert (await sandbox.edit("f", "b", "cc", replace_all=True)).error.code == "too_large"
    monkeypatch.undo()
    await sandbox.write("f", "".join(f"{'ab' * 90}{i:05}\n" for i in range(5_000)))
    result = await sandbox.edit("f", "ba" * 90 + "00000", "x")
    assert result.error.code == "old_not_found"


async def test_what_is_written_during_a_long_edit_is_not_overwritten(monkeypatch):
    """In memory as on a disk: it is done apart from the loop, where others go on."""
    sandbox = MemorySandbox({"f": "a" * 100_000})
    begun, go_on = trio.Event(), trio.Event()
    edit = memory.edit_bytes

    def edit_slowly(*args, **options):
        trio.from_thread.run_sync(begun.set)
        trio.from_thread.run(go_on.wait)
        return edit(*args, **options)

    monkeypatch.setattr(memory, "edit_bytes", edit_slowly)
    results = []

    async def change():
        results.append(await sandbox.edit("f", "a", "b", replace_all=True))

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(change)
            await begun.wait()
            await sandbox.write("f", "other")
            go_on.set()
    assert results[0].error.code == "changed"
    assert (await sandbox.read("f")).text == "other"


# --- patterns


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("{" * 10_000, "10,000 characters"),
        ("{a,b}" * 400, "expand to more than"),
        ("{" + "," * 4_000 + "}", "more than 256 patterns"),
        ("{a,b}" * 7 + "x" * 4_000, "more than 20,000 characters"),
        ("a\0b", "control character"),
        ("a\nb", "control character"),
        ("\ud800", "not valid Unicode"),
    ],
)
async def test_a_pattern_that_is_none_is_a_value(sandbox, pattern, words):
    """Of a path, and of the files to search."""
    with pytest.raises(PatternFault, match=re.escape(words)):
        compile_pattern(pattern)
    found = await sandbox.glob(pattern, ".")
    searched = await sandbox.grep(
        "x", ".", GrepOptions(include=pattern, context_lines=0, max_results=5, ignore_case=False)
    )
    for result in (found, searched):
        assert result.error.code == "invalid_pattern"
        assert len(result.error.message) < 6_000


@pytest.mark.parametrize(
    ("pattern", "expanded"),
    [
        ("{a,b}", {"a", "b"}),
        ("{{a,b}", {"{a", "{b"}),
        ("{a{b,c}", {"{ab", "{ac"}),
        ("{a}{b,c}", {"{a}b", "{a}c"}),
        ("{a,{b,c}}", {"a", "b", "c"}),
        ("}{a,b},{", {"}a,{", "}b,{"}),
        ("{" * 4_000, {"{" * 4_000}),
        ("{a,b" * 1_000, {"{a,b" * 1_000}),
        ("{,a}", {"", "a"}),
    ],
)
def test_braces_are_written_out(pattern, expanded):
    """Those that offer a choice, from the left; all others stand for themselves."""
    assert set(expand_braces(pattern)) == expanded


@pytest.mark.parametrize("pattern", ["a\0b", "\ud800", "a" * 200_000, "(" * 9_000])
async def test_grep_gives_values_for_any_pattern(sandbox, pattern):
    """NUL, half of a character, and more than a command line holds."""
    result = await sandbox.grep(pattern, ".", OPTIONS)
    assert result.error.code == "invalid_pattern"
    assert len(result.error.message) < 10_000


@pytest.mark.parametrize(
    "path", ["a" * MEGABYTE, "a/" * MEGABYTE, "\0" * MEGABYTE, "\ud800", "../" * MEGABYTE]
)
async def test_any_path_is_judged(sandbox, path):
    """By its length before anything else."""
    for result in (await sandbox.read(path), await sandbox.list_dir(path), await sandbox.glob("*", path)):
        assert result.error.code == "invalid_path"
        assert len(result.error.message) < 2_000


# --- what is ignored


def test_a_gitignore_of_a_megabyte_is_read_in_part():
    """Each rule is asked about each path."""
    text = "# comment\nx*y\n" * (MEGABYTE // 10) + "z" * MEGABYTE
    assert len(read_ignore_file(text, ()).rules) == MAX_RULES
    assert len(read_ignore_file("z" * MEGABYTE + "\n*.py\n", ()).rules) <= 1
    assert len(decide_rules(None, (), [((), text)])) <= 2 * MAX_RULES
