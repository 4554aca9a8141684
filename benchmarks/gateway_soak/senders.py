"""What users do: they send messages, leave in the middle, abort, and send again under the same name what got no answer."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import trio

from benchmarks.gateway_soak.account import ReaderPlace, SentMessage
from benchmarks.gateway_soak.client import OK, Answer, Lost, SseFrames
from benchmarks.gateway_soak.process import PATIENCE_SECONDS
from benchmarks.gateway_soak.readers import AGAIN, SoakReaders
from benchmarks.gateway_soak.run import Line, SoakRun

CALM_WORDS: Final = ("", "", "", "tool", "tool", "long")
WORDS: Final = (*CALM_WORDS, "broken", "fail", "fault")
"""What a message makes the server do; see `desk`."""

_ACCEPTED: Final = 202
_NEVER: Final = frozenset({500, 401, 404})


class SoakSenders:
    """All users of a run."""

    def __init__(self, run: SoakRun, readers: SoakReaders) -> None:
        """Send nothing yet."""
        self._run = run
        self._readers = readers

    async def act(self, line: Line, nursery: trio.Nursery) -> None:
        """Do one thing with a session; some of it goes on beside what comes next."""
        self._run.counts["messages"] += 1
        name = f"m-{line.account.session_id}-{self._run.counts['messages']}"
        how = self._run.rng.choices(
            [self._prompt, self._chat, self._stream, self._steer], [5, 3, 2, 1] if line.is_created else [0, 1, 1, 0]
        )[0]  # fmt: skip
        text = f"{name} {self._run.rng.choice(self._run.words)}"
        line.at_work += 1
        if line.is_created and self._run.chance(0.5):
            nursery.start_soon(self._work, line, how, name, text)
        else:
            await self._work(line, how, name, text)
        if line.is_created and self._run.chance(0.15):
            line.at_work += 1
            nursery.start_soon(self._work, line, self._abort, "", "")

    async def _work(self, line: Line, how: Callable[..., Any], name: str, text: str) -> None:
        try:
            await how(line, name, text)
        finally:
            line.at_work -= 1

    async def _prompt(self, line: Line, name: str, text: str) -> None:
        message = line.account.send(name)
        said = {"message": text, "client_id": name}
        answer = await self._sent(line, f"{line.path}/prompt", said)
        if self._acknowledge(line, message, answer):
            message.seq = answer.body["seq"]
            if self._run.chance(0.1):
                again = await self._sent(line, f"{line.path}/prompt", said)
                if (again.status, again.body.get("ref")) != (_ACCEPTED, answer.body["ref"]):
                    self._run.fault(
                        line, f"{name} sent again is {again.status} {again.body}, was {answer.body}"
                    )

    async def _chat(self, line: Line, name: str, text: str) -> None:
        message = line.account.send(name)
        said = {"message": text, "client_id": name, "session_id": line.account.session_id}
        answer = await self._sent(line, "/chat", said)
        self._acknowledge(line, message, answer)
        if answer.status == OK and not answer.body["text"].startswith("re m-"):
            self._run.fault(line, f"{name} was answered with {answer.body['text']!r:.100}")

    async def _steer(self, line: Line, name: str, text: str) -> None:
        message = line.account.send(
            name, may_drop=True
        )  # an abort takes back what the model has not read yet
        answer = await self._sent(line, f"{line.path}/steer", {"message": text, "client_id": name})
        if self._acknowledge(line, message, answer):
            message.seq = answer.body["seq"]

    async def _abort(self, line: Line, _name: str, _text: str) -> None:
        query = "?wait=true" if self._run.chance(0.5) else ""
        await self._sent(line, f"{line.path}/abort{query}", {"reason": "the soak changed its mind"})
        self._run.counts["aborts"] += 1

    async def _stream(self, line: Line, name: str, text: str) -> None:
        """Send a message and read its answer as it comes, or leave in the middle."""
        leaves = self._run.chance(0.5)
        then = self._run.rng.choice(["continue", "abort"]) if leaves else "continue"
        message = line.account.send(name, may_drop=then == "abort")
        said = {
            "message": text,
            "client_id": name,
            "session_id": line.account.session_id,
            "on_disconnect": then,
        }
        patience = self._run.rng.random() * 0.5 if leaves else PATIENCE_SECONDS
        while True:
            place = ReaderPlace(-1)  # sent again it begins anew
            with suppress(Lost):
                async with self._run.client.stream("POST", "/stream", line.user, said) as (answer, frames):
                    if answer.status in {OK, _ACCEPTED}:
                        self._note_acknowledged(line, message)
                        with trio.move_on_after(patience):
                            await self._watch(line, frames, place)
                        return
                if not self._is_again(line, "/stream", answer):
                    self._acknowledge(line, message, answer)
                    return
            await self._run.wait_up()

    async def _watch(self, line: Line, frames: SseFrames, place: ReaderPlace) -> None:
        """Read the stream of a request, to its end."""
        async for frame in frames:
            if frame.number is not None:
                self._readers.see(line, frame)
                if place.last < 0:
                    place.last = frame.number - 1
                self._readers.take(line, place, frame.number)

    async def _sent(self, line: Line, path: str, said: dict[str, Any]) -> Answer:
        """Send until there is an answer: what got none is sent again, under the same name."""
        while True:
            with suppress(Lost):
                answer = await self._run.client.call("POST", path, line.user, said)
                if not self._is_again(line, path, answer):
                    return answer
            self._run.counts["sent again"] += 1
            await self._run.wait_up()

    def _is_again(self, line: Line, path: str, answer: Answer) -> bool:
        """Say whether an answer asks for another try; what may never come is a fault."""
        if answer.status in _NEVER or answer.code in {"client_id_reused", "session_ended"}:
            self._run.fault(line, f"{path} was answered {answer.status} {answer.body}")
        return answer.status in AGAIN

    def _acknowledge(self, line: Line, message: SentMessage, answer: Answer) -> bool:
        """Note what an answer says of a message; whether it says that there is a receipt."""
        is_accepted = answer.status in {OK, _ACCEPTED}
        if is_accepted or "request_id" in answer.body.get("error", {}):
            self._note_acknowledged(line, message)
        else:
            self._run.counts[f"refused {answer.status} {answer.code}"] += 1
        return is_accepted

    def _note_acknowledged(self, line: Line, message: SentMessage) -> None:
        if not message.is_acknowledged:
            self._run.counts["acknowledged"] += 1
        message.is_acknowledged = line.is_created = True
