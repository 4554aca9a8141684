"""Connections to PostgreSQL through psycopg: opening, error translation, packed arrays, and a pool. Names no table.

Nothing is set per session, because a pooler in transaction mode gives each transaction another session of the server.
"""

import struct
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import Any, ClassVar, Final, TypeAlias, TypeVar, cast

import psycopg
from psycopg import conninfo, pq
from psycopg.adapt import Dumper
from psycopg.types.numeric import Int8BinaryDumper

from agentrail.errors import AgentrailError, OptionError, StoreUnavailable
from agentrail.stores.store_urls import PASSWORDS, faults_of_url

T = TypeVar("T")

PostgresConnection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
Connect: TypeAlias = Callable[..., PostgresConnection]
"""Opens a connection, with the arguments of `psycopg.connect`."""

_MAX_READERS: Final = 3
_LOOK_SECONDS: Final = 0.1
_SILENT_SECONDS: Final = 35.0
"""More than a statement may take in a role of `store migrate`."""
MAX_TRIES: Final = 20

_DEFAULTS: Final = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "application_name": "agentrail",
}
"""Parameters of libpq, unless the URL has others. A vanished server is noticed within about 20 seconds."""


class LostRaceError(Exception):
    """Another node changed a row after it was read. The call is to be repeated."""


class BigintArray(bytes):
    """A `bigint[]` in the binary format of PostgreSQL. psycopg would choose its type by the values, and take longer."""


class ByteaArray(bytes):
    """A `bytea[]` in the same format."""


class _BigintArrayDumper(Dumper):
    format = pq.Format.BINARY
    oid = 1016

    def dump(self, obj: bytes) -> bytes:
        return obj


class _ByteaArrayDumper(_BigintArrayDumper):
    oid = 1001


_HEAD: Final = struct.Struct(">iiiii")
_LENGTH: Final = struct.Struct(">i")
_BIGINT: Final = struct.Struct(">iq")
_NULL: Final = _LENGTH.pack(-1)


def bigints(values: Sequence[int | None]) -> BigintArray:
    """Pack numbers, and None as NULL."""
    pack = _BIGINT.pack
    items = [_NULL if one is None else pack(8, one) for one in values]
    return BigintArray(_HEAD.pack(1, 1, 20, len(items), 1) + b"".join(items))


def byteas(values: Sequence[bytes]) -> ByteaArray:
    pack, items = _LENGTH.pack, list[bytes]()
    for one in values:
        items += (pack(len(one)), one)
    return ByteaArray(_HEAD.pack(1, 0, 17, len(values), 1) + b"".join(items))


def texts(values: Iterable[str]) -> ByteaArray:
    return byteas([one.encode() for one in values])


def columns(rows: Sequence[object], **kinds: Callable[[list[Any]], bytes]) -> tuple[bytes, ...]:
    """Pack attributes of rows, each as an array of its kind, in this order."""
    return tuple([pack([*map(attrgetter(name), rows)]) for name, pack in kinds.items()])


class Connector:
    """Opens connections to one database."""

    def __init__(self, url: str, connect: Connect) -> None:
        """Parse a URL.

        Raises:
            OptionError: Your move: it is not a URL of PostgreSQL. The message does not repeat it, since it may hold a password.
        """
        if faults := faults_of_url(url):  # libpq would quote a password that it takes for a port
            raise OptionError(faults)
        try:
            parts = conninfo.conninfo_to_dict(url)
            for host in str(parts.get("host", "")).split(","):
                if not host.startswith(("/", "@")):  # of a socket
                    host.encode("idna")  # as the resolver does, which accepts no empty label
        except (psycopg.ProgrammingError, UnicodeError):
            fault = "the URL of the store is not one of PostgreSQL: expected postgres://USER:PASSWORD@HOST:PORT/DATABASE, with % codes for special characters"
            raise OptionError([fault]) from None  # the original quotes parts of the password
        self.url: str = url
        self._parts = {**_DEFAULTS, **parts}
        self._connect = connect
        self._passwords = [str(parts[name]) for name in sorted(PASSWORDS) if parts.get(name)]
        host = f"{parts.get('host', '')}:{parts['port']}" if "port" in parts else str(parts.get("host", ""))
        user = f"{parts['user']}@" if "user" in parts else ""
        self.place: str = f"postgres://{user}{host}/{parts.get('dbname', '')}"
        """URL without password."""

    def open(self) -> PostgresConnection:
        with self.translated():
            connection = self._connect(**self._parts, autocommit=True, prepare_threshold=None)
            adapters = connection.adapters
            # One type for all numbers, so one plan per statement.
            adapters.register_dumper(int, Int8BinaryDumper)
            adapters.register_dumper(BigintArray, _BigintArrayDumper)
            adapters.register_dumper(ByteaArray, _ByteaArrayDumper)
            row = connection.execute("SELECT pg_backend_pid()").fetchone()
            # A pooler invents a process id. Through it, a prepared statement may be unknown to the next server session.
            if row is not None and row[0] == connection.info.backend_pid:
                connection.prepare_threshold = 2
            return connection

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Translate errors of the database."""
        try:
            yield
        except psycopg.Error as error:
            sentence = " ".join(str(error).split()) or type(error).__name__
            for password in self._passwords:
                sentence = sentence.replace(password, "***")
            message = f"the store {self.place} cannot be used now: {sentence}; sessions continue when it can. To see the reason, try: psql {self.place}"
            raise StoreUnavailable(message) from None  # the original may hold the password


class HeardConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is closed when the server is silent in a statement. TCP notices nothing while a proxy or a stopped process holds it open."""

    def wait(self, gen: Any, interval: float = _LOOK_SECONDS, *args: Any, **options: Any) -> Any:
        return super().wait(self._heard(gen, round(_SILENT_SECONDS / interval)), interval, *args, **options)

    def _heard(self, gen: Generator[Any, Any, T], looks: int) -> Generator[Any, Any, T]:
        ready: Any = None
        silent = 0
        while silent < looks:
            try:
                wanted = gen.send(ready)
            except StopIteration as end:
                return cast("T", end.value)
            ready = yield wanted
            silent = 0 if ready else silent + 1
        self.pgconn.finish()  # a late answer would be taken for that of the next statement
        message = f"the server has not answered for {_SILENT_SECONDS:g} s"
        raise psycopg.OperationalError(message)


def forget(connection: PostgresConnection | None) -> None:
    if connection is not None:
        with suppress(psycopg.Error):
            connection.close()


def repeated(
    call: Callable[[PostgresConnection], T], connection: PostgresConnection, *races: type[Exception]
) -> T:
    """Make a call, again after a lost race with another process, which undid it."""
    for _ in range(MAX_TRIES - 1):
        with suppress(*races):
            return call(connection)
    return call(connection)


class ConnectionPool:
    """Lends connections, for reading unless it has another limit, and for writes other than those of journals."""

    def __init__(self, connector: Connector, limit: int = _MAX_READERS) -> None:
        self.url: str = connector.url
        self.place: str = connector.place
        self._connector = connector
        self._free = threading.Semaphore(limit)
        self._lock = threading.Lock()
        self._idle: list[PostgresConnection] = []
        self._is_closed = False

    @contextmanager
    def borrowed(self) -> Iterator[PostgresConnection]:
        """Lend a connection for the block. One with an error is not reused."""
        with self._free, self._connector.translated():
            with self._lock:
                if self._is_closed:
                    message = "the store was closed"
                    raise StoreUnavailable(message)
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._connector.open()
            try:
                yield connection
            except AgentrailError:
                self._give_back(connection)
                raise
            except BaseException:
                forget(connection)
                self._drop()  # a restart of the server breaks all of them
                raise
            self._give_back(connection)

    def _give_back(self, connection: PostgresConnection) -> None:
        with self._lock:
            if not self._is_closed:
                self._idle.append(connection)
                return
        forget(connection)

    def _drop(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            forget(connection)

    def close(self) -> None:
        """Stop lending. Can be called repeatedly."""
        with self._lock:
            self._is_closed = True
        self._drop()


class PostgresTables:
    """Rows of users, over the connections of the store of sessions or over connections of their own."""

    is_immediate: Final = False
    is_shared: Final = True
    _WHAT: ClassVar[str]

    def __init__(self, pool: ConnectionPool, *, is_lent: bool = True) -> None:
        """Use a pool, which `close` closes unless it is lent by another store."""
        self.pool: ConnectionPool = pool
        self._is_lent = is_lent
        self._is_closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.pool.place!r})"

    def _run(self, call: Callable[[PostgresConnection], T]) -> T:
        """Make a call that is one transaction, again after a deadlock."""
        if self._is_closed:
            message = f"the {self._WHAT} in {self.pool.place} were closed"
            raise StoreUnavailable(message)
        with self.pool.borrowed() as connection:
            return repeated(call, connection, psycopg.errors.DeadlockDetected)

    def close(self) -> None:
        """Accept no more calls. Can be called repeatedly."""
        self._is_closed = True
        if not self._is_lent:
            self.pool.close()
