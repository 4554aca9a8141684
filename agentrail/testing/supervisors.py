"""A supervisor for tests: it knows no model by its name, so that no test calls a real one by mistake."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, NoReturn

from agentrail.abc import NO_HOST, Embedder, HostHooks, KnowledgeStore, NoteStore, RecallStore
from agentrail.abc.store import NODE_LEASE_SECONDS, Store
from agentrail.errors import ModelNotFound
from agentrail.runtime.fan_in import EventReader
from agentrail.runtime.hibernation import Resume, Revive
from agentrail.runtime.persistence import STORE_PATIENCE_SECONDS, Durability, OnDrift
from agentrail.runtime.retention import KeepLimits
from agentrail.runtime.session_sandbox import MakeSandbox
from agentrail.runtime.session_stores import SharedStores
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.runtime.supervisor_lifespan import StoreOptions, open_sessions
from agentrail.sandboxes.local import LocalSandbox


def open_nameless(  # noqa: PLR0913 - the same as `open_sessions`
    make_sandbox: MakeSandbox | None = None,
    *,
    host: HostHooks = NO_HOST,
    recall: RecallStore | None = None,
    notes: NoteStore | None = None,
    knowledge: KnowledgeStore | None = None,
    embedder: Embedder | None = None,
    store: Store | None = None,
    store_patience: float = STORE_PATIENCE_SECONDS,
    resume: Resume = "none",
    revive: Revive | None = None,
    on_drift: OnDrift = "park",
    durability: Durability = "grouped",
    keep: KeepLimits | None = None,
    hibernate_after: float | None = None,
    advertise: str = "",
    lease: float = NODE_LEASE_SECONDS,
    state_directory: Path | None = None,
    reader: EventReader | None = None,
) -> AbstractAsyncContextManager[SessionSupervisor]:
    """Open a supervisor whose models are objects, such as a `ScriptedModel`.

    Args:
        make_sandbox: Creates the sandboxes of sessions without one. By default a `LocalSandbox` in their `working_dir`.
        host: Host hooks that judge and observe the calls of its sessions.
        recall: The same as in `SharedStores`.
        notes: The same as in `SharedStores`.
        knowledge: The same as in `SharedStores`.
        embedder: The same as in `SharedStores`.
        store: The same as in `open_sessions`.
        store_patience: The same as `patience` in `StoreOptions`.
        resume: The same as in `StoreOptions`.
        revive: The same as in `StoreOptions`.
        on_drift: The same as in `StoreOptions`.
        durability: The same as in `StoreOptions`.
        keep: The same as in `StoreOptions`.
        hibernate_after: The same as in `StoreOptions`.
        advertise: The same as in `StoreOptions`.
        lease: The same as in `StoreOptions`.
        state_directory: The same as in `StoreOptions`.
        reader: Reader of all committed events.
    """
    return open_sessions(
        _refuse_names,
        make_sandbox or (lambda _name, working_dir: LocalSandbox(working_dir)),
        host=host,
        shared=SharedStores(recall=recall, notes=notes, knowledge=knowledge, embedder=embedder),
        store=store,
        options=StoreOptions(
            patience=store_patience,
            resume=resume,
            revive=revive,
            on_drift=on_drift,
            durability=durability,
            keep=keep,
            hibernate_after=hibernate_after,
            advertise=advertise,
            lease=lease,
            state_directory=state_directory,
        ),
        reader=reader,
    )


def _refuse_names(model: str, _provider_opts: Mapping[str, Any]) -> NoReturn:
    message = f"a test resolves no model strings (got {model!r}); pass an object such as ScriptedModel([...])"
    raise ModelNotFound(message)
