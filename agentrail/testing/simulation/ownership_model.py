"""A model of ownership: who may write and act for one session, as explicit states and named transitions. Plain data: no store, no clock and no Trio.

`search` walks all behaviours within its bounds. `first_strange_line` follows the lines of a real life, so that model and product cannot drift apart.
`docs/explanation/ownership-model.md` has the transitions and rules as tables.
"""

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias, get_args

from attrs import evolve, frozen

OwnershipRule: TypeAlias = Literal[
    "newest epoch",
    "beats revive nothing",
    "claims end",
    "claims release nothing",
    "lease",
    "trust",
    "durable",
    "not run again",
]
OWNERSHIP_RULES: Final[frozenset[OwnershipRule]] = frozenset(get_args(OwnershipRule))
TransitionName: TypeAlias = Literal[
    "create",
    "take",
    "claim",
    "append",
    "beat",
    "look",
    "lapse",
    "outbox",
    "effect",
    "stop",
    "continue",
    "release",
    "gone",
]


@frozen
class OwnershipTransition:
    """One transition, and what it is about.

    Attributes:
        node: The node that makes it, or that it happens to.
        epoch: Epoch that a take gives, or under which an append is sent. 0: the node's own.
        first: First record of an append, or the record whose effect begins.
        last: Last record of an append, or the journal's last record after a take.
        answer: The store's answer to an append: `stored`, `already there`, one of both as `ok`, or `fenced`.
        effect: Id of the effect. Empty: the number of its record.
        is_forced: Whether a take fences a living owner.
    """

    name: TransitionName
    node: str
    epoch: int = 0
    first: int = 0
    last: int = 0
    answer: str = ""
    effect: str = ""
    is_forced: bool = False

    def __str__(self) -> str:
        what = {"append": f" record {self.first}: {self.answer}", "effect": f" of record {self.first}"}
        return f"{self.name} {self.node}{what.get(self.name, '')}"


LeaseTrust: TypeAlias = Literal["sure", "doubt", "over"]


@frozen(kw_only=True)
class NodeView:
    """What a node believes, and the store's view of its lease.

    Attributes:
        epoch: Epoch under which it owns the session. 0: it does not.
        heard: Last record that it knows to be durable.
        begun: Last record whose effects it let begin. They leave in order.
        answer: Last record of the answer that has not reached it. None: no answer is pending. -1: it was fenced.
        is_confirming: Whether that append was sent after the node's last doubt.
        trust: `sure`: it may begin work. `over`: a lease has passed. `doubt`: and a beat since, but no confirmed owner.
        is_alive: Whether the store has had a beat within the lease.
    """

    epoch: int = 0
    heard: int = 0
    begun: int = 0
    answer: int | None = None
    is_confirming: bool = False
    trust: LeaseTrust = "sure"
    is_alive: bool = True
    is_stopped: bool = False


@frozen(kw_only=True)
class State:
    """The store's row of the session, and each node.

    Attributes:
        owner: The owner by the store. Empty for none.
        spans: Epochs in the journal, each with the number of its last record.
        claim: Node that has reserved the session, and the end of the journal at that time.
        appended: First record of the last append since a take. A repeated one begins there.
        began: Effects that have begun.
    """

    owner: str = ""
    spans: tuple[tuple[int, int], ...] = ()
    claim: tuple[str, int] = ("", 0)
    appended: int = 0
    began: frozenset[str] = frozenset()
    nodes: tuple[tuple[str, NodeView], ...] = ()

    @property
    def epoch(self) -> int:
        """The newest epoch. 0 before the session is created."""
        return self.spans[-1][0] if self.spans else 0

    @property
    def last(self) -> int:
        """Number of the last record."""
        return self.spans[-1][1] if self.spans else 0

    def last_of(self, epoch: int) -> int:
        """Return the last record up to an epoch."""
        return max((last for one, last in self.spans if one <= epoch), default=0)

    def node(self, name: str) -> NodeView:
        """Return what a node knows. A new node knows nothing."""
        return dict(self.nodes).get(name, NodeView())

    def knowing(self, name: str, node: NodeView) -> "State":
        """Return the state with another view of a node."""
        return evolve(
            self, nodes=tuple(sorted({**dict(self.nodes), name: node}.items(), key=lambda one: one[0]))
        )


def apply_transition(
    state: State, line: OwnershipTransition, rules: frozenset[OwnershipRule] = OWNERSHIP_RULES
) -> State | None:
    """Return the state after a transition. None: the model has no such transition from this state."""
    node, name = state.node(line.node), line.node
    match line.name:
        case "create" if not state.spans:
            spans = ((line.epoch or 1, line.last),)
            owning = evolve(node, epoch=line.epoch or 1, heard=line.last, trust="sure")
            return evolve(state, owner=name, spans=spans).knowing(name, owning)
        case "take":
            return _take(state, line, rules)
        case "claim" if not state.node(state.owner).is_alive and name != state.owner:
            return evolve(state, claim=(name, state.last))
        case "append":
            return _append(state, line, rules)
        case "beat":
            revived: LeaseTrust = "doubt" if "beats revive nothing" in rules else "sure"
            trust = revived if node.trust == "over" else node.trust
            return state.knowing(name, evolve(node, is_alive=True, trust=trust))
        case "look" if state.owner == name:
            return state.knowing(name, evolve(node, trust="sure" if node.trust == "doubt" else node.trust))
        case "look":
            return state.knowing(name, evolve(node, epoch=0))
        case "lapse":
            return state.knowing(name, evolve(node, is_alive=False, trust="over", is_confirming=False))
        case "outbox" if (
            node.epoch and not node.is_stopped and (node.answer is not None or "durable" not in rules)
        ):
            return state.knowing(name, _hearing(node))
        case "effect" if _may_begin(state, node, line, rules):
            began = state.began | {line.effect or str(line.first)}
            return evolve(state, began=began).knowing(name, evolve(node, begun=line.first))
        case "stop" | "continue" if node.is_stopped == (line.name == "continue"):
            return state.knowing(name, evolve(node, is_stopped=line.name == "stop"))
        case "release":
            is_owner, is_claimer = state.owner == name, state.claim[0] == name
            if is_owner or (is_claimer and "claims release nothing" not in rules):
                state = evolve(state, owner="")
            claim = ("", 0) if is_owner or is_claimer else state.claim
            return evolve(state, claim=claim).knowing(name, evolve(node, epoch=0))
        case "gone":
            return state.knowing(name, NodeView(is_alive=False, trust="over"))
        case _:
            return None


def _take(state: State, line: OwnershipTransition, rules: frozenset[OwnershipRule]) -> State | None:
    holder, last = state.node(state.owner), line.last or state.last + 1
    is_claimed = state.claim == (line.node, state.last) and "claims end" not in rules
    is_free = state.owner in ("", line.node) or not holder.is_alive or is_claimed or line.is_forced
    if (
        (line.epoch or state.epoch + 1) != state.epoch + 1
        or last != state.last + 1
        or not (is_free or "lease" not in rules)
    ):
        return None
    node = state.node(line.node)
    begun = last if "not run again" in rules else 0
    trust: LeaseTrust = "over" if node.trust == "over" else "sure"
    owning = evolve(node, epoch=state.epoch + 1, heard=last, begun=begun, answer=None, trust=trust)
    spans = (*state.spans, (state.epoch + 1, last))
    state = evolve(state, owner=line.node, spans=spans, claim=("", 0), appended=0)
    return state.knowing(line.node, owning)


def _append(state: State, line: OwnershipTransition, rules: frozenset[OwnershipRule]) -> State | None:
    """The store executes an append, whatever became of the node that sent it."""
    epoch = line.epoch or state.node(line.node).epoch
    is_newest, is_stored = epoch == state.epoch, line.last <= state.last_of(epoch)
    if not epoch or epoch > state.epoch or (is_newest and line.first not in {state.last + 1, state.appended}):
        return None  # the store never gave this epoch, has lost records, or has others than the node sent
    is_fenced = not is_newest and ("newest epoch" in rules or not is_stored)
    answer = "fenced" if is_fenced else "already there" if is_stored else "stored"
    if answer not in ({"stored", "already there"} if line.answer == "ok" else {line.answer}):
        return None
    if answer == "stored":
        state = evolve(state, spans=(*state.spans[:-1], (epoch, line.last)), appended=line.first)
    node = state.node(line.node)
    if node.epoch != epoch:
        return state
    heard = evolve(node, answer=-1 if is_fenced else line.last, is_confirming=node.trust == "doubt")
    return state.knowing(line.node, heard)


def _hearing(node: NodeView) -> NodeView:
    if node.answer == -1:
        return evolve(node, epoch=0, answer=None)
    heard = node.heard + 1 if node.answer is None else max(node.heard, node.answer)
    is_sure = node.trust == "sure" or (node.trust == "doubt" and node.is_confirming)
    return evolve(
        node, heard=heard, answer=None, is_confirming=False, trust="sure" if is_sure else node.trust
    )


def _may_begin(
    state: State, node: NodeView, line: OwnershipTransition, rules: frozenset[OwnershipRule]
) -> bool:
    is_trusted = node.trust == "sure" or "trust" not in rules
    is_new = (line.effect or str(line.first)) not in state.began or "not run again" not in rules
    is_there = node.begun <= line.first <= node.heard
    return bool(node.epoch) and not node.is_stopped and is_trusted and is_new and is_there


def broken_by(before: State, line: OwnershipTransition, after: State) -> str | None:
    """Return the promise that a transition breaks."""
    if line.name == "effect" and before.node(line.node).epoch < before.epoch:
        return "fences"
    if line.name == "effect" and (line.effect or str(line.first)) in before.began:
        return "at most once"
    if any(node.epoch and node.heard > after.last_of(node.epoch) for _, node in after.nodes):
        return "acknowledged is durable"
    return None


# --- all behaviours within bounds


@frozen(kw_only=True)
class StateBounds:
    """The bounds of a search.

    Attributes:
        records: Records of the journal, those of takes included.
        pauses: How often nodes stand still. A lease passes only for a node that does.
        lost_beats: How often a lease passes for a node that runs, because its beats fail.
    """

    nodes: tuple[str, ...] = ("node-0", "node-1")
    records: int = 3
    pauses: int = 2
    lost_beats: int = 0


@frozen
class SearchResult:
    """The result of a search: the first broken promise with the shortest way to it, or none among so many states."""

    states: int
    promise: str = ""
    story: tuple[OwnershipTransition, ...] = ()


_Place: TypeAlias = tuple[State, int, int]
"""A state, the pauses so far and the lost beats so far."""


def search(
    rules: frozenset[OwnershipRule] = OWNERSHIP_RULES, bounds: StateBounds = StateBounds()
) -> SearchResult:
    """Walk all behaviours, shortest first, until a promise is broken or no new state is left. The first node owns the session at the start."""
    start = apply_transition(State(), OwnershipTransition("create", bounds.nodes[0]))
    assert start is not None, "an empty store refuses no session"
    first = (start, 0, 0)
    came_from: dict[_Place, tuple[_Place, OwnershipTransition] | None] = {first: None}
    for place in (todo := [first]):
        state, pauses, lost = place
        for line in _possible(state, bounds):
            after = apply_transition(state, line, rules)
            pauses_then = pauses + (line.name == "stop")
            lost_then = lost + (line.name == "lapse" and not state.node(line.node).is_stopped)
            if (
                after is None
                or after.last > bounds.records
                or pauses_then > bounds.pauses
                or lost_then > bounds.lost_beats
            ):
                continue
            then = (after, pauses_then, lost_then)
            promise = broken_by(state, line, after)
            if promise is None and then in came_from:
                continue
            came_from.setdefault(then, (place, line))
            if promise is not None:
                way, step = [line], came_from[place]
                while step is not None:
                    way.insert(0, step[1])
                    step = came_from[step[0]]
                return SearchResult(len(came_from), promise, tuple(way))
            todo.append(then)
    return SearchResult(len(came_from))


def _possible(state: State, bounds: StateBounds) -> Iterator[OwnershipTransition]:
    """Yield transitions that may be possible. A node that stands still makes none, and no node takes what it believes to own."""
    running = [(name, node) for name in bounds.nodes if not (node := state.node(name)).is_stopped]
    for name, node in running:
        if node.epoch:
            for answer in ("already there", "stored", "fenced"):
                yield OwnershipTransition(
                    "append", name, first=node.heard + 1, last=node.heard + 1, answer=answer
                )
            yield OwnershipTransition("outbox", name)
            yield from (
                OwnershipTransition("effect", name, first=one)
                for one in range(node.begun + 1, node.heard + 1)
            )
    for name, node in running:
        if not node.epoch:
            yield from (OwnershipTransition("take", name), OwnershipTransition("claim", name))
            if state.claim[0] == name:
                yield OwnershipTransition("release", name)
        yield from (OwnershipTransition("beat", name), OwnershipTransition("look", name))
    for kind in ("stop", "lapse", "continue"):
        yield from (OwnershipTransition(kind, name) for name in bounds.nodes)
