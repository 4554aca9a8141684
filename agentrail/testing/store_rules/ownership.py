"""Rules of ownership: the fence, trees that are taken together, and leases."""

from functools import partial

from msgspec.structs import replace

from agentrail.abc.store import Append, Cause, Node, Standing, Taken, TakeOver, take_all
from agentrail.core.journal.record import TAKEN, decode_taken
from agentrail.errors import Fenced, HeldBy, OptionError, SessionNotFound
from agentrail.messages import SessionId
from agentrail.testing.rule_failures import expect_error, expect_same
from agentrail.testing.store_rules.trial import Author, StoreTrial, session_ids


def take(
    trial: StoreTrial, root: str, node: str = "n2", *, cause: Cause = "gone", force: bool = False
) -> Taken:
    """Take a tree without a scope. The result must equal the store's data about each session."""
    taken = trial.store.take("", SessionId(root), node, cause, force=force)
    for one in taken.sessions:
        expect_same(trial.stored(one.session), one, f"the stored facts of {one.session!r} after it was taken")
    return taken


def an_old_owner_is_refused(trial: StoreTrial) -> None:
    """After a takeover, the next append of the old owner is `Fenced`, with the last number of its own that is durable."""
    old = trial.begin("s", "a", "b")
    (stored,) = take(trial, "s").sessions
    new = Author("s", tail=stored.tail)
    (fenced,) = trial.refuse(old.write("too late"))
    expect_same(
        (fenced.session_id, fenced.durable_up_to), ("s", 3), "the refused session, and the durable records"
    )
    trial.keep(new.write("c", "d"))
    (again,) = trial.refuse(old.write("later still"))
    expect_same(again.durable_up_to, 3, "durable records of the old owner")
    expect_same([record.epoch for record in trial.records("s")], [1, 1, 1, 2, 2, 2], "the epochs")
    expect_same(trial.records("s")[4:], tuple(new.records), "records of the new owner")


def a_repeated_append_of_an_old_owner_is_refused(trial: StoreTrial) -> None:
    """After a takeover, even a durable append of the old owner is refused when repeated: otherwise it would continue to work."""
    author = Author("s")
    opening = author.opening("a")
    trial.store.create(opening)
    one, two = author.write("b"), author.write("c", "d")
    trial.keep(one, two)
    (stored,) = take(trial, "s").sessions
    for batch in ((one,), (two,), (one, two)):
        for fenced in trial.refuse(*batch):
            expect_same(fenced.durable_up_to, 5, "durable records of the old owner")
    again = expect_error(Fenced, partial(trial.store.create, opening), "the opening again")
    expect_same(again.durable_up_to, 5, "durable records of the old owner")
    expect_same(trial.stored("s"), stored, "the stored facts of the session")


def what_an_old_owner_has_queued_is_refused(trial: StoreTrial) -> None:
    """After a takeover, none of the old owner's queued records is stored, whatever their numbers, singly or together."""
    old = trial.begin("s", "a")
    queued = [old.write(f"queued {number}") for number in range(20)]
    (stored,) = take(trial, "s").sessions
    new = Author("s", tail=stored.tail)
    for one in queued:
        trial.refuse(one)
    trial.refuse(*queued)
    trial.refuse(replace(queued[0], records=tuple(r for one in queued for r in one.records)))
    trial.keep(new.write("b", "c"))
    trial.refuse(*queued)
    for one in queued:
        trial.refuse(one)
    expect_same([record.epoch for record in trial.records("s")], [1, 1, 2, 2, 2], "the epochs")


def an_epoch_that_was_never_given_is_refused(trial: StoreTrial) -> None:
    """An append with a higher epoch than the newest is `JournalBehind`: only `take` gives epochs, so the store lost that `taken` record."""
    author = trial.begin("s")
    ahead = Author("s", tail=replace(author.tail, epoch=2))
    trial.find_behind(ahead.write("a"))
    trial.keep(author.write("b"))
    trial.find_behind(ahead.write("c"))
    trial.expect_journal(author)


def a_takeover_is_written_down(trial: StoreTrial) -> None:
    """A `taken` record follows in the chain: node and cause, the next epoch, the time of the store, the last event's number. No node: no owner."""
    author = trial.begin("s", standing=Standing(is_working=True, waits_for=2, title="t"))
    trial.keep(author.write("a", events=7, standing=Standing(is_working=True, waits_for=1, title="t")))
    causes: tuple[Cause, ...] = ("start", "lease_over", "gone", "drain", "restored")
    for epoch, cause in enumerate(causes, start=2):
        start = trial.store.now_ms()
        (stored,) = take(trial, "s", f"n{epoch}", cause=cause).sessions
        record = trial.records("s")[-1]
        expect_same(
            (record.kind, record.seq, record.epoch, record.events), (TAKEN, epoch + 1, epoch, 7), "the record"
        )
        assert start <= record.at_ms <= trial.store.now_ms(), f"{record.at_ms} is not a time of the store"
        body = decode_taken(record.body)
        expect_same((body.node, body.cause), (f"n{epoch}", cause), "node and cause")
        expect_same((stored.node, stored.tail.hash), (f"n{epoch}", record.hash), "owner and end")
        expect_same((stored.standing.waits_for, stored.events), (1, 7), "its status, and its last event")
    (freed,) = take(trial, "s", "", cause="restored", force=True).sessions
    expect_same((freed.node, freed.tail.epoch), ("", 7), "owner and epoch after it was taken by none")
    expect_same(session_ids(trial.store.orphans()), ["s"], "sessions without an owner")


def a_tree_is_taken_together(trial: StoreTrial) -> None:
    """Root and descendants are taken together, the root first. Ended sessions get no record, and other trees are unchanged."""
    for session, root in (("r", "r"), ("a", "r"), ("b", "a"), ("other", "other")):
        parent = {"a": "r", "b": "a"}.get(session, "")
        trial.begin(session, root={"b": "r"}.get(session, root), parent=parent)
    trial.begin("ended", root="r", parent="r", standing=Standing(has_ended=True))
    trial.begin("r", scope="elsewhere")
    before = [trial.stored("other"), trial.stored("r", "elsewhere")]
    taken = take(trial, "r").sessions
    expect_same(
        (taken[0].session, sorted(session_ids(taken))), ("r", ["a", "b", "r"]), "the sessions, the root first"
    )
    expect_same({(one.node, one.tail.epoch, one.tail.seq) for one in taken}, {("n2", 2, 2)}, "each of them")
    expect_same([trial.stored("ended").tail.seq, len(trial.records("ended"))], [1, 1], "the ended sessions")
    expect_same([trial.stored("other"), trial.stored("r", "elsewhere")], before, "other trees")


def an_ended_root_is_given_as_it_stands(trial: StoreTrial) -> None:
    """An ended root gets no record, and is returned nevertheless, before its descendants."""
    root = trial.begin("r", standing=Standing(has_ended=True))
    trial.begin("a", root="r", parent="r")
    taken = take(trial, "r").sessions
    expect_same(session_ids(taken), ["r", "a"], "the sessions, the root first")
    first, second = taken
    expect_same(first.tail, root.tail, "the root")
    expect_same(second.tail.epoch, 2, "the epoch of its child")
    trial.expect_journal(root)


def a_living_owner_keeps_its_tree(trial: StoreTrial) -> None:
    """A node with a beat within the lease holds its trees: `HeldBy` with its address. After the lease it does not."""
    trial.begin("s")
    trial.begin("child", root="s", parent="s")
    trial.store.beat(Node(id="n1", address="http://10.0.0.7:8700"))
    held = expect_error(HeldBy, partial(take, trial, "s", cause="lease_over"), "taking from a live owner")
    expect_same((held.node, held.address), ("n1", "http://10.0.0.7:8700"), "its owner and address")
    assert held.seen_ago_ms >= 0, f"{held.seen_ago_ms} ms ago is in the future"
    expect_same(
        [len(trial.records(name)) for name in ("s", "child")],
        [1, 1],
        "records of a session that was not taken",
    )
    take(trial, "s", "n1", cause="start")
    expect_same(trial.stored("child").tail.epoch, 2, "the epoch, when its own owner takes it")
    trial.pass_lease()
    taken = take(trial, "s", cause="lease_over").sessions
    expect_same(
        {(one.node, one.tail.epoch) for one in taken}, {("n2", 3)}, "owner and epoch, after the lease"
    )


def a_beat_begins_the_lease_anew(trial: StoreTrial) -> None:
    """A new beat renews a node's hold on the trees it still owns. A node without any beat holds no tree."""
    trial.begin("s")
    trial.store.beat(Node(id="n1"))
    trial.pass_lease()
    trial.store.beat(Node(id="n1"))
    expect_error(HeldBy, partial(take, trial, "s"), "taking from an owner that is alive again")
    trial.begin("t", node="never heard of")
    take(trial, "t")


def force_takes_from_the_living(trial: StoreTrial) -> None:
    """With `force` a living owner is fenced too."""
    old = trial.begin("s")
    trial.store.beat(Node(id="n1"))
    (stored,) = take(trial, "s", force=True).sessions
    expect_same((stored.node, stored.tail.epoch), ("n2", 2), "owner and epoch")
    trial.refuse(old.write("a"))


def a_tree_is_released_by_its_owner(trial: StoreTrial) -> None:
    """A tree released by its owner has none, and is taken without waiting. Another node, or a child, cannot release it."""
    trial.begin("s")
    trial.begin("child", root="s", parent="s")
    other = trial.begin("other")
    trial.store.beat(Node(id="n1"))
    trial.store.release("n2", "", SessionId("s"))
    trial.store.release("n1", "", SessionId("unknown"))
    trial.store.release("n1", "elsewhere", SessionId("s"))
    trial.store.release("n1", "", SessionId("child"))
    expect_same([trial.stored(name).node for name in ("s", "child")], ["n1", "n1"], "the owner of both")
    trial.store.release("n1", "", SessionId("s"))
    expect_same([trial.stored(name).node for name in ("s", "child")], ["", ""], "the owner of both")
    expect_same(trial.stored("other").node, "n1", "the owner of another tree")
    take(trial, "s")
    trial.store.release("n1", "", SessionId("s"))
    expect_same(trial.stored("s").node, "n2", "the owner after an old one releases it")
    trial.expect_journal(other)


def only_roots_are_taken(trial: StoreTrial) -> None:
    """An unknown session is `SessionNotFound`. A child is `OptionError`, which names the root."""
    trial.begin("the-root")
    trial.begin("child", root="the-root", parent="the-root")
    error = expect_error(OptionError, partial(take, trial, "child"), "taking a child")
    assert "the-root" in str(error), f"the message does not name the root: {error}"
    for scope, name in (("", "unknown"), ("elsewhere", "the-root")):
        call = partial(trial.store.take, scope, SessionId(name), "n2", "gone")
        missing = expect_error(SessionNotFound, call, f"taking {name!r} of scope {scope!r}")
        assert name in str(missing), f"the message does not name the session: {missing}"
    expect_same([len(trial.records(name)) for name in ("the-root", "child")], [1, 1], "records")


def many_trees_are_taken_each_by_itself(trial: StoreTrial) -> None:
    """Taken together, each tree is taken or refused as if alone, in the order of the request. A refused tree is unchanged."""
    old = [trial.begin(name) for name in ("a", "held", "b")]
    trial.begin("child", root="a", parent="a", node="n1")
    trial.begin("b", scope="elsewhere", node="")
    trial.store.beat(Node(id="n2", version="2"))
    take(trial, "held", "n3")
    trial.store.beat(Node(id="n3", address="http://10.0.0.7:8700"))
    wanted = [("", "b"), ("", "held"), ("", "unknown"), ("", "child"), ("elsewhere", "b"), ("", "a")]
    answers = take_all(
        trial.store,
        [TakeOver(scope=scope, root=SessionId(name), node="n2", cause="gone") for scope, name in wanted],
    )
    expect_same(
        [type(one) for one in answers],
        [Taken, HeldBy, SessionNotFound, OptionError, Taken, Taken],
        "the answer to each",
    )
    held = answers[1]
    assert isinstance(held, HeldBy), "the answer for an owned session"
    expect_same((held.node, held.address), ("n3", "http://10.0.0.7:8700"), "its owner and address")
    sessions = [one for answer in answers if isinstance(answer, Taken) for one in answer.sessions]
    expect_same(session_ids(tuple(sessions)), ["b", "b", "a", "child"], "the taken sessions")
    for one in sessions:
        expect_same(trial.stored(one.session, one.scope), one, f"the stored facts of {one.session!r}")
        expect_same(
            (one.node, one.tail.epoch, one.tail.seq), ("n2", 2, 2), f"owner and end of {one.session!r}"
        )
        body = decode_taken(trial.records(one.session, one.scope)[-1].body)
        expect_same((body.node, body.cause), ("n2", "gone"), "node and cause")
    expect_same((trial.stored("held").node, trial.stored("held").tail.seq), ("n3", 2), "the owned sessions")
    trial.refuse(*(author.write("late") for author in old))
    forced = TakeOver(scope="", root=SessionId("held"), node="n2", cause="start", force=True)
    (answer,) = take_all(trial.store, [forced])
    assert isinstance(answer, Taken), f"with force, got {answer!r}"
    expect_same(take_all(trial.store, []), (), "the answer to an empty request")


def an_old_owner_begins_no_child(trial: StoreTrial) -> None:
    """Below a tree with another owner, or none, a node creates no session: a new journal has no old epoch to compare."""
    trial.begin("r")
    take(trial, "r", force=True)
    child = partial(Author("a").opening, root="r", parent="r")
    expect_error(Fenced, lambda: trial.store.create(child(node="n1")), "a child of an old owner")
    trial.store.release("n2", "", SessionId("r"))
    lost = Author("b").opening(root="r", parent="r", node="n2")
    expect_error(Fenced, lambda: trial.store.create(lost), "a child of an owner that released the tree")
    none = Author("c").opening(root="unknown", parent="unknown")
    expect_error(SessionNotFound, lambda: trial.store.create(none), "a child of an unknown tree")
    expect_same(session_ids(trial.store.find()), ["r"], "the existing sessions")
    take(trial, "r", "n3")
    trial.begin("a", root="r", parent="r", node="n3")


def one_of_many_takes(trial: StoreTrial) -> None:
    """If several nodes take one tree in turn, each fences the earlier ones, and epochs never decrease."""
    author = trial.begin("s")
    queued: list[Append] = [author.write("of n0")]
    for number in range(1, 9):
        (stored,) = take(trial, "s", f"m{number}").sessions
        expect_same(stored.tail.epoch, number + 1, "the epoch")
        trial.refuse(*queued)
        writer = Author("s", tail=stored.tail)
        trial.keep(writer.write(f"of m{number}"))
        queued.append(writer.write("never"))
    epochs = [record.epoch for record in trial.records("s")]
    expect_same(epochs, sorted(epochs), "the epochs")
