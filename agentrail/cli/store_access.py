"""Stores in commands: the options that name one, reading while another process writes, and replaying journals."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from functools import wraps
from pathlib import Path
from typing import Annotated, Final, ParamSpec

from attrs import frozen
from cyclopts import Parameter

from agentrail.abc.held_secrets import secrets_in_variables
from agentrail.abc.store import TEMPORARY_SESSIONS, Filters, OwedStore, Store, StoredSession, owed_rows
from agentrail.cli.exit_codes import Exit, describe_error
from agentrail.cli.log_output import Debug, send_logs_to_stderr
from agentrail.cli.stdio import write_error, write_text
from agentrail.cli.storage_options import DEFAULT_STORE, STORE_VARIABLE, DataDirectory, directory_for
from agentrail.config.settings import modules_of
from agentrail.core.journal.fold import GetBlob, Sources
from agentrail.core.journal.record import Record
from agentrail.core.values.port_members import offers
from agentrail.errors import AgentrailError, OptionError, SessionNotFound, StoreUnavailable, YourMove
from agentrail.messages import SessionId
from agentrail.named_modules import NAMED_MODULES
from agentrail.runtime.journal_state import Journal
from agentrail.runtime.persistence import has_other_nodes
from agentrail.runtime.plugin_watch import QuietWatch
from agentrail.runtime.session_loader import (
    PluginFinder,
    Revived,
    all_sessions as all_sessions,  # noqa: PLC0414 - for other commands
    read_after,
    revive,
)
from agentrail.runtime.tree_secrets import knowing, without_known
from agentrail.stores.append_rules import NodeLease
from agentrail.stores.sqlite_files import writer_of
from agentrail.stores.store_names import open_store

P = ParamSpec("P")


@Parameter(name="*")
@frozen(kw_only=True)
class StorePlace:
    """The store that a command reads.

    Attributes:
        data_dir: The data directory, or None for the default.
    """

    store: Annotated[
        str,
        Parameter(
            help="Where sessions are: sqlite:PATH, sqlite: for the file in the data directory, or postgres://USER@HOST/DATABASE.",
            env_var=STORE_VARIABLE,
        ),
    ] = DEFAULT_STORE
    data_dir: DataDirectory = None
    scope: Annotated[str, Parameter(help="The scope of the sessions. Default: all scopes in lists.")] = ""
    debug: Debug = False


USUAL_PLACE: Final = StorePlace()

_OVERWRITE_TRIES: Final = 10
_PAUSE_SECONDS: Final = 0.5
"""Attempts to overwrite while another process reads the store, and the delay between them in seconds."""

SessionArgument = Annotated[str, Parameter(help="The id of the session, as `sessions list` shows it.")]
JsonLines = Annotated[bool, Parameter(name="--json", help="Print one JSON object per line.")]


def reading(place: StorePlace) -> closing[Store]:
    """Open a store for reading, even while another process writes it."""
    return closing(open_store(place.store, directory_for(place.store, place.data_dir), read_only=True))


def writing(place: StorePlace) -> closing[Store]:
    return closing(open_store(place.store, directory_for(place.store, place.data_dir)))


def overwrite(store: Store) -> bool:
    """Overwrite deleted data, and return whether that is done. A reader may prevent it, and a database never does it."""
    for attempt in range(1 if has_other_nodes(store) else _OVERWRITE_TRIES):
        if attempt:
            time.sleep(_PAUSE_SECONDS)
        if store.overwrite_removed():
            return True
    return False


# --- finding sessions


def shown_id(stored: StoredSession) -> str:
    """Return the name of a session in lists and commands: its id, after its scope if it has one."""
    return in_scope(stored.scope, stored.session)


def in_scope(scope: str, session: str) -> str:
    return f"{scope}/{session}" if scope else session


def listed_sessions(store: Store, filters: Filters) -> Iterator[StoredSession]:
    """Yield sessions without the temporary ones of a server."""
    hidden = {row.id for row in owed_rows(store, TEMPORARY_SESSIONS)} if offers(store, OwedStore) else ()
    return (one for one in all_sessions(store, filters) if shown_id(one) not in hidden)


def find_one(store: Store, session: str, scope: str) -> StoredSession:
    """Find a session by its id, or by `SCOPE/ID`, the form that `sessions list` shows."""
    session = session.encode("utf-8", "replace").decode()  # no id has bytes that are not UTF-8
    found = store.get(scope, SessionId(session))
    if found is not None:
        return found
    of_scope, slash, own = session.partition("/")
    found = store.get(of_scope, SessionId(own)) if slash and not scope else None
    if found is not None:
        return found
    nearest: tuple[str, ...] = ()
    try:
        store.read(scope, SessionId(session), 0, 1)
    except SessionNotFound as error:
        nearest = error.nearest
    elsewhere = [
        shown_id(one)
        for one in all_sessions(store, Filters(root=SessionId(session), only_roots=True))
        if one.scope != scope
    ]
    if elsewhere:
        message = f"session {session!r} belongs to a scope, such as a server's tenant: call it {' or '.join(elsewhere)}"
        raise SessionNotFound(message, nearest=tuple(elsewhere))
    like = f"; similar ids: {', '.join(map(repr, nearest))}" if nearest else ""
    message = f"there is no session {session!r:.200}{like}: agentrail sessions list shows the stored ones"
    raise SessionNotFound(message, nearest=nearest)


def latest_first(store: Store) -> list[StoredSession]:
    filters = Filters(scope="", only_roots=True, has_ended=False)
    return sorted(all_sessions(store, filters), key=lambda one: one.written_at_ms, reverse=True)


def latest_of(store: Store, current: str = "") -> StoredSession:
    """Return the latest session to resume, if possible another one than the current session."""
    found = latest_first(store)
    if not found:
        message = "there is no session to resume: agentrail chat without --resume starts one"
        raise SessionNotFound(message)
    return next((one for one in found if one.session != current), found[0])


@frozen(kw_only=True)
class Owners:
    """The nodes that own sessions now. Only a living owner shows that a session runs, never the stored state.

    Attributes:
        alive: The ids of nodes seen within the lease, or their own if it is longer. For a file store, only while its writing process exists.
    """

    alive: frozenset[str]

    @staticmethod
    def of(store: Store, *, lease_ms: int = 15_000) -> "Owners":
        path = getattr(store, "path", None)
        if isinstance(path, Path) and writer_of(path) is None:
            return Owners(alive=frozenset())
        lease = NodeLease(store.now_ms(), lease_ms)
        return Owners(alive=frozenset(node.id for node in store.nodes() if lease.may_run(node)))

    def owns(self, stored: StoredSession) -> bool:
        return stored.node in self.alive


# --- replaying a journal


def records_of(store: Store, stored: StoredSession) -> tuple[Record, ...]:
    return read_after(store, stored.scope, stored.session, 0, stored.tail.seq)


def sources_of(session: SessionId, blob: GetBlob) -> Sources:
    """Return the sources of a fold: plugins, imported from where they were defined, and large values."""
    watch, finder = _code_of(session)
    return Sources(resolve=finder, ask=watch, blob=blob)


def state_of(store: Store, stored: StoredSession) -> Revived:
    watch, finder = _code_of(stored.session)
    return revive(store, stored, finder, watch)


def journal_of(store: Store, stored: StoredSession) -> Journal:
    """Return the journal of a session, with its plugins resolved as in `sources_of`. Nothing is read yet."""
    watch, finder = _code_of(stored.session)
    return Journal(store, stored, finder, watch)


def _code_of(session: SessionId) -> tuple[QuietWatch, PluginFinder]:
    admit_named_code()
    watch, finder = QuietWatch(session, {}), PluginFinder({})
    watch.find_others(finder)
    return watch, finder


def admit_named_code() -> None:
    """Permit imports of the modules that the current directory's trusted configuration files name. Imports none yet."""
    from agentrail.blueprints.config_discovery import find_files  # same as in `config_setup.py`

    with suppress(OptionError):  # faulty files permit nothing, and other commands report them
        found = find_files(None, os.environ, Path.cwd())
        if not found.project and not found.user:
            return
        from agentrail.blueprints.configuration import read_configuration

        settings = read_configuration(os.environ, files=found).settings
        for module, folder in modules_of(settings):
            NAMED_MODULES.admit(NAMED_MODULES.trace(module, folder))


# --- exit codes of store commands


def store_command(command: Callable[P, Exit | None]) -> Callable[P, Exit]:
    """Make a command of a function that uses stores. Without an exit code it is done."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> Exit:
        send_logs_to_stderr(debug=getattr(kwargs.get("place"), "debug", False))
        try:
            # A command does not know the secrets of a session, but those of its environment are probably the same.
            with knowing(secrets_in_variables(os.environ)):
                return command(*args, **kwargs) or Exit.DONE
        except AgentrailError as error:
            write_error(describe_error(error))
            return Exit.USAGE if isinstance(error, YourMove | StoreUnavailable) else Exit.FAILED

    return run


def say(*lines: str) -> None:
    for line in lines:
        write_text(f"{without_known(line)}\n")


def write_new_file(file: Path, pieces: Iterable[bytes]) -> None:
    """Write a new file. A part of it would look like all, so it is removed."""
    is_own = False
    try:
        with file.open("xb") as opened:
            is_own = True
            opened.writelines(pieces)
        is_own = False
    except FileExistsError:
        raise OptionError([f"{file} already exists: name a new file"]) from None
    except (OSError, ValueError) as error:  # the second for a NUL in the name
        raise OptionError([f"{file} cannot be written: {getattr(error, 'strerror', error)}"]) from error
    finally:
        if is_own:
            file.unlink(missing_ok=True)
