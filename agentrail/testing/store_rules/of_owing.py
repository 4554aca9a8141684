"""Rules of what is owed to others, for stores that keep it: `OwedStore`. Any other store passes them all."""

from agentrail.abc.store import OwedRow, OwedStore
from agentrail.core.values.offered import offers
from agentrail.messages import SessionId
from agentrail.testing.store_rules.trial import StoreTrial, expect_same


def _row(name: str, body: bytes = b"{}", kind: str = "letter") -> OwedRow:
    return OwedRow(kind=kind, id=name, body=body)


def what_is_owed_is_kept_by_kind_and_id(trial: StoreTrial) -> None:
    """What is owed comes back byte for byte, in the order of its ids and in pages, of its own kind alone; the last of an id counts."""
    store = trial.store
    if not offers(store, OwedStore):
        return
    expect_same(store.owed("letter"), (), "what an empty store owes")
    store.change_owed([], [("letter", "a")])
    rows = [_row("a", b"\0\xff"), _row("b", b""), _row("c\0é", b"c")]
    store.change_owed([rows[2], rows[0], _row("a", b"other", "bill"), rows[1]])
    expect_same(store.owed("letter"), tuple(rows), "what is owed")
    expect_same(store.owed("letter", "a", 1), (rows[1],), "a page of it")
    expect_same(store.owed("letter", "c\0é"), (), "what stands behind the last one")
    expect_same(store.owed("letter", limit=0), (), "a page of none")
    expect_same(store.owed("bill"), (_row("a", b"other", "bill"),), "what is owed of another kind")
    again = _row("b", b"again")
    store.change_owed([again])
    expect_same(store.owed("letter", "a", 1), (again,), "a row that was put again")


def what_is_owed_changes_as_a_whole(trial: StoreTrial) -> None:
    """One call puts and drops, the latter last; and to drop what is not there, or to do it again, is fine."""
    store = trial.store
    if not offers(store, OwedStore):
        return
    store.change_owed([_row("a"), _row("b")])
    for _ in range(2):
        store.change_owed([_row("c"), _row("d")], [("letter", "a"), ("letter", "d"), ("letter", "never")])
    expect_same([row.id for row in store.owed("letter")], ["b", "c"], "what is owed")


def what_is_owed_outlives_its_session(trial: StoreTrial) -> None:
    """What is owed belongs to no session: it stays when one is deleted."""
    store = trial.store
    if not offers(store, OwedStore):
        return
    author = trial.begin("s", node="")
    store.change_owed([_row("s")])
    store.delete("", SessionId(author.session))
    expect_same(store.owed("letter"), (_row("s"),), "what is owed")


def what_is_owed_is_there_again(trial: StoreTrial) -> None:
    """Closed and opened again, the store owes what it owed."""
    if trial.reopen is None or not offers(trial.store, OwedStore):
        return
    trial.store.change_owed([_row("a"), _row("b", b"b")], [("letter", "a")])
    again = trial.reopen(trial.store)
    try:
        assert offers(again, OwedStore), "opened again, it keeps nothing that is owed"
        expect_same(again.owed("letter"), (_row("b", b"b"),), "what is owed")
    finally:
        again.close()
