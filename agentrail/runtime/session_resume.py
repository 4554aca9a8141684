"""Resumption of stored sessions: read the tree, check its code, take it over, then start the sessions, deepest first.

A failure before the take-over leaves the tree unchanged. The take-over fences any older owner.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, TypeAlias

import attrs
from attrs import define, field, frozen
from msgspec.structs import replace

from agentrail.abc import Provider, Tool
from agentrail.abc.store import Cause, Filters, StoredSession
from agentrail.core.journal.fold import asked_by
from agentrail.core.journal.record import sealed
from agentrail.core.journal.recorder import closed_draft
from agentrail.core.policy.budget import NOTHING_SPENT, Spent
from agentrail.core.protocol.effects import ResumeChild, StartAgent
from agentrail.core.protocol.request import ModelFacts
from agentrail.core.protocol.signals import ChangeTools, Recovered
from agentrail.core.session.agent_records import GENERAL_PURPOSE, AgentState, agent_wanted
from agentrail.core.session.effect_owners import OfChild
from agentrail.core.session.reservations import spent_with_lost
from agentrail.core.session.state import SEMANTICS, Known, SessionState
from agentrail.core.session.views import models_of
from agentrail.core.stack.plugin_code import part_entry
from agentrail.core.values.toolbox import ToolSpec
from agentrail.errors import (
    AgentrailError,
    HeldBy,
    JournalBehind,
    JournalDrifted,
    OptionError,
    SessionDown,
    SessionNotFound,
    StoreTooNew,
    Unrevivable,
)
from agentrail.events import Event
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.guarded_calls import call_guarded
from agentrail.runtime.assembly import Dependencies, assemble, decide_first_effects, hooks_of, tools_of_agents
from agentrail.runtime.child_calls import MAX_SESSION_ID_CHARACTERS, first_provider
from agentrail.runtime.journal_events import MAX_OLD_EVENTS, old_events
from agentrail.runtime.live_settings import renew_tools
from agentrail.runtime.model_lookup import facts_of, is_object
from agentrail.runtime.persistence import ENGINE, Keeping, OnDrift
from agentrail.runtime.plugin_watch import PluginWatch
from agentrail.runtime.ports import GENERAL, Ports, ReadyAgent, name_of_child
from agentrail.runtime.session_actor import SessionCell, SleepingSession
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_loader import (
    PluginFinder,
    Revived,
    StoredOpening,
    all_sessions,
    opening_of,
    revive,
    revive_ended,
    stored_of,
    taken_on,
)
from agentrail.runtime.session_options import SessionOptions, make_options
from agentrail.runtime.session_sandbox import Workspace
from agentrail.runtime.tool_origins import gone_tool, tool_at
from agentrail.runtime.trace_reader import trace_of_child
from agentrail.runtime.tree_secrets import has_handle

ImportedTools: TypeAlias = Mapping[tuple[str, str], Tool]
"""Tools by origin and name."""

GiveOptions = Callable[[StoredOpening], Any]
"""Returns the code that a stored session needs: `SessionOptions`, or a mapping of some of them. None for nothing."""

MakeRoot = Callable[[SessionState, Ports, Sequence[Event]], SessionCell]
"""Creates the cell of a root from its state, its ports, and its last published events."""

LOGGER = Logger("agentrail.runtime")

NOT_AWAITED = "the parent session no longer waits for it"
"""Why a takeover closes a child session. Its open work stays open."""

_ENDED = "it has ended and cannot continue"
_NUMBERED = re.compile(r"(:object)\d+$")


@frozen(kw_only=True)
class WantedSession:
    session_id: SessionId
    scope: str
    cause: Cause = "start"
    force: bool = False
    is_asked: bool = True
    is_claimed: bool = False
    only_checks: bool = False
    on_drift: OnDrift | None = None


class CanRevive(Exception):
    """The code here can continue a session. Nothing was changed."""


@frozen(kw_only=True)
class ReadySession:
    cell: SessionCell
    workspace: Workspace
    options: SessionOptions


@define(eq=False, repr=False, slots=False)
class SessionResumption:
    """Resumes one stored session with its children.

    Attributes:
        seen: Number of the last event that readers here have seen. None without readers.
    """

    _keeping: Keeping
    _dependencies: Dependencies
    _wanted: WantedSession
    _make_root: MakeRoot = SessionCell
    _seen: int | None = field(default=None, kw_only=True)
    _finder: PluginFinder = field(init=False, factory=lambda: PluginFinder({}))
    _watch: PluginWatch | None = field(init=False, default=None)
    _imported: ImportedTools = field(init=False, factory=dict)
    _has_keywords: bool = field(init=False, default=False)

    async def run(self, give: GiveOptions) -> tuple[ReadySession, ...]:
        keeping, wanted = self._keeping, self._wanted
        top = await keeping.read(partial(self._look, wanted))
        opening = await keeping.read(partial(opening_of, keeping.store, top))

        def assembled() -> tuple[SessionOptions, tuple[SessionCell, Workspace]]:
            given = give(opening)
            self._has_keywords = not isinstance(given, SessionOptions)
            options = _options_of(opening, given)
            return options, assemble(wanted.session_id, options, self._dependencies)

        options, (cell, workspace) = call_guarded(partial(_refuse_bug, wanted.session_id), assembled)
        watch = cell.state.data.stack.ask
        assert isinstance(watch, PluginWatch)  # noqa: S101 - created by `assemble`
        self._watch = watch
        self._finder = PluginFinder({plugin.name: plugin for plugin in _plugins_of(options, watch)})
        watch.find_others(self._finder)
        return await self._take(cell.ports, workspace, options)

    async def wake(self, row: SleepingSession) -> tuple[ReadySession, ...]:
        ports = row.ports
        await self._keeping.read(partial(self._look, self._wanted))
        self._watch = PluginWatch(
            ports.session_id, ports.user_data, self._dependencies.outside, withheld=ports.withheld
        )
        self._finder = PluginFinder({plugin.name: plugin for plugin in row.plugins})
        self._watch.find_others(self._finder)
        return await self._take(ports, row.workspace, row.options)

    async def _take(
        self, ports: Ports, workspace: Workspace, options: SessionOptions
    ) -> tuple[ReadySession, ...]:
        keeping, wanted = self._keeping, self._wanted
        tree = await keeping.read(self._read_tree)
        top = tree[wanted.session_id]
        is_open = any(one.stored.standing.has_open_work for one in tree.values())
        # It may have been done in the time that the restored backup lacks.
        if top.is_restored and is_open and wanted.on_drift != "go_on":
            raise JournalBehind(top.stored.session, have=top.tail.seq, acknowledged=None)
        self._imported = await keeping.read(partial(imported_tools, tree.values(), ports))
        for one in tree.values():
            is_root = one.stored.session == wanted.session_id
            missing = missing_code(one.state, ports, is_root=is_root, finds_tools=True)
            # Keywords without providers are a mistake. `SessionOptions` without them remove the providers.
            if self._has_keywords and one.state.data.config.gathers_context and not ports.context_providers:
                missing.append("its context providers")
            if missing:
                raise Unrevivable(one.stored.session, missing=missing)
            self._check_drift(one)
        if wanted.only_checks:
            raise CanRevive
        try:
            # A reserved tree only as it was folded: its owner may have lived on, and written more.
            tail = top.stored.tail if wanted.is_claimed else None
            taken = await keeping.take(
                wanted.scope, wanted.session_id, wanted.cause, force=wanted.force, tail=tail
            )
            keeping.forget_behind(wanted.scope, wanted.session_id)
            found = await keeping.read(partial(self._read_taken, tree, taken.sessions))
            for one in found.values():  # it may have recorded more before it was taken over
                self._check_drift(one)
            return tuple(self._make_ready(found, ports, workspace, options))
        except HeldBy:
            raise
        except BaseException:  # this node lives on, so no other could take over a tree that it does not use
            keeping.give_back(wanted.scope, wanted.session_id)
            raise

    # --- in a worker thread

    def _look(self, wanted: WantedSession) -> StoredSession:
        stored = stored_of(self._keeping.store, wanted.scope, wanted.session_id)
        if self._keeping.is_vain(wanted.scope, wanted.session_id):
            message = f"session {wanted.session_id!r} was not started: its store did not answer"
            raise SessionNotFound(message)
        self._check_codec(stored)
        if stored.root != stored.session:
            message = f"session {stored.session!r} is a sub-agent: resume its root, {stored.root!r}"
            raise OptionError([message])
        if stored.standing.has_ended:
            raise SessionDown(wanted.session_id, _ENDED)
        behind = self._keeping.behind_of(stored)
        if behind is not None and wanted.on_drift != "go_on":
            raise behind
        return stored

    def _read_tree(self) -> dict[SessionId, Revived]:
        store, wanted = self._keeping.store, self._wanted
        filters = Filters(scope=wanted.scope, root=wanted.session_id, has_ended=False)
        tree: dict[SessionId, Revived] = {}
        ask = self._ask().quiet()
        for one in all_sessions(store, filters):
            self._check_codec(one)
            tree[one.session] = revive(store, one, self._finder, ask)
        if wanted.session_id not in tree:  # it ended or was deleted since
            self._look(wanted)
            raise SessionDown(wanted.session_id, _ENDED)
        return tree

    def _read_taken(
        self, known: Mapping[SessionId, Revived], taken: tuple[StoredSession, ...]
    ) -> dict[SessionId, Revived]:
        store, finder, ask = self._keeping.store, self._finder, self._ask().quiet()
        found = {
            one.session: taken_on(store, known[one.session], one, finder, ask)
            if one.session in known
            else revive(store, one, finder, ask)
            for one in taken
        }
        for name, one in found.items():
            found[name] = replace(one, ended_below=self._ended_below(one, found))
        root = found[self._wanted.session_id]
        before = root.state.data.seq + 1
        if self._seen is not None and len(root.events) < before - 1 - self._seen <= MAX_OLD_EVENTS:
            # Another node ran it while it hibernated here, and its readers wait for what that published.
            stored = root.stored
            missed = old_events(
                store, stored.scope, stored.session, after=self._seen, before=before, finder=finder, ask=ask
            )
            found[stored.session] = replace(root, events=missed or root.events)
        return found

    def _ended_below(self, one: Revived, found: Container[SessionId]) -> tuple[Spent, ...]:
        """Return the usage of sessions of running tools that ended, or never began, without a record of that in their parent."""
        data, spent = one.state.data, list[Spent]()
        calls = {call.effect_id: call for call in (*data.batch, *data.survivors)}
        for effect_id, owner in data.open.items():
            call = calls.get(owner.attempt) if isinstance(owner, OfChild) else None
            if call is None:
                continue
            child_id = SessionId(f"{one.stored.session}{name_of_child(call.call.call_id, effect_id)}")
            if child_id in found or len(child_id) > MAX_SESSION_ID_CHARACTERS:
                continue
            if child_id not in call.child_ids:  # a child works only after its start is reported
                spent.append(NOTHING_SPENT)
                continue
            store, ask = self._keeping.store, self._ask().quiet()
            with suppress(AgentrailError):  # its usage is unknown then
                ended = revive_ended(store, one.stored.scope, child_id, self._finder, ask)
                spent += [] if ended is None else [_spent_of_lost(ended, {})]
        return tuple(spent)

    def _check_codec(self, stored: StoredSession) -> None:
        known = self._keeping.node.codec
        if stored.codec > known:
            message = f"session {stored.session!r} has records of a newer agentrail (codec {stored.codec}, this one reads up to {known}): it waits for a node of that version"
            raise StoreTooNew(message, found=stored.codec, known=known)

    def _ask(self) -> PluginWatch:
        assert self._watch is not None  # noqa: S101 - set before anything is read
        return self._watch

    # --- in the event loop

    def _check_drift(self, revived: Revived) -> None:
        """Leave a session unchanged if the code here folds it to different operations, unless it must continue."""
        drift = revived.drift
        if drift is None or not drift.is_of_deeds:
            return
        if (self._wanted.on_drift or self._keeping.on_drift) == "park":
            raise JournalDrifted(
                revived.stored.session,
                drift.first,
                what=str(drift),
                operation=drift.operation,
                plugin=drift.plugin,
            )

    def _make_ready(
        self, found: Mapping[SessionId, Revived], ports: Ports, workspace: Workspace, options: SessionOptions
    ) -> list[ReadySession]:
        wanted = {self._wanted.session_id}
        ready: list[ReadySession] = []
        all_ports = {"": ports}
        children: defaultdict[str, list[Revived]] = defaultdict(list)
        for one in found.values():
            children[one.stored.parent].append(one)
        for revived in sorted(found.values(), key=lambda one: len(one.state.data.config.path)):
            config = revived.state.data.config
            if config.session_id not in wanted:
                self._close(revived)
                continue
            above = all_ports[config.path[-2] if len(config.path) > 1 else ""]
            is_root = len(config.path) == 1
            name = GENERAL_PURPOSE if is_root else _agent_of(found, config.session_id, config.path)
            agent = above.agents.get(name, GENERAL)
            own = ports_of(revived.state, above, self._imported, agent)
            if not is_root:
                parent_trace = trace_of_child(found[config.path[-2]].state.data, config.session_id)
                own = replace(own, parent_trace=parent_trace)
            all_ports[config.session_id] = own
            gathers = bool(own.context_providers)
            parts = (asked_by(revived.state, self._ask()), own, revived.events)
            cell = self._make_root(*parts) if is_root else SessionCell(*parts)
            if is_root:
                self._ask().report_to(cell.mailbox)
            first = Recovered(
                at_ms=now_ms(),
                cause=self._wanted.cause,
                open=revived.begun,
                attempt=1 if self._wanted.is_asked else revived.attempt,
                semantics=SEMANTICS,
                host_hooks=tuple(sorted(hooks_of(own.host) - config.host_hooks)),
                gathers_context=None if gathers == config.gathers_context else gathers,
                models=models_now(revived.state.data, own.providers),
            )
            wanted |= _wanted_below(cell, first)
            first = replace(first, spent=_spent_below(revived, children, wanted))
            change = renew_tools(cell)
            self._keeping.keep(cell, revived.tail, first=first, snapshot=revived.snapshot, tool_change=change)
            _warn_of_lost_tools(revived.state, change)
            if revived.set_aside:
                plugins = ", ".join(f"{name!r} ({count})" for name, count in revived.set_aside)
                said = "session %s: executed calls follow its journal; overridden verdicts: %s"
                LOGGER.info(said, config.session_id, plugins)
            if revived.drift is not None and cell.journal is not None:
                said = "session %s: the current code produces a different history: %s"
                LOGGER.warning(said, config.session_id, revived.drift)
                cell.journal.note_drift(
                    revived.drift, cell.state, revived.begun, at_ms=now_ms(), engine=ENGINE
                )
            # The root owns and closes the sandbox, so the workspace of a child is never opened.
            make = self._dependencies.make_sandbox
            place = workspace if is_root else Workspace(make, "local", own.working_dir)
            ready.append(ReadySession(cell=cell, workspace=place, options=options))
        return ready[::-1]

    def _close(self, revived: Revived) -> None:
        config = revived.state.data.config
        draft = closed_draft(NOT_AWAITED, at_ms=now_ms(), events=revived.state.data.seq)
        records, _ = sealed((draft,), revived.tail, scope=config.scope, session=config.session_id)
        self._keeping.close_journal(records)


def _warn_of_lost_tools(state: SessionState, change: ChangeTools | None) -> None:
    gone = () if change is None else change.detach
    lost = [name for name in gone if (spec := state.data.tools.get(name)) and not spec.shown_text]
    if lost:
        session = state.data.config.session_id
        LOGGER.warning("session %s: its tools no longer exist: %s", session, ", ".join(lost))


def _refuse_bug(session_id: str, error: BaseException) -> NoReturn:
    """Raise a bug in code of the application, such as `revive`, as a fault of this session: it must not end a node that has others."""
    if isinstance(error, AgentrailError):
        raise error
    raise Unrevivable(session_id, missing=[f"its code, which raised {describe_bug(error)}"]) from error


def _options_of(opening: StoredOpening, given: Any) -> SessionOptions:
    if isinstance(given, SessionOptions):
        return attrs.evolve(given, session_id=opening.session_id, scope=opening.scope)
    config = opening.config
    known: dict[str, Any] = {
        "working_dir": config.working_dir,
        "user_data": config.user_data,
        "group_id": config.group_id,
        "max_agent_depth": config.agent_limits.max_depth,
    }
    if config.question_timeout_ms is not None:
        known["tool_timeout_seconds"] = config.question_timeout_ms / 1000
    if not is_object(config.model.model):
        known["model"] = config.model.model
    merged = {**known, **(given or {}), "session_id": opening.session_id, "scope": opening.scope}
    if "user_data" not in (given or {}) and has_handle(config.user_data):
        raise Unrevivable(
            opening.session_id, missing=["user_data, which contains a Secret, whose value is never stored"]
        )
    if "model" not in merged and "blueprint" not in merged:
        raise Unrevivable(opening.session_id, missing=[f"model {config.model.model!r}"])
    return make_options(merged)


def _plugins_of(options: SessionOptions, watch: PluginWatch) -> list[Any]:
    entries = [*options.plugins, *(entry for agent in options.agents for entry in agent.plugins or ())]
    return [part_entry(entry, watch)[0] for entry in entries[::-1]]  # the session takes precedence


def missing_code(
    state: SessionState, ports: Ports, *, is_root: bool = True, finds_tools: bool = False
) -> list[str]:
    data = state.data
    names = _names_of_tools(ports)
    missing = [
        f"tool {spec.name!r}"
        for spec in data.tools
        if spec.name not in names and not (spec.origin if finds_tools else spec.shown_text)
    ]
    missing += [
        f"agent {spec.name!r}" for spec in data.config.agents if is_root and spec.name not in ports.agents
    ]
    models = dict.fromkeys((data.model.model, *(facts.model for facts in data.config.fallbacks)))
    return missing + [f"model {name!r}" for name in models if not _has_model(name, ports)]


def _names_of_tools(ports: Ports) -> set[str]:
    return {name for name, _ in ports.tools} | {
        name for agent in ports.agents.values() for name in agent.tools or ()
    }


def imported_tools(sessions: Iterable[Revived], ports: Ports) -> ImportedTools:
    names = _names_of_tools(ports)
    wanted = {
        (spec.origin, spec.name): spec
        for one in sessions
        for spec, _ in _tools_in(one.state)
        if spec.origin and spec.name not in names
    }
    found = {key: tool_at(spec) for key, spec in wanted.items()}
    return {key: tool for key, tool in found.items() if tool is not None}


def _tools_in(state: SessionState) -> Iterator[tuple[ToolSpec, int]]:
    data = state.data
    for spec in data.tools:
        yield spec, data.tools.generation_of(spec.name)
    for call in (*data.batch, *data.survivors):
        if call.spec is not None:
            yield call.spec, call.generation


def _has_model(name: str, ports: Ports) -> bool:
    if name in ports.providers or _plain(name) in ports.providers:
        return True
    if is_object(name):
        return False
    try:
        ports.providers[name] = ports.find_provider(name, ports.provider_opts.get(name, {}))
    except AgentrailError:
        return False
    return True


def models_now(data: Known, providers: Mapping[str, Provider]) -> tuple[ModelFacts, ...]:
    """Return the facts of models that their providers describe otherwise now. A provider that raises is left out."""
    known = [*models_of(data), *[one.model for one in data.config.agents if one.model is not None]]
    names = dict.fromkeys([one.model for one in known if one.model in providers])
    now = [call_guarded(lambda _: data.model, facts_of, name, providers[name]) for name in names]
    return tuple([one for one in now if one not in known])


def _plain(model: str) -> str:
    """Return the first name of a model object: only the process that had several could tell them apart."""
    return _NUMBERED.sub(r"\1", model)


def take_first_object(model: str, providers: dict[str, Provider]) -> None:
    if model not in providers and _plain(model) in providers:
        providers[model] = providers[_plain(model)]


def ports_of(
    state: SessionState, above: Ports, imported: ImportedTools, agent: ReadyAgent = GENERAL
) -> Ports:
    data = state.data
    by_name: dict[str, Tool] = {}
    for known in above.agents.values():
        by_name.update(known.tools or {})
    by_name.update({name: tool for (name, generation), tool in above.tools.items() if generation == 0})
    # Its own come first: they may have the same names as tools of its parent, and differ.
    tools = {key: tool for key, tool in above.tools.items() if key[1] >= 0}
    tools |= tools_of_agents(data.config.agents, above.agents)
    tools |= {(name, 0): tool for name, tool in (agent.tools or {}).items()}
    for spec, generation in _tools_in(state):
        key = spec.name, generation
        if key not in tools:
            found = by_name.get(spec.name, imported.get((spec.origin, spec.name)))
            tools[key] = gone_tool(spec, above.from_sources) if found is None else found
    providers = dict(above.providers)
    model = data.model.model
    take_first_object(model, providers)
    is_root = len(data.config.path) == 1
    return replace(
        above,
        session_id=data.config.session_id,
        tools=tools,
        providers=first_provider(model, providers),
        provider_opts=dict(above.provider_opts),
        context_providers=above.context_providers if is_root else (),
        user_data=agent.data_below(above.user_data),
        deps=agent.deps_below(above.deps),
    )


def _spent_below(
    above: Revived, children: Mapping[str, Sequence[Revived]], wanted: Container[SessionId] = ()
) -> tuple[Spent, ...]:
    """Return the usage of each child of a tool that ends now or has ended, with that of sessions below it."""
    lost = [one for one in children.get(above.stored.session, ()) if one.stored.session not in wanted]
    of_tools = [one for one in lost if _agent_at(above.state.data, one.stored.session) is None]
    return (*[_spent_of_lost(one, children) for one in of_tools], *above.ended_below)


def _spent_of_lost(lost: Revived, children: Mapping[str, Sequence[Revived]]) -> Spent:
    data, below = lost.state.data, children.get(lost.stored.session, ())
    agents = [(_agent_at(data, one.stored.session), _spent_of_lost(one, children)) for one in below]
    alive = [(agent, spent) for agent, spent in agents if agent is not None and agent.status != "ended"]
    return spent_with_lost(data, _spent_below(lost, children), alive)


def _agent_at(data: Known, session_id: SessionId) -> AgentState | None:
    own, agents = data.config.session_id, data.agents.states
    return next((one for one in agents if session_id in {one.child_id, f"{own}:{one.name}"}), None)


def _agent_of(found: Mapping[SessionId, Revived], session_id: SessionId, path: Sequence[SessionId]) -> str:
    data = found[path[-2]].state.data
    agent = _agent_at(data, session_id)
    if agent is not None:
        return agent.agent
    for call in (*data.batch, *data.survivors):
        if session_id in call.child_ids or session_id == f"{path[-2]}.{call.call.call_id}":
            return agent_wanted(call.arguments)
    return GENERAL_PURPOSE


def _wanted_below(cell: SessionCell, first: Recovered) -> set[SessionId]:
    wanted: set[SessionId] = set()
    for effect in decide_first_effects(cell.state, first):
        match effect:
            case ResumeChild():
                wanted |= set(child_ids_of(cell.ports.session_id, effect))
            case StartAgent(child_id=child_id, name=name):
                # A child whose start was not reported has the default name of such a child.
                wanted.add(child_id or SessionId(f"{cell.ports.session_id}:{name}"))
            case _:
                pass
    return wanted


def child_ids_of(parent: SessionId, effect: ResumeChild) -> tuple[SessionId, ...]:
    """Return the ids of the session for a call. A child whose start was not reported has the default name of such a child."""
    return effect.child_ids or (SessionId(f"{parent}.{effect.call_id}"),)
