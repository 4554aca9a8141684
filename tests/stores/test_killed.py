"""The loop that kills a process which writes journals: what it was told is there, and a store that lies is found out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.crash_account import (
    Account,
    Asked,
    Asks,
    Dropped,
    Drops,
    Durable,
    Failed,
    Found,
    Lost,
    Ran,
    Remembers,
    Takes,
    Took,
    Tries,
)
from tests.thinned import IS_NIGHTLY, nightly, sample

ROOT = Path(__file__).parents[2]

MOST_SECONDS = 12 if IS_NIGHTLY else 4


def run_loop(*options, folder):
    """Run it; its exit code, and what it says. It keeps a store that has lost something, in this folder."""
    command = [sys.executable, "-m", "scripts.crash", "--seed", "7", *options]
    environ = {**os.environ, "TMPDIR": str(folder)}
    ended = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=110, check=False
    )
    return ended.returncode, ended.stdout + ended.stderr


BUSY = ("--rounds", "25", "--seconds", "60")


@pytest.mark.parametrize(
    "options",
    [
        ("--rounds", "5", "--seconds", "60", "--delay", "0.3"),
        # In CI a store alone and one under slow sessions: a process that computes beside them makes no other promise.
        *(
            pytest.param(options, marks=pytest.mark.check)
            for options in sample(
                [
                    ("--rounds", "200", "--seconds", str(MOST_SECONDS), "--delay", "0.02"),
                    ("--sessions", "--rounds", "30", "--seconds", str(2 * MOST_SECONDS), "--delay", "0.3"),
                    (*BUSY, "--busy", "4", "--delay", "0.06"),
                    (*BUSY, "--sessions", "--slow", "--delay", "0.3"),
                    (*BUSY, "--sessions", "--changed", "--delay", "0.3"),
                    (*BUSY, "--sessions", "--busy", "4", "--delay", "0.6"),
                ],
                2,
            )
        ),
    ],
    ids=" ".join,
)
def test_nothing_that_was_acknowledged_is_lost_when_a_process_is_killed(tmp_path, options):
    """Each record is there, whole, once, and was attempted; of sessions each prompt with a receipt is there once, and what is `once` ran once."""
    code, said = run_loop(*options, folder=tmp_path)
    assert code == 0, said
    assert "nothing was lost" in said
    assert options[:4] == BUSY or " 0 acknowledged" not in said.splitlines()[-1]


@pytest.mark.check
@pytest.mark.parametrize(
    ("options", "store", "fault"),
    [
        # Found by luck, after up to a minute; the receipts of a session tell of the same lie at once.
        pytest.param(("--rounds", "300"), "open_late_promise", "acknowledged, with records", marks=nightly),
        (("--rounds", "300"), "open_halves", "attempted, with records"),
        (("--rounds", "60", "--sessions", "--delay", "0.3"), "open_late_promise", ""),
    ],
)
def test_a_store_that_does_not_keep_its_word_is_found_out(tmp_path, options, store, fault):
    """One that says `durable` too early, also of a receipt, and one that writes an append in parts."""
    code, said = run_loop(*options, "--store", f"tests.stores.lying:{store}", folder=tmp_path)
    assert code == 1, said
    assert fault in said
    assert "of seed 7" in said


def line(seq, epoch=1):
    return seq, epoch, b"%d.%d" % (seq, epoch)


def found(*lines, session="s", **rest):
    title = str(max((seq for seq, epoch, _ in lines if epoch == 1), default=0))
    none = {"takers": {}, "operations": {}, "broken": 0, "lacks": ()}
    plain = {"root": session, "first": 1, "title": title, **none}
    return Found(session=session, lines=lines, **{**plain, **rest})


def account(*frames):
    """What is known when these were heard, behind an opening and an append that are durable."""
    known = Account()
    for frame in (Tries(1, "s", (line(1),)), Tries(2, "s", (line(2), line(3))), Durable((1, 2)), *frames):
        known.hear(frame)
    return known


HERE = [line(1), line(2), line(3)]


@pytest.mark.parametrize(
    ("frames", "there"),
    [
        ((), [found(*HERE)]),
        ((Tries(3, "s", (line(4),)),), [found(*HERE)]),
        ((Tries(3, "s", (line(4),)),), [found(*HERE, line(4))]),
        ((Tries(3, "t", (line(1),)),), [found(*HERE)]),
        ((Takes("n", "s"),), [found(*HERE)]),
        ((Takes("n", "s"),), [found(*HERE, line(4, 2), takers={4: "n"})]),
        ((Drops("s", "s", 3),), [found(*HERE)]),
        ((Drops("s", "s", 3),), [found(line(3), first=3)]),
        ((Drops("s", "s"),), [found(*HERE)]),
        ((Drops("s", "s"), Dropped("s")), []),
        ((Ran("s", "op", "idempotent"), Ran("s", "op", "idempotent")), [found(*HERE, operations={"op": 1})]),
    ],
    ids=lambda value: None,
)
def test_what_may_be_is_fine(frames, there):
    """What was tried and not acknowledged is there or not, and whole."""
    account(*frames).check(there)


@pytest.mark.parametrize(
    ("frames", "there", "fault"),
    [
        ((), [], "is not there, and its group 1 was acknowledged"),
        ((), [found(*HERE[:2])], "group 2, acknowledged, .* only 1 of 2"),
        ((), [found(*HERE[:1])], "group 2, acknowledged, .* only 0 of 2"),
        ((Tries(3, "s", (line(4), line(5))),), [found(*HERE, line(4))], "group 3, attempted, .* only 1 of 2"),
        ((), [found(line(1), line(3))], "has gaps"),
        ((), [found()], "has gaps"),
        ((), [found(*HERE, broken=2)], "the hash of record 2"),
        ((), [found(*HERE, line(4))], "never attempted: 4"),
        ((), [found(*HERE, line(4, 2), takers={4: "n"})], "taken by nodes that never tried to: n"),
        ((Tries(3, "s", (line(4, 0),)),), [found(*HERE, line(4, 0))], "an epoch falls"),
        ((Takes("n", "s"), Took("s", line(4, 2))), [found(*HERE)], "the takeover at 4 was acknowledged"),
        ((), [found(*HERE, title="1")], "stands as behind '1', and its last append ends at 3"),
        ((), [found(*HERE, lacks=("d",))], "lacks values that its records name: d"),
        ((), [found(line(2), line(3), first=2)], "begins at 2"),
        ((Drops("s", "s", 3), Dropped("s", 3)), [found(*HERE)], "was trimmed to 3"),
        ((Drops("s", "s"), Dropped("s")), [found(*HERE)], "that were deleted are there: s"),
        ((Drops("s", "r"), Drops("r", "r")), [found(*HERE)], "without the others of their tree"),
        ((Ran("s", "op", "once"),), [found(*HERE)], "no durable record names it"),
        ((), [found(*HERE, operations={"op": 2})], "two outcomes of operations: op"),
    ],
)
def test_what_may_not_be_is_said(frames, there, fault):
    """Each promise by its own words."""
    known = account(*frames)
    with pytest.raises(Lost, match=fault):
        known.check(there)


def test_what_one_process_did_counts_for_the_next():
    """An epoch never falls, a tool that is `once` runs once, and a process that ends by itself is a fault."""
    known = account(Takes("n", "s"))
    known.check([found(*HERE, line(4, 2), takers={4: "n"})])
    with pytest.raises(Lost, match="or below 2"):
        known.check([found(*HERE)])
    known = account(Ran("s", "op", "once"))
    with pytest.raises(Lost, match="is `once` and ran 2 times"):
        known.hear(Ran("s", "op", "once"))
    with pytest.raises(Lost, match="why it ended"):
        known.hear(Failed("why it ended"))


@pytest.mark.parametrize(
    ("remembered", "fault"),
    [
        ({"s": ()}, "have a receipt and are not there: p1"),
        ({"s": ("p1", "p1")}, "more than once: p1"),
        ({"s": ("p1",), "t": ("p1",)}, "more than once: p1"),
        ({"s": ("p1", "p3")}, "never given: p3"),
        ({"t": ("p1",)}, "has prompts of another: p1"),
    ],
)
def test_prompts_are_there_once_and_where_they_belong(remembered, fault):
    """What has a receipt is there, what has none may be, and nothing else is."""
    frames = (Asks("s", "p1"), Asked("s", "p1"), Asks("s", "p2"))
    for texts in (("p1",), ("p1", "p2")):
        account(*frames, Remembers("s", texts)).check_conversations()
    known = account(*frames, *(Remembers(name, texts) for name, texts in remembered.items()))
    with pytest.raises(Lost, match=fault):
        known.check_conversations()
