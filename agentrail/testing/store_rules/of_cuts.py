"""Rules of a connection that is cut: whatever was lost, a call or its answer, calling again comes to one result."""

import random
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from attrs import frozen

from agentrail.abc.store import Node, Standing, Store, Taken, TakeOver, take_all
from agentrail.core.journal.record import TAKEN, first_broken
from agentrail.errors import AgentrailError, Fenced, SessionNotFound, StoreUnavailable
from agentrail.messages import SessionId
from agentrail.testing.cut_store import Cut
from agentrail.testing.store_rules.trial import Author, StoreTrial, blob_name, expect_same, snapshot_behind

A = TypeVar("A")

_SEEDS: Final = range(12)
_CUT_RATE: Final = 0.45
_MAX_CUTS: Final = 60
_BLOB: Final = b"large" * 99
_ROOT: Final = SessionId("root")


@frozen
class _CutOnce:
    """Cuts the call of one number, counted from 0."""

    number: int
    cut: Cut
    seen: list[str]

    def __call__(self, name: str) -> Cut | None:
        self.seen.append(name)
        return self.cut if len(self.seen) == self.number + 1 else None


@frozen
class _CutByChance:
    """Cuts about half of all calls, for as long as that may take."""

    chance: random.Random
    seen: list[str]

    def __call__(self, name: str) -> Cut | None:
        self.seen.append(name)
        if len(self.seen) > _MAX_CUTS or self.chance.random() >= _CUT_RATE:
            return None
        return self.chance.choice(("before", "after"))


def a_call_that_was_cut_can_be_repeated(trial: StoreTrial) -> None:
    """Cut at any call of a life, before it took effect or after, and called again, the store comes to what it comes to uncut."""
    uncut = _CutOnce(-1, "before", [])
    _live(trial.cut(trial.store, uncut))
    expected = _outcome(trial.store)
    for number, name in enumerate(uncut.seen):
        for cut in ("before", "after"):
            store = trial.make()
            _live(trial.cut(store, _CutOnce(number, cut, [])))
            expect_same(
                _outcome(store), expected, f"the store, when call {number}, {name}, was cut {cut} its effect"
            )


def a_life_with_many_cuts_comes_to_the_same(trial: StoreTrial) -> None:
    """Cut at about half of all calls, again and again, the store comes to what it comes to uncut."""
    _live(trial.store)
    expected = _outcome(trial.store)
    for seed in _SEEDS:
        store = trial.make()
        _live(trial.cut(store, _CutByChance(random.Random(seed), [])))  # noqa: S311 - the same cuts each time
        expect_same(_outcome(store), expected, f"the store, with the cuts of seed {seed}")


def _again(call: Callable[[], A], done: type[AgentrailError] | None = None) -> A | None:
    """Call until an answer comes; `done` is the answer to what had taken effect when the connection was cut."""
    was_cut = False
    while True:
        try:
            return call()
        except StoreUnavailable:
            was_cut = True
        except AgentrailError as error:
            if not was_cut or done is None or not isinstance(error, done):
                raise
            return None


def _append(store: Store, author: Author, *bodies: str, title: str = "") -> None:
    one = author.write(*bodies, standing=Standing(is_working=True, title=title), events=len(author.records))
    expect_same(
        _again(lambda: store.append([one])), (None,), "the answer to an append, called again until one came"
    )


def _live(store: Store) -> None:
    """A life in which each call that writes is made."""
    root, child, gone = Author("root"), Author("child"), Author("gone")
    openings = (
        root.opening("a", blobs={blob_name(_BLOB): _BLOB}),
        child.opening(root="root", parent="root"),
        gone.opening("x"),
    )
    for opening in openings:
        _again(lambda opening=opening: store.create(opening))  # type: ignore[misc]
    _again(lambda: store.beat(Node(id="n1", address="http://a")))
    _append(store, root, "b", title="one")
    both = (root.write("c"), child.write("d"), root.write("e", standing=Standing(title="two")))
    expect_same(_again(lambda: store.append(both)), (None,) * 3, "the answer to appends of two sessions")
    shot = snapshot_behind(root.records[3])
    _again(lambda: store.put_snapshot(shot))
    _again(lambda: store.trim("", _ROOT, 3))
    taken = _again(lambda: store.take("", _ROOT, "n2", "gone", force=True))
    assert taken is not None
    wanted = [TakeOver(scope="", root=_ROOT, node="n2", cause="gone")]
    (again,) = _again(lambda: take_all(store, wanted)) or ()
    assert isinstance(again, Taken), f"taken again by its owner, and there came {again!r}"
    ends = {one.session: one.tail for one in again.sessions}
    for answer in _again(lambda: store.append(both)) or ():
        assert isinstance(answer, Fenced), f"an old owner's append was answered with {answer!r}"
    for name in ("root", "child"):
        new = Author(name, tail=ends[SessionId(name)])
        _append(store, new, "f", title="three")
        _append(store, new, "g", "h", title="four")
    _again(lambda: store.release("n1", "", SessionId("gone")))
    _again(lambda: store.delete("", SessionId("gone")), SessionNotFound)
    _again(lambda: store.release("n2", "", _ROOT))


def _outcome(store: Store) -> object:
    """What of a store is the same however often a call was repeated: all but the number of takeovers of one node."""
    sessions = []
    for one in store.find():
        records = store.read(one.scope, one.session, one.first_seq - 1)
        if one.first_seq == 1:
            expect_same(first_broken(records), None, f"the first number of {one.session!r} that does not fit")
        numbers = [record.seq for record in records]
        expect_same(numbers, list(range(one.first_seq, one.tail.seq + 1)), "the numbers")
        epochs = [record.epoch for record in records]
        expect_same(epochs, sorted(epochs), "the epochs")
        said = [(record.kind, record.body, record.does) for record in records if record.kind != TAKEN]
        assert any(record.kind == TAKEN for record in records), (
            f"{one.session!r} has no record of its takeover"
        )
        shots = [shot.seq for shot in store.snapshots(one.scope, one.session)]
        kept = (one.session, one.root, one.parent, one.node, one.first_seq, one.events, one.standing)
        sessions.append((kept, said, shots))
    nodes = [msgspec.structs.replace(node, seen_at_ms=0) for node in store.nodes()]
    return sessions, nodes, store.blob(blob_name(_BLOB))
