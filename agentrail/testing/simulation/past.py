"""The world `past`: a stored session continues, with users and under faults.

The session is copied. In the copy a user of the world owns it, and tools of a ledger replace its own: their effects were real, and must not
happen again. Its plugins are the real ones, because its decisions depend on them.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from agentrail.abc.store import Opening
from agentrail.core.journal.record import CODEC, DRIFTED, ERASED, NO_HASH, OPENED, Record, hash_of
from agentrail.core.journal.session_owner import session_owner_key
from agentrail.core.session.state import SessionState
from agentrail.core.stack.plugin import Plugin
from agentrail.core.values.toolbox import ToolSpec
from agentrail.errors import JournalDrifted, OptionError, SessionDown, StoreTooNew
from agentrail.messages import SessionId
from agentrail.runtime import supervisor_lifespan
from agentrail.runtime.agent import Agent
from agentrail.runtime.model_lookup import is_object
from agentrail.runtime.plugin_watch import QuietWatch
from agentrail.runtime.session_export import export_stored, openings_of
from agentrail.runtime.session_loader import PluginFinder, revive, stored_of
from agentrail.stores.memory import MemoryStore
from agentrail.stores.store_names import open_store
from agentrail.testing.simulation.chatty_model import chatty_model
from agentrail.testing.simulation.faults import DAMAGE, EVERYTHING
from agentrail.testing.simulation.people import DEEDS, Person
from agentrail.testing.simulation.world import WORLD_TENANT, World

_DIGITS: Final = 16
_DIGEST: Final = re.compile(rf"@[0-9a-f]{{{_DIGITS}}}$")
_PROFILE: Final = "past"
_PAUSE: Final = (1.0, 20.0)
_OWNER: Final = {"tenant_id": WORLD_TENANT, "user_id": "person-0", "agent_id": _PROFILE}


class Past:
    """A scenario that begins with a stored session. See `read_past`."""

    __module__ = "from"

    def __init__(self, openings: Sequence[Opening], name: str, plugins: Sequence[Plugin] = ()) -> None:
        """Copy a session, and check that it can continue.

        Args:
            openings: The session and its sub-agents, as in an export.
            name: `STORE:ID`, under which other processes find it. It gets a digest of the journal, which may grow.
            plugins: Code of its plugins. Others are imported from where they were defined.

        Raises:
            OptionError: Your move: it is a sub-agent.
            SessionDown: Your move: it has ended.
            StoreTooNew, CodecError: Your move: a newer agentrail wrote it.
            Unrevivable: Your move: one of its plugins cannot be found.
            JournalDrifted: Your move: its journal leads to other operations with this code.
            Erased, JournalCorrupt: It cannot be read completely.
        """
        root = openings[0]
        self.session: SessionId = root.records[0].session
        if root.root != self.session:
            message = f"session {self.session!r} is a sub-agent: name its root, {root.root!r}"
            raise OptionError([message])
        if root.standing.has_ended:
            raise SessionDown(self.session, "it has ended and cannot continue")
        _check_codec(self.session, max(one.codec for one in openings))
        self.__qualname__ = f"{name}@{root.records[-1].hash.hex()[:_DIGITS]}"
        self._plugins = tuple(plugins)
        self._openings = tuple(map(_adopted, openings))
        states = tuple(self._fold())
        specs: dict[str, ToolSpec] = {}
        for state in states:
            specs |= {spec.name: spec for spec in state.data.tools}
            calls = (*state.data.batch, *state.data.survivors)
            specs |= {one.spec.name: one.spec for one in calls if one.spec is not None}
        self._specs = tuple(one for one in specs.values() if one.answered_by != "machine")
        config = states[0].data.config
        self._agents = [
            Agent(name=one.name, description=one.description, background=one.background, handoff=one.handoff)
            for one in config.agents
        ]
        self._model = states[0].data.model.model
        self._ended_at_ms = max(record.at_ms for one in openings for record in one.records)

    def _fold(self) -> Iterator[SessionState]:
        store = MemoryStore()
        for opening in self._openings:
            store.create(opening)
            stored = stored_of(store, WORLD_TENANT, opening.session)
            if stored.standing.has_ended:
                continue
            finder = PluginFinder({one.name: one for one in self._plugins})
            watch = QuietWatch(stored.session, {})
            watch.find_others(finder)
            revived = revive(store, stored, finder, watch)
            drift = revived.drift
            if drift is not None and drift.is_of_deeds:
                raise JournalDrifted(stored.session, drift.first, what=str(drift))
            yield revived.state

    def __call__(self, world: World) -> None:
        """Serve a copy of the session from several nodes, and let two users continue it."""
        model = chatty_model()
        if is_object(self._model):
            model.name = self._model.rpartition(":")[0]
        world.begin_at(self._ended_at_ms / 1000)
        world.seams += [(supervisor_lifespan, "SessionSupervisor", _with_model(model))]
        tools = [world.ledger(_PROFILE).tool_of(spec) for spec in self._specs]
        world.profile(
            _PROFILE,
            model=model,
            tools=tools,
            agents=self._agents,
            plugins=self._plugins,
        )
        world.faults(EVERYTHING - DAMAGE)
        for opening in self._openings:
            world.store.create(opening)
        read = self._openings[0].records[-1].events  # approvals before were decided by users of no world
        for index in range(2):
            person = Person(world, index, 0, _PROFILE, _PAUSE, DEEDS, self.session, read_up_to=read)
            world.inhabit(person.name, person.live)


@lru_cache(maxsize=1)  # each life of a process begins with it
def read_past(given: str) -> Past:
    """Copy a session of a store, which is only read.

    Args:
        given: `STORE:ID`, such as `sqlite:sessions.db:s1`. The id of a session of a server is `TENANT/ID`. With the digest that
            the name of a saved life has, the journal must still be the same.

    Raises:
        OptionError: Your move: not of this form, the store cannot be read, or the session has continued.
        SessionNotFound: Your move: the store has no such session.
        StoreUnavailable: Your move: the store does not answer.
        Trimmed: Its first records were dropped.
        AgentrailError: As in `Past`.
    """
    digest = _DIGEST.search(given)
    place = given[: digest.start()] if digest else given
    store_name, _, name = place.rpartition(":")
    if not store_name or not name:
        message = f"a stored session is {given!r}: expected STORE:ID, such as sqlite:sessions.db:my-session"
        raise OptionError([message])
    with closing(open_store(store_name, None, read_only=True)) as store:
        scope, _, session = name.rpartition("/")
        stored = stored_of(store, scope, SessionId(session))
        _check_codec(stored.session, stored.codec)
        past = Past(openings_of(b"".join(export_stored(store, stored))), place)
    if digest and past.__qualname__ != given:
        message = f"session {name!r} has changed since this life was saved: use a copy of the store of then"
        raise OptionError([message])
    return past


def _check_codec(session: str, codec: int) -> None:
    if codec > CODEC:
        message = f"session {session!r} has records of a newer agentrail (codec {codec}, this one reads up to {CODEC})"
        raise StoreTooNew(message, found=codec, known=CODEC)


def _adopted(opening: Opening) -> Opening:
    """Return a copy that a user of the world owns, without an owning node."""
    records: list[Record] = []
    before = NO_HASH
    for record in opening.records:
        body = _with_owner(record.body) if record.kind in {OPENED, DRIFTED} else record.body
        moved = replace(record, scope=WORLD_TENANT, body=body)
        before = record.hash if record.kind == ERASED else hash_of(before, moved)
        records.append(replace(moved, hash=before))
    owner = session_owner_key(_OWNER)
    return replace(opening, records=tuple(records), owner=owner, node="")


def _with_owner(body: bytes) -> bytes:
    document = msgspec.json.decode(body)
    config = document["state"]["session_state"]["data"]["config"]
    config["scope"] = WORLD_TENANT
    config["user_data"] |= _OWNER
    return msgspec.json.encode(document)


def _with_model(model: Any) -> Any:
    """Let each model string of a supervisor lead to this model: a real one needs a network."""

    def wrap(supervisor: Any) -> Any:
        return lambda *parts, **options: supervisor(
            *parts, **{**options, "resolve_provider": lambda *_: model}
        )

    return wrap
