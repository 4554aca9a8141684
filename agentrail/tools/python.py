"""The tool `python`: runs code in a separate sandboxed process, confined like a `shell` command, and returns its pictures."""

import base64
import hashlib
import json
import shlex
from pathlib import PurePosixPath
from typing import Annotated, Any, Final

import msgspec
from attrs import evolve, frozen

from agentrail.abc import (
    MAX_IMAGE_BYTES,
    MAX_RESULT_IMAGES,
    Error,
    ExecuteOptions,
    Ok,
    Sandbox,
    ToolContext,
    ToolListing,
)
from agentrail.messages import Image, JsonObject
from agentrail.tools.function import tool
from agentrail.tools.shell import MAX_COMMAND_SECONDS, render_result
from agentrail.tools.tool_text import printable

MAX_CODE_BYTES: Final = 60_000
"""Size limit: Linux accepts 128 KiB per argument, and quoting may double the size."""

PICTURES: Final = "out"
"""The directory whose new pictures are returned."""

# Source code that runs in the sandbox, where agentrail may not be installed. It detects new pictures by size
# and time, and lists them in its last line, after a mark that the code cannot produce by chance.
RUNNER: Final = r"""
import os, sys
sys.path[:] = [place for place in sys.path if place]  # a json.py of the workspace is none of ours
import ast, json, linecache, traceback

here = os.getcwd()

def pictures():
    found = {}
    try:
        for one in os.scandir(os.path.join(here, "out")):
            if one.name.lower().endswith((".png", ".jpg", ".jpeg", ".gif", ".webp")) and one.is_file(follow_symlinks=False):
                status = one.stat(follow_symlinks=False)
                found[one.name] = [status.st_mtime_ns, status.st_size]
    except OSError:
        pass
    return found

def run(code):
    name = "<code>"
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    own = {"__name__": "__main__", "__builtins__": __builtins__}
    try:
        tree = ast.parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec", dont_inherit=True), own)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval", dont_inherit=True), own)
            if value is not None:
                print(repr(value))
    except SystemExit:
        raise
    except BaseException as error:
        behind = error.__traceback__.tb_next if not isinstance(error, SyntaxError) else None
        sys.stdout.flush()
        traceback.print_exception(type(error), error, behind)
        sys.exit(1)

mark, code = sys.argv[1], sys.argv[2]
sys.argv[:] = ["<code>"]
sys.path.insert(0, here)
os.environ.setdefault("MPLBACKEND", "Agg")
before = pictures()
try:
    run(code)
finally:
    new = {name: stamp for name, stamp in pictures().items() if before.get(name) != stamp}
    sys.stdout.flush(), sys.stderr.flush()
    if new:
        print("\n" + mark + json.dumps([[name, new[name][1]] for name in sorted(new)]), flush=True)
"""

_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_DESCRIPTION: Final = (
    "Run Python code in a process of its own, in the working directory: its files can be read, written and imported. Returns its output, and the value of the last line if that is an expression. Pictures (png, jpeg, gif, webp) that it writes to out/ are shown to "
    "you. Only files are kept for the next call."
)
_UNCONFINED: Final = "It is not confined here: it runs with all rights of the user."


def _describe(listing: ToolListing) -> str:
    return f"{_DESCRIPTION} {_UNCONFINED}" if listing.is_unconfined else _DESCRIPTION


def _label(arguments: JsonObject) -> str:
    lines = str(arguments.get("code", "")).strip().splitlines()
    return f"python, {len(lines)} lines" if len(lines) > 1 else f"python: {''.join(lines)[:80]}"


@tool(timeout_seconds=MAX_COMMAND_SECONDS + 5, label=_label, description=_describe)
async def python(
    code: Annotated[
        str,
        msgspec.Meta(
            min_length=1, max_length=MAX_CODE_BYTES, description="A whole program, or an expression."
        ),
    ],
    timeout_seconds: Annotated[
        float,
        msgspec.Meta(ge=1, le=MAX_COMMAND_SECONDS),
        "It is stopped after this time, with all processes it started.",
    ] = 60,
    *,
    ctx: ToolContext,
) -> Ok | Error:
    """Run Python code in the sandbox, and return what it printed and the pictures that it made."""
    fault = _fault_of(code)
    if fault is not None:
        return Error(text=fault)
    mark = f"[pictures {hashlib.sha256(ctx.operation_id.encode()).hexdigest()[:16]}]"
    options = ExecuteOptions(timeout_seconds=timeout_seconds, output_name=ctx.call_id)
    result = await ctx.sandbox.execute(decide_python_command(code, mark), options)
    if result.error is not None:
        return Error(text=result.error.message)
    output, made = decide_pictures(result.output, mark)
    answer = render_result(evolve(result, output=output), within_seconds=timeout_seconds)
    if isinstance(answer, Error) or not made:
        return answer
    images, notes = await _load(ctx.sandbox, made)
    return Ok(text="\n".join([answer.text, *notes]), images=images)


def _fault_of(code: str) -> str | None:
    try:
        data = code.encode()
    except UnicodeEncodeError:
        return "The code contains a lone surrogate, which no file can hold: write it as an escape, '\\ud800'."
    if b"\0" in data:
        return "The code contains a NUL: write it as an escape, '\\0'."
    if len(shlex.quote(code).encode()) > MAX_CODE_BYTES:
        return f"The code has more than {MAX_CODE_BYTES:,} bytes: write it to a file, and import that here."
    return None


def decide_python_command(code: str, mark: str) -> str:
    """Return the command that runs the code. Without Python, it prints an error."""
    call = f"-u -c {shlex.quote(RUNNER)} {shlex.quote(mark)} {shlex.quote(code)}"
    return (
        f"if command -v python3 >/dev/null 2>&1; then exec python3 {call}; "
        'else echo "No Python is installed here: python3 was not found. Use another tool."; exit 127; fi'
    )


@frozen
class NewPicture:
    name: str
    size_bytes: int


def decide_pictures(output: str, mark: str) -> tuple[str, tuple[NewPicture, ...]]:
    """Remove the line with the new pictures from the output. A program that forges it only gets what it may read anyway."""
    at = output.rfind(mark)
    if at < 0:
        return output, ()
    line, _, behind = output[at + len(mark) :].partition("\n")
    rest = output[:at].removesuffix("\n") + behind
    try:
        listed: Any = json.loads(line)
    except (ValueError, RecursionError):  # truncated, or written by the program
        return rest, ()
    found = [one for one in listed if isinstance(one, list) and len(one) == len(("name", "size"))] if isinstance(listed, list) else []  # fmt: skip
    return rest, tuple(
        NewPicture(name, size)
        for name, size in found
        if isinstance(name, str) and isinstance(size, int) and PurePosixPath(name).name == name
    )


async def _load(sandbox: Sandbox, made: tuple[NewPicture, ...]) -> tuple[tuple[Image, ...], tuple[str, ...]]:
    """Read the pictures, with a note on those that are not shown."""
    shown = [one for one in made if one.size_bytes <= MAX_IMAGE_BYTES][:MAX_RESULT_IMAGES]
    images: list[Image] = []
    hidden = [one for one in made if one not in shown]
    named = hidden[:MAX_RESULT_IMAGES]
    notes = [f"[{PICTURES}/{printable(one.name)} is not shown: {_why_not(one)}]" for one in named]
    if len(hidden) > len(named):
        notes.append(f"[{len(hidden) - len(named):,} more pictures in {PICTURES} are not shown]")
    for transfer in await sandbox.download([f"{PICTURES}/{one.name}" for one in shown]):
        data = transfer.content
        media_type = None if data is None else media_type_of(data)
        if data is None or media_type is None or len(data) > MAX_IMAGE_BYTES:
            why = "it is not a picture" if transfer.error is None else transfer.error.message
            notes.append(f"[{printable(transfer.path)} is not shown: {why}]")
            continue
        text = base64.b64encode(data).decode()
        images.append(Image(media_type=media_type, data=text, name=PurePosixPath(transfer.path).name))
    return tuple(images), tuple(notes)


def _why_not(picture: NewPicture) -> str:
    if picture.size_bytes > MAX_IMAGE_BYTES:
        return f"it has {picture.size_bytes:,} bytes, at most {MAX_IMAGE_BYTES:,} are allowed"
    return f"at most {MAX_RESULT_IMAGES} are shown"


def media_type_of(data: bytes) -> str | None:
    """Return the type of a picture from its first bytes. None if it is not a picture."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for begin, kind in _SIGNATURES if data.startswith(begin)), None)
