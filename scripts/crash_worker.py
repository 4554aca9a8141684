"""The process that `scripts.crash` kills: it says what it finds in a store, then writes journals of many sessions for ever.

Before each write it says what it tries, and afterwards that it is durable, so its reader knows both at any end.
"""

import hashlib
import json
import os
import random
import struct
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from agentrail.abc.store import Append, Filters, Node, Opening, Standing, Store, StoredSession, StoredSnapshot
from agentrail.core.journal.record import OPENED, TAKEN, Draft, Record, Tail, TakenBody, first_broken, sealed
from agentrail.messages import SessionId
from scripts.crash_account import (
    Dropped,
    Drops,
    Durable,
    Failed,
    Found,
    Frame,
    Line,
    Looked,
    Ran,
    Ready,
    Takes,
    Took,
    Tries,
)

OpenStore: TypeAlias = Callable[[Path], Store]

LENGTH: Final = struct.Struct(">I")
"""In front of each frame."""

_MAX_TREES: Final = 10
_MAX_RECORDS: Final = 400
_AT_MS: Final = 1_790_000_000_000
_BLOB_RATE: Final = 0.06
_LEAST_TO_TRIM: Final = 12


def sayer(pipe: int) -> Callable[[Frame], None]:
    """Give what says something on a pipe, and returns when it is said."""

    def say(frame: Frame) -> None:
        encoded = msgspec.msgpack.encode(frame)
        rest = memoryview(LENGTH.pack(len(encoded)) + encoded)
        while rest:
            rest = rest[os.write(pipe, rest) :]

    return say


def work(pipe: int, open_store: OpenStore, path: Path, seed: str) -> None:
    """Work on a store until killed.

    Args:
        pipe: Where it says what it does.
        open_store: Opens the store.
        path: Where it is.
        seed: What it writes is drawn from it.
    """
    say = sayer(pipe)
    try:
        Worker(open_store(path), say, seed).run()
    except BaseException:
        say(Failed(traceback.format_exc()))
        raise


class Worker:
    """A node that owns all sessions of a store."""

    def __init__(self, store: Store, say: Callable[[Frame], None], seed: str) -> None:
        """Own the sessions of a store."""
        self._store = store
        self._say = say
        self._chance = random.Random(seed)  # noqa: S311 - the same work again
        self._node = f"node-{seed}"
        self._tails: dict[SessionId, Tail] = {}
        self._trees: dict[SessionId, list[SessionId]] = {}
        self._last: dict[SessionId, Record] = {}
        self._open: list[tuple[SessionId, str, str]] = []
        self._groups = self._chance.randrange(2**60)
        self._made = 0

    def run(self) -> None:
        """Say what is there, take it, and go on with it; it ends with the process."""
        self._find()
        self._say(Looked())
        self._store.beat(Node(id=self._node, pid=os.getpid()))
        self._take_all()
        self._say(Ready())
        steps = (
            *(self._append,) * 12,
            *(self._run_tools,) * 4,
            *(self._begin, self._put_snapshot, self._trim, self._delete),
        )
        while True:
            self._chance.choice(steps)()

    # --- what is there

    def _find(self) -> None:
        after: tuple[str, str] | None = None
        while page := self._store.find(after=after):
            for one in page:
                self._say(self._found(one))
            after = (page[-1].scope, page[-1].session)

    def _found(self, one: StoredSession) -> Found:
        records = self._store.read("", one.session, one.first_seq - 1, 1_000_000)
        # Where it was trimmed the hash before the first record is gone, and that one stands for it.
        known = None if one.first_seq == 1 else records[0]
        before = Tail() if known is None else Tail(seq=known.seq, epoch=known.epoch, hash=known.hash)
        operations: dict[str, int] = {}
        kinds: dict[str, str] = {}
        lacks: list[str] = []
        for record in records:
            body = msgspec.json.decode(record.body)
            if record.kind == "called":
                operations.setdefault(body["operation"], 0)
                kinds[body["operation"]] = body["class"]
            elif record.kind == "finished":
                operations[body["operation"]] = operations.get(body["operation"], 0) + 1
            if (digest := body.get("$blob")) and not self._has(digest):
                lacks.append(digest)
        self._open += [(one.session, name, kinds[name]) for name, count in operations.items() if not count]
        self._trees.setdefault(one.root, []).append(one.session)
        return Found(
            session=one.session,
            root=one.root,
            first=one.first_seq,
            lines=tuple(map(_line, records)),
            takers={
                r.seq: msgspec.json.decode(r.body, type=TakenBody).node for r in records if r.kind == TAKEN
            },
            operations=operations,
            title=one.standing.title,
            broken=first_broken(records[0 if known is None else 1 :], before) or 0,
            lacks=tuple(lacks),
        )

    def _has(self, digest: str) -> bool:
        content = self._store.blob(digest)
        return content is not None and hashlib.sha256(content).hexdigest() == digest

    def _take_all(self) -> None:
        for one in self._store.find(Filters(only_roots=True), limit=1_000_000):
            self._say(Takes(self._node, one.session))
            for taken in self._store.take("", one.session, self._node, "gone", force=True).sessions:
                self._say(Took(taken.session, (taken.tail.seq, taken.tail.epoch, taken.tail.hash)))
                self._tails[taken.session] = taken.tail
        # What ran when the last process ended: once is once, and what may run again does.
        for session, operation, effect_class in self._open:
            if effect_class == "idempotent":
                self._say(Ran(session, operation, effect_class))
            self._write([(session, [_tool("finished", operation, effect_class)])])
        self._open.clear()

    # --- what is done

    def _begin(self) -> None:
        if len(self._trees) >= _MAX_TREES:
            return
        self._made += 1
        session = SessionId(f"{self._node}-{self._made}")
        root = self._chance.choice([session, *self._trees])
        first = Draft(at_ms=_AT_MS, kind=OPENED, body=b"{}")
        drafts = [first, *(self._draft() for _ in range(self._chance.randrange(3)))]
        records, tail = sealed(drafts, Tail(), scope="", session=session)
        opening = Opening(
            records=records,
            root=root,
            parent="" if root == session else root,
            node=self._node,
            standing=Standing(title=str(tail.seq)),
        )
        group = self._try(records, "")
        self._store.create(opening)
        self._say(Durable((group,)))
        self._tails[session] = tail
        self._trees.setdefault(root, []).append(session)

    def _append(self) -> None:
        """Append to some sessions in one batch, to some of them more than once."""
        if not self._tails:
            self._begin()
            return
        chosen = self._chance.choices(list(self._tails), k=self._chance.randint(1, 6))
        self._write([(one, [self._draft() for _ in range(self._chance.randint(1, 5))]) for one in chosen])

    def _run_tools(self) -> None:
        """Let some sessions call a tool: it runs when the record that names the call is durable, and never before."""
        if not self._tails:
            return
        calls: list[tuple[SessionId, str, str]] = []
        for session in self._chance.choices(list(self._tails), k=self._chance.randint(1, 3)):
            self._made += 1
            effect_class = self._chance.choice(("once", "idempotent"))
            calls.append((session, f"{self._node}-op{self._made}", effect_class))
        self._write([(session, [_tool("called", *call)]) for session, *call in calls])
        for session, operation, effect_class in calls:
            self._say(Ran(session, operation, effect_class))
        self._write([(session, [_tool("finished", *call)]) for session, *call in calls])

    def _write(self, work_of: list[tuple[SessionId, list[Draft]]]) -> None:
        batch: list[Append] = []
        groups: list[int] = []
        for session, drafts in work_of:
            blobs: dict[str, bytes] = {}
            if self._chance.random() < _BLOB_RATE:
                content = self._chance.randbytes(self._chance.randint(1, 100_000))
                digest = hashlib.sha256(content).hexdigest()
                blobs[digest] = content
                drafts.append(Draft(at_ms=_AT_MS, kind="heard", body=_json({"$blob": digest})))
            records, self._tails[session] = sealed(drafts, self._tails[session], scope="", session=session)
            self._last[session] = records[-1]
            groups.append(self._try(records, next(iter(blobs), "")))
            batch.append(Append(records=records, standing=Standing(title=str(records[-1].seq)), blobs=blobs))
        if any(answer is not None for answer in self._store.append(batch)):
            message = f"{self._node} owns all sessions, and one of its appends was refused"
            raise AssertionError(message)
        self._say(Durable(tuple(groups)))

    def _try(self, records: tuple[Record, ...], blob: str) -> int:
        self._groups += 1
        self._say(Tries(self._groups, records[0].session, tuple(map(_line, records)), blob))
        return self._groups

    def _draft(self) -> Draft:
        text = "x" * self._chance.choice((0, 20, 300, 300, 5_000))
        return Draft(
            at_ms=_AT_MS, kind="prompt", body=_json({"text": text, "n": self._chance.random()}), does="reply"
        )

    def _put_snapshot(self) -> None:
        if self._last:
            record = self._chance.choice(list(self._last.values()))
            state = self._chance.randbytes(500)
            check = hashlib.blake2b(record.hash + state, digest_size=16).digest()
            self._store.put_snapshot(
                StoredSnapshot(
                    scope="",
                    session=record.session,
                    seq=record.seq,
                    hash=record.hash,
                    state=state,
                    check=check,
                )
            )

    def _trim(self) -> None:
        """Drop the older part of a long journal, up to a snapshot that is put there."""
        session = next((one for one, tail in self._tails.items() if tail.seq > _MAX_RECORDS), None)
        if session is None or (last := self._last.get(session)) is None:
            return
        check = hashlib.blake2b(last.hash, digest_size=16).digest()
        self._store.put_snapshot(
            StoredSnapshot(scope="", session=session, seq=last.seq, hash=last.hash, state=b"", check=check)
        )
        before = last.seq - _LEAST_TO_TRIM
        self._say(Drops(session, session, before))
        self._store.trim("", session, before)
        self._say(Dropped(session, before))

    def _delete(self) -> None:
        if len(self._trees) < _MAX_TREES:
            return
        root = self._chance.choice(list(self._trees))
        names = self._trees.pop(root)
        for name in names:
            self._say(Drops(name, root))
            self._tails.pop(name)
            self._last.pop(name, None)
        self._store.release(self._node, "", root)
        self._store.delete("", root)
        for name in names:
            self._say(Dropped(name))


def _line(record: Record) -> Line:
    return record.seq, record.epoch, record.hash


def _tool(kind: str, operation: str, effect_class: str) -> Draft:
    return Draft(at_ms=_AT_MS, kind=kind, body=_json({"operation": operation, "class": effect_class}))


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
