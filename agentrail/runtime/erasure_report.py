"""Forgetting a user: the journals that contain their conversations, and the order of erasure. Live sessions are not covered.

All journals of a user are erased completely, with their forks: a memory may be repeated in other words.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
from attrs import frozen

from agentrail.abc.recall import MemoryOwner
from agentrail.abc.store import Erasure, Filters, Store, StoredSession
from agentrail.core.journal.erasure import USER_FORGOTTEN
from agentrail.errors import AgentrailError, Erased, OptionError, SessionNotFound, StillNeeded
from agentrail.messages import SessionId
from agentrail.runtime.persistence import has_other_nodes
from agentrail.runtime.session_loader import all_sessions, opening_of
from agentrail.runtime.session_stores import decide_owner

TreeKey: TypeAlias = tuple[str, SessionId]
"""Scope and root of a tree of sessions."""

NOT_REACHED: Final[tuple[str, ...]] = (
    "exports",
    "backups, and copies of a store from before a repair or a migration",
    "files in workspaces",
    "logins to MCP servers at other processes, and to those that only sessions name",
    "logs, the audit log and backends of telemetry",
    "model providers",
)
"""Places outside our stores that may contain user data."""

DATABASE_COPIES: Final = "old row versions, the write-ahead log and backups of the database"
"""In addition, with a database: only its operator can remove these."""


@frozen(kw_only=True)
class UserTrees:
    trees: tuple[TreeKey, ...]
    unread: Mapping[TreeKey, str]


class ForgottenUser(Erasure, frozen=True, kw_only=True, gc=False):
    """Result of forgetting a user.

    Attributes:
        notes: Number of sessions whose working notes were deleted.
        sessions: Number of sessions with erased records, sub-sessions included.
        records: Number of records replaced by `erased`.
        blobs: Number of large values deleted.
        trees: The erased session trees, each by scope and root.
        left: Remaining sessions and logins with the reason, a sentence each. Empty if everything was erased.
        is_overwritten: Whether the erased data is overwritten in all files. False if a reader is using them now: repeat
            the call. Always false with a database, see `not_reached`.
        not_reached: Places that may contain more data of the user and must be searched separately.
    """

    memories: int = 0
    notes: int = 0
    trees: tuple[TreeKey, ...] = ()
    left: tuple[str, ...] = ()
    is_overwritten: bool = True
    not_reached: tuple[str, ...] = NOT_REACHED

    @property
    def is_done(self) -> bool:
        return not self.left and (self.is_overwritten or DATABASE_COPIES in self.not_reached)


def unreached_of(*stores: object) -> tuple[str, ...]:
    return (*NOT_REACHED, DATABASE_COPIES) if any(map(has_other_nodes, stores)) else NOT_REACHED


def trees_of_user(store: Store, owner: MemoryOwner) -> UserTrees:
    """Find all session trees of a user in a store. Blocking. Reads one record of each tree."""
    roots: dict[TreeKey, StoredSession] = {}
    root_of: dict[tuple[str, str], TreeKey] = {}
    for one in all_sessions(store, Filters()):
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
            unread[key] = f"session {root.session!r}: its owner cannot be determined ({error})"
    origins = {
        key: origin
        for key, root in roots.items()
        if root.forked_from is not None
        and (origin := root_of.get((root.scope, root.forked_from[0]))) is not None
    }
    return UserTrees(trees=tuple(forks_first(own, origins)), unread=unread)


def _is_of(store: Store, root: StoredSession, owner: MemoryOwner) -> bool:
    try:
        user_data = opening_of(store, root).config.user_data
        return decide_owner(root.scope, user_data) == owner
    except (Erased, SessionNotFound, OptionError):  # erased before, being deleted, or of no user
        return False


def forks_first(own: Iterable[TreeKey], origins: Mapping[TreeKey, TreeKey]) -> Sequence[TreeKey]:
    """Return the trees with all their direct and indirect forks, each tree after its forks."""
    forks: defaultdict[TreeKey, list[TreeKey]] = defaultdict(list)
    for fork, origin in origins.items():
        forks[origin].append(fork)
    found = dict.fromkeys(own)
    for key in (to_see := list(found)):
        new = [fork for fork in forks[key] if fork not in found]
        found.update(dict.fromkeys(new))
        to_see += new  # the loop also visits these
    # First the trees without an origin among these, then their forks, and so on: each tree has at most one origin.
    order = [key for key in found if origins.get(key) not in found]
    for key in order:
        order += [fork for fork in forks[key] if fork in found]
    seen = set(order)
    return [*reversed(order), *(key for key in found if key not in seen)]  # cycles: forged imports


def erase_trees(store: Store, found: UserTrees) -> ForgottenUser:
    """Erase trees that have no live session in this process. Blocking."""
    erased = Erasure()
    done: list[TreeKey] = []
    left = [*found.unread.values()]
    for scope, root in found.trees:
        try:
            erased += store.erase(scope, root, USER_FORGOTTEN)
            done.append((scope, root))
        except SessionNotFound:  # it is being deleted
            continue
        except StillNeeded as error:
            left.append(left_alive(root, error.by))
    return forgotten_of(erased, done, left)


def left_alive(root: str, by: Iterable[str]) -> str:
    return f"session {root!r} is running and was not erased: {', '.join(by)}"


def forgotten_of(erased: Erasure, trees: Iterable[TreeKey], left: Iterable[str]) -> ForgottenUser:
    return ForgottenUser(**msgspec.structs.asdict(erased), trees=tuple(trees), left=tuple(left))
