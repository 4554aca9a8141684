"""What reading skills takes at start: their heads are read, all files are hashed; beside a loop that only reads the bytes."""

import os
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Final

from agentrail.blueprints.skill_discovery import read_skills
from benchmarks.bars import target_of
from benchmarks.explain import explain_in_a_folder
from benchmarks.measure import Effort, Row, Sample, interleave
from benchmarks.ours import expect

_SKILLS: Final = 200
_MILLISECONDS: Final = 1e3


def skills(effort: Effort) -> list[Row]:
    """Two hundred skills, none of which this process has read since it changed."""
    number = effort.of(_SKILLS)
    times = count(1_700_000_000)
    fill, read = partial(_put_all, number=number), partial(_read, number=number, times=times)
    with TemporaryDirectory() as folder:
        fill(folder)
        rounds = interleave(
            partial(_only_bytes, folder),
            partial(read, folder),
            effort.rounds,
            explain=partial(explain_in_a_folder, fill, read),
        )
    what = f"{number} skills are read; bare: the bytes of their files"
    return [
        rounds.row("skills", "seconds", what, unit="ms", factor=_MILLISECONDS, target=target_of("skills"))
    ]


def _read(folder: str, *, number: int, times: Iterator[int]) -> Sample:
    now = next(times)
    for file in _files(folder):  # so that nothing of before counts
        os.utime(file, (now, now))
    began_at = process_time()
    found = read_skills(Path(folder))
    took = process_time() - began_at
    expect("skills that are read", len(found.skills), number)
    return {"seconds": took}


def _only_bytes(folder: str) -> Sample:
    files = _files(folder)
    began_at = process_time()
    for file in files:
        file.read_bytes()
    return {"seconds": process_time() - began_at}


def _files(folder: str) -> list[Path]:
    return sorted(one for one in Path(folder).rglob("*") if one.is_file())


def _put_all(folder: str, *, number: int) -> None:
    for at in range(number):
        _put(Path(folder) / f"skill-{at}", at)


def _put(directory: Path, at: int) -> None:
    directory.mkdir()
    head = f"name: skill-{at}\ndescription: >\n  What number {at} is for,\n  in two lines.\nallowed-tools: Bash(git:*) Read\n"
    more = "license: MIT\nmetadata:\n  author: ada\n  version: '1.0'\n"
    (directory / "SKILL.md").write_text(
        f"---\n{head}{more}---\n\n# Steps\n\n" + "Do this, then that.\n" * 100
    )
    (directory / "more.md").write_text("More of it.\n" * 50)
