"""The workload of what an open subscriber holds: a stream and a WebSocket, ours and bare, each in a server of its own."""

from functools import partial

from benchmarks.bars import target_of
from benchmarks.gateway.fanout import paths_of
from benchmarks.gateway.readers import Load
from benchmarks.gateway.serving import serve_bench
from benchmarks.gateway.sockets import SocketLoad
from benchmarks.measure import Effort, Row, Sample, interleave
from benchmarks.ours import expect

_MANY = 1_000
_KIB = 1024


def _weigh(side: str, count: int, *, by_socket: bool) -> Sample:
    with serve_bench() as server:
        ids = server.ask("sessions", count=1)["ids"]
        make = (
            partial(SocketLoad, server.address, ids[0] if side == "ours" else None)
            if by_socket
            else (lambda paths: Load(server.address, paths))
        )
        few, many = paths_of(side, ids, 10), paths_of(side, ids, count)
        with make(few) as warm_up:
            warm_up.open()  # what is made once for all is no subscriber's
            empty = server.ask("weight")["bytes"]
            with make(many) as load:
                load.open()
                weight = server.ask("weight")
                if side == "ours" and not by_socket:
                    expect("the open streams", weight["readers"], count + len(few))
    return {"kib": (weight["bytes"] - empty) / count / _KIB}


def weights_of_readers(effort: Effort) -> list[Row]:
    """What an open subscriber holds, of a thousand."""
    count = effort.of(_MANY)
    rows = []
    for by_socket, what in ((False, "stream"), (True, "WebSocket")):
        rounds = interleave(
            partial(_weigh, "bare", count, by_socket=by_socket),
            partial(_weigh, "ours", count, by_socket=by_socket),
            min(effort.rounds, 1),
            warm_up=False,
        )
        title = f"an open {what}, of {count:,}"
        rows += [
            rounds.row(
                "gateway-weights", "kib", title, unit="KiB", target=target_of("open subscriber and bare")
            ),
            rounds.row(
                "gateway-weights",
                "kib",
                f"{title}, by itself",
                unit="KiB",
                target=target_of("open subscriber"),
            ),
        ]
    return rows
