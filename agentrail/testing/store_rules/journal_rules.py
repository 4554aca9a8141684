"""Rules of journals: numbers without gaps, records byte for byte, also over a connection that is cut."""

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from attrs import frozen
from msgspec.structs import replace

from agentrail.abc.store import Node, Standing, Store, Taken, TakeOver, take_all
from agentrail.core.journal.record import NO_HASH, TAKEN, Tail, first_broken
from agentrail.errors import AgentrailError, AlreadyExists, Fenced, SessionNotFound, StoreUnavailable
from agentrail.messages import SessionId
from agentrail.testing.faulty_store import Cut
from agentrail.testing.rule_failures import expect_error, expect_same
from agentrail.testing.store_rules.trial import AT_MS, Author, StoreTrial, blob_name, snapshot_behind

_READER_SECONDS: Final = 30.0


def records_come_back_as_they_were_written(trial: StoreTrial) -> None:
    """Records are read as they were written, field for field and byte for byte, and chained by their hashes."""
    author = trial.begin("s", "a", scope="team")
    trial.keep(author.write("b", "c", events=2**40))
    trial.keep(author.write("d", events=2**40 + 1))
    trial.expect_journal(author)
    found = trial.stored("s", "team")
    expect_same(
        (found.events, found.first_seq, found.scope), (2**40 + 1, 1, "team"), "last event, first number"
    )


def any_text_is_kept(trial: StoreTrial) -> None:
    """Bodies with any characters, including NUL, and of a megabyte, are returned, and so are scopes and ids of any script."""
    hard = (
        "",
        "\0",
        '{"a":"\0\\u0000"}',
        "é\u2028😀\ufeff\U0010ffff",
        "'; drop table record; --",
        "x" * 2**20,
    )
    for session in ("s", "S", "ä/ö?%_*", "😀", "a' or ''='", "x" * 200):
        for scope in ("", "tenant-Ä '%"):
            trial.keep(trial.begin(session, *hard[:2], scope=scope).write(*hard))
    for session in ("s", "S", "ä/ö?%_*", "😀", "a' or ''='", "x" * 200):
        author = Author(session, scope="tenant-Ä '%")
        author.opening(*hard[:2])
        author.write(*hard)
        trial.expect_journal(author)
    expect_same(trial.store.get("tenant", SessionId("s")), None, "a session of an unknown scope")


def bytes_of_a_body_are_not_read(trial: StoreTrial) -> None:
    """A body is bytes: spaces and the order of its fields stay, and numbers of any size."""
    author = trial.begin("s")
    trial.keep(author.write('{"b" : 1,\t"a":1}', '{"a":1.0,"a":123456789012345678901234567890}'))
    trial.expect_journal(author)
    at = {record.at_ms for record in trial.records("s")}
    expect_same(at, {AT_MS}, "the times of records")


def journals_are_read_in_pages(trial: StoreTrial) -> None:
    """Reading starts after a number, ends at a limit, and is empty beyond the end."""
    author = trial.begin("s", *"abcdefghi")
    for after, limit, numbers in (
        (0, 3, [1, 2, 3]),
        (3, 3, [4, 5, 6]),
        (9, 3, [10]),
        (10, 3, []),
        (99, 3, []),
        (2, 0, []),
        (0, 99, list(range(1, 11))),
    ):
        page = trial.store.read("", author.session, after, limit)
        expect_same([record.seq for record in page], numbers, f"the page after {after}, of at most {limit}")


def numbers_have_no_gaps(trial: StoreTrial) -> None:
    """An append whose first number is above the next one is `JournalBehind`, with the store's last number and the missing one."""
    author = trial.begin("s", "a")
    missed = author.write("lost")
    late = author.write("b", "c")
    (behind,) = trial.find_behind(late)
    expect_same(
        (behind.session_id, behind.have, behind.acknowledged),
        ("s", 2, 3),
        "the refused session, the durable records, and the number before the append",
    )
    expect_same(trial.stored("s").tail.seq, 2, "the last number")
    trial.keep(missed)
    trial.keep(late)
    trial.expect_journal(author)


def a_number_is_given_once(trial: StoreTrial) -> None:
    """An append whose number has another record is refused, though its epoch is the newest. The first record stays."""
    first = trial.begin("s", "a")
    second = Author("s", tail=first.tail)
    trial.keep(first.write("mine"))
    trial.refuse(second.write("yours"))
    other_hash = replace(first.records[-1], hash=NO_HASH)
    trial.refuse(replace(first.write("later"), records=(other_hash,)))
    first.records.pop()
    expect_same(trial.records("s"), tuple(first.records), "the journal")


def the_same_append_again_is_fine(trial: StoreTrial) -> None:
    """A repeated append is reported as durable, changes nothing, and keeps the session's standing."""
    author = trial.begin("s")
    early = author.write("a", "b", standing=Standing(is_working=True, title="early"))
    late = author.write("c", standing=Standing(title="late"), events=4)
    trial.keep(early, late)
    before = trial.stored("s")
    for batch in ((early,), (late, late), (early, late), (late, early)):
        trial.keep(*batch)
        expect_same(trial.stored("s"), before, "the stored facts of the session")
    trial.expect_journal(author)


def a_repeated_append_may_go_on(trial: StoreTrial) -> None:
    """An append whose first records exist already adds the others, and its standing counts."""
    author = trial.begin("s")
    early = author.write("a", "b")
    trial.keep(early)
    more = author.write("c", "d", standing=Standing(title="more"))
    trial.keep(replace(more, records=early.records + more.records))
    trial.expect_journal(author)
    expect_same(trial.stored("s").standing.title, "more", "the title")


def the_same_opening_again_is_fine(trial: StoreTrial) -> None:
    """A repeated opening changes nothing. With other records, or by another node, it is `AlreadyExists`."""
    author = Author("s")
    opening = author.opening("a", standing=Standing(title="first"))
    trial.store.create(opening)
    trial.store.create(opening)
    trial.keep(author.write("b", standing=Standing(title="second")))
    trial.store.create(opening)
    expect_same(trial.stored("s").standing.title, "second", "the title after a repeated opening")
    for what, other in (
        ("other records", Author("s").opening("b")),
        ("fewer and different records", Author("s").opening("c", "d")),
        ("another node", replace(opening, node="n2")),
    ):
        message = str(expect_error(AlreadyExists, partial(trial.store.create, other), what))
        assert "'s'" in message, f"the message does not name the session: {message}"
    trial.expect_journal(author)


def an_append_goes_in_whole_or_not_at_all(trial: StoreTrial) -> None:
    """If one record of an append cannot be written, none is, whatever its position."""
    first = trial.begin("s", "a", "b")
    other = Author("s")
    opening = other.opening("a")
    mixed = other.write("another", "free", "free too", standing=Standing(title="wrong"))
    trial.refuse(mixed)
    trial.refuse(replace(mixed, records=opening.records + mixed.records))
    trial.expect_journal(first)
    expect_same(trial.stored("s").standing.title, "", "the title after refused appends")


def sessions_of_a_batch_do_not_depend_on_each_other(trial: StoreTrial) -> None:
    """In a batch each session has its own answer: a refused or missing one does not prevent writing the others."""
    authors = [trial.begin(name) for name in "abc"]
    elsewhere = trial.begin("a", scope="other")
    trial.store.take("", SessionId("b"), "n2", "gone", force=True)
    batch = [author.write(f"of {author.session}") for author in (*authors, elsewhere)]
    unknown = Author("unknown")
    unknown.opening()
    batch.insert(2, unknown.write("to none"))
    batch.insert(0, authors[1].write("durable records of b"))
    answers = trial.store.append(batch)
    expect_same(
        [one is None for one in answers],
        [False, True, False, False, True, True],
        f"the durable appends among {answers}",
    )
    expect_same([one and one.session_id for one in answers][2:4], ["b", "unknown"], "the refused sessions")
    for author in (authors[0], authors[2], elsewhere):
        trial.expect_journal(author)
    expect_same(trial.store.append(()), (), "the answer to an empty batch")


def appends_of_one_session_go_in_order(trial: StoreTrial) -> None:
    """Several appends of one session in one batch are written in order. If one is refused, all later ones are."""
    author = trial.begin("s")
    trial.keep(author.write("a"), author.write("b", "c"), author.write("d", standing=Standing(title="last")))
    trial.expect_journal(author)
    expect_same(trial.stored("s").standing.title, "last", "the title")
    other = Author("s", tail=Tail(seq=4, hash=author.records[3].hash))
    wrong = other.write("not d")
    trial.refuse(
        wrong, author.write("an append that fits after d"), other.write("an append after a refused one")
    )
    expect_same([record.seq for record in trial.records("s")], [1, 2, 3, 4, 5], "the existing numbers")


def readers_see_whole_journals_while_one_is_written(trial: StoreTrial) -> None:
    """A concurrent reader in another thread sees a prefix of the journal, without gaps."""
    author = trial.begin("s")
    has_read = threading.Event()
    is_over = threading.Event()

    faults: list[str] = []
    ended: list[str] = []

    def read() -> None:
        longest = 0
        is_last = False
        while not is_last and not faults:
            is_last = is_over.is_set()
            records = trial.store.read("", author.session, 0, 10_000)
            shown = trial.stored("s").tail.seq
            has_read.set()
            if [one.seq for one in records] != list(range(1, len(records) + 1)):
                faults.append(f"a reader saw the numbers {[one.seq for one in records]}")
            if not longest <= len(records) <= shown:
                faults.append(
                    f"a reader saw {longest} records, then {len(records)}, and {shown} as the last number"
                )
            longest = len(records)
        ended.append("well")

    reader = threading.Thread(target=read)
    reader.start()
    try:
        has_read.wait(_READER_SECONDS)
        for _ in range(50):
            trial.keep(author.write("a", "b"))
    finally:
        is_over.set()
        reader.join(_READER_SECONDS)
    expect_same(faults, [], "the records that readers saw")
    expect_same(ended, ["well"], "the outcome of the reader")
    trial.expect_journal(author)


# Cut connections.

A = TypeVar("A")

_SEEDS: Final = range(12)
_CUT_RATE: Final = 0.45
_MAX_CUTS: Final = 60
_BLOB: Final = b"large" * 99
_ROOT: Final = SessionId("root")


@frozen
class _CutOnce:
    """Cuts the call with one number, counted from 0."""

    number: int
    cut: Cut
    seen: list[str]

    def __call__(self, name: str) -> Cut | None:
        self.seen.append(name)
        return self.cut if len(self.seen) == self.number + 1 else None


@frozen
class _CutByChance:
    chance: random.Random
    seen: list[str]

    def __call__(self, name: str) -> Cut | None:
        self.seen.append(name)
        if len(self.seen) > _MAX_CUTS or self.chance.random() >= _CUT_RATE:
            return None
        return self.chance.choice(("before", "after"))


def a_call_that_was_cut_can_be_repeated(trial: StoreTrial) -> None:
    """If any call of a life is cut, before or after its effect, and repeated, the final store is the same as without a cut."""
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
            store.close()  # or a database runs out of connections


def a_life_with_many_cuts_comes_to_the_same(trial: StoreTrial) -> None:
    """If about half of all calls are cut, repeatedly, the final store is the same as without a cut."""
    _live(trial.store)
    expected = _outcome(trial.store)
    for seed in _SEEDS:
        store = trial.make()
        _live(trial.cut(store, _CutByChance(random.Random(seed), [])))  # noqa: S311 - the same cuts each time
        expect_same(_outcome(store), expected, f"the store, with the cuts of seed {seed}")
        store.close()


def _again(call: Callable[[], A], done: type[AgentrailError] | None = None) -> A | None:
    """Repeat a call until it is answered. `done` is the error of a call that took effect before the cut."""
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
        _again(lambda: store.append([one])), (None,), "the answer to an append, retried until one came"
    )


def _live(store: Store) -> None:
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
    assert isinstance(again, Taken), f"taken again by its owner, got {again!r}"
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
    """Return the content of a store that is independent of repeated calls: all except the number of takeovers of one node."""
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
    nodes = [replace(node, seen_at_ms=0) for node in store.nodes()]
    return sessions, nodes, store.blob(blob_name(_BLOB))
