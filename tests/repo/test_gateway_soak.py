"""The soak of the gateway runs, and notices what it is there for: its account is held against servers that lie."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from agentrail.abc.store import Filters
from agentrail.stores.sqlite import SqliteStore
from benchmarks.gateway_soak.account import MAX_FAULTS, Faults, ReaderPlace, SeenEvents, SessionAccount
from benchmarks.gateway_soak.alerts import faults_of_alerts
from benchmarks.gateway_soak.client import SseFrames
from benchmarks.gateway_soak.process import DeskFigures, decide_drift, decide_drift_faults
from tests.thinned import nightly

ROOT = Path(__file__).parents[2]


def said(*texts, role="user"):
    """Messages of a conversation, as the server shows them."""
    return [{"role": role, "content": [{"kind": "text", "text": text}]} for text in texts]


def account_of(*names, acknowledged=True, may_drop=False, seq=None):
    """A session that was sent these messages, and whose two events were seen."""
    account = SessionAccount("s-1")
    for name in names:
        message = account.send(name, may_drop=may_drop)
        message.is_acknowledged, message.seq = acknowledged, seq
    for number, kind in enumerate(("session_start", "prompt_received"), 1):
        assert account.events.see(number, kind, kind.encode()) is None
    return account


@pytest.mark.parametrize(
    ("fired", "is_calm", "faults"),
    [
        ([], True, []),
        (["AgentrailPluginFailing"], True, ["AgentrailPluginFailing fired"]),
        (["AgentrailPluginFailing"], False, []),
        (["AgentrailPluginFailing", "AgentrailCyclesFailing"], False, []),
        (["AgentrailPluginFailing", "AgentrailLoopHeld"], False, ["AgentrailLoopHeld fired"]),
        (["AgentrailCyclesFailing"], False, ["AgentrailPluginFailing did not fire"]),
    ],
)
def test_a_soak_knows_the_alerts_of_its_faults(fired, is_calm, faults):
    """All others must stay silent, and a calm one has none."""
    found = faults_of_alerts(fired, is_calm=is_calm)
    assert [one.startswith(fault) for one, fault in zip(found, faults, strict=True)] == [True] * len(faults)


def test_a_session_that_kept_all_has_no_faults():
    """Each message stands in the conversation once, and its receipt names the event that says so."""
    account = account_of("m-1", "m-2", seq=2)
    assert account.faults(said("m-1 tool", "m-2 ") + said("re m-1", role="assistant"), 2, 2) == []
    # What was not acknowledged, or was taken back, may be missing.
    assert account_of("m-1", acknowledged=False).faults([], 2, 2) == []
    assert account_of("m-1", may_drop=True).faults([], 2, 2) == []


@pytest.mark.parametrize(
    ("account", "history", "last_seq", "read", "fault"),
    [
        (account_of("m-1"), [], 2, 2, "message m-1 was acknowledged, and is lost"),
        (account_of("m-1"), said("m-1", "m-1"), 2, 2, "message m-1 stands in the history 2 times"),
        (
            account_of("m-1", acknowledged=False),
            said("m-1", "m-1"),
            2,
            2,
            "m-1 stands in the history 2 times",
        ),
        (account_of(), said("m-9"), 2, 2, "message m-9 was never sent"),
        (account_of("m-1", seq=1), said("m-1"), 2, 2, "acknowledged with event 1, which is session_start"),
        (account_of("m-1", seq=7), said("m-1"), 2, 2, "acknowledged with event 7, which is None"),
        (account_of(), [], 5, 2, "who reads all has 2 events, the server says 5"),
        (account_of(), [], 4, 4, "events [3, 4] were given to no reader"),
    ],
)
def test_each_promise_that_is_broken_is_a_fault(account, history, last_seq, read, fault):
    """In words that say which session, which message and what."""
    (told,) = account.faults(history, last_seq, read)
    assert told.startswith("session s-1: ")
    assert fault in told


def test_a_reader_notices_gaps_and_doubles():
    """Whatever number comes: the next one, or it is said which; the same number says the same behind a restart."""
    place = ReaderPlace()
    assert [place.take(number) for number in (1, 2)] == [None, None]
    assert place.take(4) == "a gap: event 4 came behind 2"
    assert place.take(4) == "a double: event 4 came behind 4"
    assert place.take(3) == "a double: event 3 came behind 4"
    assert place.take(4) is None

    seen = SeenEvents()
    assert seen.see(7, "agent_end", b"{}") is None
    assert seen.see(7, "agent_end", b"{}") is None
    assert "event 7 was agent_end, and is session_recovered now" in (
        seen.see(7, "session_recovered", b"[]") or ""
    )


def figures(**grown):
    quiet = {"rss_kb": 90_000, "descriptors": 20, "threads": 8}
    return DeskFigures(**{name: value + grown.get(name, 0) for name, value in quiet.items()})


def test_what_grows_in_each_life_of_the_server_is_found():
    """A little with each sample is a leak, though each life begins anew; caches fill, and one odd or short life says nothing."""
    for name, each in (("rss_kb", 2_000), ("descriptors", 2), ("threads", 1)):
        lives = [[figures(**{name: number * each}) for number in range(30)] for _ in range(5)]
        (fault,) = decide_drift_faults(lives)
        assert fault.startswith(f"{name} grew by ")

    warming = [[figures(rss_kb=min(number, 10) * 5_000) for number in range(30)] for _ in range(5)]
    odd = [*warming, [figures(rss_kb=number * 9_000) for number in range(30)]]
    short = [[figures(rss_kb=number * 90_000) for number in range(5)]]
    assert decide_drift_faults(odd) == decide_drift_faults(short) == decide_drift_faults([]) == []
    assert decide_drift(short) == {}


def test_only_the_first_faults_are_told(capsys):
    """What is broken once is broken a thousand times."""
    faults = Faults()
    for number in range(1_000):
        faults.add(f"fault {number}")
    assert faults.count == 1_000
    assert len(faults.told) == len(capsys.readouterr().out.splitlines()) == MAX_FAULTS


@pytest.mark.parametrize("size", [1, 7, 1_000])
async def test_frames_are_read_in_pieces_of_any_size(size):
    """Chunks are taken apart wherever the network cuts them."""
    frames = b"retry: 1000\n\nevent: a\ndata: {}\nid: 1\n\n", b":\n\nevent: done\ndata: {}\n\n"
    body = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in frames) + b"0\r\n\r\n"

    class Wire:
        def __init__(self):
            self.left = body

        async def receive_some(self, _most):
            piece, self.left = self.left[:size], self.left[size:]
            return piece

    found = [(frame.event, frame.number) async for frame in SseFrames(Wire())]
    assert found == [("a", 1), ("done", None)]


def soak(broken, *arguments):
    command = [sys.executable, "-m", "benchmarks.gateway_soak", "--users", "8", "--sessions", "24"]
    command += ["--pause", "0.3", "--seconds", "3", "--seed", "7", *arguments]
    environ = {**os.environ, "SOAK_BREAK": broken}
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)


@nightly  # CI kills processes in tests/stores and tests/runtime
@pytest.mark.check
def test_a_short_soak_keeps_all(tmp_path):
    """`python -m benchmarks.gateway_soak` kills its server, prints what it counted, copies the journals, and ends with 0."""
    ran = soak("", "--kill-every", "1.5", "--keep", str(tmp_path))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.startswith("seed 7, 3 s, 8 users, 24 sessions")
    assert "'kills': " in ran.stdout
    assert ran.stdout.splitlines()[-1] == "kept"
    with closing(SqliteStore(tmp_path / "journals.db")) as store:
        assert store.find(Filters(), limit=100)


@nightly
@pytest.mark.check
def test_a_server_that_acknowledges_before_its_disk_has_it_is_caught():
    """Behind the first kill there are faults, and the exit status is 1."""
    ran = soak("early", "--kill-every", "2")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "FAULT" in ran.stdout
