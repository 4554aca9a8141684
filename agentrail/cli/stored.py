"""Stores as commands use them: the options that name one, reading beside a process that writes, and what a journal comes to.

Nothing here writes to a store, and nothing carries out an effect.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Final

from attrs import frozen
from cyclopts import Parameter

from agentrail.abc.held_secrets import secrets_in_variables
from agentrail.abc.store import Filters, Store, StoredSession
from agentrail.cli.exits import Exit, describe_error
from agentrail.cli.kept_in import DEFAULT_STORE, DataDirectory, directory_of
from agentrail.cli.logs import Debug
from agentrail.cli.output import OutputClosed, OutputFailed, write_all, write_error
from agentrail.cli.printing import end_without_output
from agentrail.config.settings import modules_of
from agentrail.core.journal.folding import GetBlob, Sources
from agentrail.core.journal.record import Record
from agentrail.errors import AgentrailError, OptionError, SessionNotFound, StoreUnavailable, YourMove
from agentrail.messages import SessionId
from agentrail.named_modules import NAMED_MODULES
from agentrail.runtime.past import Journal
from agentrail.runtime.plugin_watch import QuietWatch
from agentrail.runtime.reviving import PluginFinder, Revived, read_after, revive
from agentrail.runtime.withheld import knowing, without_known
from agentrail.stores.named import open_store
from agentrail.stores.sqlite_files import writer_of


@Parameter(name="*")
@frozen(kw_only=True)
class StorePlace:
    """Where commands look for sessions.

    Attributes:
        data_dir: The data directory; None for the usual one.
        debug: Whether a crash is shown with its traceback.
    """

    store: Annotated[
        str, Parameter(help="Where sessions are: sqlite:PATH, or sqlite: for the file in the data directory.")
    ] = DEFAULT_STORE
    data_dir: DataDirectory = None
    scope: Annotated[
        str, Parameter(help="The scope that the session was started in.", show_default=False)
    ] = ""
    debug: Debug = False


USUAL_PLACE: Final = StorePlace()

_PAGE: Final = 1_000


@contextmanager
def reading(place: StorePlace) -> Iterator[Store]:
    """Open a store to be read, also beside a process that writes it."""
    with _closing(open_store(place.store, directory_of(place.data_dir), read_only=True)) as opened:
        yield opened


@contextmanager
def writing(place: StorePlace) -> Iterator[Store]:
    """Open a store to be changed."""
    with _closing(open_store(place.store, directory_of(place.data_dir))) as opened:
        yield opened


@contextmanager
def _closing(store: Store) -> Iterator[Store]:
    try:
        yield store
    finally:
        store.close()


# --- finding sessions


def shown_id(stored: StoredSession) -> str:
    """Give what a session is called in lists, and may be called in commands: its id, in front of it the scope that it was started in."""
    return in_scope(stored.scope, stored.session)


def in_scope(scope: str, session: str) -> str:
    """Give what a session of a scope is called; see `shown_id`."""
    return f"{scope}/{session}" if scope else session


def all_sessions(store: Store, filters: Filters) -> Iterator[StoredSession]:
    """Give all sessions of a store that filters let through, page by page."""
    after: tuple[str, str] | None = None
    while page := store.find(filters, after=after, limit=_PAGE):
        yield from page
        after = (page[-1].scope, page[-1].session)


def find_one(store: Store, session: str, scope: str) -> StoredSession:
    """Give one session, by its id, or as `sessions list` shows one of a scope: `SCOPE/ID`."""
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
        message = f"session {session!r} is in a scope of its own, as those of a server are: name it {' or '.join(elsewhere)}"
        raise SessionNotFound(message, nearest=tuple(elsewhere))
    like = f"; like it are {', '.join(map(repr, nearest))}" if nearest else ""
    message = f"there is no session {session!r}{like}: agentrail sessions list shows those there are"
    raise SessionNotFound(message, nearest=nearest)


def latest_of(store: Store) -> StoredSession:
    """Give the session that was at work last and can be resumed."""
    filters = Filters(scope="", only_roots=True, has_ended=False)
    latest = max(all_sessions(store, filters), key=lambda one: one.written_at_ms, default=None)
    if latest is None:
        message = "there is no session that could be resumed: agentrail chat without --resume begins one"
        raise SessionNotFound(message)
    return latest


@frozen(kw_only=True)
class Owners:
    """Which nodes own sessions now, so that what runs is told by a live owner and by nothing that was stored.

    Attributes:
        alive: The ids of those that were heard of within the lease. Of a file: where the process that writes it is there, else none.
    """

    alive: frozenset[str]

    @staticmethod
    def of(
        store: Store, *, lease_ms: int = 15_000, is_there: Callable[[int], bool] | None = None
    ) -> "Owners":
        """Look at the nodes of a store."""
        path = getattr(store, "path", None)
        if isinstance(path, Path):
            pid = writer_of(path)
            if pid is None or not (is_there or is_process_there)(pid):
                return Owners(alive=frozenset())
        now = store.now_ms()
        return Owners(alive=frozenset(node.id for node in store.nodes() if now - node.seen_at_ms < lease_ms))

    def owns(self, stored: StoredSession) -> bool:
        """Whether a session has a living owner."""
        return stored.node in self.alive


def is_process_there(pid: int) -> bool:
    """Whether there is a process of this number on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


# --- what a journal comes to


def records_of(store: Store, stored: StoredSession) -> tuple[Record, ...]:
    """Read a whole journal."""
    return read_after(store, stored.scope, stored.session, 0)


def sources_of(session: SessionId, blob: GetBlob) -> Sources:
    """Say where a fold finds the code of plugins, and large values: plugins are imported from where they were defined.

    What may be imported is installed, or named by the trusted configuration files that hold for the current directory.
    """
    watch, finder = _code_of(session)
    return Sources(resolve=finder, ask=watch, blob=blob)


def state_of(store: Store, stored: StoredSession) -> Revived:
    """Say what a journal comes to, from its newest snapshot on."""
    watch, finder = _code_of(stored.session)
    return revive(store, stored, finder, watch)


def journal_of(store: Store, stored: StoredSession) -> Journal:
    """Give the journal of a session, with the code of its plugins as `sources_of` finds it. Nothing is read yet."""
    watch, finder = _code_of(stored.session)
    return Journal(store, stored, finder, watch)


def _code_of(session: SessionId) -> tuple[QuietWatch, PluginFinder]:
    admit_named_code()
    watch, finder = QuietWatch(session, {}), PluginFinder({})
    watch.find_others(finder)
    return watch, finder


def admit_named_code() -> None:
    """Let the modules be imported that the trusted configuration files of the current directory name; none is imported yet."""
    from agentrail.blueprints.finding import find_files  # as in `configuring.py`

    with suppress(OptionError):  # files that are wrong admit nothing; the commands that read them say so
        found = find_files(None, os.environ, Path.cwd())
        if not found.project and not found.user:
            return
        from agentrail.blueprints.configuration import read_configuration

        settings = read_configuration(os.environ, files=found).settings
        for module, folder in modules_of(settings):
            NAMED_MODULES.admit(NAMED_MODULES.trace(module, folder))


# --- how commands over stores end


def run_over_store(work: Callable[[], Exit]) -> Exit:
    """Do what a command does, and say what went wrong as a sentence."""
    try:
        # A command knows no session's secrets. Those of its environment are likely the same.
        with knowing(secrets_in_variables(os.environ)):
            return work()
    except (YourMove, StoreUnavailable) as error:
        write_error(describe_error(error))
        return Exit.USAGE
    except AgentrailError as error:
        write_error(describe_error(error))
    except (OutputFailed, OutputClosed) as error:
        return end_without_output(error)
    return Exit.FAILED


def say(text: str) -> None:
    """Write a line to stdout."""
    write_all(1, f"{without_known(text)}\n".encode("utf-8", "replace"))
