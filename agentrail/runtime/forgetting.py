"""Forgetting a user: which journals hold what was said with them, and in which order they are erased. No session that is alive enters.

All journals of a user are erased, and each of them whole. What was remembered was said before, and went into requests, answers and
summaries in other words; a search for the text of an entry would find the copies that are copies to the letter, and what was left
would be read, and remembered anew. A fork has what was said before it, no matter who forked it, so forks go too; what a session of theirs was
forked from is another's, unless it is one of their own.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
from attrs import field, frozen

from agentrail.abc.recall import MemoryOwner
from agentrail.abc.store import Erasure, Filters, Store, StoredSession
from agentrail.core.journal.erasing import USER_FORGOTTEN
from agentrail.errors import AgentrailError, Erased, OptionError, SessionNotFound, StillNeeded
from agentrail.messages import SessionId
from agentrail.runtime.own_stores import decide_owner
from agentrail.runtime.reviving import opening_of

TreeKey: TypeAlias = tuple[str, SessionId]
"""Scope and root of a tree of sessions."""

NOT_REACHED: Final[tuple[str, ...]] = (
    "exports",
    "backups, and copies that were made of a store before a repair or a migration",
    "files in workspaces",
    "logs",
    "providers of models",
)
"""Where something of a user may be that no store of ours knows of."""

_PAGE: Final = 1_000


@frozen(kw_only=True)
class UserTrees:
    """Which trees of sessions hold what was said with a user.

    Attributes:
        trees: In the order in which they are to be erased: forks in front of what they were forked from.
        unread: Roots of which cannot be said whose they are, and why: their first record is damaged, or of a newer version.
    """

    trees: tuple[TreeKey, ...]
    unread: Mapping[TreeKey, str]


@frozen(kw_only=True)
class ForgottenUser:
    """What became of all that was kept of a user.

    Attributes:
        memories: How many memories there were.
        notes: Of how many sessions there were working notes.
        sessions: In how many sessions something was erased, those that worked for others included.
        records: How many records have `erased` in their place.
        snapshots: How many snapshots were dropped.
        blobs: How many large values were dropped.
        trees: The trees of sessions that were erased, each by scope and root.
        left: What was not erased, and why; each entry is a sentence about a session. Empty when all was.
        is_overwritten: Whether what stood there is overwritten in all files. Else someone reads them just now: forget again.
        not_reached: Where more of the user may be, which has to be looked for there.
    """

    memories: int = 0
    notes: int = 0
    sessions: int = 0
    records: int = 0
    snapshots: int = 0
    blobs: int = 0
    trees: tuple[TreeKey, ...] = field(default=(), repr=False)
    left: tuple[str, ...] = ()
    is_overwritten: bool = True
    not_reached: tuple[str, ...] = NOT_REACHED

    @property
    def is_done(self) -> bool:
        """Whether nothing is left that could be reached."""
        return self.is_overwritten and not self.left


def trees_of_user(store: Store, owner: MemoryOwner) -> UserTrees:
    """Look through a store for all that was said with a user. This blocks; one record of each tree is read."""
    roots: dict[TreeKey, StoredSession] = {}
    root_of: dict[tuple[str, str], TreeKey] = {}
    for one in _sessions_in(store):
        key = (one.scope, one.root)
        root_of[one.scope, one.session] = key
        if one.session == one.root:
            roots[key] = one
    own: list[TreeKey] = []
    unread: dict[TreeKey, str] = {}
    for key, root in roots.items():
        try:
            if _is_of(store, root, owner):
                own.append(key)
        except (AgentrailError, msgspec.MsgspecError) as error:
            unread[key] = f"session {root.session!r}: it cannot be said whose it is ({error})"
    origins = {
        key: origin
        for key, root in roots.items()
        if root.forked_from is not None
        and (origin := root_of.get((root.scope, root.forked_from[0]))) is not None
    }
    return UserTrees(trees=tuple(forks_first(own, origins)), unread=unread)


def _sessions_in(store: Store) -> Iterator[StoredSession]:
    after: tuple[str, str] | None = None
    while page := store.find(Filters(), after=after, limit=_PAGE):
        yield from page
        after = (page[-1].scope, page[-1].session)


def _is_of(store: Store, root: StoredSession, owner: MemoryOwner) -> bool:
    try:
        user_data = opening_of(store, root).config.user_data
        return decide_owner(root.scope, user_data) == owner
    except (Erased, SessionNotFound):  # it was erased before, or is deleted just now
        return False
    except OptionError:  # what stands there names no user
        return False


def forks_first(own: Iterable[TreeKey], origins: Mapping[TreeKey, TreeKey]) -> Sequence[TreeKey]:
    """Give trees with all that was forked from them, and from that: each behind its forks.

    Whose a fork is that another user made is known by what it was forked from alone. When erasing stops in the middle, and is
    begun again, that has to be there still.
    """
    forks: defaultdict[TreeKey, list[TreeKey]] = defaultdict(list)
    for fork, origin in origins.items():
        forks[origin].append(fork)
    found = dict.fromkeys(own)
    for key in (to_see := list(found)):
        new = [fork for fork in forks[key] if fork not in found]
        found.update(dict.fromkeys(new))
        to_see += new  # the loop goes on over them
    # First what was forked from none of these; then those whose origin was given, and so on: each tree has one origin at most.
    order = [key for key in found if origins.get(key) not in found]
    for key in order:
        order += [fork for fork in forks[key] if fork in found]
    seen = set(order)
    return [*reversed(order), *(key for key in found if key not in seen)]  # circles are of forged imports


def erase_trees(store: Store, found: UserTrees) -> ForgottenUser:
    """Erase trees of which none is alive in this process. This blocks."""
    erased = Erasure()
    done: list[TreeKey] = []
    left = [*found.unread.values()]
    for scope, root in found.trees:
        try:
            erased += store.erase(scope, root, USER_FORGOTTEN)
            done.append((scope, root))
        except SessionNotFound:  # it is deleted just now
            continue
        except StillNeeded as error:
            left.append(left_alive(root, error.by))
    return forgotten_of(erased, done, left)


def left_alive(root: str, by: Iterable[str]) -> str:
    """Say that a session was not erased, because it is at work."""
    return f"session {root!r} is at work, and was not erased: {', '.join(by)}"


def forgotten_of(erased: Erasure, trees: Iterable[TreeKey], left: Iterable[str]) -> ForgottenUser:
    """Say what became of journals."""
    return ForgottenUser(
        sessions=erased.sessions,
        records=erased.records,
        snapshots=erased.snapshots,
        blobs=erased.blobs,
        trees=tuple(trees),
        left=tuple(left),
    )
