"""Three nodes over one PostgreSQL, writers, and a killer. A page shows each message that was acknowledged, and whether it is stored once.

    python killed_nodes.py --seconds 60

Run it as an ordinary user, and open `killed_nodes.html` in a browser meanwhile.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import httpx
import trio

NODES = 3
SERVE = f"-m agentrail serve --nodes {NODES} --store postgres: --port 0 --data-dir data --config agentrail.toml --trust-project"
CONFIGURATION = """[defaults]\nmodel = "demo:fast"\n[host.limits]\nmessages_per_minute = 6000\n"""
ANSWERS = re.compile(r"node (\d) answers at (\S+), process (\d+)")
ENDED = re.compile(r"node (\d) was ended")
SESSIONS = ("ann", "bob", "cleo", "dan")
PAGE = """<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="1"><title>{title}</title>
<style>body {{ font: 16px/1.6 system-ui; margin: 2rem }} td, th {{ padding: 0 1rem; text-align: right }}</style>
<h1>{title}</h1><p>{nodes}</p>
<table><tr><th>session<th>acknowledged<th>stored<th>missing<th>twice</tr>{rows}</table>
"""


@attrs.define
class Show:
    """What the page shows.

    Attributes:
        nodes: Address and process of each node that answers, by its number.
        acknowledged: Messages with an answer, by session.
        stored: Messages that a node reads from the store, by session.
    """

    page: Path
    nodes: dict[str, tuple[str, int]] = attrs.field(factory=dict)
    kills: int = 0
    repeats: int = 0
    acknowledged: dict[str, list[str]] = attrs.field(factory=lambda: {one: [] for one in SESSIONS})
    stored: dict[str, list[str]] = attrs.field(factory=lambda: {one: [] for one in SESSIONS})

    def missing(self, session: str) -> list[str]:
        """Return acknowledged messages that are not stored."""
        return sorted({*self.acknowledged[session]} - {*self.stored[session]})

    def twice(self, session: str) -> list[str]:
        """Return messages that are stored more than once."""
        return [one for one, count in Counter(self.stored[session]).items() if count > 1]

    def summary(self) -> str:
        """Return all numbers in one line."""
        done, stored = (sum(map(len, one.values())) for one in (self.acknowledged, self.stored))
        missing, twice = (sum(len(of(one)) for one in SESSIONS) for of in (self.missing, self.twice))
        return f"{self.kills} kills, {self.repeats} repeats: {done} acknowledged, {stored} stored, {missing} missing, {twice} twice"

    def write(self) -> None:
        """Write the page. A browser never sees half of it."""
        lists = [
            (one, self.acknowledged[one], self.stored[one], self.missing(one), self.twice(one))
            for one in SESSIONS
        ]
        rows = "".join(
            f"<tr><td>{one}" + "".join(f"<td>{len(cell)}" for cell in cells) for one, *cells in lists
        )
        nodes = "; ".join(
            f"node {number}: {url}, process {pid}" for number, (url, pid) in sorted(self.nodes.items())
        )
        new = self.page.with_suffix(".new")
        new.write_text(PAGE.format(title=self.summary(), nodes=nodes, rows=rows), encoding="utf-8")
        new.replace(self.page)

    def hear(self, line: str) -> None:
        """Learn from a line of the command which nodes answer."""
        if found := ANSWERS.search(line):
            self.nodes[found[1]] = (found[2], int(found[3]))
        elif found := ENDED.search(line):
            self.nodes.pop(found[1], None)


async def ask(
    show: Show, client: httpx.AsyncClient, path: str, body: dict[str, str] | None = None
) -> dict[str, Any]:
    """Make a call at any node, and again at another one until it is answered."""
    while True:
        if show.nodes:
            url, _ = random.choice([*show.nodes.values()])  # noqa: S311 - any will do
            try:
                answer = await (
                    client.get(f"{url}{path}") if body is None else client.post(f"{url}{path}", json=body)
                )
                if answer.status_code not in {502, 503}:
                    return dict(answer.raise_for_status().json())
            except httpx.TransportError:
                pass  # the node was killed
            show.repeats += 1
        await trio.sleep(0.2)


async def talk(show: Show, client: httpx.AsyncClient, session: str, ends_at: float) -> None:
    """Send messages, one after the other. The id of each makes repeating it safe."""
    number = 0
    while time.monotonic() < ends_at:
        number += 1
        message = f"{session}-{number}"
        body = {"message": message, "session_id": session, "client_id": message}
        await ask(show, client, "/chat", body)
        show.acknowledged[session].append(message)


async def read(show: Show, client: httpx.AsyncClient, session: str) -> None:
    """Read the messages of a session from any node."""
    messages: list[Any] = []
    after = 0
    while after is not None:
        page = await ask(show, client, f"/sessions/{session}/messages?after={after}")
        messages += page["messages"]
        after = page["next"]
    show.stored[session] = [one["content"][0]["text"] for one in messages if one["role"] == "user"]


async def kill(show: Show, every: float, ends_at: float) -> None:
    """Kill one node after the other."""
    await trio.sleep(every)
    while time.monotonic() < ends_at:
        number = min(show.nodes, key=lambda one: (show.kills + int(one)) % NODES, default=None)
        if number is not None:
            _, pid = show.nodes.pop(number)
            os.kill(pid, signal.SIGKILL)
            show.kills += 1
        await trio.sleep(every)


async def look(show: Show, client: httpx.AsyncClient) -> None:
    """Read all sessions, and write the page, again and again."""
    while True:
        for session in [one for one in SESSIONS if show.acknowledged[one]]:
            await read(show, client, session)
        show.write()
        await trio.sleep(0.5)


async def hear_all(show: Show, process: trio.Process) -> None:
    """Read what the command says about its nodes, and repeat it."""
    if process.stderr is None:
        return
    async for piece in process.stderr:
        sys.stderr.write(piece.decode())
        for line in piece.decode().splitlines():
            show.hear(line)


async def main(directory: Path, *, seconds: float = 60.0, every: float = 6.0) -> Show:
    """Run it in a directory, and return what the page shows at the end."""
    show = Show(directory / "killed_nodes.html")
    (directory / "agentrail.toml").write_text(CONFIGURATION, encoding="utf-8")
    process = await trio.lowlevel.open_process(
        [sys.executable, *SERVE.split()], cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        async with httpx.AsyncClient(timeout=30) as client, trio.open_nursery() as nursery:
            nursery.start_soon(hear_all, show, process)
            while len(show.nodes) < NODES:
                if process.poll() is not None:
                    sys.exit("the nodes did not start")
                await trio.sleep(0.1)
            print(f"three nodes answer: open {show.page}", flush=True)
            nursery.start_soon(look, show, client)
            ends_at = time.monotonic() + seconds
            async with trio.open_nursery() as busy:
                busy.start_soon(kill, show, every, ends_at)
                for session in SESSIONS:
                    busy.start_soon(talk, show, client, session, ends_at)
            for session in SESSIONS:
                await read(show, client, session)
            nursery.cancel_scope.cancel()
    finally:
        process.terminate()
        with trio.CancelScope(shield=True):
            await process.wait()
    show.write()
    return show


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--every", type=float, default=6.0, help="seconds from kill to kill")
    given = options.parse_args()
    shown = trio.run(lambda: main(Path.cwd(), seconds=given.seconds, every=given.every))
    print(shown.summary())
    sys.exit(any(shown.missing(one) or shown.twice(one) for one in SESSIONS))
