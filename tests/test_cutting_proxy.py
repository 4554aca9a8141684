"""The proxy that tests of networks use: it passes bytes on, and cuts, stalls and refuses where it is told to."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest

from tests.cutting_proxy import Cut, CuttingProxy, Way, is_whole_postgres_answer
from tests.postgres import PostgresServer

SECONDS = 10.0


class EchoServer:
    """Answers each line with itself, doubled, and remembers it."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._answer, args=self._listener.accept()[:1], daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            while line := client.recv(100):
                self.lines.append(line)
                client.sendall(2 * line)


@pytest.fixture
def echo() -> Iterator[EchoServer]:
    """A server to stand behind the proxy."""
    server = EchoServer()
    yield server
    server.close()


def dial(proxy: CuttingProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=SECONDS)


def ask(client: socket.socket, line: bytes = b"one") -> bytes:
    """Send a line and return what comes back, or nothing from a connection that was cut."""
    client.sendall(line)
    answer = b""
    try:
        while len(answer) < 2 * len(line) and (piece := client.recv(100)):
            answer += piece
    except ConnectionResetError:
        pass
    return answer


@pytest.mark.parametrize(
    ("where", "seen", "reached"),
    [
        (Cut.BEFORE_REQUEST, b"", [b"one"]),
        (Cut.BEFORE_ANSWER, b"", [b"one", b"two"]),
        (Cut.IN_ANSWER, b"two", [b"one", b"two"]),
        (Cut.AFTER_ANSWER, b"twotwo", [b"one", b"two"]),
    ],
)
def test_an_exchange_is_cut_once_and_where_it_was_said(
    echo: EchoServer, where: Cut, seen: bytes, reached: list[bytes]
) -> None:
    """The second exchange is cut at its point, the server has seen what it should, and the next connection works."""
    with CuttingProxy(echo.port) as proxy:
        proxy.cut_at(where, skip=1)
        with dial(proxy) as client:
            assert ask(client) == b"oneone"
            assert ask(client, b"two") == seen
            with suppress(OSError):
                assert ask(client, b"never") == b""
        assert echo.lines == reached
        with dial(proxy) as client:
            assert ask(client) == b"oneone"
        assert proxy.cuts == 1


def test_a_cut_resets_connections_and_refuses_new_ones_until_it_is_mended(echo: EchoServer) -> None:
    """After a cut the open connection is reset and new ones are refused; after mending the port is the same and works."""
    with CuttingProxy(echo.port) as proxy:
        with dial(proxy) as client:
            ask(client)
            assert proxy.open_connections == 1
            proxy.cut()
            with pytest.raises(ConnectionError):
                client.recv(1)
        with pytest.raises(ConnectionRefusedError):
            dial(proxy)
        proxy.cut()
        proxy.mend()
        with dial(proxy) as client:
            assert ask(client) == b"oneone"


def test_refusing_leaves_open_connections_alone(echo: EchoServer) -> None:
    """While new connections are refused an open one carries bytes; a reset ends it and refuses nobody."""
    with CuttingProxy(echo.port) as proxy:
        with dial(proxy) as client:
            ask(client)
            proxy.refuse()
            assert ask(client) == b"oneone"
            with pytest.raises(ConnectionRefusedError):
                dial(proxy)
            proxy.mend()
            proxy.reset()
            with pytest.raises(ConnectionError):
                client.recv(1)
        dial(proxy).close()


@pytest.mark.parametrize(("way", "reached"), [(Way.TO_SERVER, []), (Way.TO_CLIENT, [b"one"])])
def test_a_stalled_way_holds_its_bytes_until_it_is_mended(
    echo: EchoServer, way: Way, reached: list[bytes]
) -> None:
    """A one-way cut holds the request or the answer, drops neither, and says nothing to the client."""
    with CuttingProxy(echo.port) as proxy, dial(proxy) as client:
        ask(client)
        echo.lines.clear()
        proxy.stall(way)
        client.sendall(b"one")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(100)
        assert echo.lines == reached
        proxy.mend()
        client.settimeout(SECONDS)
        assert client.recv(100) == b"oneone"


def test_a_server_that_is_away_is_a_closed_connection() -> None:
    """Without a server behind it the proxy closes what it accepts."""
    with CuttingProxy(1) as proxy, dial(proxy) as client:
        assert client.recv(1) == b""


def insert_two_rows(connection: psycopg.Connection) -> None:
    for number in (2, 3):
        connection.execute("INSERT INTO seen VALUES (%s)", (number,))


@pytest.mark.parametrize("where", [Cut.BEFORE_REQUEST, Cut.BEFORE_ANSWER, Cut.AFTER_ANSWER])
def test_a_commit_is_cut_before_and_after_its_answer(postgres_server: PostgresServer, where: Cut) -> None:
    """PostgreSQL has the row of a commit whose answer was cut, and not that of a request that never came."""
    name = postgres_server.create_database()
    postgres_server.run_sql("CREATE TABLE seen (number int)", name)
    url = postgres_server.cluster.port_url_of(name)
    with CuttingProxy(postgres_server.port, is_whole=is_whole_postgres_answer) as proxy:
        url = url.replace(f":{postgres_server.port}", f":{proxy.port}")
        connection = psycopg.connect(url, autocommit=True)
        connection.execute("INSERT INTO seen VALUES (1)")
        assert proxy.answers > 2, "the answers of signing in are counted"
        proxy.cut_at(where)
        with pytest.raises(psycopg.OperationalError):
            insert_two_rows(connection)
        with psycopg.connect(url) as another:
            rows = another.execute("SELECT number FROM seen ORDER BY 1").fetchall()
        assert rows == ([(1,)] if where is Cut.BEFORE_REQUEST else [(1,), (2,)])
    postgres_server.drop_database(name)
