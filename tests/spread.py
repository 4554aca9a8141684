"""Which worker collects which file of tests, and runs what of it.

With xdist each worker collects all tests, because it is to be able to run any. Of seventeen thousand in three workers that is a
sixth of all that `make test` computes. So there most files are collected by one worker, which runs what is in them; what takes
long, or is run together, is collected by all and given, one by one, to who has nothing left of its own: all end at the same time.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeAlias

import pytest
from attrs import frozen
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

COLLECTED_BY_ALL: Final = frozenset({"console", "mcp", "promises", "repo", "sandboxes", "simulation"})
"""The folders whose tests take longest for their number: more than a third of the time, in less than a fifth of the tests."""


def collected_by_one(sizes: Mapping[str, int], shared: Collection[str], workers: int) -> dict[str, int]:
    """Say for each file that one worker alone collects, which: the largest first, each to who has least. Size stands for time."""
    load = [0] * workers
    placed: dict[str, int] = {}
    for file, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        if file in shared or folder_of(file) in COLLECTED_BY_ALL:
            continue
        number = load.index(min(load))
        load[number] += size
        placed[file] = number
    return placed


def folder_of(file: str) -> str:
    """Give the room that a file tests: `core` of tests/core/journal/test_folds.py."""
    return file.split("/")[1]


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


# As long as so many wait, a worker is given several at once: it begins a test only when it knows the next one, and most take less
# than it takes to ask. Near the end it has two, so that none sits on tests that another could run.
_MANY_WAIT: Final = 1_000
_AT_ONCE: Final = 12
_ENOUGH: Final = 2

Scopes: TypeAlias = OrderedDict[str, dict[str, bool]]
"""Tests that are run together, by the name of what they share, in the order in which they are begun; of each whether it is done."""


@frozen(kw_only=True)
class Rules:
    """What is asked while tests are given to workers; all are told how many tests there are, as xdist takes those of one worker for all."""

    place: Callable[[int], Mapping[str, int]]
    scope_of: Callable[[str], str]
    takes_long: Callable[[str], bool]
    tell_all: Callable[[int], None]


class Shares(LoadScopeScheduling):
    """Spreads tests one by one, but those together that would do work twice or need each other.

    What one worker alone has collected is run there, first; then each takes of what all have collected, until nothing is left.
    """

    # xdist has no types.
    collection: list[str] | None
    registered_collections: dict[WorkerController, list[str]]
    assigned_work: dict[WorkerController, dict[str, dict[str, bool]]]
    workqueue: Scopes

    def __init__(self, config: pytest.Config, log: Producer | None, rules: Rules) -> None:
        """Begin without workers, in a run with these settings; xdist notes in the log what it does."""
        super().__init__(config, log)
        self._rules = rules
        self._placed = rules.place(self.numnodes)
        self._places: dict[WorkerController, Mapping[str, int]] = {}
        self._own: dict[WorkerController, Scopes] = {}
        self._of_the_dead: Scopes = OrderedDict()

    # Not `--dist loadgroup`, which exists for this: it renames the tests by an attribute that pytest 9.2 took away.
    def _split_scope(self, nodeid: str) -> str:
        return self._rules.scope_of(nodeid)

    @property
    def tests_finished(self) -> bool:
        """Whether nothing waits for any worker, nor for the one that comes in the place of another."""
        return not self._waits_for_one and super().tests_finished

    @property
    def has_pending(self) -> bool:
        return self._waits_for_one or super().has_pending

    @property
    def _waits_for_one(self) -> bool:
        return bool(self._of_the_dead) or any(self._own.values())

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Take what a worker has collected: its part, or everything, if it came in the place of one that died."""
        self.registered_collections[node] = list(collection)
        if self.collection is not None:
            self._own[node], self._of_the_dead = self._of_the_dead, OrderedDict()

    def schedule(self) -> None:
        """Begin, when all have collected; give a worker that came later its part."""
        if self.collection is None:
            if not self._check_nodes_have_same_collection():
                self.log("**Different tests collected, aborting run**")
                return
            self._put_in_queues()
        for node in (*self.nodes, *self.nodes):  # a worker begins a test when it knows the next one
            self._reschedule(node)

    def _put_in_queues(self) -> None:
        taken: Scopes = OrderedDict()
        for node in self.nodes:
            own = self._own[node] = OrderedDict()
            for nodeid in self.registered_collections[node]:
                scope = self._split_scope(nodeid)
                if scope not in taken:
                    queue = own if file_of(nodeid) in self._placed else self.workqueue
                    queue.setdefault(scope, {})[nodeid] = False
            taken |= own
            taken |= self.workqueue
        self.collection = [nodeid for tests in taken.values() for nodeid in tests]
        self._rules.tell_all(len(self.collection))

    def _check_nodes_have_same_collection(self) -> bool:
        """Compare what all collect: a test whose name is another in each worker is refused, as ever."""
        whole = self.registered_collections
        self.registered_collections = {
            node: [nodeid for nodeid in ids if file_of(nodeid) not in self._placed]
            for node, ids in whole.items()
        }
        try:
            return bool(super()._check_nodes_have_same_collection())
        finally:
            self.registered_collections = whole

    def remove_node(self, node: WorkerController) -> str | None:
        """Forget a worker. If it died, what only it had collected waits for the one that comes in its place."""
        work = self.assigned_work.pop(node)
        self._of_the_dead.update(self._own.pop(node, {}))
        crashed = next(
            (nodeid for tests in work.values() for nodeid, is_done in tests.items() if not is_done), None
        )
        for scope, tests in work.items():
            is_its_own = any(file_of(nodeid) in self._placed for nodeid in tests)
            (self._of_the_dead if is_its_own else self.workqueue)[scope] = tests
        for other in self.nodes if work else ():
            self._reschedule(other)
        return crashed

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget what is done; theirs counts it again behind each test, and takes a second for each thousand of them."""
        work = self.assigned_work[node]
        nodeid = self.registered_collections[node][item_index]
        scope = self._split_scope(nodeid)
        work[scope][nodeid] = True
        if all(work[scope].values()):
            del work[scope]
        self._reschedule(node)

    def _reschedule(self, node: WorkerController) -> None:
        if node.shutting_down:
            return
        queue = self._queue_for(node)
        if not queue:
            node.shutdown()
            return
        many_wait = len(self._own.get(node, ())) + len(self.workqueue) >= _MANY_WAIT
        if self._pending_of(self.assigned_work[node]) <= (_AT_ONCE // 2 if many_wait else _ENOUGH):
            self._assign(node, queue, 1 if self._begins_with_long(queue) or not many_wait else _AT_ONCE)

    def _queue_for(self, node: WorkerController) -> Scopes:
        own = self._own.get(node)
        return own if own and not self._begins_with_long(self.workqueue) else self.workqueue

    def _begins_with_long(self, queue: Scopes) -> bool:
        return any(map(self._rules.takes_long, next(iter(queue.values()), ())))

    def _assign(self, node: WorkerController, queue: Scopes, scopes: int) -> None:
        """Give a worker the tests of so many scopes, in one message. Theirs looks for each of them in the list of all."""
        work = dict(queue.popitem(last=False) for _ in range(min(scopes, len(queue))))
        self.assigned_work.setdefault(node, {}).update(work)
        places = self._places_of(node)
        todo = [nodeid for tests in work.values() for nodeid, is_done in tests.items() if not is_done]
        node.send_runtest_some([places[nodeid] for nodeid in todo])

    def _places_of(self, node: WorkerController) -> Mapping[str, int]:
        found = self._places.get(node)
        if found is None:
            found = {nodeid: place for place, nodeid in enumerate(self.registered_collections[node])}
            self._places[node] = found
        return found
