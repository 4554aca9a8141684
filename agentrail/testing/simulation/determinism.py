"""`check_deterministic(scenario)`: plays seeds in two processes each, with other hash seeds and another allocator, and finds what differs.

What differs comes from the machine after all: a clock, a random number, a thread, the order of a set, an address.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from itertools import zip_longest
from pathlib import Path
from traceback import walk_stack
from typing import Any, Final

import trio
from attrs import frozen

from agentrail.search_path import LEFT_OUT
from agentrail.testing.digest import Digest

_PROCESSES: Final = ({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "4242424242", "PYTHONMALLOC": "malloc"})
# Not `-m`, with which runpy warns of a module that its package has imported. Scans took half of a short life.
_PROGRAM: Final = """import gc, sys; gc.set_threshold(10_000, 100, 50)
from agentrail.testing.simulation.determinism import _main; _main(*sys.argv[1:]); gc.freeze()"""
_MAX_FRAMES: Final = 4
_SHOWN: Final = 400
_OURS: Final = ("agentrail/testing/", "/trio/")
"""Code that is on every stack, and never the reason."""


@frozen
class LineDifference:
    """The first line in which two lives of one seed differ.

    Attributes:
        line: Its number, from 1.
        one: The line of the first process, and where the code was. Empty if that life had ended.
        other: The same of the second.
    """

    seed: object
    line: int
    one: str
    other: str

    def __str__(self) -> str:
        return f"seed {self.seed} is not repeatable: two lives differ in line {self.line}\n  {self.one}\n  {self.other}"


class TracedDigest(Digest):
    """A digest that also keeps, for each line, where the code was that made it."""

    def __init__(self) -> None:
        super().__init__(keep_lines=True)
        self._task: trio.lowlevel.Task | None = None

    def note(self, kind: str, said: bytes | str) -> None:
        super().note(kind, said)
        frames = (
            [frame for frame, _ in self._task.iter_await_frames()]
            if kind == "step" and self._task is not None
            else [frame for frame, _ in walk_stack(None)][::-1]
        )
        shown = [
            f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
            for frame in frames
            if not any(folder in frame.f_code.co_filename for folder in _OURS)
        ]
        self.lines[-1] += "".join(f"\n      in {one}" for one in shown[-_MAX_FRAMES:])

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._task = task
        super().before_task_step(task)


def check_deterministic(
    scenario: Callable[..., Any], seeds: int = 20, *, first_seed: int = 0, **options: Any
) -> LineDifference | None:
    """Play seeds, each in two processes, and return the first difference. None: each seed is one life.

    Args:
        scenario: A function of a module that other processes can import.
        seeds: Number of seeds.
        first_seed: The first one.
        options: Those of `run`, of JSON.

    Raises:
        ValueError: Your move: the scenario is not defined at the top of a module.
        RuntimeError: A life raised an exception; its traceback is in the message.
    """
    name = f"{scenario.__module__}:{scenario.__qualname__}"
    if scenario.__module__ == "__main__" or "<" in scenario.__qualname__:
        message = f"{name} cannot be imported by another process: define it at the top of a module"
        raise ValueError(message)
    for seed in range(first_seed, first_seed + seeds):
        found = compare_lives(name, seed, options)
        if found is not None:
            return found
    return None


def compare_lives(name: str, seed: object, options: Any, folder: str = ".") -> LineDifference | None:
    """Play one seed in two processes. `name` is that of the scenario, in a folder: see `find_scenario`."""
    options = {**options, "folder": folder}
    one, other = _play(name, seed, [options, options])
    if one == other:
        return None
    with tempfile.TemporaryDirectory() as kept:
        files = [Path(kept, f"{number}") for number in range(len(_PROCESSES))]
        _play(name, seed, [{**options, "lines": str(file)} for file in files])
        lives = [json.loads(file.read_text()) for file in files]
    for number, (left, right) in enumerate(zip_longest(*lives, fillvalue=""), 1):
        if left != right:
            return LineDifference(seed, number, *_cut(left, right))
    said = "the digests differ; with the places of the code kept, the lines do not"
    return LineDifference(seed, 0, said, said)


def _cut(one: str, other: str) -> Iterator[str]:
    """Return the places of two lines whole, and what they say from where it differs."""
    same = next((at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), 0)
    for line in (one, other):
        said, *places = line.split("\n", 1)
        start = max(0, min(same, len(said)) - _SHOWN // 2)
        yield "\n".join((f"{'…' * bool(start)}{said[start : start + _SHOWN]}", *places))


def _play(name: str, seed: object, options: Sequence[Any]) -> list[bytes]:
    """Play one seed in two processes, and return what each prints."""
    begun = [_start(name, seed, own, given) for own, given in zip(options, _PROCESSES, strict=True)]
    try:
        return [_end(process) for process in begun]
    finally:
        for process in begun:  # after Ctrl-C, or where the first one failed
            with process:
                process.kill()


def _start(name: str, seed: object, options: Any, variables: dict[str, str]) -> "subprocess.Popen[bytes]":
    given = json.dumps([seed, options, LEFT_OUT])
    return subprocess.Popen(  # noqa: S603 - this Python, and a module of ours
        [sys.executable, "-P", "-c", _PROGRAM, name, given],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _end(process: "subprocess.Popen[bytes]") -> bytes:
    told, trouble = process.communicate()
    if process.returncode:
        raise RuntimeError(trouble.decode(errors="replace"))
    return told


def _main(name: str, given: str) -> None:
    """Play one life in this process, and print its digest."""
    from agentrail.testing.simulation.life import run  # noqa: PLC0415 - only for this program
    from agentrail.testing.simulation.worlds import find_scenario  # noqa: PLC0415 - only for this program

    seed, options, left_out = json.loads(given)
    LEFT_OUT.extend(left_out)
    lines, folder = options.pop("lines", None), options.pop("folder")
    digest = Digest() if lines is None else TracedDigest()
    with digest.listening(), redirect_stdout(sys.stderr):  # stdout is for the digest
        run(find_scenario(name, folder), seed, digest=digest, **options)
    if lines is not None:
        Path(lines).write_text(json.dumps(digest.lines))
    sys.stdout.write(digest.hexdigest())
