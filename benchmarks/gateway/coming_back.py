"""The workloads of readers with whom not all is well: a thousand that are cut at once and come back, and one of a thousand that does not read."""

import time
from functools import partial
from typing import Any

from benchmarks.bars import target_of
from benchmarks.explain import Explanation
from benchmarks.gateway.fanout import paths_of, read_while_published, seconds_of
from benchmarks.gateway.readers import Load
from benchmarks.gateway.serving import BenchProcess, serve_bench
from benchmarks.measure import Effort, Row, Sample, interleave, repeat
from benchmarks.ours import expect

_MANY = 1_000
_PER_SECOND = 10.0
_SLOWLY_PER_SECOND = 2.0
_SECONDS = 10.0
_BEFORE_SECONDS = 1.0
_MOST_SECONDS = 60.0
_EMPTY_SECONDS = 10.0
_SEND_BUFFER = "4096"
_RECEIVE_BUFFER = 2_304
_KIB = 1024


def come_back(server: BenchProcess, count: int, per_second: float) -> Sample:
    """Cut so many readers at once, let them come back with their numbers, and wait until all are level.

    A reader is level when it is given an event that is not older than half a second: by then it has all that it missed.
    """
    ids = server.ask("sessions", count=0)["ids"]
    with Load(server.address, paths_of("ours", ids, count)) as load:
        load.open()
        publishing = server.tell("publish", side="ours", per_second=per_second, seconds=_MOST_SECONDS)
        until = time.perf_counter() + _BEFORE_SECONDS
        load.run(
            lambda: time.perf_counter() > until and all(one.count for one in load.readers), "for the first"
        )
        load.close()
        cut_at = time.perf_counter()
        load.connect()
        load.run(lambda: all(one.is_level for one in load.readers), "that all are level again")
        took = time.perf_counter() - cut_at
        expect("gaps and doubles", load.faults, 0)
        server.tell("cease")
        published = server.answer(publishing)["events"]
        first = min(one.first or 0 for one in load.readers)
        load.run(lambda: all(one.last == first + published - 1 for one in load.readers), "for the last event")
        expect("gaps and doubles", load.faults, 0)
    return {"back_seconds": took}


def _explain_coming_back(count: int, per_second: float) -> Explanation:
    with serve_bench() as server:
        server.ask("sessions", count=1)
        server.ask("look")
        come_back(server, count, per_second)
        return server.looked()


def reconnects(effort: Effort) -> list[Row]:
    """A thousand readers are cut at once, and come back while it is published on."""
    with serve_bench() as server:
        server.ask("sessions", count=1)
        return _take_both(server, effort.of(_MANY))


def _take_both(server: BenchProcess, count: int) -> list[Row]:
    rows = []
    for per_second, target in (
        (_SLOWLY_PER_SECOND, target_of("back at 2 a second")),
        (_PER_SECOND, target_of("back at 10 a second")),
    ):
        rounds = repeat(partial(come_back, server, count, per_second), 1, warm_up=False)
        rows.append(
            rounds.row(
                "gateway-reconnects",
                "back_seconds",
                f"{count:,} readers cut at once: until all are level, {per_second:g} events a second",
                unit="s",
                target=target,
                explain=partial(_explain_coming_back, count, per_second),
            )
        )
    return rows


def _read_beside(server: BenchProcess, count: int, seconds: float, *, stalled: bool) -> Sample:
    ids = server.ask("sessions", count=0)["ids"]
    with Load(server.address, paths_of("ours", ids, 1)) as sleeper:
        if stalled:
            sleeper.open(receive_buffer=_RECEIVE_BUFFER)  # and it reads no more: its loop is not run
        before = _weight_of(server, int(stalled))
        sample = read_while_published(server, "ours", count, _PER_SECOND, seconds, is_probed=False)
        behind = _weight_of(server, int(stalled))
    return {**sample, "kib": (behind["bytes"] - before["bytes"]) / _KIB, "frames_kib": behind["frame_bytes"] / _KIB}  # fmt: skip


def _weight_of(server: BenchProcess, readers: int) -> dict[str, Any]:
    """Say what the server holds once it has noticed who left; the stalled one is there still."""
    give_up_at = time.perf_counter() + _EMPTY_SECONDS
    while (weight := server.ask("weight"))["readers"] != readers and time.perf_counter() < give_up_at:
        time.sleep(0.05)
    expect("the readers that are left", weight["readers"], readers)
    return weight


def stalled_reader(effort: Effort) -> list[Row]:
    """A thousand readers, beside one that does not read; bare: without it."""
    count, seconds = effort.of(_MANY), seconds_of(effort, _SECONDS)
    with serve_bench(_SEND_BUFFER) as server:
        server.ask("sessions", count=1)
        take = partial(_read_beside, server, count, seconds)
        rounds = interleave(
            partial(take, stalled=False), partial(take, stalled=True), min(effort.rounds, 1), warm_up=False
        )
    title = f"{count:,} readers, and one that does not read; bare: without it"
    return [
        rounds.row(
            "gateway-stalled",
            "lag_seconds",
            f"{title}: p99 of the others",
            unit="ms",
            factor=1e3,
            target=target_of("beside a stalled reader"),
        ),
        rounds.row("gateway-stalled", "frames_kib", f"{title}: frames that are kept", unit="KiB"),
        rounds.row("gateway-stalled", "kib", f"{title}: by how much the server grew", unit="KiB"),
    ]
