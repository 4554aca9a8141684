"""The clients of `make crash-nodes`: senders that use httpx and curl, and readers that use `EventSource` and httpx-sse. None is ours.

A sender repeats a message with its `client_id` until it is acknowledged. A reader comes back with its number until the run ends.
"""

import json
import os
import random
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final

import httpx
import trio
from attrs import define, field
from httpx_sse import SSEError, aconnect_sse

from agentrail.events import KINDS
from benchmarks.gateway_soak.account import Faults, ReaderPlace, SessionAccount
from benchmarks.idle import ROOT
from scripts.crash_nodes_history import TOOLS, USER_PREFIX

CALL_SECONDS: Final = 10.0
"""Time limit for an answer. A stopped node gives none."""

AGAIN: Final = frozenset({421, 429, 502, 503, 504})
_OK: Final = frozenset({200, 202})
_LOST: Final = frozenset({0})
EVENT_SOURCE: Final = ROOT / "scripts" / "event_source.cjs"


@define(eq=False)
class ClientSession:
    """One session and its client.

    Attributes:
        user: Its user.
        account: What was sent, acknowledged and seen.
        by_curl: Whether its sender is curl, and not httpx.
        place: The reader's place.
    """

    user: str
    account: SessionAccount
    by_curl: bool
    is_created: bool = False
    place: ReaderPlace = field(factory=ReaderPlace)

    @property
    def id(self) -> str:
        """Id of the session."""
        return self.account.session_id


@define(eq=False)
class Crowd:
    """All clients of a run.

    Attributes:
        base: URL of nginx.
        rng: Source of what is sent.
        sessions: All sessions.
        faults: Broken promises.
        counts: What happened, and how often.
        longest: Longest call of a tool, in seconds.
        is_ending: Whether nothing new is sent.
    """

    base: str
    rng: random.Random
    client: httpx.AsyncClient
    sessions: list[ClientSession] = field(factory=list)
    faults: Faults = field(factory=Faults)
    counts: Counter[str] = field(factory=Counter)
    longest: float = 3.0
    is_ending: bool = False

    def begin(self, number: int) -> ClientSession:
        """Add a session. Each second one is sent to by curl."""
        user = f"{USER_PREFIX}{number}"
        one = ClientSession(user, SessionAccount(f"s-{number}"), by_curl=number % 2 == 1)
        self.sessions.append(one)
        return one

    def url(self, session: ClientSession, path: str) -> str:
        """Return a URL of a session's user, behind nginx."""
        return f"{self.base}/as/{session.user}{path}"

    async def send(self, session: ClientSession, word: str | None = None) -> str:
        """Send one message until it is acknowledged, and return its name.

        Args:
            session: Recipient.
            word: What the model shall do. None: by chance.
        """
        self.counts["messages"] += 1
        name = f"m-{session.id}-{len(session.account.sent)}"
        word = word or f"{self.rng.choice(['say', 'speak', *TOOLS])} {self.rng.uniform(0, self.longest):.2f}"
        message = session.account.send(name)
        said = {"message": f"{name} {word}", "client_id": name}
        path = f"/sessions/{session.id}/prompt"
        if not session.is_created:
            path, said = "/chat", said | {"session_id": session.id}
        tries = 0
        while True:
            status, body = await self._call(session, path, said)
            error = body.get("error", {})
            if status in _OK or "request_id" in error:
                break
            self.counts[f"{status} {error.get('code', '')}".strip()] += 1
            if status not in AGAIN | _LOST:
                self.faults.add(f"session {session.id}: {path} was answered {status} {body}")
            await trio.sleep(self.rng.uniform(0.1, 0.6))
            tries += 1
        self.counts["acknowledged"] += 1
        self.counts["repeated"] += tries > 0
        message.is_acknowledged = session.is_created = True
        message.seq = body.get("seq") if path.endswith("/prompt") else None
        return name

    async def _call(self, session: ClientSession, path: str, said: Any) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON of an answer. Status 0: none came."""
        url = self.url(session, path)
        if session.by_curl:
            return await _curl(url, said)
        try:
            answer = await self.client.post(url, json=said, timeout=CALL_SECONDS)
            return answer.status_code, _object(answer.content)
        except httpx.TransportError:
            return 0, {}

    async def get(self, session: ClientSession, path: str) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON of a GET. Status 0: no answer came."""
        try:
            answer = await self.client.get(self.url(session, path), timeout=CALL_SECONDS)
        except httpx.TransportError:
            return 0, {}
        return answer.status_code, _object(answer.content)

    async def live(self, session: ClientSession, pause: float) -> None:
        """Send messages until the run ends."""
        await trio.sleep(self.rng.uniform(0, pause))
        while not self.is_ending:
            await self.send(session)
            await trio.sleep(self.rng.uniform(0.2, 2 * pause))

    def take(self, session: ClientSession, seq: int, kind: str, data: str) -> None:
        """Compare an event of a reader with the one before, and with those of other readers."""
        self.counts["events"] += 1
        same = json.dumps(json.loads(data), sort_keys=True).encode()
        for fault in (session.account.events.see(seq, kind, same), session.place.take(seq)):
            if fault:
                self.faults.add(f"session {session.id}: {fault}")

    def end_stream(self, session: ClientSession, kind: str, data: str) -> None:
        """Count why a stream ended."""
        self.counts[f"streams ended: {json.loads(data).get('reason', kind)}"] += 1
        if kind != "done":
            self.faults.add(
                f"session {session.id}: a reader that has {session.place.last} was sent {kind} {data}"
            )

    async def read_by_httpx(self, session: ClientSession) -> None:
        """Read a session with httpx-sse, and come back after each break."""
        while True:
            if session.is_created:
                try:
                    await self._read_once(session)
                except (httpx.HTTPError, SSEError):
                    self.counts["breaks"] += 1
            await trio.sleep(self.rng.uniform(0.1, 0.5))

    async def _read_once(self, session: ClientSession) -> None:
        headers = {"last-event-id": f"{session.place.last}"}
        url = self.url(session, f"/sessions/{session.id}/events")
        async with aconnect_sse(self.client, "GET", url, headers=headers, timeout=CALL_SECONDS) as source:
            source.response.raise_for_status()
            async with aclosing(source.aiter_sse()) as events:
                async for event in events:
                    if event.event in ("done", "events_lost"):
                        self.end_stream(session, event.event, event.data)
                    elif event.id and not json.loads(event.data).get("ephemeral"):
                        self.take(session, int(event.id), event.event, event.data)

    async def read_by_event_source(self, sessions: list[ClientSession]) -> None:
        """Read sessions with `EventSource`, in one process of Node."""
        by_id = {one.id: one for one in sessions}
        command = [
            "node",
            "--experimental-eventsource",
            "--no-warnings",
            os.fspath(EVENT_SOURCE),
            json.dumps([*KINDS.values()]),
        ]
        process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None  # noqa: S101 - a pipe
        assert process.stdout is not None  # noqa: S101 - a pipe
        try:
            for one in sessions:
                while not one.is_created:  # noqa: ASYNC110 - it comes with an answer
                    await trio.sleep(0.05)
                line = [one.id, self.url(one, f"/sessions/{one.id}/events")]
                await process.stdin.send_all(json.dumps(line).encode() + b"\n")
            async for text in _lines(process.stdout):
                event = json.loads(text)
                session = by_id[event["session"]]
                if event["seq"]:
                    self.take(session, event["seq"], event["kind"], event["data"])
                else:
                    self.end_stream(session, event["kind"], event["data"])
            self.faults.add("the process of EventSource ended")
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


async def _lines(stream: trio.abc.ReceiveStream) -> AsyncIterator[bytes]:
    rest = b""
    async for piece in stream:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line


async def _curl(url: str, said: Any) -> tuple[int, dict[str, Any]]:
    command = ["curl", "-sS", "--max-time", f"{CALL_SECONDS:g}", "-w", "\n%{http_code}", "--json", "@-", url]
    done = await trio.run_process(
        command, stdin=json.dumps(said).encode(), capture_stdout=True, capture_stderr=True, check=False
    )
    body, _, status = done.stdout.rpartition(b"\n")
    if done.returncode != 0:
        return 0, {}
    return int(status), _object(body)


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}  # of nginx
    return found if isinstance(found, dict) else {}
