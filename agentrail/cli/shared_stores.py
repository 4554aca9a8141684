"""Stores of `run`, `chat` and `sessions recover` in addition to journals: memories, working notes, knowledge, embedder."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final

from agentrail.abc.store import Store
from agentrail.app import open_supervisor
from agentrail.cli.config_setup import CommandSetup
from agentrail.cli.storage_options import DEFAULT_STORE, KeepingOptions, directory_of
from agentrail.errors import StoreUnavailable
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.sandboxes.fallback import ShellFallback
from agentrail.stores.store_urls import PRIVATE, is_shared_store

_NOWHERE: Final = "memory:"


@asynccontextmanager
async def open_equipped(
    keeping: KeepingOptions | None = None,
    setup: CommandSetup | None = None,
    *,
    store: Store | None,
    shell_fallback: ShellFallback = "refuse",
) -> AsyncIterator[SessionSupervisor]:
    """Open the supervisor of a command for a block.

    Cancellation: Same as `open_supervisor`.
    """
    shared = shared_stores(keeping, setup)
    is_kept = keeping is not None and store is not None
    async with (
        shared.get("embedder") or nullcontext(),
        open_supervisor(
            shell_fallback=shell_fallback,
            store=store,
            keep_days=keeping.keep_days if keeping is not None and is_kept else None,
            keep_bytes=keeping.keep_bytes if keeping is not None and is_kept else None,
            **shared,
        ) as supervisor,
    ):
        yield supervisor


def shared_stores(keeping: KeepingOptions | None, setup: CommandSetup | None) -> dict[str, Any]:
    from agentrail.cli.host_config import named_telemetry

    named: dict[str, Any] = named_telemetry(
        None if setup is None else setup.configuration.settings, os.environ
    )
    of_host: Path | None = None
    if setup is not None:
        from agentrail.blueprints.mcp_servers import servers_of
        from agentrail.cli.host_config import directory_of_host, embedder_of, named_databases

        settings = setup.configuration.settings
        named |= {name: place for name, place in named_databases(settings).items() if name != "store"}
        of_host = directory_of_host(settings, os.environ)
        embedder = embedder_of(settings)
        named |= {} if embedder is None else {"embedder": embedder}
        named |= {"mcp": servers_of(settings, os.environ)} if settings.mcp else {}
    usual: dict[str, Any] = {}
    directory = _data_directory((None if keeping is None else keeping.data_dir) or of_host)
    if directory is not None:
        usual = {
            "memories": PRIVATE if is_shared_store(keeping and keeping.store) else DEFAULT_STORE,
            "knowledge": DEFAULT_STORE,
            "data_dir": directory,
        }
    if keeping is not None and keeping.store == _NOWHERE:
        named["memories"] = _NOWHERE
    return usual | named


def _data_directory(given: Path | None) -> Path | None:
    """Return the data directory, or None if there is none: a command that remembers nothing needs none."""
    with suppress(StoreUnavailable):
        return directory_of(given)
    return None
