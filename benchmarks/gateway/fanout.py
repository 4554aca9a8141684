"""The workloads of readers that all is well with: many of one session, and many sessions with one each."""

from collections.abc import Sequence
from functools import partial

from benchmarks.bars import target_of
from benchmarks.explain import Explanation
from benchmarks.gateway.readers import Load, Probe
from benchmarks.gateway.serving import BenchProcess, serve_bench
from benchmarks.measure import Effort, Row, Sample, interleave, percentile, repeat
from benchmarks.ours import expect

_FEW = 100
_MANY = 1_000
_PER_SECOND = 10.0
_SECONDS = 10.0
_ROUNDS = 3  # of ten seconds each: half a minute in all
_SLOWLY_PER_SECOND = 2.0


def seconds_of(effort: Effort, seconds: float) -> float:
    """Say how long a run is; at least half a second."""
    return max(seconds * effort.scale, min(seconds, 0.5))


def paths_of(side: str, sessions: Sequence[str], count: int) -> list[str]:
    """Say what so many readers ask for."""
    if side == "bare":
        return ["/bare"] * count
    return [f"/sessions/{sessions[number % len(sessions)]}/events" for number in range(count)]


def read_while_published(  # noqa: PLR0913 - what a run is
    server: BenchProcess, side: str, count: int, per_second: float, seconds: float, *, is_probed: bool = True
) -> Sample:
    """Let so many readers read what is published, and hold it to all events, in order.

    Args:
        server: It has its sessions.
        side: `ours` or `bare`.
        count: How many readers.
        per_second: Events in each session.
        seconds: How long.
        is_probed: Whether `/health` is called beside it.
    """
    ids = server.ask("sessions", count=0)["ids"]
    probe = Probe(server.address, "/health" if side == "ours" else "/bare/health") if is_probed else None
    with Load(server.address, paths_of(side, ids, count)) as load:
        load.open()
        load.lags.clear()
        before, cpu_at = load.delivered, server.ask("cpu")["cpu_seconds"]
        publishing = server.tell("publish", side=side, per_second=per_second, seconds=seconds)
        wanted = round(seconds * per_second) * count
        load.run(lambda: load.delivered - before >= wanted, "for all events", probe=probe)
        cpu = server.ask("cpu")["cpu_seconds"] - cpu_at
        server.answer(publishing)
        expect("the events that came", load.delivered - before, wanted)
        expect("events out of order", load.faults, 0)
        found = {"cpu_seconds": cpu / wanted, "lag_seconds": load.lag(99), "lag_p50_seconds": load.lag(50)}
    if probe is not None:
        took = probe.took or [0.0]
        found |= {"health_seconds": percentile(took, 99), "health_p50_seconds": percentile(took, 50)}
    return found


def explain_server(sessions: int, side: str, count: int, per_second: float, seconds: float) -> Explanation:
    """Do it once more on a server of its own, and say where its time goes."""
    with serve_bench() as server:
        server.ask("sessions", count=sessions)
        server.ask("look")
        read_while_published(server, side, count, per_second, seconds)
        return server.looked()


def few_readers(effort: Effort) -> list[Row]:
    """A hundred readers of one session."""
    count, seconds = effort.of(_FEW), seconds_of(effort, _SECONDS / 2)
    with serve_bench() as server:
        server.ask("sessions", count=1)
        take = partial(read_while_published, server, count=count, per_second=_PER_SECOND, seconds=seconds)
        rounds = interleave(
            partial(take, "bare"),
            partial(take, "ours"),
            min(effort.rounds, _ROUNDS),
            explain=partial(explain_server, 1, "ours", count, _PER_SECOND, seconds),
            warm_up=False,
        )
    title = f"{count} readers of one session, 10 events a second"
    return [
        rounds.row(
            "gateway-100",
            "cpu_seconds",
            f"{title}: CPU of one delivery",
            unit="µs",
            factor=1e6,
            target=target_of("delivery to 100"),
        ),
        rounds.row(
            "gateway-100", "lag_seconds", f"{title}: p99 from publish to reader", unit="ms", factor=1e3
        ),
    ]


def many_readers(effort: Effort) -> list[Row]:
    """A thousand readers of one session, and how long `/health` takes beside them."""
    count, seconds = effort.of(_MANY), seconds_of(effort, _SECONDS)
    with serve_bench() as server:
        server.ask("sessions", count=1)
        take = partial(read_while_published, server, count=count, per_second=_PER_SECOND, seconds=seconds)
        rounds = interleave(
            partial(take, "bare"),
            partial(take, "ours"),
            min(effort.rounds, _ROUNDS),
            explain=partial(explain_server, 1, "ours", count, _PER_SECOND, seconds),
            warm_up=False,
        )
    title = f"{count:,} readers of one session, 10 events a second"
    row = partial(rounds.row, "gateway-1000")
    ms = {"unit": "ms", "factor": 1e3}
    return [
        row(
            "cpu_seconds",
            f"{title}: CPU of one delivery",
            unit="µs",
            factor=1e6,
            target=target_of("delivery to 1,000"),
        ),
        row(
            "lag_seconds",
            f"{title}: p99 from publish to reader",
            **ms,
            target=target_of("lag of 1,000 readers"),
        ),
        row("lag_seconds", "the same, by itself", **ms, target=target_of("lag of 1,000 readers itself")),
        row("lag_p50_seconds", f"{title}: p50 from publish to reader", **ms),
        row(
            "health_seconds",
            f"{title}: GET /health beside them, p99",
            **ms,
            target=target_of("health beside readers"),
        ),
        row(
            "health_seconds",
            "the same, against bare",
            **ms,
            target=target_of("health beside readers and bare"),
        ),
        row("health_p50_seconds", f"{title}: GET /health beside them, p50", **ms),
    ]


def many_sessions_read(effort: Effort) -> list[Row]:
    """A thousand sessions with one reader each."""
    count, seconds = effort.of(_MANY), seconds_of(effort, _SECONDS)
    with serve_bench() as server:
        server.ask("sessions", count=count)
        take = partial(read_while_published, server, "ours", count, _SLOWLY_PER_SECOND, seconds)
        rounds = repeat(partial(take, is_probed=False), 1, warm_up=False)
    title = f"{count:,} sessions with one reader each, 2 events a second"
    explain = partial(explain_server, count, "ours", count, _SLOWLY_PER_SECOND, seconds)
    return [
        rounds.row(
            "gateway-sessions",
            "lag_seconds",
            f"{title}: p99 from publish to reader",
            unit="ms",
            factor=1e3,
            target=target_of("lag of 1,000 sessions"),
            explain=explain,
        ),
        rounds.row(
            "gateway-sessions",
            "cpu_seconds",
            f"{title}: CPU of one event, the session's step included",
            unit="µs",
            factor=1e6,
        ),
    ]
