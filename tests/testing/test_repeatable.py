"""One long run with faults is the same in every process; another seed, or a door left open, is another run."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from agentrail.core.protocol.effects import Refuse
from agentrail.core.protocol.signals import SignalId
from agentrail.errors import SessionDown
from agentrail.testing.digest import Digest, canonical, run_seeded
from agentrail.testing.seeded import NotRepeatable
from tests.thinned import nightly, sample

ROOT = Path(__file__).parents[2]
SEED = 20261121
LEAST = {"step": 2_000, "signal": 800, "event": 1_000, "effect": 500, "request": 80}


def start(seed, *options, **variables):
    """Begin the long run in a process of its own, with a hash seed that nobody chose."""
    hash_seed = str(random.SystemRandom().randrange(1, 2**32))
    return subprocess.Popen(
        [sys.executable, "-m", "tests.testing.long_run", str(seed), *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, **variables},
        stdout=subprocess.PIPE,
        text=True,
    )


def result_of(process):
    """Wait for a run, and give what it printed."""
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return json.loads(said)


def digests(count, *options, seed=SEED):
    """Run it so often, two at a time, one of them under another allocator; give the set of digests."""
    found = set()
    for number in range(0, count, 2):
        pair = [
            start(seed, *options, **({"PYTHONMALLOC": "malloc"} if each == 1 else {}))
            for each in range(number, min(number + 2, count))
        ]
        found |= {result_of(process)["digest"] for process in pair}
    return found


@pytest.mark.check
@pytest.mark.simulation("V-001")
def test_one_seed_is_one_run():
    """In two processes with random hash seeds, one of them under the allocator of the C library; another seed is another run."""
    begun = [start(SEED), start(SEED, PYTHONMALLOC="malloc"), start(SEED + 1)]
    one, again, other = (result_of(process) for process in begun)
    assert one == again
    assert other["digest"] != one["digest"]
    assert all(one["counts"][kind] >= least for kind, least in LEAST.items())
    assert one["faults"] > 30


@nightly
@pytest.mark.check
@pytest.mark.simulation("V-001")
def test_one_seed_is_one_run_in_twenty_processes():
    """And four seeds are four runs, each of them the same again."""
    assert len(digests(20)) == 1
    others = [digests(2, seed=seed) for seed in range(4)]
    assert {len(found) for found in others} == {1}
    assert len(set().union(*others)) == len(others)


@pytest.mark.check
@pytest.mark.parametrize(
    "door", sample(["order", "ids", "wall", "jitter", "hash"], 2)
)  # each takes four runs
def test_a_door_that_is_left_open_is_noticed(door):
    """What comes from the machine after all, or from the order of a set, makes two of four runs differ."""
    found = digests(2, "--leave-open", door)
    assert len(found) > 1 or len(found | digests(2, "--leave-open", door)) > 1


def test_lines_show_where_two_runs_part():
    """They are kept on request, and the digest is the same with and without."""

    async def main(digest):
        digest.note("word", "done")
        await trio.sleep(5)
        return 7

    kept, bare = run_seeded(main, 1, keep_lines=True), run_seeded(main, 1)
    assert (kept.digest, kept.result, kept.counts) == (bare.digest, 7, bare.counts)
    assert bare.lines == ()
    assert "word done" in kept.lines
    assert kept.lines[-1].startswith("step ")
    assert sum(kept.counts.values()) == len(kept.lines)


def test_notes_are_told_apart_and_values_are_written_alike_in_every_process():
    """Also notes that are cut in another place, or of another kind. Sets are sorted, errors are their words, and no address gets in."""

    def digest_of(*notes):
        digest = Digest()
        for kind, said in notes:
            digest.note(kind, said)
        return digest.hexdigest()

    rows = [(("a", "bc"),), (("ab", "c"),), (("a", "b"), ("a", "c")), (("a", b"bd"),), ()]
    assert len({digest_of(*row) for row in rows}) == len(rows)
    assert digest_of(("a", "bc")) == digest_of(("a", b"bc"))

    assert canonical({"b": {3, 1, 2}, "a": frozenset("xy")}) == b'{"a":["x","y"],"b":[1,2,3]}'
    refused = Refuse(to=SignalId("s"), error=SessionDown("s", "gone"))
    assert canonical(refused) == canonical(Refuse(to=SignalId("s"), error=SessionDown("s", "gone")))
    assert b"SessionDown" in canonical(refused)
    assert b"0x" not in canonical(object())


def test_under_an_unknown_trio_nothing_is_said_to_repeat(monkeypatch):
    """The run is refused: its digest would lie."""
    monkeypatch.setattr("agentrail.testing.digest.why_not_repeatable", lambda: "not repeatable: so it is")

    async def main(_digest):
        pytest.fail("it ran")

    with pytest.raises(NotRepeatable, match="not repeatable: so it is"):
        run_seeded(main, 1)
