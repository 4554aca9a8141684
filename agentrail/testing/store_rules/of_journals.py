"""Rules of what is written and read: numbers without gaps, records byte for byte, and appends that are repeated."""

import threading
from functools import partial
from typing import Final

import msgspec

from agentrail.abc.store import Standing
from agentrail.core.journal.record import NO_HASH, Tail
from agentrail.errors import AlreadyExists
from agentrail.messages import SessionId
from agentrail.testing.store_rules.trial import AT_MS, Author, StoreTrial, expect_error, expect_same

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
    """Bodies with any characters, NUL among them, and of a megabyte, come back; so do scopes and ids of any script."""
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
    expect_same(trial.store.get("tenant", SessionId("s")), None, "a session of a scope that is not there")


def bytes_of_a_body_are_not_read(trial: StoreTrial) -> None:
    """A body is bytes: spaces and the order of its fields stay, and numbers as large as they come."""
    author = trial.begin("s")
    trial.keep(author.write('{"b" : 1,\t"a":1}', '{"a":1.0,"a":123456789012345678901234567890}'))
    trial.expect_journal(author)
    at = {record.at_ms for record in trial.records("s")}
    expect_same(at, {AT_MS}, "the times of records")


def journals_are_read_in_pages(trial: StoreTrial) -> None:
    """Reading begins behind a number, ends at a limit, and is empty beyond the end."""
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
        expect_same([record.seq for record in page], numbers, f"the page behind {after}, of at most {limit}")


def numbers_have_no_gaps(trial: StoreTrial) -> None:
    """An append whose first number is not the next one is refused, and nothing of it is written."""
    author = trial.begin("s", "a")
    missed = author.write("lost")
    late = author.write("b", "c")
    (fenced,) = trial.refuse(late)
    expect_same(
        (fenced.session_id, fenced.durable_up_to), ("s", 2), "whom the refusal is for, and what is durable"
    )
    expect_same(trial.stored("s").tail.seq, 2, "the last number")
    trial.keep(missed)
    trial.keep(late)
    trial.expect_journal(author)


def a_number_is_given_once(trial: StoreTrial) -> None:
    """An append in whose place another record stands is refused, though its epoch is the newest; the first stays."""
    first = trial.begin("s", "a")
    second = Author("s", tail=first.tail)
    trial.keep(first.write("mine"))
    trial.refuse(second.write("yours"))
    other_hash = msgspec.structs.replace(first.records[-1], hash=NO_HASH)
    trial.refuse(msgspec.structs.replace(first.write("later"), records=(other_hash,)))
    first.records.pop()
    expect_same(trial.records("s"), tuple(first.records), "the journal")


def the_same_append_again_is_fine(trial: StoreTrial) -> None:
    """An append that is there already is told to be durable, changes nothing, and leaves how the session stands."""
    author = trial.begin("s")
    early = author.write("a", "b", standing=Standing(is_working=True, title="early"))
    late = author.write("c", standing=Standing(title="late"), events=4)
    trial.keep(early, late)
    before = trial.stored("s")
    for batch in ((early,), (late, late), (early, late), (late, early)):
        trial.keep(*batch)
        expect_same(trial.stored("s"), before, "what the store says of the session")
    trial.expect_journal(author)


def a_repeated_append_may_go_on(trial: StoreTrial) -> None:
    """An append of which the first records are there already adds those that are not, and its standing counts."""
    author = trial.begin("s")
    early = author.write("a", "b")
    trial.keep(early)
    more = author.write("c", "d", standing=Standing(title="more"))
    trial.keep(msgspec.structs.replace(more, records=early.records + more.records))
    trial.expect_journal(author)
    expect_same(trial.stored("s").standing.title, "more", "the title")


def the_same_opening_again_is_fine(trial: StoreTrial) -> None:
    """An opening that is there already changes nothing; with other records, or by another node, it is `AlreadyExists`."""
    author = Author("s")
    opening = author.opening("a", standing=Standing(title="first"))
    trial.store.create(opening)
    trial.store.create(opening)
    trial.keep(author.write("b", standing=Standing(title="second")))
    trial.store.create(opening)
    expect_same(trial.stored("s").standing.title, "second", "the title after an opening that was repeated")
    for what, other in (
        ("other records", Author("s").opening("b")),
        ("fewer records and others", Author("s").opening("c", "d")),
        ("another node", msgspec.structs.replace(opening, node="n2")),
    ):
        message = str(expect_error(AlreadyExists, partial(trial.store.create, other), what))
        assert "'s'" in message, f"the message does not name the session: {message}"
    trial.expect_journal(author)


def an_append_goes_in_whole_or_not_at_all(trial: StoreTrial) -> None:
    """Of an append of which one record cannot be written none is, wherever in it that one stands."""
    first = trial.begin("s", "a", "b")
    other = Author("s")
    opening = other.opening("a")
    mixed = other.write("another", "free", "free too", standing=Standing(title="wrong"))
    trial.refuse(mixed)
    trial.refuse(msgspec.structs.replace(mixed, records=opening.records + mixed.records))
    trial.expect_journal(first)
    expect_same(trial.stored("s").standing.title, "", "the title, after appends that were refused")


def sessions_of_a_batch_do_not_depend_on_each_other(trial: StoreTrial) -> None:
    """In a batch each session has its own answer: one that is refused, or is not there, keeps no other from being written."""
    authors = [trial.begin(name) for name in "abc"]
    elsewhere = trial.begin("a", scope="other")
    trial.store.take("", SessionId("b"), "n2", "gone", force=True)
    batch = [author.write(f"of {author.session}") for author in (*authors, elsewhere)]
    unknown = Author("unknown")
    unknown.opening()
    batch.insert(2, unknown.write("to none"))
    batch.insert(0, authors[1].write("of b too"))
    answers = trial.store.append(batch)
    expect_same(
        [one is None for one in answers],
        [False, True, False, False, True, True],
        f"which appends are durable, of {answers}",
    )
    expect_same([one and one.session_id for one in answers][2:4], ["b", "unknown"], "whom refusals are for")
    for author in (authors[0], authors[2], elsewhere):
        trial.expect_journal(author)
    expect_same(trial.store.append(()), (), "the answer to an empty batch")


def appends_of_one_session_go_in_order(trial: StoreTrial) -> None:
    """Several appends of one session in one batch are written in order; where one is refused all behind it are."""
    author = trial.begin("s")
    trial.keep(author.write("a"), author.write("b", "c"), author.write("d", standing=Standing(title="last")))
    trial.expect_journal(author)
    expect_same(trial.stored("s").standing.title, "last", "the title")
    other = Author("s", tail=Tail(seq=4, hash=author.records[3].hash))
    wrong = other.write("not d")
    trial.refuse(wrong, author.write("fits behind d"), other.write("behind what was refused"))
    expect_same([record.seq for record in trial.records("s")], [1, 2, 3, 4, 5], "the numbers that are there")


def readers_see_whole_journals_while_one_is_written(trial: StoreTrial) -> None:
    """Who reads from another thread while records are appended sees a beginning of the journal, without gaps."""
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
    expect_same(faults, [], "what readers saw")
    expect_same(ended, ["well"], "how the reader ended")
    trial.expect_journal(author)
