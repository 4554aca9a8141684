"""Options of a host, validated before anything starts. All faults of one kind are reported at once."""

import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

from attrs import field, fields, frozen

from agentrail.abc import ContextProvider, Embedder, KnowledgeStore, NoteStore, RecallStore, ToolServer
from agentrail.abc.store import NODE_LEASE_SECONDS, Store
from agentrail.commands import CommandRegistry
from agentrail.config.key_filter import shown_address
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.errors import OptionError
from agentrail.errors.name_guesses import guess_name
from agentrail.host.agent_profiles import (
    AgentProfile,
    AgentProfiles,
    ResolveAgentProfile,
    check_agent_profiles,
)
from agentrail.host.host_plugin import HostPlugin, check_host_plugins, faults_of_context_providers
from agentrail.host.plugin_chain import HOOK_SECONDS, OnPluginError
from agentrail.host.quotas import Limits
from agentrail.host.requests import OnDisconnect
from agentrail.host.webhooks import Webhooks
from agentrail.otp.field_rules import Pause, TimeLimit, faults_of_fields, misfits
from agentrail.otp.guarded_calls import is_async, repr_of
from agentrail.runtime.deps import DepsFor
from agentrail.runtime.persistence import Durability
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.sandboxes.fallback import ShellFallback
from agentrail.sandboxes.local import LocalSandbox
from agentrail.stores.memory_store_names import (
    faults_of_own_stores,
    faults_of_shared,
)
from agentrail.stores.store_names import faults_of_durability, faults_of_node, is_node_address
from agentrail.stores.store_urls import is_of_several_nodes
from agentrail.telemetry.open_telemetry import OpenTelemetry, faults_of_telemetry
from agentrail.wire.sandbox_address import is_loopback_host

if TYPE_CHECKING:
    from agentrail.telemetry.metrics import Metrics

ReadinessCheck: TypeAlias = Callable[[], Awaitable[object]]
"""Raises if its subject is not ready."""

_OWN_CHECKS: Final = ("store", "supervisor", "plugins")


@frozen(kw_only=True)
class HostOptions:
    """Options of a host.

    Attributes:
        profiles: Session configurations, each with its own id.
        resolve_profile: An async function that finds a profile, instead of `profiles`.
        default_profile: Profile for messages that name none. None: the first.
        plugins: Plugins of the whole host, in any order. Their priorities order them.
        context_providers: Called before those of plugins.
        session_plugins: Added to every session of every profile at its start. A stored session keeps the plugins that it has.
        on_plugin_error: Called with each failure of a plugin. None: a warning in the log.
        hook_timeout: Time limit of a hook without its own timeout, in seconds.
        supervisor: An open supervisor, which stays open. None: the host opens its own.
        store: Store of sessions, see `open_supervisor`. `memory:` lasts as long as the process, None stores nothing.
        durability: `grouped` or `strict`, see `open_supervisor`.
        data_dir: See `open_supervisor`.
        environ: See `open_supervisor`.
        shell_fallback: See `open_supervisor`.
        deps_for: See `open_supervisor`.
        memories: Store of memories, see `open_supervisor`. Each user of each tenant has their own.
        notes: Store of each session's working notes, see `open_supervisor`.
        knowledge: Store of knowledge bases, see `open_supervisor`. Each user sees the bases that they may read.
        embedder: Embedding model, see `open_supervisor`.
        mcp: MCP servers, see `open_supervisor`.
        telemetry: Export of spans, see `open_supervisor`.
        audit: Audit log, see `open_supervisor`.
        public_url: Address under which browsers and clients of users reach this host, with its path prefix. Links to log in
            to MCP servers and addresses in A2A cards begin with it. None: users cannot log in, and a card has the
            address of its request.
        files_are_shared: Whether directories of local sandboxes are the same on all nodes of a shared store, as on a network file system. Otherwise
            profiles with a local sandbox are refused there: sessions move between machines, their files would not.
        idle_after: Idle time before a session leaves memory, in seconds. None: never. Without a store sessions stay.
        advertise: Address of this node for other nodes, see `open_supervisor`.
        lease: Lease of this node in seconds, see `open_supervisor`.
        limits: Limits per caller and in total.
        webhooks: Notification of ended requests. None: no webhooks.
        commands: Slash commands recognised in users' messages. None: messages are taken literally, and built-in
            commands run only by name.
        is_for_several: Whether callers are told apart. Then two users must not share a workspace by default.
        chat_timeout: Time limit for the answer of a `chat`, in seconds.
        on_disconnect: Handling of a request whose caller disconnects, if the request does not set it.
        drain_timeout: Time for cycles to end when the host closes, in seconds.
        shutdown_timeout: Total time of a close, in seconds.
        readiness_checks: Async functions by name that raise if something is not ready.
        check_timeout: Time limit of each check, in seconds.
        metrics: `Metrics` of this host alone. With `supervisor`, the ones that it was opened with.
    """

    profiles: Sequence[AgentProfile] = ()
    resolve_profile: ResolveAgentProfile | None = None
    default_profile: str | None = None
    plugins: Sequence[HostPlugin] = ()
    context_providers: Sequence[ContextProvider] = ()
    session_plugins: Sequence[PluginEntry] = ()
    on_plugin_error: OnPluginError | None = None
    hook_timeout: TimeLimit = HOOK_SECONDS
    supervisor: SessionSupervisor | None = None
    store: str | Store | None = "memory:"
    durability: Durability = "grouped"
    data_dir: str | os.PathLike[str] | None = None
    environ: Mapping[str, str] | None = field(default=None, repr=False)  # may contain keys
    shell_fallback: ShellFallback = "refuse"
    deps_for: DepsFor | None = None
    memories: str | RecallStore | None = None
    notes: str | NoteStore | None = None
    knowledge: str | KnowledgeStore | None = None
    embedder: Embedder | None = None
    mcp: Sequence[ToolServer] = ()
    telemetry: OpenTelemetry | None = None
    audit: str | None = None
    public_url: str | None = None
    files_are_shared: bool = False
    idle_after: TimeLimit | None = 600.0
    advertise: str = ""
    lease: float = NODE_LEASE_SECONDS
    limits: Limits = field(factory=Limits)
    webhooks: Webhooks | None = None
    commands: CommandRegistry | None = None
    is_for_several: bool = False
    chat_timeout: TimeLimit = 300.0
    on_disconnect: OnDisconnect = "continue"
    drain_timeout: Pause = 10.0
    shutdown_timeout: TimeLimit = 30.0
    readiness_checks: Mapping[str, ReadinessCheck] = MappingProxyType({})
    check_timeout: TimeLimit = 2.0
    metrics: "Metrics | None" = None

    checked_plugins: tuple[HostPlugin, ...] = field(init=False, repr=False)
    checked_profiles: AgentProfiles = field(init=False, repr=False)

    @checked_plugins.default
    def _check(self) -> tuple[HostPlugin, ...]:
        faults = [*_faults_of(self)]
        OptionError.raise_for(faults or [*_faults_of_nodes(self)])
        return check_host_plugins(self.plugins)

    @checked_profiles.default
    def _check_profiles(self) -> AgentProfiles:
        return check_agent_profiles(
            self.profiles,
            resolve=self.resolve_profile,
            default=self.default_profile,
            session_plugins=self.session_plugins,
            is_for_several=self.is_for_several,
        )


_BY_TYPE: Final = (
    *("hook_timeout", "chat_timeout", "drain_timeout", "shutdown_timeout", "check_timeout", "idle_after"),
    *("on_disconnect", "limits", "on_plugin_error", "webhooks", "commands", "files_are_shared"),
    *("is_for_several", "data_dir", "environ", "deps_for", "shell_fallback"),
)
"""Options whose types alone are checked."""


def _faults_of(options: Any) -> Iterator[str]:
    given = options  # annotations cannot be trusted here
    for name in ("profiles", "plugins", "session_plugins", "mcp"):
        yield from misfits(name, getattr(given, name), Iterable[Any])
    yield from faults_of_fields(given, HostOptions, *_BY_TYPE)
    yield from faults_of_durability(given.durability)
    yield from faults_of_node(given.advertise, given.lease)
    if given.public_url is not None and not is_public_url(given.public_url):
        yield f"public_url is {repr_of(shown_address(given.public_url)):.200}: expected https://host, or http on loopback, without a query"
    has_budgets = isinstance(given.limits, Limits) and given.limits.has_day_budgets
    if has_budgets and (given.store is None or given.supervisor is not None):
        yield "limits set a daily budget, which needs a store, because spending is read from journals: configure one"
    yield from faults_of_context_providers(given.context_providers)
    if not isinstance(given.supervisor, SessionSupervisor | None):
        yield f"supervisor is {repr_of(given.supervisor):.80}: expected the result of open_supervisor, or None"
    yield from faults_of_own_stores(given)
    yield from faults_of_telemetry(given.telemetry)
    shared = (given.memories, given.notes, given.knowledge, given.embedder, given.telemetry, given.audit)
    if given.supervisor is not None and (given.mcp or any(one is not None for one in shared)):
        yield "memories, notes, knowledge, an embedder, telemetry, an audit log or MCP servers cannot be combined with supervisor, which has its own: pass them to open_supervisor"
    yield from _faults_of_checks(given.readiness_checks)


def _faults_of_nodes(given: Any) -> Iterator[str]:
    yield from faults_of_shared(given.store, given.memories, given.notes)
    if not is_of_several_nodes(given.store):
        return
    of_profiles = (getattr(getattr(one, "options", None), "mcp", None) or () for one in given.profiles)
    for server in {id(one): one for one in (*given.mcp, *chain.from_iterable(of_profiles))}.values():
        grant = getattr(getattr(server, "oauth", None), "grant", None)
        if getattr(server, "auth", None) == "oauth" and grant != "client_credentials":
            yield f"MCP server {server.name!r} has auth='oauth', whose logins stay on one machine, while sessions of a shared store move: give auth a token, or oauth the grant 'client_credentials'"
    for one in () if given.files_are_shared else given.profiles:
        options = getattr(one, "options", None)
        sandbox = getattr(options, "sandbox", "memory")
        is_name = isinstance(sandbox, str)
        if (
            sandbox is None
            or isinstance(sandbox, LocalSandbox)
            or (is_name and sandbox.partition(":")[0] == "local")
        ):
            yield (
                f"profile {one.id!r} has a local sandbox, whose files stay on one machine, while sessions of a shared store move: "
                "use sandbox='memory' or one on another host, or set files_are_shared=True if the directory is the same on all nodes"
            )


def faults_of_option(name: str, value: object) -> list[str]:
    usual = {one.name: one.default for one in fields(HostOptions) if one.init}
    return [*_faults_of(SimpleNamespace(**{**usual, "limits": Limits(), name: value}))]


def _faults_of_checks(checks: Any) -> Iterator[str]:
    if not isinstance(checks, Mapping):
        yield f"readiness_checks are {repr_of(checks):.200}: expected names and async functions"
        return
    for name, check in checks.items():
        if not isinstance(name, str) or not name or name in _OWN_CHECKS:
            yield f"readiness_checks have {repr_of(name):.80}: expected a name other than {',  '.join(_OWN_CHECKS)}"
        elif not is_async(check):
            yield f"readiness_checks[{name!r}] is {repr_of(check):.80}: expected an async function (`async def`)"


def is_public_url(value: object) -> bool:
    """Return whether this can be the beginning of an address of the host."""
    if not isinstance(value, str) or not is_node_address(value):
        return False
    return value.startswith("https://") or is_loopback_host(urlsplit(value).hostname or "")


def decide_host_options(
    options: HostOptions | None, given: Mapping[str, Any], *, also: Sequence[str] = ()
) -> HostOptions:
    if options is not None:
        if given:
            message = f"options were given both as one value and as keywords ({', '.join(given)}): use one of the two"
            raise OptionError([message])
        return options
    known = (*_NAMES, *also)
    wrong = [name for name in given if name not in _NAMES]
    OptionError.raise_for([f"there is no option {name!r}: {guess_name(name, known)}" for name in wrong])
    return HostOptions(**given)


_NAMES: Final = tuple(one.name for one in fields(HostOptions) if one.init)
