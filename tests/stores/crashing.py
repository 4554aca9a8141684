"""Processes that write a store and die: `python -m tests.stores.crashing FOLDER ROUNDS` prints in JSON what was kept.

Each dies in a fork of this one, killed from outside when it has acknowledged some records. What a crash of the machine leaves is
tested with a `SimulatedDisk`.
"""

import json
import os
import signal
import sys
import traceback
from pathlib import Path

from agentrail.core.journal.record import first_broken
from agentrail.stores.sqlite import SqliteStore
from tests.stores.rig import following, opening


def write_on(path, acknowledged, *, records):
    """Open a store, append some records one by one, and say of each when it is durable."""
    store = SqliteStore(path)
    store.create(opening())
    for _ in range(records):
        tail = store.get("", "s").tail
        one, after = following(tail, f"{tail.seq + 1}" * 200)
        os.write(acknowledged, b"try %d\n" % after.seq)
        assert store.append([one]) == (None,)
        os.write(acknowledged, b"ack %d\n" % after.seq)
        if after.seq % 3 == 0:
            store.checkpoint()
    store.close()


def in_fork(work, heard):
    """Run work in a fork, hear what it says, and give the last number tried and acknowledged, and whether it was killed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        code = 1
        try:
            work(writing)
            code = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(code)
    os.close(writing)
    last = {"try": 0, "ack": 0}
    with os.fdopen(reading) as lines:
        for line in lines:
            what, number = line.split()
            last[what] = int(number)
            heard(line, pid)
    _, status = os.waitpid(pid, 0)
    return last["try"], last["ack"], status


def look(path):
    """What the next process finds: the last number, and the first that is broken."""
    store = SqliteStore(path)
    there = store.get("", "s")
    records = store.read("", "s", 0, 100_000) if there is not None else ()
    tail = there.tail.seq if there is not None else 0
    found = {"tail": tail, "broken": first_broken(records), "salvaged": str(store.salvaged or "")}
    assert len(records) == found["tail"]
    store.close()
    return found


def rounds(folder, number):
    path = folder / "sessions.db"
    for at in range(number):

        def kill(line, pid, after=(at * 7) % 23):
            kill.heard += line.startswith("ack")
            if kill.heard > after:
                os.kill(pid, signal.SIGKILL)

        kill.heard = 0
        tried, acknowledged, status = in_fork(lambda told: write_on(path, told, records=1000), kill)
        yield {"tried": tried, "acknowledged": acknowledged, "status": status, **look(path)}


if __name__ == "__main__":
    folder, number = sys.argv[1:]
    print(json.dumps(list(rounds(Path(folder), int(number)))))  # noqa: T201 - what it is for
