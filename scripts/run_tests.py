"""Runs pytest, and gives a test that failed beside others one more try, alone: `python -m scripts.run_tests ARGUMENTS…`.

Seventeen thousand tests share two cores with browsers, servers and processes that are killed. One that waits too short a time for a
process that got no turn says nothing about a change. So up to `MOST` that fail are run once more, one at a time, and each that then
passes is named as unsteady: that is a fault of the test or a race in what it tests, to be looked into, and no reason to throw the whole run away.
What fails alone too is red, and so is a run in which more fail. Ten, because a machine that stands still for a second or two takes along
all that its workers are at, and what they begin meanwhile: four it was once, all in browsers. An example that Hypothesis found is kept, and tried first.
"""

import itertools
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

MOST: Final = 10
_TESTS_FAILED: Final = 1  # pytest's exit code
CACHE: Final = ".pytest_cache"


def run_tests(arguments: Sequence[str], python: str = sys.executable) -> int:
    """Run pytest with these arguments in the working directory; gives the exit code of the run, or of its second try."""
    last_failed = last_failed_of(arguments)
    last_failed.unlink(missing_ok=True)  # of another run
    code = _pytest(python, arguments)
    failed = _failed(last_failed)
    if code != _TESTS_FAILED or not 0 < len(failed) <= MOST:
        return code
    print(f"\n==> {len(failed)} failed beside others; once more, alone", flush=True)
    code = _pytest(python, ("-p", "no:randomly", *alone(arguments), *failed))
    still = _failed(last_failed)
    for test in failed:
        print(f"==> {'failed twice' if test in still else 'UNSTEADY, passed alone'}: {test}", flush=True)
    return code


def alone(arguments: Sequence[str]) -> list[str]:
    """Give the options of a run without those that choose tests, count lines, list what was skipped or share the work."""
    kept: list[str] = []
    given = iter(arguments)
    for argument in given:
        if argument in ("-n", "-m", "-k"):
            next(given, None)
        elif argument in ("-p", "-o", "-W"):
            kept += [argument, *itertools.islice(given, 1)]
        elif argument.startswith("-") and not argument.startswith(("--cov", "--ignore", "--skipped-to")):
            kept.append(argument)
    return kept


def _pytest(python: str, arguments: Sequence[str]) -> int:
    running = subprocess.Popen([python, "-m", "pytest", *arguments])  # noqa: S603 - pytest, on tests of ours
    while True:
        try:
            return running.wait()
        except KeyboardInterrupt:
            continue  # a Ctrl-C at the terminal reaches pytest too, which says how far it came


def last_failed_of(arguments: Sequence[str]) -> Path:
    """Return the file in which pytest keeps what failed. Two runs at the same time have a `-o cache_dir=…` each."""
    given = [one.partition("=")[2] for one in arguments if one.startswith("cache_dir=")]
    return Path(given[-1] if given else CACHE, "v", "cache", "lastfailed")


def _failed(last_failed: Path) -> list[str]:
    if not last_failed.exists():  # pytest removes it when nothing failed
        return []
    return sorted(json.loads(last_failed.read_text(encoding="utf-8")))


if __name__ == "__main__":
    raise SystemExit(run_tests(sys.argv[1:]))
