"""The composition root: turns names (`anthropic:…`, `demo:`) into adapters.

Alone imports both the runtime and the adapters, and reads the environment.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Unpack
from urllib.parse import urlsplit

import trio
from attrs import evolve, frozen

from agentrail import outside
from agentrail.abc import Embedder, KnowledgeStore, NoteStore, Provider, RecallStore, ResolveProvider, Secret
from agentrail.abc.store import NODE_LEASE_SECONDS, Store
from agentrail.abc.tool_source import ToolServer, ToolSource
from agentrail.actors.trio_check import need_trio
from agentrail.core.journal.record import Record
from agentrail.core.values.port_members import offers
from agentrail.errors import (
    AgentrailError,
    Authentication,
    ModelNotFound,
    OptionError,
    ProtocolError,
    ProviderError,
    StoreUnavailable,
    Timeout,
    Trimmed,
)
from agentrail.errors.advice import Advice, advise
from agentrail.errors.name_guesses import near_name
from agentrail.messages import SessionId
from agentrail.otp.field_rules import all_items, misfits
from agentrail.otp.guarded_calls import repr_of
from agentrail.providers.demo import Demo
from agentrail.providers.failures import Vendor, no_keys_shown
from agentrail.providers.http import HttpClients
from agentrail.providers.json_text import decode_object
from agentrail.providers.model_names import likely_model, likely_provider, usual_address
from agentrail.providers.options import ProviderOptions
from agentrail.providers.provider_profiles import Profiles
from agentrail.providers.vendors import AnthropicMessages, Gemini, OpenAIChat, OpenAIResponses
from agentrail.runtime.deps import DepsFor
from agentrail.runtime.hibernation import Resume, Revive
from agentrail.runtime.keywords import SessionKeywords
from agentrail.runtime.loop_watch import VARIABLE as DEBUG_VARIABLE, modes_of, watch_loop
from agentrail.runtime.persistence import STORE_PATIENCE_SECONDS, Durability, OnDrift, has_other_nodes
from agentrail.runtime.retention import KeepLimits, keep_limits_of
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_loader import read_after
from agentrail.runtime.session_sandbox import OwnSandbox
from agentrail.runtime.session_stores import SharedStores
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.runtime.supervisor_gauges import measured
from agentrail.runtime.supervisor_lifespan import StoreOptions, open_sessions
from agentrail.runtime.tree_secrets import without_known
from agentrail.sandboxes.fallback import ShellFallback
from agentrail.sandboxes.instruction_lookup import FilesAbove
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.sandboxes.remote.client import RemoteSandbox
from agentrail.sandboxes.remote.container import ContainerSandbox, skills_below
from agentrail.sandboxes.remote.operations import SANDBOX_TOKEN_VARIABLE
from agentrail.stores.audit_file import AuditFile, path_of_audit
from agentrail.stores.data_directory import find_data_directory
from agentrail.stores.memory_store_names import (
    faults_of_own_stores,
    faults_of_shared,
    opened_knowledge,
    opened_notes,
    opened_recall,
)
from agentrail.stores.store_names import (
    faults_of_durability,
    faults_of_keeping,
    faults_of_limits,
    faults_of_node,
    opened_store,
)
from agentrail.telemetry.audit import AuditLog
from agentrail.telemetry.open_telemetry import OpenTelemetry, faults_of_telemetry
from agentrail.telemetry.reader import EventConsumer, TelemetryReader
from agentrail.wire.sandbox_address import ADDRESS_FORMS, CONTAINER, is_remote

if TYPE_CHECKING:
    from agentrail.telemetry.metrics import Metrics

Environment: TypeAlias = Mapping[str, str]

PROVIDERS: Final = ("anthropic", "demo", "google", "openai", "openai-chat", "registry", "scripted")
"""Prefixes of a model string, before the colon."""

DEFAULT_MODELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "anthropic": "claude-sonnet-4-5",
        "google": "gemini-2.5-flash",
        "openai": "gpt-5-mini",
        "openai-chat": "gpt-5-mini",
    }
)
"""Default model of the command for each provider with a key, if no model is named."""

VARIABLES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        "google": ("GEMINI_API_KEY", "GEMINI_BASE_URL"),
        "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
        "openai-chat": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    }
)
"""Environment variables with the key and base URL of a provider, used if its options do not set them."""

SECOND_KEYS: Final[Mapping[str, str]] = MappingProxyType({"GEMINI_API_KEY": "GOOGLE_API_KEY"})
"""Fallback environment variables for a key."""

VENDOR_URLS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "anthropic": "https://api.anthropic.com",
        "google": "https://generativelanguage.googleapis.com",
        "openai": "https://api.openai.com/v1",
        "openai-chat": "https://api.openai.com/v1",
    }
)
"""Base URL of each provider if none is set."""

_ADAPTERS: Final[Mapping[str, Callable[[ProviderOptions, HttpClients], Provider]]] = MappingProxyType(
    {
        "anthropic": AnthropicMessages,
        "google": Gemini,
        "openai": OpenAIResponses,
        "openai-chat": OpenAIChat,
    }
)
_WITHOUT_OPTIONS: Final = frozenset({"demo", "scripted"})
_KEYLESS_ELSEWHERE: Final = frozenset({"openai", "openai-chat"})

ASK_WITHIN_SECONDS: Final = 5.0
"""Time limit in seconds for a server to list its models."""


@asynccontextmanager
async def open_supervisor(  # noqa: PLR0913 - the settings of a supervisor
    *,
    environ: Environment | None = None,
    shell_fallback: ShellFallback = "refuse",
    scripts: Mapping[str, Provider] | None = None,
    deps_for: DepsFor | None = None,
    memories: str | RecallStore | None = None,
    notes: str | NoteStore | None = None,
    knowledge: str | KnowledgeStore | None = None,
    embedder: Embedder | None = None,
    store: str | Store | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    store_patience: float = STORE_PATIENCE_SECONDS,
    resume: Resume = "none",
    revive: Revive | None = None,
    on_drift: OnDrift = "park",
    durability: Durability = "grouped",
    keep_days: float | None = None,
    keep_bytes: int | None = None,
    hibernate_after: float | None = None,
    advertise: str = "",
    lease: float = NODE_LEASE_SECONDS,
    mcp: Sequence[ToolServer] = (),
    telemetry: OpenTelemetry | None = None,
    metrics: "Metrics | None" = None,
    audit: str | None = None,
) -> AsyncIterator[SessionSupervisor]:
    """Open a supervisor of sessions. Leaving the block ends all of them, in order, or suspends them in a store.

    Args:
        environ: Environment with keys, base URLs and `AGENTRAIL_DEBUG` (`loop` logs code that blocks the event loop for over 50 ms). None for the process's.
        shell_fallback: For sandboxes without working bubblewrap: `refuse` commands, or run them `unconfined`.
        scripts: Models for `scripted:<name>`, such as `{"hello": ScriptedModel([says("Hi.")])}`, for tests. Sessions that name one share it.
        deps_for: Returns the `deps` of a session id's tools, for a session resumed or started without them.
        memories: Memory store, separate for each user: `sqlite:DIRECTORY`, `sqlite:` for the data directory, `postgres:` for the database of `store`, `postgres://…` for another, `memory:`, an open store, or None.
        notes: Store for each session's working notes, `NOTES.md`: `files:DIRECTORY`, `postgres:`, `postgres://…`, `memory:`, or an open store. None: next to the configured `memories`.
        knowledge: Store of knowledge searched with the session's user's rights: `sqlite:DIRECTORY`, `sqlite:`, an open store, or None.
        embedder: Computes vectors for search by meaning, with the extra `embeddings`. None: by words only.
        store: Store of the sessions: `sqlite:PATH`, `sqlite:` for the data directory, `postgres://…`, `memory:`, an open store, or None.
        data_dir: The data directory. None for `AGENTRAIL_DATA_DIR`, otherwise `agentrail` in the user's data directory.
        store_patience: Seconds, from 0.1, that a commit may take before the store counts as unavailable.
        resume: Stored sessions to resume first: those with unfinished work (`working`), `all`, or `none`.
        revive: Returns the code that a `StoredOpening` needs, as options by name.
        on_drift: For a journal that newer code folds differently: `park` leaves it and raises `JournalDrifted`, `go_on` continues it, see `resume_session`.
        durability: `grouped`: a request to a model may leave before its record, and records that no caller and no tool waits for share a commit within 5 ms. `strict`: everything waits for its own record, as with `postgres://…` and budgets.
        keep_days: Days to keep a stored session after its last record, from 1. Live sessions and those that a fork needs stay.
        keep_bytes: Maximum bytes of stored sessions per scope, from 1. The oldest are deleted. None: no limit.
        hibernate_after: Idle seconds before a session leaves memory until its next call. None for never.
        advertise: Address under which other nodes of a shared store reach this one, `https://…` or `http://…`. Empty if it accepts no calls.
        lease: Seconds, from 3 to 60, after which other nodes of a shared store may take the sessions of a node that is silent. The same for all nodes.
        mcp: MCP servers, each an `McpServer`, started when a session first uses them and shared by all sessions.
        telemetry: Export of spans, `OpenTelemetry(…)`. No session waits for it, or notices its errors.
        metrics: `Metrics` of this supervisor alone, with the extra `metrics`. None: nothing is measured.
        audit: Audit log of all decisions: `file:PATH`, or `store` for a file next to that of the store. None for none.

    Yields:
        The supervisor: `start_session`, `session`, `stop_session`, `monitor`, `tree` …; with a store `resume_session`, `find`.

    Raises:
        NoTrioRun: Your move: Trio is not running, such as under asyncio. The message names alternatives such as `agentrail.blocking`.
        OptionError: Your move: invalid options, all faults at once, or an unknown `AGENTRAIL_DEBUG`.
        StoreUnavailable, NotAStore, StoreInUse, StoreTooNew: `store` cannot be opened, is another kind of file, in use, or newer. The message names the remedy.

    Cancellation: Sessions are stopped, shielded, for ten seconds at most, then a store opened here is closed.
    """
    options = _store_options(store_patience, resume, revive, on_drift, hibernate_after, keep_days, keep_bytes)
    options = evolve(options, durability=durability, advertise=advertise, lease=lease)
    named = SharedNames(memories, notes, knowledge, embedder, all_items(mcp), telemetry, metrics, audit)
    async with _opened(shell_fallback, environ, scripts, deps_for, store, data_dir, options, named) as opened:
        yield opened


@asynccontextmanager
async def _opened(  # noqa: PLR0913, PLR0917 - what `open_supervisor` is given
    shell_fallback: ShellFallback,
    environ: Environment | None,
    scripts: Mapping[str, Provider] | None,
    deps_for: DepsFor | None,
    store: str | Store | None,
    data_dir: str | os.PathLike[str] | None,
    options: StoreOptions,
    named: "SharedNames",
) -> AsyncIterator[SessionSupervisor]:
    need_trio()
    types: tuple[tuple[str, object, Any, str], ...] = (
        ("environ", environ, Mapping[str, str], "a mapping of texts"),
        ("scripts", scripts, Mapping, "a mapping of models"),
        ("deps_for", deps_for, Callable, "a function of a session id"),
        ("revive", options.revive, Callable, "a function of a StoredOpening"),
    )
    faults = [
        f"{name} is of type {type(value).__name__}: expected {expected}, or None"
        for name, value, kind, expected in types
        if value is not None and any(misfits(name, value, kind))
    ]
    faults += misfits("data_dir", data_dir, str | os.PathLike | None)
    faults += misfits("shell_fallback", shell_fallback, ShellFallback)
    OptionError.raise_for([*faults, *_faults_of(scripts, store, options, named)])
    environment = os.environ if environ is None else environ
    make = partial(make_sandbox, shell_fallback=shell_fallback, environ=environment)
    known = MappingProxyType(dict(scripts or {}))
    async with (
        HttpClients() as http,
        opened_store(store, data_dir, environment, options.lease) as kept,
        _opened_shared(named, data_dir, environment, kept) as shared,
        _opened_audit(named.audit, kept) as audit,
    ):
        resolve, profiles = _find_models(http, environment, known)
        if kept is not None and has_other_nodes(kept):
            options = evolve(options, state_directory=find_data_directory(environment, data_dir) / "nodes")
        reader = _reader_of(named.telemetry, named.metrics, audit)
        with watch_loop() if "loop" in modes_of(environment.get(DEBUG_VARIABLE, "")) else nullcontext():
            held = open_sessions(
                resolve, make, deps_for=deps_for, shared=shared, store=kept, options=options, reader=reader
            )
            async with held as supervisor:
                supervisor.providers = profiles
                with nullcontext() if named.metrics is None else measured(supervisor, named.metrics):
                    yield supervisor


@asynccontextmanager
async def open_session(
    *,
    model: str | Provider,
    shell_fallback: ShellFallback = "refuse",
    **given: Unpack[SessionKeywords],
) -> AsyncIterator[Session]:
    """Open one session with its own supervisor, for scripts. Leaving the block ends both.

        async with agentrail.open_session(model="demo:") as session:
            print(await session.ask("What can you do?"))

    Args:
        model: Same as `start_session`.
        shell_fallback: Same as `open_supervisor`.
        **given: The other options of `start_session`.

    Yields:
        The session.

    Raises:
        Exception: Same as `open_supervisor` and `start_session`, and from the body, unchanged.

    Cancellation: Same as `open_supervisor`.
    """
    async with open_supervisor(shell_fallback=shell_fallback) as supervisor:
        yield await supervisor.start_session(model=model, **given)


@frozen
class SharedNames:
    memories: str | RecallStore | None
    notes: str | NoteStore | None
    knowledge: str | KnowledgeStore | None
    embedder: Embedder | None
    mcp: tuple[ToolServer, ...] = ()
    telemetry: OpenTelemetry | None = None
    metrics: "Metrics | None" = None
    audit: str | None = None

    def faults(self) -> Iterator[str]:
        yield from faults_of_own_stores(self)
        yield from faults_of_telemetry(self.telemetry)
        metrics: Any = self.metrics  # untyped callers give anything
        given: Any = self.mcp
        if metrics is not None and not offers(metrics, EventConsumer):
            yield f"metrics is {repr_of(metrics):.80}: expected Metrics(), or None"
        if not isinstance(given, tuple):
            yield f"mcp is {repr_of(given):.80}: expected a sequence of McpServer"
            return
        for one in given:
            if not offers(one, ToolServer):
                yield f"mcp has {repr_of(one):.80}: expected McpServer(name, command=…) or McpServer(name, url=…)"
        names = [one.name for one in given if offers(one, ToolServer)]
        yield from [
            f"mcp has two servers named {name!r}" for name in dict.fromkeys(names) if names.count(name) > 1
        ]


def _reader_of(telemetry: OpenTelemetry | None, *others: EventConsumer | None) -> TelemetryReader | None:
    consumers = [one for one in others if one is not None]
    if telemetry is not None:
        consumers.append(telemetry.consumer(without_known))
    if not consumers:
        return None
    sample, propagate = (0.0, None) if telemetry is None else (telemetry.sample, telemetry.propagate)
    return TelemetryReader(consumers, sample=sample, tells_providers=propagate == "providers")


@asynccontextmanager
async def _opened_audit(name: str | None, store: Store | None) -> AsyncIterator[AuditLog | None]:
    if name is None:
        yield None
        return
    with closing(AuditFile(path_of_audit(name, store))) as file:
        log = AuditLog(file.read, file.append, partial(_records_of, store))
        await outside.offload(log.open)
        yield log


def _records_of(store: Store | None, scope: str, session: SessionId, after: int) -> Sequence[Record]:
    try:
        return () if store is None else read_after(store, scope, session, after)
    except Trimmed as error:
        return _records_of(store, scope, session, error.first - 1)
    except StoreUnavailable:
        raise
    except AgentrailError:  # deleted meanwhile
        return ()


def _store_options(  # noqa: PLR0913, PLR0917 - the keywords of `open_supervisor`, in their order
    patience: float,
    resume: Resume,
    revive: Revive | None,
    on_drift: OnDrift,
    hibernate_after: float | None,
    keep_days: float | None,
    keep_bytes: int | None,
) -> StoreOptions:
    return StoreOptions(
        patience=patience,
        resume=resume,
        revive=revive,
        on_drift=on_drift,
        keep=keep_limits_of(keep_days, keep_bytes),
        hibernate_after=hibernate_after,
    )


@asynccontextmanager
async def _opened_shared(
    named: SharedNames,
    data_dir: str | os.PathLike[str] | None,
    environ: Environment,
    kept: Store | None,
) -> AsyncIterator[SharedStores]:
    async with (
        opened_recall(named.memories, data_dir, environ, kept) as recall,
        opened_notes(named.notes, named.memories, data_dir, environ, kept, recall) as noted,
        opened_knowledge(named.knowledge, data_dir, environ) as bases,
    ):
        home = Path(environ["HOME"]) if environ.get("HOME") else None
        find = partial(FilesAbove, home=home)
        yield SharedStores(
            recall=recall,
            notes=noted,
            knowledge=bases,
            embedder=named.embedder,
            instructions=find,
            make_source=partial(make_source, data_dir=data_dir, environ=environ),
            servers=named.mcp,
        )


def _faults_of(scripts: object, store: object, options: StoreOptions, named: SharedNames) -> list[str]:
    limits = options.keep or KeepLimits()
    return [
        *[
            f"scripts[{repr_of(name)}] is {repr_of(model):.80}: expected a model, such as ScriptedModel([says('Hi.')])"
            for name, model in (scripts.items() if isinstance(scripts, Mapping) else ())
            if not offers(model, Provider)
        ],
        *faults_of_keeping(
            store, options.patience, options.resume, options.on_drift, options.hibernate_after
        ),
        *faults_of_durability(options.durability),
        *faults_of_limits(store, limits.days, limits.size_bytes),
        *faults_of_node(options.advertise, options.lease),
        *named.faults(),
        *faults_of_shared(store, named.memories, named.notes),
    ]


def _find_models(
    http: HttpClients, environ: Environment, scripts: Mapping[str, Provider]
) -> tuple[ResolveProvider, Profiles]:
    # A profile has its own key and address. Those of the environment are for another server.
    profiles = Profiles(partial(make_provider, http=http, environ=MappingProxyType({})))

    def resolve(model: str, provider_opts: Mapping[str, Any]) -> Provider:
        if model.startswith("scripted:") and not provider_opts and model != "scripted:":
            return _script_of(model, scripts)
        return make_provider(model, provider_opts, http=http, environ=environ, profiles=profiles)

    return resolve, profiles


def make_sandbox(
    name: str,
    working_dir: Path,
    *,
    shell_fallback: ShellFallback = "refuse",
    environ: Environment = MappingProxyType({}),
) -> OwnSandbox:
    """Create a sandbox from its name: `local`, `local:/path`, `memory`, `http://host:port`, `https://…` or `container:IMAGE`."""
    kind, _, path = name.partition(":")
    if name == "memory":
        return MemorySandbox()
    if kind == "local":
        return LocalSandbox(path or working_dir, shell_fallback=shell_fallback)
    if kind == "container":
        return ContainerSandbox(
            name.removeprefix(CONTAINER), skills=skills_below(working_dir), working_dir=working_dir
        )
    if is_remote(name):
        return RemoteSandbox(name, token=Secret(environ.get(SANDBOX_TOKEN_VARIABLE, "")))
    raise OptionError([f"sandbox is {name!r}: expected {ADDRESS_FORMS}"])


def make_source(
    server: ToolServer,
    owner: str = "",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    environ: Environment = MappingProxyType({}),
) -> ToolSource:
    """Create the source of an MCP server. Imported here, so that a program without servers loads none of it."""
    opener = import_module("agentrail.sandboxes.server_process")
    made: ToolSource = import_module("agentrail.tools.mcp.source").source_of_server(
        server, opener.open_server_process, partial(find_data_directory, environ, data_dir), owner
    )
    return made


def make_provider(
    model: str,
    provider_opts: Mapping[str, Any],
    *,
    http: HttpClients,
    environ: Environment,
    profiles: Profiles | None = None,
) -> Provider:
    """Create a provider from a model string and options. Makes no connection."""
    name = provider_of(model, has_profiles=profiles is not None and bool(profiles.list()))
    if name in _WITHOUT_OPTIONS and provider_opts:
        raise OptionError(
            [f"{name}: takes no provider options, got {', '.join(sorted(map(str, provider_opts)))}"]
        )
    if name == "scripted":
        return _script_of(model, {})
    if name == "demo":
        return Demo(pause_seconds=0.0) if model == "demo:fast" else Demo()
    if name == "registry":
        if profiles is None:
            message = f"{model!r:.200}: no profiles are registered; a program registers them with supervisor.providers.register"
            raise ModelNotFound(message)
        return profiles.provider_for(model, provider_opts)
    key_variable, url_variable = VARIABLES[name]
    key = environ.get(key_variable) or environ.get(SECOND_KEYS.get(key_variable, "")) or None
    found = {"api_key": key, "base_url": environ.get(url_variable) or None}
    _check_found(
        {option: value for option, value in found.items() if option not in provider_opts},
        {"api_key": key_variable, "base_url": url_variable},
    )
    options = ProviderOptions.parse({**found, **provider_opts})
    is_keyless = name in _KEYLESS_ELSEWHERE and options.base_url is not None
    if options.api_key is None and not is_keyless:
        message = f"{model} needs a key: {advise(Advice.NO_KEY, variable=key_variable)}"
        raise Authentication(message)
    return _ADAPTERS[name](options, http)


def _script_of(model: str, scripts: Mapping[str, Provider]) -> Provider:
    name = model.partition(":")[2]
    if name not in scripts:
        known = ", ".join(sorted(scripts)) or "none"
        message = (
            f"there is no script {name!r:.200}; known scripts: {known}. "
            f"Give it as open_supervisor(scripts={{{name!r:.200}: ScriptedModel(…)}})"
        )
        raise ModelNotFound(message)
    return scripts[name]


def _check_found(found: Mapping[str, object], variables: Mapping[str, str]) -> None:
    # A fault names the variable, because the option itself was not given.
    try:
        ProviderOptions.parse(found)
    except OptionError as error:
        faults = error.faults
        for option, variable in variables.items():
            faults = tuple(fault.replace(f"provider option {option!r}", variable) for fault in faults)
        raise OptionError(faults) from None


def provider_of(model: str, *, has_profiles: bool = False) -> str:
    name, colon, rest = model.partition(":")
    typed = [one for one in PROVIDERS if one != "scripted" and (one != "registry" or has_profiles)]
    known = f"Providers are {', '.join(typed)}, as in 'anthropic:{DEFAULT_MODELS['anthropic']}' or 'demo:'"
    if not colon:
        start = model[:200]
        head, slash, tail = start.partition("/")
        near = near_name(head, PROVIDERS, "{}")
        if near and (slash or near == "demo"):
            meant: str | None = f"{near}:{tail}"
        else:
            meant = likely_model(start, DEFAULT_MODELS)
        guess = "" if meant is None else f" {advise(Advice.MODEL_WITHOUT_PROVIDER, model=meant)}"
        message = f"{model!r:.200} is not a model string, expected provider:name.{guess} {known}"
        raise ModelNotFound(message)
    if name not in PROVIDERS:
        guess = _guess_for_provider(name[:200], rest[:200])
        message = f"there is no provider {name!r:.200}.{guess} {known}"
        raise ModelNotFound(message)
    if not rest and name != "demo":
        example = DEFAULT_MODELS.get(name, "NAME" if name == "scripted" else "PROFILE:MODEL")
        message = f"{model!r:.200} lacks a model name: write it after the colon, such as '{name}:{example}'"
        raise ModelNotFound(message)
    return name


def _guess_for_provider(name: str, rest: str) -> str:
    provider = near_name(name, PROVIDERS, "{}") or likely_provider(name)
    # The colon in `llama3.2:3b` belongs to the model.
    meant = f"{provider}:{rest}" if provider is not None else likely_model(f"{name}:{rest}", {})
    if meant is None:
        return ""
    url = usual_address(name)
    address = "" if url is None else f" with base_url {url} (--base-url with the command)"
    return f" {advise(Advice.PROVIDER_UNKNOWN, model=meant, address=address)}"


# --- the default model of the command


@frozen(kw_only=True)
class ChosenModel:
    model: str
    why: str


async def choose_model(
    environ: Environment, *, wanted: str | None, base_url: str | None, api_key: Secret | None = None
) -> ChosenModel:
    """Choose the wanted model, otherwise one from the environment, otherwise `demo:`.

    A server in `OPENAI_BASE_URL` (or `base_url`) is asked for its first model.
    """
    if wanted:
        return ChosenModel(model=wanted, why="--model")
    if environ.get("AGENTRAIL_MODEL"):
        return ChosenModel(model=environ["AGENTRAIL_MODEL"], why="AGENTRAIL_MODEL is set")
    if base_url is None and environ.get("ANTHROPIC_API_KEY"):
        return ChosenModel(model=f"anthropic:{DEFAULT_MODELS['anthropic']}", why="ANTHROPIC_API_KEY is set")
    server = base_url or environ.get("OPENAI_BASE_URL")
    if server:
        if base_url is None:
            _check_found({"base_url": server}, {"base_url": "OPENAI_BASE_URL"})
        key = api_key.reveal() if api_key is not None else environ.get("OPENAI_API_KEY")
        first = await first_model_of(server, key)
        return ChosenModel(model=f"openai-chat:{first}", why=f"the first model of {server}")
    if environ.get("OPENAI_API_KEY"):
        return ChosenModel(model=f"openai:{DEFAULT_MODELS['openai']}", why="OPENAI_API_KEY is set")
    if environ.get("GEMINI_API_KEY"):
        return ChosenModel(model=f"google:{DEFAULT_MODELS['google']}", why="GEMINI_API_KEY is set")
    return ChosenModel(model="demo:", why="no key is set: the built-in demo model, offline and scripted")


async def first_model_of(base_url: str, api_key: str | None) -> str:
    try:
        models = await list_models(base_url, api_key)
    except ProviderError as error:
        message = (
            f"the models of {base_url} could not be listed ({error}): name one with --model openai-chat:NAME"
        )
        raise ModelNotFound(message) from None
    if not models:
        message = f"{base_url} lists no model: name one with --model openai-chat:NAME"
        raise ModelNotFound(message)
    return models[0]


async def list_models(base_url: str, api_key: str | None) -> tuple[str, ...]:
    """List the models of an OpenAI-compatible server. Costs no tokens."""
    options = ProviderOptions.parse({"base_url": base_url, "api_key": api_key or None})
    key = options.api_key.reveal() if isinstance(options.api_key, Secret) else None
    vendor = Vendor(
        name=base_url,
        key_help="set OPENAI_API_KEY to a key of this server",
        secrets=(key,) if key else (),
        base_url=options.base_url or "",
        is_compatible=urlsplit(base_url).hostname != urlsplit(VENDOR_URLS["openai"]).hostname,
    )
    headers = {"accept": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
    with trio.move_on_after(ASK_WITHIN_SECONDS):
        async with HttpClients() as http:
            with no_keys_shown(vendor):
                return read_models(
                    await http.get_text(f"{options.base_url}/models", headers=headers, vendor=vendor)
                )
    message = f"{base_url} did not answer within {ASK_WITHIN_SECONDS:g} s: check that the server is running"
    raise Timeout(message)


def read_models(text: str) -> tuple[str, ...]:
    listed = decode_object(text).get("data")
    if not isinstance(listed, list):
        message = "expected a list of models, got an object without one: check that the base URL ends in /v1"
        raise ProtocolError(message)
    return tuple(str(entry["id"]) for entry in listed if isinstance(entry, dict) and entry.get("id"))
