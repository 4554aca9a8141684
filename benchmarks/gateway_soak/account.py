"""What the soak of the gateway knows from outside of each session: what was sent, what was acknowledged, what each reader saw.

Pure, and an account of its own: nothing of agentrail is asked. It is held against what the server says when the session has come to rest.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs
from attrs import define

_NAME: Final = re.compile(r"m-[0-9a-z-]+")
MAX_FAULTS: Final = 20
"""Of one run: what is broken once is broken a thousand times."""

ACCEPTED_KINDS: Final = frozenset({"prompt_received", "prompt_queued", "steering_received"})
"""The events that say that a message was accepted."""


def names_in(text: str) -> list[str]:
    """Give the names of messages in a text."""
    return _NAME.findall(text)


@define
class SentMessage:
    """A message, as its sender knows it.

    Attributes:
        name: Stands in its text, and nowhere else.
        is_acknowledged: Whether the server said that it has it.
        seq: The number of the event that says so, where the server told.
        may_drop: Whether it may be taken out of the queue again, because its sender left and wanted that.
    """

    name: str
    is_acknowledged: bool = False
    seq: int | None = None
    may_drop: bool = False


@define
class SeenEvents:
    """The committed events of one session, as all its readers saw them.

    Attributes:
        digests: Of each number, what came: another reader, or the same one after the server was killed, has to see the same.
        kinds: Of each number.
    """

    digests: dict[int, int] = attrs.field(factory=dict)
    kinds: dict[int, str] = attrs.field(factory=dict)

    def see(self, number: int, kind: str, data: bytes) -> str | None:
        """Note an event; says what is wrong with it."""
        digest = zlib.crc32(data)
        before = self.digests.setdefault(number, digest)
        self.kinds.setdefault(number, kind)
        if before == digest:
            return None
        return f"event {number} was {self.kinds[number]}, and is {kind} now, or says something else"


@define
class ReaderPlace:
    """Where one reader stands.

    Attributes:
        last: The number of the last committed event that it was given.
    """

    last: int = 0

    def take(self, number: int) -> str | None:
        """Go on by one event; says what is wrong with it."""
        before, self.last = self.last, number
        if number == before + 1:
            return None
        return f"{'a double' if number <= before else 'a gap'}: event {number} came behind {before}"


@define
class SessionAccount:
    """One session.

    Attributes:
        session_id: Its id.
        sent: Its messages, by name.
        events: What was seen of it.
    """

    session_id: str
    sent: dict[str, SentMessage] = attrs.field(factory=dict)
    events: SeenEvents = attrs.field(factory=SeenEvents)

    def send(self, name: str, *, may_drop: bool = False) -> SentMessage:
        """Note that a message is sent."""
        return self.sent.setdefault(name, SentMessage(name, may_drop=may_drop))

    @property
    def acknowledged(self) -> int:
        """How many were."""
        return sum(one.is_acknowledged for one in self.sent.values())

    def faults(self, history: Iterable[Mapping[str, Any]], last_seq: int, read: int) -> list[str]:
        """Say what is wrong with a session that has come to rest.

        Args:
            history: Its messages, as the server shows them.
            last_seq: The number of its last event, as the server says.
            read: The number of the last event of one who read it from the beginning.
        """
        found = Counter(
            name for message in history if message["role"] == "user" for name in names_in(_text_of(message))
        )
        faults = [f"message {name} stands in the history {count} times" for name, count in found.items() if count > 1]  # fmt: skip
        faults += [f"message {name} was never sent" for name in found if name not in self.sent]
        for one in self.sent.values():
            if one.is_acknowledged and not one.may_drop and not found[one.name]:
                faults.append(f"message {one.name} was acknowledged, and is lost")
            if one.seq is not None and one.is_acknowledged:
                kind = self.events.kinds.get(one.seq)
                if kind not in ACCEPTED_KINDS:
                    faults.append(
                        f"message {one.name} was acknowledged with event {one.seq}, which is {kind}"
                    )
        if read != last_seq:
            faults.append(f"who reads all has {read} events, the server says {last_seq}")
        missing = [number for number in range(1, read + 1) if number not in self.events.digests]
        if missing:
            faults.append(f"events {missing[:5]} were given to no reader")
        return [f"session {self.session_id}: {fault}" for fault in faults]


def _text_of(message: Mapping[str, Any]) -> str:
    return " ".join(block.get("text", "") for block in message["content"] if isinstance(block, Mapping))


@define
class Faults:
    """What is wrong, so far; the first of them in words, and how many there are in all.

    Attributes:
        told: In words.
        count: All.
    """

    told: list[str] = attrs.field(factory=list)
    count: int = 0

    def add(self, fault: str) -> None:
        """Note one, and print the first of them as they come."""
        self.count += 1
        if len(self.told) < MAX_FAULTS:
            self.told.append(fault)
            print(f"FAULT: {fault}", flush=True)
