"""What reading skills takes at start: their heads are read, all files are hashed; beside a loop that only reads the bytes."""

import os
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Final

from agentrail.blueprints.skills import read_skills
from benchmarks.bars import target_of
from benchmarks.measure import Effort, Row, Sample, interleave
from benchmarks.ours import expect

_SKILLS: Final = 200
_MILLISECONDS: Final = 1e3


def skills(effort: Effort) -> list[Row]:
    """Two hundred skills, none of which this process has read since it changed."""
    number = effort.of(_SKILLS)
    times = count(1_700_000_000)
    with TemporaryDirectory() as folder:
        place = Path(folder)
        for at in range(number):
            _put(place / f"skill-{at}", at)
        files = sorted(one for one in place.rglob("*") if one.is_file())

        def read() -> Sample:
            now = next(times)
            for file in files:  # so that nothing of before counts
                os.utime(file, (now, now))
            began_at = process_time()
            found = read_skills(place)
            took = process_time() - began_at
            expect("skills that are read", len(found.skills), number)
            return {"seconds": took}

        def only_bytes() -> Sample:
            began_at = process_time()
            for file in files:
                file.read_bytes()
            return {"seconds": process_time() - began_at}

        rounds = interleave(only_bytes, read, effort.rounds)
    what = f"{number} skills are read; bare: the bytes of their files"
    return [
        rounds.row("skills", "seconds", what, unit="ms", factor=_MILLISECONDS, target=target_of("skills"))
    ]


def _put(directory: Path, at: int) -> None:
    directory.mkdir()
    head = f"name: skill-{at}\ndescription: >\n  What number {at} is for,\n  in two lines.\nallowed-tools: Bash(git:*) Read\n"
    more = "license: MIT\nmetadata:\n  author: somebody\n  version: '1.0'\n"
    (directory / "SKILL.md").write_text(
        f"---\n{head}{more}---\n\n# Steps\n\n" + "Do this, then that.\n" * 100
    )
    (directory / "more.md").write_text("More of it.\n" * 50)
