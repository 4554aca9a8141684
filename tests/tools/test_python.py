"""`python`: code runs in the sandbox, the value of its last line is printed, and the pictures that it makes come back."""

import json
import socket
import sys

import pytest
from hypothesis import given, strategies as st

from agentrail.abc import Error, ExecuteResult, Ok, Refusal
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.tools.python import MAX_CODE_BYTES, NewPicture, decide_pictures, media_type_of, python
from tests.sandboxes.rig import make_sandbox
from tests.tools.rig import StubSandbox, context

PNG = b"\x89PNG\r\n\x1a\n" + bytes(9)

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and /proc")

CODE = f"""
from __future__ import annotations
import os, own, pathlib
print("one", own.NUMBER, pathlib.Path("data.txt").read_text(), __name__)
os.chdir("/")
out = pathlib.Path({{root!r}}, "out")
out.joinpath("new.png").write_bytes({PNG!r})
out.joinpath("old.png").write_bytes({PNG!r} + b"more")
out.joinpath("text.png").write_bytes(b"no picture")
out.joinpath("notes.txt").write_text("none")
1 + \\
    1
"""


@linux_only
@pytest.mark.parametrize("mode", ["unconfined", pytest.param("confined", marks=pytest.mark.check)])
async def test_code_sees_the_workspace_and_its_pictures_come_back(tmp_path, monkeypatch, mode):
    """Files are read and modules imported, a file that is called like a module of Python stands in nobody's way; old pictures stay where they are."""
    for name, text in (("own.py", "NUMBER = 7"), ("data.txt", "it's"), ("json.py", "raise ValueError")):
        tmp_path.joinpath(name).write_text(text)
    tmp_path.joinpath("out").mkdir()
    for name in ("old.png", "kept.png"):
        tmp_path.joinpath("out", name).write_bytes(PNG)
    sandbox = make_sandbox(mode, tmp_path, monkeypatch)
    result = await python.execute({"code": CODE.format(root=str(tmp_path))}, context(sandbox))
    await sandbox.aclose()
    assert isinstance(result, Ok), result
    lines = result.text.splitlines()
    assert lines[:2] == ["one 7 it's __main__", "2"]
    assert lines[2].startswith("[exit code 0 · ")
    assert lines[3:] == ["[out/text.png is not shown: it is not a picture]"]
    assert [(one.name, one.media_type, one.size_bytes) for one in result.images] == [
        ("new.png", "image/png", len(PNG)),
        ("old.png", "image/png", len(PNG) + 4),
    ]


@linux_only
@pytest.mark.check
async def test_what_fails_is_shown_as_python_shows_it(tmp_path, monkeypatch):
    """The lines of the code, and none of ours; a wrong line; the status that it ends with; nothing of a value that is None."""
    sandbox = make_sandbox("unconfined", tmp_path, monkeypatch)

    async def run(code):
        return (await python.execute({"code": code}, context(sandbox))).text.splitlines()

    raised = await run("def f():\n    return 1 / 0\nprint('before')\nf()")
    assert raised[:2] == ["before", "Traceback (most recent call last):"]
    assert raised[2].strip() == 'File "<code>", line 4, in <module>'
    assert raised[-2] == "ZeroDivisionError: division by zero"
    assert raised[-1].startswith("[exit code 1")
    assert "SyntaxError" in " ".join(await run("1 +"))
    assert (await run("import sys; sys.exit(3)"))[0].startswith("[exit code 3")
    assert (await run("print('a')"))[:1] == ["a"]
    assert len(await run("None")) == 1
    await sandbox.aclose()


@linux_only
@pytest.mark.check
@pytest.mark.parametrize("mode", ["unconfined", "confined"])
async def test_only_confined_code_reaches_no_network(tmp_path, monkeypatch, mode):
    """A server of this machine is not there for it, as it is not for a command of the shell; unconfined it is."""
    sandbox = make_sandbox(mode, tmp_path, monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; socket.create_connection({server.getsockname()!r}, 1).close(); 'reached'"
        result = await python.execute({"code": code}, context(sandbox))
    await sandbox.aclose()
    assert ("'reached'" in result.text.splitlines()) is (mode == "unconfined")
    assert ("Error: " in result.text) is (mode == "confined")


async def test_what_is_no_code_never_runs():
    """It says what to do in its place; all that fits is run."""
    for code, said in (
        ("'\ud800'", "lone surrogate"),
        ("'\0'", "NUL"),
        ("x" * (MAX_CODE_BYTES - 1), None),
        ("'" * (MAX_CODE_BYTES // 2), "more than 60,000 bytes"),
    ):
        sandbox = StubSandbox(result=ExecuteResult(output="", exit_code=0))
        result = await python.execute({"code": code}, context(sandbox))
        assert (said in result.text) if said else isinstance(result, Ok)
        assert len(sandbox.asked) == (said is None)


async def test_a_sandbox_that_runs_nothing_says_so():
    """The refusal is the answer; a time that is up is an error, with what was printed."""
    refusal = Refusal(code="unsupported", message="Commands are disabled.")
    for result, said in (
        (ExecuteResult(error=refusal), "Commands are disabled."),
        (ExecuteResult(output="half", timed_out=True), "half\nTimed out after 60 s."),
    ):
        answer = await python.execute({"code": "1"}, context(StubSandbox(result=result)))
        assert isinstance(answer, Error)
        assert answer.text.startswith(said)
    memory = MemorySandbox()
    assert isinstance(await python.execute({"code": "1"}, context(memory)), Error)


async def test_pictures_are_bounded():
    """By their number and their size; one that is gone is said; they are known by how they begin, and by nothing else."""

    class Printing(StubSandbox):
        async def execute(self, command, options):
            mark = command.split("'[pictures ")[1].split("]")[0]
            listed = json.dumps([[name, size] for name, size in sizes.items()])
            return ExecuteResult(output=f"said\n[pictures {mark}]{listed}\n", exit_code=0)

    for sizes, shown, note in (
        ({f"{n:02}.png": 17 for n in range(12)}, 10, "[out/11.png is not shown: at most 10 are shown]"),
        ({"a.png": 17, "b.png": 6 << 20}, 1, "[out/b.png is not shown: it has 6,291,456 bytes"),
        ({"gone.png": 17, "a.png": 17}, 1, "[out/gone.png is not shown: "),
        ({f"{n:03}.png": 17 for n in range(900)}, 10, "[880 more pictures in out are not shown]"),
        ({"a.png": 17, "b\n\x1b.png": 6 << 20}, 1, "[out/b\\n\\x1b.png is not shown: it has 6,291,456 bytes"),
    ):
        files = {f"out/{name}": PNG for name in sizes if name != "gone.png" and name.isprintable()}
        result = await python.execute({"code": "1"}, context(Printing(files)))
        assert len(result.images) == shown
        assert result.text.startswith("said\n[exit code 0")
        lines = result.text.splitlines()
        assert any(line.startswith(note) for line in lines)
        assert len(lines) < 20

    vendors = {b"\xff\xd8\xff": "image/jpeg", b"GIF89a": "image/gif", b"RIFF0000WEBP": "image/webp"}
    kinds = {PNG: "image/png", b"<svg": None, **vendors}
    assert {data: media_type_of(data) for data in kinds} == kinds


@given(
    said=st.text(max_size=20),
    listed=st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists, max_leaves=6)
    | st.just([["a.png", 1]]),
    tail=st.sampled_from(("", "\n", "\nlast words")),
)
def test_whatever_a_program_prints_in_its_place_names_nothing_outside(said, listed, tail):
    """What is no list of names and sizes is none; a name never leads out of the directory, and the rest is what was printed."""
    rest, pictures = decide_pictures(f"{said}\n[p]{json.dumps(listed)}{tail}", "[p]")
    assert rest == said + tail.removeprefix("\n")
    assert all("/" not in one.name and one.name not in {"", ".", ".."} for one in pictures)
    assert (pictures == (NewPicture("a.png", 1),)) == (listed == [["a.png", 1]])
    assert decide_pictures(said, "[pictures]") == (said, ())
    assert decide_pictures("[p][[", "[p]") == ("", ())
