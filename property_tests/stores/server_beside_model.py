"""A PostgreSQL and the store of simulated worlds, which get the same calls. Some calls are cut, and then the model is told what the server did."""

import time
from collections import deque
from contextlib import suppress
from functools import partial

import msgspec
import psycopg

from agentrail.errors import AgentrailError, StoreUnavailable
from agentrail.stores.postgres import PostgresStore
from agentrail.testing.faulty_store import WRITING_CALLS
from agentrail.testing.simulation.log import LifeLog
from agentrail.testing.simulation.model_store import ModelStore
from agentrail.testing.simulation.tape import Tape
from property_tests.stores.plain_store import LEASE_MS
from tests.stores.postgres_databases import through

_TABLES = ("session", "record", "snapshot", "blob", "blob_use", "owed", "allowance", "node")
_CONTENT = " UNION ALL ".join(
    f"SELECT '{name}', md5(string_agg(t::text, '' ORDER BY t::text)) FROM agentrail.{name} AS t"  # noqa: S608 - names of ours
    for name in _TABLES
)
_BUSY = """SELECT 1 FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle' AND backend_type = 'client backend'"""
_WRITING = WRITING_CALLS - {"overwrite_removed"}  # of which a server does nothing
_CHANGES_AGAIN = ("take", "take_many", "take_allowance", "claim", "adopt_owed")
"""Calls whose repetition changes the store again."""


class ServerBesideModel:
    """A store whose answers are those of both.

    Attributes:
        plans: What happens to each call that writes, in turn: its connection is cut at one of the server's answers, its `answer` is lost, or None.
        calls: Number of calls, all and those that write.
        lost: Number of lost calls that the server executed, and of those that it did not.
    """

    def __init__(self, url, proxy, clock):
        self.model = ModelStore(Tape(0), LifeLog(), lease_ms=LEASE_MS, now_ms=clock)
        self._url, self._proxy = url, proxy
        self.plans = deque()
        self.calls, self.writes, self.lost = 0, 0, {True: 0, False: 0}
        self._cuts = proxy.cuts
        self._admin = psycopg.connect(url, autocommit=True)
        self.reader = PostgresStore(url, lease_ms=LEASE_MS)
        self.server = self.reader
        self.reopen()

    def reopen(self):
        """Open the connections of the writer again. The model stays: other nodes write meanwhile."""
        if self.server is not self.reader:
            self.server.close()
        self.server = PostgresStore(through(self._proxy.port, self._url), lease_ms=LEASE_MS)

    def close(self):
        """Close all connections."""
        self.server.close()
        self.reader.close()
        self._admin.close()

    def take_many(self, wanted):
        """Take many trees, as a store that takes them in one transaction."""
        return self._call("take_many", wanted)

    def __getattr__(self, name):
        """Return a call of both."""
        return partial(self._call, name)

    def _call(self, name, *args, **options):
        writes = name in _WRITING
        self.calls, self.writes = self.calls + 1, self.writes + writes
        plan = self.plans[0] if writes and self.plans else None
        if writes:
            self.plans.rotate(-1)
        if isinstance(plan, tuple):
            where, skip = plan
            self._proxy.cut_at(where, skip=skip)
        try:
            return self._answer(name, args, options, loses_answer=plan == "answer")
        finally:
            self._proxy.mend()

    def _answer(self, name, args, options, *, loses_answer=False):
        while True:
            before = self._content() if name in _WRITING else None
            answer = outcome(self.reader if before is None else self.server, name, args, options)
            if loses_answer:
                self._proxy.reset()  # each of its connections may be found broken once
                self._cuts -= 1
                answer, loses_answer = StoreUnavailable("the answer is lost"), False
            if not isinstance(answer, StoreUnavailable):
                break
            assert before is not None, answer
            self._settle()
            is_done = self._content() != before
            self.lost[is_done] += 1
            assert sum(self.lost.values()) <= self._proxy.cuts - self._cuts, f"uncut: {answer}"
            self.model.lose_answer(when="after" if is_done else "before")
            assert isinstance(outcome(self.model, name, args, options), StoreUnavailable)
            if is_done:
                answer = self.model._log.lines[-1].facts.answer  # noqa: SLF001 - what the server would have said
                if name not in _CHANGES_AGAIN:
                    with suppress(AgentrailError):
                        self._answer(name, args, options)
                return given(answer)
        self._compare(name, args, options, answer)
        return given(answer)

    def _compare(self, name, args, options, answer):
        expected = outcome(self.model, name, args, options)
        assert said(name, answer) == said(name, expected), f"{name} {args} {options}"

    def _content(self):
        return self._admin.execute(_CONTENT).fetchall()

    def _settle(self):
        """Wait until the server has rolled back the transactions of lost connections: a claim would skip the rows that they lock."""
        while self._admin.execute(_BUSY).fetchone() is not None:
            time.sleep(0.001)


def outcome(store, name, args, options):
    """The answer of a call, or what it raised."""
    try:
        return getattr(store, name)(*args, **options)
    except Exception as error:  # noqa: BLE001 - it is compared
        return error


def given(answer):
    """Give an answer to the caller."""
    if isinstance(answer, Exception):
        raise answer
    return answer


def said(name, answer):
    """What of an answer has to be equal."""
    if isinstance(answer, Exception):
        return type(answer), vars(answer)
    if name == "overwrite_removed":  # a server does it by itself, later
        return None
    if isinstance(answer, tuple):
        parts = [said("", one) for one in answer]
        return sorted(parts, key=repr) if name in ("nodes", "claim") else parts
    return msgspec.to_builtins(answer)
