"""Sockets that are killed, and servers that are killed: the page shows what one page shows that was never cut."""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.console.browsing import until
from tests.console.cut_line import CutLine

pytestmark = pytest.mark.check

ROUNDS = 300
SOCKETS_CUT = 20
SERVERS_KILLED = 3
TIMES = SOCKETS_CUT + SERVERS_KILLED
KILLS_AT = frozenset({6, 13, 20})
"""Which of all the times it is the server, and not the socket alone."""
LOST_MS = 1_100

# The page keeps what it reads to itself. A test may look: it draws from the very view that is compared here.
LOOK_IN = """async () => {
  const { OpenSession } = await import(new URL("wire/open_session.js", document.baseURI).href);
  const listen = OpenSession.prototype.listen;
  OpenSession.prototype.listen = function (...given) {
    globalThis.read = { open: this, connection: this._connection };
    return listen.apply(this, given);
  };
}"""
IS_LIVE = "() => globalThis.read?.connection.state.name === 'live' && read.open.known.name === 'ready'"
IS_LOST = "() => read.connection.state.name === 'lost'"
BAR = "() => document.querySelector('.connection-bar.lost')?.innerText"
NO_BAR = "() => !document.querySelector('.connection-bar.lost')"
# What the button of the bar does; a dial that is under way is waited for.
BACK = "() => { read.connection.tryNow(); return read.connection.state.name === 'live'; }"
IS_PAST = "(seq) => read.open.view.seq > seq"
SEQ = "() => read.open.view.seq"
IS_DONE = (
    "() => read.open.view.phase === 'idle' && document.querySelector('.feed')?.innerText.includes('done')"
)
ALL_ITEMS = """async () => {
  while (["more", "loading"].includes(read.open.older.name)) {
    read.open.fetchOlder();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return JSON.stringify(read.open.view.items);
}"""
DRAWN = """() => [...document.querySelectorAll('.feed [data-key]')].map((row) => [row.dataset.key, row.innerText])"""


def reading(pages, base):
    """A page of the session whose view a test can look at."""
    page = pages.open(f"{base}/console/#/nowhere", clock=True)
    page.evaluate(LOOK_IN)
    page.evaluate("() => { location.hash = '#/s/s-1'; }")
    until(page, IS_LIVE)
    return page


class KilledServer:
    """A server in a process of its own, on one port, with one store, that is killed and begun again."""

    def __init__(self, directory):
        self.directory = directory
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port = taken.getsockname()[1]
        self.base = f"http://127.0.0.1:{self.port}"
        self.process = None

    def begin(self):
        argv = [
            sys.executable,
            "-m",
            "tests.console.killed_server",
            self.directory,
            f"{self.port}",
            f"{ROUNDS}",
        ]
        root = Path(__file__).parent.parent.parent
        self.process = subprocess.Popen(argv, cwd=root, stdin=subprocess.PIPE, text=True)
        ends = time.monotonic() + 30
        while time.monotonic() < ends:
            try:
                if httpx.get(f"{self.base}/ready").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        pytest.fail("the server did not begin")

    def go_on_to(self, rounds):
        self.process.stdin.write(f"{rounds}\n")
        self.process.stdin.flush()

    def kill(self):
        """Kill it, as a machine does that has no memory left."""
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()


@pytest.fixture
def killed_server(tmp_path):
    server = KilledServer(tmp_path)
    try:
        server.begin()
        yield server
    finally:
        server.kill()


@pytest.fixture
def line_server(killed_server):
    line = CutLine(killed_server.port).begin()
    yield line
    line.end()


@pytest.mark.c(2)
def test_a_page_that_is_cut_and_whose_server_is_killed_shows_what_one_shows_that_was_not(
    pages, killed_server, line_server
):
    """In a cycle of 2,000 events its socket is killed 20 times and the server process 3 times: the bar showed and went each time, and the items are those of an uncut page."""
    httpx.post(f"{killed_server.base}/sessions", json={"session_id": "s-1"}).raise_for_status()
    page = reading(pages, f"http://127.0.0.1:{line_server.port}")
    pages.of(page).expects += ["net::ERR_", "WebSocket connection to"]
    httpx.post(f"{killed_server.base}/sessions/s-1/prompt", json={"message": "count"}).raise_for_status()
    for number in range(TIMES):
        reached, seen = ROUNDS * (number + 1) // TIMES, page.evaluate(SEQ)
        killed_server.go_on_to(reached)
        until(page, IS_PAST, seen + 5)  # in the middle of what is being said
        if number in KILLS_AT:
            killed_server.kill()
        else:
            line_server.cut()
        until(page, IS_LOST)
        page.clock.fast_forward(LOST_MS)
        assert "Connection lost" in until(page, BAR)
        if number in KILLS_AT:
            killed_server.begin()
            killed_server.go_on_to(reached)
        line_server.mend()
        until(page, BACK, seconds=20)
        until(page, NO_BAR)
    until(page, IS_DONE, seconds=20)
    assert line_server.cuts == SOCKETS_CUT
    assert page.evaluate("() => read.connection.counters.reconnects") == TIMES
    whole = reading(pages, killed_server.base)
    until(whole, IS_DONE)
    assert page.evaluate(SEQ) == whole.evaluate(SEQ) >= 2_000
    assert json.loads(page.evaluate(ALL_ITEMS)) == json.loads(whole.evaluate(ALL_ITEMS))
    # A list has the rows near its window alone, and a line above one of them makes its window lower.
    cut, uncut = dict(page.evaluate(DRAWN)), dict(whole.evaluate(DRAWN))
    both = cut.keys() & uncut.keys()
    assert {key: cut[key] for key in both} == {key: uncut[key] for key in both}
    assert len(both) > 8
    assert "end:cycle:3" in both
